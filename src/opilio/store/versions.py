"""What was observed of a page: fetch attempts (`answer`), its stored links (`links`), and its versions over time.

When a page changes, its row moves from `page` to `version` (S2-F6).
"""

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from math import inf
from typing import Any, NamedTuple

import msgspec
from isal import isal_zlib

from opilio.core.protocols import Database
from opilio.core.records import FetchResult, Reason
from opilio.store.collection import Collection
from opilio.store.connection import read_rows, read_value
from opilio.store.schema import ARCHIVE_PAGE, decode_reasons
from opilio.store.warc import RecordPosition, read_record

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


_NAMES = (
    *("key", "seq", "url", "host", "title", "description", "language", "genre", "words", "score", "relevant"),
    *("duplicate_of", "noindex", "fetched_at", "warc", "offset", "length", "reasons"),
)
_COLUMNS = ", ".join(_NAMES)
_SELECT_CURRENT = f"SELECT {_COLUMNS}, 9e999, '' FROM page"
_SELECT_PAST = f"SELECT {_COLUMNS}, until, cause FROM version"


class PageVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a page: current from `fetched_at` to `until` (infinite while it is). `cause` says why it ended."""

    key: int
    seq: int
    url: str
    host: str
    title: str
    description: str
    language: str
    genre: str
    words: int
    score: float
    relevant: bool
    duplicate_of: int
    noindex: bool
    fetched_at: float
    warc_position: RecordPosition
    reasons: tuple[Reason, ...]
    until: float = inf
    cause: str = ""  # changed, gone, moved


def list_versions(collection: Collection, key: int) -> list[PageVersion]:
    """All stored versions, the oldest first, with those of URLs that permanently redirect to the page."""
    found: list[PageVersion] = []
    for known in page_keys(collection, key):
        for table in (_SELECT_PAST, _SELECT_CURRENT):
            rows = collection.connection.execute(f"{table} WHERE key = ?", (known,))
            found += [_version(row) for row in rows]
    # By number, because a clock may have been set back.
    return sorted(found, key=lambda v: v.seq)


def page_keys(collection: Collection, key: int) -> list[int]:
    """A page's key and those of its former addresses, however often it moved."""
    found = [key]
    for known in found:
        rows = collection.connection.execute("SELECT key FROM move WHERE target = ?", (known,))
        found += [old for (old,) in rows if old not in found]
    return found


def follow_moves(collection: Collection, key: int) -> int:
    """The key of the current URL of a page that has moved, perhaps more than once; else its own key."""
    been = {key}
    while (
        row := collection.connection.execute("SELECT target FROM move WHERE key = ?", (key,)).fetchone()
    ) is not None:
        if row[0] in been:
            return key
        key = row[0]
        been.add(key)
    return key


def read_stored_response(collection: Collection, version: PageVersion) -> FetchResult | None:
    """The stored response; None for a copy, whose text is stored with its original."""
    return read_record(collection.folder, *version.warc_position) if version.warc_position[2] else None


def _version(row: tuple[Any, ...]) -> PageVersion:
    *columns, until, cause = row
    fields = dict(zip(_NAMES, columns, strict=True))
    position = RecordPosition(fields.pop("warc"), fields.pop("offset"), fields.pop("length"))
    reasons = decode_reasons(fields.pop("reasons"))
    fields["relevant"], fields["noindex"] = bool(fields["relevant"]), bool(fields["noindex"])
    return PageVersion(**fields, warc_position=position, reasons=reasons, until=until, cause=cause)


class ArchivedPage(NamedTuple):
    """How a stored page is counted."""

    relevant: bool
    duplicate_of: int


class VersionArchiver:
    """Ends and confirms versions after a batch of visits. Writes inside a unit of work."""

    def __init__(self, connection: Database, keys: Sequence[int]) -> None:
        self._connection = connection
        marks = ", ".join("?" * len(keys))
        rows = connection.execute(f"SELECT key, relevant, duplicate_of FROM page WHERE key IN ({marks})", keys)
        self._current_pages = {key: ArchivedPage(bool(relevant), original) for key, relevant, original in rows}

    def archive(self, key: int, at: float, seq: int, cause: str) -> ArchivedPage | None:
        """End the current version, if there is one; returns how it was counted."""
        was = self._current_pages.pop(key, None)
        if was is not None:
            # A clock set back must not make a version end before it began.
            since = self._connection.execute("SELECT fetched_at FROM page WHERE key = ?", (key,)).fetchone()[0]
            self._connection.execute(ARCHIVE_PAGE, (max(at, since), seq, cause, key))
            self._connection.execute("DELETE FROM page WHERE key = ?", (key,))
        return was

    def update_validators(self, key: int, fetched: FetchResult) -> None:
        """Update the validators of an unchanged page."""
        etag, last_modified = fetched.header("etag"), fetched.header("last-modified")
        # RFC 9110, 15.4.5: a 304 repeats what is new.
        if etag or last_modified or fetched.status != 304:
            self._connection.execute(
                "UPDATE page SET etag = ?, last_modified = ? WHERE key = ?", (etag, last_modified, key)
            )
