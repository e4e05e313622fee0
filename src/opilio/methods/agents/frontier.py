"""The frontier that agents share: each agent requests from its own queue, the store decides what may be fetched.

It is a `Frontier` to the engine. Only `lease` differs: it follows the agents' queues instead of one order for all, and
every URL is claimed at the store, so that none is leased twice and no host before it wakes.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from msgspec.structs import replace

from opilio.core.protocols import AddResult, FrontierEntry, FrontierStats
from opilio.core.records import HostLease, Lead, Tier, UrlResult, UrlState
from opilio.frontier.policy import any_url
from opilio.frontier.sqlite.claims import ClaimableFrontier, ClaimResult
from opilio.frontier.sqlite.urls import upcoming_urls
from opilio.methods.agents.agent import Agent
from opilio.methods.agents.link_queue import QueuedItem
from opilio.methods.agents.manager import AgentManager

# The result of a visit whose analysis failed: not a response of its agent.
ANALYSIS_ERROR = "internal"
# Queued URLs that are loaded for each agent.
URLS_LOADED_PER_AGENT = 20_000


class SharedFrontier:
    """See `Frontier`. `store` holds everything; the agents' queues are views on it that can be rebuilt."""

    def __init__(self, store: ClaimableFrontier, manager: AgentManager) -> None:
        self._store = store
        self.manager = manager
        self._loaded = False
        # Leases in flight, by host.
        self._leases_out: dict[str, HostLease] = {}

    def _load(self, now: float) -> None:
        """Load queued URLs into the agents' queues: on start, and when a queue that evicted links is empty."""
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
        self._store.begin_claims(now, ttl_s)
        self._return_leases((held for held in self._leases_out.values() if held.expires_at <= now), now)
        self.manager.advance_time(now)
        if not self._loaded or self._needs_reload():
            self._load(now)
        leases: list[HostLease] = []
        boosted = self._store.boosted
        for idle in self.manager.roster.active_agents if self._store.order.batch_size else ():
            if idle.needs_batch:
                self._store.set_tier(idle.queue.choose_batch(), Tier.FIRST)
        room = self._store.order.max_per_lease or max_hosts * per_host
        # Agents whose best link waits for a better one.
        waiting = set[int]()
        while len(leases) < max_hosts and room > 0:
            agent = self.manager.next_agent(min_tier, boosted, waiting)
            best = None if agent is None else agent.next_lead(boosted)
            if agent is None or best is None:
                break
            if best.host not in boosted and self._store.patience.holds_up(best.tier, best.score, now):
                waiting.add(agent.number)
                continue
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
        """Does the store hold links that a queue has evicted, and has an agent nothing to do?"""
        agents = self.manager.roster.active_agents
        if any(agent.queue.evicted and not agent.queue for agent in agents):
            return True
        return bool(agents) and all(agent.is_exhausted for agent in agents) and self._store.stats().queued > 0

    def _return_leases(self, leases: Iterable[HostLease], now: float) -> None:
        """Return leases that expired or were revoked: their URLs are queued as before."""
        for lease in list(leases):
            del self._leases_out[lease.host]
            # The store decides when the host may be fetched from; the next claim reports it.
            self.manager.block_host(lease.host, now)
            for lead in lease.leads:
                self.manager.request_finished(lead, now, now)

    def _apply_claim(self, agent: Agent, items: list[QueuedItem], claim: ClaimResult) -> HostLease | None:
        """Apply the result of an agent's claim."""
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

    def complete(self, lease: HostLease, results: Sequence[UrlResult], wake_at: float) -> bool:
        held = self._store.complete(lease, results, wake_at)
        # The URLs are queued, or leased to another holder by now.
        if not held:
            return False
        self._leases_out.pop(lease.host, None)
        ended = {result.key: result for result in results}
        now = self._store.latest_time
        for lead in lease.leads:
            result = ended.get(lead.key)
            again = result is None or result.state is UrlState.QUEUED
            self.manager.request_finished(lead, (result.retry_at if result else now) if again else None, now)
            if result is not None and not result.reason.startswith(ANALYSIS_ERROR):
                self.manager.record_response(lead, now)
        self.manager.block_host(lease.host, wake_at)
        return True

    def wakes_at(self) -> float | None:
        """When an agent may have a link to fetch again; None: never."""
        manager = self.manager
        movers = [agent for agent in manager.roster.active_agents if agent.free_slots > 0]
        if any(
            agent.next_lead(self._store.boosted) is not None or (agent.queue.evicted and not agent.queue)
            for agent in movers
        ):
            return self._store.patience.held_until
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

    def drop_host(self, host: str, reason: str, matches: Callable[[str], bool] = any_url) -> int:
        return self._store.drop_host(host, reason, matches)

    def drop_refused(self, refusal_reason: Callable[[str], str]) -> int:
        return self._store.drop_refused(refusal_reason)

    def reopen_host(self, host: str, reason: str, now: float) -> int:
        reopened = self._store.reopen_host(host, reason, now)
        if reopened and self._loaded:
            self._load(now)
            self.manager.block_host(host, now)
        return reopened

    def readmit(self, host: str, reason: str, limit: int, now: float) -> list[int]:
        keys = self._store.readmit(host, reason, limit, now)
        self._reload_urls([(host, key) for key in keys])
        return keys

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
    """A revisited link loses its score: while queued it was the urgency, and the first score is out of date."""
    return replace(lead, score=0.0) if lead.tier == Tier.REVISIT else lead
