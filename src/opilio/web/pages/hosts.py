"""Hosts: what each brought and how it is treated; and one of them with its pages, queue and failures."""

from typing import Any

import msgspec

from opilio.engine.control import load_host_rules
from opilio.engine.politeness.robots import RobotsRules
from opilio.store.collection import Collection
from opilio.web.collections import UnknownCollectionError
from opilio.web.context import AppContext, PageRequest, PageRoute
from opilio.web.params import NOTE_PARAM, PAGE_PARAM, SIZE_PARAM, Param
from opilio.web.stats import CollectionStats, HostStats
from opilio.web.views import PageView

SORTS = ("relevant", "pages", "harvest", "queued", "host")
PAGES_PER_HOST_VIEW = 50
_STATES = ("queued", "waiting for a retry", "done", "failed", "dropped")


def show_hosts(desk: AppContext, asked: PageRequest) -> PageView:
    page, size, sort = asked.values["page"], asked.values["size"], asked.values["sort"]
    with desk.open(asked.name) as collection:
        rows = _rows(collection, desk.stats(collection), desk.clock.now())
    text = asked.values["text"].lower()
    rows = [row for row in rows if text in row["host"]]
    rows.sort(key=lambda row: row["host"])
    if sort != "host":
        rows.sort(key=lambda row: (row[sort], row["pages"]), reverse=True)
    start = (page - 1) * size
    shown = rows[start : start + size]
    with desk.open(asked.name) as collection:
        for row in shown:  # counted for these only: a collection may know very many
            row["failed"] = _count_failed_urls(collection, row["host"])
    data = {
        "hosts": shown,
        "total": len(rows),
        "page": page,
        "more": start + size < len(rows),
        "values": asked.values,
        "sorts": SORTS,
    }
    return PageView(template="hosts.html", data=data, title="Hosts", table_key="hosts")


def _rows(collection: Collection, tally: CollectionStats, now: float) -> list[dict[str, Any]]:
    known = collection.connection.execute("SELECT name, queued, total, delay_s, wake_at FROM frontier_host").fetchall()
    wishes = load_host_rules(collection)
    with tally.lock:
        return [
            {
                "host": name,
                **_host_counts(tally.hosts.get(name)),
                "queued": queued,
                "known": total,
                "delay_s": delay_s,
                "waits_s": round(wake_at - now, 1) if wake_at > now else 0.0,
                "banned": name in wishes.banned_hosts,
                "boosted": name in wishes.boosted_hosts,
            }
            for name, queued, total, delay_s, wake_at in known
        ]


def _count_failed_urls(collection: Collection, name: str) -> int:
    """URLs of a host that could not be had."""
    (count,) = collection.connection.execute(
        "SELECT count(*) FROM frontier_url WHERE state = 3 AND host_id = (SELECT id FROM frontier_host WHERE name = ?)",
        (name,),
    ).fetchone()
    return int(count)


def _host_counts(one: HostStats | None) -> dict[str, Any]:
    one = one or HostStats()
    return {
        "pages": one.pages,
        "relevant": one.relevant,
        "harvest": round(one.harvest, 4),
        "last_status": one.last_status,
        "last_at": one.last_at,
    }


def show_host(desk: AppContext, asked: PageRequest) -> PageView:
    name = asked.values["host"]
    with desk.open(asked.name) as collection:
        rows = [row for row in _rows(collection, desk.stats(collection), desk.clock.now()) if row["host"] == name]
        if not rows:
            raise UnknownCollectionError(f"'{name[:200]}': this crawl never heard of this host")
        (id_,) = collection.connection.execute("SELECT id FROM frontier_host WHERE name = ?", (name,)).fetchone()
        data = {
            "facts": rows[0],
            "robots": _robots(collection, name),
            "states": _states(collection, id_),
            "failures": _failures(collection, id_),
            "pages": _pages(collection, id_, (asked.values["page"] - 1) * PAGES_PER_HOST_VIEW),
            "queue": _queue(collection, id_),
            "page": asked.values["page"],
        }
    data["more"] = len(data["pages"]) > PAGES_PER_HOST_VIEW
    data["pages"] = data["pages"][:PAGES_PER_HOST_VIEW]
    return PageView(template="host.html", data=data, title=name, table_key="pages")


def _robots(collection: Collection, name: str) -> list[dict[str, Any]]:
    found = []
    for scheme in ("https", "http"):
        row = collection.connection.execute(
            "SELECT rules FROM robots WHERE origin = ?", (f"{scheme}://{name}",)
        ).fetchone()
        if row:
            rules = msgspec.msgpack.decode(row[0], type=RobotsRules)
            told = {"origin": f"{scheme}://{name}", "delay_s": rules.delay_s, "unreachable": rules.unreachable}
            found.append(told | {"expires_at": rules.expires_at, "text": rules.text[:2_000]})
    return found


def _states(collection: Collection, id_: int) -> list[dict[str, Any]]:
    rows = collection.connection.execute(
        "SELECT state, count(*) FROM frontier_url WHERE host_id = ? GROUP BY state", (id_,)
    )
    return [{"state": _STATES[state], "count": count} for state, count in rows]


def _failures(collection: Collection, id_: int) -> list[dict[str, Any]]:
    rows = collection.connection.execute(
        "SELECT coalesce(reason, ''), count(*), min(url) FROM frontier_url WHERE host_id = ? AND state IN (3, 4)"
        " GROUP BY 1 ORDER BY 2 DESC LIMIT 20",
        (id_,),
    )
    return [{"reason": reason, "count": count, "example": url} for reason, count, url in rows]


def _pages(collection: Collection, id_: int, start: int) -> list[dict[str, Any]]:
    rows = collection.connection.execute(
        "SELECT p.url, p.title, p.score, p.relevant, p.depth, p.fetched_at FROM frontier_url AS u"
        " JOIN page AS p ON p.key = u.key WHERE u.host_id = ? AND u.state = 2"
        " ORDER BY p.score DESC, p.url LIMIT ? OFFSET ?",
        (id_, PAGES_PER_HOST_VIEW + 1, start),
    )
    names = ("url", "title", "score", "relevant", "depth", "fetched_at")
    return [dict(zip(names, row, strict=True)) | {"relevant": bool(row[3])} for row in rows]


def _queue(collection: Collection, id_: int) -> list[dict[str, Any]]:
    rows = collection.connection.execute(
        "SELECT url, score, depth FROM frontier_url WHERE host_id = ? AND state = 0"
        " ORDER BY priority DESC, seq LIMIT 10",
        (id_,),
    )
    return [{"url": url, "score": round(score, 4), "depth": depth} for url, score, depth in rows]


PAGES = (
    PageRoute(
        path="/c/{name}/hosts",
        show=show_hosts,
        about="Hosts: what each brought, how it is treated, what waits.",
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
