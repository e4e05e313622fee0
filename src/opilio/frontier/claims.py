"""A frontier of which URLs can be claimed by name: for agents, who keep an order of their own over the one store."""

import sqlite3
from collections.abc import Sequence, Set

import msgspec

from opilio.frontier.schema import DROPPED, QUEUED, WAITING
from opilio.frontier.sqlite import SqliteFrontier
from opilio.model.records import HostLease, Lead

_REST = "SELECT wake_at, delay_s FROM frontier_host WHERE id = ?"


class Claim(msgspec.Struct, kw_only=True):
    """What became of a claim: a lease, or why not."""

    lease: HostLease | None = None
    gone: list[int] = []  # keys that are no longer queued: fetched, failed, expired, refused
    later: dict[int, float] = {}  # keys of retries that are not due yet
    asleep_until: float = 0.0  # > 0: the host can't be asked before


class ClaimableFrontier(SqliteFrontier):
    """Invariants as ever: a URL is handed out once, a host to one holder, never before it wakes."""

    @property
    def connection(self) -> sqlite3.Connection:
        """Where it is stored."""
        return self._tables.ledger.connection

    @property
    def boosted(self) -> Set[str]:
        """Hosts that a person wants first."""
        return self._policy.boosted

    @property
    def clock(self) -> float:
        """The latest time it was told."""
        return self._tables.hosts.sleepers.clock

    def pass_time(self, now: float) -> None:
        """Do what time has made due, as `lease` would: expiry, retries, hosts that wake. Before claims."""
        tables = self._open()
        self._catch_up(now)
        tables.ledger.write()

    def reopen(self, host: str, reason: str, now: float) -> None:
        """A host that could not be asked can be: it wakes, and what was dropped for this reason is queued again."""
        tables = self._open()
        row = tables.hosts.find(host)
        if row is None:
            return
        back = self.connection.execute(
            "UPDATE frontier_url SET state = ?, reason = NULL WHERE host_id = ? AND state = ? AND reason = ?",
            (QUEUED, row.id, DROPPED, reason),
        ).rowcount
        tables.hosts.rest(row.id, -back, now)
        tables.ledger.dropped -= back
        tables.ledger.queued += back
        tables.ledger.write()

    def claim(self, leads: Sequence[Lead], now: float, ttl_s: float) -> Claim:
        """Lease these very URLs, all of one host, where they are queued and the host may be asked now.

        The leads are handed back as they were given, but for how often they were tried.
        """
        tables = self._open()
        host = tables.hosts.find(leads[0].host)
        if host is None:
            return Claim(gone=[lead.key for lead in leads])
        wake_at, delay_s = self.connection.execute(_REST, (host.id,)).fetchone()
        held = tables.leases.by_host.get(host.id)
        if held is not None and held.expires_at > now:
            return Claim(asleep_until=held.expires_at)
        if wake_at > now:
            return Claim(asleep_until=wake_at)
        claim, free = Claim(), []
        rows = {lead.key: tables.urls.standing(host.id, lead.key) for lead in leads}
        for lead in leads:
            state, retries, not_before = rows[lead.key] or (-1, 0, None)
            if state == QUEUED:
                free.append(msgspec.structs.replace(lead, retries=retries))
            elif state == WAITING and not_before is not None:
                claim.later[lead.key] = not_before
            else:
                claim.gone.append(lead.key)
        if free:
            pause_s = self._policy.delay_s if delay_s is None else delay_s
            token = tables.ledger.generation + 1
            tables.ledger.lease(len(free) - len(tables.leases.keys(host.id)))
            tables.leases.lend([(host.id, token, now + ttl_s, [lead.key for lead in free])])
            claim.lease = HostLease(
                host=leads[0].host, token=token, expires_at=now + ttl_s, leads=tuple(free), delay_s=pause_s
            )
        tables.ledger.write()
        return claim
