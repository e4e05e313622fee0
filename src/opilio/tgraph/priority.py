"""From similarities to a priority: the inverse of the least number of links to a target (S2-32, S2-38, S2-E4)."""

from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.tgraph.components import LinkParts
from opilio.tgraph.matching import Matrix, NodeIndex
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
    osm, context_of = index.similar(links, how.weights, how.skip_empty)
    found = _nearest(index, osm, how)
    if how.rule != "least":
        found = found._replace(priority=_of_all(index, osm, found, how))
    return Matches(
        found.priority[context_of], found.osm[context_of], found.distance[context_of], found.node[context_of]
    )


def _nearest(index: NodeIndex, osm: Matrix, how: Matching) -> Matches:
    """Of all nodes above the threshold the nearest; of those at the same distance the most similar."""
    contexts = len(osm)
    found = Matches(
        np.full(contexts, how.unrelated),
        osm.max(axis=1).astype(np.float64),
        *(np.full(contexts, -1, dtype=np.int64) for _ in range(2)),
    )
    is_open = np.ones(contexts, dtype=np.bool_)
    for distance, nodes in index.slices:
        block = osm[:, nodes]
        best = block.max(axis=1)
        new = np.flatnonzero(is_open & (best > how.threshold + _ROUNDING))
        found.priority[new] = inverse(distance, how.next_step)
        found.osm[new], found.distance[new] = best[new], distance
        found.node[new] = block[new].argmax(axis=1) + nodes.start
        is_open[new] = False
        if not is_open.any():
            break
    return found


def _of_all(index: NodeIndex, osm: Matrix, nearest: Matches, how: Matching) -> Column:
    above = osm * (osm > how.threshold + _ROUNDING)
    worth = [(inverse(distance, how.next_step), above[:, nodes]) for distance, nodes in index.slices]
    if how.rule == "soft":
        found = np.max([value * block.max(axis=1) for value, block in worth], axis=0)
    else:
        sums = [(value, block.sum(axis=1)) for value, block in worth]
        found = sum(value * s for value, s in sums) / np.maximum(sum(s for _, s in sums), 1e-12)
    return np.where(nearest.node >= 0, np.maximum(found, how.unrelated), how.unrelated)
