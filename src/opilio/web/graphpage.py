"""The graph of hosts: who led the crawl to whom, as a picture and as a table; and as a file for graph programs."""

from typing import Any
from xml.sax.saxutils import quoteattr

from starlette.responses import Response

from opilio.web.desk import Asked, Desk, Page, Raw
from opilio.web.layout import spread
from opilio.web.params import NOTE, Param
from opilio.web.view import View, as_file

WIDTH, HEIGHT, EDGE = 900.0, 600.0, 44.0
MOST_EDGES = 5_000


def graph(desk: Desk, asked: Asked) -> View:
    most = asked.values["most"]
    with desk.open(asked.name) as collection:
        tally = desk.tally(collection)
        with tally.lock:
            pairs = [(a, b, count) for (a, b), count in tally.ways.most_common(MOST_EDGES)]
            ranked = sorted(tally.hosts.items(), key=lambda pair: (-pair[1].relevant, -pair[1].pages, pair[0]))
            sums = [(host, one.pages, one.relevant, one.harvest) for host, one in ranked]
    shown = sums[:most]
    numbers = {host: number for number, (host, *_) in enumerate(shown)}
    edges = [(a, b, count) for a, b, count in pairs if a in numbers and b in numbers]
    strongest = max((count for *_, count in edges), default=1)
    places = spread(len(shown), [(numbers[a], numbers[b], count / strongest) for a, b, count in edges])
    nodes = [_node(*facts, place) for facts, place in zip(shown, places.tolist(), strict=True)]
    data = {
        "nodes": nodes,
        "edges": [{"from": a, "to": b, "pages": count} for a, b, count in edges],
        "total": len(sums),
        "most": most,
        "_lines": [_line(nodes[numbers[a]], nodes[numbers[b]], count / strongest) for a, b, count in edges],
        "_named": named(nodes),
        "_size": (WIDTH, HEIGHT),
    }
    return View(template="graph.html", data=data, title="Graph of hosts", rows="edges")


def named(nodes: list[dict[str, Any]]) -> set[str]:
    """Hosts whose name can be written beside their node without touching another name, the best first."""
    taken: list[tuple[float, float, float, float]] = []
    found = set()
    for node in nodes:
        half, top = 3.6 * min(len(node["host"]), 26), node["y"] - node["r"] - 16
        box = (node["x"] - half, top, node["x"] + half, top + 16)
        apart = all(box[0] > b[2] or box[2] < b[0] or box[1] > b[3] or box[3] < b[1] for b in taken)
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
        "x": round(EDGE + place[0] * (WIDTH - 2 * EDGE), 1),
        "y": round(EDGE + place[1] * (HEIGHT - 2 * EDGE), 1),
        "r": round(4.0 + min(18.0, pages**0.5), 1),
    }


def _line(a: dict[str, Any], b: dict[str, Any], share: float) -> dict[str, float]:
    return {"x1": a["x"], "y1": a["y"], "x2": b["x"], "y2": b["y"], "width": round(0.6 + 3.4 * share, 2)}


def gexf(view: View) -> Response:
    """The graph as GEXF 1.3, which Gephi and others read."""
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
    headers = as_file("hosts.gexf")
    return Response(text.encode("utf-8", "replace"), media_type=GEXF.kind, headers=headers)


MOST = Param(name="most", about="Hosts that are drawn, the best first.", kind="integer", default=60, least=2, most=400)
GEXF = Raw(path="/c/{name}/graph.gexf", about="The same for Gephi.", kind="application/gexf+xml", params=(MOST,))
PAGES = (
    Page(
        path="/c/{name}/graph",
        show=graph,
        about="The graph of hosts: who led to whom.",
        params=(MOST, NOTE),
    ),
)
