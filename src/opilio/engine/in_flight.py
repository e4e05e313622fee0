"""Visits in flight and visits that are finished but not committed yet. Knows tasks, not pages."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Sequence
from functools import lru_cache

from opilio.core.caches import evict_oldest
from opilio.core.clock import Clock
from opilio.core.records import HostLease
from opilio.core.settings import EngineSettings
from opilio.engine.politeness.host_yield import domain_of
from opilio.engine.visit import LeaseResult

# Measured: a commit costs 0.2 ms, and hosts wait for it to be leased again.
COMMIT_EVERY_S = 0.02
# Of a crawl that starts gradually (docs/lab/committee.md).
FIRST_CONNECTIONS, PAGES_PER_CONNECTION = 4, 16
_DEFAULT_BATCH = 32
# A larger `engine.batch` may wait longer until it is full.
_WAIT_PER_VISIT_S = COMMIT_EVERY_S / _DEFAULT_BATCH

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
    """How many hosts are leased, and how many URLs of each.

    `in_flight`: the URLs that a crawl of archives holds at once, however many hosts they are of, so that its workers
    are busy and its commits large; it has no connections that would limit it.
    """

    def __init__(self, urls: int, in_flight: int = 0) -> None:
        self._least = urls
        self._in_flight = in_flight
        # Of the last leases.
        self._urls_per_host = float(urls)
        self._few_hosts = False

    def hosts(self, free: int, pending: int) -> int:
        """The number of hosts to lease for `free` connections, while `pending` URLs are in flight."""
        if not self._in_flight:
            return free
        room = self._in_flight - pending
        return min(free, room, max(1, round(room / self._urls_per_host)))

    def urls(self, room: int, hosts: int, running: int) -> int:
        """The URLs of each host: more where few hosts are left; `room` is the number of URLs of all."""
        most = self._in_flight // max(1, running) if self._few_hosts else 0
        return max(1, min(max(self._least, most), room // hosts))

    def adapt(self, leases: Sequence[HostLease], asked: int, running: int) -> None:
        """`leases` were given where `asked` were wanted; now `running` hosts are visited."""
        self._few_hosts = len(leases) < asked and running > 0
        if leases:
            self._urls_per_host = (self._urls_per_host + sum(len(lease.leads) for lease in leases) / len(leases)) / 2


_RESERVED_SHARE = 0.25  # of the connections
_FIRST_WINDOW, _MAX_WINDOW = 4, 1_000  # visits in flight
_LONGEST_WAIT_S, _SHORTEST_WAIT_S = 60.0, 5.0
_MAX_DOMAINS = 10_000
# Leased at once while hosts are postponed.
_MORE_HOSTS = 64


class DomainWindows:
    """Keeps a quarter of the connections for domains that respond, however many hosts of others do not.

    A page can link to thousands of hosts whose name server or web server never responds. Each of them would take a
    connection until the limit of time. So the last connections are for domains with few visits in flight: as many as
    their window, which grows with each response and is halved by each slow request.
    """

    def __init__(self) -> None:
        self._windows: dict[str, int] = {}
        # Domains that had to wait, since their last quick response.
        self._reported: set[str] = set()

    def record(self, served: LeaseResult) -> None:
        """Count the requests of a visit that has ended."""
        domain = _group_of(served.lease.host)
        window = self._windows.pop(domain, _FIRST_WINDOW) + served.quick_responses
        self._windows[domain] = max(1, min(window, _MAX_WINDOW) >> served.slow_requests)
        if served.quick_responses:
            self._reported.discard(domain)
        for forgotten in evict_oldest(self._windows, _MAX_DOMAINS):
            self._reported.discard(forgotten)

    def split(
        self, leases: Sequence[HostLease], running: Sequence[str], limit: int, now: float
    ) -> tuple[list[HostLease], list[LeaseResult]]:
        """The leases to visit now, and the results of those that must wait.

        `running`: the hosts in flight, at most `limit`.
        """
        shared = limit - round(_RESERVED_SHARE * limit)
        if len(running) + len(leases) <= shared:
            return list(leases), []
        in_flight = Counter(map(_group_of, running))
        started: list[HostLease] = []
        postponed: list[LeaseResult] = []
        for lease in leases:
            domain = _group_of(lease.host)
            if len(running) + len(started) < shared or in_flight[domain] < self._window(domain):
                in_flight[domain] += 1
                started.append(lease)
            else:
                postponed.append(self._postpone(lease, domain, now))
        return started, postponed

    def _window(self, domain: str) -> int:
        return self._windows.get(domain, _FIRST_WINDOW)

    def _postpone(self, lease: HostLease, domain: str, now: float) -> LeaseResult:
        wait_s = max(_SHORTEST_WAIT_S, _LONGEST_WAIT_S / self._window(domain))
        reason = "" if domain in self._reported else f"other hosts of {domain} have not responded yet"
        self._reported.add(domain)
        return LeaseResult(lease=lease, delay_s=lease.delay_s, wake_at=now + wait_s, wait_reason=reason)


# With every lease, the hosts of all visits in flight are grouped.
@lru_cache(maxsize=1 << 12)
def _group_of(host: str) -> str:
    """The domain of a host, or its address without the port."""
    return domain_of(host) or host.rpartition(":")[0] or host


class InFlight:
    """Everything that was leased and not yet committed."""

    def __init__(self, serve: ServeLease, clock: Clock) -> None:
        self._serve = serve
        self._clock = clock
        self._domains = DomainWindows()
        self._postponed = False
        self._running: dict[asyncio.Task[None], LeaseResult] = {}
        self._finished: list[LeaseResult] = []
        # The first of them.
        self._first_finished_at = 0.0
        self._wake_event = asyncio.Event()
        self._error: BaseException | None = None

    def wanted(self, hosts: int) -> int:
        """How many hosts to lease, if `hosts` more may be visited: more where many have to be postponed."""
        return hosts + (_MORE_HOSTS if self._postponed else 0)

    def start(self, leases: Sequence[HostLease], limit: int) -> None:
        """Visit hosts, until `limit` visits are in flight; the others are not visited yet."""
        self._postponed = False
        # The common case while all hosts are throttled.
        if not leases:
            return
        running, now = [served.lease.host for served in self._running.values()], self._clock.now()
        started, postponed = self._domains.split(leases, running, limit, now)
        self._postponed = bool(postponed)
        free = max(0, limit - self.running)
        postponed += [LeaseResult(lease=lease, delay_s=lease.delay_s) for lease in started[free:]]
        for served in postponed:
            self._finish(served)
        for lease in started[:free]:
            served = LeaseResult(lease=lease, delay_s=lease.delay_s)
            task = asyncio.create_task(self._serve(served))
            self._running[task] = served
            task.add_done_callback(self._on_done)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        """Keep the results of an interrupted visit; its other URLs return to the queue, and its host is throttled."""
        served = self._running.pop(task)
        self._domains.record(served)
        if task.cancelled():
            served.wake_at = max(served.wake_at, self._clock.now() + served.delay_s)
        elif (error := task.exception()) is not None:
            self._error = self._error or error
        self._finish(served)

    def _finish(self, served: LeaseResult) -> None:
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
        # `asyncio.wait_for` would make a task each time.
        timer = asyncio.get_running_loop().call_later(timeout_s, self._wake_event.set)
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
            # `_on_done` runs after the task.
            await asyncio.sleep(0)
