"""Reads the queue of the PostgreSQL frontier: the best and the worst URLs, timers, when the next host wakes."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from opilio.core.protocols import Database, FrontierEntry
from opilio.core.records import Lead
from opilio.frontier.policy import QueuePosition
from opilio.frontier.postgres.tables import MAX_DUE_ROWS
from opilio.frontier.sqlite.schema import unpack_keys
from opilio.frontier.sqlite.urls import LEAD_COLUMNS, QueueReader, row_to_lead


class PostgresQueue:
    """Queued URLs in order. Nothing is locked."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._reader = QueueReader(db)

    def best_of_hosts(self, hosts: Sequence[tuple[Any, ...]], limit: int, min_tier: int) -> list[list[Lead]]:
        """The best queued URLs of each of these (id, name, …) hosts."""
        if not hosts:
            return []
        rows = self._db.execute(
            f"SELECT h.n, u.* FROM unnest(CAST(? AS bigint[])) WITH ORDINALITY AS h (id, n) CROSS JOIN LATERAL"
            f" (SELECT {LEAD_COLUMNS} FROM frontier_url WHERE host_id = h.id AND state = 0 AND tier >= ?"
            " ORDER BY tier DESC, priority DESC, seq LIMIT ?) AS u ORDER BY h.n, tier DESC",
            ([host[0] for host in hosts], min_tier, limit),
        ).fetchall()
        found = {n: [row_to_lead(row[1:], hosts[n - 1][1]) for row in own] for n, own in groupby(rows, itemgetter(0))}
        return [found.get(n, []) for n in range(1, len(hosts) + 1)]

    def best(self, limit: int) -> Iterator[tuple[int, FrontierEntry]]:
        """The best queued URLs that are not in flight, with their host ids: a merge of the queues of the best hosts."""
        in_flight = {
            id_: frozenset(unpack_keys(keys))
            for id_, keys in self._db.execute("SELECT id, keys FROM frontier_host WHERE keys IS NOT NULL")
        }
        hosts = self._db.execute(
            "SELECT id, name, best_tier, best, best_seq FROM frontier_host WHERE best IS NOT NULL"
            " ORDER BY best_tier DESC, best DESC, best_seq LIMIT ?",
            (limit + len(in_flight),),
        ).fetchall()
        return self._reader.best(hosts, limit, lambda id_: in_flight.get(id_, frozenset()))

    def worst(self, limit: int) -> list[tuple[int, int]]:
        """(host id, key) of the worst queued URLs of all hosts."""
        return self._reader.worst(limit)

    def entry(self, host: str, key: int) -> FrontierEntry | None:
        """Everything about one URL."""
        row = self._db.execute("SELECT id, keys FROM frontier_host WHERE name = ?", (host,)).fetchone()
        return None if row is None else self._reader.entry(row[0], host, key, frozenset(unpack_keys(row[1])))

    def wakes_at(self, now: float, *, batch: bool) -> float | None:
        """When a host may be leased: 0 for now; `batch`: only hosts of an N-best batch, if there is one."""
        if batch and self.has_tier(1):
            awake = "SELECT min(CASE WHEN wake_at <= ? THEN 0 ELSE wake_at END) FROM frontier_host"
            times = [self._db.execute(f"{awake} WHERE best IS NOT NULL AND best_tier >= 1", (now,)).fetchone()[0]]
        else:
            ready = "SELECT 0.0 FROM frontier_host WHERE parked = 0 AND best IS NOT NULL AND wake_at <= ? LIMIT 1"
            if self._db.execute(ready, (now,)).fetchone():
                return 0.0
            soonest = "SELECT min(wake_at) FROM frontier_host WHERE best IS NOT NULL AND parked ="
            times = [self._db.execute(f"{soonest} {parked}").fetchone()[0] for parked in (0, 1)]
        times.append(self._reader.next_retry())
        return min((float(at) for at in times if at is not None), default=None)

    def has_tier(self, tier: int) -> bool:
        """Has a host a URL in this tier or above?"""
        sql = "SELECT 1 FROM frontier_host WHERE best IS NOT NULL AND best_tier >= ? LIMIT 1"
        return self._db.execute(sql, (tier,)).fetchone() is not None

    def unfinished(self, host_id: int) -> list[tuple[int, str]]:
        """(key, URL) of URLs queued, waiting or in flight at a host."""
        sql = "SELECT key, url FROM frontier_url WHERE host_id = ? AND state < 2"
        return self._db.execute(sql, (host_id,)).fetchall()

    def timers_due(self, tick: float) -> list[tuple[int, int, int, float, QueuePosition]]:
        """Entries whose timer is due: (host id, key, seq, score, position)."""
        rows = self._db.execute(
            "SELECT host_id, key, seq, score, priority, timer, tier FROM frontier_url"
            " WHERE timer IS NOT NULL AND state < 2 AND timer <= ? ORDER BY timer, seq LIMIT ?",
            (tick, MAX_DUE_ROWS),
        ).fetchall()
        return [(host_id, key, seq, score, QueuePosition(*place)) for host_id, key, seq, score, *place in rows]

    def set_delay(self, host: str, delay_s: float) -> None:
        """Set the delay between requests to a host."""
        self._db.execute("UPDATE frontier_host SET delay_s = ? WHERE name = ?", (delay_s, host))
