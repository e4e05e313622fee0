"""A focused crawler agent (S3-03), and the directory service (S3-04).

An agent is a utility-based agent whose utility is the number of relevant pages it finds: its queue, its requests in
flight and its goal are here. What it knows of the topic (table, judge, ranker) belongs to the crawl's parts, one set
per agent. Also here: how seeds are split over agents (S3-01, S3-08). Time is an argument.

Agents register with the directory, renew their lease and report. The directory writes records and reports to the
collection inside the caller's transaction, and knows agents by number only. An agent's lease is renewed by every
response, on the crawl's clock; an agent with an expired lease is missing.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from opilio.core.events import AgentFinished, AgentRegistered, AgentsExchanged, Event
from opilio.core.protocols import RANK_STATE, Database
from opilio.core.records import Lead, Tier
from opilio.core.settings import SeedSplit
from opilio.methods.agents.link_queue import AgentLinkQueue, QueuedItem
from opilio.store.run_tables import add_verdicts, read_agent_rows, save_agent_records, set_agent_state

WORKING = "working"
# An idle agent becomes active again when it gets links.
IDLE = "no further move"
GOAL_REACHED = "goal reached"
MISSING = "missing"
RETIRED = "retired"
# Agents of a population (`Population`) that wait to be born, or that died and may be born again.
UNBORN = "unborn"
DEAD = "dead"
ACTIVE_STATES = frozenset({WORKING, IDLE})
DORMANT_STATES = frozenset({UNBORN, DEAD})
# How fast the aspiration follows the scores of the links that the agent requests.
ASPIRATION_RATE = 0.05


class AgentRecord(msgspec.Struct, kw_only=True):
    """The directory's record of an agent."""

    number: int
    name: str
    topic: str
    genres: str = ""
    seeds: int = 0
    state: str = WORKING
    reason: str = ""
    fetched: int = 0  # responses it received
    pages: int = 0
    relevant: int = 0  # pages of those that it judged relevant
    # Pages relevant to it that another agent fetched.
    shared: int = 0
    received: int = 0  # links it got from other agents
    beat_at: float = 0.0


class Agent:
    """`requests` is r of S3-07; `goal` the number of relevant pages after which it stops, 0 for no limit.

    `patience`: a link with less than this share of the score of one whose host is busy is left for later.
    """

    def __init__(
        self, card: AgentRecord, stack: AgentLinkQueue, requests: int, goal: int = 0, patience: float = 0.0
    ) -> None:
        self.record = card
        self.queue = stack
        self.max_requests = requests
        self.goal = goal
        self.patience = patience
        self.in_flight: set[int] = set()
        self.alive = True
        # Pages in a row at which its analysis failed.
        self.consecutive_failures = 0
        # About the score of its next requests: a link above it is promising.
        self.aspiration = 0.0

    @property
    def number(self) -> int:
        return self.record.number

    @property
    def is_active(self) -> bool:
        """May it receive links and responses?"""
        return self.alive and self.record.state in ACTIVE_STATES

    @property
    def is_dormant(self) -> bool:
        """Can it be born?"""
        return self.alive and self.record.state in DORMANT_STATES

    @property
    def free_slots(self) -> int:
        """How many more requests it may have in flight."""
        return self.max_requests - len(self.in_flight) if self.is_active else 0

    @property
    def has_reached_goal(self) -> bool:
        return 0 < self.goal <= self.record.relevant

    @property
    def is_exhausted(self) -> bool:
        """Is its queue empty with nothing in flight?"""
        return not self.in_flight and not self.queue and not self.queue.evicted

    @property
    def needs_batch(self) -> bool:
        """Must an N-best order choose again because the last batch is fetched?"""
        return self.queue.batch_size > 0 and not self.in_flight and not self.queue.has_batch

    def is_promising(self, lead: Lead) -> bool:
        """Is this link better than those it requests now?"""
        return lead.score > self.aspiration or not self.queue

    def next_lead(self, boosted: Iterable[str] = ()) -> Lead | None:
        """Its best link that may be fetched now, boosted hosts first; None where waiting for a busy host is better."""
        if self.free_slots <= 0:
            return None
        if (lifted := self.queue.peek(boosted)) is not None:
            return lifted
        best = self.queue.peek()
        if best is None or (self.queue.batch_size and best.tier < Tier.FIRST and not self.needs_batch):
            return None
        if not self.patience or best.score >= self.patience * self.queue.best_blocked_score:
            return best
        return None

    def take_best(self, most: int, boosted: Iterable[str] = (), min_tier: int = Tier.LINK) -> list[QueuedItem]:
        """PRIORITIZE (S3-25): take its best links, all of one host, out of the queue."""
        best = self.next_lead(boosted)
        if best is None:
            return []
        if self.queue.batch_size and best.host not in set(boosted):
            min_tier = max(min_tier, Tier.FIRST)
        return self.queue.pop_from_host(best.host, max(1, min(most, self.free_slots)), min_tier)

    def mark_requested(self, leads: tuple[Lead, ...]) -> None:
        """Record requests as in flight (the locked stack, S3-26)."""
        for lead in leads:
            self.in_flight.add(lead.key)
            if lead.depth:
                step = 1.0 if self.aspiration == 0.0 else ASPIRATION_RATE
                self.aspiration += step * (lead.score - self.aspiration)

    def kill(self) -> None:
        """Stop responding, without a report to the directory."""
        self.alive = False


def split_seeds(seeds: Sequence[str], agents: int, split: SeedSplit) -> list[list[str]]:
    """Seeds in equal parts: round robin (`deal`) or in consecutive blocks.

    >>> split_seeds(["a", "b", "c", "d", "e"], 2, "deal"), split_seeds(["a", "b", "c", "d", "e"], 2, "blocks")
    ([['a', 'c', 'e'], ['b', 'd']], [['a', 'b', 'c'], ['d', 'e']])
    """
    if split == "deal":
        return [list(seeds[first::agents]) for first in range(agents)]
    size, more = divmod(len(seeds), agents)
    ends = [size * n + min(n, more) for n in range(agents + 1)]
    return [list(seeds[begin:end]) for begin, end in pairwise(ends)]


def assign_seeds(seeds: Sequence[str], own: Sequence[Sequence[str]], split: SeedSplit) -> list[list[str]]:
    """Each agent's seeds: those it was given itself, and its part of the others.

    The others go to the agents without seeds of their own; if all have some, to all.

    >>> assign_seeds(["a", "b", "c"], [["x"], []], "deal")
    [['x'], ['a', 'b', 'c']]
    """
    named = {url for urls in own for url in urls}
    rest = [url for url in seeds if url not in named]
    takers = [n for n, urls in enumerate(own) if not urls] or list(range(len(own)))
    parts = dict(zip(takers, split_seeds(rest, len(takers), split), strict=True))
    return [[*urls, *parts.get(n, ())] for n, urls in enumerate(own)]


RETIRED_BY_USER = "retired by the user"
NOT_IN_THIS_RUN = "not among the agents of this run"


class AgentReport(NamedTuple):
    """An agent's verdict on a page. `own`: it requested the page itself."""

    page: int
    agent: int
    own: bool
    score: float
    relevant: bool


class AgentDirectory:
    """Invariant: between two commits the rows equal the records at the last `save`."""

    def __init__(self, connection: Database, lease_s: float) -> None:
        self._connection = connection
        self._lease_s = lease_s
        # Agents of an earlier run that are not in this one.
        self._absent: list[AgentRecord] = []
        self.records: dict[int, AgentRecord] = {}

    def register(self, cards: Iterable[AgentRecord], now: float) -> None:
        """Register agents. A known agent keeps its counts; a missing one is active again, a retired one is not."""
        known = {card.number: card for card in read_agent_records(self._connection)}
        for card in cards:
            before = known.get(card.number)
            if before is not None:
                for name in ("fetched", "pages", "relevant", "shared", "received"):
                    setattr(card, name, getattr(before, name))
                card.state, card.reason = WORKING, ""
                if before.state == RETIRED or before.state in DORMANT_STATES:
                    card.state, card.reason = before.state, before.reason
            card.beat_at = now
            self.records[card.number] = card
        self._absent = [
            card for number, card in known.items() if number not in self.records and card.state in ACTIVE_STATES
        ]
        for card in self._absent:
            card.state, card.reason = MISSING, NOT_IN_THIS_RUN

    def heartbeat(self, number: int, now: float) -> None:
        """Renew an agent's lease."""
        self.records[number].beat_at = now

    def overdue(self, now: float) -> list[AgentRecord]:
        """Agents whose lease has expired."""
        return [c for c in self.records.values() if c.state == WORKING and c.beat_at + self._lease_s <= now]

    @property
    def next_lease_expiry(self) -> float | None:
        """When the next lease expires."""
        return min((c.beat_at + self._lease_s for c in self.records.values() if c.state == WORKING), default=None)

    def set_state(self, number: int, state: str, reason: str) -> None:
        """Record that an agent has stopped."""
        self.records[number].state, self.records[number].reason = state, reason

    def add_reports(self, reports: Iterable[AgentReport]) -> None:
        """Record verdicts of agents."""
        add_verdicts(self._connection, reports)

    def save(self) -> None:
        """Write the records."""
        cards = (*self.records.values(), *self._absent)
        save_agent_records(self._connection, cards)


def read_agent_records(connection: Database) -> list[AgentRecord]:
    """The records as they were saved last."""
    return read_agent_rows(connection, AgentRecord)


def mark_retired(connection: Database, name: str) -> None:
    """Retire an agent while no crawl runs: the next run gives its links to others."""
    set_agent_state(connection, name, RETIRED, RETIRED_BY_USER)


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
    """Decides about birth and death when agents have learned from their pages."""

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
