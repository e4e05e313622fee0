"""The cosine judge: how much of the page's words are the topic's (S0-23, S3-16, S4-17)."""

import math
from typing import Literal

import numpy as np

from opilio.judge.pagewords import PageWords
from opilio.model.errors import ConfigError
from opilio.model.records import Reading, Reason, Verdict
from opilio.topic.living import LivingTopic

Norm = Literal["page", "topic", "whole"]
SHOWN = 10  # words named in a verdict
THRESHOLD = 0.13


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
        topic: LivingTopic,
        words: PageWords,
        threshold: float = THRESHOLD,
        norm: Norm = "page",
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
        sight = self.topic.sight
        terms, counts = self.words.counts(reading)
        topic = sight.weigh(terms)
        if self.norm == "topic":  # the other words of the page count for nothing: they need no weight
            known = topic.nonzero()[0]
            terms, counts, topic = terms[known], counts[known], topic[known]
        page = self.words.weighed(terms, counts)
        products = topic * page
        shared = products.nonzero()[0]
        own = page[shared] if self.norm == "topic" else page
        length = math.sqrt(float(own @ own)) * sight.norm
        score = min(1.0, float(products.sum()) / length) if length else 0.0
        best = shared[np.argsort(-products[shared], kind="stable")[:SHOWN]]
        named = zip(terms[best].tolist(), (products[best] / (length or 1.0)).tolist(), strict=True)
        words = tuple(Reason(sight.labels[t], value, sight.vector[t]) for t, value in named)
        summary = Reason("cosine", score), Reason("topic words", float(len(shared)), 0.0)
        return Verdict(score=score, relevant=self._passes(score), reasons=summary + words)

    def _passes(self, score: float) -> bool:
        return score > self.threshold if self.strict else score >= self.threshold
