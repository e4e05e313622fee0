"""Repairs what `verify` found: derived data always, page data only on request. Holds the write lock.

Derived data follows from the rest: counters, flags, orphans. A page whose record is damaged is deleted and its URL
queued again; its other versions stay.
"""

from pathlib import Path

import msgspec

from opilio.core.errors import CollectionError
from opilio.core.events import PagesLost
from opilio.engine.integrity import requeue_pages
from opilio.frontier.postgres.frontier import rebuild_counters
from opilio.frontier.sqlite.schema import DONE
from opilio.manage.compact import delete_unused_warcs
from opilio.manage.verify import all_problems, check_index
from opilio.search.indexer import rebuild_index
from opilio.store.collection import Collection, open_readonly
from opilio.store.connection import has_writer
from opilio.store.maintain.integrity import (
    StoredRecord,
    delete_records,
    last_record_end,
    rebuild_database_indexes,
    rebuild_derived,
    recount,
    update_planner_statistics,
)
from opilio.store.postgres.chunks import delete_unused_chunks, delete_unused_objects
from opilio.store.postgres.collection import PostgresCollection
from opilio.store.run_tables import delete_robots_expired_before, restore_damaged_states
from opilio.store.warc import warc_name
from opilio.store.writer import CollectionWriter

# RFC 9309, 2.3.1.4: rules older than this no longer stand in for a robots.txt that can't be read.
STALE_ROBOTS_S = 30 * 86_400.0


class RepairReport(msgspec.Struct, kw_only=True):
    """The problems that were found and those that were repaired."""

    problems: list[str] = []  # that remain
    repaired: list[str] = []
    accepted: list[str] = []  # damage that can't be repaired: the files are used as they are
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
    delete_unused_warcs(collection)
    with collection.unit_of_work():
        rebuild_derived(collection.connection, DONE, now)
        rebuild_counters(collection.connection)
        recount(collection)
        restore_damaged_states(collection)
        if isinstance(collection, PostgresCollection):
            delete_unused_chunks(collection.connection)
    if isinstance(collection, PostgresCollection):
        delete_unused_objects(collection.connection)
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
