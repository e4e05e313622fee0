"""A text classifier for pages: log-odds of terms from counts, exact, incremental and bounded in memory.

A page is the set of its most distinctive terms. A term's weight is the log ratio of its frequencies on pages on and off
the topic, shrunk towards 0 for rare terms. The weights of single words are shown as reasons.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

TermIds = NDArray[np.int64]
SMOOTHING = 2.0
MIN_TERM_PAGES = 2  # terms of one page are ignored
# Pages of each class before the model is used.
MIN_CLASS_PAGES = 3
MAX_TERMS = 40_000
# Pages of each class that determine the scale.
SCALE_PAGES = 100
MAX_BACKGROUND_PAGES = 10.0
NEGATIVE, POSITIVE = 0, 1
DocumentFrequency = Callable[[TermIds], NDArray[np.float64]]
"""The share of all pages that contain each term."""
# Sorted terms, and the number of pages of each class that contain each.
_TermCounts = tuple[TermIds, NDArray[np.float64]]
_NO_COUNTS: _TermCounts = (np.zeros(0, dtype=np.int64), np.zeros((0, 2)))


class TextScale(msgspec.Struct, array_like=True):
    """The scale of the logits, as found by a fit."""

    center: float = 0.0
    factor: float = 0.0  # 0: not fitted
    version: int = 0
    # The judge's middle at the last fit; 0: none yet.
    fitted_middle: float = 0.0
    # Pages on the topic at the last fit: between fits the model is the same in all processes.
    fitted_pages: float = 0.0
    # Mean logarithm of the number of words of all pages; 0: none yet.
    mean_length: float = 0.0


class TextModelState(msgspec.Struct, array_like=True):
    """The state of a text model. Counts and recent pages are only needed for learning."""

    scale: TextScale
    weights: tuple[bytes, bytes] = (b"", b"")  # sorted terms, and their weights
    # Terms, and the number of pages of each class that contain each.
    counts: tuple[bytes, bytes] = (b"", b"")
    pages: tuple[float, float] = (0.0, 0.0)  # off topic, on topic
    recent: tuple[list[bytes], list[bytes]] = msgspec.field(default_factory=lambda: ([], []))
    waiting: tuple[int, int] = (0, 0)  # pages of each class since the last fit


@dataclass
class _PageCounts:
    """The number of pages of each class, the recent ones, and the number since the last fit."""

    pages: list[float] = field(default_factory=lambda: [0.0, 0.0])
    # They determine the scale.
    recent: tuple[list[bytes], list[bytes]] = field(default_factory=lambda: ([], []))
    waiting: list[int] = field(default_factory=lambda: [0, 0])


class TextModel:
    """Counts labelled pages; after `fit` the logit of a page is about −2 off topic and +2 on topic."""

    def __init__(self, document_frequency: DocumentFrequency | None = None) -> None:
        self.scale = TextScale()
        self._document_frequency = document_frequency
        self._page_counts = _PageCounts()
        # Counts of all terms, as of the last fit.
        self._counts = _NO_COUNTS
        # Pages that are not in the counts yet.
        self._uncounted_pages: list[tuple[bytes, bool, float]] = []
        # Sorted terms with a weight.
        self._terms: TermIds = np.zeros(0, dtype=np.int64)
        self._weights = np.zeros(0)

    @property
    def is_ready(self) -> bool:
        return self.scale.factor > 0.0

    @property
    def pages(self) -> tuple[float, float]:
        """The number of pages learned: off topic, on topic."""
        no, yes = self._page_counts.pages
        return no, yes

    @property
    def pages_since_fit(self) -> tuple[int, int]:
        """The number of pages of each class since the last fit."""
        no, yes = self._page_counts.waiting
        return no, yes

    def add(self, terms: TermIds, positive: bool, weight: float = 1.0) -> None:
        """Add a labelled page; a negative weight removes one."""
        counts = self._page_counts
        counts.pages[positive] = max(0.0, counts.pages[positive] + weight)
        counts.waiting[positive] += 1
        page, kind = terms.astype(np.uint32).tobytes(), counts.recent[positive]
        self._uncounted_pages.append((page, positive, weight))
        if weight > 0.0:
            kind.append(page)
            del kind[:-SCALE_PAGES]
        elif page in kind:
            kind.remove(page)

    def fit(self, middle: float = 0.0, mean_length: float = 0.0) -> None:
        """Compute the weights and the scale; with too few pages the model stays unfitted."""
        counts, scale = self._page_counts, self.scale
        scale.fitted_middle = middle
        scale.mean_length = mean_length
        scale.version += 1
        counts.waiting = [0, 0]
        # Merged also if the model is never fitted, so that pages do not accumulate.
        self._merged_counts()
        if (
            min(counts.pages[POSITIVE], counts.pages[NEGATIVE] + self._background_pages) < MIN_CLASS_PAGES
            or not counts.recent[POSITIVE]
        ):
            return
        self._compute_weights()
        low, high = (
            sum(self._raw_score(_decode_terms(page)) for page in kind) / max(1, len(kind)) for kind in counts.recent
        )
        scale.center = (high + low) / 2.0
        scale.factor = 4.0 / max(high - low, 1e-3) if high > low else 0.0
        scale.fitted_pages = counts.pages[POSITIVE]

    def logit(self, terms: TermIds) -> float:
        """The log-odds that a page is on topic; 0 while not ready."""
        if not self.is_ready:
            return 0.0
        return min(4.0, max(-4.0, (self._raw_score(terms) - self.scale.center) * self.scale.factor))

    def strongest_terms(self, terms: TermIds, limit: int) -> list[tuple[int, float]]:
        """The terms of a page with the largest absolute weights."""
        weights = self._weights_of(terms)
        known = np.flatnonzero(weights)
        best = known[np.lexsort((terms[known], -np.abs(weights[known])))[:limit]]
        return list(zip(terms[best].tolist(), weights[best].tolist(), strict=True))

    @property
    def term_weights(self) -> tuple[TermIds, NDArray[np.float64]]:
        """The terms with a weight, and their weights."""
        return self._terms, self._weights

    def worker_state(self) -> TextModelState:
        """The part of the state that judging needs."""
        weights = (self._terms.astype(np.uint32).tobytes(), self._weights.tobytes())
        return TextModelState(msgspec.structs.replace(self.scale), weights)

    def state(self) -> TextModelState:
        """The complete state."""
        counts, (terms, table) = self._page_counts, self._merged_counts()
        state = self.worker_state()
        state.counts = (terms.astype(np.uint32).tobytes(), table.tobytes())
        state.pages, state.waiting = self.pages, self.pages_since_fit
        state.recent = (list(counts.recent[NEGATIVE]), list(counts.recent[POSITIVE]))
        return state

    def restore(self, state: TextModelState) -> None:
        """Continue from a state or a worker state."""
        self.scale = state.scale
        self._page_counts = _PageCounts(list(state.pages), state.recent, list(state.waiting))
        self._terms, self._weights = _decode_terms(state.weights[0]), np.frombuffer(state.weights[1])
        terms = _decode_terms(state.counts[0])
        # An older version stored them unsorted.
        order = np.argsort(terms)
        self._counts = terms[order], np.frombuffer(state.counts[1]).reshape(-1, 2)[order]
        self._uncounted_pages = []

    def _raw_score(self, terms: TermIds) -> float:
        return float(self._weights_of(terms).sum()) / float(np.sqrt(len(terms) + 1.0))

    def _weights_of(self, terms: TermIds) -> NDArray[np.float64]:
        """The weight of each term; 0 for an unknown term."""
        if not len(self._terms):
            return np.zeros(len(terms))
        at = np.minimum(self._terms.searchsorted(terms), len(self._terms) - 1)
        return np.where(self._terms[at] == terms, self._weights[at], 0.0)

    def _compute_weights(self) -> None:
        """log P(term | on topic) − log P(term | off topic), both smoothed towards the term's overall frequency."""
        no, yes = self._page_counts.pages
        terms, table = self._merged_counts()
        kept = np.flatnonzero(table.sum(axis=1) >= MIN_TERM_PAGES)
        terms, (b, a) = terms[kept], table[kept].T
        if self._background_pages and self._document_frequency is not None:
            b, no = (
                b + self._background_pages * np.minimum(self._document_frequency(terms), 1.0),
                no + self._background_pages,
            )
        prior = SMOOTHING * (a + b + 1.0) / (yes + no + 2.0)
        self._terms = terms
        self._weights = np.log((a + prior) / (yes + SMOOTHING)) - np.log((b + prior) / (no + SMOOTHING))

    @property
    def _background_pages(self) -> float:
        """The number of off-topic pages that the background corpus stands for, until enough were counted."""
        return (
            max(0.0, MAX_BACKGROUND_PAGES - self._page_counts.pages[NEGATIVE])
            if self._document_frequency is not None
            else 0.0
        )

    def _merged_counts(self) -> _TermCounts:
        """The counts of all pages so far; merged only when needed, because merging many at once is cheaper."""
        if self._uncounted_pages:
            pages = [np.frombuffer(page, dtype=np.uint32) for page, _, _ in self._uncounted_pages]
            lengths = [len(page) for page in pages]
            new = np.zeros((sum(lengths), 2))
            for kind in (NEGATIVE, POSITIVE):
                new[:, kind] = np.repeat(
                    [weight * (positive == kind) for _, positive, weight in self._uncounted_pages], lengths
                )
            self._counts = _merge_counts(self._counts, (np.concatenate(pages).astype(np.int64), new))
            self._uncounted_pages = []
        return self._counts


def _merge_counts(counts: _TermCounts, new: _TermCounts) -> _TermCounts:
    """Counts sorted by term; beyond the limit, the terms on most pages are kept."""
    terms = np.concatenate((counts[0], new[0]))
    table = np.concatenate((counts[1], new[1]))
    order = np.argsort(terms, kind="stable")
    first = np.flatnonzero(np.diff(terms[order], prepend=-1))
    terms, table = terms[order][first], np.maximum(np.add.reduceat(table[order], first), 0.0)
    if len(terms) > 2 * MAX_TERMS:
        kept = np.sort(np.lexsort((terms, -table.sum(axis=1)))[:MAX_TERMS])
        terms, table = terms[kept], table[kept]
    return terms, table


def _decode_terms(page: bytes) -> TermIds:
    return np.frombuffer(page, dtype=np.uint32).astype(np.int64)
