"""The content-seen test: in memory for tests, the lab and short crawls, and in the collection's database (S4-15).

`StoredDuplicateDetector` survives a restart. It executes statements on the given connection; the caller owns
transactions, so that a text is seen exactly if the visit that found it is committed. Fingerprints are signed 64-bit
integers, as in SQLite and PostgreSQL.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence

from opilio.core.protocols import Database
from opilio.dedup.fingerprint import nearest_simhash, simhash_bands

MAX_DISTANCE = 3
# A band that thousands of pages share is useless; the limit keeps a test cheap.
MAX_CANDIDATES = 2_000


class BandDetector(ABC):
    """The test itself, by fingerprint and by bands of the SimHash; subclasses store both.

    Invariant: the first page with a text is its original, and a page is no duplicate of itself when it is fetched
    again. Fingerprints and signatures of 0 match nothing and are not stored.
    """

    def __init__(self, near: bool = False, max_distance: int = MAX_DISTANCE) -> None:
        self._near = near
        self._max_distance = max_distance

    def find_original(self, key: int, fingerprint: int, simhash: int) -> tuple[int, bool] | None:
        """The original of this text and whether it is a near duplicate; None for a new text, which is stored."""
        if fingerprint:
            original = self._first_page(fingerprint, key)
            if original != key:
                return original, False
        if not self._near or not simhash:
            return None
        near = nearest_simhash(simhash, self._candidates(key, simhash), self._max_distance)
        if near is not None:
            return near, True
        self._remember(key, simhash)
        return None

    @abstractmethod
    def _first_page(self, fingerprint: int, key: int) -> int:
        """The first page with this fingerprint: `key` for a new one, which is stored."""

    @abstractmethod
    def _candidates(self, key: int, simhash: int) -> Sequence[tuple[int, int]]:
        """Key and signature of the other pages that share a band."""

    @abstractmethod
    def _remember(self, key: int, simhash: int) -> None:
        """Store the signature of a page, in place of an older one."""


class MemoryDuplicateDetector(BandDetector):
    """Implements `DuplicateDetector` with dictionaries."""

    def __init__(self, near: bool = False, max_distance: int = MAX_DISTANCE) -> None:
        super().__init__(near, max_distance)
        self._exact: dict[int, int] = {}
        self._signatures: dict[int, int] = {}
        self._bands: defaultdict[int, list[int]] = defaultdict(list)

    def _first_page(self, fingerprint: int, key: int) -> int:
        return self._exact.setdefault(fingerprint, key)

    def forget(self, key: int, fingerprint: int, *, gone: bool = False) -> None:
        """Remove the text of a page that changed or is gone, so that the next page with it is no duplicate."""
        if self._exact.get(fingerprint) == key:
            del self._exact[fingerprint]
        signature = self._signatures.pop(key, None) if gone else None
        if signature is not None:
            for band in simhash_bands(signature):
                self._bands[band].remove(key)

    def _candidates(self, key: int, simhash: int) -> list[tuple[int, int]]:
        found = dict.fromkeys(
            k for band in simhash_bands(simhash) for k in self._bands[band][:MAX_CANDIDATES] if k != key
        )
        return [(k, self._signatures[k]) for k in found]

    def _remember(self, key: int, simhash: int) -> None:
        if key in self._signatures:
            for band in simhash_bands(self._signatures[key]):
                self._bands[band].remove(key)
        self._signatures[key] = simhash
        for band in simhash_bands(simhash):
            self._bands[band].append(key)


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
