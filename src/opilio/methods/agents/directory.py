"""The directory service (S3-04): agents register, renew their lease, and report the relevant URLs they find.

It writes records and reports to the collection inside the caller's transaction, and knows agents by number only.
An agent's lease is renewed by every response, on the crawl's clock; an agent with an expired lease is missing.
"""

from collections.abc import Iterable
from typing import NamedTuple

from opilio.core.protocols import Database
from opilio.methods.agents.agent import ACTIVE_STATES, MISSING, RETIRED, WORKING, AgentRecord
from opilio.store.commands import add_verdicts, read_agent_rows, save_agent_records, set_agent_state

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
                if before.state == RETIRED:
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
