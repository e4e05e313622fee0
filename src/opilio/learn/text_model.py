"""Which words tell pages on the topic from others: log-odds from counts, exact, incremental, bounded in memory.

A page is the set of its most telling terms. Each term weighs by how much more often it stands on pages of one kind
than of the other, shrunk towards nothing while it was seen seldom. What comes out is a word with a weight: a reason.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

TermIds = NDArray[np.int64]
SMOOTHING = 2.0
MIN_TERM_PAGES = 2  # a word of one page tells nothing
MIN_CLASS_PAGES = 3  # pages of each kind before the model says anything
MAX_TERMS = 40_000
SCALE_PAGES = 100  # pages of each kind that the scale is found with
MAX_BACKGROUND_PAGES = 10.0
NEGATIVE, POSITIVE = 0, 1
DocumentFrequency = Callable[[TermIds], NDArray[np.float64]]
"""On what share of all pages each term stands."""
# Terms in order; on how many pages of the two kinds each stands
_TermCounts = tuple[TermIds, NDArray[np.float64]]
_NO_COUNTS: _TermCounts = (np.zeros(0, dtype=np.int64), np.zeros((0, 2)))


class TextScale(msgspec.Struct, array_like=True):
    """What a fit found beside the weights."""

    center: float = 0.0
    factor: float = 0.0  # 0: not ready
    version: int = 0
    fitted_middle: float = 0.0  # the line its teacher drew when it was fitted last; 0: none yet
    # Pages on the topic it was fitted to: between two fits it says the same everywhere
    fitted_pages: float = 0.0


class TextModelState(msgspec.Struct, array_like=True):
    """Everything a text model knows; without the counts and recent pages, everything it needs to judge."""

    scale: TextScale
    weights: tuple[bytes, bytes] = (b"", b"")  # terms in order, and what each weighs
    # terms, and on how many pages of the two kinds each stands
    counts: tuple[bytes, bytes] = (b"", b"")
    pages: tuple[float, float] = (0.0, 0.0)  # not on the topic, and on it
    recent: tuple[list[bytes], list[bytes]] = msgspec.field(default_factory=lambda: ([], []))
    waiting: tuple[int, int] = (0, 0)  # pages of these two kinds since the last fit


@dataclass
class _PageCounts:
    """Pages by kind: how many, which of late, and how many since the last fit."""

    pages: list[float] = field(default_factory=lambda: [0.0, 0.0])
    # They give the scale
    recent: tuple[list[bytes], list[bytes]] = field(default_factory=lambda: ([], []))
    waiting: list[int] = field(default_factory=lambda: [0, 0])


class TextModel:
    """Counts labelled pages, and after `fit` gives any page a logit: about −2 for the one kind, +2 for the other."""

    def __init__(self, common: DocumentFrequency | None = None) -> None:
        self.scale = TextScale()
        self._document_frequency = common
        self._page_counts = _PageCounts()
        # Of all terms met, as of the last fit
        self._counts = _NO_COUNTS
        # Pages that are not in there yet
        self._uncounted_pages: list[tuple[bytes, bool, float]] = []
        # Those that weigh, in order
        self._terms: TermIds = np.zeros(0, dtype=np.int64)
        self._weights = np.zeros(0)

    @property
    def is_ready(self) -> bool:
        return self.scale.factor > 0.0

    @property
    def pages(self) -> tuple[float, float]:
        """How many pages it was taught: not on the topic, on it."""
        no, yes = self._page_counts.pages
        return no, yes

    @property
    def pages_since_fit(self) -> tuple[int, int]:
        """Pages of the two kinds since the last fit."""
        no, yes = self._page_counts.waiting
        return no, yes

    def add(self, terms: TermIds, positive: bool, weight: float = 1.0) -> None:
        """One labelled page; a negative weight takes one back."""
        seen = self._page_counts
        seen.pages[positive] = max(0.0, seen.pages[positive] + weight)
        seen.waiting[positive] += 1
        page, kind = terms.astype(np.uint32).tobytes(), seen.recent[positive]
        self._uncounted_pages.append((page, positive, weight))
        if weight > 0.0:
            kind.append(page)
            del kind[:-SCALE_PAGES]
        elif page in kind:
            kind.remove(page)

    def fit(self, split: float = 0.0) -> None:
        """Make the weights, and the scale on which a logit means something. Too few pages: not ready."""
        seen, scale = self._page_counts, self.scale
        scale.fitted_middle = split
        scale.version += 1
        seen.waiting = [0, 0]
        # Pages don't pile up where the model never gets ready
        self._merged_counts()
        if (
            min(seen.pages[POSITIVE], seen.pages[NEGATIVE] + self._background_pages) < MIN_CLASS_PAGES
            or not seen.recent[POSITIVE]
        ):
            return
        self._compute_weights()
        low, high = (
            sum(self._raw_score(_decode_terms(page)) for page in kind) / max(1, len(kind)) for kind in seen.recent
        )
        scale.center = (high + low) / 2.0
        scale.factor = 4.0 / max(high - low, 1e-3) if high > low else 0.0
        scale.fitted_pages = seen.pages[POSITIVE]

    def logit(self, terms: TermIds) -> float:
        """How far a page is on the topic's side; 0 while not ready."""
        if not self.is_ready:
            return 0.0
        return min(4.0, max(-4.0, (self._raw_score(terms) - self.scale.center) * self.scale.factor))

    def strongest_terms(self, terms: TermIds, most: int) -> list[tuple[int, float]]:
        """The terms of a page that weigh most, either way."""
        weights = self._weights_of(terms)
        known = np.flatnonzero(weights)
        best = known[np.lexsort((terms[known], -np.abs(weights[known])))[:most]]
        return list(zip(terms[best].tolist(), weights[best].tolist(), strict=True))

    @property
    def term_weights(self) -> tuple[TermIds, NDArray[np.float64]]:
        """The terms that weigh, and what each weighs."""
        return self._terms, self._weights

    def worker_state(self) -> TextModelState:
        """What is needed to judge, and nothing of what is needed to learn on."""
        weights = (self._terms.astype(np.uint32).tobytes(), self._weights.tobytes())
        return TextModelState(msgspec.structs.replace(self.scale), weights)

    def state(self) -> TextModelState:
        """Everything."""
        seen, (terms, table) = self._page_counts, self._merged_counts()
        state = self.worker_state()
        state.counts = (terms.astype(np.uint32).tobytes(), table.tobytes())
        state.pages, state.waiting = self.pages, self.pages_since_fit
        state.recent = (list(seen.recent[NEGATIVE]), list(seen.recent[POSITIVE]))
        return state

    def restore(self, state: TextModelState) -> None:
        """Go on from a state, or judge as a sight says."""
        self.scale = state.scale
        self._page_counts = _PageCounts(list(state.pages), state.recent, list(state.waiting))
        self._terms, self._weights = _decode_terms(state.weights[0]), np.frombuffer(state.weights[1])
        terms = _decode_terms(state.counts[0])
        # An older version kept them as they came
        order = np.argsort(terms)
        self._counts = terms[order], np.frombuffer(state.counts[1]).reshape(-1, 2)[order]
        self._uncounted_pages = []

    def _raw_score(self, terms: TermIds) -> float:
        return float(self._weights_of(terms).sum()) / float(np.sqrt(len(terms) + 1.0))

    def _weights_of(self, terms: TermIds) -> NDArray[np.float64]:
        """What each term weighs; nothing for one that is not known."""
        if not len(self._terms):
            return np.zeros(len(terms))
        at = np.minimum(self._terms.searchsorted(terms), len(self._terms) - 1)
        return np.where(self._terms[at] == terms, self._weights[at], 0.0)

    def _compute_weights(self) -> None:
        """log P(term | on topic) − log P(term | not), both smoothed towards how common the term is at all."""
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
        """Pages not on the topic that general English stands for, until as many were seen."""
        return (
            max(0.0, MAX_BACKGROUND_PAGES - self._page_counts.pages[NEGATIVE])
            if self._document_frequency is not None
            else 0.0
        )

    def _merged_counts(self) -> _TermCounts:
        """The counts of all pages added so far: nobody asks before a fit, and counting many at once is cheaper."""
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
    """Counts by term, in the order of terms; of too many those that stand on most pages are kept."""
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
