"""The integrity of a collection: recovery before a crawl resumes, and checks while it writes (S2-17).

The monitor reads in a thread with its own connection, so that the crawl never waits for it. `manage.verify` checks
everything at once.

Hosts that an earlier run could not reach are tried at once: a resumed crawl may reach them. Delays that hosts required
in their responses stay in force.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from opilio.core.clock import Clock
from opilio.core.errors import CollectionError
from opilio.core.events import PagesLost
from opilio.core.protocols import Frontier
from opilio.core.settings import FetchSettings
from opilio.core.urls import host_of
from opilio.dedup import StoredDuplicateDetector
from opilio.engine.politeness.host_gate import EARLIER_PRIVATE_ADDRESS_REASON, PRIVATE_ADDRESS_REASON
from opilio.engine.politeness.robots import PRIVATE_ADDRESS, decode_rules
from opilio.frontier.postgres.frontier import open_frontier
from opilio.frontier.schema import DONE
from opilio.frontier.sqlite.queries import shift_times
from opilio.rank.link_scores import unpack
from opilio.store.collection import Collection, open_readonly
from opilio.store.learner_states import STATE_DAMAGED, damaged_states
from opilio.store.maintain.integrity import (
    CONSISTENCY_QUERIES,
    ORPHAN_QUERIES,
    LostPage,
    count_rows,
    find_first_lost,
    record_problem,
    run_checks,
    stored_links,
    truncate_at,
)
from opilio.store.pages import pages_after
from opilio.store.run_tables import delete_robots, delete_robots_expiring_after, robots_rows
from opilio.store.versions import last_answer
from opilio.store.warc import read_member, warc_name
from opilio.store.writer import CollectionWriter, stored_counts

RECORDS_PER_CHECK = 300
START_SEQ = 0

ProblemCallback = Callable[[Sequence[str]], None]


class IntegrityMonitor:
    """Checks all records in turn, over and over; after each round also the rows of the database."""

    def __init__(self, folder: Path, clock: Clock, every_s: float, on_problems: ProblemCallback) -> None:
        self._folder = folder
        self._clock = clock
        self._every_s = every_s
        self._on_problems = on_problems

    async def run(self) -> None:
        """Until cancelled."""
        place = START_SEQ
        while True:
            await self._clock.sleep(self._every_s)
            problems, place = await asyncio.to_thread(check_next_records, self._folder, place)
            if problems:
                self._on_problems(problems)


def check_next_records(folder: Path, since: int, count: int = RECORDS_PER_CHECK) -> tuple[list[str], int]:
    """Problems of the next few records, and where to continue; at the end of a round also of the rows."""
    problems: list[str] = []
    try:
        with open_readonly(folder) as collection:
            pages = pages_after(collection.connection, since, count)
            problems += [
                f"{warc_name(page.warc)} at {page.offset}: {found} ({page.url})"
                for page in pages
                if page.length and (found := record_problem(read_member(folder, *page.position), page.url))
            ]
            if len(pages) < count:
                return [*problems, *check_database_rows(collection)], START_SEQ
            return problems, pages[-1].seq
    except CollectionError as error:
        return [str(error)], START_SEQ


def check_database_rows(collection: Collection) -> Iterator[str]:
    """Problems of the rows, without reading a record."""
    yield from check_consistency(collection)
    yield from check_orphans(collection)
    yield from check_counters(collection)


def check_consistency(collection: Collection) -> Iterator[str]:
    return run_checks(collection.connection, CONSISTENCY_QUERIES, DONE)


def check_orphans(collection: Collection) -> Iterator[str]:
    return run_checks(collection.connection, ORPHAN_QUERIES, DONE)


def check_counters(collection: Collection) -> Iterator[str]:
    """The counters of the store."""
    stored, counted = stored_counts(collection), count_rows(collection.connection)
    for name in stored.__struct_fields__:
        if getattr(stored, name) != getattr(counted, name):
            yield f"counter of {name} is {getattr(stored, name)}, there are {getattr(counted, name)}"


def check_states(collection: Collection) -> Iterator[str]:
    """States of learners that were changed since they were written."""
    return map(STATE_DAMAGED.format, damaged_states(collection))


def check_contents(collection: Collection) -> Iterator[str]:
    """Links of pages that can't be read. (Rules of robots.txt that can't be read are fetched again.)"""
    for page, data in stored_links(collection.connection):
        try:
            unpack(bytes(data))
        # A damaged row may hold a number or nothing instead of bytes.
        except (ValueError, TypeError) as error:
            yield f"links of page {page}: can't be read: {' '.join(str(error).split())}"


# In `meta`: the number of the last response with a later time than now.
CLOCK_META_KEY = "clock_followed"


def recover(collection: Collection, now: float) -> int:
    """Make database and WARC files agree after a crash; returns how many pages are fetched again.

    Only what was written after the last sync can be lost in a crash. For other damage there is `verify --repair`.
    """
    if collection.meta("state") != "running":
        return 0
    place = find_first_lost(collection)
    if place is None:
        return 0
    with collection.unit_of_work():
        lost = truncate_at(collection, place)
        requeue_pages(collection, lost)
        detail = f"{warc_name(place[0])} from {place[1]} on"
        CollectionWriter(collection, None).write_events([PagesLost(at=now, pages=len(lost), detail=detail)])
    return len(lost)


def adjust_for_clock_change(collection: Collection, now: float) -> None:
    """After a clock was set back, shift the times of hosts and retries, so that they wait no longer; in a unit of work.

    Otherwise a machine that once had a wrong date would block a collection until that date. It is done once per last
    response, so that a crawl that restarts before the next one keeps its delays.
    """
    last = last_answer(collection.connection)
    if last is None or last.at <= now or collection.meta(CLOCK_META_KEY) == str(last.seq):
        return
    shift_times(collection.connection, last.at - now, now)
    # Their expiry dates are from the wrong clock too.
    delete_robots_expiring_after(collection.connection, now)
    collection.set_meta(**{CLOCK_META_KEY: last.seq})


def requeue_pages(collection: Collection, pages: Sequence[LostPage]) -> None:
    """Queue lost pages again.

    Their fingerprints are deleted: otherwise the next page with the same text would be a copy of a missing page.
    """
    texts = StoredDuplicateDetector(collection.connection)
    for page in pages:
        texts.forget(page.key, page.fingerprint, gone=True)
    open_frontier(collection.connection).revive([(page.host, page.key) for page in pages])


def retry_unreachable(collection: Collection, frontier: Frontier, fetch: FetchSettings, now: float) -> None:
    """Delete the rules of hosts that were unreachable; those in private networks only if they are allowed now."""
    db, reaches_private = collection.connection, fetch.allow_private or bool(fetch.proxy)
    for row in robots_rows(db):
        rules = decode_rules(row.rules)
        if rules is None or rules.asked:
            continue
        if reaches_private if rules.why == PRIVATE_ADDRESS else row.expires_at > now:
            delete_robots(db, row.origin)
            for reason in (PRIVATE_ADDRESS_REASON, EARLIER_PRIVATE_ADDRESS_REASON):
                frontier.reopen_host(host_of(row.origin), reason, now)
