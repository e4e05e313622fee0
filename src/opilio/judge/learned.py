"""The learned judge: coverage of the topic's words, and a text model that learns what else pages on the topic say.

The text model is taught by pages that coverage alone is sure about, by examples and by a person's labels, never by
its own verdicts, so it can't talk itself into another topic.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.judge.coverage import CoverageJudge
from opilio.learn.textmodel import Terms, TextModel, TextState
from opilio.model.records import Outcome, Reading, Reason, Verdict
from opilio.topic.topic import Example

PAGE_TERMS = 120  # the most telling terms of a page
SURE_NOT = 0.6  # share of the middle below which coverage is sure that a page is not on the topic
TEACHING = 10.0  # pages on the topic after which the model has half of its say
REFIT_EVERY = 10  # new pages on the topic
REFIT_SHARE = 0.1  # or this share of those it was taught: the more it knows, the less ten pages change
REFIT_EVERY_OTHER = 500  # new pages not on it
PERSON = 8.0  # how many pages a person's word weighs
SHOWN = 6
RECENT = 400  # pages whose coverage the line is drawn through
FEW = 5
UPWARDS = 0.6
DOUBT = 40.0  # pages after which what was seen counts as much as the given middle
LEAST, MOST = 0.12, 0.45


class _Told(msgspec.Struct, array_like=True):
    """What is told of one page: its coverage, or a person's word (1 or 0) with its weight."""

    sample: bytes
    coverage: float
    person: float = 0.0


class _State(msgspec.Struct, array_like=True):
    text: TextState
    coverages: list[float] = []


class LearnedJudge:
    """Verdict.score is a probability. `share` is the text model's say once it has seen enough; 0: nothing is learnt.

    `examples` are pages of which a person said whether they are on the topic: they teach it before anything is fetched.
    """

    def __init__(
        self,
        base: CoverageJudge,
        label_of: Callable[[int], str],
        share: float = 0.5,
        examples: Sequence[tuple[Example, bool]] = (),
    ) -> None:
        self.base = base
        self.share = share
        self._label_of = label_of
        # Only examples need the background: a crawl meets pages off its topic soon enough (docs/lab/committee.md).
        self.model = TextModel(self._common if examples else None)
        self._coverages: deque[float] = deque(maxlen=RECENT)
        self._sampled: tuple[Reading, Terms] | None = None
        for page, positive in examples if share else ():
            self.teach(self._most_telling(*base.words.counts_of(page)), positive)
        if examples and share:
            self.model.fit(base.middle)

    @property
    def version(self) -> int:
        """Grows whenever the text model is fitted."""
        return self.model.scale.version

    @property
    def middle(self) -> float:
        """The coverage at which a page is as likely on the topic as not: the given one, moved by what was seen."""
        return self.model.scale.split or self.base.middle

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
        if self.model.ready and self.share:
            terms = self.sample(reading)
            said = self.model.logit(terms)
            seen = self.model.scale.fitted
            share = self.share * seen / (seen + TEACHING)
        score = 1.0 / (1.0 + math.exp(-((1.0 - share) * logit + share * said)))
        words = tuple(
            Reason(f"text model: {self._label_of(t) or t}", w, share) for t, w in self.model.telling(terms, SHOWN)
        )
        summary = (verdict.reasons[0], Reason("text model", said, share))
        return Verdict(score=score, relevant=score >= 0.5, reasons=(*summary, *verdict.reasons[1:], *words))

    def sample(self, reading: Reading) -> Terms:
        """The most telling terms of a page: many times here, seldom elsewhere."""
        if self._sampled is None or self._sampled[0] is not reading:  # asked for twice: by `judge`, and to be kept
            self._sampled = reading, self._most_telling(*self.base.words.counts(reading))
        return self._sampled[1]

    def _common(self, terms: Terms) -> NDArray[np.float64]:
        """On what share of all pages each term stands, by how rare it is in general English."""
        return 1.0 / np.expm1(self.base.words.idf(terms.astype(np.uint32)))

    def _most_telling(self, terms: NDArray[np.uint32], counts: NDArray[np.float64]) -> Terms:
        weights = self.base.words.weighed(terms, counts)
        return terms[np.argsort(-weights, kind="stable")[:PAGE_TERMS]].astype(np.int64)

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """Pages that coverage is sure about."""
        self.study(self.lesson(outcomes))

    def lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        """What is about to be learnt from these visits, for a journal; nothing where that is nothing."""
        if not self.share:
            return b""
        told = [
            _Told(outcome.analysis.sample, outcome.analysis.verdict.reasons[0].value)
            for outcome in outcomes
            if outcome.analysis and outcome.analysis.verdict and outcome.analysis.sample and not outcome.duplicate_of
        ]
        return msgspec.msgpack.encode(told) if told else b""

    def label(self, sample: bytes, relevant: bool | None, before: bool | None = None) -> bytes:
        """A person's word about a page as a lesson, or that there is none; `before` is what was said of it earlier."""
        words = ((before, -PERSON), (relevant, PERSON))
        told = [_Told(sample, float(word), weight) for word, weight in words if word is not None]
        return msgspec.msgpack.encode(told)

    def study(self, lesson: bytes) -> None:
        """Learn from a lesson: the first time, or again from a journal."""
        told = msgspec.msgpack.decode(lesson, type=list[_Told]) if lesson else []
        for page in told:
            terms = np.frombuffer(page.sample, dtype=np.uint32).astype(np.int64)
            if page.person:
                self.teach(terms, page.coverage > 0.5, page.person)
                continue
            self._coverages.append(page.coverage)
            if page.coverage >= self.middle or page.coverage < SURE_NOT * self.middle:
                self.teach(terms, page.coverage >= self.middle)
        if self._is_due() or any(page.person for page in told):
            self.model.fit(self._split())

    def _is_due(self) -> bool:
        """Has enough come since the last fit? Where that lacked pages of one kind, pages of any kind count."""
        no, yes = self.model.waiting
        taught = self.model.pages[1]
        unready = not self.model.ready and taught >= REFIT_EVERY and no + yes >= REFIT_EVERY
        return yes >= max(REFIT_EVERY, REFIT_SHARE * taught) or no >= REFIT_EVERY_OTHER or unready

    def teach(self, terms: Terms, positive: bool, weight: float = 1.0) -> None:
        """One page whose kind is known."""
        self.model.add(terms, positive, weight)

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(_State(self.model.state(), list(self._coverages)))

    def sight(self) -> bytes:
        """What a worker needs to judge as this judge does, in the form of a snapshot: a tenth of one."""
        return msgspec.msgpack.encode(_State(self.model.sight()))

    def restore(self, state: bytes) -> None:
        kept = msgspec.msgpack.decode(state, type=_State)
        self.model.restore(kept.text)
        self._coverages = deque(kept.coverages, RECENT)
