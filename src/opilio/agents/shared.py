"""The one frontier as the agents share it: each asks for what it wants, the store says what may be asked.

It is a `Frontier` to the engine. Only `lease` differs: it goes by the agents' own orders instead of one order for all,
and every URL is claimed at the store, so that none is handed out twice and no host before it may be asked.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

from msgspec.structs import replace

from opilio.agents.agent import Agent
from opilio.agents.manager import Manager
from opilio.agents.stack import ABOVE_SEEDS, Item
from opilio.frontier.browse import next_first
from opilio.frontier.claims import Claim, ClaimableFrontier
from opilio.frontier.order import AGAIN
from opilio.model.protocols import Added, Entry, FrontierStats
from opilio.model.records import HostLease, Landing, Lead, State

LOWEST = float("-inf")
BROKEN = "internal"  # how a visit landed whose analysis went wrong: no sign of life of its agent
LOADED = 20_000  # queued URLs that are read back for each agent


class SharedFrontier:
    """See `Frontier`. `store` holds everything; the agents' stacks are views on it that can be lost."""

    def __init__(self, store: ClaimableFrontier, manager: Manager) -> None:
        self._store = store
        self.manager = manager
        self._loaded = False
        self._held: dict[str, HostLease] = {}  # by host: what was handed out and is not back

    def _load(self, now: float) -> None:
        """Read back what waits: on start, and where a stack that had spilled is empty."""
        agents = self.manager.agents.values()
        waiting = next_first(self._store.connection, LOADED * len(agents), self._store.boosted)
        self.manager.load(sorted(islice(waiting, LOADED * len(agents)), key=lambda entry: entry.seq), now)
        for agent in agents:
            agent.stack.spilled = False
        if not self._loaded:
            self.manager.roll.welcome(now)
        self._loaded = True

    def add(self, leads: Sequence[Lead], now: float) -> Added:
        owned = [self.manager.claimed_by(lead) for lead in leads]
        added = self._store.add(owned, now)
        for lead in owned:
            if not lead.again:
                self.manager.offer(lead, now)
            elif (entry := self._store.entry(lead.host, lead.key)) is not None and entry.state is State.QUEUED:
                self.manager.load([entry], now)
        return added

    def lease(
        self, now: float, max_hosts: int, per_host: int, ttl_s: float, *, above: float = LOWEST
    ) -> list[HostLease]:
        """The agents in turn, each its best URL whose host may be asked now; `above`: only what stands so high."""
        self._store.pass_time(now)
        self._give_back((held for held in self._held.values() if held.expires_at <= now), now)
        self.manager.pass_time(now)
        if not self._loaded or self._lacks():
            self._load(now)
        leases: list[HostLease] = []
        boosted = self._store.boosted
        while len(leases) < max_hosts and (agent := self.manager.next_mover(above, boosted)) is not None:
            items = agent.pick(per_host, boosted)
            claim = self._store.claim([lead for lead, _, _ in items], now, ttl_s)
            lease = self._heed(agent, items, claim)
            if lease is not None:
                leases.append(lease)
                self._held[lease.host] = lease
        self.manager.roll.note_goals(now)
        return leases

    def _lacks(self) -> bool:
        """Does the store hold links that a stack has let go, and somebody with nothing to do?"""
        agents = self.manager.roll.at_work
        if any(agent.stack.spilled and not agent.stack for agent in agents):
            return True
        return bool(agents) and all(agent.stuck for agent in agents) and self._store.stats().queued > 0

    def _give_back(self, leases: Iterable[HostLease], now: float) -> None:
        """Leases that lapsed or were called back: their URLs are queued as before."""
        for lease in list(leases):
            del self._held[lease.host]
            self.manager.rest(lease.host, now)  # the store knows better, and says so when somebody wants it
            for lead in lease.leads:
                self.manager.landed(lead, now, now)

    def _heed(self, agent: Agent, items: list[Item], claim: Claim) -> HostLease | None:
        """Act on what the store said of an agent's wish."""
        if claim.asleep_until:
            agent.stack.give_back(items)
            self.manager.rest(items[0][0].host, claim.asleep_until)
            return None
        self.manager.settle(claim.gone)
        for lead, _, _ in items:
            if lead.key in claim.later:
                agent.stack.put_later(lead, claim.later[lead.key])
        if claim.lease is not None:
            self.manager.asked(agent, claim.lease.leads)
            self.manager.rest(claim.lease.host, claim.lease.expires_at)
            return replace(claim.lease, leads=tuple(map(_scored, claim.lease.leads)))
        return None

    def complete(self, lease: HostLease, landings: Sequence[Landing], wake_at: float) -> bool:
        held = self._store.complete(lease, landings, wake_at)
        if not held:  # its URLs are queued, or somebody else's by now
            return False
        self._held.pop(lease.host, None)
        ended = {landing.key: landing for landing in landings}
        now = self._store.clock
        for lead in lease.leads:
            landing = ended.get(lead.key)
            again = landing is None or landing.state is State.QUEUED
            self.manager.landed(lead, (landing.retry_at if landing else now) if again else None, now)
            if landing is not None and not landing.reason.startswith(BROKEN):
                self.manager.answered(lead, now)
        self.manager.rest(lease.host, wake_at)
        return True

    def wakes_at(self) -> float | None:
        """When an agent may have a move again; None: none of them ever will."""
        manager = self.manager
        movers = [agent for agent in manager.roll.at_work if agent.room > 0]
        if any(
            agent.wish(self._store.boosted) is not None or (agent.stack.spilled and not agent.stack) for agent in movers
        ):
            return 0.0
        times = [agent.stack.wakes_at for agent in movers]
        times += [held.expires_at for held in self._held.values()]
        if any(not agent.alive and (agent.stack or agent.flying) for agent in manager.agents.values()):
            times.append(manager.roll.directory.first_lapse)
        return min((t for t in times if t is not None), default=None)

    def renew(self, leases: Sequence[HostLease], now: float, ttl_s: float) -> set[str]:
        kept = self._store.renew(leases, now, ttl_s)
        for lease in leases:
            if lease.host in kept and lease.host in self._held:
                self._held[lease.host] = replace(self._held[lease.host], expires_at=now + ttl_s)
        return kept

    def set_delay(self, host: str, delay_s: float) -> None:
        self._store.set_delay(host, delay_s)

    def drop_host(self, host: str, reason: str, pattern: str = "*") -> int:
        return self._store.drop_host(host, reason, pattern)

    def rescore(self, scores: Iterable[tuple[str, int, float]]) -> int:
        """Agents move the links of their own stacks themselves; what a person lifts above all rises in every stack."""
        moves = list(scores)
        for _, key, score in moves:
            if score > ABOVE_SEEDS:
                for agent in self.manager.agents.values():
                    agent.stack.rescore(key, score)
        return self._store.rescore(moves)

    def best(self, limit: int) -> list[Entry]:
        return self._store.best(limit)

    def entry(self, host: str, key: int) -> Entry | None:
        return self._store.entry(host, key)

    def stats(self) -> FrontierStats:
        return self._store.stats()

    def recover(self, now: float) -> int:
        returned = self._store.recover(now)
        self._give_back(self._held.values(), now)
        return returned


def _scored(lead: Lead) -> Lead:
    """Its place is past; what it was held to be when it was first asked for is of no use any more."""
    return replace(lead, score=0.0) if lead.score >= AGAIN else lead
