"""The manager (S3-01): whose turn it is and who gets a link. Does no I/O itself.

Agents share one frontier, so a URL is fetched once and a host is asked by one of them at a time, whatever they want.

Who is at work, who is missing, and who goes on with whose links (S3-03, S3-04). Does no I/O itself.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

from msgspec.structs import replace

from opilio.core.events import AgentFinished, AgentLost, Event
from opilio.core.protocols import FrontierEntry
from opilio.core.records import NO_AGENT, Lead, Tier
from opilio.methods.agents.agent import ACTIVE_STATES, GOAL_REACHED, IDLE, MISSING, RETIRED, WORKING, Agent
from opilio.methods.agents.directory import RETIRED_BY_USER, AgentDirectory

MAX_CONSECUTIVE_FAILURES = 5  # a page may be to blame; five in a row hardly
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
        """Why nobody will move again, or nothing while somebody may."""
        states = [agent.record.state for agent in self.agents.values()]
        late = any(agent.alive and agent.in_flight for agent in self.agents.values())  # it may answer after all
        if late or any(state in ACTIVE_STATES for state in states):
            return ""
        return "every agent has reached its goal" if set(states) == {GOAL_REACHED} else "no agent is left at work"

    def take_events(self) -> list[Event]:
        """What has happened since it was last asked."""
        news, self._events = self._events, []
        return news

    def active_agent_for(self, number: int) -> Agent | None:
        """The agent of this number; where it is gone, one that stands in for it: of the same topic, if there is one."""
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
        """Who rested has something to do again."""
        if agent.record.state == IDLE:
            self.directory.set_state(agent.number, WORKING, "")

    def check_liveness(self, now: float) -> None:
        """Find who went home and who is missing. Who waits for no answer lives; who does shows it by taking one."""
        for agent in self.active_agents:
            if not agent.in_flight:
                self.directory.heartbeat(agent.number, now)
        for agent in self.active_agents:
            if agent.consecutive_failures >= MAX_CONSECUTIVE_FAILURES:
                self._remove(agent, MISSING, f"its mind failed at {agent.consecutive_failures} pages in a row", now)
        for card in self.directory.overdue(now):
            self._remove(self.agents[card.number], MISSING, NO_HEARTBEAT, now)

    def retire(self, name: str, now: float) -> None:
        """The user retires an agent: others take over its links. An unknown name has no effect."""
        for agent in self.active_agents:
            if agent.record.name == name:
                self._remove(agent, RETIRED, RETIRED_BY_USER, now)

    def record_response(self, agent: Agent, now: float) -> None:
        """A sign of life; who was given up and answers after all is back, with what it finds from now on."""
        if agent.alive and not agent.consecutive_failures and agent.record.state == MISSING:
            self.directory.set_state(agent.number, WORKING, "")
        if agent.is_active:
            self.directory.heartbeat(agent.number, now)

    def final_check(self, now: float) -> None:
        """At the end: whoever says nothing is missing."""
        for agent in self.agents.values():
            if not agent.alive:
                self._remove(agent, MISSING, NO_HEARTBEAT, now)

    def update_goals(self, now: float) -> None:
        """Who has found enough, or has no move left (S3-03)."""
        for agent in self.active_agents:
            if agent.has_reached_goal:
                self._finish(agent, GOAL_REACHED, f"{agent.goal} relevant pages", now)
            elif agent.is_exhausted and agent.record.state == WORKING:
                self._finish(agent, IDLE, "", now)

    def share_with_newcomers(self, now: float) -> None:
        """Who joins a crawl that goes on begins with a part of what the others of its topic have waiting."""
        for topic in dict.fromkeys(agent.record.topic for agent in self.active_agents):
            crew = [agent for agent in self.active_agents if agent.record.topic == topic]
            new = [agent for agent in crew if agent.is_exhausted and not agent.record.fetched]
            for giver in crew if new else ():
                parts = [*[giver] * (len(crew) - len(new)), *new]  # the same number of links for everybody
                for at, lead in enumerate(giver.queue.drain() if giver not in new else ()):
                    taker = parts[at % len(parts)]
                    taker.queue.put(_transfer(lead, taker.number), now)

    def _finish(self, agent: Agent, state: str, reason: str, now: float) -> None:
        self.directory.set_state(agent.number, state, reason)
        self._events.append(AgentFinished(at=now, agent=agent.record.name, state=state, reason=reason))

    def _remove(self, agent: Agent, state: str, reason: str, now: float) -> None:
        """An agent is gone: its links are dealt to the others, best first. Where nobody is left they stay with it."""
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


MAX_REMEMBERED_URLS = 500_000  # URLs that were asked for: remembered to spare a look into the frontier, no more


class AgentManager:
    """Invariant: every queued URL is in the stack of an agent at work, or in the frontier behind a spilled one."""

    def __init__(self, agents: Sequence[Agent], directory: AgentDirectory, seeds: Mapping[int, int]) -> None:
        self.roster = AgentRoster(agents, directory)
        self._seeds = dict(seeds)  # key of a seed to the agent that begins there
        self._done: set[int] = set()  # URLs that were asked for
        self._last_agent = 0  # whose turn it was

    @property
    def agents(self) -> dict[int, Agent]:
        return self.roster.agents

    def load(self, entries: Iterable[FrontierEntry], now: float) -> None:
        """Give every queued URL to its agent; in the order of discovery, so that seeds are dealt as they were named."""
        for entry in entries:
            if entry.lead.tier == Tier.REVISIT:
                self.offer_revisit(entry, now)
            else:
                self.offer(entry.lead, now)

    def assign_owner(self, lead: Lead) -> Lead:
        """A lead with an owner: a seed goes to its agent, what was found elsewhere to whoever has least to do."""
        if lead.agent != NO_AGENT:
            return lead
        number = self._seeds.get(lead.key, NO_AGENT)
        if number not in self.agents:
            free = self.roster.active_agents or list(self.agents.values())
            number = min(free, key=lambda agent: (len(agent.queue), agent.number)).number
        return replace(lead, agent=number)

    def offer(self, lead: Lead, now: float) -> None:
        """A link for its agent, or for who took its place. A seed is its own agent's until that has asked for it."""
        lead = self.assign_owner(lead)
        begins = self._seeds.get(lead.key, lead.agent)
        agent = self.roster.active_agent_for(lead.agent)
        if agent is None or lead.key in self._done or (begins != lead.agent and self._is_active(begins)):
            return
        agent.queue.put(_transfer(lead, agent.number), now)
        self.roster.reactivate(agent)

    def offer_revisit(self, entry: FrontierEntry, now: float) -> None:
        """A page that its agent is to revisit; among revisits the urgency takes the place of the score."""
        lead = self.assign_owner(replace(entry.lead, score=entry.priority))
        self._done.discard(lead.key)
        agent = self.roster.active_agent_for(lead.agent)
        if agent is not None and lead.key not in agent.in_flight:
            agent.queue.put(_transfer(lead, agent.number), now, entry.seq)
            self.roster.reactivate(agent)

    def _is_active(self, number: int) -> bool:
        return number in self.agents and self.agents[number].is_active

    def next_agent(self, min_tier: int = Tier.LINK, boosted: Set[str] = frozenset()) -> Agent | None:
        """The next agent, in turn, with a free slot and a link of the tier or above (S3-07); one that has a link of a
        boosted host comes before all others."""
        numbers = sorted(self.agents)
        start = next((at for at, n in enumerate(numbers) if n > self._last_agent), 0)
        mover: Agent | None = None
        for number in numbers[start:] + numbers[:start]:
            best = self.agents[number].next_lead(boosted)
            if best is None or best.tier < min_tier:
                continue
            if mover is None or best.host in boosted:
                mover = self.agents[number]
            if not boosted or best.host in boosted:
                break
        self._last_agent = mover.number if mover is not None else self._last_agent
        return mover

    def mark_requested(self, agent: Agent, leads: tuple[Lead, ...]) -> None:
        """An agent's requests are on their way: no other agent needs to look at these URLs."""
        if len(self._done) > MAX_REMEMBERED_URLS:
            self._done.clear()
        agent.mark_requested(leads)
        self.mark_done(lead.key for lead in leads)

    def mark_done(self, keys: Iterable[int]) -> None:
        """These URLs are nobody's concern any more."""
        for key in keys:
            self._done.add(key)
            self._seeds.pop(key, None)
            for agent in self.agents.values():
                agent.queue.discard(key)

    def request_finished(self, lead: Lead, again_at: float | None, now: float) -> None:
        """A request has ended; `again_at`: it is queued again and due then."""
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
        """Whoever asked for this has taken the answer."""
        if (asker := self.agents.get(lead.agent)) is not None:
            self.roster.record_response(asker, now)

    def block_host(self, host: str, until: float) -> None:
        """No agent may ask a host before then."""
        for agent in self.agents.values():
            agent.queue.block_host(host, until)

    def advance_time(self, now: float) -> None:
        """Let every stack know the time, and find who is missing."""
        for agent in self.agents.values():
            agent.queue.advance_time(now)
        self.roster.check_liveness(now)


def _transfer(lead: Lead, number: int) -> Lead:
    """The lead as another agent's. The features stay behind: only its own ranker can read them."""
    return lead if lead.agent == number else replace(lead, agent=number, features=b"")
