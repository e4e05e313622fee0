"""The tables about revisits: `revisit` and `move` (pages), `tip` (new links), `empty_text` (texts of soft 404s) and
`notice` (sitemaps and feeds).

Executes statements on the given connection; transactions belong to the collection.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from opilio.core.protocols import Database
from opilio.core.records import url_key
from opilio.store.connection import read_row, read_value, upsert_sql
from opilio.store.warc import RecordPosition


class RevisitRecord(msgspec.Struct, kw_only=True):
    """One row of `revisit`."""

    key: int
    checks: int = 0
    changes: int = 0
    checked_at: float = 0.0  # last known to be as it is stored
    changed_at: float = 0.0
    tried_at: float = 0.0
    strikes: int = 0
    struck_at: float = 0.0
    rates: bytes = b""
    found: int = 0
    brought: int = 0
    hinted_at: float = 0.0
    queued: int = 0


class StoredPageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A stored page, to compare a visit with; `is_current` is False for one that is gone."""

    key: int
    is_current: bool = True
    url: str = ""
    host: str = ""
    title: str = ""
    words: int = 0
    fingerprint: int = 0
    duplicate_of: int = 0
    fetched_at: float = 0.0
    warc_location: RecordPosition = RecordPosition()


_FIELD_NAMES = tuple(field.name for field in msgspec.structs.fields(RevisitRecord))
_COLUMNS = ", ".join(_FIELD_NAMES)
_STORED_PAGE_COLUMNS = "key, url, host, title, words, fingerprint, duplicate_of, fetched_at, warc, offset, length"
_SAVE_SQL = upsert_sql("revisit", _FIELD_NAMES, ("key",))


class PageFacts(NamedTuple):
    """What the schedule of revisits needs of a page."""

    key: int
    url: str
    host: str
    genre: str
    score: float
    relevant: bool
    duplicate_of: int
    fetched_at: float
    last_modified: str


_PAGE_COLUMNS = ", ".join(f"p.{name}" for name in PageFacts._fields)
_FACTS = len(PageFacts._fields)


def revisit_record(db: Database, key: int) -> RevisitRecord | None:
    """The row of a page; None before its first revisit."""
    return read_row(db, RevisitRecord, "revisit WHERE key = ?", (key,))


def count_revisits(db: Database) -> int:
    """The number of revisits of all pages."""
    return int(read_value(db, "SELECT coalesce(sum(checks), 0) FROM revisit"))


class RevisitStore:
    """Reads and writes the rows of revisited pages."""

    def __init__(self, connection: Database) -> None:
        self._db = connection

    def stored_pages(self, keys: Sequence[int]) -> dict[int, StoredPageInfo]:
        """Those of the keys that are pages, or were and are queued again."""
        marks = ", ".join("?" * len(keys))
        rows = self._db.execute(f"SELECT {_STORED_PAGE_COLUMNS} FROM page WHERE key IN ({marks})", keys)
        found = {row[0]: _stored_page_from_row(row) for row in rows}
        left = self._db.execute(f"SELECT key FROM revisit WHERE queued <> 0 AND key IN ({marks})", keys)
        return {**{key: StoredPageInfo(key=key, is_current=False) for (key,) in left}, **found}

    def record(self, key: int) -> RevisitRecord:
        """The row of a page, or an empty one."""
        return revisit_record(self._db, key) or RevisitRecord(key=key)

    def save(self, records: Iterable[RevisitRecord]) -> None:
        self._db.executemany(_SAVE_SQL, [msgspec.structs.astuple(one) for one in records])

    def all_pages(self) -> Iterator[tuple[PageFacts, RevisitRecord | None]]:
        """Every page with what its revisits have shown."""
        columns = ", ".join(f"r.{name}" for name in _FIELD_NAMES)
        rows = self._db.execute(
            f"SELECT {_PAGE_COLUMNS}, {columns} FROM page AS p LEFT JOIN revisit AS r ON r.key = p.key"
        )
        for row in rows:
            yield PageFacts(*row[:_FACTS]), None if row[_FACTS] is None else _record_from_row(row[_FACTS:])

    def gone_pages(self, strikes: int, key: int | None = None) -> Iterator[tuple[PageFacts, RevisitRecord]]:
        """Pages that are gone and were not checked too often yet, or one of them."""
        columns = ", ".join(f"r.{name}" for name in _FIELD_NAMES)
        rows = self._db.execute(
            f"SELECT {_PAGE_COLUMNS}, {columns} FROM revisit AS r JOIN version AS p ON p.key = r.key AND p.seq ="
            " (SELECT max(seq) FROM version WHERE key = r.key) WHERE r.strikes BETWEEN 2 AND ?"
            " AND r.key NOT IN (SELECT key FROM page) AND r.key NOT IN (SELECT key FROM move)"
            f"{'' if key is None else ' AND r.key = ?'}",
            (strikes - 1,) if key is None else (strikes - 1, key),
        )
        return ((PageFacts(*row[:_FACTS]), _record_from_row(row[_FACTS:])) for row in rows)

    def url_of(self, key: int) -> str:
        """The URL of a page, also of one that is gone."""
        sql = "SELECT url FROM page WHERE key = :key UNION ALL SELECT url FROM version WHERE key = :key LIMIT 1"
        return str(self._db.execute(sql, {"key": key}).fetchone()[0])

    def queued_keys(self) -> list[int]:
        """Pages that are queued for a revisit."""
        return [key for (key,) in self._db.execute("SELECT key FROM revisit WHERE queued <> 0")]

    def copy_keys(self, key: int) -> list[int]:
        """The keys of pages that repeat the text of this one."""
        # The index of copies is partial: without its condition SQLite would read every page.
        rows = self._db.execute("SELECT key FROM page WHERE duplicate_of = ? AND duplicate_of <> 0", (key,))
        return [copy for (copy,) in rows.fetchall()]

    def record_move(self, key: int, target: int, at: float) -> None:
        """Record a permanent redirect."""
        self._db.execute(upsert_sql("move", ("key", "target", "at"), ("key",)), (key, target, at))

    def mark_present(self, keys: Sequence[int]) -> None:
        """Delete the recorded moves of pages that are at their address again."""
        self._db.execute(f"DELETE FROM move WHERE key IN ({', '.join('?' * len(keys))})", keys)

    def record_new_links(self, page: int, keys: Iterable[int]) -> None:
        """Store the links that were new on a page at a revisit."""
        self._db.executemany("INSERT INTO tip VALUES (?, ?) ON CONFLICT DO NOTHING", [(key, page) for key in keys])

    def take_link_sources(self, keys: Sequence[int]) -> dict[int, int]:
        """The pages that linked to these URLs, by URL; they are read once."""
        marks = ", ".join("?" * len(keys))
        found: dict[int, int] = dict(self._db.execute(f"SELECT key, page FROM tip WHERE key IN ({marks})", keys))
        self._db.executemany("DELETE FROM tip WHERE key = ?", [(key,) for key in found])
        return found


def _stored_page_from_row(row: tuple[Any, ...]) -> StoredPageInfo:
    key, url, host, title, words, fingerprint, duplicate_of, fetched_at, *position = row
    return StoredPageInfo(
        key=key,
        url=url,
        host=host,
        title=title,
        words=words,
        fingerprint=fingerprint,
        duplicate_of=duplicate_of,
        fetched_at=fetched_at,
        warc_location=RecordPosition(*position),
    )


def _record_from_row(row: tuple[Any, ...]) -> RevisitRecord:
    return RevisitRecord(**dict(zip(_FIELD_NAMES, row, strict=True)))


_ADD_EMPTY_TEXT = "INSERT INTO empty_text VALUES (?, ?, ?) ON CONFLICT DO NOTHING"


class Soft404Texts:
    """The texts that hosts show for missing pages (soft 404)."""

    def __init__(self, connection: Database) -> None:
        self._db = connection
        # False in most crawls: then no page needs a statement.
        self._has_any: bool | None = None

    def __contains__(self, place: tuple[str, int]) -> bool:
        if self._has_any is None:
            any_text = "SELECT 1 FROM empty_text WHERE fingerprint <> 0 LIMIT 1"
            self._has_any = self._db.execute(any_text).fetchone() is not None
        sql = "SELECT 1 FROM empty_text WHERE host = ? AND fingerprint = ?"
        return self._has_any and place[1] != 0 and self._db.execute(sql, place).fetchone() is not None

    def add(self, host: str, fingerprint: int, at: float) -> None:
        """Store such a text, unless it is too short for a fingerprint."""
        if fingerprint:
            self._has_any = True
            self._db.execute(_ADD_EMPTY_TEXT, (host, fingerprint, at))

    def was_probed(self, host: str) -> bool:
        """Whether the probe was sent to this host."""
        row = self._db.execute("SELECT 1 FROM empty_text WHERE host = ? AND fingerprint = 0", (host,)).fetchone()
        return row is not None

    def record_probe(self, host: str, at: float) -> None:
        self._db.execute(_ADD_EMPTY_TEXT, (host, 0, at))


class SitemapStore:
    """Reads and writes sitemaps and feeds."""

    def __init__(self, connection: Database) -> None:
        self._db = connection

    def add(self, urls: Sequence[str], host: str, kind: str, most: int) -> None:
        """Store these, up to a limit per host."""
        known = self._db.execute("SELECT count(*) FROM notice WHERE host = ?", (host,)).fetchone()[0]
        self._db.executemany(
            "INSERT INTO notice VALUES (?, ?, ?, ?, 0, '', '', 0) ON CONFLICT DO NOTHING",
            [(url_key(url), url, host, kind) for url in dict.fromkeys(urls)][: max(0, most - known)],
        )

    def due(self, before: float) -> list[tuple[str, int, str]]:
        """(url, key, host) of those that were last requested before that time."""
        return self._db.execute("SELECT url, key, host FROM notice WHERE asked_at <= ? LIMIT 100", (before,)).fetchall()

    def mark_requested(self, key: int, now: float) -> None:
        self._db.execute("UPDATE notice SET asked_at = ? WHERE key = ?", (now, key))

    def mark_received(self, key: int, marks: tuple[str, str], entries: int) -> None:
        """Store the validators for the next request, and the number of listed pages."""
        self._db.execute(
            "UPDATE notice SET etag = ?, last_modified = ?, entries = ? WHERE key = ?", (*marks, entries, key)
        )
