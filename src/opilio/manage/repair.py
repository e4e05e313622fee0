"""Puts right what `verify` found: always what is derived, page data only when a person says so. Holds the write lock.

Derived is what follows from the rest: counters, marks, orphans. A page whose record is damaged is let go of and fetched
again; its other versions stay.
"""

from pathlib import Path

import msgspec

from opilio.core.errors import CollectionError
from opilio.core.events import PagesLost
from opilio.engine.recover import requeue_pages
from opilio.frontier.sqlite.schema import DONE
from opilio.manage.compact import DELETE_ORPHANS, delete_unused_warcs
from opilio.manage.verify import all_problems
from opilio.manage.verify_index import check_index
from opilio.search.indexer import rebuild_index
from opilio.store.collection import Collection, open_readonly
from opilio.store.locks import has_writer
from opilio.store.record_check import StoredRecord, delete_records, recount
from opilio.store.warc import warc_name
from opilio.store.writer import CollectionWriter

STALE_ROBOTS_S = 30 * 86_400.0  # RFC 9309, 2.3.1.4: rules that old no longer stand in for a file that can't be read
_REPAIR_STATEMENTS = (
    *DELETE_ORPHANS,
    f"UPDATE revisit SET queued = 0 WHERE queued AND key NOT IN (SELECT key FROM frontier_url WHERE state < {DONE})",
    """DELETE FROM texts WHERE NOT EXISTS (
        SELECT 1 FROM page AS p WHERE p.key = texts.key AND p.fingerprint = texts.fingerprint)""",
    """INSERT OR IGNORE INTO texts SELECT fingerprint, key FROM page WHERE fingerprint <> 0 AND duplicate_of = 0
        ORDER BY seq""",
    """UPDATE frontier_count SET generation = generation + 1, leased = 0,
        queued = (SELECT count(*) FROM frontier_url WHERE state < 2),
        done = (SELECT count(*) FROM frontier_url WHERE state = 2),
        failed = (SELECT count(*) FROM frontier_url WHERE state = 3),
        dropped = (SELECT count(*) FROM frontier_url WHERE state = 4),
        hosts = (SELECT count(*) FROM frontier_host)""",
    "DELETE FROM frontier_lease",
    """UPDATE frontier_host SET queued = (SELECT count(*) FROM frontier_url WHERE host_id = id AND state < 2),
        (best_tier, best, best_seq) = (SELECT coalesce(max(tier), 0), max(priority), coalesce(max(seq), 0) FROM (
            SELECT tier, priority, seq FROM frontier_url WHERE host_id = id AND state = 0
            ORDER BY tier DESC, priority DESC, seq LIMIT 1))""",
)
# A copy that stands for nothing is looked at soon.
_REVISIT_ORPHANED_DUPLICATES = """INSERT INTO revisit (
    key, checks, changes, checked_at, changed_at, tried_at, strikes, struck_at, rates,
    found, brought, hinted_at, queued)
    SELECT key, 0, 0, fetched_at, 0, fetched_at, 0, 0, x'', 0, 0, :now, 0 FROM page AS p
    WHERE duplicate_of <> 0 AND NOT EXISTS (SELECT 1 FROM page AS o WHERE o.key = p.duplicate_of)
    ON CONFLICT (key) DO UPDATE SET hinted_at = :now"""


class RepairReport(msgspec.Struct, kw_only=True):
    """What was found, and what was done about it."""

    problems: list[str] = []  # that are still there
    repaired: list[str] = []
    fetched_again: int = 0


def check_and_repair(folder: Path, now: float, *, pages: bool = False) -> RepairReport:
    """Verify a collection and repair what is derived, with `pages` what is not; a running crawl is only looked at."""
    found = list(all_problems(folder))
    report = RepairReport(problems=[finding.message for finding in found])
    wrong = any(finding.derived or pages for finding in found)
    if has_writer(folder) or (found and not wrong):  # nothing is written to what is damaged
        return report
    try:
        collection = Collection.open_for_writing(folder, "verify")
    except CollectionError:  # somebody began to write, or nobody may
        return report
    try:
        if pages:
            report.fetched_again = _delete_lost_records(
                collection, [f.lost_record for f in found if f.lost_record is not None], now
            )
        if wrong:
            repair_derived(collection, now)
        _drop_stale_robots(collection, now)
    finally:
        collection.close()
    if not wrong:
        return report
    if _index_has_problems(folder):  # asked anew: it may hold pages that were let go of just now
        rebuild_index(folder)
    left = [
        finding.message for finding in all_problems(folder)
    ]  # looked at again: nothing is called repaired that is not
    report.repaired = [text for text in report.problems if text not in left]
    report.problems = left
    return report


def repair_derived(collection: Collection, now: float) -> None:
    """Make anew what follows from the rest."""
    delete_unused_warcs(collection)
    with collection.unit_of_work():
        for statement in _REPAIR_STATEMENTS:
            collection.connection.execute(statement)
        collection.connection.execute(_REVISIT_ORPHANED_DUPLICATES, {"now": now})
        recount(collection)
    collection.connection.execute("PRAGMA optimize = 0x10002")  # statistics for the planner of queries, where stale


def _drop_stale_robots(collection: Collection, now: float) -> None:
    """Rules of robots.txt that are too old to go by: not wrong, only of no use."""
    with collection.unit_of_work():
        collection.connection.execute("DELETE FROM robots WHERE expires_at < ?", (now - STALE_ROBOTS_S,))


def _index_has_problems(folder: Path) -> bool:
    with open_readonly(folder) as collection:
        return next(check_index(collection), None) is not None


def _delete_lost_records(collection: Collection, lost: list[StoredRecord], now: float) -> int:
    """Rows without a record go, their URLs are queued again, and the last file ends where it ends."""
    with collection.unit_of_work():
        pages = delete_records(collection, lost)
        requeue_pages(collection, pages)
        number, offset = int(collection.meta("warc_number", "1")), int(collection.meta("warc_offset", "0"))
        path = collection.folder / warc_name(number)
        size = path.stat().st_size if path.exists() else 0
        if size < offset:
            end = _last_record_end(collection, number)
            collection.set_meta(warc_offset=end, warc_synced=f"{number} {end}")
        if lost:
            event = PagesLost(at=now, pages=len(pages), detail=f"{len(lost)} records, found by verify --repair")
            CollectionWriter(collection, None).write_events([event])
    return len(pages)


def _last_record_end(collection: Collection, number: int) -> int:
    """Where the last record of a file ends that belongs to somebody."""
    sql = """SELECT coalesce(max(offset + length), 0) FROM (SELECT warc, offset, length FROM page
        UNION ALL SELECT warc, offset, length FROM version) WHERE warc = ? AND length > 0"""
    return int(collection.connection.execute(sql, (number,)).fetchone()[0])
