"""Which known page to look at again: policies as one number a page, the highest first. Pure: arrays in, arrays out.

All of them get the same budget, as many looks a day as there is to spend; they differ in who gets them.

fixed         every page in turn: who was not looked at longest
proportional  in proportion to how often a page changes (S1-02's plain reading)
adaptive      by what a look is worth: relevance × the time that the copy would be true for longer × what new links of
              the page brought. A page that changes faster than anybody can follow is worth less than one that a look
              keeps true for a week (Cho and Garcia-Molina 2000; the form per page is Azar, Horvitz and others 2018).
              A small part counts the age of what is shown, so that no page is given up altogether.
"""

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.engine.revisit.change_rate import RATES, change_probability, mean_rate

Array = NDArray[np.float64]
AGE_WEIGHT = 0.1  # of the age that a look takes away, beside the time it keeps a copy true
MIN_CHANGE_CHANCE = 0.05  # a chance below it is no reason to multiply by more, where a sitemap says that a page changed


class RevisitCandidates(msgspec.Struct, frozen=True, kw_only=True):
    """Pages that may be looked at again, a row each."""

    waited_s: Array  # since it was last seen
    rate_probabilities: Array  # of each rate of the grid
    value: Array  # relevance × (1 + what its new links brought)
    hinted: NDArray[np.bool_]  # a sitemap or feed says that it has changed
    interval_s: float  # between two looks at a page, on average over all


def score_fixed(pages: RevisitCandidates) -> Array:
    """In turn."""
    return pages.waited_s


def score_proportional(pages: RevisitCandidates) -> Array:
    """By the number of changes to be expected since the last look."""
    return mean_rate(pages.rate_probabilities) * pages.waited_s


def score_adaptive(pages: RevisitCandidates) -> Array:
    """By the value of a look."""
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


def _expected_gain_s(waited_s: Array, chances: Array, interval_s: float) -> Array:
    """Seconds of truth that a look brings now, with a part of the age it takes away; expected over the rates."""
    expected = np.outer(waited_s, RATES)
    unchanged = np.exp(-expected)
    fresh = (1.0 - unchanged - expected * unchanged) / RATES
    age = (expected**2 / 2 + expected * unchanged - (1.0 - unchanged)) / RATES**2
    return np.asarray((chances * (fresh + AGE_WEIGHT * np.maximum(age, 0.0) / interval_s)).sum(axis=-1))


RevisitPolicy = Callable[[RevisitCandidates], Array]
POLICIES: dict[str, RevisitPolicy] = {
    "fixed": score_fixed,
    "proportional": score_proportional,
    "adaptive": score_adaptive,
}
