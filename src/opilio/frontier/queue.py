"""The queue of the SQLite frontier, as it is read: best and worst URLs of a host or of all, each by an index."""

import heapq
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from opilio.frontier.schema import STATES
from opilio.frontier.urls import parents_of
from opilio.model.protocols import Entry
from opilio.model.records import Lead, State

_LEAD = "key, url, score, depth, tunnel, parent, hops, retries, features"
_ENTRY = f"{_LEAD}, state, priority, reason, parents, found, seq"
_QUEUE = "FROM frontier_url WHERE host_id = ? AND state = 0"


class Queue:
    """Queued URLs in order."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

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


def _entry(row: Sequence[Any], host: str, leased: frozenset[int]) -> Entry:
    state, priority, reason, parents, found, seq = row[9:]
    return Entry(
        lead=_lead(row, host),
        state=State.LEASED if row[0] in leased else STATES[state],
        priority=priority,
        reason=reason or "",
        parents=parents_of(parents, row[5]),
        found=found,
        seq=seq,
    )
