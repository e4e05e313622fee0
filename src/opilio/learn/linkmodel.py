"""An online logistic model over hashed and dense features: constant memory, one pass, deterministic.

AdaGrad steps with clipped gradients and bounded weights, so that no sequence of labels, however contradictory,
brings forth a NaN or a weight without bound.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Indices = NDArray[np.uint32]

BUCKETS = 1 << 18
MAX_WEIGHT = 8.0
MAX_LOGIT = 12.0


def sigmoid(x: NDArray[np.floating]) -> NDArray[np.float64]:
    """The logistic function, without overflow."""
    bounded = np.clip(x, -MAX_LOGIT, MAX_LOGIT)
    result: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-bounded))
    return result


class _State(msgspec.Struct, array_like=True):
    weights: bytes
    squares: bytes
    dense: bytes
    dense_squares: bytes
    updates: int


class LinkModel:
    """logit = dense · w + mean-scaled Σ of hashed weights. Index 0 is the empty slot and weighs nothing.

    `prior` are the dense weights to begin with: the papers' scores, before anything was learnt (cold start).
    """

    def __init__(self, prior: NDArray[np.floating], rate: float = 0.15, dense_rate: float = 0.08) -> None:
        self.rate = rate
        self.dense_rate = dense_rate
        self.weights: Floats = np.zeros(BUCKETS, dtype=np.float32)
        self.dense: NDArray[np.float64] = np.array(prior, dtype=np.float64)
        self.updates = 0
        self._squares: Floats = np.full(BUCKETS, 1e-2, dtype=np.float32)
        self._dense_squares: NDArray[np.float64] = np.ones(len(prior))

    def sparse_logits(self, indices: Indices) -> NDArray[np.float64]:
        """The part of the logit that hashed features give, one row of indices per link."""
        total: NDArray[np.float64] = self.weights[indices].sum(axis=1, dtype=np.float64)
        return total / np.sqrt(np.maximum(np.count_nonzero(indices, axis=1), 1))

    def logits(self, sparse_logits: NDArray[np.float64], dense: NDArray[np.floating]) -> NDArray[np.float64]:
        result: NDArray[np.float64] = sparse_logits + dense @ self.dense
        return result

    def learn(self, indices: Indices, dense: NDArray[np.floating], label: float, importance: float = 1.0) -> None:
        """One example: a link's features and what became of it (0..1)."""
        used = np.unique(indices[indices > 0])
        scale = 1.0 / np.sqrt(max(len(used), 1))
        logit = float(self.weights[used].sum(dtype=np.float64)) * scale + float(dense @ self.dense)
        miss = (float(sigmoid(np.array([logit]))[0]) - min(1.0, max(0.0, label))) * importance
        step = np.float32(miss * scale)
        self._squares[used] += step * step
        self.weights[used] = np.clip(
            self.weights[used] - np.float32(self.rate) * step / np.sqrt(self._squares[used]), -MAX_WEIGHT, MAX_WEIGHT
        )
        slope = np.clip(miss * np.asarray(dense, dtype=np.float64), -1.0, 1.0)
        self._dense_squares += slope * slope
        moved = self.dense - self.dense_rate * slope / np.sqrt(self._dense_squares)
        self.dense = np.clip(moved, -MAX_WEIGHT, MAX_WEIGHT)
        self.updates += 1

    def snapshot(self) -> bytes:
        """Everything learnt, to go on from later or elsewhere."""
        parts = (self.weights, self._squares, self.dense, self._dense_squares)
        return msgspec.msgpack.encode(_State(*(p.tobytes() for p in parts), self.updates))

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot."""
        kept = msgspec.msgpack.decode(state, type=_State)
        self.weights = np.frombuffer(kept.weights, dtype=np.float32).copy()
        self._squares = np.frombuffer(kept.squares, dtype=np.float32).copy()
        self.dense = np.frombuffer(kept.dense, dtype=np.float64).copy()
        self._dense_squares = np.frombuffer(kept.dense_squares, dtype=np.float64).copy()
        self.updates = kept.updates
