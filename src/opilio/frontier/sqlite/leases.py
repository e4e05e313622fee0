"""Host leases (a small table with a mirror in memory) and the counters of the SQLite frontier.

Counters are kept in one row, so that rows are never counted. The row also has a generation number: when it differs
from the one in memory, a transaction was rolled back or another process wrote, and all caches must be dropped.

Executes statements only; transactions belong to the store.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from opilio.core.protocols import Database
from opilio.frontier.schema import pack_keys, unpack_keys


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
