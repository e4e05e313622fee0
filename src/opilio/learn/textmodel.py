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


class TextState(msgspec.Struct, array_like=True):
    """Everything a text model knows."""

    positive: dict[int, float] = {}  # term -> pages on the topic that have it
    negative: dict[int, float] = {}
    pages: tuple[float, float] = (0.0, 0.0)
    middle: float = 0.0
    scale: float = 0.0  # 0: not ready
    version: int = 0
    split: float = 0.0  # the line its teacher drew when it was fitted last; 0: none yet


class TextModel:
    """Counts labelled pages, and after `fit` gives any page a logit: about −2 for the one kind, +2 for the other."""

    def __init__(self) -> None:
        self.state = TextState()
        self._weights: dict[int, float] = {}
        self._recent: list[tuple[Terms, bool]] = []  # a sample of pages to find the scale with

    @property
    def ready(self) -> bool:
        return self.state.scale > 0.0

    def add(self, terms: Terms, positive: bool, weight: float = 1.0) -> None:
        """One labelled page."""
        counts = self.state.positive if positive else self.state.negative
        for term in terms.tolist():
            counts[term] = counts.get(term, 0.0) + weight
        yes, no = self.state.pages
        self.state.pages = (yes + weight, no) if positive else (yes, no + weight)
        self._recent.append((terms, positive))
        del self._recent[:-200]
        if len(counts) > 2 * MAX_TERMS:
            self._forget(counts)

    def fit(self, split: float = 0.0) -> None:
        """Make the weights, and the scale on which a logit means something. Too few pages: not ready."""
        self.state.split = split
        if min(self.state.pages) < FEWEST:
            return
        self._weights = self._log_odds()
        kinds = [[self._raw(t) for t, positive in self._recent if positive is kind] for kind in (True, False)]
        if not all(kinds):
            return
        high, low = (sum(kind) / len(kind) for kind in kinds)
        self.state.middle = (high + low) / 2.0
        self.state.scale = 4.0 / max(high - low, 1e-3) if high > low else 0.0
        self.state.version += 1

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
