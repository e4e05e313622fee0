"""How often a page changes, from visits at irregular times: a Poisson process of unknown rate. Pure.

A revisit shows only whether a page changed since the last one, not how often, so counting changes underestimates
pages that change fast (Cho and Garcia-Molina 2003). Here each rate of a fixed grid has its log-likelihood, which is
exact for any intervals. A page that was never revisited gets the rates of its directory, host and kind, and of all
pages as its prior. The priors are learned from the same visits (EM, one step per visit).
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from opilio.core.clock import DAY_S

Array = NDArray[np.float64]
RATE_COUNT = 24
RATES: Array = np.geomspace(1 / (1000 * DAY_S), 1 / 900, RATE_COUNT)  # once in 1,000 days … every quarter of an hour
# Before anything is known: most pages change within months, few within hours (a broad bell on the grid's own scale).
_UNNORMALIZED_PRIOR: Array = np.exp(-0.5 * ((np.log(RATES) - np.log(1 / (20 * DAY_S))) / 2.0) ** 2)
DEFAULT_PRIOR: Array = _UNNORMALIZED_PRIOR / _UNNORMALIZED_PRIOR.sum()
_DEFAULT_PRIOR_WEIGHT = 3.0  # in visits
_MIN_PROBABILITY = 1e-6  # so that no rate becomes impossible
_GROUP_PRIOR_WEIGHT = 2.0  # in pages: the weight of host and kind beside the directory


def visit_log_likelihood(elapsed_s: float, changed: bool) -> Array:
    """What one visit adds to the log-likelihood of each rate.

    >>> (bool(visit_log_likelihood(DAY_S, False)[0] > visit_log_likelihood(DAY_S, False)[-1]),
    ...  bool(np.argmin(visit_log_likelihood(DAY_S, True)) == 0))
    (True, True)
    """
    expected = RATES * max(elapsed_s, 1.0)
    return np.asarray(np.log(-np.expm1(-expected)) if changed else -expected)


def rate_posterior(log_likelihood: Array, prior: Array) -> Array:
    """The probability of each rate, row by row."""
    weight = log_likelihood + np.log(prior)
    weight -= weight.max(axis=-1, keepdims=True)
    probabilities = np.exp(weight)
    return np.asarray(probabilities / probabilities.sum(axis=-1, keepdims=True))


def mean_rate(probabilities: Array) -> Array:
    """The expected changes a second."""
    return np.asarray(probabilities @ RATES)


def change_probability(probabilities: Array, elapsed_s: Array) -> Array:
    """The probability that a page has changed since the last check."""
    return np.asarray((probabilities * -np.expm1(-np.outer(elapsed_s, RATES))).sum(axis=-1))


class GroupRatePriors:
    """The distribution of change rates in groups of pages. A page is in four: all, kind, host, directory.

    Invariant: a group's counts are the sum of the posteriors of its revisited pages, never negative.
    """

    def __init__(self) -> None:
        self._group_ids: dict[Hashable, int] = {}
        self._counts: Array = np.zeros((64, RATE_COUNT))
        self._counts[self.group_id("all")] = DEFAULT_PRIOR * _DEFAULT_PRIOR_WEIGHT

    def group_id(self, group: Hashable) -> int:
        """The number of a group; a new group gets the next one."""
        found = self._group_ids.setdefault(group, len(self._group_ids))
        if found >= len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        return found

    def prior(self, groups: NDArray[np.int32]) -> Array:
        """The prior of pages by (kind, host, directory), one row each."""
        all_pages = self._group_distribution(np.zeros(1, dtype=np.int32), np.zeros((1, RATE_COUNT)), 0.0)
        kind, host = (self._group_distribution(groups[:, at], all_pages, _GROUP_PRIOR_WEIGHT) for at in (0, 1))
        return self._group_distribution(groups[:, 2], (kind + host) / 2, 2 * _GROUP_PRIOR_WEIGHT)

    def _group_distribution(self, numbers: NDArray[np.int32], prior: Array, weight: float) -> Array:
        counts = self._counts[numbers] + weight * prior + _MIN_PROBABILITY
        return np.asarray(counts / counts.sum(axis=-1, keepdims=True))

    def learn(self, groups: Sequence[int], before: Array | None, after: Array) -> None:
        """Replace the earlier posterior of a page by the one after a visit."""
        change = after if before is None else after - before
        for number in (0, *groups):
            self._counts[number] = np.maximum(self._counts[number] + change, 0.0)
