"""The SQLite frontier with URLs that can be claimed by key, for agents that keep queues of their own over the store."""

from collections.abc import Sequence, Set

import msgspec

from opilio.core.protocols import Database
from opilio.core.records import HostLease, Lead
from opilio.frontier.policy import MAX_PATIENCE_S, Order, Patience
from opilio.frontier.schema import QUEUED, WAITING
from opilio.frontier.sqlite.frontier import SqliteFrontier
from opilio.frontier.sqlite.queries import host_timing


class ClaimResult(msgspec.Struct, kw_only=True):
    """The result of a claim: a lease, or why not."""

    lease: HostLease | None = None
    # Keys that are no longer queued: fetched, failed, expired, refused.
    unavailable: list[int] = []
    retry_times: dict[int, float] = {}  # keys of retries that are not due yet
    # > 0: the host can't be fetched from before.
    host_wakes_at: float = 0.0


class ClaimableFrontier(SqliteFrontier):
    """Keeps the frontier's invariants: a URL is leased once, a host to one holder, never before it wakes."""

    @property
    def connection(self) -> Database:
        """The connection to its database."""
        return self._tables.counters.connection

    @property
    def boosted(self) -> Set[str]:
        """Hosts that the user wants first."""
        return self._policy.boosted

    @property
    def order(self) -> Order:
        """The order of its queue, which the agents' own queues follow."""
        return self._policy.order

    @property
    def latest_time(self) -> float:
        """The latest time that a call passed in."""
        return self._tables.hosts.sleeping.latest_time

    @property
    def patience(self) -> Patience:
        """Which links wait for better ones."""
        return self._patience

    def begin_claims(self, now: float, ttl_s: float) -> None:
        """Process what is due, as `lease` would: expiry, retries, hosts that wake. Called before claims."""
        tables = self._current_tables()
        self._advance_time(now)
        tables.counters.write()
        self._patience.begin(lambda: tables.best_waiting(now + MAX_PATIENCE_S, now + ttl_s - MAX_PATIENCE_S))

    def claim(self, leads: Sequence[Lead], now: float, ttl_s: float) -> ClaimResult:
        """Lease exactly these URLs, all of one host, if they are queued and the host may be fetched from now.

        The leads are handed back as they were given, but for how often they were tried.
        """
        tables = self._current_tables()
        host = tables.hosts.find(leads[0].host)
        if host is None:
            return ClaimResult(unavailable=[lead.key for lead in leads])
        wake_at, delay_s = host_timing(self.connection, host.id)
        held = tables.leases.by_host.get(host.id)
        if held is not None and held.expires_at > now:
            return ClaimResult(host_wakes_at=held.expires_at)
        if wake_at > now:
            return ClaimResult(host_wakes_at=wake_at)
        claim, free = ClaimResult(), []
        rows = {lead.key: tables.urls.retry_state(host.id, lead.key) for lead in leads}
        for lead in leads:
            state, retries, not_before = rows[lead.key] or (-1, 0, None)
            if state == QUEUED:
                free.append(msgspec.structs.replace(lead, retries=retries))
            elif state == WAITING and not_before is not None:
                claim.retry_times[lead.key] = not_before
            else:
                claim.unavailable.append(lead.key)
        if free:
            pause_s = self._policy.delay_s if delay_s is None else delay_s
            token = tables.counters.generation + 1
            tables.counters.move_to_leased(len(free) - len(tables.leases.leased_keys(host.id)))
            tables.leases.grant([(host.id, token, now + ttl_s, [lead.key for lead in free])])
            claim.lease = HostLease(
                host=leads[0].host, token=token, expires_at=now + ttl_s, leads=tuple(free), delay_s=pause_s
            )
        tables.counters.write()
        return claim
