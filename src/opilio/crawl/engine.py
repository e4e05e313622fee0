"""The engine: leases hosts, serves them, commits in batches, stops for a reason.

The same loop drives a live crawl and a replay. On a virtual clock it works in lock-step: time stands still until every
visit that can go on has gone on and is committed, so a run is a function of its seed, whatever the number of workers.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from opilio.crawl.config import EngineSettings, StopSettings
from opilio.crawl.flights import COMMIT_EVERY_S, Flights
from opilio.crawl.ledger import Ledger
from opilio.crawl.scouting import Scouts
from opilio.crawl.stop import StopRules
from opilio.crawl.visit import Visitor
from opilio.crawl.wishes import LOOK_EVERY_S, Wishes
from opilio.model.clock import Clock, VirtualClock
from opilio.model.events import BatchCommitted, CrawlStopped, Event, Listener
from opilio.model.protocols import Frontier
from opilio.model.records import Fate, Outcome
from opilio.store.keeper import Counts

LEASE_S = 300.0
GRACE_S = 10.0  # how long a clean stop waits for answers that are under way
INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Stages:
    """What the engine drives. A bundle without methods: nothing is handed more than it needs."""

    frontier: Frontier
    visitor: Visitor
    ledger: Ledger
    wishes: Wishes
    counts: Counts
    clock: Clock
    scout: Scouts


class Engine:
    """Runs one crawl to its end. `stop()` may be called at any time, from a signal handler too."""

    def __init__(self, stages: Stages, engine: EngineSettings, stop: StopSettings, per_host: int) -> None:
        self._stages = stages
        self._settings = engine
        self._rules = StopRules(stop, stages.clock.now())
        self._per_host = per_host
        self._flights = Flights(stages.visitor.serve, stages.clock)
        self._renew_at = stages.clock.now() + LEASE_S / 3
        self._stopping = ""
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Have every event told to `listener`, after it has been committed."""
        self._listeners.append(listener)

    @property
    def stopping(self) -> bool:
        """Was a stop asked for?"""
        return self._stopping != ""

    def stop(self, reason: str = INTERRUPTED) -> None:
        """Ask for a clean stop."""
        self._stopping = self._stopping or reason
        self._flights.nudge()

    async def run(self) -> str:
        """Crawl until a rule says stop; returns the reason."""
        counts, clock = self._stages.counts, self._stages.clock
        try:
            while not (reason := self._reason()):
                if not self._stages.wishes.paused:
                    self._lease()
                if self._flights.flying or self._flights.landed:
                    await self._turn()
                    self._commit_if_due()
                elif reason := await self._idle():
                    break
            await self._flights.finish(0.0 if isinstance(clock, VirtualClock) else GRACE_S)
            self._commit()
        finally:
            await self._flights.finish(0.0)
        stopped = CrawlStopped(at=clock.now(), reason=reason, pages=counts.pages, relevant=counts.relevant)
        self._stages.ledger.end(stopped)
        self.tell([stopped])
        return reason

    def _reason(self) -> str:
        """Why to stop now, or nothing; what people asked for since the last time is done first."""
        wishes, now = self._stages.wishes, self._stages.clock.now()
        self.tell(wishes.look(now))
        asked = self._stopping or wishes.stop
        ended = asked or self._rules.reason(now - wishes.rested_s(now), self._stages.counts)
        return ended or ("" if self._flights.flying or self._flights.landed else self._stages.ledger.over(now))

    def _room(self) -> int:
        """How many more URLs may be asked for."""
        return self._rules.room(self._stages.counts) - self._flights.urls

    def _lease(self) -> None:
        """Fill the free connections with the best hosts that may be asked now."""
        stages, room, now = self._stages, self._room(), self._stages.clock.now()
        if now >= self._renew_at:  # who waits for a slow answer must not lose the host to another visit
            stages.ledger.renew(self._flights.leases, now, LEASE_S)
            self._renew_at = now + LEASE_S / 3
        free = min(self._settings.connections - self._flights.flying, room)
        if free > 0:
            per_host = max(1, min(self._per_host, room // free))
            self._flights.launch(stages.ledger.lease(now, free, per_host, LEASE_S))

    async def _turn(self) -> None:
        """Wait until something finished, a host woke, or a commit is due."""
        clock = self._stages.clock
        if isinstance(clock, VirtualClock):
            await self._step(clock)
            return
        timeout = COMMIT_EVERY_S if self._flights.landed else 1.0
        if self._flights.flying < self._settings.connections and self._room() > 0 and not self._stages.wishes.paused:
            wakes_at = self._stages.frontier.wakes_at()
            if wakes_at is not None:
                timeout = min(timeout, max(0.001, wakes_at - clock.now()))
        await self._flights.wait(timeout)

    async def _step(self, clock: VirtualClock) -> None:
        """Lock-step: let every visit run until it is finished or asleep; only then may time pass."""
        while self._flights.flying > clock.sleeping:
            await asyncio.sleep(0)
        if not self._flights.landed:
            clock.advance(until=self._renew_at)
            await asyncio.sleep(0)

    def _commit_if_due(self) -> None:
        everything = not self._flights.flying or isinstance(self._stages.clock, VirtualClock)
        if self._flights.due(0 if everything else self._settings.batch):
            self._commit()

    def _commit(self) -> None:
        batch = self._flights.take()
        if isinstance(self._stages.clock, VirtualClock):  # the order must not hang on the number of workers
            batch.sort(key=lambda served: served.lease.token)
        if batch:
            self.tell(self._stages.ledger.commit(batch, self._stages.clock.now()))

    def tell(self, events: Sequence[Event]) -> None:
        """Have listeners hear of what is on disk."""
        for event in events:
            if isinstance(event, BatchCommitted):
                self._rules.expects(event.expected)
                for outcome in event.outcomes:
                    if outcome.analysis is not None and outcome.analysis.verdict is not None and _is_new(outcome):
                        self._rules.saw(outcome.analysis.verdict.relevant and not outcome.duplicate_of)
            for listener in self._listeners:
                listener(event)

    async def _idle(self) -> str:
        """Nothing runs: wait for the next host to wake, or for a person; or say why to stop."""
        clock = self._stages.clock
        if self._stages.wishes.paused:
            await self._flights.wait(LOOK_EVERY_S)
            return ""
        wakes_at = self._stages.ledger.wakes_at(clock.now())
        if wakes_at is None:
            return self._stages.ledger.over(clock.now()) or await self._dry()
        wait_s = wakes_at - clock.now()
        if wait_s > self._rules.patience_s and not self._stages.ledger.continuous:
            return f"every host left has to wait {wait_s:.0f} s or more; run again later to go on"
        if isinstance(clock, VirtualClock):
            clock.advance(until=wakes_at)
        else:
            await self._flights.wait(max(0.001, min(wait_s, LOOK_EVERY_S)))  # a person must not wait as long as a host
        return ""

    async def _dry(self) -> str:
        """Nothing is queued. Engines may know more; whoever wants to stop need not wait for them."""
        asking = asyncio.ensure_future(self._stages.scout.more(self._stages.clock.now()))
        asking.add_done_callback(lambda _: self._flights.nudge())
        while not asking.done() and not self._stopping:
            await self._flights.wait(LOOK_EVERY_S)
        if not asking.done():
            asking.cancel()
            await asyncio.wait([asking])
            return self._stopping
        self.tell(asking.result())
        return self._stages.scout.reason


def _is_new(outcome: Outcome) -> bool:
    return outcome.fate is Fate.NEW
