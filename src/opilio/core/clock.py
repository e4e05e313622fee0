"""Clocks. Code that needs the time takes a `Clock`; only `SystemClock` reads the system's."""

import asyncio
import heapq
import time
from itertools import count
from typing import Protocol


class Clock(Protocol):
    """The current time in seconds since 1970, and sleeping."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The wall clock."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class VirtualClock:
    """A clock for tests: it moves only when `advance` is called, so sleeping takes no real time.

    Invariant: sleepers wake in the order of their due time, ties in the order they started to sleep, so a run that only
    waits on this clock is deterministic.
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
        """The number of sleepers."""
        return len(self._sleepers)

    def advance(self, until: float | None = None) -> bool:
        """Move to the next due time (not beyond `until`) and wake the sleepers that are due; False if none is."""
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
