"""The learned judge: coverage of the topic's words, combined with a text model learned from pages, and with the link.

The text model is trained by pages that coverage alone is certain about, by examples and by the user's labels, never by
its own verdicts, so that it can't drift to another topic.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.protocols import JUDGE_STATE, LENGTH, LINK_TO_PAGE, PAGE_ALONE, BaseLearner, Judge
from opilio.core.records import Outcome, Reading, Reason, Verdict
from opilio.core.settings import Amount, Share
from opilio.judge.similarity import CoverageJudge, coverage_judge
from opilio.learn.logistic import logistic, sigmoid
from opilio.learn.text_model import TermIds, TextModel, TextModelState
from opilio.topic.setup import BuildContext
from opilio.topic.topic import ExamplePage

MAX_PAGE_TERMS = 120  # the most distinctive terms of a page
# Pages with a coverage below this share of the middle are certainly off topic.
SURELY_IRRELEVANT_SHARE = 0.6
# On-topic pages after which the model has half of its share.
PAGES_FOR_HALF_SHARE = 10.0
# New on-topic pages that trigger a refit.
REFIT_RELEVANT_PAGES = 10
# At least this share of the on-topic pages must be new: with many pages, ten more change little.
REFIT_RELEVANT_SHARE = 0.1
# New off-topic pages that trigger a refit.
REFIT_IRRELEVANT_PAGES = 500
LABEL_WEIGHT = 8.0  # weight of a user's label in pages
MODEL_REASONS = 6
# Recent pages whose coverage determines the middle.
COVERAGE_WINDOW = 400
MIN_CLUSTER_PAGES = 5
SPLIT_POSITION = 0.6
# Pages after which the fitted middle counts as much as the given one.
MIDDLE_PRIOR_PAGES = 40.0
MIN_MIDDLE, MAX_MIDDLE = 0.12, 0.45
# Weights of log-odds where the link to a page counts too: fitted to the pages of 46 crawls of six webs, and the same
# within 0.1 when each web in turn is left out (docs/lab/judge.md).
PAGE_WEIGHT, LINK_BIAS = 0.65, 0.2
# Log-odds by which a page that is e times as long as the crawl's pages on average loses, if no other weight is given: a
# long page covers words of the topic by chance (docs/lab/judge.md).
LENGTH_WEIGHT, MAX_LENGTH = 0.6, 2.0
# Probabilities are bounded to this and its complement.
MIN_CHANCE = 0.005
# Labels before scores are corrected by them, and the standard deviation of the correction in log-odds before any label:
# chosen on the development topics (docs/lab/judge.md).
MIN_LABELS, OFFSET_DEVIATION = 5, 1.0


class _JudgeLesson(msgspec.Struct, array_like=True):
    """One page to learn from: its coverage, or a user's label (1 or 0) with its weight."""

    sample: bytes
    coverage: float
    label_weight: float = 0.0
    words: int = 0


class _JudgeState(msgspec.Struct, array_like=True):
    text: TextModelState
    coverages: list[float] = []
    lengths: list[float] = []


class LearnedJudge(BaseLearner):
    """Verdict.score is a probability. `share` is the text model's share in it after enough pages; 0 disables learning.

    `examples` are pages that the user gave as on or off topic; they train the model before anything is fetched.
    """

    learns_from_labels = True

    def __init__(
        self,
        base: CoverageJudge,
        label_of: Callable[[int], str],
        share: float = 0.5,
        examples: Sequence[tuple[ExamplePage, bool]] = (),
        link_weight: float = 0.0,
        length_weight: float = LENGTH_WEIGHT,
    ) -> None:
        self.base = base
        self.share = share
        self._link_weight = link_weight
        self.length_weight = length_weight
        self._label_of = label_of
        # Only examples need the background: a crawl soon finds off-topic pages (docs/lab/committee.md).
        self.model = TextModel(self._document_frequency if examples else None)
        self._coverages: deque[float] = deque(maxlen=COVERAGE_WINDOW)
        # Logarithms of numbers of words.
        self._lengths: deque[float] = deque(maxlen=COVERAGE_WINDOW)
        self._last_sample: tuple[Reading, TermIds] | None = None
        for page, positive in examples if share else ():
            self.model.add(self._distinctive_terms(*base.words.example_counts(page)), positive)
        if examples and share:
            self.model.fit(base.middle)

    def learners(self) -> dict[str, "LearnedJudge"]:
        """See `HasLearners`."""
        return {JUDGE_STATE: self}

    @property
    def version(self) -> int:
        """Grows with every fit of the text model."""
        return self.model.scale.version

    @property
    def term_weights(self) -> tuple[TermIds, NDArray[np.float64]]:
        """See `WeighsTerms`."""
        return self.model.term_weights

    @property
    def middle(self) -> float:
        """The coverage at which a page is as likely on topic as off: the given one, adjusted by a fit."""
        return self.model.scale.fitted_middle or self.base.middle

    def _fit_middle(self) -> float:
        """The threshold between two clusters of coverages (two means), nearer to the upper one.

        A topic whose pages cover a third of its words needs another threshold than one whose pages cover two thirds.
        """
        coverages = np.array(self._coverages)
        line = self.base.middle
        for _ in range(10):
            upper, lower = coverages[coverages >= line], coverages[coverages < line]
            if len(upper) < MIN_CLUSTER_PAGES or len(lower) < MIN_CLUSTER_PAGES:
                return self.middle
            line = float(lower.mean() + SPLIT_POSITION * (upper.mean() - lower.mean()))
        trust = len(coverages) / (len(coverages) + MIDDLE_PRIOR_PAGES)
        return min(MAX_MIDDLE, max(MIN_MIDDLE, (1.0 - trust) * self.base.middle + trust * line))

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        verdict = self.base.judge(reading)
        coverage = verdict.reasons[0].value
        logit = min(4.0, max(-4.0, self.base.slope * (coverage - self.middle)))
        text_logit, share, terms = 0.0, 0.0, np.zeros(0, dtype=np.int64)
        if self.model.is_ready and self.share:
            terms = self.sample(reading)
            text_logit = self.model.logit(terms)
            pages = self.model.scale.fitted_pages
            share = self.share * pages / (pages + PAGES_FOR_HALF_SHARE)
        length = self._relative_length(reading)
        score = logistic((1.0 - share) * logit + share * text_logit - self.length_weight * length)
        words = tuple(
            Reason(f"text model: {self._label_of(t) or t}", w, share)
            for t, w in self.model.strongest_terms(terms, MODEL_REASONS)
        )
        by_length = Reason(LENGTH, length, -self.length_weight if length else 0.0)
        summary = (verdict.reasons[0], Reason("text model", text_logit, share), by_length)
        return Verdict(score=score, relevant=score >= 0.5, reasons=(*summary, *verdict.reasons[1:], *words))

    def with_link_score(self, verdict: Verdict, link_score: float) -> Verdict:
        """The verdict with the evidence of the link to the page: its probability before the page was fetched.

        Links in the same list, folder and wording denoise a verdict on one short page (docs/lab/judge.md).
        """
        weight = self._link_weight
        if not weight or not 0.0 < verdict.score < 1.0:
            return verdict
        link = weight * _bounded_logit(link_score)
        score = logistic(LINK_BIAS + PAGE_WEIGHT * _bounded_logit(verdict.score) + link)
        first, *others = verdict.reasons
        evidence = Reason(PAGE_ALONE, verdict.score, PAGE_WEIGHT), Reason(LINK_TO_PAGE, link_score, weight)
        reasons = (first, *evidence, *others)
        return Verdict(score=score, relevant=score >= 0.5, reasons=reasons, page_score=verdict.score)

    def _relative_length(self, reading: Reading) -> float:
        """The logarithm of the page's length relative to the mean of the crawl; 0 until pages were learned."""
        mean = self.model.scale.mean_length
        return max(-MAX_LENGTH, min(MAX_LENGTH, math.log1p(len(reading.terms)) - mean)) if mean else 0.0

    def sample(self, reading: Reading) -> TermIds:
        """The most distinctive terms of a page: frequent on it, rare in general."""
        # Cached because it is needed twice per page: by `judge`, and to be stored.
        if self._last_sample is None or self._last_sample[0] is not reading:
            self._last_sample = reading, self._distinctive_terms(*self.base.words.counts(reading))
        return self._last_sample[1]

    def _document_frequency(self, terms: TermIds) -> NDArray[np.float64]:
        """The share of all pages that contain each term, by its idf in general English."""
        return 1.0 / np.expm1(self.base.words.idf(terms.astype(np.uint32)))

    def _distinctive_terms(self, terms: NDArray[np.uint32], counts: NDArray[np.float64]) -> TermIds:
        weights = self.base.words.weights_for(terms, counts)
        return terms[np.argsort(-weights, kind="stable")[:MAX_PAGE_TERMS]].astype(np.int64)

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        """The lesson of these visits, for a journal; empty if there is nothing to learn."""
        if not self.share:
            return b""
        lessons = [
            _JudgeLesson(
                outcome.analysis.sample_terms, outcome.analysis.verdict.reasons[0].value, words=outcome.analysis.words
            )
            for outcome in outcomes
            if outcome.analysis
            and outcome.analysis.verdict
            and outcome.analysis.sample_terms
            and not outcome.duplicate_of
        ]
        return msgspec.msgpack.encode(lessons) if lessons else b""

    def label_lesson(self, sample: bytes, relevant: bool | None, before: bool | None = None) -> bytes:
        """The lesson of a user's label, or of its removal (None); `before` is the previous label."""
        labels = ((before, -LABEL_WEIGHT), (relevant, LABEL_WEIGHT))
        lessons = [_JudgeLesson(sample, float(label), weight) for label, weight in labels if label is not None]
        return msgspec.msgpack.encode(lessons)

    def apply_lesson(self, lesson: bytes) -> None:
        """Learn from a lesson, new or from a journal."""
        pages = msgspec.msgpack.decode(lesson, type=list[_JudgeLesson]) if lesson else []
        for page in pages:
            terms = np.frombuffer(page.sample, dtype=np.uint32).astype(np.int64)
            if page.label_weight:
                self.model.add(terms, page.coverage > 0.5, page.label_weight)
                continue
            self._coverages.append(page.coverage)
            self._lengths.append(math.log1p(page.words))
            if page.coverage >= self.middle or page.coverage < SURELY_IRRELEVANT_SHARE * self.middle:
                self.model.add(terms, page.coverage >= self.middle)
        if self._is_refit_due() or any(page.label_weight for page in pages):
            self.model.fit(self._fit_middle(), sum(self._lengths) / len(self._lengths) if self._lengths else 0.0)

    def _is_refit_due(self) -> bool:
        """True if enough pages were added since the last fit. Until the model is ready, pages of any class count."""
        no, yes = self.model.pages_since_fit
        learned = self.model.pages[1]
        unready = not self.model.is_ready and learned >= REFIT_RELEVANT_PAGES and no + yes >= REFIT_RELEVANT_PAGES
        return (
            yes >= max(REFIT_RELEVANT_PAGES, REFIT_RELEVANT_SHARE * learned) or no >= REFIT_IRRELEVANT_PAGES or unready
        )

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(_JudgeState(self.model.state(), list(self._coverages), list(self._lengths)))

    def worker_state(self) -> bytes:
        """The part of a snapshot that a worker needs to judge, a tenth of its size."""
        return msgspec.msgpack.encode(_JudgeState(self.model.worker_state()))

    def restore(self, state: bytes) -> None:
        kept = msgspec.msgpack.decode(state, type=_JudgeState)
        self.model.restore(kept.text)
        self._coverages = deque(kept.coverages, COVERAGE_WINDOW)
        self._lengths = deque(kept.lengths, COVERAGE_WINDOW)


def _bounded_logit(chance: float) -> float:
    bounded = min(1.0 - MIN_CHANCE, max(MIN_CHANCE, chance))
    return math.log(bounded / (1.0 - bounded))


class LabelCalibration(msgspec.Struct, frozen=True):
    """What the user's labels say about the scores of a collection: log-odds to add to each."""

    offset: float
    labels: int

    @classmethod
    def fit(cls, judged: Sequence[tuple[float, bool]]) -> "LabelCalibration | None":
        """The most likely offset, given the judge's scores of labelled pages; None with too few labels.

        For pages of the same crawl only: later pages have another offset (docs/lab/judge.md).
        """
        if len(judged) < MIN_LABELS:
            return None
        logits = np.array([_bounded_logit(score) for score, _ in judged])
        labels = np.array([label for _, label in judged], dtype=np.float64)
        precision, offset = OFFSET_DEVIATION**-2, 0.0
        for _ in range(40):
            chances = sigmoid(logits + offset)
            slope = float((labels - chances).sum()) - precision * offset
            step = slope / (float((chances * (1.0 - chances)).sum()) + precision)
            # Newton's method can overshoot where all chances are near 0 or 1.
            offset += min(1.0, max(-1.0, step))
        return cls(round(offset, 4), len(judged))

    def probability(self, score: float) -> float:
        """A judge's score, corrected."""
        return logistic(_bounded_logit(score) + self.offset)

    @property
    def doubtful_score(self) -> float:
        """The score whose corrected probability is one half."""
        return logistic(-self.offset)


def learned_judge(
    context: BuildContext,
    *,
    middle: Share = 0.25,
    slope: Amount = 14.0,
    share: Share = 0.5,
    link_weight: Share = 0.0,
    length_weight: Amount = LENGTH_WEIGHT,
) -> Judge:
    base = coverage_judge(context, middle=middle, slope=slope)
    topic = context.topic
    examples = [(page, True) for page in topic.positive] + [(page, False) for page in topic.negative]
    return LearnedJudge(base, context.vocabulary.surface_of, share, examples, link_weight, length_weight)
