"""The checker in the background (S2-17): while a crawl writes, it reads the collection, some records at a time.

In a thread with a connection of its own, so that nothing waits for it; it changes nothing and tells what it finds.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from opilio.crawl.verify import consistent
from opilio.model.clock import Clock
from opilio.model.errors import CollectionError
from opilio.store.collection import reading
from opilio.store.loss import bad_record
from opilio.store.warc import read_member, warc_name

SOME = 300  # records at a time: a tenth of a second
BEGINNING = 0
# By the number of the answer, which has an index: to look at a few pages of a million must not read them all.
_NEXT = "SELECT warc, offset, length, seq, url FROM page WHERE seq > ? ORDER BY seq LIMIT ?"

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


def check_some(folder: Path, since: int, count: int = SOME) -> tuple[list[str], int]:
    """What is wrong with the records of the next few pages, and where to go on; after a round, with the rows too."""
    problems: list[str] = []
    try:
        with reading(folder) as collection:
            rows = collection.connection.execute(_NEXT, (since, count)).fetchall()
            for warc, offset, length, _, url in rows:
                found = bad_record(read_member(folder, warc, offset, length), url) if length else ""
                if found:
                    problems.append(f"{warc_name(warc)} at {offset}: {found} ({url})")
            if len(rows) < count:
                return [*problems, *consistent(collection)], BEGINNING
            return problems, rows[-1][3]
    except CollectionError as error:
        return [str(error)], BEGINNING
