"""Rewrites the files of a collection: compacts them, or repairs what `verify` found. Holds the write lock.

Compacting leaves WARC files without unused records and a database without free space. New files are numbered after the
last one: a crawl that resumes after a kill deletes them. One commit makes them the files of the collection; only then
the old files are deleted. At most one record is in memory. In PostgreSQL, records are stored in chunks; a chunk is
deleted with its last record.

Derived data (counters, flags, orphans) is always repaired, page data only on request: a page whose record is damaged is
deleted and its URL queued again; its other versions stay.
"""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from opilio import __version__
from opilio.core.errors import CollectionError
from opilio.core.events import PagesLost
from opilio.engine.integrity import recover, requeue_pages
from opilio.frontier.postgres.frontier import rebuild_counters
from opilio.frontier.schema import DONE
from opilio.manage.verify import all_problems, check_index
from opilio.search.indexer import rebuild_index
from opilio.store.collection import Collection, open_readonly
from opilio.store.connection import DATABASE, database_error, has_writer
from opilio.store.learner_states import restore_damaged_states
from opilio.store.maintain.integrity import (
    MovedRecord,
    StoredRecord,
    add_dropped_versions,
    apply_moved_records,
    collect_moved_records,
    delete_old_versions,
    delete_orphans,
    delete_records,
    drop_moved_records,
    last_record_end,
    rebuild_database_indexes,
    rebuild_derived,
    recount,
    stored_records,
    total_record_bytes,
    update_planner_statistics,
    vacuum,
)
from opilio.store.postgres.collection import PostgresCollection
from opilio.store.postgres.schema import tables_bytes, vacuum_tables
from opilio.store.run_tables import delete_robots_expired_before
from opilio.store.warc import FIRST_WARC_KEY, ROTATE_BYTES, WarcWriter, read_member, warc_name
from opilio.store.writer import CollectionWriter


class CompactResult(msgspec.Struct, kw_only=True):
    """What compaction changed."""

    records: int = 0
    versions_dropped: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    files_left: int = 0  # old files that another process reads


def compact(folder: Path, now: float, versions: int | None = None, rotate_bytes: int = ROTATE_BYTES) -> CompactResult:
    """Rewrite a collection; `versions`: how many past versions of a page to keep at most (None: all)."""
    collection = Collection.open_for_writing(folder, "maintain compact")
    try:
        if isinstance(collection, PostgresCollection):
            return _compact_database(collection, versions)
        recover(collection, now)
        return _compact(collection, versions, rotate_bytes)
    except sqlite3.Error as error:
        raise database_error(folder, error) from error
    finally:
        collection.close()


def _compact_database(collection: PostgresCollection, versions: int | None) -> CompactResult:
    db = collection.connection
    result = CompactResult(bytes_before=tables_bytes(db))
    with collection.unit_of_work():
        _drop_versions(collection, versions, result)
        collection.records.delete_unused_rows()
        recount(collection)
    collection.records.delete_unused()
    vacuum_tables(db)
    result.records = sum(1 for _ in stored_records(collection))
    result.bytes_after = tables_bytes(db)
    return result


def _drop_versions(collection: Collection, keep: int | None, result: CompactResult) -> None:
    if keep is not None:
        result.versions_dropped = delete_old_versions(collection.connection, keep)
        add_dropped_versions(collection, result.versions_dropped)
        delete_orphans(collection.connection)


def _compact(collection: Collection, versions: int | None, rotate_bytes: int) -> CompactResult:
    folder, db = collection.folder, collection.connection
    result = CompactResult(bytes_before=_size(folder))
    collection.records.delete_unused()
    _check_disk_space(collection)
    with collection.unit_of_work():
        _drop_versions(collection, versions, result)
        recount(collection)
    last = int(collection.meta("warc_number", "1"))
    writer = WarcWriter(folder, f"Opilio/{__version__}", rotate_bytes)
    try:
        writer.resume(last + 1, 0)
        result.records = collect_moved_records(db, _copy_records(collection, writer))
        writer.sync()
        with collection.unit_of_work():
            apply_moved_records(db)
            number, offset = writer.position
            end = f"{number} {offset}"
            collection.set_meta(warc_number=number, warc_offset=offset, warc_synced=end, **{FIRST_WARC_KEY: last + 1})
    finally:
        writer.close()
    result.files_left = collection.records.delete_unused()
    drop_moved_records(db)
    vacuum(db)
    if collection.seal is not None:
        collection.seal.checkpoint(db, truncate_within_ms=1000)
    result.bytes_after = _size(folder)
    return result


def _copy_records(collection: Collection, writer: WarcWriter) -> Iterator[MovedRecord]:
    """Copy every record that belongs to a version; yields where each one is now."""
    for row in stored_records(collection):
        position = writer.append(_read_whole_member(collection.folder, row), 0.0)
        yield row.current, row.key, row.seq, position.warc, position.offset


def _read_whole_member(folder: Path, row: StoredRecord) -> bytes:
    member = read_member(folder, row.warc, row.offset, row.length)
    if len(member) != row.length:
        name = warc_name(row.warc)
        raise CollectionError(f"{folder / name}: ends before {row.url}; run 'opilio maintain verify --repair' first")
    return member


def _check_disk_space(collection: Collection) -> None:
    """Old and new files exist at the same time."""
    database_bytes = (collection.folder / DATABASE).stat().st_size
    needed = total_record_bytes(collection.connection) + 2 * database_bytes
    free = shutil.disk_usage(collection.folder).free
    if free < needed:
        raise CollectionError(
            f"{collection.folder}: compacting needs {(needed >> 20) + 1} MB of disk space, {free >> 20} MB are free"
        )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in (*folder.glob("pages-*.warc.gz"), *folder.glob(f"{DATABASE}*")))


# RFC 9309, 2.3.1.4: rules older than this no longer stand in for a robots.txt that can't be read.
STALE_ROBOTS_S = 30 * 86_400.0


class RepairReport(msgspec.Struct, kw_only=True):
    """The problems that were found and those that were repaired."""

    problems: list[str] = []  # that remain
    repaired: list[str] = []
    # Damage that can't be repaired: the files are used as they are.
    accepted: list[str] = []
    fetched_again: int = 0


def check_and_repair(folder: Path, now: float, *, pages: bool = False) -> RepairReport:
    """Verify a collection and repair derived data, with `pages` page data too; a running crawl is only checked."""
    found = list(all_problems(folder))
    report = RepairReport(problems=[finding.message for finding in found])
    wrong = any(finding.derived or pages for finding in found)
    # Nothing is written to a damaged database.
    if has_writer(folder) or (found and not wrong):
        return report
    try:
        collection = Collection.open_for_writing(folder, "maintain verify", damaged=pages)
    except CollectionError:
        # Another process has begun to write, or the folder is read-only.
        return report
    try:
        if pages:
            report.fetched_again = _delete_lost_records(
                collection, [f.lost_record for f in found if f.lost_record is not None], now
            )
        if wrong:
            repair_derived(collection, now)
        if pages and found:
            rebuild_database_indexes(collection.connection)
        _drop_stale_robots(collection, now)
    finally:
        collection.close()
    if not wrong:
        return report
    # Checked again: the index may hold pages that were deleted just now.
    if _index_has_problems(folder):
        rebuild_index(folder)
    remaining = [finding.message for finding in all_problems(folder)]
    gone = [finding for finding in found if finding.message not in remaining]
    report.accepted = [finding.message for finding in gone if finding.damage]
    report.repaired = [finding.message for finding in gone if not finding.damage]
    report.problems = remaining
    return report


def repair_derived(collection: Collection, now: float) -> None:
    """Compute derived data again."""
    with collection.unit_of_work():
        rebuild_derived(collection.connection, DONE, now)
        rebuild_counters(collection.connection)
        recount(collection)
        restore_damaged_states(collection)
        collection.records.delete_unused_rows()
    collection.records.delete_unused()
    update_planner_statistics(collection.connection)


def _drop_stale_robots(collection: Collection, now: float) -> None:
    """Delete robots.txt rules that are too old to be used."""
    with collection.unit_of_work():
        delete_robots_expired_before(collection.connection, now - STALE_ROBOTS_S)


def _index_has_problems(folder: Path) -> bool:
    with open_readonly(folder) as collection:
        return next(check_index(collection), None) is not None


def _delete_lost_records(collection: Collection, lost: list[StoredRecord], now: float) -> int:
    """Delete rows without a record, queue their URLs, and correct the stored end of the last WARC file."""
    with collection.unit_of_work():
        pages = delete_records(collection, lost)
        requeue_pages(collection, pages)
        number, offset = int(collection.meta("warc_number", "1")), int(collection.meta("warc_offset", "0"))
        path = collection.folder / warc_name(number)
        size = path.stat().st_size if path.exists() else 0
        if size < offset:
            end = last_record_end(collection.connection, number)
            collection.set_meta(warc_offset=end, warc_synced=f"{number} {end}")
        if lost:
            event = PagesLost(at=now, pages=len(pages), detail=f"{len(lost)} records, found by verify --repair")
            CollectionWriter(collection, None).write_events([event])
    return len(pages)
