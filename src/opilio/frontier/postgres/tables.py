"""Host and URL rows of the PostgreSQL frontier: one statement per batch, values as arrays.

Rule of locking: a transaction that writes URL rows of a host holds the lock of the host's row, and locks hosts in the
order of their names. So workers and trainer never wait for each other in a circle. `lease` skips locked hosts.
It executes statements only; transactions belong to the store.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from opilio.core.protocols import Database
from opilio.core.records import Tier
from opilio.frontier.link_batch import CachedUrl
from opilio.frontier.schema import pack_keys, unpack_keys
from opilio.frontier.sqlite.hosts import MIN_PARK_S
from opilio.frontier.sqlite.urls import row_to_cached

# Rows that one call of `lease` wakes or repositions; the next call continues.
MAX_DUE_ROWS = 2_000
# The best hosts among which a better link is looked for that waits for its host.
MAX_WAITING_HOSTS = 500
# The id of the counter row that numbers insertions. Other rows belong to connections.
INSERTED_ROW = 0

_COUNTERS = ("queued", "leased", "done", "failed", "dropped", "hosts")
_HOST_COLUMNS = "id, name, total, token, keys, expires_at"
_BEST_URL = """LEFT JOIN LATERAL (SELECT tier, priority, seq FROM frontier_url WHERE host_id = d.id AND state = 0
    ORDER BY tier DESC, priority DESC, seq LIMIT 1) AS b ON true"""
_SET_BEST = "best_tier = coalesce(b.tier, 0), best = b.priority, best_seq = coalesce(b.seq, 0)"


class LockedHost(NamedTuple):
    """A host whose row this transaction has locked."""

    id: int
    name: str
    total: int
    token: int
    keys: frozenset[int]  # URLs in flight
    leased: bool
    expires_at: float


class UrlChange(NamedTuple):
    """A new state of a URL whose visit ended."""

    host_id: int
    key: int
    state: int
    reason: str | None
    not_before: float | None = None
    tried: int = 0


class Grant(NamedTuple):
    """A lease to write."""

    host_id: int
    token: int
    expires_at: float
    keys: list[int]


class HostRows:
    """The host table."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def ids(self, names: Iterable[str]) -> dict[str, int]:
        """The ids of those hosts that are known, without a lock."""
        return dict(self._db.execute("SELECT name, id FROM frontier_host WHERE name = ANY(?)", (sorted(names),)))

    def insert(self, names: Sequence[str]) -> dict[str, int]:
        """Insert hosts seen for the first time; returns (name, id) of those that are new."""
        new = "INSERT INTO frontier_host (name) SELECT unnest(CAST(? AS text[]))"
        sql = f"{new} ON CONFLICT DO NOTHING RETURNING name, id"
        return dict(self._db.execute(sql, (sorted(names),)))

    def lock(self, names: Iterable[str]) -> dict[str, LockedHost]:
        """Lock hosts by name."""
        return self._lock("name = ANY(?)", sorted(set(names)))

    def lock_ids(self, ids: Iterable[int], *, skip: bool = False) -> dict[int, LockedHost]:
        """Lock hosts by id; `skip`: leave out those that another transaction holds."""
        found = self._lock("id = ANY(?)", sorted(set(ids)), " SKIP LOCKED" if skip else "")
        return {host.id: host for host in found.values()}

    def _lock(self, where: str, values: Sequence[object], how: str = "") -> dict[str, LockedHost]:
        if not values:
            return {}
        rows = self._db.execute(
            f'SELECT {_HOST_COLUMNS} FROM frontier_host WHERE {where} ORDER BY name COLLATE "C" FOR UPDATE{how}',
            (values,),
        )
        return {
            name: LockedHost(
                id_, name, total, token, frozenset(unpack_keys(keys or None)), keys is not None, expires_at
            )
            for id_, name, total, token, keys, expires_at in rows
        }

    def refresh(self, changes: Iterable[tuple[int, int, int]]) -> None:
        """Recompute the best URL of locked hosts: (id, rows that left the queue, URLs accepted)."""
        rows = list(changes)
        if rows:
            ids, removed, accepted = map(list, zip(*rows, strict=True))
            self._db.execute(
                f"UPDATE frontier_host AS h SET {_SET_BEST}, queued = h.queued - d.removed,"
                " total = h.total + d.accepted"
                " FROM unnest(CAST(? AS bigint[]), CAST(? AS bigint[]), CAST(? AS bigint[]))"
                f" AS d (id, removed, accepted) {_BEST_URL} WHERE h.id = d.id",
                (ids, removed, accepted),
            )

    def release(self, rows: Sequence[tuple[int, int, float, bool]]) -> None:
        """End leases: (id, rows that left the queue, when it wakes, whether it is parked)."""
        ids, removed, wake_at, parked = map(list, zip(*rows, strict=True))
        self._db.execute(
            f"UPDATE frontier_host AS h SET {_SET_BEST}, queued = h.queued - d.removed, wake_at = d.wake_at,"
            " parked = d.parked, keys = NULL, expires_at = 0"
            " FROM unnest(CAST(? AS bigint[]), CAST(? AS bigint[]), CAST(? AS double precision[]),"
            f" CAST(? AS smallint[])) AS d (id, removed, wake_at, parked) {_BEST_URL} WHERE h.id = d.id",
            (ids, removed, wake_at, list(map(int, parked))),
        )

    def unpark(self, now: float) -> None:
        """Wake hosts that are due, among them those whose lease has expired."""
        self._db.execute(
            "UPDATE frontier_host SET parked = 0 WHERE id IN (SELECT id FROM frontier_host WHERE parked = 1"
            " AND best IS NOT NULL AND wake_at <= ? ORDER BY wake_at LIMIT ? FOR UPDATE SKIP LOCKED)",
            (now, MAX_DUE_ROWS),
        )

    def best_waiting(self, now: float, until: float, expiry: float) -> float | None:
        """The highest sort key of a link at hosts that wake until then, or whose leases expire later than this."""
        columns = "SELECT best, wake_at FROM frontier_host WHERE parked = 0 AND best IS NOT NULL AND best_tier = ?"
        asleep = f"{columns} ORDER BY best_tier DESC, best DESC, best_seq LIMIT {MAX_WAITING_HOSTS}"
        (found,) = self._db.execute(
            f"SELECT greatest((SELECT max(best) FROM ({asleep}) AS first WHERE wake_at > ? AND wake_at <= ?),"
            " (SELECT max(best) FROM frontier_host WHERE keys IS NOT NULL AND expires_at > ? AND best_tier = ?))",
            (Tier.LINK, now, until, expiry, Tier.LINK),
        ).fetchone()
        return None if found is None else float(found)

    def ready(
        self, now: float, limit: int, min_tier: int, names: Sequence[str] | None = None
    ) -> list[tuple[int, str, float | None, int, bytes | None, int, float]]:
        """(id, name, delay, token, keys, tier, sort key) of hosts that may be fetched from, best first and locked."""
        among = "" if names is None else " AND name = ANY(?)"
        return self._db.execute(
            "SELECT id, name, delay_s, token, keys, best_tier, best FROM frontier_host"
            " WHERE parked = 0 AND best IS NOT NULL"
            f" AND best_tier >= ? AND wake_at <= ?{among}"
            " ORDER BY best_tier DESC, best DESC, best_seq LIMIT ? FOR UPDATE SKIP LOCKED",
            (min_tier, now, *(() if names is None else (list(names),)), limit),
        ).fetchall()

    def grant(self, grants: Sequence[Grant]) -> None:
        """Write leases of locked hosts, which are parked until the leases expire."""
        self._db.execute(
            "UPDATE frontier_host AS h SET token = d.token, expires_at = d.until, wake_at = d.until, parked = 1,"
            " keys = d.keys FROM unnest(CAST(? AS bigint[]), CAST(? AS bigint[]), CAST(? AS double precision[]),"
            " CAST(? AS bytea[])) AS d (id, token, until, keys) WHERE h.id = d.id",
            _columns((g.host_id, g.token, g.expires_at, pack_keys(g.keys)) for g in grants),
        )

    def renew(self, names: Sequence[str], tokens: Sequence[int], until: float) -> set[str]:
        """Extend leases, also expired ones if the host was not leased again; returns the hosts."""
        rows = self._db.execute(
            "UPDATE frontier_host AS h SET expires_at = ?, wake_at = ?, parked = 1 FROM"
            " unnest(CAST(? AS text[]), CAST(? AS bigint[])) AS d (name, token) WHERE h.name = d.name"
            " AND h.token = d.token AND h.keys IS NOT NULL RETURNING h.name",
            (until, until, list(names), list(tokens)),
        )
        return {name for (name,) in rows}

    def release_all(self, now: float, delay_s: float) -> None:
        """End all leases and put their hosts to sleep as if each had just been fetched from."""
        self._db.execute(
            "UPDATE frontier_host SET keys = NULL, expires_at = 0, token = token + 1,"
            " wake_at = ? + coalesce(delay_s, ?),"
            " parked = CASE WHEN coalesce(delay_s, ?) > ? THEN 1 ELSE 0 END WHERE keys IS NOT NULL",
            (now, delay_s, delay_s, MIN_PARK_S),
        )


class UrlRows:
    """The URL table. Writers hold the locks of the hosts."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def load(self, pairs: Sequence[tuple[int, int]]) -> dict[int, CachedUrl | None]:
        """Entries of those (host id, key) pairs that have a row; None: it is finished."""
        if not pairs:
            return {}
        ids, keys = map(list, zip(*pairs, strict=True))
        rows = self._db.execute(
            "SELECT u.host_id, u.key, u.state, u.seq, u.priority, u.score, u.depth, u.tunnel, u.parent, u.parents,"
            " u.timer, u.tier FROM unnest(CAST(? AS bigint[]), CAST(? AS bigint[])) AS k (h, k)"
            " JOIN frontier_url AS u ON u.host_id = k.h AND u.key = k.k",
            (ids, keys),
        )
        return {row[1]: row_to_cached(row) for row in rows}

    def insert(self, rows: Sequence[tuple[object, ...]]) -> None:
        """Insert new rows, in the order of columns of the SQLite frontier."""
        if rows:
            self._db.execute(
                "INSERT INTO frontier_url (host_id, key, state, seq, priority, score, depth, tunnel, parent, hops,"
                " retries, found, url, parents, features, reason, timer, agent, tier)"
                " SELECT * FROM unnest(CAST(? AS bigint[]), CAST(? AS bigint[]), CAST(? AS smallint[]),"
                " CAST(? AS bigint[]), CAST(? AS double precision[]), CAST(? AS double precision[]),"
                " CAST(? AS integer[]), CAST(? AS integer[]), CAST(? AS bigint[]), CAST(? AS integer[]),"
                " CAST(? AS integer[]), CAST(? AS integer[]), CAST(? AS text[]), CAST(? AS bytea[]),"
                " CAST(? AS bytea[]), CAST(? AS text[]), CAST(? AS double precision[]), CAST(? AS integer[]),"
                " CAST(? AS smallint[]))",
                _columns(rows),
            )

    def promote(self, rows: Sequence[tuple[object, ...]]) -> None:
        """A better link: score, position, depth, tunnel, parent, pending, features, agent, host id, key."""
        self._db.executemany(
            "UPDATE frontier_url SET score = ?, priority = ?, timer = ?, tier = ?, depth = ?, tunnel = ?, parent = ?,"
            " found = found + ?, parents = coalesce(?, parents), features = coalesce(?, features),"
            " agent = coalesce(?, agent) WHERE host_id = ? AND key = ? AND state < 2",
            rows,
        )

    def write_found(self, rows: Sequence[tuple[int, bytes | None, int, int]]) -> None:
        """Further links to queued URLs: number, parents, host id, key."""
        if rows:
            self._db.execute(
                "UPDATE frontier_url AS u SET found = u.found + d.found, parents = coalesce(d.parents, u.parents)"
                " FROM unnest(CAST(? AS integer[]), CAST(? AS bytea[]), CAST(? AS bigint[]), CAST(? AS bigint[]))"
                " AS d (found, parents, h, k) WHERE u.host_id = d.h AND u.key = d.k",
                _columns(rows),
            )

    def change(self, changes: Sequence[UrlChange]) -> None:
        """Write the states of visited URLs."""
        if changes:
            self._db.execute(
                "UPDATE frontier_url AS u SET state = d.state, reason = d.reason, not_before = d.not_before,"
                " retries = u.retries + d.tried FROM unnest(CAST(? AS bigint[]), CAST(? AS bigint[]),"
                " CAST(? AS smallint[]), CAST(? AS text[]), CAST(? AS double precision[]), CAST(? AS integer[]))"
                " AS d (h, k, state, reason, not_before, tried) WHERE u.host_id = d.h AND u.key = d.k",
                _columns(changes),
            )

    def reposition(self, rows: Sequence[tuple[float, float, float | None, int, int, int]]) -> None:
        """Set new positions: score, priority, timer, tier, host id, key."""
        self._db.execute(
            "UPDATE frontier_url AS u SET score = d.score, priority = d.priority, timer = d.timer, tier = d.tier"
            " FROM unnest(CAST(? AS double precision[]), CAST(? AS double precision[]),"
            " CAST(? AS double precision[]), CAST(? AS smallint[]), CAST(? AS bigint[]), CAST(? AS bigint[]))"
            " AS d (score, priority, timer, tier, h, k) WHERE u.host_id = d.h AND u.key = d.k AND u.state < 2",
            _columns(rows),
        )

    def due_retries(self, now: float) -> list[tuple[int, int]]:
        """(host id, key) of retries that are due."""
        sql = "SELECT host_id, key FROM frontier_url WHERE state = 1 AND not_before <= ? ORDER BY not_before LIMIT ?"
        return self._db.execute(sql, (now, MAX_DUE_ROWS)).fetchall()

    def wake(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Queue retries that are due."""
        self._db.executemany(
            "UPDATE frontier_url SET state = 0, not_before = NULL WHERE host_id = ? AND key = ? AND state = 1", pairs
        )

    def revive(self, pairs: Sequence[tuple[int, int]], priority: float, tier: int) -> list[tuple[int, int, int]]:
        """Queue done, failed and queued rows in a tier; returns (host id, key, former state)."""
        ids, keys = map(list, zip(*pairs, strict=True))
        return self._db.execute(
            "WITH was AS (SELECT u.host_id, u.key, u.state FROM frontier_url AS u JOIN"
            " (SELECT DISTINCT h, k FROM unnest(CAST(? AS bigint[]), CAST(? AS bigint[])) AS p (h, k)) AS d"
            " ON u.host_id = d.h AND u.key = d.k WHERE u.state IN (0, 2, 3))"
            " UPDATE frontier_url AS u SET state = 0, reason = NULL, retries = 0, timer = NULL, priority = ?, tier = ?"
            " FROM was WHERE u.host_id = was.host_id AND u.key = was.key RETURNING u.host_id, u.key, was.state",
            (ids, keys, priority, tier),
        ).fetchall()


class FrontierCounts:
    """Counters: changes go to the row of this connection, so that no other transaction waits for them."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, **changes: int) -> None:
        """Change counters."""
        names = [name for name, change in changes.items() if change]
        if names:
            columns = ", ".join(names)
            sets = ", ".join(f"{name} = frontier_count.{name} + excluded.{name}" for name in names)
            self._db.execute(
                f"INSERT INTO frontier_count (id, {columns}) VALUES (pg_backend_pid(), {', '.join('?' * len(names))})"
                f" ON CONFLICT (id) DO UPDATE SET {sets}",
                [changes[name] for name in names],
            )

    def read(self) -> dict[str, int]:
        """All counters."""
        sums = ", ".join(f"coalesce(sum({name}), 0)" for name in _COUNTERS)
        return dict(zip(_COUNTERS, self._db.execute(f"SELECT {sums} FROM frontier_count").fetchone(), strict=True))

    def inserted(self, *, lock: bool = False) -> int:
        """How many URLs were ever inserted; `lock`: until the end of the transaction no other inserts."""
        how = " FOR UPDATE" if lock else ""
        sql = f"SELECT inserted FROM frontier_count WHERE id = {INSERTED_ROW}{how}"
        return int(self._db.execute(sql).fetchone()[0])

    def set_inserted(self, inserted: int) -> None:
        self._db.execute(f"UPDATE frontier_count SET inserted = ? WHERE id = {INSERTED_ROW}", (inserted,))


def _columns(rows: Iterable[Sequence[object]]) -> list[list[object]]:
    """Rows as one list for each column, which become arrays."""
    return [list(column) for column in zip(*rows, strict=True)]
