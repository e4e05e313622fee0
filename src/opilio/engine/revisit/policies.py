"""Revisit policies: each gives every page a number, the highest is revisited first. Pure: arrays in, arrays out.

All policies have the same budget of revisits per day; they differ in how they distribute it.

fixed         every page in turn: the one that was not checked for the longest time
proportional  in proportion to how often a page changes (S1-02's plain reading)
adaptive      by the value of a revisit: relevance × the time that the copy stays fresh × what new links of the page
              brought. A page that changes faster than the budget can follow has less value than one that stays fresh
              for a week after a revisit (Cho and Garcia-Molina 2000; per page: Azar, Horvitz and others 2018). A small
              part counts the age of the copy, so that every page is revisited at some time.
"""

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.engine.revisit.change_rate import RATES, change_probability, mean_rate

Array = NDArray[np.float64]
AGE_WEIGHT = 0.1  # of the age that a revisit removes; the time the copy stays fresh has 1
MIN_CHANGE_CHANCE = 0.05  # lower limit of the divisor for pages that a sitemap lists as changed


class RevisitCandidates(msgspec.Struct, frozen=True, kw_only=True):
    """Pages that can be revisited, one row each."""

    waited_s: Array  # since the last check
    rate_probabilities: Array  # of each rate of the grid
    value: Array  # relevance × (1 + what its new links brought)
    hinted: NDArray[np.bool_]  # a sitemap or feed says that it has changed
    interval_s: float  # between two visits of a page, on average over all


def score_fixed(pages: RevisitCandidates) -> Array:
    """In turn."""
    return pages.waited_s


def score_proportional(pages: RevisitCandidates) -> Array:
    """By the expected number of changes since the last check."""
    return mean_rate(pages.rate_probabilities) * pages.waited_s


def score_adaptive(pages: RevisitCandidates) -> Array:
    """By the expected value of a revisit."""
    gained = np.empty(len(pages.value))
    for start in range(0, len(gained), 4096):  # in portions: the table of page × rate stays in the cache
        part = slice(start, start + 4096)
        gained[part] = _expected_gain_s(pages.waited_s[part], pages.rate_probabilities[part], pages.interval_s)
    value = pages.value * gained / pages.interval_s
    if pages.hinted.any():
        hinted = pages.hinted
        value[hinted] /= np.maximum(
            change_probability(pages.rate_probabilities[hinted], pages.waited_s[hinted]), MIN_CHANGE_CHANCE
        )
    return np.asarray(value)


def _expected_gain_s(waited_s: Array, probabilities: Array, interval_s: float) -> Array:
    """Expected seconds that the copy stays fresh after a revisit now, with a part of the age that it removes."""
    expected = np.outer(waited_s, RATES)
    unchanged = np.exp(-expected)
    fresh = (1.0 - unchanged - expected * unchanged) / RATES
    age = (expected**2 / 2 + expected * unchanged - (1.0 - unchanged)) / RATES**2
    return np.asarray((probabilities * (fresh + AGE_WEIGHT * np.maximum(age, 0.0) / interval_s)).sum(axis=-1))


RevisitPolicy = Callable[[RevisitCandidates], Array]
POLICIES: dict[str, RevisitPolicy] = {
    "fixed": score_fixed,
    "proportional": score_proportional,
    "adaptive": score_adaptive,
}
