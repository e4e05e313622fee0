"""How often a page changes, from looks at irregular times: a Poisson process whose rate is not known. Pure.

A revisit shows only whether a page changed since the last one, not how often, so counting changes says too little of
pages that change fast (Cho and Garcia-Molina 2003). Here each possible rate of a fixed grid keeps how well it explains
what was seen: exact, whatever the intervals, and a page that was never looked at again has the rates of its like: its
directory's, its host's, its kind's, everybody's. Those are learnt from the same looks (EM, one step a look).
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
DAY_S = 86_400.0
RATE_COUNT = 24
RATES: Array = np.geomspace(1 / (1000 * DAY_S), 1 / 900, RATE_COUNT)  # once in 1,000 days … every quarter of an hour
# Before anything is known: most pages change within months, few within hours (a broad bell on the grid's own scale).
_UNNORMALIZED_PRIOR: Array = np.exp(-0.5 * ((np.log(RATES) - np.log(1 / (20 * DAY_S))) / 2.0) ** 2)
DEFAULT_PRIOR: Array = _UNNORMALIZED_PRIOR / _UNNORMALIZED_PRIOR.sum()
_DEFAULT_PRIOR_WEIGHT = 3.0  # as many looks as those beginnings count for
_MIN_PROBABILITY = 1e-6  # no rate is ever impossible
_GROUP_PRIOR_WEIGHT = 2.0  # as many pages as host and kind count for, beside the directory's own


def visit_log_likelihood(elapsed_s: float, changed: bool) -> Array:
    """What one look adds to the log-likelihood of each rate.

    >>> (bool(visit_log_likelihood(DAY_S, False)[0] > visit_log_likelihood(DAY_S, False)[-1]),
    ...  bool(np.argmin(visit_log_likelihood(DAY_S, True)) == 0))
    (True, True)
    """
    expected = RATES * max(elapsed_s, 1.0)
    return np.asarray(np.log(-np.expm1(-expected)) if changed else -expected)


def rate_posterior(log_likelihood: Array, prior: Array) -> Array:
    """The chance of each rate, row by row."""
    weight = log_likelihood + np.log(prior)
    weight -= weight.max(axis=-1, keepdims=True)
    chances = np.exp(weight)
    return np.asarray(chances / chances.sum(axis=-1, keepdims=True))


def mean_rate(chances: Array) -> Array:
    """The expected changes a second."""
    return np.asarray(chances @ RATES)


def change_probability(chances: Array, elapsed_s: Array) -> Array:
    """How likely a page has changed since it was last seen."""
    return np.asarray((chances * -np.expm1(-np.outer(elapsed_s, RATES))).sum(axis=-1))


class GroupRatePriors:
    """How the rates of pages are spread among their like. A page belongs to four groups: all, kind, host, directory.

    Invariant: a group's counts are the sum of what is believed of its pages that were looked at, never negative.
    """

    def __init__(self) -> None:
        self._group_ids: dict[Hashable, int] = {}
        self._counts: Array = np.zeros((64, RATE_COUNT))
        self._counts[self.group_id("all")] = DEFAULT_PRIOR * _DEFAULT_PRIOR_WEIGHT

    def group_id(self, group: Hashable) -> int:
        """The number of a group, which is made when it is new."""
        found = self._group_ids.setdefault(group, len(self._group_ids))
        if found >= len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        return found

    def prior(self, groups: NDArray[np.int32]) -> Array:
        """What to expect of pages, by (kind, host, directory): a row each."""
        everybody = self._group_distribution(np.zeros(1, dtype=np.int32), np.zeros((1, RATE_COUNT)), 0.0)
        kind, host = (self._group_distribution(groups[:, at], everybody, _GROUP_PRIOR_WEIGHT) for at in (0, 1))
        return self._group_distribution(groups[:, 2], (kind + host) / 2, 2 * _GROUP_PRIOR_WEIGHT)

    def _group_distribution(self, numbers: NDArray[np.int32], behind: Array, weight: float) -> Array:
        counts = self._counts[numbers] + weight * behind + _MIN_PROBABILITY
        return np.asarray(counts / counts.sum(axis=-1, keepdims=True))

    def learn(self, groups: Sequence[int], before: Array | None, after: Array) -> None:
        """A page was looked at: what is believed of it now takes the place of what was believed before."""
        change = after if before is None else after - before
        for number in (0, *groups):
            self._counts[number] = np.maximum(self._counts[number] + change, 0.0)
