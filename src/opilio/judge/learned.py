"""The learned judge: coverage of the topic's words, and a text model that learns what else pages on the topic say.

The text model is taught by pages that coverage alone is sure about, by examples and by a person's labels, never by
its own verdicts, so it can't talk itself into another topic.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.learner import JUDGE_STATE, BaseLearner
from opilio.core.records import Outcome, Reading, Reason, Verdict
from opilio.judge.similarity import CoverageJudge
from opilio.learn.logistic import logistic
from opilio.learn.text_model import TermIds, TextModel, TextModelState
from opilio.topic.topic import ExamplePage

MAX_PAGE_TERMS = 120  # the most telling terms of a page
# Share of the middle below which coverage is sure that a page is not on the topic
SURELY_IRRELEVANT_SHARE = 0.6
PAGES_FOR_HALF_SHARE = 10.0  # pages on the topic after which the model has half of its say
REFIT_RELEVANT_PAGES = 10  # new pages on the topic
# Or this share of those it was taught: the more it knows, the less ten pages change
REFIT_RELEVANT_SHARE = 0.1
REFIT_IRRELEVANT_PAGES = 500  # new pages not on it
LABEL_WEIGHT = 8.0  # how many pages a person's word weighs
MODEL_REASONS = 6
COVERAGE_WINDOW = 400  # pages whose coverage the line is drawn through
MIN_CLUSTER_PAGES = 5
SPLIT_POSITION = 0.6
MIDDLE_PRIOR_PAGES = 40.0  # pages after which what was seen counts as much as the given middle
MIN_MIDDLE, MAX_MIDDLE = 0.12, 0.45


class _JudgeLesson(msgspec.Struct, array_like=True):
    """What is told of one page: its coverage, or a person's word (1 or 0) with its weight."""

    sample: bytes
    coverage: float
    label_weight: float = 0.0


class _JudgeState(msgspec.Struct, array_like=True):
    text: TextModelState
    coverages: list[float] = []


class LearnedJudge(BaseLearner):
    """Verdict.score is a probability. `share` is the text model's say once it has seen enough; 0: nothing is learnt.

    `examples` are pages of which a person said whether they are on the topic: they teach it before anything is fetched.
    """

    learns_from_labels = True

    def __init__(
        self,
        base: CoverageJudge,
        label_of: Callable[[int], str],
        share: float = 0.5,
        examples: Sequence[tuple[ExamplePage, bool]] = (),
    ) -> None:
        self.base = base
        self.share = share
        self._label_of = label_of
        # Only examples need the background: a crawl meets pages off its topic soon enough (docs/lab/committee.md).
        self.model = TextModel(self._document_frequency if examples else None)
        self._coverages: deque[float] = deque(maxlen=COVERAGE_WINDOW)
        self._last_sample: tuple[Reading, TermIds] | None = None
        for page, positive in examples if share else ():
            self.add_page(self._distinctive_terms(*base.words.example_counts(page)), positive)
        if examples and share:
            self.model.fit(base.middle)

    def learners(self) -> dict[str, "LearnedJudge"]:
        """See `HasLearners`."""
        return {JUDGE_STATE: self}

    @property
    def version(self) -> int:
        """Grows whenever the text model is fitted."""
        return self.model.scale.version

    @property
    def term_weights(self) -> tuple[TermIds, NDArray[np.float64]]:
        """See `WeighsTerms`."""
        return self.model.term_weights

    @property
    def middle(self) -> float:
        """The coverage at which a page is as likely on the topic as not: the given one, moved by what was seen."""
        return self.model.scale.fitted_middle or self.base.middle

    def _fit_middle(self) -> float:
        """Between the pages that speak of the topic and the others: two means, nearer to the upper one.

        A topic whose own pages cover a third of its words needs another line than one whose pages cover two thirds.
        """
        seen = np.array(self._coverages)
        line = self.base.middle
        for _ in range(10):
            upper, lower = seen[seen >= line], seen[seen < line]
            if len(upper) < MIN_CLUSTER_PAGES or len(lower) < MIN_CLUSTER_PAGES:
                return self.middle
            line = float(lower.mean() + SPLIT_POSITION * (upper.mean() - lower.mean()))
        trust = len(seen) / (len(seen) + MIDDLE_PRIOR_PAGES)
        return min(MAX_MIDDLE, max(MIN_MIDDLE, (1.0 - trust) * self.base.middle + trust * line))

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        verdict = self.base.judge(reading)
        coverage = verdict.reasons[0].value
        logit = min(4.0, max(-4.0, self.base.slope * (coverage - self.middle)))
        said, share, terms = 0.0, 0.0, np.zeros(0, dtype=np.int64)
        if self.model.is_ready and self.share:
            terms = self.sample(reading)
            said = self.model.logit(terms)
            seen = self.model.scale.fitted_pages
            share = self.share * seen / (seen + PAGES_FOR_HALF_SHARE)
        score = logistic((1.0 - share) * logit + share * said)
        words = tuple(
            Reason(f"text model: {self._label_of(t) or t}", w, share)
            for t, w in self.model.strongest_terms(terms, MODEL_REASONS)
        )
        summary = (verdict.reasons[0], Reason("text model", said, share))
        return Verdict(score=score, relevant=score >= 0.5, reasons=(*summary, *verdict.reasons[1:], *words))

    def sample(self, reading: Reading) -> TermIds:
        """The most telling terms of a page: many times here, seldom elsewhere."""
        # Asked for twice: by `judge`, and to be kept
        if self._last_sample is None or self._last_sample[0] is not reading:
            self._last_sample = reading, self._distinctive_terms(*self.base.words.counts(reading))
        return self._last_sample[1]

    def _document_frequency(self, terms: TermIds) -> NDArray[np.float64]:
        """On what share of all pages each term stands, by how rare it is in general English."""
        return 1.0 / np.expm1(self.base.words.idf(terms.astype(np.uint32)))

    def _distinctive_terms(self, terms: NDArray[np.uint32], counts: NDArray[np.float64]) -> TermIds:
        weights = self.base.words.weights_for(terms, counts)
        return terms[np.argsort(-weights, kind="stable")[:MAX_PAGE_TERMS]].astype(np.int64)

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        """What is about to be learnt from these visits, for a journal; nothing where that is nothing."""
        if not self.share:
            return b""
        told = [
            _JudgeLesson(outcome.analysis.sample_terms, outcome.analysis.verdict.reasons[0].value)
            for outcome in outcomes
            if outcome.analysis
            and outcome.analysis.verdict
            and outcome.analysis.sample_terms
            and not outcome.duplicate_of
        ]
        return msgspec.msgpack.encode(told) if told else b""

    def label_lesson(self, sample: bytes, relevant: bool | None, before: bool | None = None) -> bytes:
        """A person's word about a page as a lesson, or that there is none; `before` is what was said of it earlier."""
        words = ((before, -LABEL_WEIGHT), (relevant, LABEL_WEIGHT))
        told = [_JudgeLesson(sample, float(word), weight) for word, weight in words if word is not None]
        return msgspec.msgpack.encode(told)

    def apply_lesson(self, lesson: bytes) -> None:
        """Learn from a lesson: the first time, or again from a journal."""
        told = msgspec.msgpack.decode(lesson, type=list[_JudgeLesson]) if lesson else []
        for page in told:
            terms = np.frombuffer(page.sample, dtype=np.uint32).astype(np.int64)
            if page.label_weight:
                self.add_page(terms, page.coverage > 0.5, page.label_weight)
                continue
            self._coverages.append(page.coverage)
            if page.coverage >= self.middle or page.coverage < SURELY_IRRELEVANT_SHARE * self.middle:
                self.add_page(terms, page.coverage >= self.middle)
        if self._is_refit_due() or any(page.label_weight for page in told):
            self.model.fit(self._fit_middle())

    def _is_refit_due(self) -> bool:
        """Has enough come since the last fit? Where that lacked pages of one kind, pages of any kind count."""
        no, yes = self.model.pages_since_fit
        taught = self.model.pages[1]
        unready = not self.model.is_ready and taught >= REFIT_RELEVANT_PAGES and no + yes >= REFIT_RELEVANT_PAGES
        return (
            yes >= max(REFIT_RELEVANT_PAGES, REFIT_RELEVANT_SHARE * taught) or no >= REFIT_IRRELEVANT_PAGES or unready
        )

    def add_page(self, terms: TermIds, positive: bool, weight: float = 1.0) -> None:
        """One page whose kind is known."""
        self.model.add(terms, positive, weight)

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(_JudgeState(self.model.state(), list(self._coverages)))

    def worker_state(self) -> bytes:
        """What a worker needs to judge as this judge does, in the form of a snapshot: a tenth of one."""
        return msgspec.msgpack.encode(_JudgeState(self.model.worker_state()))

    def restore(self, state: bytes) -> None:
        kept = msgspec.msgpack.decode(state, type=_JudgeState)
        self.model.restore(kept.text)
        self._coverages = deque(kept.coverages, COVERAGE_WINDOW)
