"""URL rows of the SQLite frontier: every statement on them, each found by an index, in batches.

It executes statements only; transactions belong to the store, decisions to the frontier.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from opilio.frontier.front import Known
from opilio.frontier.order import Place
from opilio.frontier.schema import unpack

_KNOWN = "u.host_id, u.key, u.state, u.seq, u.priority, u.score, u.depth, u.tunnel, u.parent, u.parents, u.timer"
_NEWS = "found = found + ?, parents = coalesce(?, parents)"
_CHUNK = 128

InsertRow = tuple[Any, ...]  # the columns of `insert`, in that order


@cache
def _load_many(count: int) -> str:
    pairs = ", ".join(["(?, ?)"] * count)
    return (
        f"WITH k (h, k) AS (VALUES {pairs}) SELECT {_KNOWN} FROM k"
        " CROSS JOIN frontier_url u ON u.host_id = k.h AND u.key = k.k"
    )


def _known(row: Sequence[Any]) -> Known | None:
    """A row of `load` as the front remembers it."""
    host_id, _, state, seq, priority, score, depth, tunnel, parent, parents, timer = row
    if state > 1:
        return None
    return Known(host_id, seq, score, depth, tunnel, parent, parents_of(parents, parent), priority, timer, state == 1)


def parents_of(blob: bytes | None, parent: int) -> tuple[int, ...]:
    """The list is written when there is a second parent; until then the row's own column says it."""
    return unpack(blob) if blob else (parent,) if parent else ()


class Urls:
    """The URL table."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def load(self, pairs: list[tuple[int, int]]) -> Iterator[tuple[int, Known | None]]:
        """(key, what is known) of those (host id, key) pairs that have a row; None: it is settled."""
        start = 0
        while start < len(pairs):
            # Few statement lengths, so that SQLite's prepared ones are used again.
            count = next(n for n in (1, 4, 16, 64, _CHUNK) if n >= min(len(pairs) - start, _CHUNK))
            chunk = pairs[start : start + count]
            flat = [v for pair in chunk for v in pair] + [0, 0] * (count - len(chunk))
            for row in self._db.execute(_load_many(count), flat):
                yield row[1], _known(row)
            start += count

    def standing(self, host_id: int, key: int) -> tuple[int, int, float | None] | None:
        """State, tries so far, and when a retry is due."""
        row: tuple[int, int, float | None] | None = self._db.execute(
            "SELECT state, retries, not_before FROM frontier_url WHERE host_id = ? AND key = ?", (host_id, key)
        ).fetchone()
        return row

    def insert(self, rows: Iterable[InsertRow]) -> None:
        """New rows."""
        self._db.executemany(
            "INSERT INTO frontier_url (host_id, key, state, seq, priority, score, depth, tunnel, parent, hops,"
            " retries, found, url, parents, features, reason, timer)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )

    def lift(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """A better context: score, priority, timer, depth, tunnel, parent, news, features, host id, key."""
        self._db.executemany(
            f"UPDATE frontier_url SET score = ?, priority = ?, timer = ?, depth = ?, tunnel = ?, parent = ?, {_NEWS},"
            " features = coalesce(?, features) WHERE host_id = ? AND key = ?",
            rows,
        )

    def note(self, rows: Iterable[tuple[int, bytes | None, int, int]]) -> None:
        """What the front knew alone: news, host id, key. Touches no index."""
        self._db.executemany(f"UPDATE frontier_url SET {_NEWS} WHERE host_id = ? AND key = ?", rows)

    def settle(self, rows: Iterable[tuple[int, str | None, int, bytes | None, int, int]]) -> None:
        """No longer queued: state, reason, news, host id, key."""
        self._db.executemany(
            f"UPDATE frontier_url SET state = ?, reason = ?, {_NEWS} WHERE host_id = ? AND key = ?", rows
        )

    def retry(self, rows: Iterable[tuple[int, str | None, float | None, int, bytes | None, int, int]]) -> None:
        """Back in the queue: state, reason, not before, news, host id, key."""
        self._db.executemany(
            f"UPDATE frontier_url SET state = ?, reason = ?, not_before = ?, {_NEWS}, retries = retries + 1"
            " WHERE host_id = ? AND key = ?",
            rows,
        )

    def revive(self, rows: Iterable[tuple[int, int, float]]) -> list[tuple[int, int, int]]:
        """(host id, key, priority): done, failed and queued rows wait in front; (host id, key, what they were)."""
        found = []
        for host_id, key, priority in rows:
            row = self._db.execute(
                "SELECT state FROM frontier_url WHERE host_id = ? AND key = ? AND state IN (0, 2, 3)", (host_id, key)
            ).fetchone()
            if row is not None:
                found.append((host_id, key, row[0]))
                self._db.execute(
                    "UPDATE frontier_url SET state = 0, reason = NULL, priority = ?, timer = NULL, retries = 0"
                    " WHERE host_id = ? AND key = ?",
                    (priority, host_id, key),
                )
        return found

    def place(self, rows: Iterable[tuple[float, float, float | None, int, int]]) -> None:
        """Another place for an entry: score, priority, timer, host id, key."""
        self._db.executemany(
            "UPDATE frontier_url SET score = ?, priority = ?, timer = ? WHERE host_id = ? AND key = ?", rows
        )

    def wake_retries(self, now: float) -> list[tuple[int, int]]:
        """Retries whose time has come are queued again: (host id, key)."""
        due = self._db.execute(
            "SELECT host_id, key FROM frontier_url WHERE state = 1 AND not_before <= ?", (now,)
        ).fetchall()
        self._db.executemany("UPDATE frontier_url SET state = 0, not_before = NULL WHERE host_id = ? AND key = ?", due)
        return due

    def due(self, tick: float) -> list[tuple[int, int, int, float, Place]]:
        """Entries whose timer has run: (host id, key, seq, score, place)."""
        rows = self._db.execute(
            "SELECT host_id, key, seq, score, priority, timer FROM frontier_url"
            " WHERE timer IS NOT NULL AND state < 2 AND timer <= ?",
            (tick,),
        ).fetchall()
        return [(host_id, key, seq, score, Place(p, t)) for host_id, key, seq, score, p, t in rows]

    def unsettled(self, host_id: int, pattern: str = "*") -> list[tuple[int, int]]:
        """(host id, key) of what is queued, waiting or in flight at a host, with an address like `pattern`."""
        rows = self._db.execute("SELECT key, url FROM frontier_url WHERE host_id = ? AND state < 2", (host_id,))
        return [(host_id, key) for key, url in rows.fetchall() if fnmatchcase(url, pattern)]
