"""Which words tell pages on the topic from others: log-odds from counts, exact, incremental, bounded in memory.

A page is the set of its most telling terms. Each term weighs by how much more often it stands on pages of one kind
than of the other, shrunk towards nothing while it was seen seldom. What comes out is a word with a weight: a reason.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

Terms = NDArray[np.int64]
SMOOTHING = 2.0
MIN_PAGES = 2  # a word of one page tells nothing
FEWEST = 3  # pages of each kind before the model says anything
MAX_TERMS = 20_000
RECENT = 100  # pages of each kind that the scale is found with


class TextState(msgspec.Struct, array_like=True):
    """Everything a text model knows."""

    positive: dict[int, float] = {}  # term -> pages on the topic that have it
    negative: dict[int, float] = {}
    pages: tuple[float, float] = (0.0, 0.0)
    middle: float = 0.0
    scale: float = 0.0  # 0: not ready
    version: int = 0
    split: float = 0.0  # the line its teacher drew when it was fitted last; 0: none yet
    fitted: float = 0.0  # pages on the topic it was fitted to: between two fits it says the same everywhere
    # The last pages, not on the topic and on it: they give the scale.
    recent: tuple[list[bytes], list[bytes]] = msgspec.field(default_factory=lambda: ([], []))
    waiting: tuple[int, int] = (0, 0)  # pages of these two kinds since the last fit


class TextModel:
    """Counts labelled pages, and after `fit` gives any page a logit: about −2 for the one kind, +2 for the other."""

    def __init__(self) -> None:
        self.state = TextState()
        self._weights: dict[int, float] = {}

    @property
    def ready(self) -> bool:
        return self.state.scale > 0.0

    def add(self, terms: Terms, positive: bool, weight: float = 1.0) -> None:
        """One labelled page; a negative weight takes one back."""
        state = self.state
        counts = state.positive if positive else state.negative
        for term in terms.tolist():
            counts[term] = max(0.0, counts.get(term, 0.0) + weight)
        yes, no = state.pages
        state.pages = (max(0.0, yes + weight), no) if positive else (yes, max(0.0, no + weight))
        self._note(terms.astype(np.uint32).tobytes(), positive, weight)
        if len(counts) > 2 * MAX_TERMS:
            self._forget(counts)

    def fit(self, split: float = 0.0) -> None:
        """Make the weights, and the scale on which a logit means something. Too few pages: not ready."""
        self.state.split = split
        self.state.waiting = (0, 0)
        self.state.version += 1
        if min(self.state.pages) < FEWEST or not all(self.state.recent):
            return
        self._weights = self._log_odds()
        low, high = (sum(self._raw(_terms(page)) for page in kind) / len(kind) for kind in self.state.recent)
        self.state.middle = (high + low) / 2.0
        self.state.scale = 4.0 / max(high - low, 1e-3) if high > low else 0.0
        self.state.fitted = self.state.pages[0]

    def _note(self, page: bytes, positive: bool, weight: float) -> None:
        kind = self.state.recent[positive]
        if weight > 0.0:
            kind.append(page)
            del kind[:-RECENT]
        elif page in kind:
            kind.remove(page)
        no, yes = self.state.waiting
        self.state.waiting = (no, yes + 1) if positive else (no + 1, yes)

    def logit(self, terms: Terms) -> float:
        """How far a page is on the topic's side; 0 while not ready."""
        raw = (self._raw(terms) - self.state.middle) * self.state.scale
        return min(4.0, max(-4.0, raw)) if self.ready else 0.0

    def telling(self, terms: Terms, most: int) -> list[tuple[int, float]]:
        """The terms of a page that weigh most, either way."""
        found = [(t, self._weights[t]) for t in terms.tolist() if t in self._weights]
        return sorted(found, key=lambda pair: (-abs(pair[1]), pair[0]))[:most]

    def restore(self, state: TextState) -> None:
        """Go on from a state."""
        self.state = state
        self._weights = self._log_odds() if min(state.pages) >= FEWEST else {}

    def _raw(self, terms: Terms) -> float:
        weigh = self._weights.get
        return sum(weigh(t, 0.0) for t in terms.tolist()) / float(np.sqrt(len(terms) + 1.0))

    def _log_odds(self) -> dict[int, float]:
        """log P(term | on topic) − log P(term | not), both smoothed towards how common the term is at all."""
        positive, negative, (yes, no) = self.state.positive, self.state.negative, self.state.pages
        terms = [
            t for t in positive.keys() | negative.keys() if positive.get(t, 0.0) + negative.get(t, 0.0) >= MIN_PAGES
        ]
        terms.sort()
        a = np.array([positive.get(t, 0.0) for t in terms])
        b = np.array([negative.get(t, 0.0) for t in terms])
        prior = SMOOTHING * (a + b + 1.0) / (yes + no + 2.0)
        weights = np.log((a + prior) / (yes + SMOOTHING)) - np.log((b + prior) / (no + SMOOTHING))
        return dict(zip(terms, weights.tolist(), strict=True))

    def _forget(self, counts: dict[int, float]) -> None:
        kept = sorted(counts, key=lambda t: (-counts[t], t))[:MAX_TERMS]
        kept_counts = {t: counts[t] for t in kept}
        counts.clear()
        counts.update(kept_counts)


def _terms(page: bytes) -> Terms:
    return np.frombuffer(page, dtype=np.uint32).astype(np.int64)
