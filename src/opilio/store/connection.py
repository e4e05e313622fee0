"""Opens SQLite databases and runs transactions on them."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def sqlite_uri(database: Path) -> str:
    """What to open, as a URI or a path (a path that begins with "/" is no URI). SQLite makes files beside a database
    that is read too; where it can't, and none were left, the database is all there is and stays as it is."""
    beside = database.with_name(f"{database.name}-wal")
    if os.access(database.parent, os.W_OK) or beside.exists():
        return str(database.absolute())
    return f"{database.absolute().as_uri()}?immutable=1"


def connect(path: Path) -> sqlite3.Connection:
    # By URI others can be attached only to be read.
    connection = sqlite3.connect(sqlite_uri(path), isolation_level=None, timeout=30.0, uri=True)
    # NORMAL: a killed process loses nothing; after a power cut the last commits may be gone, never half there.
    connection.executescript(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536;"
        "PRAGMA mmap_size = 1073741824; PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 4000;"
    )
    return connection


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run statements one by one: executescript would end the transaction."""
    for statement in script.split(";\n"):
        if statement.strip():
            connection.execute(statement)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
