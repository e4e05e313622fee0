"""The manager (S3-01): which agent is next, which agent gets a link, and which agents are at work (S3-03, S3-04).

Agents share one frontier, so a URL is fetched once and a host is used by one agent at a time. When an agent is missing,
the others take over its links. Does no I/O itself.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

from msgspec.structs import replace

from opilio.core.events import AgentFinished, AgentLost, Event
from opilio.core.protocols import FrontierEntry
from opilio.core.records import NO_AGENT, Lead, Tier
from opilio.methods.agents.agent import (
    ACTIVE_STATES,
    GOAL_REACHED,
    IDLE,
    MISSING,
    RETIRED,
    RETIRED_BY_USER,
    WORKING,
    Agent,
    AgentDirectory,
)

# A single page may be the cause; five in a row hardly.
MAX_CONSECUTIVE_FAILURES = 5
NO_HEARTBEAT = "gave no sign of life"


class AgentRoster:
    """The agents by number, as the directory knows them."""

    def __init__(self, agents: Sequence[Agent], directory: AgentDirectory) -> None:
        self.agents = {agent.number: agent for agent in agents}
        self.directory = directory
        self._events: list[Event] = []

    @property
    def active_agents(self) -> list[Agent]:
        return [agent for agent in self.agents.values() if agent.is_active]

    @property
    def finish_reason(self) -> str:
        """Why no agent will fetch again; empty while one may."""
        states = [agent.record.state for agent in self.agents.values()]
        # It may still respond.
        late = any(agent.alive and agent.in_flight for agent in self.agents.values())
        if late or any(state in ACTIVE_STATES for state in states):
            return ""
        return "every agent has reached its goal" if set(states) == {GOAL_REACHED} else "no agent is left at work"

    def take_events(self) -> list[Event]:
        """The events since the last call."""
        news, self._events = self._events, []
        return news

    def active_agent_for(self, number: int) -> Agent | None:
        """The agent of this number; if it is gone, a substitute: of the same topic, if there is one."""
        agent = self.agents.get(number)
        if agent is not None and agent.is_active:
            return agent
        heirs = self._successors(number)
        return heirs[number % len(heirs)] if heirs else None

    def _successors(self, number: int) -> list[Agent]:
        gone = self.agents.get(number)
        others = [agent for agent in self.active_agents if agent is not gone]
        return [a for a in others if gone is not None and a.record.topic == gone.record.topic] or others

    def reactivate(self, agent: Agent) -> None:
        """Activate an idle agent that has links again."""
        if agent.record.state == IDLE:
            self.directory.set_state(agent.number, WORKING, "")

    def check_liveness(self, now: float) -> None:
        """Find finished and missing agents. One with requests in flight must respond before its lease expires."""
        for agent in self.active_agents:
            if not agent.in_flight:
                self.directory.heartbeat(agent.number, now)
        for agent in self.active_agents:
            if agent.consecutive_failures >= MAX_CONSECUTIVE_FAILURES:
                self._remove(agent, MISSING, f"its analysis failed at {agent.consecutive_failures} pages in a row", now)
        for card in self.directory.overdue(now):
            self._remove(self.agents[card.number], MISSING, NO_HEARTBEAT, now)

    def retire(self, name: str, now: float) -> None:
        """The user retires an agent: others take over its links. An unknown name has no effect."""
        for agent in self.active_agents:
            if agent.record.name == name:
                self._remove(agent, RETIRED, RETIRED_BY_USER, now)

    def record_response(self, agent: Agent, now: float) -> None:
        """Renew the lease of an agent that responded; one that was missing is active again."""
        if agent.alive and not agent.consecutive_failures and agent.record.state == MISSING:
            self.directory.set_state(agent.number, WORKING, "")
        if agent.is_active:
            self.directory.heartbeat(agent.number, now)

    def final_check(self, now: float) -> None:
        """At the end of a crawl: agents that did not respond are missing."""
        for agent in self.agents.values():
            if not agent.alive:
                self._remove(agent, MISSING, NO_HEARTBEAT, now)

    def update_goals(self, now: float) -> None:
        """Mark agents that reached their goal or have no links left (S3-03)."""
        for agent in self.active_agents:
            if agent.has_reached_goal:
                self._finish(agent, GOAL_REACHED, f"{agent.goal} relevant pages", now)
            elif agent.is_exhausted and agent.record.state == WORKING:
                self._finish(agent, IDLE, "", now)

    def share_with_newcomers(self, now: float) -> None:
        """Give an agent that joins a resumed crawl a part of the queued links of the others of its topic."""
        for topic in dict.fromkeys(agent.record.topic for agent in self.active_agents):
            team = [agent for agent in self.active_agents if agent.record.topic == topic]
            new = [agent for agent in team if agent.is_exhausted and not agent.record.fetched]
            for giver in team if new else ():
                # The same number of links for every agent.
                parts = [*[giver] * (len(team) - len(new)), *new]
                for at, lead in enumerate(giver.queue.drain() if giver not in new else ()):
                    taker = parts[at % len(parts)]
                    taker.queue.put(_transfer(lead, taker.number), now)

    def _finish(self, agent: Agent, state: str, reason: str, now: float) -> None:
        self.directory.set_state(agent.number, state, reason)
        self._events.append(AgentFinished(at=now, agent=agent.record.name, state=state, reason=reason))

    def _remove(self, agent: Agent, state: str, reason: str, now: float) -> None:
        """Remove an agent and deal its links to the others, best first. Without others the links stay with it."""
        if agent.record.state not in ACTIVE_STATES:
            return
        self.directory.set_state(agent.number, state, reason)
        heirs = self._successors(agent.number)
        links = agent.queue.drain() if heirs else []
        for at, lead in enumerate(links):
            heir = heirs[at % len(heirs)]
            heir.queue.put(_transfer(lead, heir.number), now)
            self.reactivate(heir)
        for heir in heirs:
            heir.queue.evicted |= agent.queue.evicted
        names = tuple(heir.record.name for heir in heirs)
        self._events.append(
            AgentLost(at=now, agent=agent.record.name, reason=reason, urls=len(links), taken_over_by=names)
        )


# URLs that were requested: a cache that saves lookups in the frontier.
MAX_REMEMBERED_URLS = 500_000


class AgentManager:
    """Invariant: every queued URL is in the queue of an active agent, or in the frontier if that queue evicted it."""

    def __init__(self, agents: Sequence[Agent], directory: AgentDirectory, seeds: Mapping[int, int]) -> None:
        self.roster = AgentRoster(agents, directory)
        # Key of a seed -> number of its agent.
        self._seeds = dict(seeds)
        # URLs that were requested.
        self._done: set[int] = set()
        # The agent that was last served.
        self._last_agent = 0

    @property
    def agents(self) -> dict[int, Agent]:
        return self.roster.agents

    def load(self, entries: Iterable[FrontierEntry], now: float) -> None:
        """Give every queued URL to its agent, in the order of discovery, so that seeds are dealt in the order given."""
        for entry in entries:
            if entry.lead.tier == Tier.REVISIT:
                self.offer_revisit(entry, now)
            else:
                self.offer(entry.lead, now)

    def assign_owner(self, lead: Lead) -> Lead:
        """A lead with an owner: a seed goes to its agent, other links without one to the shortest queue."""
        if lead.agent != NO_AGENT:
            return lead
        number = self._seeds.get(lead.key, NO_AGENT)
        if number not in self.agents:
            free = self.roster.active_agents or list(self.agents.values())
            number = min(free, key=lambda agent: (len(agent.queue), agent.number)).number
        return replace(lead, agent=number)

    def offer(self, lead: Lead, now: float) -> None:
        """Queue a link with its agent or its substitute. A seed stays with its own agent until requested."""
        lead = self.assign_owner(lead)
        begins = self._seeds.get(lead.key, lead.agent)
        agent = self.roster.active_agent_for(lead.agent)
        if agent is None or lead.key in self._done or (begins != lead.agent and self._is_active(begins)):
            return
        agent.queue.put(_transfer(lead, agent.number), now)
        self.roster.reactivate(agent)

    def offer_revisit(self, entry: FrontierEntry, now: float) -> None:
        """Queue a page that its agent is to revisit; among revisits the urgency takes the place of the score."""
        lead = self.assign_owner(replace(entry.lead, score=entry.priority))
        self._done.discard(lead.key)
        agent = self.roster.active_agent_for(lead.agent)
        if agent is not None and lead.key not in agent.in_flight:
            agent.queue.put(_transfer(lead, agent.number), now, entry.seq)
            self.roster.reactivate(agent)

    def _is_active(self, number: int) -> bool:
        return number in self.agents and self.agents[number].is_active

    def next_agent(
        self, min_tier: int = Tier.LINK, boosted: Set[str] = frozenset(), waiting: Set[int] = frozenset()
    ) -> Agent | None:
        """The next agent, in turn, with a free slot and a link of the tier or above (S3-07); one that has a link of a
        boosted host comes before all others. Agents whose numbers are in `waiting` are passed over."""
        numbers = sorted(self.agents)
        start = next((at for at, n in enumerate(numbers) if n > self._last_agent), 0)
        mover: Agent | None = None
        for number in numbers[start:] + numbers[:start]:
            best = self.agents[number].next_lead(boosted)
            if best is None or best.tier < min_tier or number in waiting:
                continue
            if mover is None or best.host in boosted:
                mover = self.agents[number]
            if not boosted or best.host in boosted:
                break
        self._last_agent = mover.number if mover is not None else self._last_agent
        return mover

    def mark_requested(self, agent: Agent, leads: tuple[Lead, ...]) -> None:
        """Record an agent's requests: no other agent needs to consider these URLs."""
        if len(self._done) > MAX_REMEMBERED_URLS:
            self._done.clear()
        agent.mark_requested(leads)
        self.mark_done(lead.key for lead in leads)

    def mark_done(self, keys: Iterable[int]) -> None:
        """Record URLs that are finished for all agents."""
        for key in keys:
            self._done.add(key)
            self._seeds.pop(key, None)
            for agent in self.agents.values():
                agent.queue.discard(key)

    def request_finished(self, lead: Lead, again_at: float | None, now: float) -> None:
        """Record that a request has ended; `again_at`: it is queued again and due then."""
        asker = self.agents.get(lead.agent)
        if asker is not None:
            asker.in_flight.discard(lead.key)
        agent = self.roster.active_agent_for(lead.agent) if again_at is not None else None
        if agent is None or again_at is None:
            return
        self._done.discard(lead.key)
        lead = _transfer(lead, agent.number)
        if again_at > now:
            agent.queue.put_retry(lead, again_at)
        else:
            agent.queue.put(lead, now)
        self.roster.reactivate(agent)

    def record_response(self, lead: Lead, now: float) -> None:
        """Record that the agent that requested this link responded."""
        if (asker := self.agents.get(lead.agent)) is not None:
            self.roster.record_response(asker, now)

    def block_host(self, host: str, until: float) -> None:
        """Block a host for all agents until then."""
        for agent in self.agents.values():
            agent.queue.block_host(host, until)

    def advance_time(self, now: float) -> None:
        """Pass the time to every queue, and find missing agents."""
        for agent in self.agents.values():
            agent.queue.advance_time(now)
        self.roster.check_liveness(now)


def _transfer(lead: Lead, number: int) -> Lead:
    """The lead as another agent's. The features are dropped: only the former agent's ranker can read them."""
    return lead if lead.agent == number else replace(lead, agent=number, features=b"")
