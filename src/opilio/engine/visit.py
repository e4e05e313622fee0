"""One URL through all stages: politeness, fetch, parse, read, judge, rank. Commits nothing."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from opilio.core.clock import Clock
from opilio.core.errors import CollectionError
from opilio.core.events import VisitFailed
from opilio.core.protocols import Fetcher
from opilio.core.records import (
    NOT_SENT_FAILURE,
    SCOPE_FAILURE,
    SIGNAL_FAILURE,
    Analysis,
    Failure,
    FetchResult,
    HostLease,
    Lead,
    Outcome,
    UrlResult,
    UrlState,
)
from opilio.engine.politeness.delays import OVERLOAD_STATUSES, backoff_delay_s, delay_after_response_s, retry_delay_s
from opilio.engine.politeness.host_gate import HostGate, Permit
from opilio.engine.workers.pool import AnalysisPool, WorkerStartError
from opilio.parse.page_state import refused_by_challenge

INTERNAL_ERROR = "internal"
# Affects all pages: none can be stored or read any more.
FATAL_ERRORS = (CollectionError, WorkerStartError)
HOST_FAILURE_KINDS = frozenset(
    {"dns", "connect", "proxy", "timeout", "tls"}
)  # no response: a failure of the host, not of the page
DROPPED_KINDS = frozenset({"content-type", SCOPE_FAILURE, SIGNAL_FAILURE})  # not a page that this crawl stores
MAX_TRACKED_FAILURES = 20_000
SLOW_REQUEST_S = 5.0  # with name lookup and robots.txt
# Of an interrupted response; less is hardly text.
MIN_PARTIAL_BYTES = 512


class LeaseResult(msgspec.Struct, kw_only=True):
    """The results of a lease, committed together. URLs without a result return to the queue unchanged."""

    lease: HostLease
    outcomes: list[Outcome] = []
    url_results: list[UrlResult] = []
    errors: list[VisitFailed] = []
    wake_at: float = 0.0
    delay_s: float = 0.0
    # Why the host is throttled, if it asked for it.
    wait_reason: str = ""
    slow_requests: int = 0
    quick_responses: int = 0
    # A request is in flight, or its response is being read.
    requesting: bool = False
    closed: bool = False  # no further URL of this lease


class VisitLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of links, redirects and retries."""

    max_depth: int = 0  # 0: no limit
    max_redirects: int = 5
    max_retries: int = 2
    # Follow the links of a copy that its original does not have.
    follow_copies: bool = True


class Visitor:
    """Visits the URLs of leases. The holder of a lease sends one request at a time to its host."""

    def __init__(
        self,
        fetcher: Fetcher,
        pool: AnalysisPool,
        host_gate: HostGate,
        clock: Clock,
        limits: VisitLimits,
        rng: random.Random,
    ) -> None:
        self._fetcher = fetcher
        self._pool = pool
        self._host_gate = host_gate
        self._clock = clock
        self._limits = limits
        self._rng = rng
        # By host: responses in a row that reported overload.
        self._host_failures: Counter[str] = Counter()

    async def serve(self, served: LeaseResult) -> None:
        """Visit the lease's URLs in turn, while the host may be requested again without a longer wait.

        The next request is sent while the last response is analyzed. An interrupted visit keeps its results so far.
        """
        served.wake_at, served.delay_s = self._clock.now(), served.lease.delay_s
        readings: list[asyncio.Task[None]] = []
        leads = served.lease.leads
        try:
            for number, lead in enumerate(leads, 1):
                await self._pool.wait_for_room()
                started_at = self._clock.now()
                fetched = await self._fetch_if_allowed(lead, served)
                if self._clock.now() - started_at > SLOW_REQUEST_S:
                    served.slow_requests += 1
                elif fetched is not None and fetched.status:
                    served.quick_responses += 1
                over = number == len(leads) or served.closed or served.wake_at > self._clock.now()
                if fetched is not None:
                    reading = self._process_response(lead, fetched, served)
                    if over or self._pool.is_saturated:
                        await reading
                    else:
                        readings.append(asyncio.create_task(reading))
                served.requesting = bool(readings)
                if over:
                    break
            if readings:
                await asyncio.wait(readings)
                order = {lead.key: number for number, lead in enumerate(leads)}
                # In the order of the lease, whichever response was read first.
                served.outcomes.sort(key=lambda outcome: order[outcome.lead.key])
            for task in readings:
                # Raises what must end the crawl.
                task.result()
        finally:
            for task in readings:
                task.cancel()
            served.requesting = False

    async def _fetch_if_allowed(self, lead: Lead, served: LeaseResult) -> FetchResult | None:
        """Fetch one URL; None if the host does not permit it now."""
        with self._record_errors(lead, served):
            permit = await self._host_gate.acquire(lead.url, served.wake_at)
            served.delay_s = permit.delay_s
            if permit.retry_at:
                served.wake_at, served.wait_reason, served.closed = permit.retry_at, permit.refusal, True
            elif permit.refusal:
                served.url_results.append(_make_url_result(lead, UrlState.DROPPED, permit.refusal))
                served.wake_at = max(served.wake_at, permit.ready_at)
            else:
                fetched = await self._fetch(lead, permit, served)
                if fetched.failure is None or fetched.failure.kind != NOT_SENT_FAILURE:
                    return fetched
                # It is queued again as it was.
                served.closed = True
        return None

    async def _process_response(self, lead: Lead, fetched: FetchResult, served: LeaseResult) -> None:
        with self._record_errors(lead, served):
            if fetched.failure is None and (challenge := refused_by_challenge(fetched)):
                fetched = msgspec.structs.replace(fetched, failure=challenge)
            outcome = await self._analyze(lead, self._with_partial_body(lead, fetched), served)
            result = self._url_result(outcome)
            served.outcomes.append(outcome)
            served.url_results.append(result)

    def _with_partial_body(self, lead: Lead, fetched: FetchResult) -> FetchResult:
        """After the last attempt, the part of a body that was received is the page."""
        failure = fetched.failure
        if failure is None or len(fetched.body) < MIN_PARTIAL_BYTES or not 200 <= fetched.status < 300:
            return fetched
        if lead.retries < self._limits.max_retries:
            return fetched
        reason = "time" if failure.kind in ("timeout", "slow") else "disconnect"
        return msgspec.structs.replace(fetched, failure=None, truncated=reason)

    @contextmanager
    def _record_errors(self, lead: Lead, served: LeaseResult) -> Iterator[None]:
        """The per-URL guard: an internal error is recorded with its URL and the crawl continues."""
        try:
            yield
        except FATAL_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001 - the one place where a bug must not end the crawl
            now = self._clock.now()
            detail = f"{type(error).__name__}: {error}"[:300]
            served.errors.append(VisitFailed(at=now, url=lead.url, error=detail))
            served.url_results.append(_make_url_result(lead, UrlState.FAILED, f"{INTERNAL_ERROR} {detail}"))
            served.wake_at = max(served.wake_at, now + served.delay_s)

    async def _fetch(self, lead: Lead, permit: Permit, served: LeaseResult) -> FetchResult:
        served.requesting = True
        try:
            fetched = await self._fetcher.fetch(lead.url)
        # Also if it was interrupted: the request may have been sent.
        finally:
            self._host_gate.release(lead.url, permit.delay_s)
            served.wake_at = self._clock.now() + permit.delay_s
        served.wake_at = self._clock.now() + self._host_delay_s(lead.host, fetched, permit.delay_s)
        if served.wake_at > self._clock.now() + permit.delay_s:
            failure = fetched.failure
            served.wait_reason = failure.kind if failure else f"answered {fetched.status}"
        if permit.host_signals:
            return msgspec.structs.replace(fetched, host_signals=permit.host_signals)
        return fetched

    def _host_delay_s(self, host: str, fetched: FetchResult, delay_s: float) -> float:
        """How long the host is throttled after this response."""
        failure = fetched.failure
        unanswered = failure is not None and not fetched.status and failure.kind in HOST_FAILURE_KINDS
        if not unanswered and fetched.status not in OVERLOAD_STATUSES:
            self._host_failures.pop(host, None)
            return delay_after_response_s(fetched.status, delay_s, 0, fetched.retry_after_s, self._rng)
        if len(self._host_failures) >= MAX_TRACKED_FAILURES:
            self._host_failures.clear()
        self._host_failures[host] += 1
        if unanswered:
            return max(delay_s, backoff_delay_s(self._host_failures[host], self._rng))
        return delay_after_response_s(
            fetched.status, delay_s, self._host_failures[host], fetched.retry_after_s, self._rng
        )

    async def _analyze(self, lead: Lead, fetched: FetchResult, served: LeaseResult) -> Outcome:
        analysis = None
        if fetched.failure is None and 200 <= fetched.status < 300:
            try:
                analysis = await self._pool.analyze(lead, fetched)
            except FATAL_ERRORS:
                raise
            except Exception as error:  # noqa: BLE001 - the same guard; here the answer is known and is kept
                detail = f"{type(error).__name__}: {error}"[:300]
                served.errors.append(VisitFailed(at=self._clock.now(), url=lead.url, error=detail))
                analysis = Analysis(failure=Failure(INTERNAL_ERROR, detail))
        if analysis is not None and analysis.response is not None:
            record = fetched.packed if analysis.copies_record else analysis.warc_record
            light = analysis.response
            analysis = msgspec.structs.replace(analysis, warc_record=record, response=None)
        else:
            light = msgspec.structs.replace(fetched, body=b"", record=b"", packed=b"", size_bytes=len(fetched.body))
        return Outcome(lead=lead, fetched=light, analysis=analysis)

    def _url_result(self, outcome: Outcome) -> UrlResult:
        lead, fetched = outcome.lead, outcome.fetched
        failure = fetched.failure or self._status_failure(lead, fetched)
        if failure is None and outcome.analysis is not None:
            failure = outcome.analysis.failure
        if failure is None:
            return _make_url_result(lead, UrlState.DONE, f"redirects to {fetched.location}" if fetched.location else "")
        reason = f"{failure.kind} {failure.detail}".strip()
        if failure.retry:
            wait_s = retry_delay_s(lead.retries, fetched.retry_after_s, self._rng, most=self._limits.max_retries)
            if wait_s is not None:
                retry_at = self._clock.now() + wait_s
                return UrlResult(key=lead.key, host=lead.host, state=UrlState.QUEUED, reason=reason, retry_at=retry_at)
        return _make_url_result(lead, UrlState.DROPPED if failure.kind in DROPPED_KINDS else UrlState.FAILED, reason)

    def _status_failure(self, lead: Lead, fetched: FetchResult) -> Failure | None:
        status = fetched.status
        if fetched.location and lead.hops >= self._limits.max_redirects:
            return Failure("redirect-loop", f"{lead.hops} redirects in a row, the next to {fetched.location}")
        if 200 <= status < 300 or (300 <= status < 400 and fetched.location) or status == 304:
            return None
        return Failure("status", str(status), retry=status in OVERLOAD_STATUSES or status >= 500)


def _make_url_result(lead: Lead, state: UrlState, reason: str) -> UrlResult:
    return UrlResult(key=lead.key, host=lead.host, state=state, reason=reason)
