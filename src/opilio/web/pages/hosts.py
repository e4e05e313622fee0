"""Hosts with their totals and rules, one host with its pages, queue and failures, and the graph of hosts.

The graph is a picture with a deterministic force layout, tables, and a GEXF file.
"""

from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

import msgspec
import numpy as np
from numpy.typing import NDArray
from starlette.responses import Response

from opilio.core.records import url_key
from opilio.engine.commands import load_host_rules
from opilio.engine.politeness.robots import RobotsRules
from opilio.frontier.sqlite.queries import (
    count_failed,
    failure_groups,
    host_summaries,
    pages_of_host,
    queue_of_host,
    state_counts,
)
from opilio.store.collection import Collection
from opilio.store.labels import label_name
from opilio.store.writer import stored_robots
from opilio.web.collections import UnknownCollectionError
from opilio.web.context import (
    PAGE_PARAM,
    SIZE_PARAM,
    AppContext,
    PageRequest,
    PageRoute,
    PageView,
    Param,
    RawRoute,
    attachment_header,
)
from opilio.web.stats import CollectionStats, HostStats

SORTS = ("relevant", "pages", "harvest", "queued", "host")
PAGES_PER_HOST_VIEW = 50
MAX_FAILURE_GROUPS = 20
MAX_QUEUED = 10
_STATES = ("queued", "waiting for a retry", "done", "failed", "skipped")


def show_hosts(context: AppContext, request: PageRequest) -> PageView:
    page, size, sort = request.values["page"], request.values["size"], request.values["sort"]
    with context.open(request.name) as collection:
        rows = _rows(collection, context.stats(collection), context.clock.now())
    text = request.values["text"].lower()
    rows = [row for row in rows if text in row["host"]]
    rows.sort(key=lambda row: row["host"])
    if sort != "host":
        rows.sort(key=lambda row: (row[sort], row["pages"]), reverse=True)
    start = (page - 1) * size
    shown = rows[start : start + size]
    with context.open(request.name) as collection:
        # Only for the shown rows: a collection may have very many hosts.
        for row in shown:
            row["failed"] = count_failed(collection.connection, row["host"])
    data = {
        "hosts": shown,
        "total": len(rows),
        "page": page,
        "more": start + size < len(rows),
        "values": request.values,
        "sorts": SORTS,
    }
    return PageView(template="hosts.html", data=data, title="Hosts", table_key="hosts")


def _rows(collection: Collection, stats: CollectionStats, now: float, host: str = "") -> list[dict[str, Any]]:
    """The facts about all hosts, or about one."""
    known = host_summaries(collection.connection, host)
    rules = load_host_rules(collection)
    with stats.lock:
        return [
            {
                "host": one.name,
                **_host_counts(stats.hosts.get(one.name)),
                "queued": one.queued,
                "known": one.known,
                "delay_s": one.delay_s,
                "waits_s": round(one.wake_at - now, 1) if one.wake_at > now else 0.0,
                "banned": one.name in rules.banned_hosts,
                "boosted": one.name in rules.boosted_hosts,
            }
            for one in known
        ]


def _host_counts(one: HostStats | None) -> dict[str, Any]:
    one = one or HostStats()
    return {
        "pages": one.pages,
        "relevant": one.relevant,
        "harvest": round(one.harvest, 4),
        "last_status": one.last_status,
        "last_at": one.last_at,
    }


def show_host(context: AppContext, request: PageRequest) -> PageView:
    name = request.values["host"]
    with context.open(request.name) as collection:
        rows = _rows(collection, context.stats(collection), context.clock.now(), name)
        if not rows:
            raise UnknownCollectionError(f"'{name[:200]}': unknown host in this collection")
        db, start = collection.connection, (request.values["page"] - 1) * PAGES_PER_HOST_VIEW
        data = {
            "facts": rows[0],
            "robots": _robots(collection, name),
            "states": [{"state": _STATES[state], "count": count} for state, count in state_counts(db, name)],
            "failures": [
                {"reason": group.reason, "count": group.urls, "example": group.example}
                for group in failure_groups(db, name, MAX_FAILURE_GROUPS)
            ],
            "pages": [
                page._asdict() | {"label": label_name(db, url_key(page.url))}
                for page in pages_of_host(db, name, PAGES_PER_HOST_VIEW + 1, start)
            ],
            "queue": [url._asdict() | {"score": round(url.score, 4)} for url in queue_of_host(db, name, MAX_QUEUED)],
            "page": request.values["page"],
        }
    data["more"] = len(data["pages"]) > PAGES_PER_HOST_VIEW
    data["pages"] = data["pages"][:PAGES_PER_HOST_VIEW]
    return PageView(template="host.html", data=data, title=name, table_key="pages")


def _robots(collection: Collection, name: str) -> list[dict[str, Any]]:
    found = []
    for origin in (f"https://{name}", f"http://{name}"):
        stored = stored_robots(collection.connection, origin)
        if stored is not None:
            rules = msgspec.msgpack.decode(stored, type=RobotsRules)
            facts = {"origin": origin, "delay_s": rules.delay_s, "unreachable": rules.unreachable}
            found.append(facts | {"expires_at": rules.expires_at, "text": rules.text[:2_000]})
    return found


STEPS = 220


def layout_graph(count: int, edges: Sequence[tuple[int, int, float]]) -> NDArray[np.float64]:
    """Positions in the unit square (Fruchterman and Reingold, started on a spiral instead of at random)."""
    if count == 0:
        return np.zeros((0, 2))
    # The golden angle spreads any number of nodes evenly.
    turn = np.arange(count) * 2.399963
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
        path="/c/{name}/hosts",
        show=show_hosts,
        about="Hosts: pages, harvest, rules, queue.",
        params=(
            PAGE_PARAM,
            SIZE_PARAM,
            Param(name="sort", about="The order.", kind="choice", choices=SORTS, default="relevant"),
            Param(name="text", about="Only hosts with this in their name."),
        ),
    ),
    PageRoute(
        path="/c/{name}/host",
        show=show_host,
        about="One host: its pages, its queue, its failures, its robots.txt.",
        params=(Param(name="host", about="The host's name.", required=True), PAGE_PARAM),
    ),
    PageRoute(
        path="/c/{name}/graph",
        show=show_graph,
        about="The graph of hosts: which led to which.",
        params=(HOST_COUNT,),
    ),
)
