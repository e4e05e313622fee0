"""What words say about links: an online logistic model over hashed features. Constant memory, one pass, deterministic.

AdaGrad steps with bounded weights, so that no sequence of labels, however contradictory, brings forth a NaN or a
weight without bound.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.text.counting import each_once

Indices = NDArray[np.uint32]

BUCKETS = 1 << 18
MAX_WEIGHT = 6.0
MAX_LOGIT = 12.0
SLIGHT = 0.01  # a smaller miss teaches nothing worth its time: most links of a long crawl are foretold so well


def sigmoid(x: NDArray[np.floating]) -> NDArray[np.float64]:
    """The logistic function, without overflow."""
    result: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-np.clip(x, -MAX_LOGIT, MAX_LOGIT)))
    return result


class _State(msgspec.Struct, array_like=True):
    used: bytes  # indices of weights that were ever moved
    weights: bytes
    squares: bytes


class WordModel:
    """logit = Σ of the words' weights / √(number of words). Index 0 is the empty slot and weighs nothing."""

    def __init__(self, rate: float = 0.15) -> None:
        self.rate = np.float32(rate)
        self.weights: NDArray[np.float32] = np.zeros(BUCKETS, dtype=np.float32)
        self._squares: NDArray[np.float32] = np.full(BUCKETS, 1e-2, dtype=np.float32)

    def logits(self, indices: Indices) -> NDArray[np.float64]:
        """One value per row of indices."""
        total: NDArray[np.float64] = self.weights.take(indices).sum(axis=1, dtype=np.float64)
        words: NDArray[np.int64] = np.count_nonzero(indices, axis=1)
        result: NDArray[np.float64] = total / np.sqrt(np.maximum(words, 1))
        return result

    def learn(self, indices: Indices, labels: NDArray[np.floating], offsets: NDArray[np.floating]) -> None:
        """Examples, one per row: the words, what became of each link (0..1), what other features already say of it.

        All are foretold before any is learnt: a batch costs little more than one example.
        """
        words, counts = each_once(indices)
        scales = 1.0 / np.sqrt(np.maximum(counts, 1))
        logits = offsets + self.weights.take(words).sum(axis=1, dtype=np.float64) * scales
        misses = sigmoid(logits) - np.clip(labels, 0.0, 1.0)
        taught = np.flatnonzero(np.abs(misses) >= SLIGHT)
        words = words[taught]
        used = words > 0
        at = words[used]
        steps = np.repeat((misses * scales)[taught].astype(np.float32), counts[taught])
        np.add.at(self._squares, at, steps * steps)
        np.subtract.at(self.weights, at, self.rate * steps / np.sqrt(self._squares[at]))
        self.weights[at] = np.clip(self.weights[at], -MAX_WEIGHT, MAX_WEIGHT)

    def snapshot(self) -> bytes:
        """Everything learnt: only what was moved is written."""
        # A tiny step moves a weight and leaves its sum of squares as it was.
        moved = (self._squares > np.float32(1e-2)) | (self.weights != 0.0)
        used = np.flatnonzero(moved).astype(np.uint32)
        parts = (used, self.weights[used], self._squares[used])
        return msgspec.msgpack.encode(_State(*(p.tobytes() for p in parts)))

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot."""
        kept = msgspec.msgpack.decode(state, type=_State)
        used = np.frombuffer(kept.used, dtype=np.uint32)
        self.weights = np.zeros(BUCKETS, dtype=np.float32)
        self._squares = np.full(BUCKETS, 1e-2, dtype=np.float32)
        self.weights[used] = np.frombuffer(kept.weights, dtype=np.float32)
        self._squares[used] = np.frombuffer(kept.squares, dtype=np.float32)
