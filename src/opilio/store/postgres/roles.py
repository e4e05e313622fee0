"""Roles that one process at a time holds, and the list of workers. All times are those of the database's clock.

A role is a lease: its holder renews it, any process takes it over when it has expired, and the token fences a holder
that was too slow. The trainer's role gives the right to write everything but leases and results of visits.
"""

import time
from contextlib import closing, suppress

import msgspec

from opilio.core.errors import CollectionError
from opilio.core.protocols import Database
from opilio.store.postgres.connection import ConnectionLostError, PostgresConnection

TRAINER = "trainer"
ROLE_TTL_S = 15.0
# A worker that was not seen for this long is gone.
WORKER_TIMEOUT_S = 15.0
NOW = "extract(epoch FROM clock_timestamp())"
_ACQUIRE = f"""INSERT INTO role VALUES (:name, :holder, 1, {NOW} + :ttl) ON CONFLICT (name) DO UPDATE
    SET holder = excluded.holder, token = role.token + 1, expires_at = excluded.expires_at
    WHERE role.expires_at <= {NOW} RETURNING token"""


class RoleLostError(CollectionError):
    """Another process has taken the role over."""


class Role:
    """One role of a collection. It has no connection of its own: each call opens one, or uses the one it is given."""

    def __init__(self, dsn: str, name: str, holder: str, ttl_s: float = ROLE_TTL_S) -> None:
        self._dsn = dsn
        self._name = name
        self._holder = holder
        self._ttl_s = ttl_s
        self._token = 0

    def acquire(self, db: Database | None = None) -> bool:
        """Take the role if it is free."""
        if db is None:
            with closing(PostgresConnection(self._dsn)) as connection:
                return self.acquire(connection)
        values = {"name": self._name, "holder": self._holder, "ttl": self._ttl_s}
        row = db.execute(_ACQUIRE, values).fetchone()
        self._token = 0 if row is None else int(row[0])
        return row is not None

    def check(self, db: Database) -> None:
        """Raise RoleLostError if another process has taken the role; in a transaction, so that none does until its end.

        A role that has expired and was not taken is still held: a slow `verify` need not start again.
        """
        sql = "SELECT 1 FROM role WHERE name = ? AND token = ? FOR SHARE"
        if db.execute(sql, (self._name, self._token)).fetchone() is None:
            raise RoleLostError(f"the role '{self._name}' was taken over by another process")

    def renew(self, db: Database) -> None:
        """Hold the role longer."""
        sql = f"UPDATE role SET expires_at = {NOW} + ? WHERE name = ? AND token = ? AND expires_at > {NOW}"
        if db.execute(sql, (self._ttl_s, self._name, self._token)).rowcount != 1:
            raise RoleLostError(f"the role '{self._name}' was taken over by another process")

    def release(self) -> None:
        """Let another process take the role at once; where the server is gone, it expires."""
        with suppress(ConnectionLostError), closing(PostgresConnection(self._dsn)) as connection:
            sql = "UPDATE role SET expires_at = 0 WHERE name = ? AND token = ?"
            connection.execute(sql, (self._name, self._token))

    def holder(self, db: Database) -> str:
        """Who holds the role; empty where it is free."""
        row = db.execute(f"SELECT holder FROM role WHERE name = ? AND expires_at > {NOW}", (self._name,)).fetchone()
        return str(row[0]) if row else ""


class WorkerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker reports about itself, since it was started."""

    leases: int = 0  # host leases taken
    lease_p50_s: float = 0.0  # time that the database took for a lease, of the last ones
    lease_p99_s: float = 0.0
    expired_leases: int = 0  # leases lost to another worker, or expired before the commit
    fetches: int = 0
    refetches: int = 0  # fetches whose results were lost with the lease: they are fetched again
    model_version: int = 0

    @property
    def refetch_ratio(self) -> float:
        return self.refetches / self.fetches if self.fetches else 0.0


def report_worker(db: Database, name: str, figures: WorkerFigures) -> None:
    """Store that a worker is alive, with its figures."""
    db.execute(
        f"INSERT INTO worker VALUES (?, {NOW}, {NOW}, ?) ON CONFLICT (name) DO UPDATE"
        " SET seen_at = excluded.seen_at, figures = excluded.figures",
        (name, msgspec.json.encode(figures)),
    )


def lock_workers(db: Database) -> None:
    """Until the end of the transaction no other worker starts or leaves."""
    db.execute("LOCK TABLE worker IN EXCLUSIVE MODE")


def remove_worker(db: Database, name: str) -> None:
    """The worker leaves."""
    db.execute("DELETE FROM worker WHERE name = ?", (name,))


def live_workers(db: Database, within_s: float) -> set[str]:
    """The names of the workers that were seen lately."""
    return {name for (name,) in db.execute(f"SELECT name FROM worker WHERE seen_at > {NOW} - ?", (within_s,))}


def worker_figures(dsn: str, within_s: float) -> dict[str, WorkerFigures]:
    """The figures of the workers that were seen lately, by name."""
    with closing(PostgresConnection(dsn)) as db:
        sql = f"SELECT name, figures FROM worker WHERE seen_at > {NOW} - ? ORDER BY name"
        rows = db.execute(sql, (within_s,)).fetchall()
    # A worker of an earlier version reports no figures.
    return {name: msgspec.json.decode(bytes(data) or b"{}", type=WorkerFigures) for name, data in rows}


def database_facts(dsn: str) -> dict[str, str | int]:
    """What a check of a database shows: versions, how quickly it answers, how its clock differs, who works on it."""
    with closing(PostgresConnection(dsn)) as db:
        facts: dict[str, str | int] = {
            "server": str(db.execute("SHOW server_version").fetchone()[0]),
            "may_create": "yes" if _may_create(db) else "no: grant CREATE on the schema",
        }
        sent = time.time()
        stamp = database_time(db)
        received = time.time()
        facts["answers_in"] = f"{(received - sent) * 1000:.1f} ms"
        facts["clock"] = f"{stamp - (sent + received) / 2:+.3f} s from this machine's, which does not matter"
        if db.execute("SELECT to_regclass('opilio_schema')").fetchone()[0] is None:
            return {**facts, "collection": "none"}
        facts["schema"] = int(db.execute("SELECT version FROM opilio_schema").fetchone()[0])
        facts["workers"] = ", ".join(sorted(live_workers(db, WORKER_TIMEOUT_S))) or "none"
        facts["waiting_results"] = int(db.execute("SELECT count(*) FROM outcome").fetchone()[0])
        return facts


def _may_create(db: Database) -> bool:
    return bool(db.execute("SELECT has_schema_privilege(current_schema(), 'CREATE')").fetchone()[0])


def database_time(db: Database) -> float:
    """The time of the database's clock."""
    return float(db.execute(f"SELECT {NOW}").fetchone()[0])
