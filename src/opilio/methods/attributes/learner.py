"""The learners of S1 (S1-27…S1-29): their protocol, row memory and snapshots, and when they are fitted.

scikit-learn fits; the result is kept as plain numbers (a `TrainedModel`) that give probabilities. So a worker process
never loads scikit-learn, and a snapshot from an untrusted source holds numbers, never code.

During a crawl rows arrive one by one (S1-12). The first fit waits for enough rows of both classes; later fits are
spaced by the growth of the rows, so that a crawl of a million pages has below a hundred. Memory is bounded.
"""

import importlib.util
from collections.abc import Callable
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import MissingExtraError
from opilio.methods.attributes.rows import MAX_TRAINING_ROWS, Labels, RowMemory, Rows, sanitize_rows

Probabilities = NDArray[np.float64]


class TrainedModel(Protocol):
    """A fitted model: plain numbers that give a probability."""

    @property
    def parameters(self) -> int:
        """The number of fitted parameters: the complexity of S1-33."""
        ...

    def probability(self, rows: Rows) -> Probabilities: ...


class AttributeLearner(Protocol):
    """Rows to the probability that a page is relevant. The same rows and seed always give the same probabilities."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> int: ...

    @property
    def is_ready(self) -> bool:
        """Has it seen both classes? Before, every probability is the same."""
        ...

    def fit(self, rows: Rows, labels: Labels) -> None:
        """Learn from these rows alone."""
        ...

    def update(self, rows: Rows, labels: Labels) -> None:
        """Learn from these rows too (S1-12, S1-F1)."""
        ...

    def probability(self, rows: Rows) -> Probabilities: ...

    def snapshot(self) -> bytes: ...

    def restore(self, state: bytes) -> None: ...


class ConstantModel(msgspec.Struct, frozen=True, tag="constant"):
    """The same probability for every row: the model before both classes were seen."""

    chance: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.chance <= 1.0:
            raise ValueError("chance must be within 0..1")

    @property
    def parameters(self) -> int:
        """The one number."""
        return 1

    def probability(self, rows: Rows) -> Probabilities:
        """The same for every row."""
        return np.full(len(rows), self.chance)


def constant_model(labels: Labels) -> ConstantModel:
    """The share of relevant rows, with Laplace's correction: never 0, never 1."""
    return ConstantModel((float(labels.sum()) + 1.0) / (len(labels) + 2.0))


def logistic(logits: NDArray[np.float64]) -> Probabilities:
    """Log odds as probabilities, without overflow; never quite 0 or 1."""
    result: Probabilities = 1.0 / (1.0 + np.exp(-np.clip(logits, -30.0, 30.0)))
    return result


def require_sklearn() -> None:
    """Raise ConfigError where scikit-learn is not installed."""
    if importlib.util.find_spec("sklearn") is None:
        raise MissingExtraError("learning from rows needs scikit-learn; install it with: pip install 'opilio[learn]'")


class _RowLearnerState(msgspec.Struct):
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
        train: Callable[[Rows, Labels, int], TrainedModel],
        read: Callable[[bytes], TrainedModel],
        seed: int = 0,
        capacity: int = MAX_TRAINING_ROWS,
    ) -> None:
        self._name = name
        self._train = train
        self._decode = read
        self._seed = seed
        self._rows = RowMemory(capacity)
        self.model: TrainedModel = ConstantModel(0.5)

    @property
    def name(self) -> str:
        """The kind of learner."""
        return self._name

    @property
    def parameters(self) -> int:
        """The number of parameters of its model."""
        return self.model.parameters

    @property
    def row_count(self) -> int:
        """How many rows it holds: at most its capacity."""
        return len(self._rows)

    @property
    def is_ready(self) -> bool:
        """See `AttributeLearner`."""
        return not isinstance(self.model, ConstantModel)

    def fit(self, rows: Rows, labels: Labels) -> None:
        """See `AttributeLearner`."""
        self._rows = RowMemory(self._rows.capacity)
        self.update(rows, labels)

    def update(self, rows: Rows, labels: Labels) -> None:
        """See `AttributeLearner`."""
        self._rows.add(rows, labels)
        known, truth = self._rows.arrays()
        if self._rows.smaller_class_size:
            require_sklearn()
            self.model = self._train(known, truth, self._seed)
        # A loaded model is not replaced for rows of one class.
        elif not self.is_ready:
            self.model = constant_model(truth)

    def relabel(self, row: Rows, label: bool) -> bool:
        """Change the label of a known row from the next update on; False where the row is unknown."""
        return self._rows.relabel(row, label)

    def probability(self, rows: Rows) -> Probabilities:
        """See `AttributeLearner`."""
        chances = self.model.probability(sanitize_rows(rows))
        # A damaged model must not produce NaN scores.
        return np.nan_to_num(chances, nan=0.0)

    def snapshot(self) -> bytes:
        """The model and its rows, as numbers."""
        model = msgspec.msgpack.encode(self.model)
        return msgspec.msgpack.encode(_RowLearnerState(model, self._rows.pack()))

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot."""
        kept = msgspec.msgpack.decode(state, type=_RowLearnerState)
        self.load(self._decode(kept.model), kept.rows)

    def load(self, model: TrainedModel, rows: tuple[bytes, bytes]) -> None:
        """Load a model and its rows."""
        self._rows.unpack(rows)
        self.model = model

    def pack_rows(self) -> tuple[bytes, bytes]:
        """The rows it was trained on, irrelevant and relevant ones, as plain numbers."""
        return self._rows.pack()


REFIT_GROWTH = 0.1  # fit again when the rows have grown by this share


class _TrainerState(msgspec.Struct):
    version: int
    seen: tuple[int, int]
    waiting: tuple[bytes, bytes]
    learner: bytes


class OnlineTrainer:
    """Collects rows and lets a learner fit them. `version` grows with every fit, and only then."""

    def __init__(self, learner: RowLearner, every: int = 50, least: int = 10) -> None:
        self.learner = learner
        self.version = 0
        self._every = max(1, every)
        self._min_rows = max(1, least)
        self._rows_seen = (0, 0)  # irrelevant, relevant rows added so far
        self._pending = RowMemory()

    @property
    def is_ready(self) -> bool:
        """Can the learner give probabilities?"""
        return self.learner.is_ready

    def probability(self, rows: Rows) -> Probabilities:
        """The learner's probabilities."""
        return self.learner.probability(rows)

    def add(self, rows: Rows, labels: Labels) -> None:
        """Add rows; fits them if it is time."""
        relevant = int(np.count_nonzero(labels))
        self._rows_seen = (self._rows_seen[0] + len(labels) - relevant, self._rows_seen[1] + relevant)
        self._pending.add(rows, labels)
        if self._is_due():
            self._fit()

    def correct(self, rows: Rows, labels: Labels) -> None:
        """Correct rows by the user's labels: they were added with the other label, or never. Fits at once if it can."""
        irrelevant, relevant = self._rows_seen
        for at, label in enumerate(labels.tolist()):
            row, change = rows[at : at + 1], 1 if label else -1
            if self._pending.relabel(row, label) or self.learner.relabel(row, label):
                irrelevant, relevant = irrelevant - change, relevant + change
            else:
                self._pending.add(row, labels[at : at + 1])
                irrelevant, relevant = irrelevant + (not label), relevant + label
        # The rows of a loaded model were never counted.
        self._rows_seen = max(0, irrelevant), max(0, relevant)
        if self.is_ready or min(self._rows_seen) >= self._min_rows:
            self._fit()

    def _fit(self) -> None:
        self.learner.update(*self._pending.arrays())
        self._pending = RowMemory()
        self.version += 1

    def _is_due(self) -> bool:
        if min(self._rows_seen) < self._min_rows:
            return False
        first = self.version == 0 and not self.is_ready
        return len(self._pending) >= (1 if first else max(self._every, int(REFIT_GROWTH * sum(self._rows_seen))))

    def snapshot(self) -> bytes:
        """The complete state, to continue from later or elsewhere."""
        state = _TrainerState(self.version, self._rows_seen, self._pending.pack(), self.learner.snapshot())
        return msgspec.msgpack.encode(state)

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot."""
        kept = msgspec.msgpack.decode(state, type=_TrainerState)
        self.learner.restore(kept.learner)
        self._pending.unpack(kept.waiting)
        self.version, self._rows_seen = kept.version, kept.seen
