"""A T-Graph as text, and as an SVG with one column per level. Text from pages is escaped."""

from collections.abc import Sequence
from xml.sax.saxutils import escape

from opilio.methods.treasure.graph import GraphNode, TGraph

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
    label, second = _xml_safe(_label(node, 38)), _xml_safe(_detail_label(node))
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
