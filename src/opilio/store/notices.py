"""The table `notice`: sitemaps and feeds, and when each was last asked for. Decides nothing."""

import sqlite3
from collections.abc import Sequence

from opilio.model.records import key_of


class Notices:
    """Reads and writes it; transactions belong to the collection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def add(self, urls: Sequence[str], host: str, kind: str, most: int) -> None:
        """Remember these, as far as the host has no more than so many."""
        known = self._db.execute("SELECT count(*) FROM notice WHERE host = ?", (host,)).fetchone()[0]
        self._db.executemany(
            "INSERT OR IGNORE INTO notice VALUES (?, ?, ?, ?, 0, '', '', 0)",
            [(key_of(url), url, host, kind) for url in dict.fromkeys(urls)][: max(0, most - known)],
        )

    def due(self, before: float) -> list[tuple[str, int, str]]:
        """(url, key, host) of those that were last asked for before that time."""
        return self._db.execute("SELECT url, key, host FROM notice WHERE asked_at <= ? LIMIT 100", (before,)).fetchall()

    def asked(self, key: int, now: float) -> None:
        self._db.execute("UPDATE notice SET asked_at = ? WHERE key = ?", (now, key))

    def came(self, key: int, marks: tuple[str, str], entries: int) -> None:
        """Keep by what marks to ask next time, and how many pages it told of."""
        self._db.execute(
            "UPDATE notice SET etag = ?, last_modified = ?, entries = ? WHERE key = ?", (*marks, entries, key)
        )
