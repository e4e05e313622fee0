"""Why a URL was fetched, skipped or kept: everything that a collection knows of it."""

import sys
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from isal import isal_zlib

from opilio.core.errors import UsageError
from opilio.core.protocols import FrontierEntry
from opilio.core.records import Reason, UrlState, url_key
from opilio.core.urls import canonicalize_url, host_of
from opilio.engine.link_columns import unpack
from opilio.frontier.sqlite.frontier import SqliteFrontier
from opilio.manage.agents import agent_cards
from opilio.manage.results import (
    AgentVerdict,
    Explanation,
    FetchAttempt,
    HostWait,
    LinkContext,
    PageExplanation,
    RevisitStats,
    SeedOrigin,
)
from opilio.manage.why_link import explain_link_score
from opilio.store.collection import Collection, open_readonly

_reasons = msgspec.msgpack.Decoder(tuple[Reason, ...]).decode
_PAGE = ("title", "score", "relevant", "reasons", "duplicate_of", "near_duplicate", "fetched_at", "language", "genre")
_ANSWER = ("at", "status", "failure", "detail", "location")
_REVISIT_COLUMNS = ("checks", "changes", "checked_at", "changed_at", "strikes", "found", "brought")
# The page as it is, or as it was last: reasons outlive pages that are gone.
_LATEST_PAGE = """SELECT url, title FROM (SELECT url, title, 1 AS now, seq FROM page WHERE key = :key
    UNION ALL SELECT url, title, 0, seq FROM version WHERE key = :key) ORDER BY now DESC, seq DESC LIMIT 1"""
_REDIRECT_SOURCE = """SELECT u.url FROM (SELECT key FROM answer WHERE location = ? ORDER BY seq LIMIT 1) AS a
    CROSS JOIN frontier_host AS h CROSS JOIN frontier_url AS u ON u.host_id = h.id AND u.key = a.key"""
MAX_PATH_LENGTH = 30
MAX_PARENTS = 5
SKIPPED = "skipped"  # seen in pages, never queued: no state of the frontier


def why(folder: Path, url: str) -> Explanation:
    """All reasons for one URL. `found` is False for a URL that was never seen."""
    address = canonicalize_url(url)
    if address is None:
        raise UsageError(f"'{url}': not a valid http(s) URL; include the scheme, for example https://example.org/")
    with open_readonly(folder) as collection:
        return _explain(collection, address)


def _explain(collection: Collection, url: str) -> Explanation:
    key = url_key(url)
    frontier = SqliteFrontier(collection.connection)
    entry = frontier.entry(host_of(url), key)
    facts: dict[str, Any] = {"found_on": [], "path": []}
    if entry is not None:
        redirects = _redirects(collection, entry)
        facts |= _frontier_facts(entry)
        facts["redirected_from"] = redirects or None
        facts["found_on"] = _contexts(collection, (key, *map(url_key, redirects)), entry.parents)
        facts["path"] = _path(collection, frontier, entry)
        facts["host_waits"] = _host_wait(collection, host_of(url)) if entry.state is UrlState.QUEUED else None
        facts["ranker"] = explain_link_score(collection, entry)
    elif contexts := _contexts(collection, (key,), _parents_not_followed(collection, key)):
        facts |= {"state": SKIPPED, "reason": contexts[0].not_followed, "found_on": contexts}
    cards = agent_cards(collection)
    return Explanation(
        url=url,
        found="state" in facts,
        **facts,
        seed=_seed(collection, key),
        answers=_fetch_attempts(collection, key),
        page=_page(collection, key),
        revisits=_revisits(collection, key),
        agents=_agent_verdicts(collection, key, {card.number: card.name for card in cards}) if cards else None,
    )


def _seed(collection: Collection, key: int) -> SeedOrigin | None:
    row = collection.connection.execute("SELECT priority, sources FROM seed WHERE key = ?", (key,)).fetchone()
    return SeedOrigin(*row) if row else None


def _fetch_attempts(collection: Collection, key: int) -> list[FetchAttempt]:
    rows = collection.connection.execute(f"SELECT {', '.join(_ANSWER)} FROM answer WHERE key = ? ORDER BY seq", (key,))
    return [FetchAttempt(**dict(zip(_ANSWER, row, strict=True))) for row in rows]


def _revisits(collection: Collection, key: int) -> RevisitStats | None:
    row = collection.connection.execute(
        f"SELECT {', '.join(_REVISIT_COLUMNS)} FROM revisit WHERE key = ?", (key,)
    ).fetchone()
    return RevisitStats(**dict(zip(_REVISIT_COLUMNS, row, strict=True))) if row is not None and row[0] else None


def _agent_verdicts(collection: Collection, key: int, names: dict[int, str]) -> list[AgentVerdict]:
    """Each agent's verdict on the page, and which of them fetched it."""
    rows = collection.connection.execute(
        "SELECT agent, own, score, relevant FROM verdict WHERE page = ? ORDER BY agent", (key,)
    )
    return [AgentVerdict(names.get(agent, ""), bool(own), score, bool(rel)) for agent, own, score, rel in rows]


def _frontier_facts(entry: FrontierEntry) -> dict[str, Any]:
    return {
        "state": entry.state.value,
        "reason": entry.reason,
        "score": entry.lead.score,
        "priority": entry.priority,
        "depth": entry.lead.depth,
        "tunnel": entry.lead.tunnel,
        "times_found": entry.times_found,
    }


def _redirects(collection: Collection, entry: FrontierEntry) -> list[str]:
    """The addresses whose redirects led to a URL, the last of them first. No index leads there, but few URLs ask."""
    came_by: list[str] = []
    url = entry.lead.url
    while len(came_by) < entry.lead.hops:
        row = collection.connection.execute(_REDIRECT_SOURCE, (url,)).fetchone()
        if row is None or row[0] in came_by:
            break
        url = row[0]
        came_by.append(url)
    return came_by


def _contexts(collection: Collection, keys: tuple[int, ...], parents: tuple[int, ...]) -> list[LinkContext]:
    """The links on its parents that lead to a URL (`keys`: its own and those of redirects to it), with their scores."""
    found = []
    for parent in parents:
        row = collection.connection.execute(
            f"SELECT p.url, p.title, l.columns FROM ({_LATEST_PAGE}) AS p JOIN links AS l ON l.parent = :key",
            {"key": parent},
        ).fetchone()
        if row is None:
            continue
        columns = unpack(row[2])
        parts = np.frombuffer(columns.parts, dtype=np.float32).reshape(len(columns.urls), len(columns.names))
        scores = np.frombuffer(columns.scores, dtype=np.float32)
        found += [
            LinkContext(
                page=row[0],
                title=row[1],
                anchor=columns.anchors[at],
                score=round(float(scores[at]), 4),
                parts={n: round(float(v), 4) for n, v in zip(columns.names, parts[at], strict=True)},
                not_followed=columns.dropped.get(int(at), ""),
            )
            for at in np.flatnonzero(np.isin(np.frombuffer(columns.keys, dtype=np.int64), keys))
        ]
    return found


def _parents_not_followed(collection: Collection, key: int) -> tuple[int, ...]:
    """Pages that link a URL which never came into the queue: their links were below a threshold, nofollow, ...

    No index leads there, so it looks through the links of every page; as bytes, that is 20 µs a page.
    """
    wanted = key.to_bytes(8, sys.byteorder, signed=True)
    rows = collection.connection.execute("SELECT parent, columns FROM links")
    return tuple(islice((parent for parent, blob in rows if wanted in isal_zlib.decompress(blob)), MAX_PARENTS))


def _host_wait(collection: Collection, host: str) -> HostWait | None:
    """Why the host of a queued URL is backed off, if that back-off is still in force."""
    row = collection.connection.execute(
        "SELECT json_extract(data, '$.until'), json_extract(data, '$.reason'), wake_at FROM event"
        " JOIN frontier_host ON name = ?1 WHERE kind = 'HostBackedOff' AND json_extract(data, '$.host') = ?1"
        " ORDER BY event.id DESC LIMIT 1",
        (host,),
    ).fetchone()
    return HostWait(row[0], row[1]) if row and row[0] == row[2] else None


def _path(collection: Collection, frontier: SqliteFrontier, entry: FrontierEntry | None) -> list[str]:
    """The shortest way from a seed that is known: of the pages a URL was found on, always the one nearest to a seed."""
    path: list[str] = []
    while entry is not None and entry.lead.url not in path and len(path) < MAX_PATH_LENGTH:
        path += [entry.lead.url, *_redirects(collection, entry)]
        above = _nearest_parent(collection, {entry.lead.parent, *entry.parents}) if entry.lead.depth else None
        entry = frontier.entry(host_of(above), url_key(above)) if above else None
    return path[::-1]


def _nearest_parent(collection: Collection, keys: set[int]) -> str | None:
    marks = ", ".join("?" * len(keys))
    query = f"SELECT url FROM page WHERE key IN ({marks}) ORDER BY depth, seq LIMIT 1"
    row = collection.connection.execute(query, tuple(keys)).fetchone()
    return row[0] if row else None


def _page(collection: Collection, key: int) -> PageExplanation | None:
    row = collection.connection.execute(f"SELECT {', '.join(_PAGE)} FROM page WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    page = dict(zip(_PAGE, row, strict=True))
    page["reasons"] = _reasons(page["reasons"])
    page["relevant"], page["near_duplicate"] = bool(page["relevant"]), bool(page["near_duplicate"])
    original = page["duplicate_of"]
    if original:
        same = collection.connection.execute("SELECT url FROM page WHERE key = ?", (original,)).fetchone()
        page["duplicate_of"] = same[0] if same else ""
    else:
        page["duplicate_of"] = ""
    return PageExplanation(**page)
