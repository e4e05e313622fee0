"""What is left after a power cut, or after damage: rows whose WARC record is not there, and how to let go of them.

The record of a page is flushed before its commit, but only now and then forced onto the disk. A power cut may therefore
keep the commit and lose the record. Nothing is guessed: a row without its record goes, and its URL is fetched again.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

import msgspec

from opilio.store.collection import Collection
from opilio.store.counters import recount
from opilio.store.warc import opened, payload, payload_digest, read_member, warc_name

DROPPED = "versions_dropped"  # in `meta`: past versions that were deleted so far
Place = tuple[int, int]  # WARC file and offset


class Stored(msgspec.Struct, frozen=True):
    """A row that has a record: a page, or a version that is past."""

    warc: int
    offset: int
    length: int
    key: int
    seq: int
    url: str
    host: str
    current: int  # 0: a version that is past

    @property
    def place(self) -> Place:
        return self.warc, self.offset


def stored_rows(collection: Collection, since: Place = (0, 0)) -> Iterator[Stored]:
    """Every row that has a record from a place on, in the order of the files; a stream."""
    columns = "warc, offset, length, key, seq, url, host"
    where = "length > 0 AND (warc > :warc OR warc = :warc AND offset >= :offset)"
    rows = collection.connection.execute(
        f"SELECT {columns}, 1 FROM page WHERE {where} UNION ALL SELECT {columns}, 0 FROM version WHERE {where}"
        " ORDER BY 1, 2",
        {"warc": since[0], "offset": since[1]},
    )
    return (Stored(*row) for row in rows)


def bad_record(data: bytes, url: str = "") -> str:
    """What is wrong with the record of a page, or of none; nothing where it is right."""
    try:
        fields, block = opened(data)
    except ValueError as error:
        return str(error)
    if fields.get("WARC-Target-URI", "") != url:
        return f"another page stands here: {fields.get('WARC-Target-URI')}"
    if url and fields.get("WARC-Payload-Digest") != payload_digest(payload(block)[1]):
        return "the page was changed (its digest differs)"
    return ""


def first_lost(collection: Collection) -> Place | None:
    """The first record behind the last sync that is not there as it should be; None where all are."""
    number, offset = map(int, collection.meta("warc_synced", "1 0").split())
    for row in stored_rows(collection, (number, offset)):
        path = collection.folder / warc_name(row.warc)
        if not path.exists() or path.stat().st_size < row.offset + row.length:
            return row.place
        if bad_record(read_member(collection.folder, row.warc, row.offset, row.length), row.url):
            return row.place
    return None


def cut_at(collection: Collection, place: Place) -> list[tuple[str, int]]:
    """Let go of every row from a place on, and end the WARC files there; (host, key) of the pages to fetch again."""
    lost = let_go(collection, list(stored_rows(collection, place)))
    number, offset = place
    path = collection.folder / warc_name(number)
    begun = path.exists() and path.stat().st_size >= offset
    # A file that holds earlier pages and is too short for them is no power cut's doing: the writer will refuse it.
    if not begun and next(stored_rows(collection, (number, 0)), None) is None:
        offset = 0
    collection.set_meta(warc_number=number, warc_offset=offset)
    return lost


def count_dropped(collection: Collection, versions: int) -> None:
    """Note that past versions were deleted: the past is another one now, for whoever made something from it."""
    collection.set_meta(**{DROPPED: int(collection.meta(DROPPED, "0")) + versions})


def let_go(collection: Collection, rows: Iterable[Stored]) -> list[tuple[str, int]]:
    """Delete these rows, with the links of pages and what was counted; (host, key) of the pages among them."""
    connection = collection.connection
    pages: list[tuple[str, int]] = []
    for current, group in groupby(rows, key=attrgetter("current")):
        if not current:
            gone = [(row.key, row.seq) for row in group]
            connection.executemany("DELETE FROM version WHERE key = ? AND seq = ?", gone)
            count_dropped(collection, len(gone))
            continue
        for row in group:
            connection.execute("DELETE FROM page WHERE key = ?", (row.key,))
            connection.execute("DELETE FROM links WHERE parent = ?", (row.key,))
            pages.append((row.host, row.key))
    recount(collection)
    return pages
