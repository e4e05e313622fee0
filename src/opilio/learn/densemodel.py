"""A small Bayesian logistic regression over a few dense features, fitted again and again to the latest examples.

The prior is a guess with a strength: weights begin at the papers' scores and move only as far as the evidence
pushes them. Newton's method on at most `MEMORY` examples; a dozen features make that cheaper than thinking about it.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
MEMORY = 1_024
STEPS = 4
SETTLED = 1e-3  # a step that moves no weight farther is the last one: mostly the second
LATER = 32  # examples between two fits, when there are many: by then one more changes little
MAX_LOGIT = 12.0


class _State(msgspec.Struct, array_like=True):
    rows: bytes
    labels: bytes
    offsets: bytes
    weights: bytes
    seen: int


class DenseModel:
    """P(pays) = σ(offset + x·w), w ~ Normal(prior, 1/strength); one strength, or one for each weight."""

    def __init__(self, prior: NDArray[np.floating], strength: float | Matrix = 1.0, every: int = 8) -> None:
        self.prior: Matrix = np.array(prior, dtype=np.float64)
        self.weights = self.prior.copy()
        self.strength = strength
        self.every = every
        self.seen = 0
        self._rows: Matrix = np.zeros((MEMORY, len(self.prior)))
        self._labels: Matrix = np.zeros(MEMORY)
        self._offsets: Matrix = np.zeros(MEMORY)

    def logits(self, rows: NDArray[np.floating]) -> Matrix:
        result: Matrix = rows @ self.weights
        return result

    def learn(self, rows: Matrix, labels: Matrix, offsets: Matrix) -> None:
        """Remember examples; `offsets` are what another model already says of them. Fits when enough have come."""
        before = self.seen
        self.seen += len(rows)
        at = np.arange(before, self.seen)[-MEMORY:] % MEMORY
        self._rows[at] = rows[-MEMORY:]
        self._labels[at] = np.clip(labels[-MEMORY:], 0.0, 1.0)
        self._offsets[at] = np.clip(offsets[-MEMORY:], -MAX_LOGIT, MAX_LOGIT)
        apart = max(self.every, min(LATER, self.seen // LATER))
        if self.seen < self.every or self.seen // apart > before // apart:
            self._fit()

    def _fit(self) -> None:
        used = min(self.seen, MEMORY)
        rows, labels, offsets = self._rows[:used], self._labels[:used], self._offsets[:used]
        weights = self.weights
        for _ in range(STEPS):
            chance = 1.0 / (1.0 + np.exp(-np.clip(rows @ weights + offsets, -MAX_LOGIT, MAX_LOGIT)))
            slope = rows.T @ (labels - chance) - self.strength * (weights - self.prior)
            curve = (rows * (chance * (1.0 - chance))[:, None]).T @ rows + self.strength * np.eye(len(weights))
            step = np.clip(np.linalg.solve(curve, slope), -1.0, 1.0)
            weights = weights + step
            if np.abs(step).max() < SETTLED:
                break
        self.weights = np.clip(weights, -MAX_LOGIT, MAX_LOGIT)

    def snapshot(self) -> bytes:
        used = min(self.seen, MEMORY)
        rows, labels, offsets = (part[:used].tobytes() for part in (self._rows, self._labels, self._offsets))
        return msgspec.msgpack.encode(_State(rows, labels, offsets, self.weights.tobytes(), self.seen))

    def restore(self, state: bytes, places: Sequence[int] | None = None) -> None:
        """Go on from a snapshot; `places` tells where each of its features stands now, -1: it is gone."""
        kept = msgspec.msgpack.decode(state, type=_State)
        labels, weights = np.frombuffer(kept.labels), np.frombuffer(kept.weights)
        now = np.arange(len(weights)) if places is None else np.array(places, dtype=np.int64)
        was = np.flatnonzero(now >= 0)
        self._rows[:] = 0.0
        self._rows[: len(labels), now[was]] = np.frombuffer(kept.rows).reshape(-1, len(weights))[:, was]
        self._labels[: len(labels)] = labels
        self._offsets[: len(labels)] = np.frombuffer(kept.offsets)
        self.weights = self.prior.copy()
        self.weights[now[was]] = weights[was]
        self.seen = kept.seen

    def forget(self, places: NDArray[np.int64]) -> None:
        """As if these features had never spoken."""
        self._rows[:, places] = 0.0
        self.weights[places] = self.prior[places]
