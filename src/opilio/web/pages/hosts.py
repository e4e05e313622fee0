"""Hosts with their totals and rules; one host with its pages, queue and failures."""

from typing import Any

import msgspec

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
from opilio.store.writer import stored_robots
from opilio.web.collections import UnknownCollectionError
from opilio.web.context import NOTE_PARAM, PAGE_PARAM, SIZE_PARAM, AppContext, PageRequest, PageRoute, Param
from opilio.web.stats import CollectionStats, HostStats
from opilio.web.views import PageView

SORTS = ("relevant", "pages", "harvest", "queued", "host")
PAGES_PER_HOST_VIEW = 50
MAX_FAILURE_GROUPS = 20
MAX_QUEUED = 10
_STATES = ("queued", "waiting for a retry", "done", "failed", "dropped")


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
        for row in shown:  # only for the shown rows: a collection may have very many hosts
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


def _rows(collection: Collection, stats: CollectionStats, now: float) -> list[dict[str, Any]]:
    known = host_summaries(collection.connection)
    rules = load_host_rules(collection)
    with stats.lock:
        return [
            {
                "host": host.name,
                **_host_counts(stats.hosts.get(host.name)),
                "queued": host.queued,
                "known": host.known,
                "delay_s": host.delay_s,
                "waits_s": round(host.wake_at - now, 1) if host.wake_at > now else 0.0,
                "banned": host.name in rules.banned_hosts,
                "boosted": host.name in rules.boosted_hosts,
            }
            for host in known
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
        rows = [row for row in _rows(collection, context.stats(collection), context.clock.now()) if row["host"] == name]
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
            "pages": [page._asdict() for page in pages_of_host(db, name, PAGES_PER_HOST_VIEW + 1, start)],
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
            NOTE_PARAM,
        ),
    ),
    PageRoute(
        path="/c/{name}/host",
        show=show_host,
        about="One host: its pages, its queue, its failures, its robots.txt.",
        params=(Param(name="host", about="The host's name.", required=True), PAGE_PARAM, NOTE_PARAM),
    ),
)
