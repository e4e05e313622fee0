"""The manifest of an index: what was indexed and what was derived from it, in `index/derived.db`.

The mark `seq` is the last indexed response of the collection. It is written after the engine's commit, so that a
process that is killed in between indexes the same pages again, which changes nothing.
"""

import io
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

from opilio.core.files import write_atomically
from opilio.search.index import translate_index_errors
from opilio.search.meaning import MEANING_ROW, PageMeanings
from opilio.store.connection import sqlite_uri

MANIFEST_FILE = "derived.db"
# New vectors at which the file of all vectors is written again: these, and a share of those in the file. Until then
# readers get them from the database, 4 µs each.
MIN_NEW_VECTORS, NEW_VECTORS_SHARE = 200, 0.05

MANIFEST_TABLES = """
CREATE TABLE IF NOT EXISTS mark (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
-- One row per current document: the response that stored its page, the number of known pages with links to it,
-- the stems of a relevant page for clustering, and its subtopic in the index.
CREATE TABLE IF NOT EXISTS entry (key INTEGER PRIMARY KEY, seq INTEGER NOT NULL, parents INTEGER NOT NULL,
  relevant INTEGER NOT NULL, words BLOB NOT NULL, subtopic TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS subtopic (name TEXT PRIMARY KEY, place INTEGER NOT NULL, words TEXT NOT NULL,
  centre BLOB NOT NULL) WITHOUT ROWID;
-- The vectors of a page (search.meaning). A page indexed again gets a new number: readers load new rows only.
CREATE TABLE IF NOT EXISTS meaning (id INTEGER PRIMARY KEY AUTOINCREMENT, key INTEGER NOT NULL UNIQUE,
  vectors BLOB NOT NULL);
"""
_INIT_SCRIPT = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;" + MANIFEST_TABLES


class ManifestEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The stored facts about a document."""

    key: int
    seq: int
    parent_count: int
    relevant: bool
    words: bytes
    subtopic: str
    # Of the meaning; last, because it has its own table.
    vectors: bytes


class IndexManifest:
    """The database of one index. A writer must hold the index lock."""

    def __init__(self, folder: Path) -> None:
        path = folder / MANIFEST_FILE
        with translate_index_errors(folder):
            if not path.exists():
                _create_database(path)
            self.connection = sqlite3.connect(
                sqlite_uri(path), isolation_level=None, timeout=30.0, check_same_thread=False, uri=True
            )
            try:
                self.connection.executescript(_INIT_SCRIPT)
            except sqlite3.Error:
                self.connection.close()
                raise

    def mark(self, name: str) -> int:
        """A stored number; 0 if there is none."""
        row = self.connection.execute("SELECT value FROM mark WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else 0

    def set_marks(self, **values: int) -> None:
        self.connection.executemany(
            "INSERT INTO mark VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", values.items()
        )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything inside the block in one transaction."""
        with self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            yield

    def write_entries(self, entries: Iterable[ManifestEntry]) -> None:
        for entry in entries:
            *facts, vectors = msgspec.structs.astuple(entry)
            self.connection.execute("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?)", facts)
            self.connection.execute("INSERT OR REPLACE INTO meaning (key, vectors) VALUES (?, ?)", (entry.key, vectors))

    def delete_entries(self, keys: Iterable[int]) -> None:
        chosen = [(key,) for key in keys]
        for table in ("entry", "meaning"):
            self.connection.executemany(f"DELETE FROM {table} WHERE key = ?", chosen)

    def count(self, *, relevant_only: bool = False) -> int:
        found = self.connection.execute(f"SELECT count(*) FROM entry {'WHERE relevant' if relevant_only else ''}")
        return int(found.fetchone()[0])

    def indexed_versions(self) -> dict[int, int]:
        """The answer number of the indexed version by page."""
        return dict(self.connection.execute("SELECT key, seq FROM entry"))

    def subtopics(self) -> list[tuple[str, str, bytes]]:
        """(name, words, centroid) in order of size."""
        return self.connection.execute("SELECT name, words, centre FROM subtopic ORDER BY place").fetchall()

    def write_subtopics(self, rows: Sequence[tuple[str, str, bytes]]) -> None:
        self.connection.execute("DELETE FROM subtopic")
        self.connection.executemany(
            "INSERT INTO subtopic VALUES (?, ?, ?, ?)",
            [(name, place, words, centre) for place, (name, words, centre) in enumerate(rows)],
        )

    def close(self) -> None:
        self.connection.close()


def read_meanings(manifest: IndexManifest, last: int) -> list[tuple[int, int, bytes]]:
    """(number, key, vectors) of pages written after the row with this number."""
    return manifest.connection.execute("SELECT id, key, vectors FROM meaning WHERE id > ?", (last,)).fetchall()


def store_meanings(folder: Path, manifest: IndexManifest) -> None:
    """Write all vectors into one file, which is read at once, if many are new since it was written.

    The file is complete before its mark is set: a reader that sees the mark finds these vectors or newer ones.
    """
    last, stored = manifest.mark("vectors_upto"), manifest.mark("vectors_stored")
    db = manifest.connection
    (new,) = db.execute("SELECT count(*) FROM meaning WHERE id > ?", (last,)).fetchone()
    if new <= MIN_NEW_VECTORS + NEW_VECTORS_SHARE * stored:
        return
    (newest,) = db.execute("SELECT max(id) FROM meaning").fetchone()
    found = db.execute("SELECT key, vectors FROM meaning ORDER BY key").fetchall()
    rows = np.empty(len(found), dtype=MEANING_ROW)
    rows["key"] = [key for key, _ in found]
    rows["vectors"] = np.frombuffer(b"".join(blob for _, blob in found), dtype=np.int8).reshape(len(found), -1)
    file = io.BytesIO()
    np.save(file, rows)
    write_atomically(_vectors_file(folder, manifest), file.getvalue())
    manifest.set_marks(vectors_upto=newest, vectors_stored=len(found))


def load_stored_meanings(folder: Path, manifest: IndexManifest) -> PageMeanings:
    """The vectors of that file; nothing if it is missing or damaged: the database has all of them."""
    origin, last = manifest.mark("origin"), manifest.mark("vectors_upto")
    if last:
        with suppress(OSError, ValueError):
            rows = np.load(_vectors_file(folder, manifest), mmap_mode="r")
            if rows.dtype == MEANING_ROW:
                return PageMeanings.from_rows(rows, origin, last)
    return PageMeanings.empty(origin)


def _vectors_file(folder: Path, manifest: IndexManifest) -> Path:
    """Named after the database, so that it is never taken for that of an earlier index."""
    return folder / f"vectors-{manifest.mark('origin'):x}.npy"


def _create_database(path: Path) -> None:
    """Create the database atomically: two processes that open a new one at once would block each other's journal."""
    with suppress(OSError), TemporaryDirectory(dir=path.parent) as place:
        made = Path(place) / MANIFEST_FILE
        with closing(sqlite3.connect(made)) as connection:
            connection.executescript(_INIT_SCRIPT)
            # Distinguishes this database from the one of an earlier index, whose numbers a reader may still have.
            connection.execute("INSERT INTO mark VALUES ('origin', abs(random() % 9007199254740992))")
            connection.commit()
        # Unlike a rename, a link does not replace a database that another process created meanwhile.
        os.link(made, path)
