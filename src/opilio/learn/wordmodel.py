"""What words say about links: an online logistic model over hashed features. Constant memory, one pass, deterministic.

AdaGrad steps with bounded weights, so that no sequence of labels, however contradictory, brings forth a NaN or a
weight without bound.
"""

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.text.counting import distinct

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

    def logit(self, indices: Indices) -> float:
        """The same for one row."""
        total = float(self.weights.take(indices).sum(dtype=np.float64))
        return total / math.sqrt(max(1, int(np.count_nonzero(indices))))

    def learn(self, indices: Indices, label: float, offset: float) -> None:
        """One example: the words, what became of the link (0..1), and what the other features already say of it."""
        used = distinct(indices)
        used = used[1:] if used.size and not used[0] else used
        if not len(used):
            return
        scale = 1.0 / math.sqrt(len(used))
        logit = offset + float(self.weights[used].sum(dtype=np.float64)) * scale
        chance = 1.0 / (1.0 + math.exp(-min(MAX_LOGIT, max(-MAX_LOGIT, logit))))
        miss = chance - min(1.0, max(0.0, label))
        if abs(miss) < SLIGHT:
            return
        step = np.float32(miss * scale)
        self._squares[used] += step * step
        moved = self.weights[used] - self.rate * step / np.sqrt(self._squares[used])
        self.weights[used] = np.clip(moved, -MAX_WEIGHT, MAX_WEIGHT)

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
