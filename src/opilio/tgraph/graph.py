"""The graph itself: nodes by id, the way of each to a target, and what makes a graph unusable."""

from collections import deque
from collections.abc import Iterable
from functools import cached_property

from msgspec.structs import replace

from opilio.model.errors import ConfigError
from opilio.tgraph.node import Document, Node


class TGraph:
    """Nodes and, perhaps, the documents they were read from. Never changes: `plus` and `without` make new ones."""

    def __init__(self, nodes: Iterable[Node] = (), documents: Iterable[Document] = ()) -> None:
        self.nodes = {node.id: node for node in nodes}
        self.documents = tuple(documents)

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def depth(self) -> int:
        """The highest level."""
        return max((node.level for node in self.nodes.values()), default=0)

    @property
    def edges(self) -> list[tuple[str, str]]:
        return [(node.id, nearer) for node in self.nodes.values() for nearer in node.dic.leads_to]

    def at_level(self, level: int) -> list[Node]:
        return [node for node in self.nodes.values() if node.level == level]

    @cached_property
    def distances(self) -> dict[str, int]:
        """The least number of links from each node to level 0 (S2-32); nodes without a way are not in it."""
        parents: dict[str, list[str]] = {}
        for above, below in self.edges:
            parents.setdefault(below, []).append(above)
        found = {node.id: 0 for node in self.at_level(0)}
        waiting = deque(found)
        while waiting:
            at = waiting.popleft()
            for parent in parents.get(at, ()):
                if parent not in found:
                    found[parent] = found[at] + 1
                    waiting.append(parent)
        return found

    def plus(self, nodes: Iterable[Node]) -> "TGraph":
        """With these nodes in it; a node of a known id takes the place of the old one."""
        return TGraph({**self.nodes, **{node.id: node for node in nodes}}.values(), self.documents)

    def without(self, ids: set[str]) -> "TGraph":
        """Without these nodes and without every node that has no way to a target any more (S2-30)."""
        kept = TGraph((_cut(node, ids) for node in self.nodes.values() if node.id not in ids), self.documents)
        lost = kept.nodes.keys() - kept.distances.keys()
        return kept.without(lost) if lost else kept


def _cut(node: Node, gone: set[str]) -> Node:
    if not gone.intersection(node.dic.leads_to):
        return node
    left = tuple(nearer for nearer in node.dic.leads_to if nearer not in gone)
    return replace(node, dic=replace(node.dic, leads_to=left))


def check(graph: TGraph, source: str) -> None:
    """ConfigError that names the source and the node where a graph can't be used."""
    levels = {node.level for node in graph.nodes.values()}
    if not levels:
        raise ConfigError(f"{source}: has no node; 'opilio tgraph build' makes a T-Graph")
    for level in range(max(levels) + 1):
        if level not in levels:
            raise ConfigError(f"{source}: no node of level {level}, but one of level {max(levels)}; build it again")
    for node in graph.nodes.values():
        _check_node(graph, node, source)
    for document in graph.documents:
        if document.level not in levels:
            raise ConfigError(f"{source}: document {document.url}: level {document.level}, of which there is no node")


def _check_node(graph: TGraph, node: Node, source: str) -> None:
    if node.level < 0:
        raise ConfigError(f"{source}: node {node.id}: level {node.level}; levels count from 0, the targets")
    if node.level and not node.dic.leads_to:
        raise ConfigError(f"{source}: node {node.id} of level {node.level} leads nowhere; name a nearer node in DIC")
    for nearer in node.dic.leads_to:
        if nearer not in graph.nodes:
            raise ConfigError(f"{source}: node {node.id} leads to {nearer}, which is not there")
        if graph.nodes[nearer].level >= node.level:
            raise ConfigError(
                f"{source}: node {node.id} (level {node.level}) leads to {nearer} (level {graph.nodes[nearer].level}):"
                " a way must come nearer to the targets with every step, else it is a cycle"
            )
