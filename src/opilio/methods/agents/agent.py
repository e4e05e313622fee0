"""A focused crawler agent (S3-03): a utility-based agent whose utility is the relevant pages it finds.

What it knows of the topic (table, judge, ranker, parents) is the crawl's part, one of each per agent. Here is what it
wants next and how it stands: its stack, its requests under way, its goal. Pure: it is told the time.

Seed segments: which agent begins where (S3-01, S3-08). Pure.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from opilio.core.records import Lead, Tier
from opilio.core.settings import SeedSplit
from opilio.methods.agents.link_queue import AgentLinkQueue, QueuedItem

WORKING = "working"
IDLE = "no further move"  # it may go on when somebody gives it links
GOAL_REACHED = "goal reached"
MISSING = "missing"
RETIRED = "retired"
ACTIVE_STATES = frozenset({WORKING, IDLE})
ASPIRATION_RATE = 0.05  # how fast the aspiration follows what the agent asks for


class AgentRecord(msgspec.Struct, kw_only=True):
    """What the directory knows of an agent."""

    number: int
    name: str
    topic: str
    genres: str = ""
    seeds: int = 0
    state: str = WORKING
    reason: str = ""
    fetched: int = 0  # answers it took
    pages: int = 0
    relevant: int = 0  # of those pages, judged by itself
    shared: int = 0  # relevant to it, but fetched by another
    received: int = 0  # links it got from others
    beat_at: float = 0.0


class Agent:
    """`requests` is r of S3-07; `goal` the most relevant pages it looks for, 0 for all.

    `patience`: a link that promises less than this share of one whose host is busy is left for later.
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
        self.consecutive_failures = 0  # pages in a row at which its mind failed
        self.aspiration = 0.0  # the score that its next requests have, about: a link above it is promising

    @property
    def number(self) -> int:
        return self.record.number

    @property
    def is_active(self) -> bool:
        """May it be given links and answers?"""
        return self.alive and self.record.state in ACTIVE_STATES

    @property
    def free_slots(self) -> int:
        """How many more requests it may have under way."""
        return self.max_requests - len(self.in_flight) if self.is_active else 0

    @property
    def has_reached_goal(self) -> bool:
        return 0 < self.goal <= self.record.relevant

    @property
    def is_exhausted(self) -> bool:
        """Is no move left?"""
        return not self.in_flight and not self.queue and not self.queue.evicted

    @property
    def needs_batch(self) -> bool:
        """Is an N-best order to choose again: is all of the last batch fetched?"""
        return self.queue.batch_size > 0 and not self.in_flight and not self.queue.has_batch

    def is_promising(self, lead: Lead) -> bool:
        """Would it rather ask for this than for what it asks for now?"""
        return lead.score > self.aspiration or not self.queue

    def next_lead(self, boosted: Iterable[str] = ()) -> Lead | None:
        """The best link that may be asked for now, of boosted hosts first; of others where it would rather not wait."""
        if self.free_slots <= 0:
            return None
        if (lifted := self.queue.peek(boosted)) is not None:
            return lifted
        best = self.queue.peek()
        if best is None or (self.queue.batch_size and best.tier < Tier.BATCH and not self.needs_batch):
            return None
        if not self.patience or best.score >= self.patience * self.queue.best_blocked_score:
            return best
        return None

    def take_best(self, most: int, boosted: Iterable[str] = (), min_tier: int = Tier.LINK) -> list[QueuedItem]:
        """PRIORITIZE (S3-25): its best links, all of one host, out of the queue."""
        best = self.next_lead(boosted)
        if best is None:
            return []
        if self.queue.batch_size and best.host not in set(boosted):
            min_tier = max(min_tier, Tier.BATCH)
        return self.queue.pop_from_host(best.host, max(1, min(most, self.free_slots)), min_tier)

    def mark_requested(self, leads: tuple[Lead, ...]) -> None:
        """These requests are on their way (the locked stack, S3-26)."""
        for lead in leads:
            self.in_flight.add(lead.key)
            if lead.depth:
                step = 1.0 if self.aspiration == 0.0 else ASPIRATION_RATE
                self.aspiration += step * (lead.score - self.aspiration)

    def kill(self) -> None:
        """It falls silent, wherever it stands; nobody is told."""
        self.alive = False


def split_seeds(seeds: Sequence[str], agents: int, split: SeedSplit) -> list[list[str]]:
    """Seeds in equal parts: dealt like cards, or in consecutive blocks.

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

    The others go to the agents that were given none; where all were given some, to all.

    >>> assign_seeds(["a", "b", "c"], [["x"], []], "deal")
    [['x'], ['a', 'b', 'c']]
    """
    named = {url for urls in own for url in urls}
    rest = [url for url in seeds if url not in named]
    takers = [n for n, urls in enumerate(own) if not urls] or list(range(len(own)))
    parts = dict(zip(takers, split_seeds(rest, len(takers), split), strict=True))
    return [[*urls, *parts.get(n, ())] for n, urls in enumerate(own)]
