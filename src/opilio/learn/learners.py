"""The learners of S1 by name (S1-27…S1-29): adding one takes a model, a way to train it, and a line here."""

from collections.abc import Callable

import msgspec

from opilio.learn.bayes import BayesModel, train_bayes
from opilio.learn.learner import Constant, Model, RowLearner
from opilio.learn.neural import NeuralModel, train_neural
from opilio.learn.rows import CAPACITY, Labels, Rows
from opilio.learn.tree import TreeModel, train_tree
from opilio.model.errors import ConfigError

AnyModel = Constant | BayesModel | TreeModel | NeuralModel
Train = Callable[[Rows, Labels, int], Model]
_TRAIN: dict[str, Train] = {"bayes": train_bayes, "tree": train_tree, "neural": train_neural}
_read = msgspec.msgpack.Decoder(AnyModel).decode
LEARNERS = tuple(_TRAIN)


def make_learner(name: str, seed: int = 0, capacity: int = CAPACITY) -> RowLearner:
    """A learner that knows nothing yet."""
    if name not in _TRAIN:
        raise ConfigError(f"learner '{name}': is unknown; known: {', '.join(LEARNERS)}")
    return RowLearner(name, _TRAIN[name], _read, seed, capacity)
