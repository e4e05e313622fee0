"""Visits in flight and visits that are finished but not committed yet. Knows tasks, not pages."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable

from opilio.core.clock import Clock
from opilio.core.records import HostLease
from opilio.core.settings import EngineSettings
from opilio.engine.visit import LeaseResult

COMMIT_EVERY_S = 0.02  # measured: a commit costs 0.2 ms, and hosts wait for it to be leased again
FIRST_CONNECTIONS, PAGES_PER_CONNECTION = 4, 16  # of a crawl that starts gradually (docs/lab/committee.md)
_DEFAULT_BATCH = 32
_WAIT_PER_VISIT_S = COMMIT_EVERY_S / _DEFAULT_BATCH  # a larger `engine.batch` may wait longer until it is full

ServeLease = Callable[[LeaseResult], Coroutine[None, None, None]]


def commit_wait_s(batch: int) -> float:
    """How long a finished visit waits for its commit at most."""
    return max(COMMIT_EVERY_S, batch * _WAIT_PER_VISIT_S)


class DownloadWindow:
    """Limits the visits in flight by a sliding window over the last pages (S2-50, `engine.window`).

    While a crawl leaves its topic, fewer downloads are started at once: each is chosen by what the last ones showed.
    `gradual`: a crawl starts with few requests at once, because it has learned little about which links are good.
    """

    def __init__(self, settings: EngineSettings, pages: int = 0, *, gradual: bool = False) -> None:
        self._connections = settings.connections
        self._pages = pages
        self._gradual = gradual
        # Pages that are not fetched yet count as relevant, so that a crawl starts with all connections.
        self._recent = deque([True] * settings.window, maxlen=settings.window)

    def record_page(self, relevant: bool) -> None:
        """One more page was judged."""
        self._recent.append(relevant)
        self._pages += 1

    @property
    def limit(self) -> int:
        """The number of visits that may be in flight."""
        share = sum(self._recent) / len(self._recent) if self._recent else 1.0
        most = max(FIRST_CONNECTIONS, self._pages // PAGES_PER_CONNECTION) if self._gradual else self._connections
        return max(1, min(most, round(share * self._connections)))


class LeaseSize:
    """How many URLs of a host a lease has: `least`, and up to `most` for all hosts together if few hosts are left.

    Without it, the workers of a crawl of one site in an archive would wait for every commit.
    """

    def __init__(self, least: int, most: int = 0) -> None:
        self._least = least
        self._most = most
        self.urls = least

    def adapt(self, leased: int, free: int, running: int) -> None:
        """`leased` hosts were found for `free` connections; now `running` hosts are visited."""
        few = leased < free and running > 0
        self.urls = max(self._least, self._most // running) if few else self._least


class InFlight:
    """Everything that was leased and not yet committed."""

    def __init__(self, serve: ServeLease, clock: Clock) -> None:
        self._serve = serve
        self._clock = clock
        self._running: dict[asyncio.Task[None], LeaseResult] = {}
        self._finished: list[LeaseResult] = []
        self._first_finished_at = 0.0  # the first of them
        self._wake_event = asyncio.Event()
        self._error: BaseException | None = None

    def start(self, leases: Iterable[HostLease]) -> None:
        for lease in leases:
            served = LeaseResult(lease=lease, delay_s=lease.delay_s)
            task = asyncio.create_task(self._serve(served))
            self._running[task] = served
            task.add_done_callback(self._on_done)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        """Keep the results of an interrupted visit; its other URLs return to the queue, and its host is throttled."""
        served = self._running.pop(task)
        if task.cancelled():
            served.wake_at = max(served.wake_at, self._clock.now() + served.delay_s)
        elif (error := task.exception()) is not None:
            self._error = self._error or error
        if not self._finished:
            self._first_finished_at = self._clock.now()
        self._finished.append(served)
        self._wake_event.set()

    @property
    def running(self) -> int:
        """The number of visits in flight."""
        return len(self._running)

    @property
    def finished(self) -> int:
        """The number of visits that wait to be committed."""
        return len(self._finished)

    @property
    def pending_urls(self) -> int:
        """The number of URLs that may still get a response, or have one that is not counted yet."""
        flying = sum(len(served.lease.leads) for served in self._running.values())
        return flying + sum(len(served.outcomes) for served in self._finished)

    @property
    def leases(self) -> list[HostLease]:
        """The leases held, committed or not."""
        return [served.lease for served in (*self._running.values(), *self._finished)]

    def commit_due(self, batch: int) -> bool:
        """Whether to commit now: in batches, but without a long wait for any host or page."""
        if not self._finished:
            return False
        done = sum(len(served.outcomes) for served in self._finished)
        if done >= batch or self._clock.now() - self._first_finished_at >= commit_wait_s(batch):
            return True
        # Hosts wait for the commit to be leased again.
        if batch <= _DEFAULT_BATCH:
            return len(self._finished) * 4 >= len(self._running)
        # In a large batch the workers are what must not wait.
        return done >= sum(len(served.lease.leads) - len(served.outcomes) for served in self._running.values())

    def take_finished(self) -> list[LeaseResult]:
        """The finished visits; raises the error of a visit that failed."""
        if self._error is not None:
            raise self._error
        batch, self._finished = self._finished, []
        return batch

    def wake(self) -> None:
        """End a wait."""
        self._wake_event.set()

    async def wait(self, timeout_s: float) -> None:
        """Wait until a visit finishes, `wake` is called, or the time is over."""
        timer = asyncio.get_running_loop().call_later(
            timeout_s, self._wake_event.set
        )  # wait_for would make a task each time
        try:
            await self._wake_event.wait()
        finally:
            timer.cancel()
            self._wake_event.clear()

    async def shut_down(self, grace_s: float) -> None:
        """End all visits: requests that were sent may wait this long for their response, the others are cancelled."""
        for task, served in list(self._running.items()):
            served.closed = True
            if not served.requesting or grace_s <= 0:
                task.cancel()
        if self._running:
            await asyncio.wait(list(self._running), timeout=max(grace_s, 0.001))
        for task in list(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(list(self._running))
            await asyncio.sleep(0)  # `_land` runs after the task
