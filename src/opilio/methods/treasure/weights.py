"""The weights of the four similarities in the overall one: equal (S2-31), or fitted to the outcomes of links.

S2-F8 wants weights within 0..1 that sum to 1 and give the least error. OSM is compared with a threshold, so its
scale is free: least squares over scale, offset and weights is least squares under v ≥ 0, and weights = v / Σv.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

WeightVector = NDArray[np.float64]
EQUAL_WEIGHTS = (0.25, 0.25, 0.25, 0.25)
DC_WEIGHTS = (0.0, 0.0, 0.0, 1.0)  # headings say nothing about which link of a page to follow
MIN_FIT_LINKS = 40  # links of each kind (relevant or not) before a fit is used
_DESCENT_ROUNDS = 200


class WeightEvidence(msgspec.Struct):
    """Sums over links whose outcome is known: enough for a fit, and constant in size."""

    paid: int = 0
    unpaid: int = 0
    sums: list[float] = msgspec.field(default_factory=lambda: [0.0] * 4)
    products: list[list[float]] = msgspec.field(default_factory=lambda: [[0.0] * 4 for _ in range(4)])
    paid_sums: list[float] = msgspec.field(default_factory=lambda: [0.0] * 4)

    def add(self, parts: Sequence[float], paid: bool) -> None:
        """One link with its partial similarities to the node it matched."""
        self.paid += paid
        self.unpaid += not paid
        for i, value in enumerate(parts):
            self.sums[i] += value
            self.paid_sums[i] += value * paid
            for j, other in enumerate(parts):
                self.products[i][j] += value * other

    @property
    def is_enough(self) -> bool:
        return min(self.paid, self.unpaid) >= MIN_FIT_LINKS

    def weights(self) -> tuple[float, ...]:
        """The fitted weights; equal ones with too few links or no signal."""
        return fit_weights(*self.moments()) if self.is_enough else EQUAL_WEIGHTS

    def moments(self) -> tuple[WeightVector, WeightVector]:
        """Covariance of the parts, and of the parts with the outcome."""
        count = max(1, self.paid + self.unpaid)
        mean = np.array(self.sums) / count
        covariance = np.array(self.products) / count - np.outer(mean, mean)
        return covariance, np.array(self.paid_sums) / count - mean * self.paid / count


def fit_weights(covariance: WeightVector, with_outcome: WeightVector) -> tuple[float, ...]:
    """Weights of least error on the simplex, by coordinate descent under v ≥ 0."""
    v = np.zeros(len(with_outcome))
    for _ in range(_DESCENT_ROUNDS):
        for i, own in enumerate(np.diag(covariance).tolist()):
            if own > 1e-12:
                rest = float(covariance[i] @ v) - own * float(v[i])
                v[i] = max(0.0, (float(with_outcome[i]) - rest) / own)
    total = float(v.sum())
    return tuple((v / total).tolist()) if total > 0.0 else EQUAL_WEIGHTS
