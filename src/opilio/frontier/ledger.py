"""The counters of the SQLite frontier, kept in one row so that nobody ever counts rows.

The row also carries a generation. When the one in memory and the one on disk differ, a transaction was rolled
back (or somebody else wrote), and what is remembered in memory must be forgotten.
"""

import sqlite3

import msgspec

_NAMES = ("generation", "inserted", "queued", "leased", "done", "failed", "dropped", "hosts")
_READ = f"SELECT {', '.join(_NAMES)} FROM frontier_count"
_WRITE = f"UPDATE frontier_count SET {', '.join(f'{n} = ?' for n in _NAMES)} WHERE id = 1"


class Ledger(msgspec.Struct):
    """How many URLs are in which state."""

    connection: sqlite3.Connection
    generation: int = -1
    inserted: int = 0
    queued: int = 0
    leased: int = 0
    done: int = 0
    failed: int = 0
    dropped: int = 0
    hosts: int = 0

    def read(self) -> bool:
        """Take the counters from disk; True when they are not those of our last change."""
        row = self.connection.execute(_READ).fetchone()
        if row[0] == self.generation:
            return False
        for name, value in zip(_NAMES, row, strict=True):
            setattr(self, name, value)
        return True

    def lease(self, count: int) -> None:
        """So many queued URLs are handed out; negative: given back."""
        self.leased += count
        self.queued -= count

    def write(self) -> None:
        """Record a change."""
        self.generation += 1
        self.connection.execute(_WRITE, [getattr(self, name) for name in _NAMES])
