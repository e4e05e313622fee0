"""Connections to SQLite files, transactions, rows read as named records, and the locks of a collection.

Locks: one process writes, any number read, and files that a reader needs are not deleted. They are advisory locks,
which the kernel releases when a process dies. The writer's is on `crawl.lock`, which contains the name of its command;
readers share one on the folder itself, which also works on a read-only disk.
"""

import errno
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from opilio.core.errors import CollectionError
from opilio.core.protocols import Database, Values

DATABASE = "crawl.db"
CONFIG = "crawl.toml"
BUSY_TIMEOUT_MS = 30_000
# Errors that no damage causes: of the disk, of permissions, of other processes.
_NO_DAMAGE = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_BUSY,
)
# Attempts to read files that another process changes, and the time between two.
MAX_READ_ATTEMPTS, READ_RETRY_S = 20, 0.05


def log_of(database: Path) -> Path:
    """The write-ahead log of a database."""
    return database.with_name(f"{database.name}-wal")


def has_log(database: Path) -> bool:
    """Whether a database has a write-ahead log that is not empty."""
    log = log_of(database)
    return log.exists() and log.stat().st_size > 0


def sqlite_uri(database: Path, *, readonly: bool = False) -> str:
    """The URI or path for SQLite.

    To read a database SQLite creates files next to it; if it can't, and a writer left none, the database is opened as
    immutable. A reader does not change a log that it finds, even if it is the last to close the database: `verify`
    checks the log of a killed process, and the next writer uses it.
    """
    log_exists = log_of(database).exists()
    if not os.access(database.parent, os.W_OK):
        return str(database.absolute()) if log_exists else f"{database.absolute().as_uri()}?immutable=1"
    return f"{database.absolute().as_uri()}?mode=ro" if readonly and log_exists else str(database.absolute())


Value = TypeVar("Value")


def read_patiently(read: Callable[[], Value], errors: type[Exception], may_change: Callable[[], bool]) -> Value:
    """What `read` returns; after an error it is tried again, as long as another process may change the files."""
    for _ in range(MAX_READ_ATTEMPTS - 1):
        try:
            return read()
        except errors:
            if not may_change():
                raise
        time.sleep(READ_RETRY_S)
    return read()


def read_database(database: Path, read: Callable[[], Value]) -> Value:
    """What `read` returns from a database. In a folder that can't be written SQLite fails if another process creates or
    removes the log meanwhile, so it is tried again."""
    return read_patiently(read, sqlite3.Error, lambda: not os.access(database.parent, os.W_OK))


def connect(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    # By URI others can be attached only to be read.
    uri = sqlite_uri(path, readonly=readonly)
    connection = sqlite3.connect(uri, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000, uri=True)
    # NORMAL: a killed process loses nothing; after a power cut the last commits may be gone, never half there.
    # `WriterSeal` runs the checkpoints.
    connection.executescript(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -32768;"
        "PRAGMA mmap_size = 1073741824; PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 0;"
        "PRAGMA journal_size_limit = 0;"
    )
    return connection


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run statements one by one: executescript would end the transaction."""
    for statement in script.split(";\n"):
        if statement.strip():
            connection.execute(statement)


@contextmanager
def transaction(connection: Database) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def read_header(database: Path) -> tuple[int, int]:
    """Version and owner in the file's header. SQLite reads them: to open and close the file ourselves would release
    all locks this process holds on it (POSIX, fcntl), and its readers could see a partial transaction."""
    try:
        if database.stat().st_size < 100:
            raise sqlite3.DatabaseError("no SQLite header")
        if not os.access(database, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        version, owner = read_database(database, lambda: _version_and_owner(database))
    except OSError as error:
        raise CollectionError(f"{database}: can't be read: {error.strerror}") from error
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            problem = "can't be opened in a folder that can't be written: a crawl writes or was killed"
            raise CollectionError(f"{database}: {problem}; copy the folder elsewhere") from error
        if not _is_damage(error):
            raise database_error(database.parent, error) from error
        raise CollectionError(f"{database}: is damaged (no SQLite header); restore it from a copy") from error
    return version, owner


def _version_and_owner(database: Path) -> tuple[int, int]:
    uri = sqlite_uri(database, readonly=True)
    with closing(sqlite3.connect(uri, timeout=BUSY_TIMEOUT_MS / 1000, uri=True)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
    return int(version), int(owner)


def database_error(folder: Path, error: sqlite3.Error) -> CollectionError:
    """The error message for a database that can't be used."""
    hint = "restore a copy of it" if _is_damage(error) else "is the disk full, or failing?"
    return CollectionError(f"{folder / DATABASE}: can't be used: {error}; {hint}")


def tables_of_blocks(database: Path, blocks: Set[int], block_bytes: int) -> dict[int, set[str]]:
    """The tables and indexes that these blocks of a database hold; none if damage prevents it."""
    held: dict[int, set[str]] = {}
    try:
        with closing(sqlite3.connect(sqlite_uri(database, readonly=True), uri=True)) as connection:
            (size,) = connection.execute("PRAGMA page_size").fetchone()
            for name, page in connection.execute("SELECT name, pageno FROM dbstat"):
                if (block := (page - 1) * size // block_bytes) in blocks:
                    held.setdefault(block, set()).add(name)
    except sqlite3.Error:
        return {}
    return held


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is damaged. SQLite also fails if a disk is full or slow, or permission is missing."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF not in _NO_DAMAGE


Row = TypeVar("Row", bound=msgspec.Struct)


@cache
def columns_of(row_type: type[msgspec.Struct], prefix: str = "") -> str:
    """The columns that a row type reads.

    >>> class Named(msgspec.Struct):
    ...     key: int
    ...     url: str
    >>> columns_of(Named, "p.")
    'p.key, p.url'
    """
    return ", ".join(f"{prefix}{name}" for name in row_type.__struct_fields__)


@cache
def row_reader(row_type: type[Row]) -> Callable[[Sequence[Any]], Row]:
    """Makes rows of a type from tuples. SQLite has no booleans: a field that is one is converted."""
    names = row_type.__struct_fields__
    flags = [at for at, field in enumerate(msgspec.structs.fields(row_type)) if field.type is bool]
    keyword_only = len(row_type.__match_args__) < len(names)
    if not flags and not keyword_only:
        # The common case, kept fast: the web pages read every row of a collection once.
        return lambda values: row_type(*values)

    def read(values: Sequence[Any]) -> Row:
        if flags:
            values = list(values)
            for at in flags:
                values[at] = bool(values[at])
        return row_type(**dict(zip(names, values, strict=True))) if keyword_only else row_type(*values)

    return read


def read_rows(db: Database, row_type: type[Row], source: str, values: Values = ()) -> Iterator[Row]:
    """The rows of `SELECT <fields of the type> FROM <source>`; a stream."""
    rows = db.execute(f"SELECT {columns_of(row_type)} FROM {source}", values)
    return map(row_reader(row_type), rows)


def read_row(db: Database, row_type: type[Row], source: str, values: Values = ()) -> Row | None:
    """The first such row, if there is one."""
    return next(read_rows(db, row_type, source, values), None)


def read_value(db: Database, sql: str, values: Values = ()) -> Any:  # noqa: ANN401 a cell of any type
    """The first column of the first row; None where there is no row."""
    row = db.execute(sql, values).fetchone()
    return None if row is None else row[0]


def upsert_sql(table: str, columns: Sequence[str], keys: Sequence[str]) -> str:
    """The statement that inserts a row, or replaces the one with the same key.

    >>> upsert_sql("move", ("key", "target"), ("key",))
    'INSERT INTO move (key, target) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET target = excluded.target'
    """
    values = ", ".join("?" * len(columns))
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in keys)
    insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"
    return f"{insert} ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {changes}"


LOCK_FILE = "crawl.lock"
INDEX_FOLDER = "index"  # derived from the rest, by `search`
# In the cache of a collection in PostgreSQL: its address.
LINK_FILE = "database.toml"
CRAWL_COMMAND = "crawl"  # the default command name of a writer
RETRY_INTERVAL_S = 0.01
# `current_writer` holds the lock for a moment while it checks.
LOCK_TIMEOUT_S = 0.2
# Most commands other than a crawl have ended by then.
COMMAND_LOCK_TIMEOUT_S = 2.0


def acquire_write_lock(folder: Path, work: str = CRAWL_COMMAND, patience_s: float = LOCK_TIMEOUT_S) -> IO[str]:
    """Take the write lock; CollectionError names the current holder. Closing the file releases it."""
    held = (folder / LOCK_FILE).open("a", encoding="utf-8")
    for _ in range(round(patience_s / RETRY_INTERVAL_S)):
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(RETRY_INTERVAL_S)
        else:
            # A full disk: the lock works without the name.
            with suppress(OSError):
                held.truncate(0)
                held.write(work)
                held.flush()
            return held
    held.close()
    other = current_writer(folder)
    who = "another crawl" if other in (CRAWL_COMMAND, "") else f"'opilio {other}'"
    raise CollectionError(f"{folder}: {who} is writing to this collection; wait for it or stop it")


def current_writer(folder: Path) -> str:
    """The command of the process that writes to a collection now; empty if no process does."""
    if (folder / LINK_FILE).exists():
        from opilio.store.postgres.collection import database_writer

        return database_writer(folder)
    try:
        held = (folder / LOCK_FILE).open("r", encoding="utf-8", errors="replace")
    except OSError:
        return ""
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return held.read(100) or CRAWL_COMMAND
    return ""


def has_writer(folder: Path) -> bool:
    """Whether a process writes to this collection now."""
    return current_writer(folder) != ""


def is_crawl_running(folder: Path) -> bool:
    """Whether a crawl writes to it now: a crawl applies commands meanwhile, other writers do not."""
    return current_writer(folder) == CRAWL_COMMAND


@contextmanager
def hold_files(folder: Path) -> Iterator[None]:
    """Keep all files until the block ends, also those that `compact` would delete."""
    try:
        place = os.open(folder, os.O_RDONLY)
    # Opening the files reports it.
    except OSError:
        yield
        return
    try:
        # A file system without locks.
        with suppress(OSError):
            fcntl.flock(place, fcntl.LOCK_SH)
        yield
    finally:
        os.close(place)


@contextmanager
def try_exclusive_lock(folder: Path) -> Iterator[bool]:
    """True if no process uses files of this collection; then none can start to until the block ends."""
    place = os.open(folder, os.O_RDONLY)
    try:
        yield _try_flock_exclusive(place)
    finally:
        os.close(place)


def _try_flock_exclusive(place: int) -> bool:
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    # A file system without locks.
    except OSError:
        return True
    return True
