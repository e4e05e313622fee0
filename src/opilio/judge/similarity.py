"""The cosine judge: how much of the page's words are the topic's (S0-23, S3-16, S4-17).

Relevant = contains the query (S3-30). It counts every sense of a word (S3-E7): a measure to print beside others.

The coverage judge, ours: how much of the topic does a page speak of?

Each of the topic's words counts by its weight and rarity, saturating with its frequency and damped by the page's
length (the shape of BM25), so that one word said often is worth less than several said at all. Unlike a cosine, the
score means the same for long and short tables, so that one threshold serves many topics.

A topic given as classes is spoken of in another way: their index terms are names of many things, of which no page has
more than a few. There a page covers the topic as well as its own classes are the topic's.

Several judges as one: the weighted mean of their scores.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from opilio.core.errors import ConfigError, TopicError
from opilio.core.protocols import Judge
from opilio.core.records import Reading, Reason, Verdict
from opilio.learn.logistic import logistic
from opilio.topic.evolving import CompiledTable, EvolvingTopic
from opilio.topic.page_terms import PageTerms

CosineNorm = Literal["page", "topic", "whole"]
COSINE_REASONS = 10  # words named in a verdict
COSINE_THRESHOLD = 0.13


class CosineJudge:
    """Score = cosine of the page and the topic's table.

    `norm` is over what the page's length is taken (X-01): "page" all its words (S4-17; "whole" is S3's name for
    the same), "topic" only the topic's words, as S0-23 is printed: one matching word is then enough for a high score.
    A page passes at score ≥ threshold, or > where `strict` (X-02). The papers give no threshold (S0-E8). Ours is for
    norm "page" and damped counts: between .10 (best F1 for tables from keywords alone) and .15 (with seed pages too)
    on the web that `pagewords` names; norm "topic" needs about .5.
    """

    def __init__(
        self,
        topic: EvolvingTopic,
        words: PageTerms,
        threshold: float = COSINE_THRESHOLD,
        norm: CosineNorm = "page",
        strict: bool = False,
    ) -> None:
        if norm not in ("page", "topic", "whole"):
            raise ConfigError(f'judge.norm: "{norm}" is unknown; known: page, topic, whole')
        self.topic = topic
        self.words = words
        self.threshold = threshold
        self.norm = norm
        self.strict = strict

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        sight = self.topic.compiled
        terms, counts = self.words.counts(reading)
        topic = sight.weigh(terms)
        # The other words of the page count for nothing: they need no weight
        if self.norm == "topic":
            known = topic.nonzero()[0]
            terms, counts, topic = terms[known], counts[known], topic[known]
        page = self.words.weights_for(terms, counts)
        products = topic * page
        shared = products.nonzero()[0]
        own = page[shared] if self.norm == "topic" else page
        length = math.sqrt(float(own @ own)) * sight.norm
        score = min(1.0, float(products.sum()) / length) if length else 0.0
        best = shared[np.argsort(-products[shared], kind="stable")[:COSINE_REASONS]]
        named = zip(terms[best].tolist(), (products[best] / (length or 1.0)).tolist(), strict=True)
        words = tuple(Reason(sight.labels[t], value, sight.vector[t]) for t, value in named)
        summary = Reason("cosine", score), Reason("topic words", float(len(shared)), 0.0)
        return Verdict(score=score, relevant=self._passes(score), reasons=summary + words)

    def _passes(self, score: float) -> bool:
        return score > self.threshold if self.strict else score >= self.threshold


class ContainsJudge:
    """Score = share of the query's words that the page has; relevant with all of them, or any."""

    def __init__(self, query: str, words: PageTerms, need: Literal["all", "any"] = "all") -> None:
        self.query = query
        self.words = words
        self.need = need
        self._terms = tuple(dict.fromkeys(words.terms(query)))
        if not self._terms:
            raise TopicError(f'the query "{query}" has no words to look for; give it at least one that is no stop word')

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        said = set(self.words.counts(reading)[0].tolist())
        hits = len(said.intersection(self._terms))
        score = hits / len(self._terms)
        relevant = score == 1.0 if self.need == "all" else score > 0.0
        reasons = Reason("query words", score), Reason("query words found", float(hits), 0.0)
        return Verdict(score=score, relevant=relevant, reasons=reasons)


COVERAGE_REASONS = 10
MAX_IDF = 7.0
HALF_SATURATION = 0.5  # occurrences at which a word has half of its effect on a page without length
SATURATION_PER_WORD = 0.003  # more occurrences are needed on longer pages


class CoverageJudge:
    """Verdict.score is a probability: the coverage pushed through a logistic curve around `middle`.

    `classes` judges by the topic's classes, where it was given as such.
    """

    def __init__(
        self,
        topic: EvolvingTopic,
        words: PageTerms,
        middle: float = 0.25,
        slope: float = 14.0,
        classes: Judge | None = None,
    ) -> None:
        self.topic = topic
        self.words = words
        self.middle = middle
        self.slope = slope
        self.classes = classes
        self._full_coverage_cache: tuple[CompiledTable, float] | None = None

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        coverage, reasons = self._word_coverage(reading)
        if self.classes:
            # 0.5: as likely of the topic's classes as not
            told = self.classes.judge(reading)
            coverage, reasons = max(coverage, min(1.0, 2.0 * self.middle * told.score)), [*told.reasons, *reasons]
        score = logistic(self.slope * (coverage - self.middle))
        return Verdict(score=score, relevant=score >= 0.5, reasons=(Reason("coverage", coverage), *reasons))

    def _word_coverage(self, reading: Reading) -> tuple[float, list[Reason]]:
        sight = self.topic.compiled
        terms, counts = self.words.counts(reading)
        weights = sight.weigh(terms)
        shared = np.flatnonzero(weights)
        rarity = np.minimum(self.words.idf(terms[shared]), MAX_IDF)
        worth = weights[shared] * rarity
        length = float(counts.sum())
        parts = worth * counts[shared] / (counts[shared] + HALF_SATURATION + SATURATION_PER_WORD * length)
        whole = self._full_coverage(sight)
        coverage = min(1.0, float(parts.sum()) / whole) if whole else 0.0
        best = np.argsort(-parts, kind="stable")[:COVERAGE_REASONS]
        named = zip(terms[shared[best]].tolist(), (parts[best] / (whole or 1.0)).tolist(), strict=True)
        return coverage, [Reason(sight.labels[term], value, sight.vector[term]) for term, value in named]

    def _full_coverage(self, sight: CompiledTable) -> float:
        """What a page that speaks of all the topic's words would have; worked out once for a table."""
        if self._full_coverage_cache is None or self._full_coverage_cache[0] is not sight:
            self._full_coverage_cache = (
                sight,
                float((sight.weights * np.minimum(self.words.idf(sight.terms), MAX_IDF)).sum()),
            )
        return self._full_coverage_cache[1]


class BlendJudge:
    """Mean of scores by weight, against one threshold. `judges` are (name, judge, weight)."""

    def __init__(
        self, judges: Sequence[tuple[str, Judge, float]], threshold: float = 0.5, strict: bool = False
    ) -> None:
        if not judges or any(w < 0 for _, _, w in judges) or not sum(w for _, _, w in judges):
            raise ConfigError("judge.blend: give at least one judge with a weight above 0, and none below 0")
        self.judges = tuple(judges)
        self.threshold = threshold
        self.strict = strict

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        total = sum(weight for _, _, weight in self.judges)
        score = 0.0
        named: list[Reason] = []
        inner: list[Reason] = []
        for name, judge, weight in self.judges:
            verdict = judge.judge(reading)
            score += verdict.score * weight / total
            named.append(Reason(name, verdict.score, weight / total))
            inner.extend(verdict.reasons)
        score = min(1.0, score)
        relevant = score > self.threshold if self.strict else score >= self.threshold
        return Verdict(score=score, relevant=relevant, reasons=(Reason("blend", score), *named, *inner))
