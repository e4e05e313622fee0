"""What the index has taken in, and what was worked out from it: `index/derived.db`, beside the engine's files.

The mark tells up to which commit of the collection pages were taken in. It moves after the engine's own commit, so a
process that is killed between the two takes the same pages in again, which changes nothing.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

NAME = "derived.db"

TABLES = """
CREATE TABLE IF NOT EXISTS mark (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
-- One row per document: the commit of the page it was made of, and how many pages with links to it were known then.
CREATE TABLE IF NOT EXISTS entry (key INTEGER PRIMARY KEY, seq INTEGER NOT NULL, parents INTEGER NOT NULL,
  relevant INTEGER NOT NULL, targets BLOB NOT NULL, terms BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS authority (key INTEGER PRIMARY KEY, value REAL NOT NULL);
CREATE TABLE IF NOT EXISTS subtopic (number INTEGER PRIMARY KEY, name TEXT NOT NULL, words TEXT NOT NULL,
  pages INTEGER NOT NULL, centre BLOB NOT NULL);
"""


class Manifest:
    """The database of one index. Whoever writes holds the lock of the index."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / NAME, isolation_level=None, timeout=30.0, check_same_thread=False)
        self._connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;" + TABLES)

    @property
    def connection(self) -> sqlite3.Connection:
        return self._connection

    def mark(self, name: str, default: int = 0) -> int:
        row = self._connection.execute("SELECT value FROM mark WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else default

    def set_marks(self, **values: int) -> None:
        self._connection.executemany(
            "INSERT INTO mark VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            [(name, str(value)) for name, value in values.items()],
        )

    def keep(self, entries: Iterable[Sequence[object]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?)", entries)
        self._connection.execute("COMMIT")

    def drop(self, keys: Iterable[int]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("DELETE FROM entry WHERE key = ?", [(key,) for key in keys])
        self._connection.execute("COMMIT")

    def count(self, relevant_only: bool = False) -> int:
        wanted = "WHERE relevant = 1" if relevant_only else ""
        found: int = self._connection.execute(f"SELECT count(*) FROM entry {wanted}").fetchone()[0]
        return found

    def known(self) -> Iterator[tuple[int, int, int]]:
        """(key, seq, parents) of every document."""
        yield from self._connection.execute("SELECT key, seq, parents FROM entry ORDER BY key")

    def close(self) -> None:
        self._connection.close()
