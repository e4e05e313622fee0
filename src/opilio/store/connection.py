"""Connections to SQLite files, transactions, and rows read as named records."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from opilio.core.protocols import Database, Values


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


Row = TypeVar("Row", bound=msgspec.Struct)


def columns_of(row_type: type[msgspec.Struct], prefix: str = "") -> str:
    """The columns that a row type reads.

    >>> class Named(msgspec.Struct):
    ...     key: int
    ...     url: str
    >>> columns_of(Named, "p.")
    'p.key, p.url'
    """
    return ", ".join(f"{prefix}{name}" for name in row_type.__struct_fields__)


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
