"""What the words at a link are worth on pages: a page is read whole, so its words teach sooner than a few links do.

A word that pages on the topic use and others don't speaks for a link that bears it, long before such a link was
followed. The values are the judge's; how much they count at links is learnt like everything else.
"""

import numpy as np
from numpy.typing import NDArray

from opilio.learn.linkfeatures import ANCHOR, AROUND, HEADING, URL, hashed
from opilio.learn.wordmodel import BUCKETS, Indices

_KINDS = np.array([[URL], [ANCHOR], [AROUND], [HEADING]], dtype=np.uint64)
_SCALE = 0.25  # log-odds of words reach 4 and more
_MOST = 1.5


class WordValues:
    """Values by the index that a word is hashed to, in any of the texts at a link. Nothing is known at first."""

    def __init__(self) -> None:
        self._values: NDArray[np.float32] = np.zeros(BUCKETS, dtype=np.float32)

    def hear(self, terms: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """What words are worth from now on; words that are not among these are worth nothing."""
        self._values[:] = 0.0
        self._values[hashed(_KINDS, terms[None, :])] = values
        self._values[0] = 0.0

    def of(self, indices: Indices) -> NDArray[np.float64]:
        """One value per row: the sum over the root of the number of words, within bounds."""
        total: NDArray[np.float64] = self._values.take(indices).sum(axis=1, dtype=np.float64)
        words = np.sqrt(np.maximum(np.count_nonzero(indices, axis=1), 1))
        bounded: NDArray[np.float64] = np.clip(_SCALE * total / words, -_MOST, _MOST)
        return bounded
