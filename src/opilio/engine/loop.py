"""The engine: leases hosts, visits them, commits in batches, stops for a reason.

The same loop drives a live crawl and a replay. On a virtual clock it works in lock-step: time advances
only when every visit that can continue has continued and is committed, so a run depends on its random seed, not on the
number of workers.

`StopRules` decide when a crawl ends, from counters and the given time.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from opilio.core.clock import Clock, VirtualClock
from opilio.core.events import BatchCommitted, CrawlStopped, Event, EventListener
from opilio.core.records import HostLease
from opilio.core.settings import EngineSettings, StopSettings
from opilio.engine.commands import COMMAND_POLL_S
from opilio.engine.in_flight import DownloadWindow, InFlight, LeaseSize, commit_wait_s
from opilio.engine.reseeding import Reseeding
from opilio.engine.visit import LeaseResult, Visitor
from opilio.store.writer import CrawlCounts

PAGE_LIMIT_REACHED = "page limit reached"


class StopRules:
    """Returns why to stop, or an empty string. The reason is recorded in the collection."""

    def __init__(self, settings: StopSettings, started_at: float) -> None:
        self._settings = settings
        self._started_at = started_at
        self._recent: deque[bool] = deque(maxlen=settings.harvest_window)
        self._expected: float | None = None

    def record_page(self, relevant: bool) -> None:
        """Count a judged page."""
        self._recent.append(relevant)

    def record_batch(self, batch: BatchCommitted) -> None:
        """Count the new pages of a commit."""
        self._expected = batch.expected
        for relevant in batch.new_verdicts:
            self.record_page(relevant)

    @property
    def max_wait_s(self) -> float:
        """How long to wait when every host is throttled."""
        return self._settings.patience_s

    @property
    def harvest(self) -> float:
        """The share of relevant pages among the last ones."""
        return sum(self._recent) / len(self._recent) if self._recent else 0.0

    def stop_reason(self, now: float, counts: CrawlCounts) -> str:
        """Why to stop now, or an empty string."""
        rules = self._settings
        if rules.pages and counts.pages >= rules.pages:
            return f"{PAGE_LIMIT_REACHED} ({rules.pages} pages)"
        if rules.fetches and counts.fetched >= rules.fetches:
            return f"fetch limit reached ({rules.fetches} fetches)"
        if rules.relevant and counts.relevant >= rules.relevant:
            return f"enough relevant pages ({rules.relevant})"
        if rules.minutes and now - self._started_at >= rules.minutes * 60:
            return f"time is up ({rules.minutes:g} minutes)"
        return self._low_yield_reason()

    def _low_yield_reason(self) -> str:
        """Whether too few relevant pages are found or expected."""
        rules = self._settings
        full = len(self._recent) == rules.harvest_window
        if rules.harvest_below and full and self.harvest < rules.harvest_below:
            return (
                f"harvest of the last {rules.harvest_window} pages fell below {rules.harvest_below:g}"
                " (stop.harvest_below; 0 continues)"
            )
        if rules.expected_below and self._expected is not None and self._expected < rules.expected_below:
            return f"about {self._expected:.1f} relevant pages are left to find, fewer than {rules.expected_below:g}"
        return ""

    def remaining_urls(self, counts: CrawlCounts) -> int:
        """The number of URLs that may be requested at once without exceeding a limit; each may be relevant."""
        rules = self._settings
        limits = (
            (rules.pages, counts.pages),
            (rules.fetches, counts.fetched),
            (rules.relevant, counts.relevant),
        )
        return max(0, min((limit - count for limit, count in limits if limit), default=1 << 30))


# How long a clean stop waits for requests in flight.
SHUTDOWN_GRACE_S = 10.0
INTERRUPTED = "interrupted"


class Committer(Protocol):
    """Gives leases and takes results: the writer of a collection, or a worker that shares one."""

    @property
    def continuous(self) -> bool: ...

    def lease(self, now: float, hosts: int, per_host: int, ttl_s: float) -> list[HostLease]: ...

    def renew(self, leases: Sequence[HostLease], now: float, ttl_s: float) -> None: ...

    def commit(self, lease_results: Sequence[LeaseResult], now: float) -> list[Event]: ...

    def wakes_at(self) -> float | None: ...

    def next_due_at(self, now: float) -> float | None: ...

    def stop_reason(self, now: float) -> str: ...

    def finish(self, stopped: CrawlStopped) -> None: ...


class Commands(Protocol):
    """The commands of users."""

    stop_reason: str

    @property
    def paused(self) -> bool: ...

    def paused_s(self, now: float) -> float: ...

    def poll(self, now: float) -> list[Event]: ...


@dataclass(frozen=True, slots=True)
class EngineParts:
    """The parts of an engine."""

    visitor: Visitor
    committer: Committer
    commands: Commands
    counts: CrawlCounts
    clock: Clock
    reseeder: Reseeding


class Engine:
    """Runs one crawl to its end. `stop()` may be called at any time, from a signal handler too."""

    def __init__(
        self,
        parts: EngineParts,
        engine: EngineSettings,
        stop: StopSettings,
        lease_size: LeaseSize,
        *,
        gradual: bool = False,
    ) -> None:
        self._parts = parts
        # Of tests and replays: visits run in lock-step, and only the engine lets time pass.
        self._virtual_clock = parts.clock if isinstance(parts.clock, VirtualClock) else None
        self._settings = engine
        self._stop_rules = StopRules(stop, parts.clock.now())
        self._download_window = DownloadWindow(engine, parts.counts.pages, gradual=gradual)
        self._lease_size = lease_size
        self._in_flight = InFlight(parts.visitor.serve, parts.clock)
        self._renew_at = parts.clock.now() + engine.lease_s / 3
        self._requested_stop = ""
        self._listeners: list[EventListener] = []

    def add_listener(self, listener: EventListener) -> None:
        """Call `listener` with every event, after it has been committed."""
        self._listeners.append(listener)

    @property
    def stopping(self) -> bool:
        """Whether a stop was requested."""
        return self._requested_stop != ""

    def stop(self, reason: str = INTERRUPTED) -> None:
        """Request a clean stop."""
        self._requested_stop = self._requested_stop or reason
        self._in_flight.wake()

    async def run(self) -> str:
        """Crawl until a rule says stop; returns the reason."""
        counts, clock = self._parts.counts, self._parts.clock
        try:
            while not (reason := self._check_stop()):
                if not self._parts.commands.paused:
                    self._lease()
                if self._in_flight.running or self._in_flight.finished:
                    await self._wait_for_progress()
                    self._commit_if_due()
                elif reason := await self._idle():
                    break
            await self._in_flight.shut_down(0.0 if self._virtual_clock else SHUTDOWN_GRACE_S)
            self._commit()
        finally:
            await self._in_flight.shut_down(0.0)
        stopped = CrawlStopped(at=clock.now(), reason=reason, pages=counts.pages, relevant=counts.relevant)
        self._parts.committer.finish(stopped)
        self.publish([stopped])
        return reason

    def _check_stop(self) -> str:
        """Why to stop now, or an empty string; new commands are applied first."""
        commands, now = self._parts.commands, self._parts.clock.now()
        self.publish(commands.poll(now))
        requested = self._requested_stop or commands.stop_reason
        # The time limit counts neither pauses nor the time while the machine was suspended.
        idle_s = commands.paused_s(now) + self._parts.clock.suspended_s
        ended = requested or self._stop_rules.stop_reason(now - idle_s, self._parts.counts)
        return ended or (
            "" if self._in_flight.running or self._in_flight.finished else self._parts.committer.stop_reason(now)
        )

    def _remaining_urls(self, pending: int) -> int:
        """The number of URLs that may still be requested, while `pending` ones are in flight."""
        return self._stop_rules.remaining_urls(self._parts.counts) - pending

    def _lease(self) -> None:
        """Fill the free connections with the best hosts that may be fetched from now."""
        committer, now = self._parts.committer, self._parts.clock.now()
        # A visit that waits for a slow response must keep its host.
        if now >= self._renew_at:
            committer.renew(self._in_flight.leases, now, self._settings.lease_s)
            self._renew_at = now + self._settings.lease_s / 3
        # Counted once for each turn of the loop: it takes time for each visit in flight.
        pending = self._in_flight.pending_urls
        room, hosts = self._remaining_urls(pending), self._wanted_hosts(pending)
        if hosts > 0:
            urls = self._lease_size.urls(room, hosts, self._in_flight.running)
            wanted = min(self._in_flight.wanted(hosts), room)
            leases = committer.lease(now, wanted, urls, self._settings.lease_s)
            self._in_flight.start(leases, self._in_flight.running + self._free_connections(pending))
            self._lease_size.adapt(leases, hosts, self._in_flight.running)

    def _free_connections(self, pending: int) -> int:
        """The number of hosts that may be visited beside those in flight; none if it is not positive."""
        return min(self._download_window.limit - self._in_flight.running, self._remaining_urls(pending))

    def _wanted_hosts(self, pending: int) -> int:
        """The number of hosts to lease now; none if it is not positive."""
        return self._lease_size.hosts(self._free_connections(pending), pending)

    async def _wait_for_progress(self) -> None:
        """Wait until a visit finishes, a host wakes, or a commit is due."""
        clock = self._parts.clock
        if self._virtual_clock:
            await self._advance_virtual_clock(self._virtual_clock)
            return
        timeout = commit_wait_s(self._settings.batch) if self._in_flight.finished else 1.0
        if self._wanted_hosts(self._in_flight.pending_urls) > 0 and not self._parts.commands.paused:
            wakes_at = self._parts.committer.wakes_at()
            if wakes_at is not None:
                timeout = min(timeout, max(0.001, wakes_at - clock.now()))
        await self._in_flight.wait(timeout)

    async def _advance_virtual_clock(self, clock: VirtualClock) -> None:
        """Lock-step: let every visit run until it is finished or sleeps; time may advance only then."""
        while self._in_flight.running > clock.sleeping:
            await asyncio.sleep(0)
        if not self._in_flight.finished:
            clock.advance(until=self._renew_at)
            await asyncio.sleep(0)

    def _commit_if_due(self) -> None:
        everything = not self._in_flight.running or self._virtual_clock is not None
        if self._in_flight.commit_due(0 if everything else self._settings.batch):
            self._commit()

    def _commit(self) -> None:
        batch = self._in_flight.take_finished()
        # The order must not depend on the number of workers.
        if self._virtual_clock:
            batch.sort(key=lambda served: served.lease.token)
        if batch:
            self.publish(self._parts.committer.commit(batch, self._parts.clock.now()))

    def publish(self, events: Sequence[Event]) -> None:
        """Pass committed events to the listeners."""
        for event in events:
            if isinstance(event, BatchCommitted):
                self._stop_rules.record_batch(event)
                for relevant in event.new_verdicts:
                    self._download_window.record_page(relevant)
            for listener in self._listeners:
                listener(event)

    async def _idle(self) -> str:
        """Nothing is in flight: wait for the next host to wake or for a command, or return why to stop."""
        clock = self._parts.clock
        if self._parts.commands.paused:
            await self._in_flight.wait(COMMAND_POLL_S)
            return ""
        wakes_at = self._parts.committer.next_due_at(clock.now())
        if wakes_at is None:
            return self._parts.committer.stop_reason(clock.now()) or await self._reseed()
        wait_s = wakes_at - clock.now()
        if wait_s > self._stop_rules.max_wait_s and not self._parts.committer.continuous:
            return describe_wait(wait_s, self._parts.counts)
        if self._virtual_clock:
            self._virtual_clock.advance(until=wakes_at)
        else:
            # The user's commands must not wait as long as a host.
            await self._in_flight.wait(max(0.001, min(wait_s, COMMAND_POLL_S)))
        return ""

    async def _reseed(self) -> str:
        """Nothing is queued. Engines may find more; a stop command need not wait for them."""
        asking = asyncio.ensure_future(self._parts.reseeder.find_more_seeds(self._parts.clock.now()))
        asking.add_done_callback(lambda _: self._in_flight.wake())
        while not asking.done() and not self._requested_stop:
            await self._in_flight.wait(COMMAND_POLL_S)
        if not asking.done():
            asking.cancel()
            await asyncio.wait([asking])
            return self._requested_stop
        self.publish(asking.result())
        return self._parts.reseeder.stop_reason


def describe_wait(wait_s: float, counts: CrawlCounts) -> str:
    """The stop reason of a crawl whose hosts all have to wait."""
    nothing = "" if counts.pages else "no page could be fetched; "
    return f"{nothing}every host left has to wait {wait_s:.0f} s or more; run again later to resume"
