"""Reads fetch attempts (`answer`) and the stored links of pages (`links`)."""

import sys
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import msgspec
from isal import isal_zlib

from opilio.core.protocols import Database
from opilio.store.connection import read_rows, read_value

_ALL_LINKED_PAGES = """SELECT p.key, p.host, p.score, l.columns FROM page AS p JOIN links AS l ON l.parent = p.key
    WHERE p.duplicate_of = 0 ORDER BY p.seq DESC"""
_AGENT_LINKED_PAGES = """SELECT p.key, p.host, v.score, l.columns FROM verdict AS v JOIN page AS p ON p.key = v.page
    JOIN links AS l ON l.parent = p.key WHERE v.agent = ? AND (v.own <> 0 OR v.relevant <> 0) AND p.duplicate_of = 0
    ORDER BY p.seq DESC"""


class AnswerRow(msgspec.Struct, gc=False):
    """One request and its outcome."""

    seq: int
    at: float
    status: int
    failure: str
    detail: str
    location: str


class LinkedPage(NamedTuple):
    """A page with its links as they are stored (see LinkColumns)."""

    key: int
    host: str
    score: float
    columns: bytes


def answers_of(db: Database, key: int) -> list[AnswerRow]:
    """Every request for a URL in order."""
    return list(read_rows(db, AnswerRow, "answer WHERE key = ? ORDER BY seq", (key,)))


def answers_after(db: Database, seq: int) -> Iterator[AnswerRow]:
    """Every request after this number, in order; a stream."""
    return read_rows(db, AnswerRow, "answer WHERE seq > ? ORDER BY seq", (seq,))


def last_answer(db: Database) -> AnswerRow | None:
    return next(read_rows(db, AnswerRow, "answer ORDER BY seq DESC LIMIT 1"), None)


def count_answers(db: Database, since: float = 0.0) -> int:
    """The number of requests from a time on."""
    return int(read_value(db, "SELECT count(*) FROM answer WHERE at >= ?", (since,)))


def redirecting_key(db: Database, url: str) -> int | None:
    """The key of the first URL that redirected to this one. No index helps, but few URLs need it."""
    key: int | None = read_value(db, "SELECT key FROM answer WHERE location = ? ORDER BY seq LIMIT 1", (url,))
    return key


def links_of(db: Database, key: int) -> bytes:
    """The stored links of a page; empty where there are none."""
    return bytes(read_value(db, "SELECT columns FROM links WHERE parent = ?", (key,)) or b"")


def parents_linking_to(db: Database, key: int, limit: int) -> tuple[int, ...]:
    """Pages that link to a URL which was never queued: links below a threshold, nofollow links, and so on.

    No index helps: the links of every page are searched as bytes, 20 µs a page.
    """
    wanted = key.to_bytes(8, sys.byteorder, signed=True)
    rows = db.execute("SELECT parent, columns FROM links")
    return tuple(islice((parent for parent, blob in rows if wanted in isal_zlib.decompress(blob)), limit))


def linked_pages(db: Database, agent: int = 0) -> Iterator[LinkedPage]:
    """Every original page with links, newest first. Of an agent: what it fetched or found relevant, with its scores."""
    rows = db.execute(_AGENT_LINKED_PAGES, (agent,)) if agent else db.execute(_ALL_LINKED_PAGES)
    return (LinkedPage(*row) for row in rows)


def newest_linked_pages(db: Database, limit: int) -> Iterator[LinkedPage]:
    """The newest pages with links, copies too."""
    sql = """SELECT key, host, score, columns FROM page JOIN links ON links.parent = key
        ORDER BY seq DESC LIMIT ?"""
    return (LinkedPage(*row) for row in db.execute(sql, (limit,)))
