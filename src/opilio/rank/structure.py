"""What the links among pages say, as far as a crawl knows them: PageRank, topical PageRank, hubs. Pure.

PageRank of the partial graph orders a crawl (Cho et al. 1998; S2-F5); the topical form lets the surfer start again at
relevant pages only (Haveliwala 2002). The distiller (Chakrabarti et al. 1999) is HITS with relevance on the edges.
"""

from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]
Indices = NDArray[np.int64]
MOST_LINKS = 2_000_000  # remembered; 16 MB. Links found later change nothing
ROUNDS = 30
UNKNOWN = -1.0


class LinkStructure:
    """Pages and links by key. A page that was only linked to has no relevance yet."""

    def __init__(self, most_links: int = MOST_LINKS) -> None:
        self.place: dict[int, int] = {}
        self._most = most_links
        self._sources, self._targets = array("i"), array("i")
        self._relevance, self._hosts = array("d"), array("i")
        self._host_numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.place)

    def add(self, key: int, host: str, relevance: float, links: Iterable[tuple[int, str]]) -> None:
        """A fetched page with its links; a page that is known already gets new relevance and no links twice."""
        source = self._node(key, host)
        first = self._relevance[source] < 0.0
        self._relevance[source] = relevance
        if first and len(self._sources) < self._most:
            for target in dict.fromkeys(self._node(link, there) for link, there in links):
                if target != source:
                    self._sources.append(source)
                    self._targets.append(target)

    def pagerank(self, damping: float = 0.85, topical: bool = False) -> Column:
        """PageRank of every node, the best 1. Where nothing leads on (not fetched yet) the surfer starts again."""
        count = len(self.place)
        if not count:
            return np.zeros(0)
        restart = self._restart(topical)
        source, target, fan = self._edges()
        rank = restart
        for _ in range(ROUNDS):
            flow = np.bincount(target, (rank / np.maximum(fan, 1))[source], minlength=count)
            rank = damping * flow + (1.0 - damping * float(flow.sum())) * restart
        return np.asarray(rank / rank.max())

    def hubs(self, same_host: bool = False) -> Column:
        """How good a hub each fetched page is, the best 1; others 0.

        a(v) = Σ R(v)·h(u), h(u) = Σ R(u)·a(v) over links between fetched pages, of different hosts unless told.
        """
        count = len(self.place)
        source, target, _ = self._edges()
        relevance = np.array(self._relevance)
        hosts = np.array(self._hosts)
        kept = (relevance[target] >= 0.0) & (same_host | (hosts[source] != hosts[target]))
        source, target = source[kept], target[kept]
        relevance = np.maximum(relevance, 0.0)
        hub: Column = np.where(np.array(self._relevance) >= 0.0, 1.0, 0.0)
        for _ in range(ROUNDS):
            authority = relevance * np.bincount(target, hub[source], minlength=count)
            hub = _scaled(relevance * np.bincount(source, _scaled(authority)[target], minlength=count))
        return hub

    def below(self, strength: Column, top: int) -> Column:
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
        found = self.place.get(key)
        if found is None:
            found = self.place[key] = len(self.place)
            self._relevance.append(UNKNOWN)
            self._hosts.append(self._host_numbers.setdefault(host, len(self._host_numbers)))
        return found

    def _edges(self) -> tuple[Indices, Indices, Column]:
        source = np.array(self._sources, dtype=np.int64)
        target = np.array(self._targets, dtype=np.int64)
        return source, target, np.bincount(source, minlength=len(self.place)).astype(np.float64)

    def _restart(self, topical: bool) -> Column:
        weights = np.maximum(np.array(self._relevance), 0.0) if topical else np.ones(len(self.place))
        total = float(weights.sum())
        return weights / total if total else np.full(len(weights), 1.0 / len(weights))


def _scaled(column: Column) -> Column:
    most = float(column.max(initial=0.0))
    return column / most if most else column
