"""The learned judge: coverage of the topic's words, and a text model that learns what else pages on the topic say.

The text model is taught by pages that coverage alone is sure about, by examples and by a person's labels, never by
its own verdicts, so it can't talk itself into another topic.
"""

import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from opilio.judge.coverage import CoverageJudge
from opilio.learn.textmodel import Terms, TextModel, TextState
from opilio.model.records import Outcome, Reading, Reason, Verdict

PAGE_TERMS = 120  # the most telling terms of a page
SURE_NOT = 0.6  # share of the middle below which coverage is sure that a page is not on the topic
TEACHING = 10.0  # pages on the topic after which the model has half of its say
REFIT_EVERY = 10  # new pages on the topic
SHOWN = 6


class LearnedJudge:
    """Verdict.score is a probability. `share` is the text model's say once it has seen enough; 0 switches it off."""

    def __init__(self, base: CoverageJudge, label_of: Callable[[int], str], share: float = 0.5) -> None:
        self.base = base
        self.share = share
        self._label_of = label_of
        self._model = TextModel()
        self._since_fit = 0

    @property
    def version(self) -> int:
        """Grows whenever the text model is fitted."""
        return self._model.state.version

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        verdict = self.base.judge(reading)
        if not self._model.ready or not self.share:
            return verdict
        terms = self.sample(reading)
        said = self._model.logit(terms)
        seen = self._model.state.pages[0]
        share = self.share * seen / (seen + TEACHING)
        logit = (1.0 - share) * _logit(verdict.score) + share * said
        score = 1.0 / (1.0 + math.exp(-logit))
        words = tuple(Reason(self._label_of(t) or str(t), w, share) for t, w in self._model.telling(terms, SHOWN))
        summary = (verdict.reasons[0], Reason("text model", said, share))
        return Verdict(score=score, relevant=score >= 0.5, reasons=(*summary, *verdict.reasons[1:], *words))

    def sample(self, reading: Reading) -> Terms:
        """The most telling terms of a page: many times here, seldom elsewhere."""
        terms, weights = self.base.words.weigh(reading)
        return terms[np.argsort(-weights, kind="stable")[:PAGE_TERMS]].astype(np.int64)

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """Pages that coverage is sure about."""
        for outcome in outcomes:
            analysis = outcome.analysis
            if analysis is None or analysis.verdict is None or outcome.duplicate_of or not analysis.sample:
                continue
            coverage = analysis.verdict.reasons[0].value
            if coverage >= self.base.middle or coverage < SURE_NOT * self.base.middle:
                terms = np.frombuffer(analysis.sample, dtype=np.uint32).astype(np.int64)
                self.teach(terms, coverage >= self.base.middle)
        if self._since_fit >= REFIT_EVERY:
            self._since_fit = 0
            self._model.fit()

    def teach(self, terms: Terms, positive: bool, weight: float = 1.0) -> None:
        """One page whose kind is known."""
        self._model.add(terms, positive, weight)
        self._since_fit += positive

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self._model.state)

    def restore(self, state: bytes) -> None:
        self._model.restore(msgspec.msgpack.decode(state, type=TextState))


def _logit(score: float) -> float:
    bounded = min(0.982, max(0.018, score))  # ±4
    return math.log(bounded / (1.0 - bounded))
