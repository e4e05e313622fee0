"""The coverage judge, ours: how much of the topic does a page speak of?

Each of the topic's words counts by its weight and rarity, saturating with its frequency and damped by the page's
length (the shape of BM25), so that one word said often is worth less than several said at all. Unlike a cosine, the
score means the same for long and short tables, so that one threshold serves many topics.

A topic given as classes is spoken of in another way: their index terms are names of many things, of which no page has
more than a few. There a page covers the topic as well as its own classes are the topic's.
"""

import math

import numpy as np

from opilio.judge.pagewords import PageWords
from opilio.model.protocols import Judge
from opilio.model.records import Reading, Reason, Verdict
from opilio.topic.living import LivingTopic, Sight

SHOWN = 10
MAX_IDF = 7.0
HALF = 0.5  # occurrences at which a word has half of its effect on a page without length
PER_WORD = 0.003  # more occurrences are needed on longer pages


class CoverageJudge:
    """Verdict.score is a probability: the coverage pushed through a logistic curve around `middle`.

    `classes` judges by the topic's classes, where it was given as such.
    """

    def __init__(
        self,
        topic: LivingTopic,
        words: PageWords,
        middle: float = 0.25,
        slope: float = 14.0,
        classes: Judge | None = None,
    ) -> None:
        self.topic = topic
        self.words = words
        self.middle = middle
        self.slope = slope
        self.classes = classes
        self._whole: tuple[Sight, float] | None = None

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        coverage, reasons = self._by_words(reading)
        if self.classes:
            told = self.classes.judge(reading)  # 0.5: as likely of the topic's classes as not
            coverage, reasons = max(coverage, min(1.0, 2.0 * self.middle * told.score)), [*told.reasons, *reasons]
        score = 1.0 / (1.0 + math.exp(-self.slope * (coverage - self.middle)))
        return Verdict(score=score, relevant=score >= 0.5, reasons=(Reason("coverage", coverage), *reasons))

    def _by_words(self, reading: Reading) -> tuple[float, list[Reason]]:
        sight = self.topic.sight
        terms, counts = self.words.counts(reading)
        weights = sight.weigh(terms)
        shared = np.flatnonzero(weights)
        rarity = np.minimum(self.words.idf(terms[shared]), MAX_IDF)
        worth = weights[shared] * rarity
        length = float(counts.sum())
        parts = worth * counts[shared] / (counts[shared] + HALF + PER_WORD * length)
        whole = self._whole_of(sight)
        coverage = min(1.0, float(parts.sum()) / whole) if whole else 0.0
        best = np.argsort(-parts, kind="stable")[:SHOWN]
        named = zip(terms[shared[best]].tolist(), (parts[best] / (whole or 1.0)).tolist(), strict=True)
        return coverage, [Reason(sight.labels[term], value, sight.vector[term]) for term, value in named]

    def _whole_of(self, sight: Sight) -> float:
        """What a page that speaks of all the topic's words would have; worked out once for a table."""
        if self._whole is None or self._whole[0] is not sight:
            self._whole = sight, float((sight.weights * np.minimum(self.words.idf(sight.terms), MAX_IDF)).sum())
        return self._whole[1]
