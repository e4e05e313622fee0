"""Why was this URL fetched, skipped, kept? Everything a collection knows of it, as one object."""

import sys
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from isal import isal_zlib

from opilio.crawl.agentsview import cards_of
from opilio.crawl.columns import unpack
from opilio.crawl.whylink import why_link
from opilio.frontier.sqlite import SqliteFrontier
from opilio.model.errors import UsageError
from opilio.model.protocols import Entry
from opilio.model.records import Reason, State, key_of
from opilio.model.urls import canonical, host_of
from opilio.store.collection import Collection, reading

_reasons = msgspec.msgpack.Decoder(tuple[Reason, ...]).decode
_PAGE = ("title", "score", "relevant", "reasons", "duplicate_of", "near_duplicate", "fetched_at", "language", "genre")
_ANSWER = ("at", "status", "failure", "detail", "location")
_LOOKS = ("checks", "changes", "checked_at", "changed_at", "strikes", "found", "brought")
# The page as it is, or as it was last: reasons outlive pages that are gone.
_EVER = """SELECT url, title FROM (SELECT url, title, 1 AS now, seq FROM page WHERE key = :key
    UNION ALL SELECT url, title, 0, seq FROM version WHERE key = :key) ORDER BY now DESC, seq DESC LIMIT 1"""
_REDIRECTED = """SELECT u.url FROM (SELECT key FROM answer WHERE location = ? ORDER BY seq LIMIT 1) AS a
    CROSS JOIN frontier_host AS h CROSS JOIN frontier_url AS u ON u.host_id = h.id AND u.key = a.key"""
LONGEST_PATH = 30
MAX_PARENTS = 5
SKIPPED = "skipped"  # seen in pages, never queued: no state of the frontier


def why(folder: Path, url: str) -> dict[str, Any]:
    """All reasons for one URL. `found` is False for a URL that was never seen."""
    address = canonical(url)
    if address is None:
        raise UsageError(f"'{url}': is no http or https URL; write it whole, for example https://example.org/")
    with reading(folder) as collection:
        return _why(collection, address)


def _why(collection: Collection, url: str) -> dict[str, Any]:
    key = key_of(url)
    frontier = SqliteFrontier(collection.connection)
    entry = frontier.entry(host_of(url), key)
    result: dict[str, Any] = {"url": url, "found": entry is not None}
    if entry is not None:
        result |= _standing(entry)
        if came_by := _redirects(collection, entry):
            result["redirected_from"] = came_by
        result["found_on"] = _contexts(collection, (key, *map(key_of, came_by)), entry.parents)
        result["path"] = _path(collection, frontier, entry)
        result |= _waiting(collection, host_of(url)) if entry.state is State.QUEUED else {}
        result |= why_link(collection, entry)
    elif contexts := _contexts(collection, (key,), _not_followed(collection, key)):
        result |= {"found": True, "state": SKIPPED, "reason": contexts[0]["not_followed"], "found_on": contexts}
    seed = collection.connection.execute("SELECT priority, sources FROM seed WHERE key = ?", (key,)).fetchone()
    if seed:
        result["seed"] = {"priority": seed[0], "sources": seed[1]}
    rows = collection.connection.execute(f"SELECT {', '.join(_ANSWER)} FROM answer WHERE key = ? ORDER BY seq", (key,))
    result["answers"] = [dict(zip(_ANSWER, row, strict=True)) for row in rows]
    page = _page(collection, key)
    if page:
        result["page"] = page
    looks = collection.connection.execute(f"SELECT {', '.join(_LOOKS)} FROM revisit WHERE key = ?", (key,)).fetchone()
    if looks is not None and looks[0]:
        result["looks"] = dict(zip(_LOOKS, looks, strict=True))
    if cards := cards_of(collection):
        result["agents"] = _agents(collection, key, {card.number: card.name for card in cards})
    return result


def _agents(collection: Collection, key: int, names: dict[int, str]) -> list[dict[str, Any]]:
    """What each agent found the page to be, and who asked for it."""
    rows = collection.connection.execute(
        "SELECT agent, own, score, relevant FROM verdict WHERE page = ? ORDER BY agent", (key,)
    )
    return [
        {"agent": names.get(agent, ""), "fetched": bool(own), "score": score, "relevant": bool(relevant)}
        for agent, own, score, relevant in rows
    ]


def _standing(entry: Entry) -> dict[str, Any]:
    return {
        "state": entry.state.value,
        "reason": entry.reason,
        "score": entry.lead.score,
        "priority": entry.priority,
        "depth": entry.lead.depth,
        "tunnel": entry.lead.tunnel,
        "times_found": entry.found,
    }


def _redirects(collection: Collection, entry: Entry) -> list[str]:
    """The addresses whose redirects led to a URL, the last of them first. No index leads there, but few URLs ask."""
    came_by: list[str] = []
    url = entry.lead.url
    while len(came_by) < entry.lead.hops:
        row = collection.connection.execute(_REDIRECTED, (url,)).fetchone()
        if row is None or row[0] in came_by:
            break
        url = row[0]
        came_by.append(url)
    return came_by


def _contexts(collection: Collection, keys: tuple[int, ...], parents: tuple[int, ...]) -> list[dict[str, Any]]:
    """Where it was found, with which anchor, and the parts of the score it got there; `keys`: it, or what led to it."""
    found = []
    for parent in parents:
        row = collection.connection.execute(
            f"SELECT p.url, p.title, l.columns FROM ({_EVER}) AS p JOIN links AS l ON l.parent = :key",
            {"key": parent},
        ).fetchone()
        if row is None:
            continue
        columns = unpack(row[2])
        parts = np.frombuffer(columns.parts, dtype=np.float32).reshape(len(columns.urls), len(columns.names))
        scores = np.frombuffer(columns.scores, dtype=np.float32)
        found += [
            {
                "page": row[0],
                "title": row[1],
                "anchor": columns.anchors[at],
                "score": round(float(scores[at]), 4),
                "parts": {n: round(float(v), 4) for n, v in zip(columns.names, parts[at], strict=True)},
                "not_followed": columns.dropped.get(int(at), ""),
            }
            for at in np.flatnonzero(np.isin(np.frombuffer(columns.keys, dtype=np.int64), keys))
        ]
    return found


def _not_followed(collection: Collection, key: int) -> tuple[int, ...]:
    """Pages that link a URL which never came into the queue: their links were below a threshold, nofollow, ...

    No index leads there, so it looks through the links of every page; as bytes, that is 20 µs a page.
    """
    wanted = key.to_bytes(8, sys.byteorder, signed=True)
    rows = collection.connection.execute("SELECT parent, columns FROM links")
    return tuple(islice((parent for parent, blob in rows if wanted in isal_zlib.decompress(blob)), MAX_PARENTS))


def _waiting(collection: Collection, host: str) -> dict[str, Any]:
    """Why the host of a queued URL is not asked, when it asked us to wait and nothing came after that."""
    row = collection.connection.execute(
        "SELECT json_extract(data, '$.until'), json_extract(data, '$.reason'), wake_at FROM event"
        " JOIN frontier_host ON name = ?1 WHERE kind = 'HostBackedOff' AND json_extract(data, '$.host') = ?1"
        " ORDER BY event.id DESC LIMIT 1",
        (host,),
    ).fetchone()
    return {"host_waits": {"until": row[0], "reason": row[1]}} if row and row[0] == row[2] else {}


def _path(collection: Collection, frontier: SqliteFrontier, entry: Entry | None) -> list[str]:
    """The shortest way from a seed that is known: of the pages a URL was found on, always the one nearest to a seed."""
    path: list[str] = []
    while entry is not None and entry.lead.url not in path and len(path) < LONGEST_PATH:
        path += [entry.lead.url, *_redirects(collection, entry)]
        above = _nearest(collection, {entry.lead.parent, *entry.parents}) if entry.lead.depth else None
        entry = frontier.entry(host_of(above), key_of(above)) if above else None
    return path[::-1]


def _nearest(collection: Collection, keys: set[int]) -> str | None:
    marks = ", ".join("?" * len(keys))
    query = f"SELECT url FROM page WHERE key IN ({marks}) ORDER BY depth, seq LIMIT 1"
    row = collection.connection.execute(query, tuple(keys)).fetchone()
    return row[0] if row else None


def _page(collection: Collection, key: int) -> dict[str, Any]:
    row = collection.connection.execute(f"SELECT {', '.join(_PAGE)} FROM page WHERE key = ?", (key,)).fetchone()
    if row is None:
        return {}
    page = dict(zip(_PAGE, row, strict=True))
    page["reasons"] = [msgspec.structs.asdict(r) for r in _reasons(page["reasons"])]
    page["relevant"], page["near_duplicate"] = bool(page["relevant"]), bool(page["near_duplicate"])
    original = page["duplicate_of"]
    if original:
        same = collection.connection.execute("SELECT url FROM page WHERE key = ?", (original,)).fetchone()
        page["duplicate_of"] = same[0] if same else ""
    else:
        page["duplicate_of"] = ""
    return page
