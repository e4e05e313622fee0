"""Updates the T-Graph from the pages of the crawl (S2-14: the watchdog). Pure: equal experience gives an equal graph.

Every `period` on-topic pages it (1) counts for every node whether its links led to relevant pages, (2) makes the best
pages targets and the links that led there nodes, (3) updates the main heading of targets that were fetched again,
(4) silences or drops nodes that misled. Between rounds it only collects experience. A `GraphUpdate` describes each
round.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from opilio.core.caches import evict_oldest
from opilio.methods.treasure.graph import GraphDocument, GraphNode, LinkDestination, TGraph
from opilio.methods.treasure.matching import EQUAL_WEIGHTS, WeightEvidence

# The number of recent scores of on-topic pages from which the top decile is taken.
RECENT_SCORES = 200
# Remembered links that led to pages, for paths to targets.
MAX_PATHS = 5_000


class GraphExperience(msgspec.Struct, frozen=True, array_like=True):
    """One scored link, with the page it led to."""

    key: int
    parent: int
    url: str
    on_topic: bool
    score: float
    title: str = ""
    text: str = ""  # words of the page
    node: str = ""  # the node that the link matched
    parts: tuple[float, ...] = ()  # its similarities to that node
    # ISH, SH, MH, DC of the link; None where it was not compared.
    link: tuple[str, str, str, str] | None = None
    # The page's main heading, else its title: the MH of a target.
    heading: str = ""
    classes: tuple[str, ...] = ()  # D-numbers of the page
    anchor: str = ""  # the words of the link


class GraphUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one round."""

    version: int
    added: int = 0
    refreshed: int = 0
    silenced: int = 0
    dropped: int = 0
    nodes: int = 0
    weights: tuple[float, ...] = EQUAL_WEIGHTS


class GraphUpdaterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the updater works. `period` 0: it is off."""

    period: int = 20  # on-topic pages between two rounds
    depth: int = 3
    per_level: int = 500  # nodes
    # Share of the on-topic pages that become targets.
    top: float = 0.1
    # The number of links a node must have matched before it can be found misleading.
    tries: int = 10


class _LinkPath(msgspec.Struct, array_like=True):
    parent: int
    url: str
    link: tuple[str, str, str, str] | None
    anchor: str = ""


class GraphState(msgspec.Struct):
    """The complete state of an updater; a snapshot holds it."""

    version: int = 0
    nodes: list[GraphNode] = []
    documents: list[GraphDocument] = []
    evidence: WeightEvidence = msgspec.field(default_factory=WeightEvidence)
    # Node -> hits and misses since the last round.
    counts: dict[str, list[int]] = {}
    scores: list[float] = []
    paths: dict[int, _LinkPath] = {}
    waiting: list[GraphExperience] = []  # on-topic pages since the last round
    # Nodes ever created here: ids are never used twice.
    made: int = 0


class GraphUpdater:
    """Holds the graph and updates it."""

    def __init__(self, habits: GraphUpdaterOptions | None = None, graph: TGraph | None = None) -> None:
        self.options = habits or GraphUpdaterOptions()
        self.graph = graph or TGraph()
        self._state = GraphState()
        # Rounds since the last call of `take_events`.
        self.updates: list[GraphUpdate] = []

    @property
    def version(self) -> int:
        return self._state.version

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of the four similarities, fitted to experience (S2-F8)."""
        return self._state.evidence.weights()

    def learn(self, met: Sequence[GraphExperience]) -> None:
        """Add experience; with enough of it, run a round."""
        for one in met:
            self._remember(one)
        waiting = len(self._state.waiting)
        # Without a target nothing else works, so the first relevant page starts a round.
        first = not len(self.graph) and waiting > 0
        if self.options.period and (waiting >= self.options.period or first):
            self._update_graph()

    def _remember(self, one: GraphExperience) -> None:
        state = self._state
        if one.node:
            counts = state.counts.setdefault(one.node, [0, 0])
            counts[0 if one.on_topic else 1] += 1
            if one.parts:
                state.evidence.add(one.parts, one.on_topic)
        state.paths[one.key] = _LinkPath(one.parent, one.url, one.link, one.anchor)
        evict_oldest(state.paths, MAX_PATHS)
        if one.on_topic:
            state.scores = [*state.scores[-RECENT_SCORES + 1 :], one.score]
            state.waiting.append(one)

    def _update_graph(self) -> None:
        state = self._state
        counted = self._with_new_counts()
        refreshed = [node for one in state.waiting for node in self._refreshed_targets(counted, one)]
        grown = [node for one in self._new_targets() for node in self._nodes_for_target(one)]
        graph = counted.with_nodes(refreshed).with_nodes(grown)
        misleading = self._misleading(graph)
        steps = {nearer for _, nearer in graph.edges}
        silent = [graph.nodes[name] for name in misleading if name in steps and not graph.nodes[name].dic.silent]
        graph = graph.with_nodes(replace(n, dic=replace(n.dic, silent=True)) for n in silent)
        graph = self._pruned(graph.without_nodes({name for name in misleading if name not in steps}))
        state.version += 1
        state.waiting, state.counts = [], {}
        self.graph = graph
        self.updates.append(
            GraphUpdate(
                version=state.version,
                added=len(grown),
                refreshed=len(refreshed),
                silenced=len(silent),
                dropped=len(counted) + len(grown) - len(graph),
                nodes=len(graph),
                weights=self.weights,
            )
        )

    def _with_new_counts(self) -> TGraph:
        known = [(self.graph.nodes.get(name), hits, misses) for name, (hits, misses) in self._state.counts.items()]
        return self.graph.with_nodes(
            replace(n, dic=replace(n.dic, hits=n.dic.hits + hits, misses=n.dic.misses + misses))
            for n, hits, misses in known
            if n is not None
        )

    def _refreshed_targets(self, graph: TGraph, one: GraphExperience) -> list[GraphNode]:
        """The target nodes of a page that was fetched again, with its current main heading."""
        own = [n for n in graph.at_level(0) if n.url == one.url and one.heading and n.mh != one.heading]
        return [replace(node, mh=one.heading) for node in own]

    def _new_targets(self) -> list[GraphExperience]:
        """The on-topic pages since the last round that are among the best lately, and not yet targets."""
        ranked = sorted(self._state.scores, reverse=True)
        floor = ranked[int(self.options.top * (len(ranked) - 1))] if ranked else 0.0
        known = {node.url for node in self.graph.at_level(0)}
        return [one for one in self._state.waiting if one.score >= floor and one.url not in known]

    def _nodes_for_target(self, one: GraphExperience) -> list[GraphNode]:
        """A page as a new target, and the links on the path to it as nodes of level 1, 2, …"""
        text = f"{one.title} {one.text}".strip()
        own = LinkDestination(classes=one.classes)
        target = GraphNode(id=self._new_id(0), url=one.url, level=0, mh=one.heading or one.title, dc=text, dic=own)
        made, path = [target], self._state.paths.get(one.key)
        leads_to = one.url
        for level in range(1, self.options.depth + 1):
            if path is None or path.link is None:
                break
            above = self._state.paths.get(path.parent)
            ish, sh, mh, dc = path.link
            # The classes of pages on the way are not known.
            classes = one.classes if level == 1 else ()
            dic = LinkDestination(leads_to=(made[-1].id,), url=leads_to, classes=classes)
            url = above.url if above else ""
            node = GraphNode(id=self._new_id(level), url=url, level=level, ish=ish, sh=sh, mh=mh, dc=dc, dic=dic)
            made.append(replace(node, anchor=path.anchor))
            leads_to, path = url, above
        return made

    def _new_id(self, level: int) -> str:
        self._state.made += 1
        return f"{level}-w{self._state.made}"

    def _misleading(self, graph: TGraph) -> list[str]:
        """Nodes that matched many links, of which fewer led to relevant pages than of all compared links."""
        tried = [n for n in graph.nodes.values() if n.dic.tries >= self.options.tries]
        hits, tries = (sum(values) for values in zip((0, 0), *((n.dic.hits, n.dic.tries) for n in tried), strict=True))
        base = hits / tries if tries else 0.0
        return [n.id for n in tried if n.level and n.dic.hits / n.dic.tries < base / 2]

    def _pruned(self, graph: TGraph) -> TGraph:
        """Drop nodes over the limit of their level: fewest hits first, then oldest; steps on other paths stay."""
        # From the farthest level: a dropped node no longer needs its steps nearer to the target.
        for level in range(graph.depth, -1, -1):
            nodes, steps = graph.at_level(level), {nearer for _, nearer in graph.edges}
            over = max(0, len(nodes) - self.options.per_level)
            spare = sorted((n for n in nodes if n.id not in steps), key=lambda n: n.dic.hits - n.dic.misses)
            graph = graph.without_nodes({n.id for n in spare[:over]})
        return graph

    def worker_state(self) -> bytes:
        """The graph and the weights as a state, without the experience for the next round."""
        nodes = list(self.graph.nodes.values())
        return msgspec.msgpack.encode(GraphState(version=self.version, nodes=nodes, evidence=self._state.evidence))

    def snapshot(self) -> bytes:
        """Graph, version and all experience."""
        self._state.nodes, self._state.documents = list(self.graph.nodes.values()), list(self.graph.documents)
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot."""
        self._state = msgspec.msgpack.decode(state, type=GraphState)
        self.graph = TGraph(self._state.nodes, self._state.documents)
        self.updates = []
