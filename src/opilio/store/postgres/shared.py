"""The connection of a worker, which outlives the server, and the database's clock."""

import time
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import TypeVar

from opilio.core.clock import SystemClock, elapsed_s
from opilio.core.errors import CollectionError
from opilio.core.protocols import Rows, Values
from opilio.store.postgres.connection import (
    ConnectionLostError,
    PostgresConnection,
    RetryTransactionError,
    postgres_transaction,
)
from opilio.store.postgres.roles import database_time

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
