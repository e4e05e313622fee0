"""Queries for verify, repair and compact: do the tables agree with each other and with the WARC files?

They also read the tables of the frontier and of the duplicate test. `:done` is the frontier's code of a finished URL.
"""

from collections.abc import Iterable, Iterator

from opilio.core.protocols import Database
from opilio.store.connection import read_value

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
