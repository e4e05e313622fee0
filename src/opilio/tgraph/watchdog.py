"""The watchdog: the T-Graph learns from what the crawl met (S2-14). Pure: the same experience gives the same graph.

Every `period` on-topic pages it (1) counts for every node whether the links it spoke for paid, (2) lets the best pages
become targets and the links that led there nodes, (3) gives targets that were met again the main heading they have now,
(4) silences or drops nodes that misled. In between it only remembers. What changed is an `Update`, for the record.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from opilio.tgraph.graph import TGraph
from opilio.tgraph.node import Destination, Document, Node
from opilio.tgraph.weights import EQUAL, Evidence

RECENT = 200  # scores of on-topic pages that the top decile is taken of
PATHS = 5_000  # links that led somewhere, remembered for paths to targets


class Experience(msgspec.Struct, frozen=True, array_like=True):
    """One link as it was judged, with the page it led to."""

    key: int
    parent: int
    url: str
    on_topic: bool
    score: float
    title: str = ""
    text: str = ""  # what the page says of itself
    node: str = ""  # the node that the link matched
    parts: tuple[float, ...] = ()  # its similarities to that node
    link: tuple[str, str, str, str] | None = None  # ISH, SH, MH, DC of the link; none where it was not compared
    heading: str = ""  # the page's main heading, else its title: the MH of a target


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """What one round of the watchdog changed."""

    version: int
    added: int = 0
    refreshed: int = 0
    silenced: int = 0
    dropped: int = 0
    nodes: int = 0
    weights: tuple[float, ...] = EQUAL


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """How the watchdog works. `period` 0: it sleeps."""

    period: int = 20  # on-topic pages between two rounds
    depth: int = 3
    per_level: int = 500  # nodes
    top: float = 0.1  # share of the on-topic pages that become targets
    tries: int = 10  # links a node must have spoken for before it can be found wanting


class _Path(msgspec.Struct, array_like=True):
    parent: int
    url: str
    link: tuple[str, str, str, str] | None


class State(msgspec.Struct):
    """Everything a watchdog knows; what is in it is what a snapshot keeps."""

    version: int = 0
    nodes: list[Node] = []
    documents: list[Document] = []
    evidence: Evidence = msgspec.field(default_factory=Evidence)
    counts: dict[str, list[int]] = {}  # node -> hits and misses since the last round
    scores: list[float] = []
    paths: dict[int, _Path] = {}
    waiting: list[Experience] = []  # on-topic pages since the last round
    made: int = 0  # nodes ever made here: ids are never used twice


class Watchdog:
    """Holds the graph and lets it grow."""

    def __init__(self, habits: Habits | None = None, graph: TGraph | None = None) -> None:
        self.habits = habits or Habits()
        self.graph = graph or TGraph()
        self._state = State()
        self.news: list[Update] = []  # rounds since somebody last asked

    @property
    def version(self) -> int:
        return self._state.version

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of the four similarities, as far as experience tells (S2-F8)."""
        return self._state.evidence.weights()

    def study(self, met: Sequence[Experience]) -> None:
        """Remember what was met; where enough has come together, do a round."""
        for one in met:
            self._remember(one)
        waiting = len(self._state.waiting)
        first = not len(self.graph) and waiting > 0  # without a single target everything else waits for one
        if self.habits.period and (waiting >= self.habits.period or first):
            self._round()

    def _remember(self, one: Experience) -> None:
        state = self._state
        if one.node:
            counts = state.counts.setdefault(one.node, [0, 0])
            counts[0 if one.on_topic else 1] += 1
            if one.parts:
                state.evidence.add(one.parts, one.on_topic)
        state.paths[one.key] = _Path(one.parent, one.url, one.link)
        while len(state.paths) > PATHS:
            del state.paths[next(iter(state.paths))]
        if one.on_topic:
            state.scores = [*state.scores[-RECENT + 1 :], one.score]
            state.waiting.append(one)

    def _round(self) -> None:
        state = self._state
        counted = self._reinforced()
        refreshed = [node for one in state.waiting for node in self._refreshed(counted, one)]
        grown = [node for one in self._best() for node in self._grown(one)]
        graph = counted.plus(refreshed).plus(grown)
        misleading = self._misleading(graph)
        steps = {nearer for _, nearer in graph.edges}
        silent = [graph.nodes[name] for name in misleading if name in steps and not graph.nodes[name].dic.silent]
        graph = graph.plus(replace(n, dic=replace(n.dic, silent=True)) for n in silent)
        graph = self._within_bounds(graph.without({name for name in misleading if name not in steps}))
        state.version += 1
        state.waiting, state.counts = [], {}
        self.graph = graph
        self.news.append(
            Update(
                version=state.version,
                added=len(grown),
                refreshed=len(refreshed),
                silenced=len(silent),
                dropped=len(counted) + len(grown) - len(graph),
                nodes=len(graph),
                weights=self.weights,
            )
        )

    def _reinforced(self) -> TGraph:
        known = [(self.graph.nodes.get(name), hits, misses) for name, (hits, misses) in self._state.counts.items()]
        return self.graph.plus(
            replace(n, dic=replace(n.dic, hits=n.dic.hits + hits, misses=n.dic.misses + misses))
            for n, hits, misses in known
            if n is not None
        )

    def _refreshed(self, graph: TGraph, one: Experience) -> list[Node]:
        """The target nodes of a page that the crawl has met again, with the main heading it has now."""
        own = [n for n in graph.at_level(0) if n.url == one.url and one.heading and n.mh != one.heading]
        return [replace(node, mh=one.heading) for node in own]

    def _best(self) -> list[Experience]:
        """The on-topic pages since the last round that are among the best lately, and are no targets yet."""
        ranked = sorted(self._state.scores, reverse=True)
        floor = ranked[int(self.habits.top * (len(ranked) - 1))] if ranked else 0.0
        known = {node.url for node in self.graph.at_level(0)}
        return [one for one in self._state.waiting if one.score >= floor and one.url not in known]

    def _grown(self, one: Experience) -> list[Node]:
        """A page as a new target, and the links on the way there as nodes of level 1, 2, …"""
        said = f"{one.title} {one.text}".strip()
        target = Node(id=self._name(0), url=one.url, level=0, mh=one.heading or one.title, dc=said)
        made, path = [target], self._state.paths.get(one.key)
        leads_to = one.url
        for level in range(1, self.habits.depth + 1):
            if path is None or path.link is None:
                break
            above = self._state.paths.get(path.parent)
            ish, sh, mh, dc = path.link
            dic = Destination(leads_to=(made[-1].id,), url=leads_to)
            url = above.url if above else ""
            made.append(Node(id=self._name(level), url=url, level=level, ish=ish, sh=sh, mh=mh, dc=dc, dic=dic))
            leads_to, path = url, above
        return made

    def _name(self, level: int) -> str:
        self._state.made += 1
        return f"{level}-w{self._state.made}"

    def _misleading(self, graph: TGraph) -> list[str]:
        """Nodes that spoke for many links of which fewer paid than of all links that were compared."""
        tried = [n for n in graph.nodes.values() if n.dic.tries >= self.habits.tries]
        hits, tries = (sum(values) for values in zip((0, 0), *((n.dic.hits, n.dic.tries) for n in tried), strict=True))
        base = hits / tries if tries else 0.0
        return [n.id for n in tried if n.level and n.dic.hits / n.dic.tries < base / 2]

    def _within_bounds(self, graph: TGraph) -> TGraph:
        """Without what is over the bound of its level: what paid least, then what is oldest; no step of others."""
        for level in range(graph.depth, -1, -1):  # what is dropped far away is a step no more of what is nearer
            nodes, steps = graph.at_level(level), {nearer for _, nearer in graph.edges}
            over = max(0, len(nodes) - self.habits.per_level)
            spare = sorted((n for n in nodes if n.id not in steps), key=lambda n: n.dic.hits - n.dic.misses)
            graph = graph.without({n.id for n in spare[:over]})
        return graph

    def sight(self) -> bytes:
        """The graph and the weights as a state, without what is remembered for the next round."""
        nodes = list(self.graph.nodes.values())
        return msgspec.msgpack.encode(State(version=self.version, nodes=nodes, evidence=self._state.evidence))

    def snapshot(self) -> bytes:
        """Graph, version and everything remembered."""
        self._state.nodes, self._state.documents = list(self.graph.nodes.values()), list(self.graph.documents)
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot."""
        self._state = msgspec.msgpack.decode(state, type=State)
        self.graph = TGraph(self._state.nodes, self._state.documents)
        self.news = []
