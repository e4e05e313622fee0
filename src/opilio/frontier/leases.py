"""Who holds which host: a small table on disk and its mirror in memory. It executes statements only."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from opilio.frontier.schema import pack, unpack


class Held(NamedTuple):
    """A host that is handed out."""

    token: int
    expires_at: float
    keys: frozenset[int]


NOBODY: frozenset[int] = frozenset()


class Leases:
    """Invariant: `by_host` is what the table says. A lapsed lease stays until the host is leased again."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self.by_host: dict[int, Held] = {}

    def reset(self) -> None:
        """Read the table."""
        rows = self._db.execute("SELECT host_id, token, expires_at, keys FROM frontier_lease")
        self.by_host = {id_: Held(token, until, frozenset(unpack(keys))) for id_, token, until, keys in rows}

    def keys(self, host_id: int) -> frozenset[int]:
        """What is in flight at a host."""
        held = self.by_host.get(host_id)
        return NOBODY if held is None else held.keys

    def busy(self, host_id: int, now: float) -> bool:
        """Is the host somebody's?"""
        held = self.by_host.get(host_id)
        return held is not None and held.expires_at > now

    def lend(self, grants: Sequence[tuple[int, int, float, list[int]]]) -> None:
        """(host id, token, until, keys): hand them out."""
        self._db.executemany(
            "INSERT OR REPLACE INTO frontier_lease VALUES (?, ?, ?, ?)",
            [(id_, token, until, pack(keys)) for id_, token, until, keys in grants],
        )
        for id_, token, until, keys in grants:
            self.by_host[id_] = Held(token, until, frozenset(keys))

    def renew(self, host_id: int, until: float) -> None:
        """Hold a host longer."""
        self.by_host[host_id] = self.by_host[host_id]._replace(expires_at=until)
        self._db.execute("UPDATE frontier_lease SET expires_at = ? WHERE host_id = ?", (until, host_id))

    def end(self, host_id: int) -> None:
        """The host is free."""
        del self.by_host[host_id]
        self._db.execute("DELETE FROM frontier_lease WHERE host_id = ?", (host_id,))

    def end_all(self) -> list[int]:
        """Every host is free; which were not."""
        hosts = list(self.by_host)
        self.by_host.clear()
        self._db.execute("DELETE FROM frontier_lease")
        return hosts

    @property
    def first_lapse(self) -> float | None:
        """When the first lease runs out."""
        return min((held.expires_at for held in self.by_host.values()), default=None)
