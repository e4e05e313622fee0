"""Queries for verify, repair and compact: do the tables agree with each other, and with the WARC records?

The queries also read the tables of the frontier and of the duplicate test. `:done` is the frontier's code of a finished
URL.

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
from opilio.store.connection import read_value
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


def count_rows(connection: Database) -> CrawlCounts:
    """The counters computed from the rows."""
    return CrawlCounts(**{name: connection.execute(query).fetchone()[0] for name, query in COUNT_QUERIES.items()})


def recount(collection: Collection) -> None:
    """Rebuild the counters; inside a unit of work."""
    collection.set_meta(counts=msgspec.json.encode(count_rows(collection.connection)).decode())


# In `meta`: past versions that were deleted so far.
DROPPED_VERSIONS_KEY = "versions_dropped"
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


# Every page belongs to a URL that is finished or queued for a revisit; no record belongs to two versions; the
# versions of a page follow each other.
CONSISTENCY_QUERIES = {
    "page without a finished URL": """SELECT p.url FROM page AS p WHERE NOT EXISTS (
        SELECT 1 FROM frontier_url AS u JOIN frontier_host AS h ON h.id = u.host_id
        WHERE h.name = p.host AND u.key = p.key AND (u.state = :done
        OR u.state < :done AND EXISTS (SELECT 1 FROM revisit AS r WHERE r.key = p.key AND r.queued <> 0)))""",
    "finished URL without an answer": """SELECT u.url FROM frontier_url AS u WHERE u.state = :done
        AND NOT EXISTS (SELECT 1 FROM answer AS a WHERE a.key = u.key)""",
    "page stored twice": "SELECT url FROM page GROUP BY url HAVING count(*) > 1",
    "two pages at one place of a WARC file": """SELECT min(url) FROM (
        SELECT url, warc, offset FROM page WHERE length > 0 UNION ALL
        SELECT url, warc, offset FROM version WHERE length > 0) AS records GROUP BY warc, offset HAVING count(*) > 1""",
    "version newer than the current one": """SELECT v.url FROM version AS v JOIN page AS p ON p.key = v.key
        WHERE v.seq >= p.seq""",
    "version that ends before it begins": "SELECT url FROM version WHERE until < fetched_at",
    "page moved to an unknown URL": """SELECT key FROM move WHERE target NOT IN (SELECT key FROM frontier_url)""",
}
# Derived data: it follows from the rest and can be made again.
ORPHAN_QUERIES = {
    "links of a missing page": """SELECT parent FROM links WHERE parent NOT IN (SELECT key FROM page)
        AND parent NOT IN (SELECT key FROM version)""",
    "copy of a missing page": """SELECT url FROM page AS p WHERE duplicate_of <> 0
        AND NOT EXISTS (SELECT 1 FROM page AS o WHERE o.key = p.duplicate_of)
        AND NOT EXISTS (SELECT 1 FROM revisit AS r WHERE r.key = p.key AND (r.hinted_at > 0 OR r.queued <> 0))""",
    "page marked as queued for a revisit that is not": """SELECT r.key FROM revisit AS r WHERE r.queued <> 0
        AND NOT EXISTS (SELECT 1 FROM frontier_url AS u WHERE u.key = r.key AND u.state < :done)""",
    "new link of an unknown page": """SELECT key FROM tip WHERE page NOT IN (SELECT key FROM page)
        AND page NOT IN (SELECT key FROM version)""",
    "text of a missing page": """SELECT t.key FROM texts AS t WHERE NOT EXISTS (
        SELECT 1 FROM page AS p WHERE p.key = t.key AND p.fingerprint = t.fingerprint)
        AND EXISTS (SELECT 1 FROM answer AS a WHERE a.key = t.key AND a.failure = '')""",
}
# Left behind by versions that were deleted.
_DELETE_ORPHANS = (
    "DELETE FROM links WHERE parent NOT IN (SELECT key FROM page) AND parent NOT IN (SELECT key FROM version)",
    "DELETE FROM tip WHERE page NOT IN (SELECT key FROM page) AND page NOT IN (SELECT key FROM version)",
)
_REBUILD_DERIVED = (
    "UPDATE revisit SET queued = 0 WHERE queued <> 0 AND key NOT IN (SELECT key FROM frontier_url WHERE state < :done)",
    """DELETE FROM texts WHERE NOT EXISTS (
        SELECT 1 FROM page AS p WHERE p.key = texts.key AND p.fingerprint = texts.fingerprint)""",
    """INSERT INTO texts SELECT fingerprint, key FROM page WHERE fingerprint <> 0 AND duplicate_of = 0
        ORDER BY seq ON CONFLICT DO NOTHING""",
    # A copy whose original is gone is revisited soon.
    """INSERT INTO revisit (
        key, checks, changes, checked_at, changed_at, tried_at, strikes, struck_at, rates,
        found, brought, hinted_at, queued)
        SELECT key, 0, 0, fetched_at, 0, fetched_at, 0, 0, x'', 0, 0, :now, 0 FROM page AS p
        WHERE duplicate_of <> 0 AND NOT EXISTS (SELECT 1 FROM page AS o WHERE o.key = p.duplicate_of)
        ON CONFLICT (key) DO UPDATE SET hinted_at = :now""",
)
_DELETE_OLD_VERSIONS = """DELETE FROM version WHERE (key, seq) IN (SELECT key, seq FROM (
    SELECT key, seq, row_number() OVER (PARTITION BY key ORDER BY seq DESC) AS age FROM version) AS aged
    WHERE age > ?)"""
_MOVE_RECORDS = """UPDATE {table} SET (warc, offset) = (SELECT p.warc, p.offset FROM temp.place AS p
    WHERE p.current = {current} AND p.key = {table}.key AND p.seq = {table}.seq) WHERE length > 0"""
_ALL_RECORDS = "(SELECT warc, offset, length FROM page UNION ALL SELECT warc, offset, length FROM version) AS records"
# Whether it is current, key, seq, and where its record is now.
MovedRecord = tuple[int, int, int, int, int]


def database_problems(db: Database) -> Iterator[str]:
    """What SQLite itself finds wrong with the file."""
    return (line for (line,) in db.execute("PRAGMA integrity_check(20)") if line != "ok")


def stored_links(db: Database) -> Iterator[tuple[str, bytes]]:
    """URL of each page, or its key, and its links as stored; a stream."""
    sql = "SELECT coalesce(p.url, CAST(l.parent AS TEXT)), l.* FROM links AS l LEFT JOIN page AS p ON p.key = l.parent"
    return ((str(row[0]), row[-1]) for row in db.execute(sql))


def run_checks(db: Database, checks: dict[str, str], done: int) -> Iterator[str]:
    """One line for each row that a check finds."""
    for name, query in checks.items():
        for (found,) in db.execute(query, {"done": done}):
            yield f"{name}: {found}"


def delete_orphans(db: Database) -> None:
    for statement in _DELETE_ORPHANS:
        db.execute(statement)


def rebuild_derived(db: Database, done: int, now: float) -> None:
    """Make again what follows from pages and frontier."""
    delete_orphans(db)
    for statement in _REBUILD_DERIVED:
        db.execute(statement, {"done": done, "now": now})


def rebuild_database_indexes(db: Database) -> None:
    """Make SQLite's own indexes again from the tables."""
    db.execute("REINDEX")


def update_planner_statistics(db: Database) -> None:
    """Refresh the statistics of SQLite's query planner where they are stale."""
    db.execute("PRAGMA optimize = 0x10002")


def last_record_end(db: Database, warc: int) -> int:
    """Where the last record of a WARC file ends that belongs to a version."""
    sql = f"SELECT coalesce(max(offset + length), 0) FROM {_ALL_RECORDS} WHERE warc = ? AND length > 0"
    return int(read_value(db, sql, (warc,)))


def total_record_bytes(db: Database) -> int:
    return int(read_value(db, f"SELECT coalesce(sum(length), 0) FROM {_ALL_RECORDS}"))


def delete_old_versions(db: Database, keep: int) -> int:
    """Delete all but the newest past versions of each page; returns how many."""
    return db.execute(_DELETE_OLD_VERSIONS, (keep,)).rowcount


def collect_moved_records(db: Database, moved: Iterable[MovedRecord]) -> int:
    """Remember new positions of records in a temporary table on disk; returns how many."""
    db.execute("PRAGMA temp_store = FILE")
    db.execute("CREATE TEMP TABLE place (current INTEGER, key INTEGER, seq INTEGER, warc INTEGER, offset INTEGER)")
    count = db.executemany("INSERT INTO temp.place VALUES (?, ?, ?, ?, ?)", moved).rowcount
    db.execute("CREATE INDEX temp.place_of ON place (current, key, seq)")
    return max(0, count)


def apply_moved_records(db: Database) -> None:
    """Let pages and versions point to the new positions."""
    for table, current in (("page", 1), ("version", 0)):
        db.execute(_MOVE_RECORDS.format(table=table, current=current))


def drop_moved_records(db: Database) -> None:
    db.execute("DROP TABLE temp.place")


def vacuum(db: Database) -> None:
    """Give free pages of the database file back to the disk, once the log is written into it."""
    db.execute("VACUUM")
