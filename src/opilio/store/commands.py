"""What other processes hand to a crawl: commands, labels, and the records of agents.

Any process appends commands and labels; the writing process applies them. The latest label of a page counts.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from opilio.core.protocols import Database
from opilio.store.connection import read_rows, read_value, upsert_sql

LAST_APPLIED_META_KEY = "commands_applied"  # in `meta`: the id of the last command that was applied


class CommandRow(msgspec.Struct, frozen=True):
    """One command: its name, what it is about (a host, a URL, a pattern, an agent), and further data."""

    id: int
    name: str
    target: str
    data: bytes


def append_command(db: Database, at: float, name: str, target: str = "", data: bytes = b"") -> None:
    """Add a command, inside the caller's transaction."""
    db.execute("INSERT INTO command (at, name, target, data) VALUES (?, ?, ?, ?)", (at, name, target, data))


def commands_after(db: Database, number: int) -> list[CommandRow]:
    """The commands after one, in order."""
    return list(read_rows(db, CommandRow, "command WHERE id > ? ORDER BY id", (number,)))


def commands_named(db: Database, names: Sequence[str]) -> list[CommandRow]:
    """All commands with these names, in order, applied or not."""
    marks = ", ".join("?" * len(names))
    return list(read_rows(db, CommandRow, f"command WHERE name IN ({marks}) ORDER BY id", names))


# Stored in place of relevant or irrelevant: the label was removed.
REMOVED_LABEL = -1
MAX_LABEL_ID = (1 << 63) - 1
# A page that moves takes its last label along, unless the target is a page with a label of its own.
_COPY_LABEL = """INSERT INTO label (key, relevant, at, sample) SELECT :target, relevant, :now, sample FROM label
    WHERE key = :key AND NOT EXISTS (SELECT 1 FROM label AS l JOIN page AS p ON p.key = l.key WHERE l.key = :target)
    ORDER BY id DESC LIMIT 1"""


class LabelRow(msgspec.Struct, frozen=True):
    """One label with the terms the judge read on the page."""

    id: int
    key: int
    relevant: int
    sample: bytes


class NewLabel(NamedTuple):
    """A label to append; `relevant` None removes the last one."""

    key: int
    relevant: bool | None
    sample: bytes


class CurrentLabel(NamedTuple):
    relevant: bool
    sample: bytes


def append_labels(db: Database, labels: Iterable[NewLabel], at: float) -> None:
    db.executemany(
        "INSERT INTO label (key, relevant, at, sample) VALUES (?, ?, ?, ?)",
        [(one.key, REMOVED_LABEL if one.relevant is None else int(one.relevant), at, one.sample) for one in labels],
    )


def labels_after(db: Database, number: int) -> list[LabelRow]:
    """The labels after one in order."""
    return list(read_rows(db, LabelRow, "label WHERE id > ? ORDER BY id", (number,)))


def current_label(db: Database, key: int, before: int = MAX_LABEL_ID) -> CurrentLabel | None:
    """The last label of a page with a number below `before`; None where there is none or it was removed."""
    row = db.execute(
        "SELECT relevant, sample FROM label WHERE key = ? AND id < ? ORDER BY id DESC LIMIT 1", (key, before)
    ).fetchone()
    return None if row is None or row[0] == REMOVED_LABEL else CurrentLabel(bool(row[0]), bytes(row[1]))


def has_label_after(db: Database, key: int, number: int) -> bool:
    return read_value(db, "SELECT 1 FROM label WHERE key = ? AND id > ? LIMIT 1", (key, number)) is not None


def labeled_keys(db: Database, keys: Sequence[int]) -> set[int]:
    """Those of the keys that have labels."""
    marks = ", ".join("?" * len(keys))
    return {key for (key,) in db.execute(f"SELECT DISTINCT key FROM label WHERE key IN ({marks})", keys)}


def labeled_originals(db: Database) -> list[int]:
    """The keys of all stored pages that have labels and are not copies."""
    sql = "SELECT DISTINCT l.key FROM label AS l JOIN page AS p ON p.key = l.key WHERE p.duplicate_of = 0"
    return [key for (key,) in db.execute(sql)]


def copy_label(db: Database, key: int, target: int, now: float) -> None:
    """A page moved: its last label goes along."""
    db.execute(_COPY_LABEL, {"key": key, "target": target, "now": now})


RecordType = TypeVar("RecordType", bound=msgspec.Struct)


class VerdictRow(msgspec.Struct, frozen=True):
    """An agent's verdict on a page; `own`: it fetched the page itself."""

    agent: int
    own: bool
    score: float
    relevant: bool


_SAVE_VERDICT = upsert_sql("verdict", ("page", "agent", "own", "score", "relevant"), ("page", "agent"))


def save_agent_records(db: Database, records: Sequence[msgspec.Struct]) -> None:
    """Write the records; the fields of their type are the columns."""
    if records:
        values = [msgspec.structs.astuple(record) for record in records]
        db.executemany(upsert_sql("agent", records[0].__struct_fields__, ("number",)), values)


def set_agent_state(db: Database, name: str, state: str, reason: str) -> None:
    """Change the stored state of one agent."""
    db.execute("UPDATE agent SET state = ?, reason = ? WHERE name = ?", (state, reason, name))


def read_agent_rows(db: Database, record_type: type[RecordType]) -> list[RecordType]:
    """The records as they were saved last, by number."""
    return list(read_rows(db, record_type, "agent ORDER BY number"))


def add_verdicts(db: Database, rows: Iterable[tuple[int, int, bool, float, bool]]) -> None:
    """Store verdicts: (page, agent, own, score, relevant)."""
    db.executemany(_SAVE_VERDICT, rows)


def agent_verdicts(db: Database, page: int) -> list[VerdictRow]:
    """The verdicts of all agents on a page."""
    return list(read_rows(db, VerdictRow, "verdict WHERE page = ? ORDER BY agent", (page,)))
