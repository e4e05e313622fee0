"""Judges that compare a page with the topic's words: cosine, query words, coverage, and a blend of judges.

The cosine judge (S0-23, S3-16, S4-17) measures how much of the page is about the topic. `ContainsJudge` is the paper's
relevance measure (S3-30), which ignores senses (S3-E7). The coverage judge measures how much of the topic a page
covers: each topic word counts by weight and rarity, saturates with its frequency and is damped by the page's length (as
in BM25), so that several words are worth more than one repeated word. Unlike a cosine, coverage is independent of the
table's length, so that one threshold serves many topics. For a topic given as Dewey classes, whose index terms are many
names, a page covers the topic as well as its own classes match.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from opilio.core.errors import ConfigError, TopicError
from opilio.core.protocols import COVERAGE, Judge
from opilio.core.records import Reading, Reason, Verdict
from opilio.core.registry import build_component, complete_section
from opilio.core.settings import Amount, Count, Share
from opilio.learn.logistic import logistic
from opilio.topic.evolving import CompiledTable, EvolvingTopic, sized_threshold
from opilio.topic.page_terms import PageTerms, TermWeighting
from opilio.topic.setup import BuildContext

CosineNorm = Literal["page", "topic", "whole"]
COSINE_REASONS = 10  # words in a verdict
COSINE_THRESHOLD = 0.13


class CosineJudge:
    """Score = cosine of the page and the topic's table.

    `norm` selects the words of the page's norm (X-01): "page" all its words (S4-17; "whole" is S3's name for it),
    "topic" only the topic's words, as S0-23 is printed: then one matching word is enough for a high score. A page
    passes at score ≥ threshold, or > if `strict` (X-02). The papers give no threshold (S0-E8). The default is for norm
    "page" and damped counts: between .10 (best F1 for tables from keywords alone) and .15 (with seed pages) on the web
    that `page_terms` mentions; norm "topic" needs about .5. `threshold_words`: see `sized_threshold`.
    """

    def __init__(
        self,
        topic: EvolvingTopic,
        words: PageTerms,
        threshold: float = COSINE_THRESHOLD,
        norm: CosineNorm = "page",
        strict: bool = False,
        threshold_words: int = 0,
    ) -> None:
        if norm not in ("page", "topic", "whole"):
            raise ConfigError(f"judge.norm '{norm}': unknown; known: page, topic, whole")
        self.topic = topic
        self.words = words
        self.threshold = threshold
        self.norm = norm
        self.strict = strict
        self.threshold_words = threshold_words

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        table = self.topic.compiled
        terms, counts = self.words.counts(reading)
        topic = table.weigh(terms)
        # The other words of the page do not count, so they need no weight.
        if self.norm == "topic":
            known = topic.nonzero()[0]
            terms, counts, topic = terms[known], counts[known], topic[known]
        page = self.words.weights_for(terms, counts)
        products = topic * page
        shared = products.nonzero()[0]
        length = math.sqrt(float(page @ page)) * table.norm
        score = min(1.0, float(products.sum()) / length) if length else 0.0
        best = shared[np.argsort(-products[shared], kind="stable")[:COSINE_REASONS]]
        named = zip(terms[best].tolist(), (products[best] / (length or 1.0)).tolist(), strict=True)
        words = tuple(Reason(table.labels[t], value, table.vector[t]) for t, value in named)
        summary = Reason("cosine", score), Reason("topic words", float(len(shared)), 0.0)
        return Verdict(score=score, relevant=self._passes(score), reasons=summary + words)

    def _passes(self, score: float) -> bool:
        threshold = sized_threshold(self.threshold, self.threshold_words, self.topic.compiled.size)
        return score > threshold if self.strict else score >= threshold


class ContainsJudge:
    """Score = share of the query's words on the page; relevant with all of them, or any."""

    def __init__(self, query: str, words: PageTerms, need: Literal["all", "any"] = "all") -> None:
        self.query = query
        self.words = words
        self.need = need
        self._terms = tuple(dict.fromkeys(words.terms(query)))
        if not self._terms:
            raise TopicError(f'the query "{query}" contains only stop words; give at least one other word')

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        terms = set(self.words.counts(reading)[0].tolist())
        hits = len(terms.intersection(self._terms))
        score = hits / len(self._terms)
        relevant = score == 1.0 if self.need == "all" else score > 0.0
        reasons = Reason("query words", score), Reason("query words found", float(hits), 0.0)
        return Verdict(score=score, relevant=relevant, reasons=reasons)


COVERAGE_REASONS = 10
MAX_IDF = 7.0
# Occurrences with half of the maximum effect on a page of length 0.
HALF_SATURATION = 0.5
# More occurrences are needed on longer pages.
SATURATION_PER_WORD = 0.003


class CoverageJudge:
    """Verdict.score is a probability: the logistic function of the coverage around `middle`.

    `classes` judges by the topic's Dewey classes, if it has any.
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
            # A score of 0.5 corresponds to a coverage of `middle`.
            by_class = self.classes.judge(reading)
            coverage = max(coverage, min(1.0, 2.0 * self.middle * by_class.score))
            reasons = [*by_class.reasons, *reasons]
        score = logistic(self.slope * (coverage - self.middle))
        return Verdict(score=score, relevant=score >= 0.5, reasons=(Reason(COVERAGE, coverage), *reasons))

    def _word_coverage(self, reading: Reading) -> tuple[float, list[Reason]]:
        table = self.topic.compiled
        terms, counts = self.words.counts(reading)
        weights = table.weigh(terms)
        shared = np.flatnonzero(weights)
        rarity = np.minimum(self.words.idf(terms[shared]), MAX_IDF)
        worth = weights[shared] * rarity
        length = float(counts.sum())
        parts = worth * counts[shared] / (counts[shared] + HALF_SATURATION + SATURATION_PER_WORD * length)
        whole = self._full_coverage(table)
        coverage = min(1.0, float(parts.sum()) / whole) if whole else 0.0
        best = np.argsort(-parts, kind="stable")[:COVERAGE_REASONS]
        named = zip(terms[shared[best]].tolist(), (parts[best] / (whole or 1.0)).tolist(), strict=True)
        return coverage, [Reason(table.labels[term], value, table.vector[term]) for term, value in named]

    def _full_coverage(self, table: CompiledTable) -> float:
        """The coverage sum of a page with all topic words; cached per table."""
        if self._full_coverage_cache is None or self._full_coverage_cache[0] is not table:
            self._full_coverage_cache = (
                table,
                float((table.weights * np.minimum(self.words.idf(table.terms), MAX_IDF)).sum()),
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


def cosine_judge(
    context: BuildContext,
    *,
    threshold: Share = COSINE_THRESHOLD,
    norm: CosineNorm = "page",
    weights: TermWeighting = "damped",
    strict: bool = False,
    threshold_words: Count = 0,
) -> Judge:
    words = context.page_words.with_weighting(weights)
    return CosineJudge(context.evolving_topic, words, threshold, norm, strict, threshold_words)


def contains_judge(context: BuildContext, *, need: Literal["all", "any"] = "all") -> Judge:
    return ContainsJudge(context.topic.name, context.page_words, need)


def coverage_judge(context: BuildContext, *, middle: Share = 0.25, slope: Amount = 14.0) -> CoverageJudge:
    # A topic that is given as classes is judged by its classes too.
    by_class = complete_section("judge", {"kind": "dewey"}) if context.topic.dewey else None
    classes: Judge | None = build_component("judge", by_class, context) if by_class else None
    return CoverageJudge(context.evolving_topic, context.page_words, middle, slope, classes)


def blend_judge(
    context: BuildContext,
    *,
    cosine: Amount = 1.0,
    contains: Amount = 1.0,
    coverage: Amount = 0.0,
    threshold: Share = 0.5,
    strict: bool = False,
) -> Judge:
    parts: list[tuple[str, Judge, float]] = []
    if cosine:
        parts.append(("cosine", cosine_judge(context), cosine))
    if contains:
        parts.append(("contains", contains_judge(context), contains))
    if coverage:
        parts.append(("coverage", coverage_judge(context), coverage))
    return BlendJudge(parts, threshold, strict)
