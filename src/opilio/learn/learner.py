"""What a learner is (S1-27…S1-29), and how each of them fits, goes on and is kept.

scikit-learn fits; what it found is kept as plain numbers (a `Model`), and probabilities are worked out from these.
So a worker process never loads scikit-learn, and a snapshot from a stranger holds numbers, never code.
"""

import importlib.util
from collections.abc import Callable
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.rows import CAPACITY, Labels, RowMemory, Rows, sound
from opilio.model.errors import ConfigError

Chances = NDArray[np.float64]


class Model(Protocol):
    """What was found in rows: plain numbers that give a probability."""

    @property
    def parameters(self) -> int:
        """How many numbers were fitted: the complexity of S1-33."""
        ...

    def probability(self, rows: Rows) -> Chances: ...


class Learner(Protocol):
    """Rows to the probability that a page is relevant. The same rows and seed always give the same probabilities."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> int: ...

    @property
    def ready(self) -> bool:
        """Has it seen both classes? Before, every probability is the same."""
        ...

    def fit(self, rows: Rows, labels: Labels) -> None:
        """Learn from these rows alone."""
        ...

    def update(self, rows: Rows, labels: Labels) -> None:
        """Learn from these rows too (S1-12, S1-F1)."""
        ...

    def probability(self, rows: Rows) -> Chances: ...

    def snapshot(self) -> bytes: ...

    def restore(self, state: bytes) -> None: ...


class Constant(msgspec.Struct, frozen=True, tag="constant"):
    """One probability for everything: all there is to say before both classes were seen."""

    chance: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.chance <= 1.0:
            raise ValueError("chance must be within 0..1")

    @property
    def parameters(self) -> int:
        """The one number."""
        return 1

    def probability(self, rows: Rows) -> Chances:
        """The same for every row."""
        return np.full(len(rows), self.chance)


def share(labels: Labels) -> Constant:
    """The share of relevant rows, with Laplace's correction: never 0, never 1."""
    return Constant((float(labels.sum()) + 1.0) / (len(labels) + 2.0))


def squash(logits: NDArray[np.float64]) -> Chances:
    """Log odds as probabilities, without overflow; never quite 0 or 1."""
    result: Chances = 1.0 / (1.0 + np.exp(-np.clip(logits, -30.0, 30.0)))
    return result


def require_library() -> None:
    """Raise ConfigError where scikit-learn is not installed."""
    if importlib.util.find_spec("sklearn") is None:
        raise ConfigError("learning from rows needs scikit-learn; install it with: pip install 'opilio[learn]'")


class _State(msgspec.Struct):
    model: bytes
    rows: tuple[bytes, bytes]


class RowLearner:
    """A learner that remembers its rows (bounded) and fits them all again at every update.

    `train` gets rows of both classes; `read` decodes a model. This is exact for naive Bayes, a tree can't be grown
    further anyway, and a small net fits a few thousand rows in about a second.
    """

    def __init__(
        self,
        name: str,
        train: Callable[[Rows, Labels, int], Model],
        read: Callable[[bytes], Model],
        seed: int = 0,
        capacity: int = CAPACITY,
    ) -> None:
        self._name = name
        self._train = train
        self._read = read
        self._seed = seed
        self._memory = RowMemory(capacity)
        self.model: Model = Constant(0.5)

    @property
    def name(self) -> str:
        """Which kind of learner this is."""
        return self._name

    @property
    def parameters(self) -> int:
        """How many numbers its model has."""
        return self.model.parameters

    @property
    def rows(self) -> int:
        """How many rows it knows: at most its capacity, whatever it was given."""
        return len(self._memory)

    @property
    def ready(self) -> bool:
        """See `Learner`."""
        return not isinstance(self.model, Constant)

    def fit(self, rows: Rows, labels: Labels) -> None:
        """See `Learner`."""
        self._memory = RowMemory(self._memory.capacity)
        self.update(rows, labels)

    def update(self, rows: Rows, labels: Labels) -> None:
        """See `Learner`."""
        self._memory.add(rows, labels)
        known, truth = self._memory.all()
        if self._memory.fewest:
            require_library()
            self.model = self._train(known, truth, self._seed)
        elif not self.ready:  # a model that came from elsewhere is not given up for rows of one class
            self.model = share(truth)

    def move(self, row: Rows, label: bool) -> bool:
        """Know one of its rows by the other label from the next update on; False where it does not know the row."""
        return self._memory.move(row, label)

    def probability(self, rows: Rows) -> Chances:
        """See `Learner`."""
        chances = self.model.probability(sound(rows))
        return np.nan_to_num(chances, nan=0.0)  # a damaged model must not put a link nowhere

    def snapshot(self) -> bytes:
        """The model and its rows, as numbers."""
        model = msgspec.msgpack.encode(self.model)
        return msgspec.msgpack.encode(_State(model, self._memory.pack()))

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot."""
        kept = msgspec.msgpack.decode(state, type=_State)
        self.adopt(self._read(kept.model), kept.rows)

    def adopt(self, model: Model, rows: tuple[bytes, bytes]) -> None:
        """Take a model and its rows as one's own."""
        self._memory.unpack(rows)
        self.model = model

    def pack_rows(self) -> tuple[bytes, bytes]:
        """The rows it was trained on, irrelevant and relevant ones, as plain numbers."""
        return self._memory.pack()
