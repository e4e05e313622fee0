"""The learned judge: coverage of the topic's words, and a text model that learns what else pages on the topic say.

The text model is taught by pages that coverage alone is sure about, by examples and by a person's labels, never by
its own verdicts, so it can't talk itself into another topic.
"""

import math
from collections import deque
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
RECENT = 400  # pages whose coverage the line is drawn through
FEW = 5
UPWARDS = 0.6
DOUBT = 40.0  # pages after which what was seen counts as much as the given middle
LEAST, MOST = 0.12, 0.45


class LearnedJudge:
    """Verdict.score is a probability. `share` is the text model's say once it has seen enough; 0 switches it off."""

    def __init__(self, base: CoverageJudge, label_of: Callable[[int], str], share: float = 0.5) -> None:
        self.base = base
        self.share = share
        self._label_of = label_of
        self._model = TextModel()
        self._coverages: deque[float] = deque(maxlen=RECENT)
        self._since_fit = 0

    @property
    def version(self) -> int:
        """Grows whenever the text model is fitted."""
        return self._model.state.version

    @property
    def middle(self) -> float:
        """The coverage at which a page is as likely on the topic as not: the given one, moved by what was seen."""
        return self._model.state.split or self.base.middle

    def _split(self) -> float:
        """Between the pages that speak of the topic and the others: two means, nearer to the upper one.

        A topic whose own pages cover a third of its words needs another line than one whose pages cover two thirds.
        """
        seen = np.array(self._coverages)
        line = self.base.middle
        for _ in range(10):
            upper, lower = seen[seen >= line], seen[seen < line]
            if len(upper) < FEW or len(lower) < FEW:
                return self.middle
            line = float(lower.mean() + UPWARDS * (upper.mean() - lower.mean()))
        trust = len(seen) / (len(seen) + DOUBT)
        return min(MOST, max(LEAST, (1.0 - trust) * self.base.middle + trust * line))

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        verdict = self.base.judge(reading)
        coverage = verdict.reasons[0].value
        logit = min(4.0, max(-4.0, self.base.slope * (coverage - self.middle)))
        said, share, terms = 0.0, 0.0, np.zeros(0, dtype=np.int64)
        if self._model.ready and self.share:
            terms = self.sample(reading)
            said = self._model.logit(terms)
            seen = self._model.state.pages[0]
            share = self.share * seen / (seen + TEACHING)
        score = 1.0 / (1.0 + math.exp(-((1.0 - share) * logit + share * said)))
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
            self._coverages.append(coverage)
            if coverage >= self.middle or coverage < SURE_NOT * self.middle:
                terms = np.frombuffer(analysis.sample, dtype=np.uint32).astype(np.int64)
                self.teach(terms, coverage >= self.middle)
        if self._since_fit >= REFIT_EVERY:
            self._since_fit = 0
            self._model.fit(self._split())

    def teach(self, terms: Terms, positive: bool, weight: float = 1.0) -> None:
        """One page whose kind is known."""
        self._model.add(terms, positive, weight)
        self._since_fit += positive

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self._model.state)

    def restore(self, state: bytes) -> None:
        self._model.restore(msgspec.msgpack.decode(state, type=TextState))
