"""Who is at work, who is missing, and who goes on with whose links (S3-03, S3-04). Does no I/O itself."""

from collections.abc import Sequence

from opilio.agents.agent import AT_WORK, IDLE, MISSING, RETIRED, SATISFIED, WORKING, Agent
from opilio.agents.directory import Directory
from opilio.agents.tags import passed_on
from opilio.model.events import AgentFinished, AgentMissing, Event

MOST_BROKEN = 5  # a page may be to blame; five in a row hardly
SILENT = "gave no sign of life"


class Roll:
    """The agents by number, as the directory knows them."""

    def __init__(self, agents: Sequence[Agent], directory: Directory) -> None:
        self.agents = {agent.number: agent for agent in agents}
        self.directory = directory
        self._news: list[Event] = []

    @property
    def at_work(self) -> list[Agent]:
        return [agent for agent in self.agents.values() if agent.at_work]

    @property
    def finished(self) -> str:
        """Why nobody will move again, or nothing while somebody may."""
        states = [agent.card.state for agent in self.agents.values()]
        late = any(agent.alive and agent.flying for agent in self.agents.values())  # it may answer after all
        if late or any(state in AT_WORK for state in states):
            return ""
        return "every agent has reached its goal" if set(states) == {SATISFIED} else "no agent is left at work"

    def news(self) -> list[Event]:
        """What has happened since it was last asked."""
        news, self._news = self._news, []
        return news

    def answering(self, number: int) -> Agent | None:
        """The agent of this number; where it is gone, one that stands in for it: of the same topic, if there is one."""
        agent = self.agents.get(number)
        if agent is not None and agent.at_work:
            return agent
        heirs = self._heirs(number)
        return heirs[number % len(heirs)] if heirs else None

    def _heirs(self, number: int) -> list[Agent]:
        gone = self.agents.get(number)
        others = [agent for agent in self.at_work if agent is not gone]
        return [a for a in others if gone is not None and a.card.topic == gone.card.topic] or others

    def stir(self, agent: Agent) -> None:
        """Who rested has something to do again."""
        if agent.card.state == IDLE:
            self.directory.close(agent.number, WORKING, "")

    def look(self, now: float) -> None:
        """Find who went home and who is missing. Who waits for no answer lives; who does shows it by taking one."""
        for agent in self.at_work:
            if not agent.flying:
                self.directory.beat(agent.number, now)
        for number in self.directory.retirements():
            self._leave(self.agents[number], RETIRED, "sent home by a person", now)
        for agent in self.at_work:
            if agent.broken >= MOST_BROKEN:
                self._leave(agent, MISSING, f"its mind failed at {agent.broken} pages in a row", now)
        for card in self.directory.overdue(now):
            self._leave(self.agents[card.number], MISSING, SILENT, now)

    def answered(self, agent: Agent, now: float) -> None:
        """A sign of life; who was given up and answers after all is back, with what it finds from now on."""
        if agent.alive and not agent.broken and agent.card.state == MISSING:
            self.directory.close(agent.number, WORKING, "")
        if agent.at_work:
            self.directory.beat(agent.number, now)

    def call(self, now: float) -> None:
        """At the end: whoever says nothing is missing."""
        for agent in self.agents.values():
            if not agent.alive:
                self._leave(agent, MISSING, SILENT, now)

    def note_goals(self, now: float) -> None:
        """Who has found enough, or has no move left (S3-03)."""
        for agent in self.at_work:
            if agent.satisfied:
                self._finish(agent, SATISFIED, f"{agent.goal} relevant pages", now)
            elif agent.stuck and agent.card.state == WORKING:
                self._finish(agent, IDLE, "", now)

    def welcome(self, now: float) -> None:
        """Who joins a crawl that goes on begins with a part of what the others of its topic have waiting."""
        for topic in dict.fromkeys(agent.card.topic for agent in self.at_work):
            crew = [agent for agent in self.at_work if agent.card.topic == topic]
            new = [agent for agent in crew if agent.stuck and not agent.card.fetched]
            for giver in crew if new else ():
                parts = [*[giver] * (len(crew) - len(new)), *new]  # the same number of links for everybody
                for at, lead in enumerate(giver.stack.drain() if giver not in new else ()):
                    taker = parts[at % len(parts)]
                    taker.stack.put(passed_on(lead, taker.number), now)

    def _finish(self, agent: Agent, state: str, reason: str, now: float) -> None:
        self.directory.close(agent.number, state, reason)
        self._news.append(AgentFinished(at=now, agent=agent.card.name, state=state, reason=reason))

    def _leave(self, agent: Agent, state: str, reason: str, now: float) -> None:
        """An agent is gone: its links are dealt to the others, best first. Where nobody is left they stay with it."""
        if agent.card.state not in AT_WORK:
            return
        self.directory.close(agent.number, state, reason)
        heirs = self._heirs(agent.number)
        links = agent.stack.drain() if heirs else []
        for at, lead in enumerate(links):
            heir = heirs[at % len(heirs)]
            heir.stack.put(passed_on(lead, heir.number), now)
            self.stir(heir)
        for heir in heirs:
            heir.stack.spilled |= agent.stack.spilled
        names = tuple(heir.card.name for heir in heirs)
        self._news.append(
            AgentMissing(at=now, agent=agent.card.name, reason=reason, urls=len(links), taken_over_by=names)
        )
