"""Which words tell pages on the topic from others: log-odds from counts, exact, incremental, bounded in memory.

A page is the set of its most telling terms. Each term weighs by how much more often it stands on pages of one kind
than of the other, shrunk towards nothing while it was seen seldom. What comes out is a word with a weight: a reason.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

Terms = NDArray[np.int64]
SMOOTHING = 2.0
MIN_PAGES = 2  # a word of one page tells nothing
FEWEST = 3  # pages of each kind before the model says anything
MAX_TERMS = 40_000
RECENT = 100  # pages of each kind that the scale is found with
BACKGROUND = 10.0
NEGATIVE, POSITIVE = 0, 1
Common = Callable[[Terms], NDArray[np.float64]]
"""On what share of all pages each term stands."""
_Counts = tuple[Terms, NDArray[np.float64]]  # terms in order; on how many pages of the two kinds each stands
_NOTHING: _Counts = (np.zeros(0, dtype=np.int64), np.zeros((0, 2)))


class Scale(msgspec.Struct, array_like=True):
    """What a fit found beside the weights."""

    middle: float = 0.0
    factor: float = 0.0  # 0: not ready
    version: int = 0
    split: float = 0.0  # the line its teacher drew when it was fitted last; 0: none yet
    fitted: float = 0.0  # pages on the topic it was fitted to: between two fits it says the same everywhere


class TextState(msgspec.Struct, array_like=True):
    """Everything a text model knows; without the counts and recent pages, everything it needs to judge."""

    scale: Scale
    weights: tuple[bytes, bytes] = (b"", b"")  # terms in order, and what each weighs
    counts: tuple[bytes, bytes] = (b"", b"")  # terms, and on how many pages of the two kinds each stands
    pages: tuple[float, float] = (0.0, 0.0)  # not on the topic, and on it
    recent: tuple[list[bytes], list[bytes]] = msgspec.field(default_factory=lambda: ([], []))
    waiting: tuple[int, int] = (0, 0)  # pages of these two kinds since the last fit


@dataclass
class _Counted:
    """Pages by kind: how many, which of late, and how many since the last fit."""

    pages: list[float] = field(default_factory=lambda: [0.0, 0.0])
    recent: tuple[list[bytes], list[bytes]] = field(default_factory=lambda: ([], []))  # they give the scale
    waiting: list[int] = field(default_factory=lambda: [0, 0])


class TextModel:
    """Counts labelled pages, and after `fit` gives any page a logit: about −2 for the one kind, +2 for the other."""

    def __init__(self, common: Common | None = None) -> None:
        self.scale = Scale()
        self._common = common
        self._seen = _Counted()
        self._counts = _NOTHING  # of all terms met, as of the last fit
        self._added: list[tuple[bytes, bool, float]] = []  # pages that are not in there yet
        self._terms: Terms = np.zeros(0, dtype=np.int64)  # those that weigh, in order
        self._weights = np.zeros(0)

    @property
    def ready(self) -> bool:
        return self.scale.factor > 0.0

    @property
    def pages(self) -> tuple[float, float]:
        """How many pages it was taught: not on the topic, on it."""
        no, yes = self._seen.pages
        return no, yes

    @property
    def waiting(self) -> tuple[int, int]:
        """Pages of the two kinds since the last fit."""
        no, yes = self._seen.waiting
        return no, yes

    def add(self, terms: Terms, positive: bool, weight: float = 1.0) -> None:
        """One labelled page; a negative weight takes one back."""
        seen = self._seen
        seen.pages[positive] = max(0.0, seen.pages[positive] + weight)
        seen.waiting[positive] += 1
        page, kind = terms.astype(np.uint32).tobytes(), seen.recent[positive]
        self._added.append((page, positive, weight))
        if weight > 0.0:
            kind.append(page)
            del kind[:-RECENT]
        elif page in kind:
            kind.remove(page)

    def fit(self, split: float = 0.0) -> None:
        """Make the weights, and the scale on which a logit means something. Too few pages: not ready."""
        seen, scale = self._seen, self.scale
        scale.split = split
        scale.version += 1
        seen.waiting = [0, 0]
        self._counted()  # pages don't pile up where the model never gets ready
        if min(seen.pages[POSITIVE], seen.pages[NEGATIVE] + self._imagined) < FEWEST or not seen.recent[POSITIVE]:
            return
        self._weigh()
        low, high = (sum(self._raw(_terms(page)) for page in kind) / max(1, len(kind)) for kind in seen.recent)
        scale.middle = (high + low) / 2.0
        scale.factor = 4.0 / max(high - low, 1e-3) if high > low else 0.0
        scale.fitted = seen.pages[POSITIVE]

    def logit(self, terms: Terms) -> float:
        """How far a page is on the topic's side; 0 while not ready."""
        if not self.ready:
            return 0.0
        return min(4.0, max(-4.0, (self._raw(terms) - self.scale.middle) * self.scale.factor))

    def telling(self, terms: Terms, most: int) -> list[tuple[int, float]]:
        """The terms of a page that weigh most, either way."""
        weights = self._weights_of(terms)
        known = np.flatnonzero(weights)
        best = known[np.lexsort((terms[known], -np.abs(weights[known])))[:most]]
        return list(zip(terms[best].tolist(), weights[best].tolist(), strict=True))

    @property
    def known(self) -> tuple[Terms, NDArray[np.float64]]:
        """The terms that weigh, and what each weighs."""
        return self._terms, self._weights

    def sight(self) -> TextState:
        """What is needed to judge, and nothing of what is needed to learn on."""
        weights = (self._terms.astype(np.uint32).tobytes(), self._weights.tobytes())
        return TextState(msgspec.structs.replace(self.scale), weights)

    def state(self) -> TextState:
        """Everything."""
        seen, (terms, table) = self._seen, self._counted()
        state = self.sight()
        state.counts = (terms.astype(np.uint32).tobytes(), table.tobytes())
        state.pages, state.waiting = self.pages, self.waiting
        state.recent = (list(seen.recent[NEGATIVE]), list(seen.recent[POSITIVE]))
        return state

    def restore(self, state: TextState) -> None:
        """Go on from a state, or judge as a sight says."""
        self.scale = state.scale
        self._seen = _Counted(list(state.pages), state.recent, list(state.waiting))
        self._terms, self._weights = _terms(state.weights[0]), np.frombuffer(state.weights[1])
        terms = _terms(state.counts[0])
        order = np.argsort(terms)  # an older version kept them as they came
        self._counts = terms[order], np.frombuffer(state.counts[1]).reshape(-1, 2)[order]
        self._added = []

    def _raw(self, terms: Terms) -> float:
        return float(self._weights_of(terms).sum()) / float(np.sqrt(len(terms) + 1.0))

    def _weights_of(self, terms: Terms) -> NDArray[np.float64]:
        """What each term weighs; nothing for one that is not known."""
        if not len(self._terms):
            return np.zeros(len(terms))
        at = np.minimum(self._terms.searchsorted(terms), len(self._terms) - 1)
        return np.where(self._terms[at] == terms, self._weights[at], 0.0)

    def _weigh(self) -> None:
        """log P(term | on topic) − log P(term | not), both smoothed towards how common the term is at all."""
        no, yes = self._seen.pages
        terms, table = self._counted()
        kept = np.flatnonzero(table.sum(axis=1) >= MIN_PAGES)
        terms, (b, a) = terms[kept], table[kept].T
        if self._imagined and self._common is not None:
            b, no = b + self._imagined * np.minimum(self._common(terms), 1.0), no + self._imagined
        prior = SMOOTHING * (a + b + 1.0) / (yes + no + 2.0)
        self._terms = terms
        self._weights = np.log((a + prior) / (yes + SMOOTHING)) - np.log((b + prior) / (no + SMOOTHING))

    @property
    def _imagined(self) -> float:
        """Pages not on the topic that general English stands for, until as many were seen."""
        return max(0.0, BACKGROUND - self._seen.pages[NEGATIVE]) if self._common is not None else 0.0

    def _counted(self) -> _Counts:
        """The counts of all pages added so far: nobody asks before a fit, and counting many at once is cheaper."""
        if self._added:
            pages = [np.frombuffer(page, dtype=np.uint32) for page, _, _ in self._added]
            lengths = [len(page) for page in pages]
            new = np.zeros((sum(lengths), 2))
            for kind in (NEGATIVE, POSITIVE):
                new[:, kind] = np.repeat([weight * (positive == kind) for _, positive, weight in self._added], lengths)
            self._counts = _merged(self._counts, (np.concatenate(pages).astype(np.int64), new))
            self._added = []
        return self._counts


def _merged(counts: _Counts, new: _Counts) -> _Counts:
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


def _terms(page: bytes) -> Terms:
    return np.frombuffer(page, dtype=np.uint32).astype(np.int64)
