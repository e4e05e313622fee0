"""The manager (S3-01): whose turn it is and who gets a link. Does no I/O itself.

Agents share one frontier, so a URL is fetched once and a host is asked by one of them at a time, whatever they want.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

from msgspec.structs import replace

from opilio.agents.agent import Agent
from opilio.agents.directory import Directory
from opilio.agents.roll import Roll
from opilio.agents.tags import NOBODY, owner, passed_on, tagged
from opilio.frontier.order import AGAIN
from opilio.model.protocols import Entry
from opilio.model.records import Lead

REMEMBERED = 500_000  # URLs that were asked for: remembered to spare a look into the frontier, no more


class Manager:
    """Invariant: every queued URL is in the stack of an agent at work, or in the frontier behind a spilled one."""

    def __init__(self, agents: Sequence[Agent], directory: Directory, seeds: Mapping[int, int]) -> None:
        self.roll = Roll(agents, directory)
        self._seeds = dict(seeds)  # key of a seed to the agent that begins there
        self._done: set[int] = set()  # URLs that were asked for
        self._last = 0  # whose turn it was

    @property
    def agents(self) -> dict[int, Agent]:
        return self.roll.agents

    def load(self, entries: Iterable[Entry], now: float) -> None:
        """Give every queued URL to its agent; in the order of discovery, so that seeds are dealt as they were named."""
        for entry in entries:
            if entry.priority >= AGAIN:
                self.offer_again(replace(entry.lead, score=entry.priority), now)
            else:
                self.offer(entry.lead, now)

    def claimed_by(self, lead: Lead) -> Lead:
        """A lead with an owner: a seed goes to its agent, what was found elsewhere to whoever has least to do."""
        if owner(lead) != NOBODY:
            return lead
        number = self._seeds.get(lead.key, NOBODY)
        if number not in self.agents:
            free = self.roll.at_work or list(self.agents.values())
            number = min(free, key=lambda agent: (len(agent.stack), agent.number)).number
        return tagged(lead, number)

    def offer(self, lead: Lead, now: float) -> None:
        """A link for its agent, or for who took its place. A seed is its own agent's until that has asked for it."""
        lead = self.claimed_by(lead)
        begins = self._seeds.get(lead.key, owner(lead))
        agent = self.roll.answering(owner(lead))
        if agent is None or lead.key in self._done or (begins != owner(lead) and self._waits(begins)):
            return
        agent.stack.put(passed_on(lead, agent.number), now)
        self.roll.stir(agent)

    def offer_again(self, lead: Lead, now: float) -> None:
        """A page that its agent is to look at once more."""
        self._done.discard(lead.key)
        lead = self.claimed_by(lead)
        agent = self.roll.answering(owner(lead))
        if agent is not None and lead.key not in agent.flying:
            agent.stack.put(passed_on(lead, agent.number), now)
            self.roll.stir(agent)

    def _waits(self, number: int) -> bool:
        return number in self.agents and self.agents[number].at_work

    def next_mover(self, above: float = float("-inf"), boosted: Set[str] = frozenset()) -> Agent | None:
        """The next agent, in turn, that has room for a request and a link (not below that score) to ask for (S3-07);
        who has one of a boosted host comes before all others."""
        numbers = sorted(self.agents)
        start = next((at for at, n in enumerate(numbers) if n > self._last), 0)
        mover: Agent | None = None
        for number in numbers[start:] + numbers[:start]:
            best = self.agents[number].wish(boosted)
            if best is None or best.score < above:
                continue
            if mover is None or best.host in boosted:
                mover = self.agents[number]
            if not boosted or best.host in boosted:
                break
        self._last = mover.number if mover is not None else self._last
        return mover

    def asked(self, agent: Agent, leads: tuple[Lead, ...]) -> None:
        """An agent's requests are on their way: no other agent needs to look at these URLs."""
        if len(self._done) > REMEMBERED:
            self._done.clear()
        agent.asked(leads)
        self.settle(lead.key for lead in leads)

    def settle(self, keys: Iterable[int]) -> None:
        """These URLs are nobody's concern any more."""
        for key in keys:
            self._done.add(key)
            self._seeds.pop(key, None)
            for agent in self.agents.values():
                agent.stack.discard(key)

    def landed(self, lead: Lead, again_at: float | None, now: float) -> None:
        """A request has ended; `again_at`: it is queued again and due then."""
        asker = self.agents.get(owner(lead))
        if asker is not None:
            asker.flying.discard(lead.key)
        agent = self.roll.answering(owner(lead)) if again_at is not None else None
        if agent is None or again_at is None:
            return
        self._done.discard(lead.key)
        lead = passed_on(lead, agent.number)
        if again_at > now:
            agent.stack.put_later(lead, again_at)
        else:
            agent.stack.put(lead, now)
        self.roll.stir(agent)

    def answered(self, lead: Lead, now: float) -> None:
        """Whoever asked for this has taken the answer."""
        if (asker := self.agents.get(owner(lead))) is not None:
            self.roll.answered(asker, now)

    def rest(self, host: str, until: float) -> None:
        """No agent may ask a host before then."""
        for agent in self.agents.values():
            agent.stack.sleep(host, until)

    def pass_time(self, now: float) -> None:
        """Let every stack know the time, and find who is missing."""
        for agent in self.agents.values():
            agent.stack.wake(now)
        self.roll.look(now)
