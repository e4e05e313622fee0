"""The engine: leases hosts, serves them, commits in batches, stops for a reason.

The same loop drives a live crawl and a replay. On a virtual clock it works in lock-step: time stands still until every
visit that can go on has gone on and is committed, so a run is a function of its seed, whatever the number of workers.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from opilio.crawl.config import EngineSettings, StopSettings
from opilio.crawl.ledger import Ledger
from opilio.crawl.manners import Manners
from opilio.crawl.stop import StopRules
from opilio.crawl.visit import Served, Visitor
from opilio.model.clock import Clock, VirtualClock
from opilio.model.events import BatchCommitted, CrawlStopped, Event, Listener, VisitFailed
from opilio.model.protocols import Frontier
from opilio.model.records import HostLease, Landing, State
from opilio.store.keeper import Counts

LEASE_S = 300.0
COMMIT_EVERY_S = 0.02  # measured: commits cost 0.2 ms, hosts wait for them to be leased again
GRACE_S = 10.0  # how long a clean stop waits for answers that are under way
INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Stages:
    """What the engine drives. A bundle without methods: nothing is handed more than it needs."""

    frontier: Frontier
    visitor: Visitor
    ledger: Ledger
    manners: Manners
    counts: Counts
    clock: Clock


class Engine:
    """Runs one crawl to its end. `stop()` may be called at any time, from a signal handler too."""

    def __init__(self, stages: Stages, engine: EngineSettings, stop: StopSettings, per_host: int) -> None:
        self._stages = stages
        self._settings = engine
        self._rules = StopRules(stop, stages.clock.now())
        self._patience_s = stop.patience_s
        self._per_host = per_host
        self._running: dict[asyncio.Task[Served], HostLease] = {}
        self._finished: list[Served] = []
        self._wake = asyncio.Event()
        self._stopping = ""
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Have every event told to `listener`, after it has been committed."""
        self._listeners.append(listener)

    def stop(self, reason: str = INTERRUPTED) -> None:
        """Ask for a clean stop."""
        self._stopping = self._stopping or reason
        self._wake.set()

    async def run(self) -> str:
        """Crawl until a rule says stop; returns the reason."""
        counts, clock = self._stages.counts, self._stages.clock
        while not (reason := self._stopping or self._rules.reason(clock.now(), counts)):
            self._lease()
            if self._running or self._finished:
                await self._turn()
                if self._due():
                    self._commit()
            elif reason := await self._idle():
                break
        await self._wind_down()
        self._tell([CrawlStopped(at=clock.now(), reason=reason, pages=counts.pages, relevant=counts.relevant)])
        return reason

    def _lease(self) -> None:
        """Fill the free connections with the best hosts that may be asked now."""
        stages = self._stages
        asked = sum(len(lease.leads) for lease in self._running.values())
        asked += sum(len(served.outcomes) for served in self._finished)
        room = self._rules.room(stages.counts) - asked
        free = min(self._settings.connections - len(self._running), room)
        if free <= 0:
            return
        per_host = max(1, min(self._per_host, room // free))
        for lease in stages.ledger.lease(stages.clock.now(), free, per_host, LEASE_S):
            task = asyncio.create_task(stages.visitor.serve(lease))
            self._running[task] = lease
            task.add_done_callback(self._landed)

    def _landed(self, task: "asyncio.Task[Served]") -> None:
        lease = self._running.pop(task)
        self._wake.set()
        if task.cancelled():
            self._finished.append(_given_back(lease, self._stages.clock.now()))
            return
        error = task.exception()
        if error is None:
            self._finished.append(task.result())
            return
        self._finished.append(self._guard(lease, error))

    def _guard(self, lease: HostLease, error: BaseException) -> Served:
        """The per-URL guard: an error of ours is recorded with its URL and the crawl goes on."""
        now = self._stages.clock.now()
        detail = f"{type(error).__name__}: {error}"
        self._tell([VisitFailed(at=now, url=lead.url, error=detail) for lead in lease.leads])
        landings = [
            Landing(key=lead.key, host=lead.host, state=State.FAILED, reason=f"internal {detail}"[:300])
            for lead in lease.leads
        ]
        return Served(lease=lease, landings=landings, wake_at=now + lease.delay_s, delay_s=lease.delay_s)

    async def _turn(self) -> None:
        """Wait until something finished, a host woke, or a commit is due."""
        clock = self._stages.clock
        if isinstance(clock, VirtualClock):
            await self._step(clock)
            return
        timeout = COMMIT_EVERY_S if self._finished else 1.0
        wakes_at = self._stages.frontier.wakes_at()
        if wakes_at is not None and len(self._running) < self._settings.connections:
            timeout = min(timeout, max(0.001, wakes_at - clock.now()))
        await self._wait(timeout)

    async def _step(self, clock: VirtualClock) -> None:
        """Lock-step: let every visit run until it is finished or asleep; only then may time pass."""
        while len(self._running) > clock.sleeping:
            await asyncio.sleep(0)
        if not self._finished:
            clock.advance()
            await asyncio.sleep(0)
        self._finished.sort(key=lambda served: served.lease.token)

    def _due(self) -> bool:
        if not self._finished:
            return False
        enough = sum(len(served.outcomes) for served in self._finished) >= self._settings.batch
        return enough or not self._running or isinstance(self._stages.clock, VirtualClock) or self._starving()

    def _starving(self) -> bool:
        """Hosts are leased again only after their visits are committed: don't let connections wait for a batch."""
        return len(self._finished) * 4 >= len(self._running)

    def _commit(self) -> None:
        batch, self._finished = self._finished, []
        robots, self._stages.manners.fresh = self._stages.manners.fresh, {}
        events = self._stages.ledger.commit(batch, robots, self._stages.clock.now())
        self._tell(events)

    def _tell(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, BatchCommitted):
                for outcome in event.outcomes:
                    if outcome.analysis is not None and outcome.analysis.verdict is not None:
                        self._rules.saw(outcome.analysis.verdict.relevant and not outcome.duplicate_of)
            for listener in self._listeners:
                listener(event)

    async def _idle(self) -> str:
        """Nothing runs: wait for the next host to wake, or say why to stop."""
        clock = self._stages.clock
        wakes_at = self._stages.frontier.wakes_at()
        if wakes_at is None:
            return "nothing left to fetch"
        wait_s = wakes_at - clock.now()
        if wait_s > self._patience_s:
            return f"every host left asks to wait {wait_s:.0f} s or more; run again later to go on"
        if isinstance(clock, VirtualClock):
            clock.advance(until=wakes_at)
        else:
            await self._wait(max(0.001, wait_s))
        return ""

    async def _wait(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), timeout_s)
        self._wake.clear()

    async def _wind_down(self) -> None:
        """Take in what is under way, give back what is not, commit."""
        running = list(self._running)
        if running and not isinstance(self._stages.clock, VirtualClock):
            await asyncio.wait(running, timeout=GRACE_S)
        for task in list(self._running):
            task.cancel()
        while self._running:
            await asyncio.sleep(0.001)
        if self._finished:
            self._commit()


def _given_back(lease: HostLease, now: float) -> Served:
    """A visit that was cut short: its URLs go back to the queue, its host keeps its delay."""
    landings = [Landing(key=lead.key, host=lead.host, state=State.QUEUED) for lead in lease.leads]
    return Served(lease=lease, landings=landings, wake_at=now + lease.delay_s, delay_s=lease.delay_s)
