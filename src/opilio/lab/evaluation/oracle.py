"""The upper and the lower bound of a crawl, and ceilings of crawlers with limited foresight between them.

The oracle is greedy. It fetches known relevant pages while there are any. When there are none it searches tunnels: of
all chains of irrelevant pages it picks the one with the most relevant pages unlocked per irrelevant fetch. That ratio
is Smith's rule: of two independent jobs, the one with the higher gain per cost first gives the larger area. Jobs that
share pages can break the rule, so optimality is not proven; the tests compare it with exhaustive search on small
graphs.

"k0" recognizes every relevant page among the known links and otherwise fetches breadth-first: what a perfect ranker
without foresight can reach. "k1" and "k2" also recognize links with an undiscovered relevant page one or two steps
behind them. The difference between k0 and k1 is the value of foresight on a web; what a strategy lacks to k0 is lost
by its ranker or its judge.
"""

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opilio.lab.webs.pages import Nodes, WebLinkGraph

Mask = NDArray[np.bool_]


def oracle_order(graph: WebLinkGraph, relevant: Mask, seeds: Sequence[int], budget: int) -> list[int]:
    """The order of an oracle's fetches, at most `budget` nodes.

    It stops when no further relevant page can be reached: more fetches add nothing.
    """
    crawl = _OracleCrawl(graph, relevant, seeds, budget)
    while not crawl.budget_spent:
        if crawl.fetch_relevant():
            continue
        step = _best_step(crawl)
        if step is None:
            break
        crawl.fetch(step)
    return crawl.order


def oracle_hits(graph: WebLinkGraph, relevant: Mask, seeds: Sequence[int], budget: int) -> Mask:
    """Which fetches of the oracle were relevant."""
    order = np.array(oracle_order(graph, relevant, seeds, budget), dtype=np.int64)
    return relevant[order] if len(order) else np.zeros(0, dtype=bool)


def random_order(graph: WebLinkGraph, seeds: Sequence[int], budget: int, rng: random.Random) -> list[int]:
    """Fetches in random order among the URLs known at each step, dead ones included."""
    known = list(dict.fromkeys(seeds))
    seen = set(known)
    order: list[int] = []
    while known and len(order) < budget:
        pick = rng.randrange(len(known))
        known[pick], known[-1] = known[-1], known[pick]
        node = known.pop()
        order.append(node)
        fresh = [t for t in graph.out_links(node).tolist() if t not in seen]
        seen.update(fresh)
        known.extend(fresh)
    return order


def unlocked_relevant(graph: WebLinkGraph, relevant: Mask) -> list[int]:
    """For each page, the relevant pages that its links unlock without another irrelevant fetch, as a bit set.

    Bits count relevant pages in page order. Chains of relevant pages are followed to their end.
    """
    names = np.flatnonzero(relevant)
    bit_of = {int(page): bit for bit, page in enumerate(names)}
    direct = [[bit_of[t] for t in graph.out_links(int(page)).tolist() if t in bit_of] for page in names]
    closure = _closures(direct)
    return [
        _union(closure[bit_of[t]] for t in graph.out_links(page).tolist() if t in bit_of) for page in range(graph.pages)
    ]


class _Tunnel(NamedTuple):
    """A tunnel: its first page, its cost, its gain."""

    first: int
    cost: int
    gain: int

    @property
    def priority(self) -> tuple[float, int, int]:
        return self.gain / self.cost, -self.cost, -self.first


class _OracleCrawl:
    """The state of an oracle's crawl. Invariant: `known` holds the nodes that were seen and not fetched."""

    def __init__(self, graph: WebLinkGraph, relevant: Mask, seeds: Sequence[int], budget: int) -> None:
        self.graph = graph
        self.relevant = np.zeros(graph.nodes, dtype=bool)
        self.relevant[: len(relevant)] = relevant
        self.budget = budget
        self.order: list[int] = []
        self.seen = np.zeros(graph.nodes, dtype=bool)
        self.pending_relevant: list[int] = []
        self.unlocks = unlocked_relevant(graph, self.relevant[: graph.pages])
        self.fetched = np.zeros(graph.nodes, dtype=bool)
        self._discover(np.array(list(dict.fromkeys(seeds)), dtype=np.int32))

    @property
    def budget_spent(self) -> bool:
        return len(self.order) >= self.budget

    def fetch_relevant(self) -> bool:
        """Fetch every known relevant page within the budget; False when none is known."""
        if not self.pending_relevant:
            return False
        while self.pending_relevant and not self.budget_spent:
            self.fetch(self.pending_relevant.pop())
        return True

    def fetch(self, node: int) -> None:
        self.order.append(node)
        self.fetched[node] = True
        self._discover(self.graph.out_links(node))

    def _discover(self, nodes: Nodes) -> None:
        fresh = nodes[~self.seen[nodes]]
        self.seen[fresh] = True
        self.pending_relevant.extend(fresh[self.relevant[fresh]].tolist())


def _best_step(crawl: _OracleCrawl) -> int | None:
    """The first page of the tunnel with the best ratio, or None when no relevant page is left to reach."""
    left = crawl.budget - len(crawl.order)
    unfound = _pack_bits(~crawl.fetched[np.flatnonzero(crawl.relevant)])
    open_pages = crawl.seen & ~crawl.fetched
    open_pages[crawl.graph.pages :] = False
    front = np.flatnonzero(open_pages).astype(np.int32)
    first = np.full(crawl.graph.nodes, -1, dtype=np.int32)
    first[front] = front
    gains = {int(page): crawl.unlocks[page] & unfound for page in front}
    best: _Tunnel | None = None
    cost = 1
    while len(front) and cost < left:
        best = _best_tunnel(best, [_Tunnel(int(first[p]), cost, min(gains[p].bit_count(), left - cost)) for p in gains])
        if best is not None and best.gain / best.cost >= unfound.bit_count() / (cost + 1):
            # Even all remaining pages, one step deeper, would not have a better ratio.
            break
        front, gains = _extend_tunnels(crawl, front, gains, first, unfound)
        cost += 1
    return best.first if best else None


def _best_tunnel(best: _Tunnel | None, errands: Iterable[_Tunnel]) -> _Tunnel | None:
    paying = [e for e in errands if e.gain > 0]
    if best is not None:
        paying.append(best)
    return max(paying, key=lambda e: e.priority, default=None)


def _extend_tunnels(
    crawl: _OracleCrawl, front: Nodes, gains: dict[int, int], first: Nodes, unfound: int
) -> tuple[Nodes, dict[int, int]]:
    """Extend every tunnel by one irrelevant page; a page on two paths keeps the one with the higher gain."""
    sources, targets = crawl.graph.edges_of(front)
    fits = (targets < crawl.graph.pages) & ~crawl.seen[targets] & ~crawl.relevant[targets] & (first[targets] < 0)
    ways: dict[int, int] = {}
    for source, target in zip(sources[fits].tolist(), targets[fits].tolist(), strict=True):
        known = ways.get(target)
        if known is None or gains[source].bit_count() > gains[known].bit_count():
            ways[target] = source
    deeper = {target: gains[source] | (crawl.unlocks[target] & unfound) for target, source in ways.items()}
    for target, source in ways.items():
        first[target] = first[source]
    return np.array(list(deeper), dtype=np.int32), deeper


def _closures(rows: list[list[int]]) -> list[int]:
    """For each node, itself and all it reaches, as a bit set: strongly connected parts first (Tarjan, no recursion)."""
    index = [-1] * len(rows)
    low = [0] * len(rows)
    closure = [0] * len(rows)
    stack: list[int] = []
    counter = 0
    for root in range(len(rows)):
        work = [(root, 0)] if index[root] < 0 else []
        while work:
            node, place = work.pop()
            if place == 0:
                index[node] = low[node] = counter
                counter += 1
                stack.append(node)
            step = _next_unvisited(rows[node], place, index)
            if step < len(rows[node]):
                work += [(node, step + 1), (rows[node][step], 0)]
                continue
            low[node] = min([low[node], *(low[t] for t in rows[node] if not closure[t])])
            if low[node] == index[node]:
                _close_component(node, rows, stack, closure)
    return closure


def _next_unvisited(row: list[int], place: int, index: list[int]) -> int:
    while place < len(row) and index[row[place]] >= 0:
        place += 1
    return place


def _close_component(root: int, rows: list[list[int]], stack: list[int], closure: list[int]) -> None:
    cut = len(stack) - 1 - stack[::-1].index(root)
    members = stack[cut:]
    del stack[cut:]
    bits = _union(1 << m for m in members) | _union(closure[t] for m in members for t in rows[m])
    for member in members:
        closure[member] = bits


def _union(sets: Iterable[int]) -> int:
    total = 0
    for bits in sets:
        total |= bits
    return total


def _pack_bits(flags: Mask) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


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
