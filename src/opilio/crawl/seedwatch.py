"""Were the pages a crawl begins with visited, as far as they can be (S3-12)? Told by what is stored, by nothing else.

So it is right after a kill, for seeds that redirect or are refused, and for every agent. It only reads.
"""

from collections.abc import Callable, Iterable

from opilio.crawl.config import Settings
from opilio.model.protocols import Frontier
from opilio.model.records import State, key_of
from opilio.model.urls import host_of
from opilio.store.collection import Collection
from opilio.store.enquiries import last_location

PATIENCE_S = 60.0  # a host that rests longer (no robots.txt, Retry-After) is not waited for; a Crawl-delay is
_WAKES_AT = "SELECT wake_at FROM frontier_host WHERE name = ?"


class SeedWatch:
    """Seeds of which some may still be open: never tried, under way, or redirected to a page that is."""

    def __init__(self, seeds: Iterable[str], frontier: Frontier, collection: Collection, hops: int) -> None:
        self._open = list(seeds)
        self._frontier = frontier
        self._collection = collection
        self._hops = hops

    def settled(self, now: float) -> bool:
        """None is open. Asked with every commit, so it looks no further than to the first that is."""
        while self._open and not self._is_open(self._open[-1], now):
            self._open.pop()
        return not self._open

    def _is_open(self, url: str, now: float) -> bool:
        for _ in range(self._hops + 1):
            entry = self._frontier.entry(host_of(url), key_of(url))
            if entry is None or entry.state in (State.FAILED, State.DROPPED):
                return False
            if entry.state is State.LEASED:
                return True
            if entry.state is State.QUEUED:  # one that failed once was visited all the same
                return not entry.lead.retries and self._wakes_at(entry.lead.host) <= now + PATIENCE_S
            url = last_location(self._collection.connection, entry.lead.key)
            if not url:
                return False
        return False

    def _wakes_at(self, host: str) -> float:
        row = self._collection.connection.execute(_WAKES_AT, (host,)).fetchone()
        return float(row[0]) if row else 0.0  # the frontier in memory has no such row, and no host of it rests long


def seeds_settled(settings: Settings, frontier: Frontier, collection: Collection) -> Callable[[float], bool]:
    """Whether the seeds of these settings are settled, to be asked at a time."""
    return SeedWatch(settings.seeds.urls, frontier, collection, settings.fetch.hops).settled
