"""Reads the frontier's tables, in SQLite or PostgreSQL, for pages, reports, commands and checks, and repairs what
follows from them."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from typing import NamedTuple

from opilio.core.protocols import Database
from opilio.frontier.schema import DONE, DROPPED, FAILED, WAITING

_REBUILD_COUNTERS = (
    """UPDATE frontier_count SET generation = generation + 1, leased = 0,
        queued = (SELECT count(*) FROM frontier_url WHERE state < 2),
        done = (SELECT count(*) FROM frontier_url WHERE state = 2),
        failed = (SELECT count(*) FROM frontier_url WHERE state = 3),
        dropped = (SELECT count(*) FROM frontier_url WHERE state = 4),
        hosts = (SELECT count(*) FROM frontier_host)""",
    "DELETE FROM frontier_lease",
    """UPDATE frontier_host SET queued = (SELECT count(*) FROM frontier_url WHERE host_id = id AND state < 2),
        (best_tier, best, best_seq) = (SELECT coalesce(max(tier), 0), max(priority), coalesce(max(seq), 0) FROM (
            SELECT tier, priority, seq FROM frontier_url WHERE host_id = id AND state = 0
            ORDER BY tier DESC, priority DESC, seq LIMIT 1))""",
)


class HostSummary(NamedTuple):
    """A host: its queue, how many URLs of it are known, its delay, and when it may be asked next."""

    name: str
    queued: int
    known: int
    delay_s: float | None
    wake_at: float


class FailureGroup(NamedTuple):
    """URLs that failed or were dropped for one reason."""

    reason: str
    urls: int
    example: str


class FailedUrl(NamedTuple):
    host: str
    url: str
    failed: bool
    reason: str


class FailedHost(NamedTuple):
    """Failed URLs of a host with one reason."""

    host: str
    reason: str
    urls: int
    example: str


class HostPage(NamedTuple):
    """A stored page of a host."""

    url: str
    title: str
    score: float
    relevant: bool
    depth: int
    fetched_at: float


class QueuedUrl(NamedTuple):
    url: str
    score: float
    depth: int


def host_summaries(db: Database, host: str = "") -> list[HostSummary]:
    """All known hosts, or one."""
    where, values = (" WHERE name = ?", (host,)) if host else ("", ())
    rows = db.execute(f"SELECT name, queued, total, delay_s, wake_at FROM frontier_host{where}", values)
    return [HostSummary(*row) for row in rows]


def hosts_with_queue(db: Database) -> list[str]:
    """The hosts that have queued URLs."""
    return [name for (name,) in db.execute("SELECT name FROM frontier_host WHERE queued > 0")]


def host_wakes_at(db: Database, host: str) -> float:
    """When a host may be asked next; 0 for an unknown one."""
    row = db.execute("SELECT wake_at FROM frontier_host WHERE name = ?", (host,)).fetchone()
    return float(row[0]) if row else 0.0


def longest_delay(db: Database, after: float) -> float:
    """The longest delay of the hosts that may not be asked before a time."""
    row = db.execute("SELECT max(delay_s) FROM frontier_host WHERE wake_at > ?", (after,)).fetchone()
    return float(row[0] or 0.0)


def count_failed(db: Database, host: str) -> int:
    """The number of URLs of a host that failed."""
    sql = "SELECT count(*) FROM frontier_url WHERE host_id = ? AND state = ?"
    return int(db.execute(sql, (_host_id(db, host), FAILED)).fetchone()[0])


def state_counts(db: Database, host: str) -> list[tuple[int, int]]:
    """(state code, number of URLs) of a host."""
    sql = "SELECT state, count(*) FROM frontier_url WHERE host_id = ? GROUP BY state"
    return db.execute(sql, (_host_id(db, host),)).fetchall()


def failure_groups(db: Database, host: str, limit: int) -> list[FailureGroup]:
    """Why URLs of a host failed or were dropped, the most frequent reason first."""
    rows = db.execute(
        "SELECT coalesce(reason, ''), count(*), min(url) FROM frontier_url WHERE host_id = ? AND state IN (?, ?)"
        " GROUP BY 1 ORDER BY 2 DESC LIMIT ?",
        (_host_id(db, host), FAILED, DROPPED, limit),
    )
    return [FailureGroup(*row) for row in rows]


def failed_urls(db: Database, limit: int, host: str = "", cause: str = "") -> list[FailedUrl]:
    """Some URLs that failed, then some that were dropped, of one host or for one cause if given."""
    where, values = _failed_where(host, cause)
    found = list[FailedUrl]()
    for state in (FAILED, DROPPED):
        rows = db.execute(
            "SELECT h.name, u.url, coalesce(u.reason, '') FROM frontier_url AS u"
            f" JOIN frontier_host AS h ON h.id = u.host_id WHERE u.state = ?{where} LIMIT ?",
            (state, *values, limit - len(found)),
        )
        found += [FailedUrl(name, url, state == FAILED, reason) for name, url, reason in rows]
    return found


def dropped_groups(db: Database, limit: int, host: str = "", cause: str = "") -> list[FailureGroup]:
    """Why URLs were dropped, the most frequent reason first."""
    where, values = _failed_where(host, cause)
    rows = db.execute(
        "SELECT coalesce(u.reason, ''), count(*), min(u.url) FROM frontier_url AS u"
        f" JOIN frontier_host AS h ON h.id = u.host_id WHERE u.state = ?{where} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?",
        (DROPPED, *values, limit),
    )
    return [FailureGroup(*row) for row in rows]


def failed_hosts(db: Database, limit: int, host: str = "", cause: str = "") -> list[FailedHost]:
    """Failed URLs by host and reason, the largest groups first."""
    where, values = _failed_where(host, cause)
    rows = db.execute(
        "SELECT h.name, coalesce(u.reason, ''), count(*), min(u.url) FROM frontier_url AS u"
        f" JOIN frontier_host AS h ON h.id = u.host_id WHERE u.state = ?{where}"
        " GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT ?",
        (FAILED, *values, limit),
    )
    return [FailedHost(*row) for row in rows]


def failures_by_host(db: Database, causes: Sequence[str]) -> list[tuple[str, str, int]]:
    """Failed URLs by cause and host, the hosts with most of them first."""
    like = " OR ".join(["u.reason = ? OR u.reason LIKE ?"] * len(causes))
    rows = db.execute(
        "SELECT h.name, u.reason, count(*) FROM frontier_url AS u JOIN frontier_host AS h ON h.id = u.host_id"
        f" WHERE u.state = {FAILED} AND ({like}) GROUP BY h.name, u.reason",
        [value for cause in causes for value in (cause, f"{cause} %")],
    )
    counts = Counter[tuple[str, str]]()
    for host, reason, number in rows:
        counts[reason.partition(" ")[0], host] += number
    return [(cause, host, number) for (cause, host), number in counts.most_common()]


def failed_keys(db: Database, host: str = "", cause: str = "") -> list[tuple[str, int]]:
    """(host, key) of failed URLs."""
    where, values = _failed_where(host, cause)
    sql = "SELECT h.name, u.key FROM frontier_url AS u JOIN frontier_host AS h ON h.id = u.host_id WHERE u.state = ?"
    return db.execute(sql + where, (FAILED, *values)).fetchall()


def _failed_where(host: str, cause: str) -> tuple[str, list[str]]:
    """A reason is its cause, or the cause with details after a space."""
    where, values = "", list[str]()
    if host:
        where, values = " AND h.name = ?", [host]
    if cause:
        where += " AND (u.reason = ? OR substr(u.reason, 1, length(?) + 1) = ? || ' ')"
        values += [cause] * 3
    return where, values


def pages_of_host(db: Database, host: str, limit: int, offset: int) -> list[HostPage]:
    """Stored pages of a host by score. The frontier's key leads to them: `page` has no index by host."""
    rows = db.execute(
        "SELECT p.url, p.title, p.score, p.relevant, p.depth, p.fetched_at FROM frontier_url AS u"
        " JOIN page AS p ON p.key = u.key WHERE u.host_id = ? AND u.state = ?"
        " ORDER BY p.score DESC, p.url LIMIT ? OFFSET ?",
        (_host_id(db, host), DONE, limit, offset),
    )
    return [HostPage(url, title, score, bool(relevant), *rest) for url, title, score, relevant, *rest in rows]


def queue_of_host(db: Database, host: str, limit: int) -> list[QueuedUrl]:
    """The queued URLs of a host, best first."""
    sql = """SELECT url, score, depth FROM frontier_url WHERE host_id = ? AND state = 0
        ORDER BY tier DESC, priority DESC, seq LIMIT ?"""
    return [QueuedUrl(*row) for row in db.execute(sql, (_host_id(db, host), limit))]


def queued_priorities(db: Database, limit: int) -> list[float]:
    """Priorities of queued URLs, from an index that holds them."""
    rows = db.execute("SELECT priority FROM frontier_url WHERE state = 0 LIMIT ?", (limit,))
    return [priority for (priority,) in rows]


def queue_length(db: Database) -> int:
    row = db.execute("SELECT sum(queued) FROM frontier_count").fetchone()
    return int(row[0] or 0)


def url_of_key(db: Database, key: int) -> str:
    """The URL with this key; empty where it is unknown. The index is by host and key: one lookup for each host."""
    sql = "SELECT u.url FROM frontier_host AS h CROSS JOIN frontier_url AS u ON u.host_id = h.id AND u.key = ? LIMIT 1"
    row = db.execute(sql, (key,)).fetchone()
    return str(row[0]) if row else ""


def redirecting_urls(db: Database) -> Iterator[tuple[str, int]]:
    """The URLs that redirected when they were last requested, with their keys."""
    yield from db.execute(
        "SELECT url, key FROM frontier_url WHERE state = ? AND reason LIKE 'redirects to %' ORDER BY url", (DONE,)
    )


def accepted_urls(db: Database, pattern: str) -> Iterator[tuple[str, str]]:
    """URLs that were not dropped and match a shell pattern, with the host of the page that links them (or nothing)."""
    matches = re.compile(translate(pattern)).match
    rows = db.execute(
        "SELECT u.url, p.host FROM frontier_url AS u LEFT JOIN page AS p ON p.key = u.parent WHERE u.state <> ?",
        (DROPPED,),
    )
    return ((url, host or "") for url, host in rows if matches(url))


def refused_urls(db: Database, refusal_reason: Callable[[str], str]) -> dict[str, list[tuple[int, int]]]:
    """(host id, key) of queued and waiting URLs for which there is a reason, by the reason."""
    refused: dict[str, list[tuple[int, int]]] = {}
    for host_id, key, url in db.execute("SELECT host_id, key, url FROM frontier_url WHERE state < 2"):
        if reason := refusal_reason(url):
            refused.setdefault(reason, []).append((host_id, key))
    return refused


def host_timing(db: Database, host_id: int) -> tuple[float, float | None]:
    """When a host may be asked next, and its own delay."""
    row: tuple[float, float | None] = db.execute(
        "SELECT wake_at, delay_s FROM frontier_host WHERE id = ?", (host_id,)
    ).fetchone()
    return row


def requeue_dropped(db: Database, host_id: int, reason: str) -> list[int]:
    """Queue the URLs of a host again that were dropped for a reason, each at its place; returns their keys."""
    sql = (
        "UPDATE frontier_url SET state = 0, reason = NULL WHERE host_id = ? AND state = ? AND reason = ? RETURNING key"
    )
    return [key for (key,) in db.execute(sql, (host_id, DROPPED, reason)).fetchall()]


def shift_times(db: Database, back_s: float, now: float) -> None:
    """The clock was set back: hosts and retries wait as long as they would have."""
    db.execute(
        "UPDATE frontier_host SET wake_at = CASE WHEN wake_at - :back > :now THEN wake_at - :back ELSE :now END,"
        " parked = 0 WHERE wake_at > :now",
        {"back": back_s, "now": now},
    )
    db.execute("UPDATE frontier_url SET not_before = not_before - ? WHERE state = ?", (back_s, WAITING))


def counter_problems(db: Database) -> Iterator[str]:
    """Counters that do not agree with the rows."""
    stored = db.execute(
        "SELECT sum(queued + leased), sum(done), sum(failed), sum(dropped) FROM frontier_count"
    ).fetchone()
    counted = db.execute(
        "SELECT count(*) FILTER (WHERE state < 2), count(*) FILTER (WHERE state = 2),"
        " count(*) FILTER (WHERE state = 3), count(*) FILTER (WHERE state = 4) FROM frontier_url"
    ).fetchone()
    for name, counter, rows in zip(("queued", "done", "failed", "dropped"), stored, counted, strict=True):
        if counter != (rows or 0):
            yield f"counter of {name} URLs is {counter}, there are {rows or 0}"


def host_counter_problems(db: Database) -> Iterator[str]:
    """Counters of hosts that do not agree with the rows."""
    for host, counter, rows in db.execute(
        """SELECT name, queued, found FROM (SELECT name, queued,
        (SELECT count(*) FROM frontier_url WHERE host_id = id AND state < 2) AS found FROM frontier_host) AS counted
        WHERE queued <> found"""
    ):
        yield f"counter of queued URLs of {host} is {counter}, there are {rows}"


def rebuild_sqlite_counters(db: Database) -> None:
    """Compute counters and the best URL of each host from the rows, and end all leases."""
    for statement in _REBUILD_COUNTERS:
        db.execute(statement)


def _host_id(db: Database, host: str) -> int:
    row = db.execute("SELECT id FROM frontier_host WHERE name = ?", (host,)).fetchone()
    return int(row[0]) if row else 0
