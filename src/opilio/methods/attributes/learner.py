"""The learners of S1 (S1-27…S1-29): their protocol, row memory and snapshots, when they are fitted, and their models.

scikit-learn fits; the result is kept as plain numbers (a `TrainedModel`) that give probabilities. So a worker process
never loads scikit-learn, and a snapshot from an untrusted source holds numbers, never code.

During a crawl rows arrive one by one (S1-12). The first fit waits for enough rows of both classes; later fits are
spaced by the growth of the rows, so that a crawl of a million pages has below a hundred. Memory is bounded.

Naive Bayes over binned attributes with Laplace's correction (S1-29; Safran, Althagafi & Che 2012): most attributes of
most links are exactly 0, which no bell curve fits, so 0 is a bin of its own and the rest is cut evenly. The decision
tree (S1-28) splits by information gain; its leaves are smoothed so that they can order a queue. The neural network
(S1-27) has one hidden layer over standardised attributes and a fixed seed; the paper gives neither layers nor sizes
(S1-E4), and eight hidden units are enough for eight columns. To add a learner, write a model and a function that
trains it, and add it to the table of `make_learner`.
"""

import importlib.util
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import ConfigError, MissingExtraError
from opilio.methods.attributes.features import (
    ATTRIBUTES,
    MAX_TRAINING_ROWS,
    ROW_WIDTH,
    Labels,
    RowMemory,
    Rows,
    sanitize_rows,
)

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


# Fit again when the rows have grown by this share.
REFIT_GROWTH = 0.1


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
        # Irrelevant, relevant rows added so far.
        self._rows_seen = (0, 0)
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


BINS = 5
_CATEGORIES = [BINS + 1] * len(ATTRIBUTES) + [2] * len(ATTRIBUTES)


class BayesModel(msgspec.Struct, frozen=True, dict=True, tag="bayes"):
    """Log odds of the classes, and what each bin of each column adds."""

    prior: float
    odds: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if [len(column) for column in self.odds] != _CATEGORIES:
            raise ValueError("odds: one number per column and bin is needed")

    @property
    def parameters(self) -> int:
        """Free probabilities of both classes, and the share of one class."""
        return 2 * sum(n - 1 for n in _CATEGORIES) + 1

    @cached_property
    def _table(self) -> NDArray[np.float64]:
        table = np.zeros((ROW_WIDTH, max(_CATEGORIES)))
        for column, odds in enumerate(self.odds):
            table[column, : len(odds)] = odds
        return table

    def probability(self, rows: Rows) -> Probabilities:
        """P(relevant | bins)."""
        return logistic(self.prior + self._table[np.arange(ROW_WIDTH), binned(rows)].sum(axis=1))


def binned(rows: Rows) -> NDArray[np.int64]:
    """The bin of every number: 0 for 0, then 1…BINS; flags are 0 or 1."""
    bins = np.ceil(rows * BINS).astype(np.int64)
    bins[:, len(ATTRIBUTES) :] = rows[:, len(ATTRIBUTES) :] >= 0.5
    return bins


def train_bayes(rows: Rows, labels: Labels, seed: int) -> BayesModel:
    """Count rows per bin. Nothing here is random."""
    from sklearn.naive_bayes import CategoricalNB

    del seed
    counted = CategoricalNB(alpha=1.0, min_categories=_CATEGORIES).fit(binned(rows), labels)
    odds = tuple(tuple((logs[1] - logs[0]).tolist()) for logs in counted.feature_log_prob_)
    return BayesModel(float(counted.class_log_prior_[1] - counted.class_log_prior_[0]), odds)


MAX_DEPTH = 8
# A leaf of fewer rows is not significant.
MIN_LEAF_ROWS = 5
_NO_CHILD = -1


class TreeModel(msgspec.Struct, frozen=True, dict=True, tag="tree"):
    """Nodes by number; 0 is the root. Invariant: children have larger numbers than their parent, so a descent ends."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    column: tuple[int, ...]
    threshold: tuple[float, ...]
    chance: tuple[float, ...]

    def __post_init__(self) -> None:
        nodes = len(self.left)
        if not nodes or any(len(part) != nodes for part in (self.right, self.column, self.threshold, self.chance)):
            raise ValueError("every node needs left, right, column, threshold and chance")
        for at, (left, right, column) in enumerate(zip(self.left, self.right, self.column, strict=True)):
            if left == right == _NO_CHILD:
                continue
            if not (at < left < nodes and at < right < nodes and 0 <= column < ROW_WIDTH):
                raise ValueError(f"node {at} leads nowhere")
        if not all(0.0 <= chance <= 1.0 for chance in self.chance):
            raise ValueError("chance must be within 0..1")

    @property
    def parameters(self) -> int:
        """Two numbers per split (column and threshold), one per leaf."""
        leaves = self.left.count(_NO_CHILD)
        return 2 * (len(self.left) - leaves) + leaves

    @cached_property
    def _arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        children = np.array((self.left, self.right), dtype=np.int64)
        return children, np.array(self.column), np.array(self.threshold), np.array(self.chance)

    def probability(self, rows: Rows) -> Probabilities:
        """All rows go down the tree together, a level at a time."""
        children, column, threshold, chance = self._arrays
        node = np.zeros(len(rows), dtype=np.int64)
        going = np.arange(len(rows))
        # In the precision that the tree was grown with.
        known = rows.astype(np.float32)
        while len(going := going[children[0, node[going]] != _NO_CHILD]):
            at = node[going]
            node[going] = children[(known[going, column[at]] > threshold[at]).astype(np.int64), at]
        found: Probabilities = chance[node]
        return found


def train_tree(rows: Rows, labels: Labels, seed: int) -> TreeModel:
    """Grow a tree; leaf probabilities have Laplace's correction, so that small leaves are not extreme."""
    from sklearn.tree import DecisionTreeClassifier

    grown = DecisionTreeClassifier(
        criterion="entropy", max_depth=MAX_DEPTH, min_samples_leaf=MIN_LEAF_ROWS, random_state=seed
    )
    tree = grown.fit(rows, labels).tree_
    shares = tree.value[:, 0, 1] / tree.value[:, 0, :].sum(axis=1)
    chances = (shares * tree.n_node_samples + 1.0) / (tree.n_node_samples + 2.0)
    return TreeModel(
        left=tuple(tree.children_left.tolist()),
        right=tuple(tree.children_right.tolist()),
        column=tuple(np.maximum(tree.feature, 0).tolist()),
        threshold=tuple(tree.threshold.tolist()),
        chance=tuple(chances.tolist()),
    )


HIDDEN_UNITS = 8
# L2; log loss on new rows after 200 synthetic ones: 0.53 with 0.1, 0.23 with 3, 0.25 with 10.
WEIGHT_DECAY = 3.0
MAX_ITERATIONS = 100

FloatVector = tuple[float, ...]


class NeuralModel(msgspec.Struct, frozen=True, dict=True, tag="neural"):
    """tanh(standardised row · hidden + hidden_bias) · output + output_bias, as log odds."""

    mean: FloatVector
    scale: FloatVector
    hidden: tuple[FloatVector, ...]  # one per column
    hidden_bias: FloatVector
    output: FloatVector
    output_bias: float

    def __post_init__(self) -> None:
        units = len(self.output)
        shapes = [len(self.mean), len(self.scale), len(self.hidden)] == [ROW_WIDTH] * 3
        if not shapes or len(self.hidden_bias) != units or any(len(row) != units for row in self.hidden):
            raise ValueError("the layers do not fit each other")
        if not all(self.scale):
            raise ValueError("scale must not be 0")

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        return (ROW_WIDTH + 2) * len(self.output) + 1

    @cached_property
    def _layers(self) -> tuple[NDArray[np.float64], ...]:
        return tuple(map(np.array, (self.mean, self.scale, self.hidden, self.hidden_bias, self.output)))

    def probability(self, rows: Rows) -> Probabilities:
        """One pass forward."""
        mean, scale, hidden, hidden_bias, output = self._layers
        return logistic(np.tanh((rows - mean) / scale @ hidden + hidden_bias) @ output + self.output_bias)


def train_neural(rows: Rows, labels: Labels, seed: int) -> NeuralModel:
    """Fit by L-BFGS over all rows: for few rows better and steadier than small steps, and no rate to choose."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    # A constant column is not scaled.
    scale = np.where(deviation > 1e-6, deviation, 1.0)
    net = MLPClassifier(
        (HIDDEN_UNITS,),
        activation="tanh",
        solver="lbfgs",
        alpha=WEIGHT_DECAY,
        max_iter=MAX_ITERATIONS,
        random_state=seed,
    )
    with warnings.catch_warnings():
        # The number of iterations is limited on purpose.
        warnings.simplefilter("ignore", ConvergenceWarning)
        net.fit((rows - mean) / scale, labels)
    (hidden, output), (hidden_bias, output_bias) = net.coefs_, net.intercepts_
    return NeuralModel(
        mean=tuple(mean.tolist()),
        scale=tuple(scale.tolist()),
        hidden=tuple(map(tuple, hidden.tolist())),
        hidden_bias=tuple(hidden_bias.tolist()),
        output=tuple(output[:, 0].tolist()),
        output_bias=float(output_bias[0]),
    )


AnyModel = ConstantModel | BayesModel | TreeModel | NeuralModel
TrainFunction = Callable[[Rows, Labels, int], TrainedModel]
_TRAINERS: dict[str, TrainFunction] = {"bayes": train_bayes, "tree": train_tree, "neural": train_neural}
_decode_model = msgspec.msgpack.Decoder(AnyModel).decode
LEARNER_NAMES = tuple(_TRAINERS)


def make_learner(name: str, seed: int = 0, capacity: int = MAX_TRAINING_ROWS) -> RowLearner:
    """An untrained learner."""
    if name not in _TRAINERS:
        raise ConfigError(f"learner '{name}': unknown; known: {', '.join(LEARNER_NAMES)}")
    return RowLearner(name, _TRAINERS[name], _decode_model, seed, capacity)
