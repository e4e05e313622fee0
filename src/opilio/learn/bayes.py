"""Naive Bayes over binned attributes with Laplace's correction (S1-29; literature: Safran, Althagafi & Che 2012).

Most attributes of most links are exactly 0, which no bell curve fits: 0 is a bin of its own, the rest is cut evenly.
"""

from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.learner import Chances, squash
from opilio.learn.rows import ATTRIBUTES, WIDTH, Labels, Rows

BINS = 5
_CATEGORIES = [BINS + 1] * len(ATTRIBUTES) + [2] * len(ATTRIBUTES)


class BayesModel(msgspec.Struct, frozen=True, dict=True, tag="bayes"):
    """Log odds: of the classes, and what each bin of each column adds."""

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
        table = np.zeros((WIDTH, max(_CATEGORIES)))
        for column, odds in enumerate(self.odds):
            table[column, : len(odds)] = odds
        return table

    def probability(self, rows: Rows) -> Chances:
        """P(relevant | bins)."""
        return squash(self.prior + self._table[np.arange(WIDTH), binned(rows)].sum(axis=1))


def binned(rows: Rows) -> NDArray[np.int64]:
    """The bin of every number: 0 for 0, then 1…BINS; flags are 0 or 1."""
    bins = np.ceil(rows * BINS).astype(np.int64)
    bins[:, len(ATTRIBUTES) :] = rows[:, len(ATTRIBUTES) :] >= 0.5
    return bins


def train_bayes(rows: Rows, labels: Labels, seed: int) -> BayesModel:
    """Count; nothing here is random."""
    from sklearn.naive_bayes import CategoricalNB

    del seed
    counted = CategoricalNB(alpha=1.0, min_categories=_CATEGORIES).fit(binned(rows), labels)
    odds = tuple(tuple((logs[1] - logs[0]).tolist()) for logs in counted.feature_log_prob_)
    return BayesModel(float(counted.class_log_prior_[1] - counted.class_log_prior_[0]), odds)
