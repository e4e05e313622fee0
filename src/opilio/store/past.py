"""How a page becomes history: its row moves from `page` to `version` as it is (S2-F6). Decides nothing."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from opilio.model.records import Fetched

_LAST = "INSERT INTO version SELECT *, ?, ?, ? FROM page WHERE key = ?"


class Stood(NamedTuple):
    """What a page that is stored was counted as."""

    relevant: bool
    duplicate_of: int


class Past:
    """The pages that a batch of visits is about, and what becomes of them. Writes inside a unit of work."""

    def __init__(self, connection: sqlite3.Connection, keys: Sequence[int]) -> None:
        self._connection = connection
        marks = ", ".join("?" * len(keys))
        rows = connection.execute(f"SELECT key, relevant, duplicate_of FROM page WHERE key IN ({marks})", keys)
        self._stood = {key: Stood(bool(relevant), original) for key, relevant, original in rows}

    def end(self, key: int, at: float, seq: int, cause: str) -> Stood | None:
        """The current version, if there is one, is past; returns what it was counted as."""
        was = self._stood.pop(key, None)
        if was is not None:
            # A clock set back must not make a version end before it began.
            since = self._connection.execute("SELECT fetched_at FROM page WHERE key = ?", (key,)).fetchone()[0]
            self._connection.execute(_LAST, (max(at, since), seq, cause, key))
            self._connection.execute("DELETE FROM page WHERE key = ?", (key,))
        return was

    def refresh(self, key: int, fetched: Fetched) -> None:
        """The same page as before, with the marks by which to ask next time."""
        etag, last_modified = fetched.header("etag"), fetched.header("last-modified")
        if etag or last_modified or fetched.status != 304:  # RFC 9110, 15.4.5: a 304 repeats what is new
            self._connection.execute(
                "UPDATE page SET etag = ?, last_modified = ? WHERE key = ?", (etag, last_modified, key)
            )
