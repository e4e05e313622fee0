"""Ceilings of crawlers with limited foresight, between a real crawler and the oracle. Pure.

"k0" recognizes every relevant page among the known links and otherwise fetches breadth-first: what a perfect ranker
without foresight can reach. "k1" and "k2" also recognize links with an undiscovered relevant page one or two steps
behind them. The difference between k0 and k1 is the value of foresight on a web; what a strategy lacks to k0 is lost
by its ranker or its judge.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opilio.lab.evaluation.oracle import Mask
from opilio.lab.webs.link_graph import WebLinkGraph

FORESIGHT_STEPS = {"k0": 0, "k1": 1, "k2": 2}


def foresight_order(graph: WebLinkGraph, relevant: Mask, seeds: Sequence[int], budget: int, steps: int) -> list[int]:
    """The order of fetches of a crawler that recognizes relevant pages up to `steps` links behind a known link."""
    crawl = _ForesightCrawl(graph, relevant, seeds)
    while len(crawl.order) < budget and crawl.fetch_next(steps):
        pass
    return crawl.order


class _ForesightCrawl:
    """Known URLs in the order of discovery, dead ones included."""

    def __init__(self, graph: WebLinkGraph, relevant: Mask, seeds: Sequence[int]) -> None:
        self._graph = graph
        self._sources = np.repeat(np.arange(graph.pages), np.diff(graph.starts))
        self._relevant = np.zeros(graph.nodes, dtype=bool)
        self._relevant[: len(relevant)] = relevant
        self._seen = np.zeros(graph.nodes, dtype=bool)
        self._known: list[int] = []
        self._known_relevant: list[int] = []
        self.order: list[int] = []
        self._discover(seeds)

    def fetch_next(self, steps: int) -> bool:
        """Fetch the best known URL; False if there is none."""
        if self._known_relevant:
            node = self._known_relevant.pop(0)
        elif self._known:
            node = self._known.pop(self._best_place(steps))
        else:
            return False
        self.order.append(node)
        self._discover(self._graph.out_links(node).tolist())
        return True

    def _best_place(self, steps: int) -> int:
        """The place of the first known URL with the shortest way to a relevant page; the first one without any."""
        wanted = self._relevant & ~self._seen
        known = np.array(self._known)
        for _ in range(steps):
            leads = self._leads_to(wanted)
            places = np.flatnonzero(leads[known])
            if len(places):
                return int(places[0])
            wanted = leads & ~self._seen
        return 0

    def _leads_to(self, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The nodes with a link to a wanted node."""
        found = np.zeros(self._graph.nodes, dtype=bool)
        found[self._sources[wanted[self._graph.targets]]] = True
        return found

    def _discover(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            if not self._seen[node]:
                self._seen[node] = True
                (self._known_relevant if self._relevant[node] else self._known).append(node)
