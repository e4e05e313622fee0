"""One URL through all stages: manners, fetch, parse, read, judge, rank. Commits nothing."""

import random

import msgspec

from opilio.crawl.manners import Manners
from opilio.crawl.workers import Desk
from opilio.frontier.politeness import back_off, next_try
from opilio.model.clock import Clock
from opilio.model.protocols import Fetcher
from opilio.model.records import Failure, Fetched, HostLease, Landing, Lead, Outcome, State

BUSY = frozenset({429, 503})


class Served(msgspec.Struct, kw_only=True):
    """What became of a lease: outcomes and landings to be committed together."""

    lease: HostLease
    outcomes: list[Outcome] = []
    landings: list[Landing] = []
    wake_at: float = 0.0
    delay_s: float = 0.0
    note: str = ""  # why the host has to wait, when it asked us to


class Visitor:
    """Serves leases. The holder of a lease asks its host for one URL at a time."""

    def __init__(
        self, fetcher: Fetcher, desk: Desk, manners: Manners, clock: Clock, retries: int, rng: random.Random
    ) -> None:
        self._fetcher = fetcher
        self._desk = desk
        self._manners = manners
        self._clock = clock
        self._retries = retries
        self._rng = rng

    async def serve(self, lease: HostLease) -> Served:
        """Visit the lease's URLs in turn; what can't be asked for now goes back to the queue."""
        served = Served(lease=lease, wake_at=self._clock.now(), delay_s=lease.delay_s)
        for index, lead in enumerate(lease.leads):
            if served.note or self._clock.now() > lease.expires_at:
                served.landings += [_back(other, served.wake_at) for other in lease.leads[index:]]
                break
            await self._visit(lead, served)
        return served

    async def _visit(self, lead: Lead, served: Served) -> None:
        permit = await self._manners.permit(lead.url, served.wake_at)
        served.delay_s, served.wake_at = permit.delay_s, permit.start_at
        if permit.until:
            served.wake_at, served.note = permit.until, permit.refused
            served.landings.append(_back(lead, permit.until))
            return
        if permit.refused:
            served.landings.append(_landing(lead, State.DROPPED, permit.refused))
            return
        fetched = await self._fetcher.fetch(lead.url)
        now = self._clock.now()
        served.wake_at = now + permit.delay_s
        if fetched.status in BUSY:
            served.wake_at = now + max(permit.delay_s, fetched.retry_after_s or back_off(lead.retries, self._rng))
            served.note = f"answered {fetched.status}"
        outcome = await self._analysed(lead, fetched)
        served.outcomes.append(outcome)
        served.landings.append(self._land(outcome, now))

    async def _analysed(self, lead: Lead, fetched: Fetched) -> Outcome:
        analysis = None
        if fetched.failure is None and 200 <= fetched.status < 300:
            analysis = await self._desk.analyse(lead, fetched)
        light = msgspec.structs.replace(fetched, body=b"", size_bytes=len(fetched.body))
        return Outcome(lead=lead, fetched=light, analysis=analysis)

    def _land(self, outcome: Outcome, now: float) -> Landing:
        lead, fetched = outcome.lead, outcome.fetched
        failure = fetched.failure or _status_failure(fetched)
        if failure is None and outcome.analysis is not None:
            failure = outcome.analysis.failure
        if failure is None:
            return _landing(lead, State.DONE, f"redirects to {fetched.location}" if fetched.location else "")
        if failure.retry and lead.retries < self._retries:
            wait_s = next_try(lead.retries, fetched.retry_after_s, self._rng)
            if wait_s is not None:
                return _back(lead, now + wait_s, f"{failure.kind} {failure.detail}".strip())
        state = State.DROPPED if failure.kind == "content-type" else State.FAILED
        return _landing(lead, state, f"{failure.kind} {failure.detail}".strip())


def _status_failure(fetched: Fetched) -> Failure | None:
    status = fetched.status
    if 200 <= status < 300 or (300 <= status < 400 and fetched.location) or status == 304:
        return None
    return Failure("status", str(status), retry=status in BUSY or status >= 500)


def _landing(lead: Lead, state: State, reason: str) -> Landing:
    return Landing(key=lead.key, host=lead.host, state=state, reason=reason)


def _back(lead: Lead, retry_at: float, reason: str = "") -> Landing:
    return Landing(key=lead.key, host=lead.host, state=State.QUEUED, reason=reason, retry_at=retry_at)
