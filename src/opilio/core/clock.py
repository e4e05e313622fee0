"""Time, passed in. Nothing that thinks reads the system clock by itself."""

import asyncio
import heapq
import time
from itertools import count
from typing import Protocol


class Clock(Protocol):
    """Seconds since the epoch, and waiting for them to pass."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The wall clock."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class VirtualClock:
    """A clock that stands still until somebody advances it, so that waiting costs nothing.

    Invariant: sleepers wake in the order of their due time, ties in the order they fell asleep,
    so a run that only ever waits on this clock is deterministic.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), waiter))
        await waiter

    @property
    def sleeping(self) -> int:
        """How many are waiting."""
        return len(self._sleepers)

    def advance(self, until: float | None = None) -> bool:
        """Jump to the next due time (not beyond `until`) and wake whoever is due then."""
        if not self._sleepers or (until is not None and self._sleepers[0][0] > until):
            if until is None:
                return False
            self._now = max(self._now, until)
            return False
        self._now = max(self._now, self._sleepers[0][0])
        while self._sleepers and self._sleepers[0][0] <= self._now:
            waiter = heapq.heappop(self._sleepers)[2]
            if not waiter.done():
                waiter.set_result(None)
        return True
