"""Reads and writes the tables of agents: their records (`agent`) and their verdicts on pages (`verdict`)."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from opilio.store.rows import columns_of, read_rows

RecordType = TypeVar("RecordType", bound=msgspec.Struct)


class VerdictRow(msgspec.Struct, frozen=True):
    """An agent's verdict on a page; `own`: it fetched the page itself."""

    agent: int
    own: bool
    score: float
    relevant: bool


def save_agent_records(db: sqlite3.Connection, records: Sequence[msgspec.Struct]) -> None:
    """Write the records; the fields of their type are the columns."""
    if records:
        names = columns_of(type(records[0]))
        marks = ", ".join("?" * len(records[0].__struct_fields__))
        values = [msgspec.structs.astuple(record) for record in records]
        db.executemany(f"INSERT OR REPLACE INTO agent ({names}) VALUES ({marks})", values)


def set_agent_state(db: sqlite3.Connection, name: str, state: str, reason: str) -> None:
    """Change the stored state of one agent."""
    db.execute("UPDATE agent SET state = ?, reason = ? WHERE name = ?", (state, reason, name))


def read_agent_rows(db: sqlite3.Connection, record_type: type[RecordType]) -> list[RecordType]:
    """The records as they were saved last, by number."""
    return list(read_rows(db, record_type, "agent ORDER BY number"))


def add_verdicts(db: sqlite3.Connection, rows: Iterable[tuple[int, int, bool, float, bool]]) -> None:
    """Store verdicts: (page, agent, own, score, relevant)."""
    db.executemany("INSERT OR REPLACE INTO verdict VALUES (?, ?, ?, ?, ?)", rows)


def agent_verdicts(db: sqlite3.Connection, page: int) -> list[VerdictRow]:
    """The verdicts of all agents on a page."""
    return list(read_rows(db, VerdictRow, "verdict WHERE page = ? ORDER BY agent", (page,)))
