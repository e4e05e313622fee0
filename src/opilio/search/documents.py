"""Stored pages as documents for the index: parsed again from their WARC records, with the anchors of links to them.

Done in two steps, so that the database is released before pages are parsed: a long read transaction makes the
write-ahead log of a running crawl grow.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np
from isal import isal_zlib

from opilio.core.clock import DAY_S, parse_http_date, parse_iso_date
from opilio.core.errors import CollectionError, ParseError
from opilio.core.records import Page
from opilio.frontier.schema import unpack_keys
from opilio.parse.html import HtmlParser
from opilio.search.results import FOREVER, IndexDocument
from opilio.store.collection import Collection
from opilio.store.connection import read_rows
from opilio.store.maintain.integrity import DROPPED_VERSIONS_KEY
from opilio.store.pages import has_page
from opilio.store.versions import links_of
from opilio.store.warc import read_record
from opilio.text.languages import detect_language
from opilio.text.polarity import polarity_of

_EARLIEST = 631_152_000.0  # 1990: earlier dates are wrong
LINK_CACHE_PAGES = 512  # pages whose links are cached


class _LinkAnchors(msgspec.Struct, frozen=True):
    """The part of a page's `LinkColumns` that is needed here."""

    anchors: list[str]
    keys: bytes


_decode_links = msgspec.msgpack.Decoder(_LinkAnchors).decode


class FeedPage(msgspec.Struct, frozen=True):
    """The columns of a page that a document is made of."""

    key: int
    seq: int
    url: str
    host: str
    title: str
    description: str
    language: str
    genre: str
    score: float
    relevant: bool
    fetched_at: float
    last_modified: str
    duplicate_of: int
    noindex: bool
    warc: int
    offset: int
    length: int

    @property
    def is_indexable(self) -> bool:
        """Copies of another page and pages that ask not to be indexed stay outside."""
        return not self.duplicate_of and not self.noindex


class EndedVersion(FeedPage, frozen=True):
    """A past version of a page."""

    until: float


class UnparsedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A page from the database: a document without its text, and the position of its WARC record."""

    document: IndexDocument
    last_modified: str  # as sent by the server
    warc_position: tuple[int, int, int]  # file, offset, length


class CollectionChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of a collection between two responses."""

    pages: list[UnparsedDocument]
    removed: list[int]  # keys of pages to remove from the index


BATCH_ANSWERS = 250  # responses that are indexed together


class DocumentReader:
    """Reads the pages of one collection."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._links: Callable[[int], dict[int, str]] = lru_cache(LINK_CACHE_PAGES)(self._read_links)

    def last_seq(self) -> int:
        """The sequence number of the last response."""
        row = self._collection.connection.execute("SELECT max(seq) FROM answer").fetchone()
        return int(row[0] or 0)

    def count_pages_after(self, after: int) -> int:
        """The number of pages stored after a response."""
        row = self._collection.connection.execute("SELECT count(*) FROM page WHERE seq > ?", (after,)).fetchone()
        return int(row[0])

    def changes(self, after: int, upto: int) -> CollectionChanges:
        """New pages, past versions and removed pages, after one response up to another."""
        db = self._collection.connection
        rows = list(read_rows(db, FeedPage, "page WHERE seq > ? AND seq <= ? ORDER BY seq", (after, upto)))
        ended = list(read_rows(db, EndedVersion, "version WHERE ended > ? AND ended <= ?", (after, upto)))
        current = {row.key for row in rows}
        pages = [*self._indexable(rows), *(self._stored(row, int(row.until)) for row in ended if row.is_indexable)]
        removed = [row.key for row in rows if not row.is_indexable]
        removed += [row.key for row in ended if row.key not in current and not has_page(db, row.key)]
        return CollectionChanges(pages=pages, removed=removed)

    def pages(self, keys: Sequence[int]) -> list[UnparsedDocument]:
        """Pages by their keys, in that order, without those that are not indexable."""
        db = self._collection.connection
        rows = [row for key in keys for row in read_rows(db, FeedPage, "page WHERE key = ?", (key,))]
        return list(self._indexable(rows))

    def labeled_since(self, after: int) -> tuple[list[int], int]:
        """Keys of pages labelled after the label with this number, and the number of the last label."""
        taken = self.last_label()
        rows = self._collection.connection.execute(
            "SELECT DISTINCT key FROM label WHERE id > ? AND id <= ? ORDER BY key", (after, taken)
        )
        return [key for (key,) in rows], max(after, taken)

    def last_label(self) -> int:
        """The number of the last label that was applied."""
        return int(self._collection.meta("labels_taken", "0"))

    def dropped_versions(self) -> int:
        """The number of past versions deleted so far."""
        return int(self._collection.meta(DROPPED_VERSIONS_KEY, "0"))

    def parents_of(self, host: str, key: int) -> tuple[int, ...]:
        """Up to five pages that link to this one."""
        row = self._collection.connection.execute(
            "SELECT u.parents, u.parent FROM frontier_url AS u JOIN frontier_host AS h ON h.id = u.host_id"
            " WHERE h.name = ? AND u.key = ?",
            (host, key),
        ).fetchone()
        if row is None:
            return ()
        return unpack_keys(row[0]) or ((row[1],) if row[1] else ())

    def parent_counts(self) -> Iterator[tuple[int, int]]:
        """(key, number of known pages that link to it) of every page."""
        yield from self._collection.connection.execute(
            "SELECT p.key, coalesce(length(u.parents) / 8, CASE WHEN u.parent <> 0 THEN 1 ELSE 0 END) FROM page AS p"
            " JOIN frontier_host AS h ON h.name = p.host JOIN frontier_url AS u ON u.host_id = h.id AND u.key = p.key"
        )

    def _indexable(self, rows: Iterable[FeedPage]) -> Iterator[UnparsedDocument]:
        return (self._stored(row) for row in rows if row.is_indexable)

    def _stored(self, row: FeedPage, until: int = FOREVER) -> UnparsedDocument:
        parents = self.parents_of(row.host, row.key)
        document = IndexDocument(
            key=row.key, seq=row.seq, url=row.url, host=row.host, title=row.title, description=row.description,
            language=row.language, genre=row.genre, score=row.score, relevant=row.relevant,
            fetched_at=row.fetched_at, until=until, anchors=self._anchors(row.key, parents),
            parent_count=len(parents),
        )  # fmt: skip
        position = (row.warc, row.offset, row.length)
        return UnparsedDocument(document=document, last_modified=row.last_modified, warc_position=position)

    def _anchors(self, key: int, parents: Iterable[int]) -> tuple[str, ...]:
        """The distinct anchors of links to a page."""
        texts = [self._links(parent).get(key, "").strip() for parent in parents]
        return tuple(dict.fromkeys(text for text in texts if text))

    def _read_links(self, key: int) -> dict[int, str]:
        """Where a page links to, with the first anchor of each target."""
        blob = links_of(self._collection.connection, key)
        if not blob:
            return {}
        columns = _decode_links(isal_zlib.decompress(blob))
        keys = np.frombuffer(columns.keys, dtype=np.int64).tolist()
        return dict(zip(reversed(keys), reversed(columns.anchors), strict=True))


def complete_document(folder: Path, stored: UnparsedDocument, parser: HtmlParser) -> IndexDocument:
    """The complete document. Needs no database."""
    page, known = _page(folder, stored.warc_position, parser), stored.document
    body = page.main_text
    language = known.language or detect_language(body)
    return msgspec.structs.replace(
        known,
        language=language,
        date=page_date(page.published, stored.last_modified, known.fetched_at),
        headings="\n".join(text for _, text in page.headings),
        body=body,
        polarity=polarity_of(body, language),
    )


def _page(folder: Path, place: tuple[int, int, int], parser: HtmlParser) -> Page:
    """The stored page, parsed again; an empty one if it is damaged or no longer parses."""
    if place[2]:
        with suppress(ParseError, CollectionError):
            return parser.parse(read_record(folder, *place))
    return Page(url="")


def page_date(published: str, modified: str, fetched_at: float) -> float:
    """The page's own date if it has a plausible one, else the time of the fetch.

    >>> page_date("2026-01-31T12:00:00Z", "", 2e9) == page_date("2026-01-31", "", 2e9)
    True
    >>> page_date("soon", "Sat, 31 Jan 2026 00:00:00 GMT", 2e9), page_date("2099-01-01", "", 5.0)
    (1769817600.0, 5.0)
    """
    # Only the day counts: times of day on pages are often local times without a zone.
    for date in (parse_iso_date(published.strip()[:10]), parse_http_date(modified)):
        if date is not None and _EARLIEST <= date <= fetched_at + DAY_S:
            return date
    return fetched_at
