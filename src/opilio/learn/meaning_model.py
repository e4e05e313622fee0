"""Which meanings lead to relevant pages: an online logistic regression of rewards on the vectors of links.

It generalises where words do not: after links to "Heron" and "Kingfisher" were worth a visit, "Egret" is too. It learns
what the other features of the links left unexplained, and starts with weights of 0: before it has learned, and for a
link without a known word, it says nothing.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.dense_model import DenseModel
from opilio.text.word_vectors import BYTE_SCALE, DIMENSIONS

STRENGTH = 3.0  # of the prior that holds every weight at 0, in examples (docs/lab/meaning.md)
MAX_LOGIT = 3.0
Bytes = NDArray[np.int8]
Column = NDArray[np.float64]


class MeaningModel:
    """Predicts by how many log-odds a link is better than its other features say; 0 for a link without a known word."""

    def __init__(self, strength: float = STRENGTH) -> None:
        # Weights move little from one fit to the next, so one step of Newton's method is enough.
        self._model = DenseModel(np.zeros(DIMENSIONS), strength, steps=1)

    def predict(self, vectors: Bytes) -> Column:
        """The log-odds of each link, bounded."""
        if not self._model.seen:
            return np.zeros(len(vectors))
        products = vectors.astype(np.float32) @ (self._model.weights / BYTE_SCALE).astype(np.float32)
        bounded: Column = np.clip(products.astype(np.float64), -MAX_LOGIT, MAX_LOGIT)
        return bounded

    def learn(self, vectors: Bytes, rewards: Column, offsets: Column) -> None:
        """Learn the rewards of links; `offsets` are the log-odds by their other features."""
        known = vectors.any(axis=1)
        if known.any():
            self._model.learn(vectors[known] / BYTE_SCALE, rewards[known], offsets[known])

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode((DIMENSIONS, self._model.snapshot()))

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot; one of another version, or of a table with other dimensions, is ignored."""
        dimensions, *model = msgspec.msgpack.decode(state)
        if dimensions == DIMENSIONS and len(model) == 1:
            self._model.restore(model[0])
