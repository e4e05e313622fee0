"""Reads and appends commands to a crawl (`command`): any process appends, the process that writes applies them."""

import sqlite3
from collections.abc import Sequence

import msgspec

from opilio.store.rows import read_rows

LAST_APPLIED_META_KEY = "commands_applied"  # in `meta`: the id of the last command that was applied


class CommandRow(msgspec.Struct, frozen=True):
    """One command: its name, what it is about (a host, a URL, a pattern, an agent), and further data."""

    id: int
    name: str
    target: str
    data: bytes


def append_command(db: sqlite3.Connection, at: float, name: str, target: str = "", data: bytes = b"") -> None:
    """Add a command, inside the caller's transaction."""
    db.execute("INSERT INTO command (at, name, target, data) VALUES (?, ?, ?, ?)", (at, name, target, data))


def commands_after(db: sqlite3.Connection, number: int) -> list[CommandRow]:
    """The commands after one, in order."""
    return list(read_rows(db, CommandRow, "command WHERE id > ? ORDER BY id", (number,)))


def commands_named(db: sqlite3.Connection, names: Sequence[str]) -> list[CommandRow]:
    """All commands with these names, in order, applied or not."""
    marks = ", ".join("?" * len(names))
    return list(read_rows(db, CommandRow, f"command WHERE name IN ({marks}) ORDER BY id", names))
