"""A double deep Q-network in NumPy: two hidden layers, Adam, replay of past fetches, a slowly following target."""

import msgspec
import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
HIDDEN = 32
BATCH = 32
MAX_REPLAY = 500
LEARNING_RATE = 1e-3
TARGET_INTERVAL = 100  # updates between two copies of the weights to the target network
ADAM_MEAN, ADAM_SQUARE, ADAM_SMALL = 0.9, 0.999, 1e-8


class QState(msgspec.Struct, frozen=True):
    """The weights of both networks, the moments of Adam, and the replay as (row, reward, candidates)."""

    weights: list[bytes]
    updates: int
    replay: list[tuple[bytes, float, bytes]]


class _Layers:
    """The weights of a network, as views of one vector."""

    def __init__(self, inputs: int, seed: int) -> None:
        sizes = ((inputs, HIDDEN), (HIDDEN,), (HIDDEN, HIDDEN), (HIDDEN,), (HIDDEN, 1), (1,))
        self.vector: Rows = np.zeros(sum(int(np.prod(size)) for size in sizes))
        self.parts: list[Rows] = []
        start, rng = 0, np.random.default_rng(seed)
        for size in sizes:
            part = self.vector[start : start + int(np.prod(size))].reshape(size)
            if len(size) > 1:
                part[:] = rng.normal(0.0, np.sqrt(2.0 / size[0]), size)
            self.parts.append(part)
            start += part.size

    def forward(self, rows: Rows) -> tuple[Rows, Rows, Rows]:
        """The activations of both hidden layers, and the values."""
        w1, b1, w2, b2, w3, b3 = self.parts
        first = np.maximum(rows @ w1 + b1, 0.0)
        second = np.maximum(first @ w2 + b2, 0.0)
        return first, second, (second @ w3 + b3)[:, 0]

    def gradient(self, rows: Rows, wanted: Rows) -> Rows:
        """Of half the mean squared error."""
        first, second, values = self.forward(rows)
        _, _, w2, _, w3, _ = self.parts
        error = ((values - wanted) / len(rows))[:, None]
        back2 = (error @ w3.T) * (second > 0.0)
        back1 = (back2 @ w2.T) * (first > 0.0)
        parts = (rows.T @ back1, back1.sum(0), first.T @ back2, back2.sum(0), second.T @ error, error.sum(0))
        return np.concatenate([part.ravel() for part in parts])


class DoubleQLearner:
    """Learns the value of following a link: its reward, and the discounted value of the best link that competes next.

    The online network chooses that link, the target network values it (van Hasselt et al. 2016).
    """

    def __init__(self, inputs: int, discount: float, seed: int = 0) -> None:
        self._discount = discount
        self._online, self._target = _Layers(inputs, seed), _Layers(inputs, seed)
        self._mean, self._square = np.zeros_like(self._online.vector), np.zeros_like(self._online.vector)
        self._replay: list[tuple[Rows, float, Rows]] = []
        self._seed = seed
        self._updates = 0

    def values(self, rows: Rows) -> Rows:
        """The value of each row."""
        return self._online.forward(rows)[2]

    def learn(self, row: Rows, reward: float, candidates: Rows) -> None:
        """Remember one fetch and the links that competed after it; learn from a sample of such memories."""
        self._replay.append((row, reward, candidates))
        del self._replay[:-MAX_REPLAY]
        if len(self._replay) < BATCH:
            return
        rng = np.random.default_rng((self._seed, self._updates))
        sample = [self._replay[at] for at in rng.integers(0, len(self._replay), BATCH)]
        wanted = np.array([reward + self._discount * self._next_value(found) for _, reward, found in sample])
        self._step(self._online.gradient(np.array([one[0] for one in sample]), wanted))

    def _next_value(self, candidates: Rows) -> float:
        if not len(candidates):
            return 0.0
        best = int(np.argmax(self.values(candidates)))
        return float(self._target.forward(candidates[best : best + 1])[2][0])

    def _step(self, gradient: Rows) -> None:
        self._updates += 1
        self._mean += (1.0 - ADAM_MEAN) * (gradient - self._mean)
        self._square += (1.0 - ADAM_SQUARE) * (gradient**2 - self._square)
        mean = self._mean / (1.0 - ADAM_MEAN**self._updates)
        square = self._square / (1.0 - ADAM_SQUARE**self._updates)
        self._online.vector -= LEARNING_RATE * mean / (np.sqrt(square) + ADAM_SMALL)
        if self._updates % TARGET_INTERVAL == 0:
            self._target.vector[:] = self._online.vector

    def state(self) -> QState:
        """Everything that learning depends on."""
        replay = [(_pack(row), reward, _pack(candidates)) for row, reward, candidates in self._replay]
        return QState([vector.tobytes() for vector in self._vectors()], self._updates, replay)

    def restore(self, state: QState) -> None:
        for vector, data in zip(self._vectors(), state.weights, strict=True):
            vector[:] = np.frombuffer(data)
        self._updates, inputs = state.updates, self._online.parts[0].shape[0]
        self._replay = [
            (_unpack(row), reward, _unpack(found).reshape(-1, inputs)) for row, reward, found in state.replay
        ]

    def _vectors(self) -> tuple[Rows, ...]:
        return self._online.vector, self._target.vector, self._mean, self._square


def _pack(rows: Rows) -> bytes:
    """Rows come from lessons, which hold four bytes per number."""
    return rows.astype(np.float32).tobytes()


def _unpack(data: bytes) -> Rows:
    return np.frombuffer(data, dtype=np.float32).astype(np.float64)
