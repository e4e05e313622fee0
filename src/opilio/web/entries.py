"""Queued URLs as pages show them: with the page they were found on, the anchor, and how long they wait."""

import sqlite3
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from opilio.crawl.columns import unpack
from opilio.crawl.wishes import wishes_of
from opilio.frontier.browse import next_first
from opilio.model.protocols import Entry
from opilio.store.collection import Collection

SAMPLED = 200_000  # queued URLs whose scores make the histogram


def best_entries(collection: Collection, start: int, count: int, now: float) -> list[dict[str, Any]]:
    """The URLs that come next, best first."""
    boosted = wishes_of(collection).boosted
    found = islice(next_first(collection.connection, start + count, boosted), start, start + count)
    return [shown(collection, entry, now) | {"boosted": entry.lead.host in boosted} for entry in found]


def shown(collection: Collection, entry: Entry, now: float) -> dict[str, Any]:
    """One entry with its context."""
    lead = entry.lead
    row = collection.connection.execute(
        "SELECT p.url, p.title, l.columns FROM page AS p LEFT JOIN links AS l ON l.parent = p.key WHERE p.key = ?",
        (lead.parent,),
    ).fetchone()
    url, title, blob = row or ("", "", None)
    since = _since(collection, entry)
    return {
        "url": lead.url,
        "host": lead.host,
        "score": round(lead.score, 4),
        "depth": lead.depth,
        "found": entry.found,
        "anchor": _anchor(blob, lead.key) if blob else "",
        "parent": url,
        "parent_title": title,
        "waits_s": None if since is None else round(now - since, 1),
        "retries": lead.retries,
    }


def _since(collection: Collection, entry: Entry) -> float | None:
    """Since when it waits: the first fetch of a page that links it; for a seed, the crawl's start."""
    parents = tuple({*entry.parents, entry.lead.parent} - {0})
    if parents:
        among = f"WHERE key IN ({', '.join('?' * len(parents))})"
        first = (  # of a page that was fetched again the first time is in `version`
            f"SELECT min(at) FROM (SELECT fetched_at AS at FROM page {among}"
            f" UNION ALL SELECT fetched_at FROM version {among})"
        )
    else:
        first = "SELECT at FROM event WHERE kind = 'CrawlStarted' ORDER BY id LIMIT 1"
    row = collection.connection.execute(first, 2 * parents).fetchone()
    return None if row is None else row[0]


def _anchor(blob: bytes, key: int) -> str:
    columns = unpack(blob)
    for place in np.flatnonzero(np.frombuffer(columns.keys, dtype=np.int64) == key):
        if columns.anchors[place]:
            return columns.anchors[place]
    return ""


def queued_scores(connection: sqlite3.Connection) -> list[float]:
    """Sort keys of queued URLs, from an index that holds them."""
    rows: Iterable[tuple[float]] = connection.execute(
        "SELECT priority FROM frontier_url WHERE state = 0 LIMIT ?", (SAMPLED,)
    )
    return [priority for (priority,) in rows]
