"""Which meanings lead to relevant pages: an online ridge regression of rewards on the vectors of links.

It generalises where words do not: after links to "Heron" and "Kingfisher" were worth a visit, "Egret" is too. The sums
of a ridge regression are exact, small, independent of the order of examples, and can be added.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.text.word_vectors import BYTE_SCALE, DIMENSIONS

RIDGE = 2.0  # pseudo-examples that hold every weight at 0
FIT_EVERY = 4
MAX_PREDICTION = 0.8
Bytes = NDArray[np.int8]
_COLUMNS = DIMENSIONS + 1  # the last one is the mean reward


class _MeaningModelState(msgspec.Struct, array_like=True):
    gram: bytes
    moments: bytes
    examples: int
    weights: bytes


class MeaningModel:
    """Predicts how far the reward of a link is above the mean; 0 for a link without a known word."""

    def __init__(self, ridge: float = RIDGE) -> None:
        self._ridge = np.diag(np.append(np.full(DIMENSIONS, ridge), 0.1))
        self._gram = np.zeros((_COLUMNS, _COLUMNS))
        self._moments: NDArray[np.float64] = np.zeros(_COLUMNS)
        self.examples = 0
        self.weights: NDArray[np.float64] = np.zeros(DIMENSIONS)

    def predict(self, vectors: Bytes) -> NDArray[np.float64]:
        """The expected reward of each link above the mean, bounded."""
        if not self.examples:
            return np.zeros(len(vectors))
        products = vectors.astype(np.float32) @ (self.weights / BYTE_SCALE).astype(np.float32)
        bounded: NDArray[np.float64] = np.clip(products.astype(np.float64), -MAX_PREDICTION, MAX_PREDICTION)
        return bounded

    def learn(self, vectors: Bytes, rewards: NDArray[np.float64]) -> None:
        """Learn the rewards of links; a link without a known word teaches nothing."""
        known = vectors.any(axis=1)
        if not known.any():
            return
        rows: NDArray[np.float64] = np.ones((int(known.sum()), _COLUMNS))
        rows[:, :-1] = vectors[known] / BYTE_SCALE
        self._gram += rows.T @ rows
        self._moments += rows.T @ rewards[known]
        before, self.examples = self.examples, self.examples + len(rows)
        if self.examples // FIT_EVERY > before // FIT_EVERY:
            self._fit()

    def _fit(self) -> None:
        self.weights = np.linalg.solve(self._gram + self._ridge, self._moments).astype(np.float64)[:-1]

    def snapshot(self) -> bytes:
        arrays = self._gram.tobytes(), self._moments.tobytes()
        return msgspec.msgpack.encode(_MeaningModelState(*arrays, self.examples, self.weights.tobytes()))

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot; one of a table with other dimensions is ignored."""
        kept = msgspec.msgpack.decode(state, type=_MeaningModelState)
        moments = np.frombuffer(kept.moments)
        if len(moments) != _COLUMNS:
            return
        self._gram = np.frombuffer(kept.gram).reshape(_COLUMNS, _COLUMNS).copy()
        self._moments = moments.copy()
        self.examples = kept.examples
        self.weights = np.frombuffer(kept.weights).copy()
