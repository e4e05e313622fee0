"""The one frontier as the agents share it: each asks for what it wants, the store says what may be asked.

It is a `Frontier` to the engine. Only `lease` differs: it goes by the agents' own orders instead of one order for all,
and every URL is claimed at the store, so that none is handed out twice and no host before it may be asked.

A frontier of which URLs can be claimed by name: for agents, who keep an order of their own over the one store.
"""

import sqlite3
from collections.abc import Iterable, Sequence, Set
from itertools import islice

import msgspec
from msgspec.structs import replace

from opilio.core.protocols import AddResult, FrontierEntry, FrontierStats
from opilio.core.records import HostLease, Lead, Tier, UrlResult, UrlState
from opilio.frontier.policy import Order
from opilio.frontier.sqlite.frontier import SqliteFrontier
from opilio.frontier.sqlite.queries import host_timing, requeue_dropped
from opilio.frontier.sqlite.schema import QUEUED, WAITING
from opilio.frontier.sqlite.urls import upcoming_urls
from opilio.methods.agents.agent import Agent
from opilio.methods.agents.link_queue import QueuedItem
from opilio.methods.agents.manager import AgentManager


class ClaimResult(msgspec.Struct, kw_only=True):
    """What became of a claim: a lease, or why not."""

    lease: HostLease | None = None
    unavailable: list[int] = []  # keys that are no longer queued: fetched, failed, expired, refused
    retry_times: dict[int, float] = {}  # keys of retries that are not due yet
    host_wakes_at: float = 0.0  # > 0: the host can't be asked before


class ClaimableFrontier(SqliteFrontier):
    """Invariants as ever: a URL is handed out once, a host to one holder, never before it wakes."""

    @property
    def connection(self) -> sqlite3.Connection:
        """Where it is stored."""
        return self._tables.counters.connection

    @property
    def boosted(self) -> Set[str]:
        """Hosts that a person wants first."""
        return self._policy.boosted

    @property
    def order(self) -> Order:
        """The order of its queue, which the agents' own queues follow."""
        return self._policy.order

    @property
    def latest_time(self) -> float:
        """The latest time that a call passed in."""
        return self._tables.hosts.sleeping.latest_time

    def advance_time(self, now: float) -> None:
        """Do what time has made due, as `lease` would: expiry, retries, hosts that wake. Before claims."""
        tables = self._current_tables()
        self._advance_time(now)
        tables.counters.write()

    def reopen_host(self, host: str, reason: str, now: float) -> None:
        """A host that could not be asked can be: it wakes, and what was dropped for this reason is queued again."""
        tables = self._current_tables()
        row = tables.hosts.find(host)
        if row is None:
            return
        back = requeue_dropped(self.connection, row.id, reason)
        tables.hosts.sleep(row.id, -back, now)
        tables.counters.dropped -= back
        tables.counters.queued += back
        tables.counters.write()

    def claim(self, leads: Sequence[Lead], now: float, ttl_s: float) -> ClaimResult:
        """Lease these very URLs, all of one host, where they are queued and the host may be asked now.

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


ANALYSIS_ERROR = "internal"  # how a visit landed whose analysis went wrong: no sign of life of its agent
URLS_LOADED_PER_AGENT = 20_000  # queued URLs that are read back for each agent


class SharedFrontier:
    """See `Frontier`. `store` holds everything; the agents' stacks are views on it that can be lost."""

    def __init__(self, store: ClaimableFrontier, manager: AgentManager) -> None:
        self._store = store
        self.manager = manager
        self._loaded = False
        self._leases_out: dict[str, HostLease] = {}  # by host: what was handed out and is not back

    def _load(self, now: float) -> None:
        """Read back what waits: on start, and where a stack that had spilled is empty."""
        agents = self.manager.agents.values()
        waiting = upcoming_urls(self._store.connection, URLS_LOADED_PER_AGENT * len(agents), self._store.boosted)
        self.manager.load(
            sorted(islice(waiting, URLS_LOADED_PER_AGENT * len(agents)), key=lambda entry: entry.seq), now
        )
        for agent in agents:
            agent.queue.evicted = False
        if not self._loaded:
            self.manager.roster.share_with_newcomers(now)
        self._loaded = True

    def add(self, leads: Sequence[Lead], now: float) -> AddResult:
        owned = [self.manager.assign_owner(lead) for lead in leads]
        added = self._store.add(owned, now)
        for lead in owned:
            self.manager.offer(lead, now)
        return added

    def revive(self, urls: Sequence[tuple[str, int]], urgency: float = 1.0) -> int:
        revived = self._store.revive(urls, urgency)
        self._reload_urls(urls)
        return revived

    def boost(self, urls: Sequence[tuple[str, int]]) -> int:
        boosted = self._store.boost(urls)
        for _, key in urls:
            for agent in self.manager.agents.values():
                agent.queue.set_tier(key, Tier.BOOSTED)
        return boosted

    def _reload_urls(self, urls: Sequence[tuple[str, int]]) -> None:
        """Give URLs whose tier changed to their agents again."""
        for host, key in urls:
            entry = self._store.entry(host, key)
            if entry is not None and entry.state is UrlState.QUEUED:
                self.manager.load([entry], self._store.latest_time)

    def lease(
        self, now: float, max_hosts: int, per_host: int, ttl_s: float, *, min_tier: int = Tier.LINK
    ) -> list[HostLease]:
        """The agents in turn, each its best URL whose host may be fetched from now."""
        self._store.advance_time(now)
        self._return_leases((held for held in self._leases_out.values() if held.expires_at <= now), now)
        self.manager.advance_time(now)
        if not self._loaded or self._needs_reload():
            self._load(now)
        leases: list[HostLease] = []
        boosted = self._store.boosted
        for idle in self.manager.roster.active_agents if self._store.order.batch_size else ():
            if idle.needs_batch:
                self._store.set_tier(idle.queue.choose_batch(), Tier.BATCH)
        room = self._store.order.max_per_lease or max_hosts * per_host
        while len(leases) < max_hosts and room > 0:
            agent = self.manager.next_agent(min_tier, boosted)
            if agent is None:
                break
            items = agent.take_best(min(per_host, room), boosted, min_tier)
            claim = self._store.claim([item.lead for item in items], now, ttl_s)
            lease = self._apply_claim(agent, items, claim)
            if lease is not None:
                leases.append(lease)
                room -= len(lease.leads)
                self._leases_out[lease.host] = lease
        self.manager.roster.update_goals(now)
        return leases

    def _needs_reload(self) -> bool:
        """Does the store hold links that a stack has let go, and somebody with nothing to do?"""
        agents = self.manager.roster.active_agents
        if any(agent.queue.evicted and not agent.queue for agent in agents):
            return True
        return bool(agents) and all(agent.is_exhausted for agent in agents) and self._store.stats().queued > 0

    def _return_leases(self, leases: Iterable[HostLease], now: float) -> None:
        """Leases that lapsed or were called back: their URLs are queued as before."""
        for lease in list(leases):
            del self._leases_out[lease.host]
            self.manager.block_host(lease.host, now)  # the store knows better, and says so when somebody wants it
            for lead in lease.leads:
                self.manager.request_finished(lead, now, now)

    def _apply_claim(self, agent: Agent, items: list[QueuedItem], claim: ClaimResult) -> HostLease | None:
        """Act on what the store said of an agent's wish."""
        if claim.host_wakes_at:
            agent.queue.put_back(items)
            self.manager.block_host(items[0].lead.host, claim.host_wakes_at)
            return None
        self.manager.mark_done(claim.unavailable)
        for lead in (item.lead for item in items):
            if lead.key in claim.retry_times:
                agent.queue.put_retry(lead, claim.retry_times[lead.key])
        if claim.lease is not None:
            self.manager.mark_requested(agent, claim.lease.leads)
            self.manager.block_host(claim.lease.host, claim.lease.expires_at)
            return replace(claim.lease, leads=tuple(map(_reset_revisit_score, claim.lease.leads)))
        return None

    def complete(self, lease: HostLease, landings: Sequence[UrlResult], wake_at: float) -> bool:
        held = self._store.complete(lease, landings, wake_at)
        if not held:  # its URLs are queued, or somebody else's by now
            return False
        self._leases_out.pop(lease.host, None)
        ended = {landing.key: landing for landing in landings}
        now = self._store.latest_time
        for lead in lease.leads:
            landing = ended.get(lead.key)
            again = landing is None or landing.state is UrlState.QUEUED
            self.manager.request_finished(lead, (landing.retry_at if landing else now) if again else None, now)
            if landing is not None and not landing.reason.startswith(ANALYSIS_ERROR):
                self.manager.record_response(lead, now)
        self.manager.block_host(lease.host, wake_at)
        return True

    def wakes_at(self) -> float | None:
        """When an agent may have a move again; None: none of them ever will."""
        manager = self.manager
        movers = [agent for agent in manager.roster.active_agents if agent.free_slots > 0]
        if any(
            agent.next_lead(self._store.boosted) is not None or (agent.queue.evicted and not agent.queue)
            for agent in movers
        ):
            return 0.0
        times = [agent.queue.next_due_at for agent in movers]
        times += [held.expires_at for held in self._leases_out.values()]
        if any(not agent.alive and (agent.queue or agent.in_flight) for agent in manager.agents.values()):
            times.append(manager.roster.directory.next_lease_expiry)
        return min((t for t in times if t is not None), default=None)

    def renew(self, leases: Sequence[HostLease], now: float, ttl_s: float) -> set[str]:
        kept = self._store.renew(leases, now, ttl_s)
        for lease in leases:
            if lease.host in kept and lease.host in self._leases_out:
                self._leases_out[lease.host] = replace(self._leases_out[lease.host], expires_at=now + ttl_s)
        return kept

    def set_delay(self, host: str, delay_s: float) -> None:
        self._store.set_delay(host, delay_s)

    def drop_host(self, host: str, reason: str, pattern: str = "*") -> int:
        return self._store.drop_host(host, reason, pattern)

    def rescore(self, scores: Iterable[tuple[str, int, float]]) -> int:
        """Also moves the link in the queue of the agent that holds it; where several do, each has its own score."""
        moves = list(scores)
        for _, key, score in moves:
            holders = [agent for agent in self.manager.agents.values() if key in agent.queue]
            if len(holders) == 1:
                holders[0].queue.rescore(key, score)
        return self._store.rescore(moves)

    def best(self, limit: int) -> list[FrontierEntry]:
        return self._store.best(limit)

    def entry(self, host: str, key: int) -> FrontierEntry | None:
        return self._store.entry(host, key)

    def stats(self) -> FrontierStats:
        return self._store.stats()

    def recover(self, now: float) -> int:
        returned = self._store.recover(now)
        self._return_leases(self._leases_out.values(), now)
        return returned


def _reset_revisit_score(lead: Lead) -> Lead:
    """While it was queued the urgency stood in the place of the score; the first score is out of date."""
    return replace(lead, score=0.0) if lead.tier == Tier.REVISIT else lead
