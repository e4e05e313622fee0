"""A focused crawler agent (S3-03): a utility-based agent whose utility is the relevant pages it finds.

What it knows of the topic (table, judge, ranker, parents) is the crawl's part, one of each per agent. Here is what it
wants next and how it stands: its stack, its requests under way, its goal. Pure: it is told the time.
"""

from collections.abc import Iterable

import msgspec

from opilio.agents.stack import Item, Stack
from opilio.model.records import Lead

WORKING = "working"
IDLE = "no further move"  # it may go on when somebody gives it links
SATISFIED = "goal reached"
MISSING = "missing"
RETIRED = "retired"
AT_WORK = frozenset({WORKING, IDLE})
FORGETTING = 0.05  # how fast the aspiration follows what the agent asks for


class Card(msgspec.Struct, kw_only=True):
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

    def __init__(self, card: Card, stack: Stack, requests: int, goal: int = 0, patience: float = 0.0) -> None:
        self.card = card
        self.stack = stack
        self.requests = requests
        self.goal = goal
        self.patience = patience
        self.flying: set[int] = set()
        self.alive = True
        self.broken = 0  # pages in a row at which its mind failed
        self.aspiration = 0.0  # the score that its next requests have, about: a link above it is promising

    @property
    def number(self) -> int:
        return self.card.number

    @property
    def at_work(self) -> bool:
        """May it be given links and answers?"""
        return self.alive and self.card.state in AT_WORK

    @property
    def room(self) -> int:
        """How many more requests it may have under way."""
        return self.requests - len(self.flying) if self.at_work else 0

    @property
    def satisfied(self) -> bool:
        return 0 < self.goal <= self.card.relevant

    @property
    def stuck(self) -> bool:
        """Is no move left?"""
        return not self.flying and not self.stack and not self.stack.spilled

    def finds_promising(self, lead: Lead) -> bool:
        """Would it rather ask for this than for what it asks for now?"""
        return lead.score > self.aspiration or not self.stack

    def wish(self, boosted: Iterable[str] = ()) -> Lead | None:
        """The best link that may be asked for now, of boosted hosts first; of others where it would rather not wait."""
        if self.room <= 0:
            return None
        if (lifted := self.stack.first(boosted)) is not None:
            return lifted
        best = self.stack.first()
        if best is None or not self.patience or best.score >= self.patience * self.stack.best_asleep:
            return best
        return None

    def pick(self, most: int, boosted: Iterable[str] = ()) -> list[Item]:
        """PRIORITIZE (S3-25): its best links, all of one host, out of the stack."""
        best = self.wish(boosted)
        return [] if best is None else self.stack.take(best.host, max(1, min(most, self.room)))

    def asked(self, leads: tuple[Lead, ...]) -> None:
        """These requests are on their way (the locked stack, S3-26)."""
        for lead in leads:
            self.flying.add(lead.key)
            if lead.depth:
                step = 1.0 if self.aspiration == 0.0 else FORGETTING
                self.aspiration += step * (lead.score - self.aspiration)

    def kill(self) -> None:
        """It falls silent, wherever it stands; nobody is told."""
        self.alive = False
