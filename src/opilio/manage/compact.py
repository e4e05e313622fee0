"""Housekeeping: WARC files without records that belong to nobody, and a database without holes. Safe against a kill.

New files are written behind the last one, where a crawl that goes on would throw them away. One commit says that they
are the ones; only then the old files go. Nothing is read into memory but one record.
"""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from opilio import __version__
from opilio.core.errors import CollectionError
from opilio.engine.recover import recover
from opilio.store.collection import DATABASE, Collection, database_error
from opilio.store.locks import try_exclusive_lock
from opilio.store.record_check import StoredRecord, add_dropped_versions, recount, stored_records
from opilio.store.warc import WarcWriter, read_member, warc_name

FIRST_WARC_KEY = "warc_first"  # in `meta`: the first file that is in use
ROTATE_BYTES = 1 << 30
_CREATE_POSITIONS = "CREATE TEMP TABLE place (current INTEGER, key INTEGER, seq INTEGER, warc INTEGER, offset INTEGER)"
_UPDATE_POSITIONS = """UPDATE {table} SET (warc, offset) = (SELECT p.warc, p.offset FROM temp.place AS p
    WHERE p.current = {current} AND p.key = {table}.key AND p.seq = {table}.seq) WHERE length > 0"""
_DELETE_OLD_VERSIONS = """DELETE FROM version WHERE rowid IN (SELECT rowid FROM (
    SELECT rowid, row_number() OVER (PARTITION BY key ORDER BY seq DESC) AS age FROM version) WHERE age > ?)"""

DELETE_ORPHANS = (  # by versions that were dropped
    "DELETE FROM links WHERE parent NOT IN (SELECT key FROM page) AND parent NOT IN (SELECT key FROM version)",
    "DELETE FROM tip WHERE page NOT IN (SELECT key FROM page) AND page NOT IN (SELECT key FROM version)",
)


class CompactResult(msgspec.Struct, kw_only=True):
    """What became of a collection."""

    records: int = 0
    versions_dropped: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    files_left: int = 0  # old ones that somebody reads at this moment


def compact(folder: Path, now: float, versions: int | None = None, rotate_bytes: int = ROTATE_BYTES) -> CompactResult:
    """Rewrite a collection; `versions`: keep at most so many past versions of a page (None: all)."""
    collection = Collection.open_for_writing(folder, "compact")
    try:
        recover(collection, now)
        return _compact(collection, versions, rotate_bytes)
    except sqlite3.Error as error:
        raise database_error(folder, error) from error
    finally:
        collection.close()


def _compact(collection: Collection, versions: int | None, rotate_bytes: int) -> CompactResult:
    folder, connection = collection.folder, collection.connection
    connection.execute("PRAGMA temp_store = FILE")
    done = CompactResult(bytes_before=_size(folder))
    delete_unused_warcs(collection)
    _check_disk_space(collection)
    with collection.unit_of_work():
        if versions is not None:
            done.versions_dropped = connection.execute(_DELETE_OLD_VERSIONS, (versions,)).rowcount
            add_dropped_versions(collection, done.versions_dropped)
            for statement in DELETE_ORPHANS:
                connection.execute(statement)
        recount(collection)
    last = int(collection.meta("warc_number", "1"))
    writer = WarcWriter(folder, f"Opilio/{__version__}", rotate_bytes)
    try:
        writer.resume(last + 1, 0)
        connection.execute(_CREATE_POSITIONS)
        done.records = _copy(collection, writer)
        writer.sync()
        connection.execute("CREATE INDEX temp.place_of ON place (current, key, seq)")
        with collection.unit_of_work():
            for table, current in (("page", 1), ("version", 0)):
                connection.execute(_UPDATE_POSITIONS.format(table=table, current=current))
            number, offset = writer.position
            end = f"{number} {offset}"
            collection.set_meta(warc_number=number, warc_offset=offset, warc_synced=end, **{FIRST_WARC_KEY: last + 1})
    finally:
        writer.close()
    done.files_left = delete_unused_warcs(collection)
    connection.execute("DROP TABLE temp.place")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    done.bytes_after = _size(folder)
    return done


def _copy(collection: Collection, writer: WarcWriter) -> int:
    """Every record that belongs to a version, one after the other."""

    def places() -> Iterator[tuple[int, int, int, int, int]]:
        for row in stored_records(collection):
            member = _read_whole_member(collection.folder, row)
            number, offset, _ = writer.append(member, 0.0)
            yield row.current, row.key, row.seq, number, offset

    copied = collection.connection.executemany("INSERT INTO temp.place VALUES (?, ?, ?, ?, ?)", places()).rowcount
    return max(0, copied)


def _read_whole_member(folder: Path, row: StoredRecord) -> bytes:
    member = read_member(folder, row.warc, row.offset, row.length)
    if len(member) != row.length:
        name = warc_name(row.warc)
        raise CollectionError(f"{folder / name}: ends before {row.url}; run 'opilio verify --repair' first")
    return member


def delete_unused_warcs(collection: Collection) -> int:
    """Delete files that a compaction no longer needs, unless somebody reads (the next one does it then); how many stay.

    A merge or an export that began before still finds its records in them.
    """
    first = int(collection.meta(FIRST_WARC_KEY, "1"))
    old = [path for path in collection.folder.glob("pages-*.warc.gz") if path.name < warc_name(first)]
    with try_exclusive_lock(collection.folder) as free:
        for path in old if free else ():
            path.unlink()
    return 0 if free else len(old)


def _check_disk_space(collection: Collection) -> None:
    """The old and the new are there at the same time."""
    sql = "SELECT coalesce(sum(length), 0) FROM (SELECT length FROM page UNION ALL SELECT length FROM version)"
    wanted = collection.connection.execute(sql).fetchone()[0] + 2 * (collection.folder / DATABASE).stat().st_size
    free = shutil.disk_usage(collection.folder).free
    if free < wanted:
        raise CollectionError(
            f"{collection.folder}: compacting needs {(wanted >> 20) + 1} MB of free disk, there are {free >> 20}"
        )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in (*folder.glob("pages-*.warc.gz"), *folder.glob(f"{DATABASE}*")))
