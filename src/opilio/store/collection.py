"""A collection: one folder with `crawl.toml`, `crawl.db` and WARC files.

Invariant: what is in the database has happened, what is not has not. One process at a time may write
(an advisory lock that the kernel releases when the process dies); any number may read.
"""

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from opilio.model.errors import CollectionError
from opilio.store.schema import APPLICATION_ID, SCHEMA_VERSION, TABLES

DATABASE = "crawl.db"
CONFIG = "crawl.toml"
LOCK = "crawl.lock"


class Collection:
    """An open collection. Use `create`, `open_for_reading` or `open_for_writing`."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: IO[str] | None = None) -> None:
        self.folder = folder
        self.connection = connection
        self._lock = lock

    @classmethod
    def create(cls, folder: Path, config: str) -> "Collection":
        """Make a new collection; refuses a folder that already holds something else."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise CollectionError(f"{folder}: is not empty and is no collection; choose another folder with --into")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = _locked(folder)
            connection = _connect(folder / DATABASE)
            with _one_transaction(connection):
                _run(connection, TABLES)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            (folder / CONFIG).write_text(config, encoding="utf-8")
        except (OSError, sqlite3.Error) as error:
            raise CollectionError(f"{folder}: can't make a collection here: {error}") from error
        return cls(folder, connection, lock)

    @classmethod
    def in_memory(cls) -> "Collection":
        """A collection without a folder: the same tables, nothing on disk. For the lab and for tests."""
        connection = sqlite3.connect(":memory:", isolation_level=None)
        _run(connection, TABLES)
        return cls(Path(), connection)

    @classmethod
    def open_for_writing(cls, folder: Path) -> "Collection":
        check(folder)
        lock = _locked(folder)
        return cls(folder, _open(folder), lock)

    @classmethod
    def open_for_reading(cls, folder: Path) -> "Collection":
        check(folder)
        connection = _open(folder)
        connection.execute("PRAGMA query_only = ON")
        return cls(folder, connection)

    @property
    def config(self) -> str:
        """The text of crawl.toml."""
        try:
            return (self.folder / CONFIG).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CollectionError(f"{self.folder / CONFIG}: can't be read: {error}") from error

    @contextmanager
    def unit_of_work(self) -> Iterator[None]:
        """Everything written inside is one commit, or nothing is."""
        try:
            with _one_transaction(self.connection):
                yield
        except sqlite3.Error as error:
            raise CollectionError(
                f"{self.folder / DATABASE}: can't write: {error}; nothing of this batch was kept"
            ) from error

    def meta(self, name: str, default: str = "") -> str:
        row = self.connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else default

    def set_meta(self, **values: str | float) -> None:
        self.connection.executemany(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            [(name, str(value)) for name, value in values.items()],
        )

    def close(self) -> None:
        self.connection.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def check(folder: Path) -> None:
    """Raise CollectionError unless the folder is a collection that this version can read."""
    database = folder / DATABASE
    if not database.is_file():
        raise CollectionError(
            f"{folder}: is no collection (no {DATABASE} in it); 'opilio crawl --into {folder}' makes one"
        )
    try:
        with database.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise CollectionError(f"{database}: can't be read: {error.strerror}") from error
    if len(header) < 100 or not header.startswith(b"SQLite format 3\x00"):
        raise CollectionError(f"{database}: is damaged (no SQLite header); restore it from a copy")
    # Offsets 60 and 68 of the header: user_version and application_id (SQLite file format, §1.3).
    version, owner = int.from_bytes(header[60:64], "big"), int.from_bytes(header[68:72], "big")
    if owner != APPLICATION_ID:
        raise CollectionError(f"{database}: was not made by Opilio; nothing was changed")
    if version > SCHEMA_VERSION:
        raise CollectionError(
            f"{database}: was made by a newer Opilio (schema {version}, this one knows {SCHEMA_VERSION}); update Opilio"
        )


def exists(folder: Path) -> bool:
    """Is there a collection in this folder (readable or not)?"""
    return (folder / DATABASE).exists()


def _open(folder: Path) -> sqlite3.Connection:
    try:
        connection = _connect(folder / DATABASE)
        connection.execute("SELECT 1 FROM meta LIMIT 1")
    except sqlite3.Error as error:
        raise CollectionError(f"{folder / DATABASE}: is damaged: {error}; restore it from a copy") from error
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=30.0)
    # NORMAL: a killed process loses nothing; after a power cut the last commits may be gone, never half there.
    connection.executescript(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536;"
        "PRAGMA mmap_size = 1073741824; PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 4000;"
    )
    return connection


def _run(connection: sqlite3.Connection, script: str) -> None:
    """Run statements one by one: executescript would end the transaction."""
    for statement in script.split(";\n"):
        if statement.strip():
            connection.execute(statement)


@contextmanager
def _one_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _locked(folder: Path) -> IO[str]:
    lock = (folder / LOCK).open("w", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise CollectionError(
            f"{folder}: another crawl is writing to this collection; wait for it or stop it"
        ) from error
    return lock


def being_written(folder: Path) -> bool:
    """Does a process hold this collection for writing at this moment?"""
    path = folder / LOCK
    if not path.exists():
        return False
    with path.open("r", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
