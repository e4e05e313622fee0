"""A small neural network (S1-27): one hidden layer over standardised attributes, fitted whole, from a fixed seed.

The paper tells neither layers nor sizes (S1-E4). Eight hidden units are enough for eight columns.
"""

import warnings
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.learner import Chances, squash
from opilio.learn.rows import WIDTH, Labels, Rows

HIDDEN = 8
DECAY = 3.0  # L2; log loss on new rows after 200 synthetic ones: 0.53 with 0.1, 0.23 with 3, 0.25 with 10
STEPS = 100

Vector = tuple[float, ...]


class NeuralModel(msgspec.Struct, frozen=True, dict=True, tag="neural"):
    """tanh(standardised row · hidden + hidden_bias) · output + output_bias, as log odds."""

    mean: Vector
    scale: Vector
    hidden: tuple[Vector, ...]  # one per column
    hidden_bias: Vector
    output: Vector
    output_bias: float

    def __post_init__(self) -> None:
        units = len(self.output)
        shapes = [len(self.mean), len(self.scale), len(self.hidden)] == [WIDTH] * 3
        if not shapes or len(self.hidden_bias) != units or any(len(row) != units for row in self.hidden):
            raise ValueError("the layers do not fit each other")
        if not all(self.scale):
            raise ValueError("scale must not be 0")

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        return (WIDTH + 2) * len(self.output) + 1

    @cached_property
    def _layers(self) -> tuple[NDArray[np.float64], ...]:
        return tuple(map(np.array, (self.mean, self.scale, self.hidden, self.hidden_bias, self.output)))

    def probability(self, rows: Rows) -> Chances:
        """One pass forward."""
        mean, scale, hidden, hidden_bias, output = self._layers
        return squash(np.tanh((rows - mean) / scale @ hidden + hidden_bias) @ output + self.output_bias)


def train_neural(rows: Rows, labels: Labels, seed: int) -> NeuralModel:
    """Fit by L-BFGS over all rows: for few rows better and steadier than small steps, and no rate to choose."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(deviation > 1e-6, deviation, 1.0)  # a column that never changes
    net = MLPClassifier((HIDDEN,), activation="tanh", solver="lbfgs", alpha=DECAY, max_iter=STEPS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # enough steps are enough
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
