"""The checker in the background (S2-17): while a crawl writes, it reads the collection, some records at a time.

In a thread with a connection of its own, so that nothing waits for it; it changes nothing and tells what it finds.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from opilio.crawl.verify import consistent
from opilio.model.clock import Clock
from opilio.model.errors import CollectionError
from opilio.store.collection import reading
from opilio.store.loss import Place, bad_record, stored_rows
from opilio.store.warc import read_member, warc_name

SOME = 300  # records at a time: a tenth of a second
BEGINNING: Place = (0, 0)

Tell = Callable[[Sequence[str]], None]


class Watch:
    """Goes round the collection again and again; after each round it checks the database's own rows."""

    def __init__(self, folder: Path, clock: Clock, every_s: float, tell: Tell) -> None:
        self._folder = folder
        self._clock = clock
        self._every_s = every_s
        self._tell = tell

    async def run(self) -> None:
        """Until cancelled."""
        place = BEGINNING
        while True:
            await self._clock.sleep(self._every_s)
            problems, place = await asyncio.to_thread(check_some, self._folder, place)
            if problems:
                self._tell(problems)


def check_some(folder: Path, since: Place, count: int = SOME) -> tuple[list[str], Place]:
    """What is wrong with the next few records, and where to go on; at the end of a round, with the rows too."""
    problems: list[str] = []
    try:
        with reading(folder) as collection:
            rows = list(islice(stored_rows(collection, since), count))
            for row in rows:
                found = bad_record(read_member(folder, row.warc, row.offset, row.length), row.url)
                if found:
                    problems.append(f"{warc_name(row.warc)} at {row.offset}: {found} ({row.url})")
            if len(rows) < count:
                return [*problems, *consistent(collection)], BEGINNING
            return problems, (rows[-1].warc, rows[-1].offset + 1)
    except CollectionError as error:
        return [str(error)], BEGINNING
