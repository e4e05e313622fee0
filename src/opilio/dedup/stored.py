"""Duplicate detection in the collection's database, so that it survives a restart (S4-15).

Executes statements on the given connection; the caller owns transactions, so that a text is seen exactly if the visit
that found it is committed. Fingerprints are signed 64-bit integers, as in SQLite and PostgreSQL.
"""

from opilio.core.protocols import Database
from opilio.dedup.detector import MAX_CANDIDATES, MAX_DISTANCE, BandDetector
from opilio.dedup.fingerprint import simhash_bands

DEDUP_TABLES = (
    "CREATE TABLE IF NOT EXISTS texts (fingerprint INTEGER PRIMARY KEY, key INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS text_signatures (key INTEGER PRIMARY KEY, simhash INTEGER NOT NULL)",
    """CREATE TABLE IF NOT EXISTS text_bands
    (band INTEGER NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (band, key)) WITHOUT ROWID""",
)
_SAVE_SIGNATURE = "INSERT INTO text_signatures VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET simhash = excluded.simhash"


def create_dedup_tables(connection: Database) -> None:
    """Create the tables if they are missing."""
    for statement in DEDUP_TABLES:
        connection.execute(statement)


def add_signatures(connection: Database, simhashes: list[tuple[int, int]]) -> None:
    """Store the near-duplicate signatures of (key, simhash) pairs; known keys keep theirs. For a merge in SQLite."""
    connection.executemany("INSERT OR IGNORE INTO main.text_signatures VALUES (?, ?)", simhashes)
    bands = [(band, key) for key, simhash in simhashes for band in simhash_bands(simhash)]
    connection.executemany("INSERT OR IGNORE INTO main.text_bands VALUES (?, ?)", bands)


class StoredDuplicateDetector(BandDetector):
    """Implements `DuplicateDetector` on tables that `create_dedup_tables` made."""

    def __init__(self, connection: Database, near: bool = False, max_distance: int = MAX_DISTANCE) -> None:
        super().__init__(near, max_distance)
        self._connection = connection

    def forget(self, key: int, fingerprint: int, *, gone: bool = False) -> None:
        """Remove the text of a page that changed or is gone, so that the next page with it is no duplicate."""
        self._connection.execute("DELETE FROM texts WHERE fingerprint = ? AND key = ?", (fingerprint, key))
        if not gone:
            return
        row = self._connection.execute("SELECT simhash FROM text_signatures WHERE key = ?", (key,)).fetchone()
        if row is not None:
            old = [(band, key) for band in simhash_bands(row[0])]
            self._connection.executemany("DELETE FROM text_bands WHERE band = ? AND key = ?", old)
            self._connection.execute("DELETE FROM text_signatures WHERE key = ?", (key,))

    def _first_page(self, fingerprint: int, key: int) -> int:
        # Most texts are new: one statement for them.
        new = "INSERT INTO texts VALUES (?, ?) ON CONFLICT DO NOTHING"
        if self._connection.execute(new, (fingerprint, key)).rowcount == 1:
            return key
        row = self._connection.execute("SELECT key FROM texts WHERE fingerprint = ?", (fingerprint,)).fetchone()
        return int(row[0])

    def _candidates(self, key: int, simhash: int) -> list[tuple[int, int]]:
        query = (
            "SELECT DISTINCT s.key, s.simhash FROM text_bands b JOIN text_signatures s ON s.key = b.key"
            " WHERE b.band IN (?, ?, ?, ?) AND b.key <> ? LIMIT ?"
        )
        return self._connection.execute(query, (*simhash_bands(simhash), key, 4 * MAX_CANDIDATES)).fetchall()

    def _remember(self, key: int, simhash: int) -> None:
        known = self._connection.execute("SELECT simhash FROM text_signatures WHERE key = ?", (key,)).fetchone()
        if known is not None:
            old = [(band, key) for band in simhash_bands(known[0])]
            self._connection.executemany("DELETE FROM text_bands WHERE band = ? AND key = ?", old)
        self._connection.execute(_SAVE_SIGNATURE, (key, simhash))
        new = [(band, key) for band in simhash_bands(simhash)]
        self._connection.executemany("INSERT INTO text_bands VALUES (?, ?)", new)
