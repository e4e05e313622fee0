"""Link analysis of the part of the web that a crawl has seen: PageRank, topical PageRank and hubs, as score boosts.

PageRank of the partial graph orders a crawl (Cho et al. 1998; S2-F5); the topical form restarts at relevant pages only
(Haveliwala 2002). The distiller (Chakrabarti et al. 1999) is HITS with relevance on the edges.
"""

from array import array
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import ConfigError
from opilio.core.settings import Amount, Positive, Share

NodeColumn = NDArray[np.float64]
NodeIndices = NDArray[np.int64]
# 16 MB; links found later are ignored.
MAX_GRAPH_LINKS = 2_000_000
ITERATIONS = 30
UNKNOWN_RELEVANCE = -1.0


class LinkEdges(NamedTuple):
    """Links between nodes, one row each."""

    sources: NodeIndices
    targets: NodeIndices
    weights: NodeColumn


def pagerank(
    edges: LinkEdges, restart: NodeColumn, *, damping: float, iterations: int, tolerance: float = 0.0
) -> NodeColumn:
    """PageRank of every node, summing to 1. `restart` are the probabilities of a restart at each node.

    The rank of nodes without links goes to the restart. Stops early when the ranks change by less than `tolerance`.
    """
    count = len(restart)
    outgoing = np.maximum(np.bincount(edges.sources, edges.weights, count), 1e-12)
    rank = restart
    for _ in range(iterations):
        flow = np.bincount(edges.targets, (rank / outgoing)[edges.sources] * edges.weights, minlength=count)
        previous, rank = rank, damping * flow + (1.0 - damping * float(flow.sum())) * restart
        if tolerance and float(np.abs(rank - previous).sum()) < tolerance:
            break
    return rank


class CrawledLinkGraph:
    """Pages and links by key. A page that was linked but not fetched has no relevance yet."""

    def __init__(self, max_links: int = MAX_GRAPH_LINKS) -> None:
        self.node_of: dict[int, int] = {}
        self._max_links = max_links
        self._sources, self._targets = array("i"), array("i")
        self._relevance, self._hosts = array("d"), array("i")
        self._host_numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.node_of)

    def add(self, key: int, host: str, relevance: float, links: Iterable[tuple[int, str]]) -> None:
        """Add a fetched page with its links; a page that was added before only gets its new relevance."""
        source = self._node(key, host)
        first = self._relevance[source] < 0.0
        self._relevance[source] = relevance
        if first and len(self._sources) < self._max_links:
            for target in dict.fromkeys(self._node(link, there) for link, there in links):
                if target != source:
                    self._sources.append(source)
                    self._targets.append(target)

    def pagerank(self, damping: float = 0.85, topical: bool = False) -> NodeColumn:
        """PageRank of every node, scaled so that the highest is 1."""
        if not self.node_of:
            return np.zeros(0)
        source, target = self._edges()
        edges = LinkEdges(source, target, np.ones(len(source)))
        rank = pagerank(edges, self._restart_weights(topical), damping=damping, iterations=ITERATIONS)
        return np.asarray(rank / rank.max())

    def hubs(self, same_host: bool = False) -> NodeColumn:
        """The hub score of each fetched page, scaled so that the highest is 1; 0 for pages that were not fetched.

        a(v) = Σ R(v)·h(u), h(u) = Σ R(u)·a(v) over links between fetched pages, of different hosts unless `same_host`.
        """
        count = len(self.node_of)
        source, target = self._edges()
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
        """For every node, the highest strength of the pages that link to it, among the `top` strongest pages."""
        source, target = self._edges()
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

    def _edges(self) -> tuple[NodeIndices, NodeIndices]:
        return np.array(self._sources, dtype=np.int64), np.array(self._targets, dtype=np.int64)

    def _restart_weights(self, topical: bool) -> NodeColumn:
        weights = np.maximum(np.array(self._relevance), 0.0) if topical else np.ones(len(self.node_of))
        total = float(weights.sum())
        return weights / total if total else np.full(len(weights), 1.0 / len(weights))


def _scaled_to_one(column: NodeColumn) -> NodeColumn:
    most = float(column.max(initial=0.0))
    return column / most if most else column


CombineScores = Callable[[NodeColumn, NodeColumn], NodeColumn]


class Boost:
    """A boost from the link graph: computes values of all nodes every `every` pages and combines them with scores."""

    def __init__(self, every: int, values: Callable[[CrawledLinkGraph], NodeColumn], combine: CombineScores) -> None:
        self.interval_pages = every
        self.node_values = values
        self.combine = combine


def no_boost() -> None:
    return None


def pagerank_boost(*, share: Share = 0.5, topical: bool = True, damping: Share = 0.85, every: Positive = 25) -> Boost:
    if damping == 1.0:
        raise ConfigError("boost.damping: must be below 1")

    def combine(own: NodeColumn, value: NodeColumn) -> NodeColumn:
        return np.asarray((1.0 - share) * own + share * value)

    return Boost(every, lambda graph: graph.pagerank(damping, topical), combine)


def hubs_boost(*, lift: Amount = 0.5, top: Positive = 20, same_host: bool = False, every: Positive = 25) -> Boost:
    def values(graph: CrawledLinkGraph) -> NodeColumn:
        return graph.best_parent_strength(graph.hubs(same_host), top)

    def combine(own: NodeColumn, value: NodeColumn) -> NodeColumn:
        return np.asarray(own + lift * value)

    return Boost(every, values, combine)
