"""The queries that engines were asked for a collection, and what came of them: rows of `enquiry`."""

import sqlite3
from typing import NamedTuple

import msgspec

from opilio.model.records import key_of

_keys = msgspec.msgpack.Decoder(tuple[int, ...])
MOST_HOPS = 5
_LAST_LOCATION = "SELECT location FROM answer WHERE key = ? ORDER BY seq DESC LIMIT 1"


class Enquiry(NamedTuple):
    """One query with the keys of the addresses it brought; `further`: asked while crawling, not before."""

    query: str
    keys: tuple[int, ...]
    further: bool


def keep_enquiry(connection: sqlite3.Connection, at: float, enquiry: Enquiry) -> None:
    """Write down that a query was asked."""
    connection.execute(
        "INSERT INTO enquiry (at, query, further, keys) VALUES (?, ?, ?, ?)",
        (at, enquiry.query, enquiry.further, msgspec.msgpack.encode(enquiry.keys)),
    )


def enquiries(connection: sqlite3.Connection) -> list[Enquiry]:
    """All queries, in the order they were asked."""
    rows = connection.execute("SELECT query, keys, further FROM enquiry ORDER BY id")
    return [Enquiry(str(query), _keys.decode(keys), bool(further)) for query, keys, further in rows]


def judged(connection: sqlite3.Connection, keys: tuple[int, ...]) -> tuple[int, int]:
    """How many of these addresses were fetched and judged, and how many are relevant; redirects are followed."""
    verdicts = [_verdict(connection, key) for key in keys]
    return sum(v is not None for v in verdicts), sum(v is True for v in verdicts)


def _verdict(connection: sqlite3.Connection, key: int) -> bool | None:
    for _ in range(MOST_HOPS):
        page = connection.execute("SELECT relevant FROM page WHERE key = ?", (key,)).fetchone()
        if page is not None:
            return bool(page[0])
        location = last_location(connection, key)
        if not location:
            return None
        key = key_of(location)
    return None


def last_location(connection: sqlite3.Connection, key: int) -> str:
    """Where the last answer of an address pointed to; empty where it is no redirect, or there is none."""
    row = connection.execute(_LAST_LOCATION, (key,)).fetchone()
    return str(row[0]) if row else ""
