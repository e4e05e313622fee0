"""Host rows of the SQLite frontier: leasing, waking, and a bounded cache of what `add` needs of them.

It executes statements only; transactions belong to the store.
"""

import sqlite3
from collections.abc import Iterable

from opilio.frontier.schema import pack, unpack


class HostRow:
    """What `add` must know of a host. Written through: the row on disk says the same."""

    __slots__ = ("best", "best_seq", "id", "queued", "total")

    def __init__(self, id_: int, best: float | None, best_seq: int, queued: int, total: int) -> None:
        self.id = id_
        self.best = best
        self.best_seq = best_seq
        self.queued = queued
        self.total = total

    def offer(self, priority: float, seq: int) -> None:
        """A URL came into the queue, or rose."""
        if self.best is None or priority > self.best or (priority == self.best and seq < self.best_seq):
            self.best = priority
            self.best_seq = seq


_TOP = "SELECT priority, seq FROM frontier_url WHERE host_id = ? AND state = 0 ORDER BY priority DESC, seq LIMIT 1"

_CHOSEN = "FROM frontier_host WHERE best >= 524288.0"  # as its index says
SLEEPERS = 10_000  # sleeping hosts that `best` looks at, at least


class Hosts:
    """The host table. `leased` mirrors which keys are handed out at which host id."""

    def __init__(self, connection: sqlite3.Connection, cached: int = 200_000) -> None:
        self._db = connection
        self._cached = cached
        self._ids: dict[str, int] = {}
        self._rows: dict[int, HostRow] = {}
        self.leased: dict[int, frozenset[int]] = {}

    def reset(self) -> None:
        """Forget the cache and read who is leased."""
        self.shrink(0)
        rows = self._db.execute("SELECT id, leased FROM frontier_host WHERE leased IS NOT NULL")
        self.leased = {id_: frozenset(unpack(blob)) for id_, blob in rows}

    def shrink(self, limit: int | None = None) -> None:
        """Keep the cache bounded; called between operations, when nobody holds a row."""
        if len(self._rows) > (self._cached if limit is None else limit):
            self._rows.clear()
            self._ids.clear()

    def find(self, name: str) -> HostRow | None:
        """The host of that name, if there is one."""
        id_ = self._ids.get(name)
        if id_ is not None:
            return self._rows[id_]
        row = self._db.execute(
            "SELECT id, best, best_seq, queued, total FROM frontier_host WHERE name = ?", (name,)
        ).fetchone()
        return None if row is None else self._keep(name, HostRow(*row))

    def make(self, name: str) -> HostRow:
        """A host seen for the first time."""
        cursor = self._db.execute("INSERT INTO frontier_host (name) VALUES (?)", (name,))
        assert cursor.lastrowid is not None
        return self._keep(name, HostRow(cursor.lastrowid, None, 0, 0, 0))

    def _keep(self, name: str, row: HostRow) -> HostRow:
        self._ids[name] = row.id
        self._rows[row.id] = row
        return row

    def save(self, rows: Iterable[HostRow], now: float) -> None:
        """Write rows that `add` changed; a host whose time has come is ready at once."""
        self._db.executemany(
            "UPDATE frontier_host SET best = ?, best_seq = ?, queued = ?, total = ?,"
            " ready = (? IS NOT NULL AND (ready OR wake_at <= ?)) WHERE id = ?",
            [(r.best, r.best_seq, r.queued, r.total, r.best, now, r.id) for r in rows],
        )

    def refresh(self, removed: Iterable[tuple[int, int]]) -> None:
        """Find the best URL again at hosts whose queue changed, so many rows having left it."""
        changes = []
        for id_, count in removed:
            best, seq = self._db.execute(_TOP, (id_,)).fetchone() or (None, 0)
            row = self._rows.get(id_)
            if row is not None:
                row.best, row.best_seq, row.queued = best, seq, row.queued - count
            changes.append((best, seq, count, best, id_))
        self._db.executemany(
            "UPDATE frontier_host SET best = ?, best_seq = ?, queued = queued - ?,"
            " ready = (? IS NOT NULL AND ready) WHERE id = ?",
            changes,
        )

    def wake(self, now: float) -> None:
        """Hosts whose time has come become ready: each once per sleep, found by index."""
        self._db.execute(
            "UPDATE frontier_host SET ready = 1 WHERE ready = 0 AND best IS NOT NULL AND wake_at <= ?", (now,)
        )

    def ready(self, limit: int, floor: float) -> list[tuple[int, str, int, float | None]]:
        """(id, name, token, delay) of hosts that may be asked, the one with the best URL first."""
        return self._db.execute(
            "SELECT id, name, token, delay_s FROM frontier_host WHERE ready = 1 AND best >= ?"
            " ORDER BY best DESC, best_seq LIMIT ?",
            (floor, limit),
        ).fetchall()

    def best(self, limit: int) -> list[tuple[int, str, float, int]]:
        """(id, name, best, seq) of the hosts with the best URLs: of all that are ready, and of those that wake next.

        There is no order of sleeping hosts by their best URL: keeping one would cost every visit two page writes.
        """
        columns = "SELECT id, name, best, best_seq FROM frontier_host WHERE"
        awake = f"{columns} ready = 1 ORDER BY best DESC, best_seq LIMIT ?"
        asleep = f"{columns} ready = 0 AND best IS NOT NULL ORDER BY wake_at LIMIT ?"
        return (
            self._db.execute(awake, (limit,)).fetchall() + self._db.execute(asleep, (max(limit, SLEEPERS),)).fetchall()
        )

    def first_wake(self) -> float | None:
        """When the next host may be asked; 0 when one may be asked now."""
        if self._db.execute("SELECT 1 FROM frontier_host WHERE ready = 1 LIMIT 1").fetchone():
            return 0.0
        return self._time("SELECT min(wake_at) FROM frontier_host WHERE ready = 0 AND best IS NOT NULL")

    def chosen(self) -> bool:
        """Has any host, asleep or awake, a URL of the N-best batch?"""
        return self._db.execute(f"SELECT 1 {_CHOSEN} LIMIT 1").fetchone() is not None

    def first_chosen_wake(self) -> float | None:
        """When the next host with a URL of the N-best batch may be asked (there are at most N of them)."""
        return self._time(f"SELECT min(wake_at * (ready = 0)) {_CHOSEN}")

    def _time(self, sql: str) -> float | None:
        found = self._db.execute(sql).fetchone()[0]
        return None if found is None else float(found)

    def renew(self, name: str, token: int, now: float, until: float) -> bool:
        """Hold a host longer, if the lease has not lapsed."""
        return (
            self._db.execute(
                "UPDATE frontier_host SET wake_at = ?, ready = 0"
                " WHERE name = ? AND token = ? AND leased IS NOT NULL AND wake_at > ?",
                (until, name, token, now),
            ).rowcount
            > 0
        )

    def set_delay(self, host_id: int, delay_s: float) -> None:
        """The pause this host wants between requests."""
        self._db.execute("UPDATE frontier_host SET delay_s = ? WHERE id = ?", (delay_s, host_id))

    def lend(self, id_: int, token: int, keys: list[int], until: float) -> None:
        """Hand a host and some of its URLs out."""
        self._db.execute(
            "UPDATE frontier_host SET ready = 0, wake_at = ?, token = ?, leased = ? WHERE id = ?",
            (until, token, pack(keys), id_),
        )
        self.leased[id_] = frozenset(keys)

    def held(self, name: str, token: int) -> int | None:
        """The id of a host if that token still holds it."""
        row = self._db.execute(
            "SELECT id FROM frontier_host WHERE name = ? AND token = ? AND leased IS NOT NULL", (name, token)
        ).fetchone()
        return None if row is None else row[0]

    def give_back(self, id_: int, removed: int, wake_at: float) -> None:
        """The lease ends; so many of its URLs are settled or wait."""
        best, seq = self._db.execute(_TOP, (id_,)).fetchone() or (None, 0)
        row = self._rows.get(id_)
        if row is not None:
            row.best, row.best_seq, row.queued = best, seq, row.queued - removed
        self._db.execute(
            "UPDATE frontier_host SET best = ?, best_seq = ?, queued = queued - ?, ready = 0, wake_at = ?,"
            " leased = NULL WHERE id = ?",
            (best, seq, removed, wake_at, id_),
        )
        self.leased.pop(id_, None)

    def recover(self, now: float, delay_s: float) -> None:
        """End every lease as if a request had left just now; late holders are fenced."""
        self._db.execute(
            "UPDATE frontier_host SET ready = 0, wake_at = ? + coalesce(delay_s, ?), token = token + 1, leased = NULL"
            " WHERE leased IS NOT NULL",
            (now, delay_s),
        )
        self.leased.clear()
