"""What the links among pages say, as far as a crawl knows them: PageRank, topical PageRank, hubs. Pure.

PageRank of the partial graph orders a crawl (Cho et al. 1998; S2-F5); the topical form lets the surfer start again at
relevant pages only (Haveliwala 2002). The distiller (Chakrabarti et al. 1999) is HITS with relevance on the edges.

What may raise queued links beside their own score: nothing, PageRank, or the distiller's hubs.
"""

from array import array
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import ConfigError

NodeColumn = NDArray[np.float64]
NodeIndices = NDArray[np.int64]
MAX_GRAPH_LINKS = 2_000_000  # remembered; 16 MB. Links found later change nothing
ITERATIONS = 30
UNKNOWN_RELEVANCE = -1.0


class CrawledLinkGraph:
    """Pages and links by key. A page that was only linked to has no relevance yet."""

    def __init__(self, most_links: int = MAX_GRAPH_LINKS) -> None:
        self.node_of: dict[int, int] = {}
        self._max_links = most_links
        self._sources, self._targets = array("i"), array("i")
        self._relevance, self._hosts = array("d"), array("i")
        self._host_numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.node_of)

    def add(self, key: int, host: str, relevance: float, links: Iterable[tuple[int, str]]) -> None:
        """A fetched page with its links; a page that is known already gets new relevance and no links twice."""
        source = self._node(key, host)
        first = self._relevance[source] < 0.0
        self._relevance[source] = relevance
        if first and len(self._sources) < self._max_links:
            for target in dict.fromkeys(self._node(link, there) for link, there in links):
                if target != source:
                    self._sources.append(source)
                    self._targets.append(target)

    def pagerank(self, damping: float = 0.85, topical: bool = False) -> NodeColumn:
        """PageRank of every node, the best 1. Where nothing leads on (not fetched yet) the surfer starts again."""
        count = len(self.node_of)
        if not count:
            return np.zeros(0)
        restart = self._restart_weights(topical)
        source, target, fan = self._edges()
        rank = restart
        for _ in range(ITERATIONS):
            flow = np.bincount(target, (rank / np.maximum(fan, 1))[source], minlength=count)
            rank = damping * flow + (1.0 - damping * float(flow.sum())) * restart
        return np.asarray(rank / rank.max())

    def hubs(self, same_host: bool = False) -> NodeColumn:
        """How good a hub each fetched page is, the best 1; others 0.

        a(v) = Σ R(v)·h(u), h(u) = Σ R(u)·a(v) over links between fetched pages, of different hosts unless told.
        """
        count = len(self.node_of)
        source, target, _ = self._edges()
        relevance = np.array(self._relevance)
        hosts = np.array(self._hosts)
        kept = (relevance[target] >= 0.0) & (same_host | (hosts[source] != hosts[target]))
        source, target = source[kept], target[kept]
        relevance = np.maximum(relevance, 0.0)
        hub: NodeColumn = np.where(np.array(self._relevance) >= 0.0, 1.0, 0.0)
        for _ in range(ITERATIONS):
            authority = relevance * np.bincount(target, hub[source], minlength=count)
            hub = _scaled_to_one(relevance * np.bincount(source, _scaled_to_one(authority)[target], minlength=count))
        return hub

    def best_parent_strength(self, strength: NodeColumn, top: int) -> NodeColumn:
        """For every node the strength of the best of the `top` strongest pages that link to it."""
        source, target, _ = self._edges()
        best = np.argsort(-strength, kind="stable")[:top]
        chosen = np.zeros(len(strength), dtype=np.bool_)
        chosen[best] = strength[best] > 0.0
        found = np.zeros(len(strength))
        kept = chosen[source]
        np.maximum.at(found, target[kept], strength[source[kept]])
        return found

    def _node(self, key: int, host: str) -> int:
        found = self.node_of.get(key)
        if found is None:
            found = self.node_of[key] = len(self.node_of)
            self._relevance.append(UNKNOWN_RELEVANCE)
            self._hosts.append(self._host_numbers.setdefault(host, len(self._host_numbers)))
        return found

    def _edges(self) -> tuple[NodeIndices, NodeIndices, NodeColumn]:
        source = np.array(self._sources, dtype=np.int64)
        target = np.array(self._targets, dtype=np.int64)
        return source, target, np.bincount(source, minlength=len(self.node_of)).astype(np.float64)

    def _restart_weights(self, topical: bool) -> NodeColumn:
        weights = np.maximum(np.array(self._relevance), 0.0) if topical else np.ones(len(self.node_of))
        total = float(weights.sum())
        return weights / total if total else np.full(len(weights), 1.0 / len(weights))


def _scaled_to_one(column: NodeColumn) -> NodeColumn:
    most = float(column.max(initial=0.0))
    return column / most if most else column


CombineScores = Callable[[NodeColumn, NodeColumn], NodeColumn]


class Boost:
    """When and how scores are raised: `values` of all nodes, and how one joins a link's own score."""

    def __init__(self, every: int, values: Callable[[CrawledLinkGraph], NodeColumn], joined: CombineScores) -> None:
        if every < 1:
            raise ConfigError(f"boost.every: must be at least 1, not {every}")
        self.interval_pages = every
        self.node_values = values
        self.combine = joined


def _none() -> None:
    return None


def _pagerank(*, share: float = 0.5, topical: bool = True, damping: float = 0.85, every: int = 25) -> Boost:
    if not 0.0 <= share <= 1.0 or not 0.0 <= damping < 1.0:
        raise ConfigError("boost.share and boost.damping: must be between 0 and 1")

    def joined(own: NodeColumn, value: NodeColumn) -> NodeColumn:
        return np.asarray((1.0 - share) * own + share * value)

    return Boost(every, lambda structure: structure.pagerank(damping, topical), joined)


def _hubs(*, lift: float = 0.5, top: int = 20, same_host: bool = False, every: int = 25) -> Boost:
    def values(structure: CrawledLinkGraph) -> NodeColumn:
        return structure.best_parent_strength(structure.hubs(same_host), top)

    def joined(own: NodeColumn, value: NodeColumn) -> NodeColumn:
        return np.asarray(own + lift * value)

    return Boost(every, values, joined)


BOOSTS: dict[str, Callable[..., Any]] = {"none": _none, "pagerank": _pagerank, "hubs": _hubs}
