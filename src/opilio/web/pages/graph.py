"""The graph of hosts as a picture, as tables and as a GEXF file, with a deterministic force layout."""

from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray
from starlette.responses import Response

from opilio.web.context import NOTE_PARAM, AppContext, PageRequest, PageRoute, Param, RawRoute
from opilio.web.views import PageView, attachment_header

STEPS = 220


def layout_graph(count: int, edges: Sequence[tuple[int, int, float]]) -> NDArray[np.float64]:
    """Positions in the unit square (Fruchterman and Reingold, started on a spiral instead of at random)."""
    if count == 0:
        return np.zeros((0, 2))
    turn = np.arange(count) * 2.399963  # the golden angle spreads any number of nodes evenly
    places = np.sqrt((np.arange(count) + 0.5) / count)[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    pull = np.zeros((count, count))
    for a, b, weight in edges:
        pull[a, b] = pull[b, a] = max(pull[a, b], weight)
    ideal = 1.6 / np.sqrt(count)
    for step in range(STEPS):
        apart = places[:, None, :] - places[None, :, :]
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-3)
        force = ideal * ideal / distance**2 - pull * distance / ideal
        move = (apart * force[:, :, None]).sum(axis=1) - 1.2 * places
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        places += move / length * np.minimum(length, 0.12 * (1.0 - step / STEPS) + 0.002)
    low, high = places.min(axis=0), places.max(axis=0)
    fitted: NDArray[np.float64] = (places - low) / np.maximum(high - low, 1e-9)
    return fitted if count > 1 else np.full((1, 2), 0.5)


WIDTH, HEIGHT, GRAPH_MARGIN = 900.0, 600.0, 44.0
MAX_EDGES = 5_000
CHARACTER_WIDTH = 8.2  # of a label, with a margin


def show_graph(context: AppContext, request: PageRequest) -> PageView:
    most = request.values["most"]
    with context.open(request.name) as collection:
        stats = context.stats(collection)
        with stats.lock:
            pairs = [(a, b, count) for (a, b), count in stats.host_links.most_common(MAX_EDGES)]
            ranked = sorted(stats.hosts.items(), key=lambda pair: (-pair[1].relevant, -pair[1].pages, pair[0]))
            sums = [(host, one.pages, one.relevant, one.harvest) for host, one in ranked]
    shown = sums[:most]
    numbers = {host: number for number, (host, *_) in enumerate(shown)}
    edges = [(a, b, count) for a, b, count in pairs if a in numbers and b in numbers]
    strongest = max((count for *_, count in edges), default=1)
    places = layout_graph(len(shown), [(numbers[a], numbers[b], count / strongest) for a, b, count in edges])
    nodes = [_node(*facts, place) for facts, place in zip(shown, places.tolist(), strict=True)]
    data = {
        "nodes": nodes,
        "edges": [{"from": a, "to": b, "pages": count} for a, b, count in edges],
        "total": len(sums),
        "most": most,
        "_lines": [
            _line(nodes[numbers[a]], nodes[numbers[b]], count / strongest) | {"a": numbers[a], "b": numbers[b]}
            for a, b, count in edges
        ],
        "_named": hosts_with_label(nodes),
        "_size": (WIDTH, HEIGHT),
    }
    return PageView(template="graph.html", data=data, title="Graph of hosts", table_key="edges")


def hosts_with_label(nodes: list[dict[str, Any]]) -> set[str]:
    """Hosts whose label does not overlap the label of a better host, nor the circle of another one.

    With scripts, static/graph.js does the same after every zoom.
    """
    circles = [(n["x"] - n["r"], n["y"] - n["r"], n["x"] + n["r"], n["y"] + n["r"]) for n in nodes]
    taken: list[tuple[float, float, float, float]] = []
    found = set()
    for number, node in enumerate(nodes):
        half, bottom = CHARACTER_WIDTH / 2 * min(len(node["host"]), 26), node["y"] - node["r"]
        box = (node["x"] - half, bottom - 16, node["x"] + half, bottom)
        others = [*taken, *circles[:number], *circles[number + 1 :]]
        apart = all(box[0] > b[2] or box[2] < b[0] or box[1] > b[3] or box[3] < b[1] for b in others)
        if apart and box[0] > 0 and box[2] < WIDTH:
            taken.append(box)
            found.add(node["host"])
    return found


def _node(host: str, pages: int, relevant: int, harvest: float, place: list[float]) -> dict[str, Any]:
    return {
        "host": host,
        "pages": pages,
        "relevant": relevant,
        "harvest": round(harvest, 4),
        "x": round(GRAPH_MARGIN + place[0] * (WIDTH - 2 * GRAPH_MARGIN), 1),
        "y": round(GRAPH_MARGIN + place[1] * (HEIGHT - 2 * GRAPH_MARGIN), 1),
        "r": round(4.0 + min(18.0, pages**0.5), 1),
    }


def _line(a: dict[str, Any], b: dict[str, Any], share: float) -> dict[str, float]:
    return {"x1": a["x"], "y1": a["y"], "x2": b["x"], "y2": b["y"], "width": round(0.6 + 3.4 * share, 2)}


def gexf_response(view: PageView) -> Response:
    """The graph as GEXF 1.3, for Gephi and others."""
    nodes = "".join(
        f"<node id={quoteattr(n['host'])} label={quoteattr(n['host'])}><attvalues>"
        f'<attvalue for="0" value="{n["pages"]}"/><attvalue for="1" value="{n["relevant"]}"/></attvalues></node>'
        for n in view.data["nodes"]
    )
    edges = "".join(
        f'<edge source={quoteattr(e["from"])} target={quoteattr(e["to"])} weight="{e["pages"]}"/>'
        for e in view.data["edges"]
    )
    text = (
        '<?xml version="1.0" encoding="UTF-8"?><gexf xmlns="http://gexf.net/1.3" version="1.3">'
        '<graph defaultedgetype="directed"><attributes class="node"><attribute id="0" title="pages" type="integer"/>'
        f'<attribute id="1" title="relevant" type="integer"/></attributes><nodes>{nodes}</nodes>'
        f"<edges>{edges}</edges></graph></gexf>"
    )
    headers = attachment_header("hosts.gexf")
    return Response(text.encode("utf-8", "replace"), media_type=GEXF.media_type, headers=headers)


HOST_COUNT = Param(
    name="most", about="Number of hosts, best first.", kind="integer", default=60, minimum=2, maximum=400
)
GEXF = RawRoute(
    path="/c/{name}/graph.gexf",
    about="The graph for Gephi.",
    media_type="application/gexf+xml",
    params=(HOST_COUNT,),
)
PAGES = (
    PageRoute(
        path="/c/{name}/graph",
        show=show_graph,
        about="The graph of hosts: which led to which.",
        params=(HOST_COUNT, NOTE_PARAM),
    ),
)
