"""The queries that engines were asked for a collection, and what came of them: rows of `enquiry`."""

import sqlite3
from typing import NamedTuple

import msgspec

from opilio.core.records import url_key

_keys = msgspec.msgpack.Decoder(tuple[int, ...])
MAX_REDIRECTS = 5
_LAST_LOCATION = "SELECT location FROM answer WHERE key = ? ORDER BY seq DESC LIMIT 1"


class SeedQuery(NamedTuple):
    """One query with the keys of the addresses it brought; `further`: asked while crawling, not before."""

    query: str
    keys: tuple[int, ...]
    while_crawling: bool


def write_seed_query(connection: sqlite3.Connection, at: float, enquiry: SeedQuery) -> None:
    """Write down that a query was asked."""
    connection.execute(
        "INSERT INTO enquiry (at, query, further, keys) VALUES (?, ?, ?, ?)",
        (at, enquiry.query, enquiry.while_crawling, msgspec.msgpack.encode(enquiry.keys)),
    )


def read_seed_queries(connection: sqlite3.Connection) -> list[SeedQuery]:
    """All queries, in the order they were asked."""
    rows = connection.execute("SELECT query, keys, further FROM enquiry ORDER BY id")
    return [SeedQuery(str(query), _keys.decode(keys), bool(further)) for query, keys, further in rows]


def count_judged(connection: sqlite3.Connection, keys: tuple[int, ...]) -> tuple[int, int]:
    """How many of these addresses were fetched and judged, and how many are relevant; redirects are followed."""
    verdicts = [_verdict(connection, key) for key in keys]
    return sum(v is not None for v in verdicts), sum(v is True for v in verdicts)


def _verdict(connection: sqlite3.Connection, key: int) -> bool | None:
    for _ in range(MAX_REDIRECTS):
        page = connection.execute("SELECT relevant FROM page WHERE key = ?", (key,)).fetchone()
        if page is not None:
            return bool(page[0])
        location = last_location(connection, key)
        if not location:
            return None
        key = url_key(location)
    return None


def last_location(connection: sqlite3.Connection, key: int) -> str:
    """Where the last answer of an address pointed to; empty where it is no redirect, or there is none."""
    row = connection.execute(_LAST_LOCATION, (key,)).fetchone()
    return str(row[0]) if row else ""
