"""From similarities to a priority: the inverse of the least number of links to a target (S2-32, S2-38, S2-E4)."""

from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.tgraph.components import LinkParts
from opilio.tgraph.matching import NodeIndex
from opilio.tgraph.postings import Matrix, Places
from opilio.tgraph.weights import EQUAL

Column = NDArray[np.float64]
Rule = Literal["least", "all", "soft"]
_ROUNDING = 1e-6  # similarities are float32: what is equal to the threshold must not pass it (strictly more, S2-38)


class Matching(msgspec.Struct, frozen=True, kw_only=True):
    """How links are matched; the defaults are the paper's (S2-37).

    `rule`: `least` takes the nearest matching node (S2-32); `all` is Σ OSM/d ÷ Σ OSM over all that match (S2-F9,
    S2-F10); `soft` is the best OSM/d. `next_step`: 1/(d+1) instead of 1/max(1, d) (S2-E4).
    """

    threshold: float = 0.05
    unrelated: float = 0.01
    rule: Rule = "least"
    next_step: bool = False
    skip_empty: bool = False
    weights: tuple[float, ...] = EQUAL


class Matches(NamedTuple):
    """One row per link. `node` is −1, `distance` −1 and `osm` that of the most similar node where none matches."""

    priority: Column
    osm: Column
    distance: NDArray[np.int64]
    node: NDArray[np.int64]


def inverse(distance: int, next_step: bool = False) -> float:
    """The priority of a link so many links from a target.

    >>> [round(inverse(d), 4) for d in (0, 1, 2, 3)], inverse(0, next_step=True)
    ([1.0, 1.0, 0.5, 0.3333], 1.0)
    """
    return 1.0 / (distance + 1) if next_step else 1.0 / max(1, distance)


def match(index: NodeIndex, links: LinkParts, how: Matching) -> Matches:
    """The priority of every link of a page; links that match nothing get `unrelated`."""
    count = len(links.head_of)
    if not len(index) or not count:
        nothing = np.full(count, -1, dtype=np.int64)
        return Matches(np.full(count, how.unrelated), np.zeros(count), nothing, nothing)
    question = index.question(links, how.weights, how.skip_empty)
    search = _Search(len(question), how)
    osm = None if how.rule == "least" else index.osm(question)
    for step, (distance, nodes) in enumerate(index.slices):
        left = search.meet(index.osm(question, step) if osm is None else osm[:, nodes], distance, nodes.start)
        if left is not None:
            question = question.only(left)
        if not len(question):
            break
    found, at = search.found(), question.context_of
    return Matches(found.priority[at], found.osm[at], found.distance[at], found.node[at])


class _Search:
    """What the contexts of a page have met so far, from the nearest nodes to the farthest."""

    def __init__(self, count: int, how: Matching) -> None:
        nothing = [np.full(count, -1, dtype=np.int64) for _ in range(2)]
        self.rows = np.arange(count)  # those that look on
        self._how = how
        self._found = Matches(np.full(count, how.unrelated), np.zeros(count), *nothing)
        self._sums = np.zeros((2, count))  # Σ OSM/d and Σ OSM of all that match

    def meet(self, osm: Matrix, distance: int, start: int) -> Places | None:
        """The nodes of one distance, which are used up. Returns who looks on, None: all.

        The nearest node above the threshold counts, of those at one distance the most similar; by `least` that is all.
        """
        found, rows, top = self._found, self.rows, osm.argmax(axis=1)
        best = osm[np.arange(len(osm)), top]
        above, waits = best > self._how.threshold + _ROUNDING, found.node[rows] < 0
        found.osm[rows[waits]] = np.maximum(found.osm[rows[waits]], best[waits])
        first = above & waits
        found.distance[rows[first]] = distance
        found.node[rows[first]] = top[first] + start
        worth = inverse(distance, self._how.next_step)
        if self._how.rule == "all":
            self._add(osm, worth)
            return None
        found.priority[rows[above]] = np.maximum(found.priority[rows[above]], worth * best[above])
        if self._how.rule == "soft" or not above.any():
            return None
        found.priority[rows[above]] = worth
        left = np.flatnonzero(~above)
        self.rows = rows[left]
        return left

    def _add(self, osm: Matrix, worth: float) -> None:
        osm *= osm > self._how.threshold + _ROUNDING
        above = osm @ np.ones(osm.shape[1], dtype=np.float32)  # three times as fast as a sum along an axis
        self._sums += np.outer((worth, 1.0), above)

    def found(self) -> Matches:
        """One row per context."""
        found, how = self._found, self._how
        if how.rule != "all":
            return found
        mean = self._sums[0] / np.maximum(self._sums[1], 1e-12)
        return found._replace(priority=np.where(found.node >= 0, np.maximum(mean, how.unrelated), how.unrelated))
