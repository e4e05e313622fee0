"""Reads and appends commands to a crawl (`wish`): any process appends, the process that writes applies them."""

import sqlite3
from collections.abc import Sequence

import msgspec

from opilio.store.rows import read_rows


class CommandRow(msgspec.Struct, frozen=True):
    """One command: its name, what it is about, and further data."""

    id: int
    word: str
    target: str
    data: bytes


def append_command(db: sqlite3.Connection, at: float, word: str, target: str, data: bytes = b"") -> None:
    db.execute("INSERT INTO wish (at, word, target, data) VALUES (?, ?, ?, ?)", (at, word, target, data))


def commands_after(db: sqlite3.Connection, number: int) -> list[CommandRow]:
    """The commands after one in order."""
    return list(read_rows(db, CommandRow, "wish WHERE id > ? ORDER BY id", (number,)))


def commands_named(db: sqlite3.Connection, words: Sequence[str]) -> list[CommandRow]:
    """All commands with these names in order."""
    marks = ", ".join("?" * len(words))
    return list(read_rows(db, CommandRow, f"wish WHERE word IN ({marks}) ORDER BY id", words))
