"""URL rows of the SQLite frontier: the statements that write and read them, each by an index, in batches.

It executes statements only; transactions belong to the store, decisions to the frontier. `upcoming_urls` and
`best_urls` read the queue without changing it.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from opilio.core.protocols import Database, FrontierEntry
from opilio.core.records import Lead, UrlState
from opilio.frontier.link_batch import CachedUrl
from opilio.frontier.policy import QueuePosition
from opilio.frontier.schema import STATE_BY_CODE, unpack_keys

_CACHE_COLUMNS = (
    "u.host_id, u.key, u.state, u.seq, u.priority, u.score, u.depth, u.tunnel, u.parent, u.parents, u.timer, u.tier"
)
_PENDING_SQL = "found = found + ?, parents = coalesce(?, parents)"
_ROWS_PER_QUERY = 128

InsertRow = tuple[Any, ...]  # the columns of `insert`, in that order


@cache
def _load_sql(count: int) -> str:
    pairs = ", ".join(["(?, ?)"] * count)
    return (
        f"WITH k (h, k) AS (VALUES {pairs}) SELECT {_CACHE_COLUMNS} FROM k"
        " CROSS JOIN frontier_url u ON u.host_id = k.h AND u.key = k.k"
    )


def row_to_cached(row: Sequence[Any]) -> CachedUrl | None:
    """A row of `load` as a cache entry."""
    host_id, _, state, seq, priority, score, depth, tunnel, parent, parents, timer, tier = row
    if state > 1:
        return None
    found_on = unpack_parents(parents, parent)
    return CachedUrl(
        host_id, seq, score, depth, tunnel, parent, found_on, priority, timer, waiting=state == 1, tier=tier
    )


def unpack_parents(blob: bytes | None, parent: int) -> tuple[int, ...]:
    """The list is written when there is a second parent; until then the column `parent` is used."""
    return unpack_keys(blob) if blob else (parent,) if parent else ()


class UrlTable:
    """The URL table."""

    def __init__(self, connection: Database) -> None:
        self._db = connection

    def load(self, pairs: list[tuple[int, int]]) -> Iterator[tuple[int, CachedUrl | None]]:
        """(key, cache entry) of those (host id, key) pairs that have a row; None: it is finished."""
        start = 0
        while start < len(pairs):
            # Few distinct statement lengths, so that SQLite's prepared statements are reused.
            count = next(n for n in (1, 4, 16, 64, _ROWS_PER_QUERY) if n >= min(len(pairs) - start, _ROWS_PER_QUERY))
            chunk = pairs[start : start + count]
            flat = [v for pair in chunk for v in pair] + [0, 0] * (count - len(chunk))
            for row in self._db.execute(_load_sql(count), flat):
                yield row[1], row_to_cached(row)
            start += count

    def retry_state(self, host_id: int, key: int) -> tuple[int, int, float | None] | None:
        """State, tries so far, and when a retry is due."""
        row: tuple[int, int, float | None] | None = self._db.execute(
            "SELECT state, retries, not_before FROM frontier_url WHERE host_id = ? AND key = ?", (host_id, key)
        ).fetchone()
        return row

    def insert(self, rows: Iterable[InsertRow]) -> None:
        """Insert new rows."""
        self._db.executemany(
            "INSERT INTO frontier_url (host_id, key, state, seq, priority, score, depth, tunnel, parent, hops,"
            " retries, found, url, parents, features, reason, timer, agent, tier)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )

    def promote(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """A better link: score, position, depth, tunnel, parent, pending, features, agent, host id, key."""
        self._db.executemany(
            "UPDATE frontier_url SET score = ?, priority = ?, timer = ?, tier = ?, depth = ?, tunnel = ?, parent = ?,"
            f" {_PENDING_SQL}, features = coalesce(?, features), agent = coalesce(?, agent)"
            " WHERE host_id = ? AND key = ?",
            rows,
        )

    def write_pending(self, rows: Iterable[tuple[int, bytes | None, int, int]]) -> None:
        """Write pending changes: links found, parents, host id, key. Touches no index."""
        self._db.executemany(f"UPDATE frontier_url SET {_PENDING_SQL} WHERE host_id = ? AND key = ?", rows)

    def finish(self, rows: Iterable[tuple[int, str | None, int, bytes | None, int, int]]) -> None:
        """No longer queued: state, reason, pending changes, host id, key."""
        self._db.executemany(
            f"UPDATE frontier_url SET state = ?, reason = ?, {_PENDING_SQL} WHERE host_id = ? AND key = ?", rows
        )

    def retry(self, rows: Iterable[tuple[int, str | None, float | None, int, bytes | None, int, int]]) -> None:
        """Back in the queue: state, reason, not before, pending changes, host id, key."""
        self._db.executemany(
            f"UPDATE frontier_url SET state = ?, reason = ?, not_before = ?, {_PENDING_SQL}, retries = retries + 1"
            " WHERE host_id = ? AND key = ?",
            rows,
        )

    def requeue(self, rows: Iterable[tuple[int, int]], priority: float, tier: int) -> list[tuple[int, int, int]]:
        """Queue done, failed and queued rows (host id, key) in a tier; returns (host id, key, former state)."""
        found = []
        for host_id, key in rows:
            row = self._db.execute(
                "SELECT state FROM frontier_url WHERE host_id = ? AND key = ? AND state IN (0, 2, 3)", (host_id, key)
            ).fetchone()
            if row is not None:
                found.append((host_id, key, row[0]))
                self._db.execute(
                    "UPDATE frontier_url SET state = 0, reason = NULL, retries = 0, timer = NULL,"
                    " priority = ?, tier = ? WHERE host_id = ? AND key = ?",
                    (priority, tier, host_id, key),
                )
        return found

    def dropped(self, host_id: int, reason: str, limit: int) -> list[tuple[int, int, float]]:
        """(key, seq, score) of the best URLs of a host that were dropped for this reason."""
        return self._db.execute(
            "SELECT key, seq, score FROM frontier_url WHERE host_id = ? AND state = 4 AND reason = ?"
            " ORDER BY score DESC, key LIMIT ?",
            (host_id, reason, limit),
        ).fetchall()

    def readmit(self, seq: int, place: QueuePosition, host_id: int, key: int) -> None:
        """Queue a dropped row."""
        self._db.execute(
            "UPDATE frontier_url SET state = 0, reason = NULL, seq = ?, priority = ?, timer = ?, tier = ?"
            " WHERE host_id = ? AND key = ?",
            (seq, *place, host_id, key),
        )

    def reposition(self, rows: Iterable[tuple[float, float, float | None, int, int, int]]) -> None:
        """Set a new position: score, priority, timer, tier, host id, key."""
        self._db.executemany(
            "UPDATE frontier_url SET score = ?, priority = ?, timer = ?, tier = ? WHERE host_id = ? AND key = ?", rows
        )

    def wake_retries(self, now: float) -> list[tuple[int, int]]:
        """Queue retries that are due; returns (host id, key)."""
        due = self._db.execute(
            "SELECT host_id, key FROM frontier_url WHERE state = 1 AND not_before <= ?", (now,)
        ).fetchall()
        self._db.executemany("UPDATE frontier_url SET state = 0, not_before = NULL WHERE host_id = ? AND key = ?", due)
        return due

    def timers_due(self, tick: float) -> list[tuple[int, int, int, float, QueuePosition]]:
        """Entries whose timer is due: (host id, key, seq, score, position)."""
        rows = self._db.execute(
            "SELECT host_id, key, seq, score, priority, timer, tier FROM frontier_url"
            " WHERE timer IS NOT NULL AND state < 2 AND timer <= ?",
            (tick,),
        ).fetchall()
        return [(host_id, key, seq, score, QueuePosition(*place)) for host_id, key, seq, score, *place in rows]

    def unfinished(self, host_id: int, matches: Callable[[str], bool]) -> list[tuple[int, int]]:
        """(host id, key) of those URLs queued, waiting or in flight at a host that match."""
        rows = self._db.execute("SELECT key, url FROM frontier_url WHERE host_id = ? AND state < 2", (host_id,))
        return [(host_id, key) for key, url in rows.fetchall() if matches(url)]


LEAD_COLUMNS = "key, url, score, depth, tunnel, parent, hops, retries, features, agent, tier"
_ENTRY_COLUMNS = f"{LEAD_COLUMNS}, state, priority, reason, parents, found, seq"
_QUEUED_SQL = "FROM frontier_url WHERE host_id = ? AND state = 0"


class QueueReader:
    """Queued URLs in order."""

    def __init__(self, connection: Database) -> None:
        self._db = connection

    def best_of_host(self, host_id: int, host: str, limit: int, min_tier: int) -> list[Lead]:
        """The best queued URLs of a host."""
        rows = self._db.execute(
            f"SELECT {LEAD_COLUMNS} {_QUEUED_SQL} AND tier >= ? ORDER BY tier DESC, priority DESC, seq LIMIT ?",
            (host_id, min_tier, limit),
        )
        return [row_to_lead(row, host) for row in rows.fetchall()]

    def worst(self, limit: int) -> list[tuple[int, int]]:
        """(host id, key) of the worst queued URLs (needs the tail index)."""
        sql = "SELECT host_id, key FROM frontier_url WHERE state = 0 ORDER BY tier, priority, seq DESC LIMIT ?"
        return self._db.execute(sql, (limit,)).fetchall()

    def next_retry(self) -> float | None:
        """When the first retry is due."""
        row = self._db.execute("SELECT min(not_before) FROM frontier_url WHERE state = 1").fetchone()
        return None if row[0] is None else float(row[0])

    def entry(self, host_id: int, host: str, key: int, leased: frozenset[int]) -> FrontierEntry | None:
        """Everything in the row."""
        row = self._db.execute(
            f"SELECT {_ENTRY_COLUMNS} FROM frontier_url WHERE host_id = ? AND key = ?", (host_id, key)
        ).fetchone()
        return None if row is None else _row_to_entry(row, host, leased)

    def best(
        self, hosts: list[tuple[int, str, int, float, int]], limit: int, in_flight: Callable[[int], frozenset[int]]
    ) -> Iterator[tuple[int, FrontierEntry]]:
        """The best queued URLs of these hosts with their host ids: a merge of their queues."""
        heap = [(-tier, -best, seq, id_, name, self._iter_host(id_)) for id_, name, tier, best, seq in hosts]
        heapq.heapify(heap)
        rows: dict[int, tuple[Any, ...]] = {}
        while heap and limit > 0:
            *_, id_, name, queue = heap[0]
            # A host's queue is read when the merge reaches it.
            row = rows.pop(id_, None) or next(queue)
            if row[0] not in in_flight(id_):
                limit -= 1
                yield id_, _row_to_entry(row, name, frozenset())
            follower = next(queue, None)
            if follower is None:
                heapq.heappop(heap)
            else:
                rows[id_] = follower
                heapq.heapreplace(heap, (-follower[10], -follower[12], follower[16], id_, name, queue))

    def _iter_host(self, host_id: int) -> Iterator[tuple[Any, ...]]:
        """The queued rows of a host, best first, in growing batches."""
        size, start = 8, 0
        sql = f"SELECT {_ENTRY_COLUMNS} {_QUEUED_SQL} ORDER BY tier DESC, priority DESC, seq LIMIT ? OFFSET ?"
        while rows := self._db.execute(sql, (host_id, size, start)).fetchall():
            yield from rows
            start, size = start + size, size * 2


def row_to_lead(row: Sequence[Any], host: str) -> Lead:
    key, url, score, depth, tunnel, parent, hops, retries, features, agent, tier = row[:11]
    return Lead(
        url=url,
        key=key,
        host=host,
        score=score,
        depth=depth,
        tunnel=tunnel,
        parent=parent,
        hops=hops,
        retries=retries,
        features=features or b"",
        agent=agent,
        tier=tier,
    )


def _row_to_entry(row: Sequence[Any], host: str, leased: frozenset[int]) -> FrontierEntry:
    state, priority, reason, parents, found, seq = row[11:]
    return FrontierEntry(
        lead=row_to_lead(row, host),
        state=UrlState.LEASED if row[0] in leased else STATE_BY_CODE[state],
        priority=priority,
        reason=reason or "",
        parents=unpack_parents(parents, row[5]),
        times_found=found,
        seq=seq,
    )


def upcoming_urls(connection: Database, limit: int, boosted: Collection[str]) -> Iterator[FrontierEntry]:
    """Queued URLs in the order they will be fetched: those of boosted hosts, then the others, each best first."""
    if boosted:
        yield from best_urls(connection, limit, boosted)
    yield from (entry for entry in best_urls(connection, limit) if entry.lead.host not in boosted)


def best_urls(connection: Database, limit: int, names: Collection[str] | None = None) -> Iterator[FrontierEntry]:
    """Queued URLs on disk, best first, of all hosts or of these. Read by index: finished URLs cost nothing."""
    among = "" if names is None else f" AND name IN ({', '.join('?' * len(names))})"
    hosts = connection.execute(
        f"SELECT id, name, best_tier, best, best_seq FROM frontier_host WHERE best IS NOT NULL{among}"
        " ORDER BY best_tier DESC, best DESC, best_seq LIMIT ?",
        (*(names or ()), limit),
    ).fetchall()
    for _, entry in QueueReader(connection).best(hosts, limit, lambda _: frozenset()):
        yield entry
