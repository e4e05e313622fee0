"""The T-Graph: its nodes, the path of each to a target, its JSON file, its picture, and the parts of a page's links.

A node is one link as it was found on a page, with its destination (S2-E1, S2-29). One URL may own several nodes. A
target document has one node of level 0, filled from the page itself. A graph read from JSON is validated; reading files
is the caller's job. `link_parts` computes the parts of all links of a page as terms, each text once: links share
headings, and items share their list. The picture is text, or an SVG with one column per level; text from pages is
escaped.
"""

from codecs import BOM_UTF8
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Annotated, Literal, NamedTuple
from xml.sax.saxutils import escape

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray

from opilio.core.errors import ConfigError
from opilio.core.records import Link, Reading

NodeCount = Annotated[int, Meta(ge=0, le=1_000_000_000)]
NODE_PARTS = ("ISH", "SH", "MH", "DC")  # the four that are compared (S2-31)


class LinkDestination(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """DIC, the destination information component: where the link leads and the outcomes. Never compared."""

    # Ids of nodes that are nearer to a target.
    leads_to: tuple[str, ...] = ()
    url: str = ""  # what the link points to
    # D-numbers of the page that the link points to; of a target, its own.
    classes: tuple[str, ...] = ()
    # Links that matched this node and led to relevant pages.
    hits: NodeCount = 0
    misses: NodeCount = 0
    # It misled: no longer compared, but kept as a step on the paths of others.
    silent: bool = False

    @property
    def tries(self) -> int:
        return self.hits + self.misses


class GraphNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """ISH, SH and MH are the headings above the link, DC the text between its break points with the anchor (S2-23)."""

    id: str
    url: str
    level: int
    ish: str = msgspec.field(default="", name="ISH")
    sh: str = msgspec.field(default="", name="SH")
    mh: str = msgspec.field(default="", name="MH")
    dc: str = msgspec.field(default="", name="DC")
    # The words of the link, which are part of DC: they count more where asked.
    anchor: str = ""
    dic: LinkDestination = msgspec.field(default_factory=LinkDestination, name="DIC")

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """The texts that are compared, in the order of PARTS."""
        return self.ish, self.sh, self.mh, self.dc


class GraphDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of one layer with its words: what a context graph is trained with (S2-46)."""

    url: str
    level: int
    words: dict[str, NodeCount] = {}


class TGraph:
    """Nodes and optionally their documents. Immutable: `with_nodes` and `without_nodes` return new graphs."""

    def __init__(self, nodes: Iterable[GraphNode] = (), documents: Iterable[GraphDocument] = ()) -> None:
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

    def at_level(self, level: int) -> list[GraphNode]:
        return [node for node in self.nodes.values() if node.level == level]

    @cached_property
    def distances(self) -> dict[str, int]:
        """The least number of links from each node to level 0 (S2-32); nodes without a path are left out."""
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

    def with_nodes(self, nodes: Iterable[GraphNode]) -> "TGraph":
        """A graph with these nodes added; a node with a known id replaces the old one."""
        return TGraph({**self.nodes, **{node.id: node for node in nodes}}.values(), self.documents)

    def without_nodes(self, ids: set[str]) -> "TGraph":
        """A graph without these nodes and without nodes that then have no path to a target (S2-30)."""
        kept = TGraph((_without_links(node, ids) for node in self.nodes.values() if node.id not in ids), self.documents)
        lost = kept.nodes.keys() - kept.distances.keys()
        return kept.without_nodes(lost) if lost else kept


def _without_links(node: GraphNode, gone: set[str]) -> GraphNode:
    if not gone.intersection(node.dic.leads_to):
        return node
    left = tuple(nearer for nearer in node.dic.leads_to if nearer not in gone)
    return replace(node, dic=replace(node.dic, leads_to=left))


def check_graph(graph: TGraph, source: str) -> None:
    """Raise ConfigError with the source and the node if a graph is invalid."""
    levels = {node.level for node in graph.nodes.values()}
    if not levels:
        raise ConfigError(f"{source}: has no node; 'opilio lab tgraph build' makes a T-Graph")
    for level in range(max(levels) + 1):
        if level not in levels:
            raise ConfigError(f"{source}: no node of level {level}, but one of level {max(levels)}; build it again")
    for node in graph.nodes.values():
        _check_node(graph, node, source)
    for document in graph.documents:
        if document.level not in levels:
            raise ConfigError(f"{source}: document {document.url}: level {document.level}, of which there is no node")


def _check_node(graph: TGraph, node: GraphNode, source: str) -> None:
    if node.level < 0:
        raise ConfigError(f"{source}: node {node.id}: level {node.level}; levels count from 0, the targets")
    if node.level and not node.dic.leads_to:
        raise ConfigError(f"{source}: node {node.id} of level {node.level} leads nowhere; name a nearer node in DIC")
    for nearer in node.dic.leads_to:
        if nearer not in graph.nodes:
            raise ConfigError(f"{source}: node {node.id} leads to {nearer}, which does not exist")
        if graph.nodes[nearer].level >= node.level:
            raise ConfigError(
                f"{source}: node {node.id} (level {node.level}) leads to {nearer} (level {graph.nodes[nearer].level}):"
                " every step of a path must be nearer to the targets, else it is a cycle"
            )


TGRAPH_SCHEMA = 1


class _TGraphFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    schema: int
    kind: Literal["t-graph"]
    nodes: list[GraphNode]
    documents: list[GraphDocument] = []


def encode_graph(graph: TGraph) -> bytes:
    """The graph as indented JSON, which the user may edit."""
    nodes = sorted(graph.nodes.values(), key=lambda node: (node.level, node.id))
    file = _TGraphFile(schema=TGRAPH_SCHEMA, kind="t-graph", nodes=nodes, documents=list(graph.documents))
    return msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"


def decode_graph(data: bytes, source: str) -> TGraph:
    """A graph from JSON; ConfigError names the source, and the node where there is one."""
    try:
        # Some editors write a byte order mark.
        file = msgspec.json.decode(data.removeprefix(BOM_UTF8), type=_TGraphFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: not a T-Graph: {error}; 'opilio lab tgraph build' makes one") from error
    if file.schema > TGRAPH_SCHEMA:
        raise ConfigError(f"{source}: was made by a newer Opilio (schema {file.schema}); update Opilio")
    ids = [node.id for node in file.nodes]
    if len(set(ids)) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise ConfigError(f"{source}: two nodes have the id {twice}; give one of them another")
    graph = TGraph(file.nodes, file.documents)
    check_graph(graph, source)
    return graph


Indices = NDArray[np.int64]
TermsOf = Callable[[str], Sequence[int]]
Headings = tuple[str, str, str]
Span = tuple[int, int]
# Hundreds of nested lists that each hold the whole page must not be copied whole.
MAX_LIST_TERMS = 5_000
# Similarity by the words of a link: how often they count beside the text near them, and the terms on each side of them.
# Chosen on six topics of an encyclopaedia without index pages (docs/papers/s2.md).
ANCHOR_REPEATS = 10
NEAR_TERMS = 50


class LinkParts(NamedTuple):
    """Distinct headings and windows of a page, and which of them each link has.

    `heads` are (ISH, SH, MH) as terms; `windows` are the terms between the break points (DC).
    """

    heads: list[tuple[Sequence[int], Sequence[int], Sequence[int]]]
    windows: list[Sequence[int]]
    head_of: Indices
    window_of: Indices

    def of(self, link: int) -> tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]:
        """The four parts of one link, in the order of PARTS."""
        return (*self.heads[self.head_of[link]], self.windows[self.window_of[link]])


def link_parts(reading: Reading, terms_of: TermsOf, *, link_words: bool = False) -> LinkParts:
    """The components of every link of a page. MH is the main heading, else the title.

    `link_words`: the window is cut to the words near the link, and its anchor is repeated.
    """
    page = reading.page
    known: dict[str, Sequence[int]] = {}
    heads: dict[Headings, int] = {}
    windows: dict[tuple[Span, Span], int] = {}
    head_of, window_at = [], []
    for link in page.links:
        head = (link.headings[0], link.headings[1], link.headings[2] or page.title)
        span = window_of_link(reading, link)
        window = near_link(reading, link, span) if link_words else (span, (0, 0))
        head_of.append(heads.setdefault(head, len(heads)))
        window_at.append(windows.setdefault(window, len(windows)))
    for text in {text for head in heads for text in head}:
        known[text] = terms_of(text) if text else ()
    return LinkParts(
        [(known[ish], known[sh], known[mh]) for ish, sh, mh in heads],
        [_window_terms(reading.terms, *spans) for spans in windows],
        np.array(head_of, dtype=np.int64),
        np.array(window_at, dtype=np.int64),
    )


def near_link(reading: Reading, link: Link, window: Span) -> tuple[Span, Span]:
    """The part of a window near the link, and its anchor."""
    if not 0 <= link.index < len(reading.anchors):
        return window, (0, 0)
    first, last = reading.anchors[link.index]
    return (max(window[0], first - NEAR_TERMS), min(window[1], last + NEAR_TERMS)), (first, last)


def _window_terms(terms: Sequence[int], window: Span, anchor: Span) -> Sequence[int]:
    inside, own = terms[slice(*window)], terms[slice(*anchor)]
    return [*inside, *(list(own) * ANCHOR_REPEATS)] if own else inside


def window_of_link(reading: Reading, link: Link) -> Span:
    """The terms between the link's break points (S2-23); of an endless list the stretch with the link."""
    if not 0 <= link.index < len(reading.link_contexts):
        return 0, 0
    (start, end), (anchor, _) = reading.link_contexts[link.index], reading.anchors[link.index]
    if end - start <= MAX_LIST_TERMS:
        return start, end
    first = start + (min(anchor, end - 1) - start) // MAX_LIST_TERMS * MAX_LIST_TERMS
    return first, min(end, first + MAX_LIST_TERMS)


_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 230, 34, 70, 10, 24
_MAX_NODES_PER_LEVEL = 60  # per level; more would be unreadable
_COLORS = ("#0072B2", "#009E73", "#E69F00", "#CC79A7", "#7F7F7F")  # Okabe and Ito


def graph_as_text(graph: TGraph, shown: int = 12) -> str:
    """Levels with their nodes, and the outcomes of the links that matched each."""
    lines = []
    for level in range(graph.depth + 1):
        nodes = graph.at_level(level)
        pages = len({node.url for node in nodes})
        lines.append(f"level {level}: {_count_label(len(nodes), 'node')} of {_count_label(pages, 'page')}")
        best = sorted(nodes, key=lambda n: (-n.dic.hits, n.id))[:shown]
        lines += [f"  {node.id:8} {_label(node, 56):56}  {_outcome_label(node)}".rstrip() for node in best]
        if len(nodes) > shown:
            lines.append(f"  … {len(nodes) - shown} more")
    return "\n".join(lines)


def graph_as_svg(graph: TGraph) -> str:
    """Targets on the right, the nodes that lead to them to the left; at most 60 nodes per level."""
    columns = [
        sorted(graph.at_level(level), key=lambda n: n.id)[:_MAX_NODES_PER_LEVEL] for level in range(graph.depth + 1)
    ]
    places = _positions(columns)
    width = 2 * _MARGIN + len(columns) * _BOX_WIDTH + (len(columns) - 1) * _GAP_X
    height = 2 * _MARGIN + 20 + max(map(len, columns), default=0) * (_BOX_HEIGHT + _GAP_Y)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        f' font-family="sans-serif" font-size="11"><rect width="{width}" height="{height}" fill="white"/>',
        *(_heading(level, len(columns), graph) for level in range(len(columns))),
        *(_line(places[a], places[b]) for a, b in graph.edges if a in places and b in places),
        *(_box(node, places[node.id]) for column in columns for node in column),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


Position = tuple[int, int]


def _positions(columns: Sequence[Sequence[GraphNode]]) -> dict[str, Position]:
    last = len(columns) - 1
    return {
        node.id: (_MARGIN + (last - level) * (_BOX_WIDTH + _GAP_X), _MARGIN + 20 + row * (_BOX_HEIGHT + _GAP_Y))
        for level, column in enumerate(columns)
        for row, node in enumerate(column)
    }


def _heading(level: int, columns: int, graph: TGraph) -> str:
    x = _MARGIN + (columns - 1 - level) * (_BOX_WIDTH + _GAP_X)
    count = len(graph.at_level(level))
    more = f", the first {_MAX_NODES_PER_LEVEL} shown" if count > _MAX_NODES_PER_LEVEL else ""
    name = "targets" if level == 0 else f"level {level}"
    return f'<text x="{x}" y="{_MARGIN + 4}" font-weight="bold">{name}: {count}{more}</text>'


def _line(start: Position, end: Position) -> str:
    y1, y2 = start[1] + _BOX_HEIGHT // 2, end[1] + _BOX_HEIGHT // 2
    return f'<path d="M{start[0] + _BOX_WIDTH} {y1} L{end[0]} {y2}" stroke="#999999" stroke-width="0.7" fill="none"/>'


def _box(node: GraphNode, place: Position) -> str:
    x, y = place
    label, second = _xml_safe(_label(node, 35)), _xml_safe(_detail_label(node))
    colour = "#bbbbbb" if node.dic.silent else _COLORS[node.level % len(_COLORS)]
    return (
        f"<g><title>{_xml_safe(node.url)}</title>"
        f'<rect x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="4"'
        f' fill="white" stroke="{colour}" stroke-width="1.5"/><text x="{x + 6}" y="{y + 14}">{label}</text>'
        f'<text x="{x + 6}" y="{y + 28}" fill="#555555">{second}</text></g>'
    )


def _label(node: GraphNode, width: int) -> str:
    text = " › ".join(dict.fromkeys(part for part in (node.mh, node.ish) if part)) or node.url
    return text if len(text) <= width else text[: width - 1] + "…"


def _detail_label(node: GraphNode) -> str:
    text = node.dic.url.rpartition("/")[2] if node.level else node.url.rpartition("/")[2]
    label = f"→ {text}" if node.level else text
    outcome = _outcome_label(node)
    return f"{label[:26]}  {outcome}" if outcome else label[:40]


def _outcome_label(node: GraphNode) -> str:
    if not node.dic.tries:
        return ""
    return f"{node.dic.hits} of {node.dic.tries} paid" + (", silent" if node.dic.silent else "")


def _count_label(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _xml_safe(text: str) -> str:
    """Remove characters that XML forbids."""
    return escape("".join(c if c.isprintable() else " " for c in text))
