"""Visits under way and visits that have landed but are not committed yet. Knows tasks, not pages."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable

from opilio.crawl.visit import Served
from opilio.model.clock import Clock
from opilio.model.records import HostLease

COMMIT_EVERY_S = 0.02  # measured: a commit costs 0.2 ms, and hosts wait for it to be leased again

Serve = Callable[[Served], Coroutine[None, None, None]]


class Flights:
    """Everything that was leased and not yet committed."""

    def __init__(self, serve: Serve, clock: Clock) -> None:
        self._serve = serve
        self._clock = clock
        self._flying: dict[asyncio.Task[None], Served] = {}
        self._landed: list[Served] = []
        self._landed_at = 0.0  # the first of them
        self._wake = asyncio.Event()
        self._error: BaseException | None = None

    def launch(self, leases: Iterable[HostLease]) -> None:
        for lease in leases:
            served = Served(lease=lease, delay_s=lease.delay_s)
            task = asyncio.create_task(self._serve(served))
            self._flying[task] = served
            task.add_done_callback(self._land)

    def _land(self, task: "asyncio.Task[None]") -> None:
        """A visit that was cut short still brings what it has: the rest goes back to the queue, the host rests."""
        served = self._flying.pop(task)
        if task.cancelled():
            served.wake_at = max(served.wake_at, self._clock.now() + served.delay_s)
        elif (error := task.exception()) is not None:
            self._error = self._error or error
        if not self._landed:
            self._landed_at = self._clock.now()
        self._landed.append(served)
        self._wake.set()

    @property
    def flying(self) -> int:
        """How many visits are under way."""
        return len(self._flying)

    @property
    def landed(self) -> int:
        """How many visits wait to be committed."""
        return len(self._landed)

    @property
    def urls(self) -> int:
        """How many URLs may still turn into answers, or have and are not counted yet."""
        flying = sum(len(served.lease.leads) for served in self._flying.values())
        return flying + sum(len(served.outcomes) for served in self._landed)

    @property
    def leases(self) -> list[HostLease]:
        """What is held, committed or not."""
        return [served.lease for served in (*self._flying.values(), *self._landed)]

    def due(self, batch: int) -> bool:
        """Is it time to commit? In batches, but no host and no page waits long."""
        if not self._landed:
            return False
        enough = sum(len(served.outcomes) for served in self._landed) >= batch
        starving = len(self._landed) * 4 >= len(self._flying)
        return enough or starving or self._clock.now() - self._landed_at >= COMMIT_EVERY_S

    def take(self) -> list[Served]:
        """What has landed; raises what ended a visit that should not have ended."""
        if self._error is not None:
            raise self._error
        batch, self._landed = self._landed, []
        return batch

    def nudge(self) -> None:
        """End a wait."""
        self._wake.set()

    async def wait(self, timeout_s: float) -> None:
        """Until something lands, somebody nudges, or the time is over."""
        timer = asyncio.get_running_loop().call_later(timeout_s, self._wake.set)  # wait_for would make a task each time
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
            self._wake.clear()

    async def finish(self, grace_s: float) -> None:
        """Land everything: who has asked may wait for the answer so long, who has not goes back at once."""
        for task, served in list(self._flying.items()):
            served.over = True
            if not served.asking or grace_s <= 0:
                task.cancel()
        if self._flying:
            await asyncio.wait(list(self._flying), timeout=max(grace_s, 0.001))
        for task in list(self._flying):
            task.cancel()
        if self._flying:
            await asyncio.wait(list(self._flying))
            await asyncio.sleep(0)  # `_land` runs after the task
