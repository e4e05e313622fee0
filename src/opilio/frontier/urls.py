"""URL rows of the SQLite frontier: every statement on them, each found by an index, in batches.

It executes statements only; transactions belong to the store, decisions to the frontier.
"""

import heapq
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from opilio.frontier.front import Known
from opilio.frontier.order import Place
from opilio.frontier.schema import STATES, unpack
from opilio.model.protocols import Entry
from opilio.model.records import Lead, State

_KNOWN = "u.host_id, u.key, u.state, u.seq, u.priority, u.score, u.depth, u.tunnel, u.parent, u.parents, u.timer"
_LEAD = "key, url, score, depth, tunnel, parent, hops, retries, features"
_ENTRY = f"{_LEAD}, state, priority, reason, parents, found, seq"
_QUEUE = "FROM frontier_url WHERE host_id = ? AND state = 0"
_NEWS = "found = found + ?, parents = coalesce(?, parents)"
_CHUNK = 128

InsertRow = tuple[Any, ...]  # the columns of `insert`, in that order


@cache
def _load_many(count: int) -> str:
    pairs = ", ".join(["(?, ?)"] * count)
    return (
        f"WITH k (h, k) AS (VALUES {pairs}) SELECT {_KNOWN} FROM k"
        " CROSS JOIN frontier_url u ON u.host_id = k.h AND u.key = k.k"
    )


def _known(row: Sequence[Any]) -> Known | None:
    """A row of `load` as the front remembers it."""
    host_id, _, state, seq, priority, score, depth, tunnel, parent, parents, timer = row
    if state > 1:
        return None
    return Known(host_id, seq, score, depth, tunnel, parent, _parents(parents, parent), priority, timer, state == 1)


def _parents(blob: bytes | None, parent: int) -> tuple[int, ...]:
    """The list is written when there is a second parent; until then the row's own column says it."""
    return unpack(blob) if blob else (parent,) if parent else ()


def _lead(row: Sequence[Any], host: str) -> Lead:
    key, url, score, depth, tunnel, parent, hops, retries, features = row[:9]
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
    )


class Urls:
    """The URL table."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def load(self, pairs: list[tuple[int, int]]) -> Iterator[tuple[int, Known | None]]:
        """(key, what is known) of those (host id, key) pairs that have a row; None: it is settled."""
        start = 0
        while start < len(pairs):
            # Few statement lengths, so that SQLite's prepared ones are used again.
            count = next(n for n in (1, 4, 16, 64, _CHUNK) if n >= min(len(pairs) - start, _CHUNK))
            chunk = pairs[start : start + count]
            flat = [v for pair in chunk for v in pair] + [0, 0] * (count - len(chunk))
            for row in self._db.execute(_load_many(count), flat):
                yield row[1], _known(row)
            start += count

    def insert(self, rows: Iterable[InsertRow]) -> None:
        """New rows."""
        self._db.executemany(
            "INSERT INTO frontier_url (host_id, key, state, seq, priority, score, depth, tunnel, parent, hops,"
            " retries, found, url, parents, features, reason, timer)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )

    def lift(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """A better context: score, priority, timer, depth, tunnel, parent, news, features, host id, key."""
        self._db.executemany(
            f"UPDATE frontier_url SET score = ?, priority = ?, timer = ?, depth = ?, tunnel = ?, parent = ?, {_NEWS},"
            " features = coalesce(?, features) WHERE host_id = ? AND key = ?",
            rows,
        )

    def note(self, rows: Iterable[tuple[int, bytes | None, int, int]]) -> None:
        """What the front knew alone: news, host id, key. Touches no index."""
        self._db.executemany(f"UPDATE frontier_url SET {_NEWS} WHERE host_id = ? AND key = ?", rows)

    def settle(self, rows: Iterable[tuple[int, str | None, int, bytes | None, int, int]]) -> None:
        """No longer queued: state, reason, news, host id, key."""
        self._db.executemany(
            f"UPDATE frontier_url SET state = ?, reason = ?, {_NEWS} WHERE host_id = ? AND key = ?", rows
        )

    def retry(self, rows: Iterable[tuple[int, str | None, float | None, int, bytes | None, int, int]]) -> None:
        """Back in the queue: state, reason, not before, news, host id, key."""
        self._db.executemany(
            f"UPDATE frontier_url SET state = ?, reason = ?, not_before = ?, {_NEWS}, retries = retries + 1"
            " WHERE host_id = ? AND key = ?",
            rows,
        )

    def place(self, rows: Iterable[tuple[float, float, float | None, int, int]]) -> None:
        """Another place for an entry: score, priority, timer, host id, key."""
        self._db.executemany(
            "UPDATE frontier_url SET score = ?, priority = ?, timer = ? WHERE host_id = ? AND key = ?", rows
        )

    def top(self, host_id: int, host: str, limit: int, floor: float) -> list[Lead]:
        """The best queued URLs of a host."""
        rows = self._db.execute(
            f"SELECT {_LEAD} {_QUEUE} AND priority >= ? ORDER BY priority DESC, seq LIMIT ?", (host_id, floor, limit)
        )
        return [_lead(row, host) for row in rows.fetchall()]

    def tail(self, limit: int, host_id: int | None = None) -> list[tuple[int, int]]:
        """(host id, key) of the worst queued URLs, of one host or of all (needs the tail index)."""
        where, values = ("state = 0", (limit,)) if host_id is None else ("host_id = ? AND state = 0", (host_id, limit))
        return self._db.execute(
            f"SELECT host_id, key FROM frontier_url WHERE {where} ORDER BY priority ASC, seq DESC LIMIT ?", values
        ).fetchall()

    def wake_retries(self, now: float) -> list[tuple[int, int]]:
        """Retries whose time has come are queued again: (host id, key)."""
        due = self._db.execute(
            "SELECT host_id, key FROM frontier_url WHERE state = 1 AND not_before <= ?", (now,)
        ).fetchall()
        self._db.executemany("UPDATE frontier_url SET state = 0, not_before = NULL WHERE host_id = ? AND key = ?", due)
        return due

    def due(self, tick: float) -> list[tuple[int, int, int, float, Place]]:
        """Entries whose timer has run: (host id, key, seq, score, place)."""
        rows = self._db.execute(
            "SELECT host_id, key, seq, score, priority, timer FROM frontier_url"
            " WHERE timer IS NOT NULL AND state < 2 AND timer <= ?",
            (tick,),
        ).fetchall()
        return [(host_id, key, seq, score, Place(p, t)) for host_id, key, seq, score, p, t in rows]

    def unsettled(self, host_id: int) -> list[tuple[int, int]]:
        """(host id, key) of everything at a host that is queued, waiting or in flight."""
        return self._db.execute(
            "SELECT host_id, key FROM frontier_url WHERE host_id = ? AND state < 2", (host_id,)
        ).fetchall()

    def first_retry(self) -> float | None:
        """When the first retry is due."""
        row = self._db.execute("SELECT min(not_before) FROM frontier_url WHERE state = 1").fetchone()
        return None if row[0] is None else float(row[0])

    def entry(self, host_id: int, host: str, key: int, leased: frozenset[int]) -> Entry | None:
        """Everything the row says."""
        row = self._db.execute(
            f"SELECT {_ENTRY} FROM frontier_url WHERE host_id = ? AND key = ?", (host_id, key)
        ).fetchone()
        return None if row is None else _entry(row, host, leased)

    def best(
        self, hosts: list[tuple[int, str, float, int]], limit: int, flying: Callable[[int], frozenset[int]]
    ) -> Iterator[tuple[int, Entry]]:
        """The best queued URLs of these hosts with their host ids: a merge of their queues."""
        heap = [(-best, seq, id_, name, self._queue_of(id_)) for id_, name, best, seq in hosts]
        heapq.heapify(heap)
        rows: dict[int, tuple[Any, ...]] = {}
        while heap and limit > 0:
            _, _, id_, name, queue = heap[0]
            row = rows.pop(id_, None) or next(queue)  # a host's queue is opened when its turn comes
            if row[0] not in flying(id_):
                limit -= 1
                yield id_, _entry(row, name, frozenset())
            follower = next(queue, None)
            if follower is None:
                heapq.heappop(heap)
            else:
                rows[id_] = follower
                heapq.heapreplace(heap, (-follower[10], follower[14], id_, name, queue))

    def _queue_of(self, host_id: int) -> Iterator[tuple[Any, ...]]:
        """The queued rows of a host, best first, in growing portions."""
        size, start = 8, 0
        sql = f"SELECT {_ENTRY} {_QUEUE} ORDER BY priority DESC, seq LIMIT ? OFFSET ?"
        while rows := self._db.execute(sql, (host_id, size, start)).fetchall():
            yield from rows
            start, size = start + size, size * 2


def _entry(row: Sequence[Any], host: str, leased: frozenset[int]) -> Entry:
    state, priority, reason, parents, found, seq = row[9:]
    return Entry(
        lead=_lead(row, host),
        state=State.LEASED if row[0] in leased else STATES[state],
        priority=priority,
        reason=reason or "",
        parents=_parents(parents, row[5]),
        found=found,
        seq=seq,
    )
