"""Host rows of the SQLite frontier: order, sleep, leases, counters, and a bounded cache of what `add` needs of them.

Leases are a small table with a mirror in memory. Counters are kept in one row, so that rows are never counted. The row
also has a generation number: when it differs from the one in memory, a transaction was rolled back or another process
wrote, and all caches must be dropped. Only statements are executed here; transactions belong to the store.
"""

import heapq
from collections.abc import Collection, Container, Iterable, Sequence
from typing import NamedTuple

import msgspec

from opilio.core.protocols import Database
from opilio.core.records import Tier
from opilio.frontier.schema import pack_keys, unpack_keys

# A host that sleeps longer is parked. `ready` skips those that sleep less: at most as many as were fetched from
# within this time. In PostgreSQL the index of ready hosts does not hold it until it wakes.
MIN_PARK_S = 10.0
# The smallest number of parked hosts that `best` reads.
MIN_PARKED_HOSTS = 10_000

_ACTIVE_SQL = "parked = 0 AND best IS NOT NULL"
_BEST_URL_SQL = (
    "SELECT tier, priority, seq FROM frontier_url WHERE host_id = ? AND state = 0"
    " ORDER BY tier DESC, priority DESC, seq LIMIT 1"
)


class HostRow:
    """The values of a host that `add` needs. Write-through: the row on disk has the same values."""

    __slots__ = ("best", "best_seq", "best_tier", "id", "queued", "total")

    def __init__(self, id_: int, best_tier: int, best: float | None, best_seq: int, queued: int, total: int) -> None:
        self.id = id_
        self.best_tier = best_tier
        self.best = best
        self.best_seq = best_seq
        self.queued = queued
        self.total = total

    def raise_best(self, tier: int, priority: float, seq: int) -> None:
        """Raise the best position after a URL was queued or moved up."""
        # Called for every new link: spelled out, because comparing tuples takes twice as long.
        if self.best is None or tier > self.best_tier:
            better = True
        else:
            better = tier == self.best_tier and (
                priority > self.best or (priority == self.best and seq < self.best_seq)
            )
        if better:
            self.best_tier = tier
            self.best = priority
            self.best_seq = seq


class SleepingHosts:
    """Hosts that sleep and are not parked, by the time they wake. `latest_time`: the latest time passed in."""

    def __init__(self, connection: Database) -> None:
        self._db = connection
        self._heap: list[tuple[float, int]] = []
        self.latest_time = 0.0

    def reset(self) -> None:
        """Read which hosts may be asleep (the only scan: on start, and after a rollback)."""
        self._heap = self._db.execute(
            "SELECT wake_at, id FROM frontier_host WHERE parked = 0 AND wake_at > ?", (self.latest_time,)
        ).fetchall()
        heapq.heapify(self._heap)

    def push(self, wake_at: float, id_: int) -> None:
        """Add a host that falls asleep."""
        if wake_at > self.latest_time:
            heapq.heappush(self._heap, (wake_at, id_))

    def advance(self, now: float) -> None:
        """Advance the clock and remove hosts that are awake."""
        self.latest_time = max(self.latest_time, now)
        while self._heap and self._heap[0][0] <= self.latest_time:
            heapq.heappop(self._heap)

    def wake_due(self, now: float) -> bool:
        """Advance the clock and unpark hosts that are due; whether there were any."""
        self.advance(now)
        changed = self._db.execute(
            "UPDATE frontier_host SET parked = 0 WHERE parked = 1 AND best IS NOT NULL AND wake_at <= ?", (now,)
        )
        return changed.rowcount > 0

    def waking_until(self, until: float) -> list[int]:
        """The hosts that wake until then."""
        return [id_ for wake_at, id_ in self._heap if wake_at <= until]

    def next_wake(self, busy: Container[int]) -> float | None:
        """When the next sleeping host with queued URLs wakes, parked hosts included."""
        parked = "SELECT min(wake_at) FROM frontier_host WHERE parked = 1 AND best IS NOT NULL"
        found = self._db.execute(parked).fetchone()[0]
        kept = set()
        while self._heap and (found is None or self._heap[0][0] < found):
            wake_at, id_ = heapq.heappop(self._heap)
            sql = "SELECT best FROM frontier_host WHERE id = ? AND wake_at = ? AND parked = 0"
            row = self._db.execute(sql, (id_, wake_at)).fetchone() if wake_at > self.latest_time else None
            # It sleeps until then. A host with an empty queue is not returned, but stays in the heap.
            if row is not None:
                kept.add((wake_at, id_))
                if row[0] is not None and id_ not in busy:
                    found = wake_at
        for entry in kept:
            heapq.heappush(self._heap, entry)
        return None if found is None else float(found)


class HostTable:
    """The host table."""

    def __init__(self, connection: Database, cached: int = 50_000) -> None:
        self._db = connection
        self._cache_size = cached
        self._ids: dict[str, int] = {}
        self._rows: dict[int, HostRow] = {}
        self.sleeping = SleepingHosts(connection)

    def reset(self) -> None:
        """Clear the cache, and read which hosts may be asleep."""
        self._ids.clear()
        self._rows.clear()
        self.sleeping.reset()

    def find(self, name: str) -> HostRow | None:
        """The host with this name, or None."""
        id_ = self._ids.get(name)
        if id_ is not None:
            return self._rows[id_]
        row = self._db.execute(
            "SELECT id, best_tier, best, best_seq, queued, total FROM frontier_host WHERE name = ?", (name,)
        ).fetchone()
        return None if row is None else self._cache(name, HostRow(*row))

    def insert(self, name: str) -> HostRow:
        """Insert a host seen for the first time."""
        sql = "INSERT INTO frontier_host (name) VALUES (?) RETURNING id"
        return self._cache(name, HostRow(self._db.execute(sql, (name,)).fetchone()[0], 0, None, 0, 0, 0))

    def _cache(self, name: str, row: HostRow) -> HostRow:
        if len(self._rows) >= self._cache_size:
            self._ids.clear()
            self._rows.clear()
        self._ids[name] = row.id
        self._rows[row.id] = row
        return row

    def save(self, rows: Iterable[HostRow]) -> None:
        """Write rows that `add` changed."""
        self._db.executemany(
            "UPDATE frontier_host SET best_tier = ?, best = ?, best_seq = ?, queued = ?, total = ? WHERE id = ?",
            [(r.best_tier, r.best, r.best_seq, r.queued, r.total, r.id) for r in rows],
        )

    def refresh_best(self, removed: Iterable[tuple[int, int]]) -> None:
        """Recompute the best URL of hosts whose queue changed; `removed`: (host id, rows that left its queue)."""
        self._db.executemany(
            "UPDATE frontier_host SET best_tier = ?, best = ?, best_seq = ?, queued = queued - ? WHERE id = ?",
            [(*self._find_best(id_, count), count, id_) for id_, count in removed],
        )

    def sleep(self, id_: int, removed: int, wake_at: float) -> None:
        """Put a host to sleep after a visit; `removed` is the number of rows that left its queue."""
        parked = wake_at > self.sleeping.latest_time + MIN_PARK_S
        self._db.execute(
            "UPDATE frontier_host SET best_tier = ?, best = ?, best_seq = ?, queued = queued - ?, wake_at = ?,"
            " parked = ? WHERE id = ?",
            (*self._find_best(id_, removed), removed, wake_at, parked, id_),
        )
        if not parked:
            self.sleeping.push(wake_at, id_)

    def _find_best(self, id_: int, removed: int) -> tuple[int, float | None, int]:
        tier, best, seq = self._db.execute(_BEST_URL_SQL, (id_,)).fetchone() or (0, None, 0)
        row = self._rows.get(id_)
        if row is not None:
            row.best_tier, row.best, row.best_seq, row.queued = tier, best, seq, row.queued - removed
        return tier, best, seq

    def ready(
        self, now: float, limit: int, min_tier: int, names: Collection[str] | None = None
    ) -> list[tuple[int, str, float | None, int, float]]:
        """(id, name, delay, tier, sort key) of hosts that are awake, the one with the best URL first.

        `names`: only these hosts.
        """
        among = "" if names is None else f" AND name IN ({', '.join('?' * len(names))})"
        rows = self._db.execute(
            "SELECT id, name, delay_s, best_tier, best, best_seq, queued, total FROM frontier_host"
            f" WHERE {_ACTIVE_SQL} AND best_tier >= ? AND wake_at <= ?{among}"
            " ORDER BY best_tier DESC, best DESC, best_seq LIMIT ?",
            (min_tier, now, *(names or ()), limit),
        ).fetchall()
        # `complete` will look them up.
        for id_, name, _, *rest in rows:
            if id_ not in self._rows:
                self._cache(name, HostRow(id_, *rest))
        return [row[:5] for row in rows]

    def best_waiting(self, until: float, leased: Iterable[int]) -> float | None:
        """The highest sort key of a link at the leased hosts and those that wake until then."""
        bests = [self._best_link(id_) for id_ in (*self.sleeping.waking_until(until), *leased)]
        return max((best for best in bests if best is not None), default=None)

    def _best_link(self, id_: int) -> float | None:
        """The sort key of the best URL of a host, if that is a link."""
        row = self._rows.get(id_)
        if row is not None:
            return row.best if row.best_tier == Tier.LINK else None
        sql = "SELECT best FROM frontier_host WHERE id = ? AND best_tier = ?"
        found = self._db.execute(sql, (id_, Tier.LINK)).fetchone()
        return found[0] if found else None

    def best(self, limit: int) -> list[tuple[int, str, int, float, int]]:
        """(id, name, tier, best, seq) of the hosts with the best URLs; of the parked hosts, those that wake next."""
        columns = "SELECT id, name, best_tier, best, best_seq FROM frontier_host WHERE"
        order = f"{columns} {_ACTIVE_SQL} ORDER BY best_tier DESC, best DESC, best_seq LIMIT ?"
        parked = f"{columns} parked = 1 AND best IS NOT NULL ORDER BY wake_at LIMIT ?"
        found: list[tuple[int, str, int, float, int]] = self._db.execute(order, (limit,)).fetchall()
        return found + self._db.execute(parked, (max(limit, MIN_PARKED_HOSTS),)).fetchall()

    def in_tier(self, tier: int) -> list[tuple[int, float]]:
        """(id, wake time) of hosts, asleep or awake, with a URL in this tier or above: at most N in an N-best batch."""
        columns = "SELECT id, wake_at FROM frontier_host WHERE"
        active = f"{columns} {_ACTIVE_SQL} AND best_tier >= ?"
        found: list[tuple[int, float]] = self._db.execute(active, (tier,)).fetchall()
        parked = f"{columns} parked = 1 AND best IS NOT NULL AND best_tier >= ? ORDER BY wake_at LIMIT ?"
        return found + self._db.execute(parked, (tier, MIN_PARKED_HOSTS)).fetchall()

    def set_delay(self, host_id: int, delay_s: float) -> None:
        """Set the delay between requests to this host."""
        self._db.execute("UPDATE frontier_host SET delay_s = ? WHERE id = ?", (delay_s, host_id))

    def sleep_all(self, ids: Iterable[int], now: float, delay_s: float) -> None:
        """Put hosts to sleep as if each had just been fetched from."""
        self.sleeping.advance(now)
        self._db.executemany(
            "UPDATE frontier_host SET wake_at = ? + coalesce(delay_s, ?), parked = coalesce(delay_s, ?) > ?"
            " WHERE id = ?",
            [(now, delay_s, delay_s, MIN_PARK_S, id_) for id_ in ids],
        )
        self.reset()


class HeldLease(NamedTuple):
    """A leased host."""

    token: int
    expires_at: float
    keys: frozenset[int]


NO_KEYS: frozenset[int] = frozenset()


class LeaseTable:
    """Invariant: `by_host` equals the table. An expired lease stays until the host is leased again."""

    def __init__(self, connection: Database) -> None:
        self._db = connection
        self.by_host: dict[int, HeldLease] = {}

    def reload(self) -> None:
        """Read the table into memory."""
        rows = self._db.execute("SELECT host_id, token, expires_at, keys FROM frontier_lease")
        self.by_host = {id_: HeldLease(token, until, frozenset(unpack_keys(keys))) for id_, token, until, keys in rows}

    def leased_keys(self, host_id: int) -> frozenset[int]:
        """The keys of the URLs in flight at a host."""
        held = self.by_host.get(host_id)
        return NO_KEYS if held is None else held.keys

    def is_leased(self, host_id: int, now: float) -> bool:
        """Is the host leased and the lease not expired?"""
        held = self.by_host.get(host_id)
        return held is not None and held.expires_at > now

    def since(self, expiry: float) -> list[int]:
        """The hosts whose leases expire later than this."""
        return [id_ for id_, held in self.by_host.items() if held.expires_at > expiry]

    def grant(self, grants: Sequence[tuple[int, int, float, list[int]]]) -> None:
        """Write new leases: (host id, token, expiry, keys)."""
        self._db.executemany(
            "INSERT OR REPLACE INTO frontier_lease VALUES (?, ?, ?, ?)",
            [(id_, token, until, pack_keys(keys)) for id_, token, until, keys in grants],
        )
        for id_, token, until, keys in grants:
            self.by_host[id_] = HeldLease(token, until, frozenset(keys))

    def renew(self, host_id: int, until: float) -> None:
        """Extend the lease of a host."""
        self.by_host[host_id] = self.by_host[host_id]._replace(expires_at=until)
        self._db.execute("UPDATE frontier_lease SET expires_at = ? WHERE host_id = ?", (until, host_id))

    def release(self, host_id: int) -> None:
        """End the lease of a host."""
        del self.by_host[host_id]
        self._db.execute("DELETE FROM frontier_lease WHERE host_id = ?", (host_id,))

    def release_all(self) -> list[int]:
        """End all leases; returns the hosts that were leased."""
        hosts = list(self.by_host)
        self.by_host.clear()
        self._db.execute("DELETE FROM frontier_lease")
        return hosts

    @property
    def next_expiry(self) -> float | None:
        """When the first lease expires."""
        return min((held.expires_at for held in self.by_host.values()), default=None)


_COUNTERS = ("generation", "inserted", "queued", "leased", "done", "failed", "dropped", "hosts")
_SELECT_SQL = f"SELECT {', '.join(_COUNTERS)} FROM frontier_count"
_UPDATE_SQL = f"UPDATE frontier_count SET {', '.join(f'{n} = ?' for n in _COUNTERS)} WHERE id = 1"


class FrontierCounters(msgspec.Struct):
    """The number of URLs in each state."""

    connection: Database
    generation: int = -1
    inserted: int = 0
    queued: int = 0
    leased: int = 0
    done: int = 0
    failed: int = 0
    dropped: int = 0
    hosts: int = 0

    def reload(self) -> bool:
        """Read the counters from disk; True when they differ from our last change."""
        row = self.connection.execute(_SELECT_SQL).fetchone()
        if row[0] == self.generation:
            return False
        for name, value in zip(_COUNTERS, row, strict=True):
            setattr(self, name, value)
        return True

    def move_to_leased(self, count: int) -> None:
        """Count queued URLs as leased; negative: back to queued."""
        self.leased += count
        self.queued -= count

    def write(self) -> None:
        """Write the counters with a new generation."""
        self.generation += 1
        self.connection.execute(_UPDATE_SQL, [getattr(self, name) for name in _COUNTERS])
