"""A population of agents that is not fixed (InfoSpiders, S1-11): agents with much energy divide, agents without die.

All agents of the population are built when a crawl starts; those that are not born yet, or died, wait. An offspring
takes every second link of its parent's queue. The links of an agent that died are left until no other agent has any.
The last agent does not die, so that a crawl ends by its own rules only.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from msgspec.structs import replace

from opilio.core.events import AgentFinished, AgentRegistered, AgentsExchanged, Event
from opilio.core.protocols import RANK_STATE
from opilio.methods.agents.agent import DEAD, WORKING, Agent, AgentDirectory

NO_ENERGY = "no energy left"


@runtime_checkable
class LivingRanker(Protocol):
    """A ranker with energy. `division_lessons` are for itself and its offspring."""

    @property
    def energy(self) -> float: ...

    @property
    def can_divide(self) -> bool: ...

    @property
    def version(self) -> int: ...

    def division_lessons(self, offspring_version: int, seed: int) -> tuple[bytes, bytes]: ...


class Organism:
    """An agent with its ranker; `teach` stores a lesson for it and lets it learn."""

    def __init__(self, agent: Agent, ranker: LivingRanker, teach: Callable[[str, bytes], None]) -> None:
        self.agent = agent
        self.ranker = ranker
        self.teach = teach


class Population:
    """Decides about birth and death when agents have learnt from their pages."""

    def __init__(self, organisms: Sequence[Organism], directory: AgentDirectory) -> None:
        self._organisms = organisms
        self._directory = directory

    @property
    def _living(self) -> list[Organism]:
        return [one for one in self._organisms if one.agent.is_active]

    def update(self, now: float) -> list[Event]:
        """Let agents divide and die; returns what happened."""
        events: list[Event] = []
        for organism in self._living:
            if organism.ranker.energy <= 0.0 and len(self._living) > 1:
                events.append(self._bury(organism.agent, now))
            elif organism.ranker.can_divide and len(organism.agent.queue) > 1:
                events += self._divide(organism, now)
        return events

    def _bury(self, agent: Agent, now: float) -> Event:
        agent.queue.drain()
        self._directory.set_state(agent.number, DEAD, NO_ENERGY)
        return AgentFinished(at=now, agent=agent.record.name, state=DEAD, reason=NO_ENERGY)

    def _divide(self, parent: Organism, now: float) -> list[Event]:
        free = (one for one in self._organisms if one.agent.is_dormant and not one.agent.in_flight)
        if (offspring := next(free, None)) is None:
            return []
        seed = parent.agent.number << 32 | parent.agent.record.fetched
        lessons = parent.ranker.division_lessons(offspring.ranker.version, seed)
        for organism, lesson in zip((parent, offspring), lessons, strict=True):
            organism.teach(RANK_STATE, lesson)
        self._directory.set_state(offspring.agent.number, WORKING, "")
        self._directory.heartbeat(offspring.agent.number, now)
        _share_links(parent.agent, offspring.agent, now)
        record, count = offspring.agent.record, len(offspring.agent.queue)
        return [
            AgentRegistered(at=now, agent=record.name, topic=record.topic, seeds=0),
            AgentsExchanged(at=now, giver=parent.agent.record.name, taker=record.name, what="links", count=count),
        ]


def _share_links(parent: Agent, offspring: Agent, now: float) -> None:
    """Every second link, with its features: the ranker of the offspring can read them."""
    for at, lead in enumerate(parent.queue.drain()):
        taker = (parent, offspring)[at % 2]
        taker.queue.put(replace(lead, agent=taker.number), now)
    offspring.queue.evicted |= parent.queue.evicted
