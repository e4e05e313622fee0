"""Moves WARC records from the database to object storage, in a thread beside the trainer.

While the storage can't be reached, records stay in the database and the crawl continues, until more than
`MAX_WAITING_BYTES` wait: then the trainer takes no more results, so that workers soon lease nothing.
"""

import asyncio
from collections.abc import Callable

from opilio.core.clock import Clock
from opilio.core.events import ObjectStorageChanged
from opilio.store.postgres.chunks import OBJECT_BYTES, ChunkMover, waiting_bytes
from opilio.store.postgres.connection import ConnectionLostError, PostgresConnection, RetryTransactionError
from opilio.store.postgres.objects import ObjectsUnavailableError
from opilio.store.postgres.roles import RoleLostError

MAX_WAITING_BYTES = 512 << 20
POLL_S = 1.0
RETRY_S = 5.0


class ObjectArchive:
    """Starts a move when enough waits, one at a time. `report` gets one event when the storage goes or returns."""

    def __init__(
        self,
        mover: ChunkMover,
        clock: Clock,
        report: Callable[[ObjectStorageChanged], None],
        max_waiting_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        self._mover = mover
        self._clock = clock
        self._report = report
        self._max_waiting_bytes = max_waiting_bytes
        self._waiting_bytes = 0
        self._available = True
        self._next_at = 0.0
        self._move: asyncio.Task[int] | None = None

    @property
    def full(self) -> bool:
        """Does so much wait that no more results may be taken?"""
        return self._waiting_bytes > self._max_waiting_bytes

    def poll(self, db: PostgresConnection, least_bytes: int = OBJECT_BYTES) -> None:
        """Take the result of a move, and start the next one if enough waits. Never waits itself."""
        if self._move is not None and self._move.done():
            self._finish_move(self._move)
        now = self._clock.now()
        if self._move is None and now >= self._next_at:
            self._next_at = now + POLL_S
            self._waiting_bytes = waiting_bytes(db)
            if self._waiting_bytes >= least_bytes:
                self._move = asyncio.create_task(asyncio.to_thread(self._mover.move, least_bytes))

    async def move_rest(self, db: PostgresConnection, keep_role: Callable[[], None]) -> None:
        """At the end of a crawl, move what is left; what the storage does not take stays in the database."""
        self._next_at = 0.0
        while True:
            self.poll(db, 1)
            if self._move is None and (not self._available or not self._waiting_bytes):
                return
            keep_role()
            await asyncio.sleep(0.05)

    def close(self) -> None:
        """Leave a running move to itself: without the role it can't commit."""
        if self._move is not None:
            self._move.add_done_callback(lambda move: move.cancelled() or move.exception())
            self._move = None

    def _finish_move(self, move: "asyncio.Task[int]") -> None:
        self._move = None
        try:
            self._waiting_bytes = move.result()
        except ObjectsUnavailableError as error:
            self._next_at = self._clock.now() + RETRY_S
            self._set_available(False, f"{error}; pages stay in the database until it is back")
        except (ConnectionLostError, RetryTransactionError, RoleLostError):
            # The trainer notices by its own connection.
            self._next_at = self._clock.now() + POLL_S
        else:
            self._next_at = 0.0
            self._set_available(True, "the object storage is back")

    def _set_available(self, available: bool, detail: str) -> None:
        if available != self._available:
            self._available = available
            self._report(ObjectStorageChanged(at=self._clock.now(), available=available, detail=detail))
