"""The directory service (S3-04): agents register, show that they live, and report the relevant URLs they find.

It keeps cards and reports in the collection, inside whoever's unit of work, and knows agents by number only.
An agent holds a lease on its place that every sign of life renews, on the crawl's clock; one that lapsed is missing.
"""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from opilio.agents.agent import AT_WORK, MISSING, RETIRED, WORKING, Card

RETIRE = "retire"  # the word of a wish: send an agent home
LEFT_OUT = "not among the agents of this run"
_NAMES = Card.__struct_fields__  # the columns of the table, in that order
_SAVE = "INSERT OR REPLACE INTO agent VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Report(NamedTuple):
    """What an agent found a page to be. `own`: it asked for the page itself."""

    page: int
    agent: int
    own: bool
    score: float
    relevant: bool


class Directory:
    """Invariant: between two commits the rows say what the cards said at the last `save`."""

    def __init__(self, connection: sqlite3.Connection, lease_s: float) -> None:
        self._connection = connection
        self._lease_s = lease_s
        self._taken = 0  # the last wish that was looked at
        self._left_out: list[Card] = []  # agents of an earlier run that had more of them
        self.cards: dict[int, Card] = {}

    def register(self, cards: Iterable[Card], now: float) -> None:
        """Take agents in. Who is known goes on with its counts: whoever died is alive again, unless it was retired."""
        known = {card.number: card for card in read_cards(self._connection)}
        for card in cards:
            before = known.get(card.number)
            if before is not None:
                for name in ("fetched", "pages", "relevant", "shared", "received"):
                    setattr(card, name, getattr(before, name))
                if before.state == RETIRED:
                    card.state, card.reason = before.state, before.reason
            card.beat_at = now
            self.cards[card.number] = card
        self._left_out = [card for number, card in known.items() if number not in self.cards and card.state in AT_WORK]
        for card in self._left_out:
            card.state, card.reason = MISSING, LEFT_OUT

    def beat(self, number: int, now: float) -> None:
        """A sign of life."""
        self.cards[number].beat_at = now

    def overdue(self, now: float) -> list[Card]:
        """Who should have shown a sign of life by now."""
        return [c for c in self.cards.values() if c.state == WORKING and c.beat_at + self._lease_s <= now]

    @property
    def first_lapse(self) -> float | None:
        """When the next lease runs out."""
        return min((c.beat_at + self._lease_s for c in self.cards.values() if c.state == WORKING), default=None)

    def close(self, number: int, state: str, reason: str) -> None:
        """An agent's work has ended."""
        self.cards[number].state, self.cards[number].reason = state, reason

    def report(self, reports: Iterable[Report]) -> None:
        """What agents found pages to be."""
        self._connection.executemany("INSERT OR REPLACE INTO verdict VALUES (?, ?, ?, ?, ?)", reports)

    def save(self) -> None:
        """Write the cards down."""
        cards = (*self.cards.values(), *self._left_out)
        self._connection.executemany(_SAVE, [msgspec.structs.astuple(card) for card in cards])

    def retirements(self) -> list[int]:
        """Agents that a person has sent home since it was last asked; unknown names are nobody."""
        rows = self._connection.execute(
            "SELECT id, target FROM wish WHERE id > ? AND word = ? ORDER BY id", (self._taken, RETIRE)
        ).fetchall()
        numbers = {card.name: card.number for card in self.cards.values()}
        self._taken = rows[-1][0] if rows else self._taken
        return [numbers[name] for _, name in rows if name in numbers]

    @property
    def lost(self) -> list[Card]:
        """Who is gone for good."""
        return [card for card in self.cards.values() if card.state in (MISSING, RETIRED)]


def read_cards(connection: sqlite3.Connection) -> list[Card]:
    """The cards as they were saved last."""
    rows = connection.execute("SELECT * FROM agent ORDER BY number")
    return [Card(**dict(zip(_NAMES, row, strict=True))) for row in rows]
