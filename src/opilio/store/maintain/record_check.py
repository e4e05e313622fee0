"""Finds and deletes rows whose WARC record is missing after a power cut or damage; checks the counters.

The record of a page is flushed before its commit, but synced to disk only every few seconds. A power cut may therefore
keep the commit and lose the record. Such a row is deleted and its URL is fetched again. A crawl updates the counters
without counting rows (`writer`); here they are computed from the rows, to check and to rebuild them.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import msgspec

from opilio.core.protocols import Database
from opilio.core.warc import parse_http, parse_member, payload_digest
from opilio.store.collection import Collection
from opilio.store.warc import read_member, warc_name
from opilio.store.writer import CrawlCounts

_SIZE = "SELECT a.size_bytes AS size FROM {table} AS p JOIN answer AS a ON a.seq = p.seq"
COUNT_QUERIES = {
    "fetched": "SELECT coalesce(max(seq), 0) FROM answer",
    "pages": "SELECT count(*) FROM page",
    "relevant": "SELECT count(*) FROM page WHERE relevant <> 0",
    "duplicates": "SELECT count(*) FROM page WHERE duplicate_of <> 0",
    "failed": "SELECT count(*) FROM answer WHERE failure <> '' OR status NOT BETWEEN 200 AND 399",
    "size_bytes": f"""SELECT coalesce(sum(size), 0) FROM (
        {_SIZE.format(table="page")} UNION ALL {_SIZE.format(table="version")}) AS sizes""",
}


def stored_counts(collection: Collection) -> CrawlCounts:
    """The stored counters."""
    stored = collection.meta("counts")
    return msgspec.json.decode(stored, type=CrawlCounts) if stored else CrawlCounts()


def count_rows(connection: Database) -> CrawlCounts:
    """The counters computed from the rows."""
    return CrawlCounts(**{name: connection.execute(query).fetchone()[0] for name, query in COUNT_QUERIES.items()})


def recount(collection: Collection) -> None:
    """Rebuild the counters; inside a unit of work."""
    collection.set_meta(counts=msgspec.json.encode(count_rows(collection.connection)).decode())


DROPPED_VERSIONS_KEY = "versions_dropped"  # in `meta`: past versions that were deleted so far
WarcPosition = tuple[int, int]  # WARC file and offset


class LostPage(NamedTuple):
    """A page that was deleted because its record is lost."""

    host: str
    key: int
    fingerprint: int


class StoredRecord(msgspec.Struct, frozen=True):
    """A row that has a record: a page, or a past version."""

    warc: int
    offset: int
    length: int
    key: int
    seq: int
    url: str
    host: str
    current: int  # 0: a past version

    @property
    def position(self) -> WarcPosition:
        return self.warc, self.offset


def stored_records(collection: Collection, since: WarcPosition = (0, 0)) -> Iterator[StoredRecord]:
    """Every row that has a record from a position on, in the order of the files; a stream."""
    columns = "warc, offset, length, key, seq, url, host"
    where = "length > 0 AND (warc > :warc OR warc = :warc AND offset >= :offset)"
    rows = collection.connection.execute(
        f"SELECT {columns}, 1 FROM page WHERE {where} UNION ALL SELECT {columns}, 0 FROM version WHERE {where}"
        " ORDER BY 1, 2",
        {"warc": since[0], "offset": since[1]},
    )
    return (StoredRecord(*row) for row in rows)


def record_problem(data: bytes, url: str = "") -> str:
    """The problem of a record; empty if it is intact."""
    try:
        fields, block = parse_member(data)
    except ValueError as error:
        return str(error)
    if fields.get("warc-target-uri", "") != url:
        return f"the record of another page is here: {fields.get('warc-target-uri')}"
    if url and fields.get("warc-payload-digest") != payload_digest(parse_http(block).body):
        return "the page was changed (its digest differs)"
    return ""


def find_first_lost(collection: Collection) -> WarcPosition | None:
    """The first record after the last sync that is missing or damaged; None if all are intact."""
    synced = _synced_position(collection)
    checked_file = synced[0] if synced[1] else 0
    for row in stored_records(collection, synced):
        path = collection.folder / warc_name(row.warc)
        if not path.exists() or path.stat().st_size < row.offset + row.length:
            return row.position
        # The record that opens the file, before that of the first page.
        if row.warc != checked_file and record_problem(read_member(collection.folder, row.warc, 0, row.offset)):
            return row.position
        checked_file = row.warc
        if record_problem(read_member(collection.folder, row.warc, row.offset, row.length), row.url):
            return row.position
    return None


def _synced_position(collection: Collection) -> WarcPosition:
    number, offset = map(int, collection.meta("warc_synced", "1 0").split())
    return number, offset


def truncate_at(collection: Collection, place: WarcPosition) -> list[LostPage]:
    """Delete every row from a position on, and truncate the WARC files there; returns the pages to fetch again."""
    lost = delete_records(collection, list(stored_records(collection, place)))
    number, offset = place
    # Without an earlier page, the record that opens the file may be lost too. A file that is too short for earlier
    # pages was not damaged by a power cut: the writer will refuse it.
    if _synced_position(collection) <= (number, 0) and next(stored_records(collection, (number, 0)), None) is None:
        offset = 0
    collection.set_meta(warc_number=number, warc_offset=offset)
    return lost


def add_dropped_versions(collection: Collection, versions: int) -> None:
    """Note that past versions were deleted: data derived from them is out of date."""
    collection.set_meta(**{DROPPED_VERSIONS_KEY: int(collection.meta(DROPPED_VERSIONS_KEY, "0")) + versions})


def delete_records(collection: Collection, rows: Iterable[StoredRecord]) -> list[LostPage]:
    """Delete these rows, with the links and the copies of pages and what was counted; returns the pages among them.

    The text of a copy is in the record of its original, so it is lost with it.
    """
    connection = collection.connection
    keys: set[int] = set()
    for current, group in groupby(rows, key=attrgetter("current")):
        if not current:
            gone = [(row.key, row.seq) for row in group]
            connection.executemany("DELETE FROM version WHERE key = ? AND seq = ?", gone)
            add_dropped_versions(collection, len(gone))
            continue
        keys.update(row.key for row in group)
    copies = connection.execute("SELECT key, duplicate_of FROM page WHERE duplicate_of <> 0").fetchall() if keys else []
    keys.update([key for key, original in copies if original in keys])
    find = "SELECT host, key, fingerprint FROM page WHERE key = ?"
    pages = [LostPage(*connection.execute(find, (key,)).fetchone()) for key in sorted(keys)]
    connection.executemany("DELETE FROM page WHERE key = ?", [(page.key,) for page in pages])
    connection.executemany("DELETE FROM links WHERE parent = ?", [(page.key,) for page in pages])
    recount(collection)
    return pages
