"""Which known page to look at again: policies as one number a page, the highest first. Pure: arrays in, arrays out.

All of them get the same budget, as many looks a day as there is to spend; they differ in who gets them.

fixed         every page in turn: who was not looked at longest
proportional  in proportion to how often a page changes (S1-02's plain reading)
adaptive      by what a look is worth: relevance × the time that the copy would be true for longer × what new links of
              the page brought. A page that changes faster than anybody can follow is worth less than one that a look
              keeps true for a week (Cho and Garcia-Molina 2000; the form per page is Azar, Horvitz and others 2018).
              A small part counts the age of what is shown, so that nobody is given up altogether.
"""

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.changerate import RATES, chance_of_change, mean_rate

Array = NDArray[np.float64]
AGE_WEIGHT = 0.1  # of the age that a look takes away, beside the time it keeps a copy true
SURE = 0.05  # a chance below it is no reason to multiply by more, where a sitemap says that a page changed


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """Pages that may be looked at again, a row each."""

    waited_s: Array  # since it was last seen
    chances: Array  # of each rate of the grid
    worth: Array  # relevance × (1 + what its new links brought)
    announced: NDArray[np.bool_]  # a sitemap or feed says that it has changed
    interval_s: float  # between two looks at a page, on average over all


def fixed(pages: Candidates) -> Array:
    """In turn."""
    return pages.waited_s


def proportional(pages: Candidates) -> Array:
    """By the number of changes to be expected since the last look."""
    return mean_rate(pages.chances) * pages.waited_s


def adaptive(pages: Candidates) -> Array:
    """By the value of a look."""
    gained = np.empty(len(pages.worth))
    for start in range(0, len(gained), 4096):  # in portions: the table of page × rate stays in the cache
        part = slice(start, start + 4096)
        gained[part] = _gained_s(pages.waited_s[part], pages.chances[part], pages.interval_s)
    value = pages.worth * gained / pages.interval_s
    if pages.announced.any():
        told = pages.announced
        value[told] /= np.maximum(chance_of_change(pages.chances[told], pages.waited_s[told]), SURE)
    return np.asarray(value)


def _gained_s(waited_s: Array, chances: Array, interval_s: float) -> Array:
    """Seconds of truth that a look brings now, with a part of the age it takes away; expected over the rates."""
    expected = np.outer(waited_s, RATES)
    unchanged = np.exp(-expected)
    fresh = (1.0 - unchanged - expected * unchanged) / RATES
    age = (expected**2 / 2 + expected * unchanged - (1.0 - unchanged)) / RATES**2
    return np.asarray((chances * (fresh + AGE_WEIGHT * np.maximum(age, 0.0) / interval_s)).sum(axis=-1))


Policy = Callable[[Candidates], Array]
POLICIES: dict[str, Policy] = {"fixed": fixed, "proportional": proportional, "adaptive": adaptive}
