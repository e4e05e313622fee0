"""One URL through all stages: manners, fetch, parse, read, judge, rank. Commits nothing."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from opilio.crawl.manners import Manners, Permit
from opilio.crawl.workers import Desk, NoWorkersError
from opilio.frontier.politeness import OVERLOADED, back_off, next_try, pause_after
from opilio.model.clock import Clock
from opilio.model.errors import CollectionError
from opilio.model.events import VisitFailed
from opilio.model.protocols import Fetcher
from opilio.model.records import Analysis, Failure, Fetched, HostLease, Landing, Lead, Outcome, State

INTERNAL = "internal"
FATAL = (CollectionError, NoWorkersError)  # not this page's fault: no page can be kept or read any more
HOST_TROUBLE = frozenset({"dns", "connect", "proxy", "timeout", "tls"})  # without an answer: the host's, not the page's
MAX_TROUBLES = 20_000


class Served(msgspec.Struct, kw_only=True):
    """What became of a lease, to be committed together. URLs that have not landed go back to the queue as they were."""

    lease: HostLease
    outcomes: list[Outcome] = []
    landings: list[Landing] = []
    errors: list[VisitFailed] = []
    wake_at: float = 0.0
    delay_s: float = 0.0
    note: str = ""  # why the host has to wait, when it asked us to
    asking: bool = False  # a request is under way, or its answer is being read
    over: bool = False  # no further URL of this lease


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How far links are followed, and how often a URL is tried."""

    max_depth: int = 0  # 0: no bound
    hops: int = 5
    retries: int = 2


class Visitor:
    """Serves leases. The holder of a lease asks its host for one URL at a time."""

    def __init__(
        self, fetcher: Fetcher, desk: Desk, manners: Manners, clock: Clock, bounds: Bounds, rng: random.Random
    ) -> None:
        self._fetcher = fetcher
        self._desk = desk
        self._manners = manners
        self._clock = clock
        self._bounds = bounds
        self._rng = rng
        self._troubles: Counter[str] = Counter()  # by host: answers in a row that said it is in trouble

    async def serve(self, served: Served) -> None:
        """Visit the lease's URLs in turn, as long as the host may be asked again at once.

        While one answer is read the next is asked for. Cut short, it brings what was read until then.
        """
        served.wake_at, served.delay_s = self._clock.now(), served.lease.delay_s
        readings: list[asyncio.Task[None]] = []
        leads = served.lease.leads
        try:
            for number, lead in enumerate(leads, 1):
                fetched = await self._ask(lead, served)
                over = number == len(leads) or served.over or served.wake_at > self._clock.now()
                if fetched is not None:
                    reading = self._read(lead, fetched, served)
                    if over or self._desk.full:
                        await reading
                    else:
                        readings.append(asyncio.create_task(reading))
                served.asking = bool(readings)
                if over:
                    break
            if readings:
                await asyncio.wait(readings)
                order = {lead.key: number for number, lead in enumerate(leads)}
                served.outcomes.sort(key=lambda outcome: order[outcome.lead.key])  # whoever read faster
            for task in readings:
                task.result()  # raises what must end the crawl
        finally:
            for task in readings:
                task.cancel()
            served.asking = False

    async def _ask(self, lead: Lead, served: Served) -> Fetched | None:
        """Ask for one URL; nothing where the host does not permit that."""
        with self._guarded(lead, served):
            permit = await self._manners.permit(lead.url, served.wake_at)
            served.delay_s = permit.delay_s
            if permit.until:
                served.wake_at, served.note, served.over = permit.until, permit.refused, True
            elif permit.refused:
                served.landings.append(_landing(lead, State.DROPPED, permit.refused))
            else:
                return await self._asked(lead, permit, served)
        return None

    async def _read(self, lead: Lead, fetched: Fetched, served: Served) -> None:
        with self._guarded(lead, served):
            outcome = await self._analysed(lead, fetched, served)
            landing = self._land(outcome)
            served.outcomes.append(outcome)
            served.landings.append(landing)

    @contextmanager
    def _guarded(self, lead: Lead, served: Served) -> Iterator[None]:
        """The per-URL guard: an error of ours is recorded with its URL and the crawl goes on."""
        try:
            yield
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - the one place where a bug must not end the crawl
            now = self._clock.now()
            detail = f"{type(error).__name__}: {error}"[:300]
            served.errors.append(VisitFailed(at=now, url=lead.url, error=detail))
            served.landings.append(_landing(lead, State.FAILED, f"{INTERNAL} {detail}"))
            served.wake_at = max(served.wake_at, now + served.delay_s)

    async def _asked(self, lead: Lead, permit: Permit, served: Served) -> Fetched:
        served.asking = True
        try:
            fetched = await self._fetcher.fetch(lead.url)
        finally:  # also when it was cut short: the request may have left
            self._manners.asked(lead.url, permit.delay_s)
            served.wake_at = self._clock.now() + permit.delay_s
        served.wake_at = self._clock.now() + self._pause(lead.host, fetched, permit.delay_s)
        if served.wake_at > self._clock.now() + permit.delay_s:
            failure = fetched.failure
            served.note = failure.kind if failure else f"answered {fetched.status}"
        return fetched

    def _pause(self, host: str, fetched: Fetched, delay_s: float) -> float:
        """How long the host rests after this answer."""
        failure = fetched.failure
        unanswered = failure is not None and not fetched.status and failure.kind in HOST_TROUBLE
        if not unanswered and fetched.status not in OVERLOADED:
            self._troubles.pop(host, None)
            return pause_after(fetched.status, delay_s, 0, fetched.retry_after_s, self._rng)
        if len(self._troubles) >= MAX_TROUBLES:
            self._troubles.clear()
        self._troubles[host] += 1
        if unanswered:
            return max(delay_s, back_off(self._troubles[host], self._rng))
        return pause_after(fetched.status, delay_s, self._troubles[host], fetched.retry_after_s, self._rng)

    async def _analysed(self, lead: Lead, fetched: Fetched, served: Served) -> Outcome:
        analysis = None
        if fetched.failure is None and 200 <= fetched.status < 300:
            try:
                analysis = await self._desk.analyse(lead, fetched)
            except FATAL:
                raise
            except Exception as error:  # noqa: BLE001 - the same guard; here the answer is known and is kept
                detail = f"{type(error).__name__}: {error}"[:300]
                served.errors.append(VisitFailed(at=self._clock.now(), url=lead.url, error=detail))
                analysis = Analysis(failure=Failure(INTERNAL, detail))
        light = msgspec.structs.replace(fetched, body=b"", size_bytes=len(fetched.body))
        return Outcome(lead=lead, fetched=light, analysis=analysis)

    def _land(self, outcome: Outcome) -> Landing:
        lead, fetched = outcome.lead, outcome.fetched
        failure = fetched.failure or self._status_failure(lead, fetched)
        if failure is None and outcome.analysis is not None:
            failure = outcome.analysis.failure
        if failure is None:
            return _landing(lead, State.DONE, f"redirects to {fetched.location}" if fetched.location else "")
        reason = f"{failure.kind} {failure.detail}".strip()
        if failure.retry:
            wait_s = next_try(lead.retries, fetched.retry_after_s, self._rng, most=self._bounds.retries)
            if wait_s is not None:
                retry_at = self._clock.now() + wait_s
                return Landing(key=lead.key, host=lead.host, state=State.QUEUED, reason=reason, retry_at=retry_at)
        return _landing(lead, State.DROPPED if failure.kind == "content-type" else State.FAILED, reason)

    def _status_failure(self, lead: Lead, fetched: Fetched) -> Failure | None:
        status = fetched.status
        if fetched.location and lead.hops >= self._bounds.hops:
            return Failure("redirect-loop", f"{lead.hops} redirects in a row, the next to {fetched.location}")
        if 200 <= status < 300 or (300 <= status < 400 and fetched.location) or status == 304:
            return None
        return Failure("status", str(status), retry=status in OVERLOADED or status >= 500)


def _landing(lead: Lead, state: State, reason: str) -> Landing:
    return Landing(key=lead.key, host=lead.host, state=state, reason=reason)
