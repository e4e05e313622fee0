"""Checks the rows and records of a collection while a crawl writes (S2-17), a few records at a time.

The monitor reads in a thread with its own connection, so that the crawl never waits for it. `manage.verify` checks
everything at once.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from opilio.core.clock import Clock
from opilio.core.errors import CollectionError
from opilio.engine.link_columns import unpack
from opilio.frontier.sqlite.schema import DONE
from opilio.store.collection import Collection, open_readonly
from opilio.store.journal import STATE_DAMAGED, damaged_states
from opilio.store.maintain.integrity import CONSISTENCY_QUERIES, ORPHAN_QUERIES, run_checks, stored_links
from opilio.store.maintain.record_check import count_rows, record_problem, stored_counts
from opilio.store.pages import pages_after
from opilio.store.warc import read_member, warc_name

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
