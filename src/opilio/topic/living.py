"""The one table that judge and ranker share, and that may grow during the crawl.

`LivingTopic` is the only thing here that changes: between visits, through `learn`, in the writing process.
Workers get the same state by `restore`. It is the `Learns` of every judge and ranker that looks at it.
"""

import math
from array import array
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.model.records import Outcome
from opilio.topic.expansion import Expansion, Frozen
from opilio.topic.table import WeightTable
from opilio.topic.tables import Idf

Terms = NDArray[np.uint32]  # terms are 32-bit hashes; half the width sorts twice as fast (measured)


def array_of(terms: Sequence[int]) -> Terms:
    """Terms as an array, by way of a typed array of Python: half the time of numpy's own conversion (measured)."""
    return np.frombuffer(array("I", terms), dtype=np.uint32)


class Sight:
    """A table made ready for matching: by term, as a mapping and as sorted arrays. `size` is s of S3-18."""

    __slots__ = ("labels", "mass", "norm", "size", "terms", "vector", "weights")

    def __init__(self, vector: dict[int, float], labels: dict[int, str], size: int) -> None:
        self.vector = vector
        self.labels = labels
        self.size = size
        self.mass = math.fsum(self.vector.values())
        self.norm = math.sqrt(math.fsum(w * w for w in self.vector.values()))
        order = sorted(self.vector)
        self.terms: Terms = np.array(order, dtype=np.uint32)
        self.weights: NDArray[np.float64] = np.array([self.vector[t] for t in order], dtype=np.float64)

    def weigh(self, terms: Terms) -> NDArray[np.float64]:
        """The weight of each term, 0 for those that are not in the table."""
        if not self.terms.size:
            return np.zeros(terms.shape)
        at = np.minimum(np.searchsorted(self.terms, terms), self.terms.size - 1)
        return np.where(self.terms[at] == terms, self.weights[at], 0.0)


def sight_of(table: WeightTable) -> Sight:
    """A table made ready for matching."""
    return Sight(table.vector, table.labels, len(table))


class _State(msgspec.Struct):
    table: WeightTable
    expansion: Expansion


class LivingTopic:
    """A topic's table as it is now, with how it grows."""

    def __init__(self, table: WeightTable, expansion: Expansion | None = None, background: Idf | None = None) -> None:
        self._state = _State(table, expansion or Frozen())
        self._background = background
        self._sight: Sight | None = None

    @property
    def table(self) -> WeightTable:
        """The table as it is now."""
        return self._state.table

    @property
    def expansion(self) -> Expansion:
        """How it grows."""
        return self._state.expansion

    @property
    def version(self) -> int:
        """Grows with every change of the table."""
        return self._state.table.version

    @property
    def sight(self) -> Sight:
        """The table made ready for matching."""
        if self._sight is None:
            self._sight = sight_of(self._state.table)
        return self._sight

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """Feed what was found; only new pages that were judged relevant count (S0-21)."""
        for outcome in outcomes:
            analysis = outcome.analysis
            if analysis is None or analysis.verdict is None or outcome.duplicate_of:
                continue
            if analysis.verdict.relevant and analysis.counts:
                self.feed(dict(analysis.counts), analysis.verdict.score)

    def feed(self, counts: dict[str, int], score: float) -> None:
        """One relevant page by its stems."""
        self.expansion.feed(counts, score, self._background)
        self._become(self.expansion.grown(self.table, self._background))

    def snapshot(self) -> bytes:
        """Table and expansion, to go on from later or elsewhere."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot."""
        self._state = msgspec.msgpack.decode(state, type=_State)
        self._sight = None

    def _become(self, table: WeightTable) -> None:
        if table is not self._state.table:
            self._state.table = table
            self._sight = None
