"""Is what the database says true? Reads everything, changes nothing; `crawl.repair` puts right what is derived.

Problems are told one per line; an empty list means that database and WARC files agree.

The checker in the background (S2-17): while a crawl writes, it reads the collection, some records at a time.

In a thread with a connection of its own, so that nothing waits for it; it changes nothing and tells what it finds.
"""

import asyncio
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

import msgspec

from opilio.core.clock import Clock
from opilio.core.errors import CollectionError, ConfigError
from opilio.frontier.sqlite.schema import DONE
from opilio.manage.verify_index import check_index
from opilio.store.collection import CONFIG, Collection, open_readonly
from opilio.store.record_check import StoredRecord, count_rows, record_problem, stored_counts, stored_records
from opilio.store.warc import read_member, warc_name
from opilio.topic.setup import resolve_settings

MAX_PROBLEMS = 100


class IntegrityProblem(msgspec.Struct, frozen=True):
    """One thing that is wrong. `derived`: it follows from the rest and can be made anew without losing anything."""

    message: str
    derived: bool = False
    lost_record: StoredRecord | None = None  # the row whose record is not there as it should be


def verify(folder: Path) -> list[str]:
    """What is wrong with a collection, at most MAX_TOLD lines."""
    with open_readonly(folder) as collection:
        return [finding.message for finding in islice(find_problems(collection), MAX_PROBLEMS)]


def find_problems(collection: Collection) -> Iterator[IntegrityProblem]:
    """Everything that is wrong, the cheap checks first; a stream."""
    derived = (_orphans, _frontier_counters, check_counters, _host_counters, check_index)
    own = (_integrity, _settings, _check_consistency, _warc_ends)
    for check in own:
        yield from (IntegrityProblem(text) for text in check(collection))
    for check in derived:
        yield from (IntegrityProblem(text, derived=True) for text in check(collection))
    yield from _records(collection)


def _integrity(collection: Collection) -> Iterator[str]:
    for (line,) in collection.connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield f"database: {line}"


def _settings(collection: Collection) -> Iterator[str]:
    """Nothing can go on with a collection whose settings can't be read."""
    try:
        resolve_settings(tomllib.loads(collection.config), CONFIG)
    except tomllib.TOMLDecodeError as error:
        yield f"{CONFIG}: is not valid TOML: {error}; restore a copy of it"
    except (CollectionError, ConfigError) as error:
        yield f"{error}; restore a copy of it"


# Every page belongs to a URL that is done or is being looked at again; no place in a WARC file belongs to two
# versions; versions of a page follow each other.
_CONSISTENCY_QUERIES = {
    "page without a finished URL": f"""SELECT p.url FROM page AS p WHERE NOT EXISTS (
        SELECT 1 FROM frontier_url AS u JOIN frontier_host AS h ON h.id = u.host_id
        WHERE h.name = p.host AND u.key = p.key AND (u.state = {DONE}
        OR u.state < {DONE} AND EXISTS (SELECT 1 FROM revisit AS r WHERE r.key = p.key AND r.queued)))""",
    "finished URL without an answer": f"""SELECT u.url FROM frontier_url AS u WHERE u.state = {DONE}
        AND NOT EXISTS (SELECT 1 FROM answer AS a WHERE a.key = u.key)""",
    "page stored twice": "SELECT url FROM page GROUP BY url HAVING count(*) > 1",
    "two pages at one place of a WARC file": """SELECT url FROM (
        SELECT url, warc, offset FROM page WHERE length > 0 UNION ALL
        SELECT url, warc, offset FROM version WHERE length > 0) GROUP BY warc, offset HAVING count(*) > 1""",
    "version that is newer than the current one": """SELECT v.url FROM version AS v JOIN page AS p ON p.key = v.key
        WHERE v.seq >= p.seq""",
    "version that ends before it begins": "SELECT url FROM version WHERE until < fetched_at",
    "page moved to an address that nobody knows": """SELECT key FROM move WHERE target NOT IN (
        SELECT key FROM frontier_url)""",
}
# What follows from the rest.
_ORPHAN_QUERIES = {
    "links of no page": """SELECT parent FROM links WHERE parent NOT IN (SELECT key FROM page)
        AND parent NOT IN (SELECT key FROM version)""",
    "copy of a page that is not there": """SELECT url FROM page AS p WHERE duplicate_of <> 0
        AND NOT EXISTS (SELECT 1 FROM page AS o WHERE o.key = p.duplicate_of)
        AND NOT EXISTS (SELECT 1 FROM revisit AS r WHERE r.key = p.key AND (r.hinted_at > 0 OR r.queued))""",
    "page that is not waited for but marked so": f"""SELECT r.key FROM revisit AS r WHERE r.queued AND NOT EXISTS (
        SELECT 1 FROM frontier_url AS u WHERE u.key = r.key AND u.state < {DONE})""",
    "tip of a page that is not known": """SELECT key FROM tip WHERE page NOT IN (SELECT key FROM page)
        AND page NOT IN (SELECT key FROM version)""",
    "text of a page that is not there": """SELECT t.key FROM texts AS t WHERE NOT EXISTS (
        SELECT 1 FROM page AS p WHERE p.key = t.key AND p.fingerprint = t.fingerprint)
        AND EXISTS (SELECT 1 FROM answer AS a WHERE a.key = t.key AND a.failure = '')""",
}


def check_database_rows(collection: Collection) -> Iterator[str]:
    """What is wrong with the rows, without reading a record."""
    yield from _check_consistency(collection)
    yield from _orphans(collection)
    yield from check_counters(collection)


def _check_consistency(collection: Collection) -> Iterator[str]:
    return _run_checks(collection, _CONSISTENCY_QUERIES)


def _orphans(collection: Collection) -> Iterator[str]:
    return _run_checks(collection, _ORPHAN_QUERIES)


def _run_checks(collection: Collection, checks: dict[str, str]) -> Iterator[str]:
    for name, query in checks.items():
        for (what,) in collection.connection.execute(query):
            yield f"{name}: {what}"


def _frontier_counters(collection: Collection) -> Iterator[str]:
    count = collection.connection.execute(
        "SELECT queued + leased, done, failed, dropped FROM frontier_count"
    ).fetchone()
    rows = collection.connection.execute(
        "SELECT sum(state < 2), sum(state = 2), sum(state = 3), sum(state = 4) FROM frontier_url"
    ).fetchone()
    for name, said, found in zip(("queued", "done", "failed", "dropped"), count, rows, strict=True):
        if said != (found or 0):
            yield f"counter of {name} URLs says {said}, there are {found or 0}"


def check_counters(collection: Collection) -> Iterator[str]:
    """The counters of the store."""
    said, found = stored_counts(collection), count_rows(collection.connection)
    for name in said.__struct_fields__:
        if getattr(said, name) != getattr(found, name):
            yield f"counter of {name} says {getattr(said, name)}, there are {getattr(found, name)}"


def _host_counters(collection: Collection) -> Iterator[str]:
    for host, said, found in collection.connection.execute(
        """SELECT name, queued, (SELECT count(*) FROM frontier_url WHERE host_id = id AND state < 2) AS found
        FROM frontier_host WHERE queued <> found"""
    ):
        yield f"counter of queued URLs of {host} says {said}, there are {found}"


def _warc_ends(collection: Collection) -> Iterator[str]:
    """The last file may be longer than what was committed (a crash; cut on the next start), never shorter."""
    number, offset = int(collection.meta("warc_number", "1")), int(collection.meta("warc_offset", "0"))
    path = collection.folder / warc_name(number)
    size = path.stat().st_size if path.exists() else 0
    if size < offset:
        yield f"{path.name}: {offset - size} bytes are missing at the end"


def _records(collection: Collection) -> Iterator[IntegrityProblem]:
    """Every record is where the database says, with the URL and the digest it should have, and no gap between two."""
    last, last_end = int(collection.meta("warc_number", "1")), int(collection.meta("warc_offset", "0"))
    for number, rows in groupby(stored_records(collection), key=attrgetter("warc")):
        path = collection.folder / warc_name(number)
        try:
            file = path.open("rb")
        except OSError as error:
            yield IntegrityProblem(f"{path.name}: can't be read: {error.strerror}")
            yield from (
                IntegrityProblem(f"{path.name} at {row.offset}: is not there ({row.url})", lost_record=row)
                for row in rows
            )
            continue
        with file:
            size = path.stat().st_size
            yield from _records_of(path.name, file, rows, min(size, last_end) if number == last else size)


def _records_of(name: str, file: BinaryIO, rows: Iterable[StoredRecord], size: int) -> Iterator[IntegrityProblem]:
    end = 0
    for row in rows:
        if end == 0:  # the record that opens the file
            problem = record_problem(file.read(row.offset))
            if problem:
                yield IntegrityProblem(f"{name} at 0: {problem}")
        elif row.offset != end:
            yield IntegrityProblem(f"{name} at {end}: {row.offset - end} bytes that belong to no page")
        end = row.offset + row.length
        file.seek(row.offset)
        problem = record_problem(file.read(row.length), row.url)
        if problem:
            yield IntegrityProblem(f"{name} at {row.offset}: {problem} ({row.url})", lost_record=row)
    if end < size:
        yield IntegrityProblem(f"{name} at {end}: {size - end} bytes that belong to no page")


def all_problems(folder: Path) -> Iterator[IntegrityProblem]:
    """All findings, without a bound; for whoever repairs."""
    with open_readonly(folder) as collection:
        yield from find_problems(collection)


RECORDS_PER_CHECK = 300  # records at a time: a tenth of a second
START_SEQ = 0
# By the number of the answer, which has an index: to look at a few pages of a million must not read them all.
_NEXT_PAGES = "SELECT warc, offset, length, seq, url FROM page WHERE seq > ? ORDER BY seq LIMIT ?"

ProblemCallback = Callable[[Sequence[str]], None]


class IntegrityMonitor:
    """Goes round the collection again and again; after each round it checks the database's own rows."""

    def __init__(self, folder: Path, clock: Clock, every_s: float, tell: ProblemCallback) -> None:
        self._folder = folder
        self._clock = clock
        self._every_s = every_s
        self._on_problems = tell

    async def run(self) -> None:
        """Until cancelled."""
        place = START_SEQ
        while True:
            await self._clock.sleep(self._every_s)
            problems, place = await asyncio.to_thread(check_next_records, self._folder, place)
            if problems:
                self._on_problems(problems)


def check_next_records(folder: Path, since: int, count: int = RECORDS_PER_CHECK) -> tuple[list[str], int]:
    """What is wrong with the records of the next few pages, and where to go on; after a round, with the rows too."""
    problems: list[str] = []
    try:
        with open_readonly(folder) as collection:
            rows = collection.connection.execute(_NEXT_PAGES, (since, count)).fetchall()
            for warc, offset, length, _, url in rows:
                found = record_problem(read_member(folder, warc, offset, length), url) if length else ""
                if found:
                    problems.append(f"{warc_name(warc)} at {offset}: {found} ({url})")
            if len(rows) < count:
                return [*problems, *check_database_rows(collection)], START_SEQ
            return problems, rows[-1][3]
    except CollectionError as error:
        return [str(error)], START_SEQ
