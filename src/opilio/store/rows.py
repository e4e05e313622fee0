"""Rows with names: the fields of a Struct say which columns a query reads."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

Row = TypeVar("Row", bound=msgspec.Struct)
Values = Sequence[object] | dict[str, object]


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


def read_rows(db: sqlite3.Connection, row_type: type[Row], source: str, values: Values = ()) -> Iterator[Row]:
    """The rows of `SELECT <fields of the type> FROM <source>`; a stream."""
    rows = db.execute(f"SELECT {columns_of(row_type)} FROM {source}", values)
    return map(row_reader(row_type), rows)


def read_row(db: sqlite3.Connection, row_type: type[Row], source: str, values: Values = ()) -> Row | None:
    """The first such row, if there is one."""
    return next(read_rows(db, row_type, source, values), None)


def read_value(db: sqlite3.Connection, sql: str, values: Values = ()) -> Any:  # noqa: ANN401 a cell of any type
    """The first column of the first row; None where there is no row."""
    row = db.execute(sql, values).fetchone()
    return None if row is None else row[0]
