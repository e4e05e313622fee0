"""Workers of one crawl in PostgreSQL: their connection, roles that one process holds, results they hand to the trainer.

A role is a lease: its holder renews it, any process takes it over when it has expired, and the token fences a holder
that was too slow. The trainer's role gives the right to write everything but leases and results of visits. All times
are those of the database.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain, repeat
from typing import NamedTuple, TypeVar

import msgspec

from opilio.core.clock import SystemClock, elapsed_s
from opilio.core.errors import CollectionError
from opilio.core.protocols import Database, Rows, Values
from opilio.core.settings import StopSettings
from opilio.store.postgres.connection import (
    ConnectionLostError,
    PostgresConnection,
    RetryTransactionError,
    postgres_transaction,
)
from opilio.store.writer import CrawlCounts

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
    # Time that the database took for a lease, of the last ones.
    lease_p50_s: float = 0.0
    lease_p99_s: float = 0.0
    # Leases lost to another worker, or expired before the commit.
    expired_leases: int = 0
    fetches: int = 0
    # Fetches whose results were lost with the lease: they are fetched again.
    refetches: int = 0
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


# Versions of each model: a worker may be reading the one before the last.
KEPT_MODELS = 3
_PROGRESS = """SELECT (SELECT value FROM meta WHERE name = 'counts'),
    (SELECT value FROM meta WHERE name = 'state'), (SELECT value FROM meta WHERE name = 'paused'),
    (SELECT value FROM meta WHERE name = 'stop_reason'),
    (SELECT coalesce(sum(fetches), 0) FROM (SELECT fetches FROM outcome LIMIT 10000) AS waiting),
    (SELECT coalesce(sum(leased), 0) FROM frontier_count)"""


class SharedProgress(NamedTuple):
    """How far a crawl is: what the trainer has counted, what waits for it, and what is in flight."""

    counts: CrawlCounts
    state: str
    paused: bool
    stop_reason: str
    backlog: int
    leased: int

    def remaining(self, stop: StopSettings) -> int:
        """How many more URLs may be leased without passing a limit; each may turn out to be a relevant page."""
        limits = (
            (stop.pages, self.counts.pages),
            (stop.fetches, self.counts.fetched),
            (stop.relevant, self.counts.relevant),
        )
        left = min((limit - count for limit, count in limits if limit), default=1 << 30)
        return max(0, left - self.backlog - self.leased)


def crawl_progress(db: Database) -> SharedProgress:
    """The progress, in one statement."""
    counts, state, paused, reason, backlog, leased = db.execute(_PROGRESS).fetchone()
    stored = msgspec.json.decode(counts, type=CrawlCounts) if counts else CrawlCounts()
    return SharedProgress(stored, state or "", bool(paused), reason or "", backlog, int(leased))


def add_outcomes(db: Database, worker: str, outcomes: Sequence[tuple[int, bytes]]) -> None:
    """Hand results of leases to the trainer: how many fetches each has, and the result."""
    if outcomes:
        sql = """INSERT INTO outcome (worker, fetches, data)
            SELECT ?, * FROM unnest(CAST(? AS integer[]), CAST(? AS bytea[]))"""
        db.execute(sql, (worker, [fetches for fetches, _ in outcomes], [data for _, data in outcomes]))


def next_outcomes(db: Database, limit: int) -> list[tuple[int, bytes]]:
    """The oldest results with their numbers."""
    rows = db.execute("SELECT id, data FROM outcome ORDER BY id LIMIT ?", (limit,))
    return [(id_, bytes(data)) for id_, data in rows]


def take_outcomes(db: Database, numbers: Sequence[int]) -> set[int]:
    """Remove results that are being applied; returns those that no other trainer has removed."""
    return {number for (number,) in db.execute("DELETE FROM outcome WHERE id = ANY(?) RETURNING id", (list(numbers),))}


def publish_models(db: Database, states: Mapping[str, bytes]) -> None:
    """Store new versions of models. A version never changes."""
    for name, state in states.items():
        db.execute("INSERT INTO model (name, state) VALUES (?, ?)", (name, state))
        db.execute(
            "DELETE FROM model WHERE name = ? AND version NOT IN"
            " (SELECT version FROM model WHERE name = ? ORDER BY version DESC LIMIT ?)",
            (name, name, KEPT_MODELS),
        )


def newer_models(db: Database, version: int) -> list[tuple[int, str, bytes]]:
    """(version, name, state) of models that are newer than a version, the newest of each name."""
    rows = db.execute(
        "SELECT version, name, state FROM model WHERE version IN"
        " (SELECT max(version) FROM model WHERE version > ? GROUP BY name) ORDER BY version",
        (version,),
    )
    return [(number, name, bytes(state)) for number, name, state in rows]


def reserve_address(db: Database, address: str, now: float, delay_s: float) -> float:
    """The time at which a request to an address may start; the next may start a pause later."""
    row = db.execute(
        "INSERT INTO address VALUES (:name, :now + :delay) ON CONFLICT (name) DO UPDATE"
        " SET free_at = greatest(address.free_at, :now) + :delay RETURNING free_at - :delay",
        {"name": address, "now": now, "delay": delay_s},
    ).fetchone()
    return float(row[0])


RECONNECT_S = (0.2, 0.5, 1.0, 2.0, 5.0)
T = TypeVar("T")


class DatabaseClock(SystemClock):
    """The time of the database's clock, never ahead of it, independent of this machine's date.

    `uncertainty_s` is how far it may be behind: it is added to times that other workers wait for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.uncertainty_s = float("inf")

    def synchronize(self, db: PostgresConnection) -> None:
        """Read the database's clock; the fastest of three responses counts."""
        best = float("inf")
        for _ in range(3):
            sent = elapsed_s()
            stamp = database_time(db)
            received = elapsed_s()
            if received - sent < best:
                best, self._offset_s = received - sent, stamp - received
        self.uncertainty_s = best


class SharedConnection:
    """A connection that reconnects when the server was gone, and retries transactions."""

    def __init__(self, dsn: str, clock: DatabaseClock, on_wait: Callable[[str], None]) -> None:
        self._dsn = dsn
        self._clock = clock
        self._on_wait = on_wait
        self.db = PostgresConnection(dsn)
        clock.synchronize(self.db)

    def run(self, work: Callable[[PostgresConnection], T]) -> T:
        """Run a function in one transaction. It may run several times, so it must not keep state."""
        while True:
            try:
                with postgres_transaction(self.db):
                    return work(self.db)
            except RetryTransactionError:
                continue
            except ConnectionLostError as error:
                self._reconnect(error)

    def close(self) -> None:
        self.db.close()

    def _reconnect(self, error: CollectionError) -> None:
        """Wait for the server: what is in memory is kept until it is back."""
        self.db.close()
        self._on_wait(f"{error}; waiting for the server")
        for wait_s in chain(RECONNECT_S, repeat(RECONNECT_S[-1])):
            time.sleep(wait_s)
            try:
                self.db = PostgresConnection(self._dsn)
                self._clock.synchronize(self.db)
            except ConnectionLostError:
                continue
            return


class SharedReader:
    """See `Database`: each statement is a transaction of the shared connection, so that it outlives the server."""

    in_transaction = False

    def __init__(self, shared: SharedConnection) -> None:
        self._shared = shared

    def execute(self, sql: str, values: Values = (), /) -> Rows:
        return self._shared.run(lambda db: db.execute(sql, values))

    def executemany(self, sql: str, values: Iterable[Values], /) -> Rows:
        rows = list(values)
        return self._shared.run(lambda db: db.executemany(sql, rows))

    def close(self) -> None:
        """The connection belongs to the worker."""
