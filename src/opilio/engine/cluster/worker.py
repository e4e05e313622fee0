"""The part of a worker that talks to the database: leases, results, politeness shared with other workers.

A worker leases hosts, fetches and analyzes pages, and hands the results over in the transaction that ends the lease.
It writes nothing else: the trainer turns results into pages, links and lessons. So workers never wait for each other,
and one that is killed has lost nothing but the requests it had sent.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from opilio.core.caches import evict_oldest
from opilio.core.clock import elapsed_s
from opilio.core.events import BatchCommitted, CrawlStopped, Event
from opilio.core.records import HostLease, Tier
from opilio.core.settings import StopSettings
from opilio.core.urls import host_of, origin_of
from opilio.engine.politeness.host_gate import HostGate, Permit
from opilio.engine.politeness.robots import RobotsRules
from opilio.engine.visit import LeaseResult
from opilio.frontier.policy import FrontierPolicy
from opilio.frontier.postgres.frontier import PostgresFrontier
from opilio.store.postgres.cluster import (
    DatabaseClock,
    SharedConnection,
    WorkerFigures,
    add_outcomes,
    crawl_progress,
    reserve_address,
)
from opilio.store.postgres.connection import PostgresConnection
from opilio.store.writer import save_robots

# Results that may wait for the trainer; above it workers lease nothing. What waits has not changed the queue's order:
# with at most a sixteenth of all pages it is as good as in one process (benchmarks/cluster/quality.py).
MIN_BACKLOG, MAX_BACKLOG = 8, 2_000
BACKLOG_SHARE = 1 / 16
FULL_WAIT_S, IDLE_WAIT_S = 0.05, 0.25
# Requests of different workers to one address keep this much more apart: a worker connects and sends within this time,
# or not at all. It doubles for an address whose connections take longer.
ADDRESS_MARGIN_S, MAX_ADDRESS_MARGIN_S = 0.2, 30.0
MAX_SLOW_ADDRESSES = 50_000
# Percentiles are those of the last leases.
TIMED_LEASES = 500


class WorkerMeter:
    """Counts what a worker does, for its report."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.model_version = 0
        self.expired_leases = 0
        self._leases = 0
        self._fetches = 0
        self._refetches = 0
        self._lease_times_s: deque[float] = deque(maxlen=TIMED_LEASES)

    def add_leases(self, leases: int, took_s: float) -> None:
        """Leases that one call took."""
        self._leases += leases
        self._lease_times_s.append(took_s)

    def add_result(self, fetches: int, committed: bool) -> None:
        """The end of a lease."""
        self._fetches += fetches
        self._refetches += 0 if committed else fetches

    def figures(self) -> WorkerFigures:
        times = sorted(self._lease_times_s) or [0.0]
        return WorkerFigures(
            leases=self._leases,
            lease_p50_s=times[len(times) // 2],
            lease_p99_s=times[len(times) * 99 // 100],
            expired_leases=self.expired_leases,
            fetches=self._fetches,
            refetches=self._refetches,
            model_version=self.model_version,
        )


def max_backlog(fetched: int) -> int:
    """How many results may wait for the trainer after this number of fetches.

    >>> max_backlog(0), max_backlog(1_600), max_backlog(1_000_000)
    (8, 100, 2000)
    """
    return int(min(max(MIN_BACKLOG, fetched * BACKLOG_SHARE), MAX_BACKLOG))


class WorkerCommitter:
    """See `Committer`: leases from the shared frontier, results to the trainer."""

    continuous = True

    def __init__(
        self,
        connection: SharedConnection,
        policy: FrontierPolicy,
        clock: DatabaseClock,
        meter: WorkerMeter,
        stop: StopSettings,
    ) -> None:
        self._connection = connection
        self._policy = policy
        self._clock = clock
        self._meter = meter
        self._stop = stop
        # By host: token and end of the lease.
        self._held: dict[str, tuple[int, float]] = {}
        self._wakes_at: float | None = None
        # The lowest tier that is leased.
        self.min_tier: int = Tier.LINK

    def holds(self, host: str, delay_s: float = 0.0) -> bool:
        """Is the lease of this host ours for another `delay_s`? One that has expired may belong to another worker.

        A worker that is killed after a request can't record the pause, so the lease must last as long.
        """
        return self._held.get(host, (0, 0.0))[1] > self._clock.now() + self._clock.uncertainty_s + delay_s

    def _frontier(self, db: PostgresConnection) -> PostgresFrontier:
        return PostgresFrontier(db, self._policy)

    def lease(self, now: float, hosts: int, per_host: int, ttl_s: float) -> list[HostLease]:
        """Take the best hosts that may be fetched from now, as far as limits and backlog allow."""

        def take(db: PostgresConnection) -> list[HostLease]:
            progress = crawl_progress(db)
            room = progress.remaining(self._stop)
            if progress.state != "running" or progress.paused or room <= 0:
                self._wakes_at = now + IDLE_WAIT_S
                return []
            if progress.backlog >= max_backlog(progress.counts.fetched):
                self._wakes_at = now + FULL_WAIT_S
                return []
            frontier = self._frontier(db)
            per_host_room = max(1, min(per_host, room // hosts))
            leases = frontier.lease(now, min(hosts, room), per_host_room, ttl_s, min_tier=self.min_tier)
            self._wakes_at = now if len(leases) == hosts else frontier.wakes_at()
            return leases

        started_at = elapsed_s()
        leases = self._connection.run(take)
        if leases:
            self._meter.add_leases(len(leases), elapsed_s() - started_at)
        for lease in leases:
            self._held[lease.host] = (lease.token, lease.expires_at)
        return leases

    def renew(self, leases: Sequence[HostLease], now: float, ttl_s: float) -> None:
        """Hold hosts longer; those that were lost are no longer fetched from."""
        kept = self._connection.run(lambda db: self._frontier(db).renew(leases, now, ttl_s))
        for lease in leases:
            if lease.host in kept:
                self._held[lease.host] = (lease.token, now + ttl_s)
            else:
                self._lose(lease)
        self._clock.synchronize(self._connection.db)

    def commit(self, lease_results: Sequence[LeaseResult], now: float) -> list[Event]:
        """End leases and hand their results over. Results of a lease that was lost have not happened."""
        late_s = self._clock.uncertainty_s
        ended = [(result.lease, result.url_results, result.wake_at + late_s) for result in lease_results]

        def write(db: PostgresConnection) -> set[str]:
            frontier = self._frontier(db)
            # Hosts that sleep long are parked: for that it must know the time.
            frontier.set_time(now)
            kept = frontier.complete_all(ended)
            own = [result for result in lease_results if result.lease.host in kept]
            add_outcomes(
                db, self._meter.name, [(max(1, len(one.outcomes)), msgspec.msgpack.encode(one)) for one in own]
            )
            return kept

        kept = self._connection.run(write)
        for result in lease_results:
            committed = result.lease.host in kept
            if not committed:
                self._lose(result.lease)
            self._meter.add_result(len(result.outcomes), committed)
            self._held.pop(result.lease.host, None)
        outcomes = tuple(one for result in lease_results if result.lease.host in kept for one in result.outcomes)
        return [BatchCommitted(at=now, outcomes=outcomes, queued=0, expected=None)]

    def _lose(self, lease: HostLease) -> None:
        """The lease is no longer ours. It is counted once, whether a renewal or the commit shows it first."""
        if self._held.get(lease.host, (0, 0.0))[1] > 0.0:
            self._meter.expired_leases += 1
        self._held[lease.host] = (lease.token, 0.0)

    def wakes_at(self) -> float | None:
        """When a host may be leased, as far as the last lease showed; others add links meanwhile."""
        soon = self._clock.now() + IDLE_WAIT_S
        return soon if self._wakes_at is None else min(self._wakes_at, soon)

    def next_due_at(self, _now: float) -> float | None:
        return self.wakes_at()

    def stop_reason(self, _now: float) -> str:
        """The trainer decides when the crawl is finished."""
        return ""

    def store_robots(self, origin: str, rules: RobotsRules, delay_s: float, _now: float) -> None:
        """Write down what a robots.txt says, for all workers, before any page is fetched by it."""

        def write(db: PostgresConnection) -> None:
            save_robots(db, origin, rules.expires_at, msgspec.msgpack.encode(rules))
            if rules.delay_s > 0:
                self._frontier(db).set_delay(host_of(origin), delay_s)

        self._connection.run(write)

    def finish(self, stopped: CrawlStopped) -> None:
        """The worker leaves: what it still holds goes back at once."""
        del stopped
        self._held.clear()


class AddressReservations:
    """See `ReservesStarts`: starts at an address are given by the database, to all workers."""

    def __init__(self, connection: SharedConnection) -> None:
        self._connection = connection
        self._margins: dict[str, float] = {}

    def max_late_s(self, address: str) -> float:
        """How long after its start a request may be sent: the next start of another worker is as much later."""
        return self._margins.get(address, ADDRESS_MARGIN_S)

    def report_late(self, address: str) -> None:
        """Give the next request to this address twice the time."""
        self._margins[address] = min(2 * self.max_late_s(address), MAX_ADDRESS_MARGIN_S)
        evict_oldest(self._margins, MAX_SLOW_ADDRESSES)

    def reserve(self, address: str, now: float, delay_s: float) -> float:
        """The time at which a request to that address may start; it is taken from now on."""
        margin_s = self.max_late_s(address)
        return self._connection.run(lambda db: reserve_address(db, address, now, delay_s + margin_s))


class LeaseGate(HostGate):
    """Politeness of a worker: a host whose lease has lapsed is no longer fetched from."""

    holds: Callable[[str, float], bool] = staticmethod(lambda *_: True)
    lease_s: float = 60.0

    async def acquire(self, url: str, ready_at: float) -> Permit:
        """See `HostGate`; the lease may lapse while it waits."""
        host = host_of(url)
        # A lease is renewed long before its last half begins.
        longest_s = self.lease_s / 2.0
        if not self.holds(host, min(self._settings.delay_s, longest_s)):
            return self._come_back_later(self._settings.delay_s, ready_at)
        permit = await super().acquire(url, ready_at)
        if self.holds(host, min(permit.delay_s, longest_s)):
            return permit
        if not permit.retry_at and not permit.refusal:
            self.release(url, permit.delay_s)
        return self._come_back_later(permit.delay_s, ready_at)

    def may_send(self, url: str) -> bool:
        """See `HostGate`; a worker that was stopped may have lost the lease."""
        delay_s = min(self._host_delay_s(origin_of(url)), self.lease_s / 2.0)
        return self.holds(host_of(url), delay_s) and super().may_send(url)

    def _come_back_later(self, delay_s: float, ready_at: float) -> Permit:
        """The lease ends soon. A request may have just been sent, so the next holder waits."""
        return Permit(delay_s=delay_s, retry_at=max(ready_at, self._clock.now() + delay_s))
