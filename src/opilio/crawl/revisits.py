"""When to look at which page again: a budget that fills with time, and a policy that spends it.

The budget is so many looks a second that every page could have one each `revisit.interval_s`; whatever the policy, that
is what it has. Chosen pages wait in the frontier before new URLs, so the same pauses and limits hold for them. While
there are new URLs, at most `revisit.share` of the fetches are such looks.
"""

from math import inf

from opilio.crawl.again import Again
from opilio.crawl.announcements import Announcements, probe_url
from opilio.crawl.config import RevisitSettings
from opilio.crawl.lookagain import MOST_STRIKES, Shelf
from opilio.frontier.order import AGAIN
from opilio.model.protocols import Frontier
from opilio.model.records import Lead, key_of
from opilio.store.collection import Collection
from opilio.store.notices import Notices

BUDGET = "revisit_budget"  # in `meta`: looks to spend, and when that was reckoned
PORTION = 32  # looks that are planned at once, at least; more where there are many pages, for each plan reads them all
OVER = "every page that was due was looked at again"


class Revisits:
    """Plans looks. `feed` runs inside a unit of work."""

    def __init__(self, collection: Collection, frontier: Frontier, again: Again, settings: RevisitSettings) -> None:
        self._collection = collection
        self._frontier = frontier
        self._again = again
        self._settings = settings
        self._shelf = Shelf()
        self._began_with = 0  # pages; a run that began with none is a crawl like any other
        self._left, self._at = -1.0, 0.0  # the budget
        self._fetched = [0, 0]  # by this run: all, and of them looks
        self._planned_at = -inf  # last time that there was nothing to plan
        self.announcements: Announcements | None = None

    def load(self, now: float) -> None:
        """Take up every page, and the budget as it was left."""
        book = self._again.book
        for facts, looks in book.all_pages():
            self._shelf.put(facts, looks)
        for facts, looks in book.gone_pages(MOST_STRIKES):
            self._shelf.put(facts, looks, left=True)
        self._shelf.not_after(now)
        self._began_with = len(self._shelf)
        self._again.shelf = self._shelf
        if self._settings.announcements:
            notices = Notices(self._collection.connection)
            self.announcements = Announcements(notices, book, self._frontier, self._shelf)
            with self._collection.unit_of_work():
                self.announcements.load(self._collection.connection)
        stored = self._collection.meta(BUDGET)
        if stored:
            self._left, self._at = map(float, stored.split())
        else:
            self._left, self._at = self._shelf.due(now, self._settings.interval_s), now

    def count(self, fetched: int, looks: int) -> None:
        """So many fetches were committed, so many of them looks."""
        self._fetched[0] += fetched
        self._fetched[1] += looks

    def feed(self, now: float, room: int) -> None:
        """Have the frontier hold as many looks as are due, and as there is room for."""
        self._refill(now)
        if self.announcements is not None:
            self.announcements.ask(now, self._settings.interval_s)
        busy = self._shelf.busy
        for key, host in self._shelf.second_looks(now, self._settings.second_look_s):
            self._queue(key, host, now, 2.0)
        wanted = min(int(self._left), self._allowed(room, busy))
        if wanted <= 0 or busy >= max(room, PORTION) or now <= self._planned_at:
            return
        portion = min(wanted, max(PORTION, len(self._shelf) // 500))
        chosen = self._shelf.best(self._settings, now, portion)
        for key, host in chosen:
            self._left -= self._queue(key, host, now, 1.0)
        if not chosen:
            self._planned_at = now
        self._collection.set_meta(**{BUDGET: f"{self._left!r} {self._at!r}"})

    def _refill(self, now: float) -> None:
        """A clock set back gives nothing, and takes nothing."""
        pages = len(self._shelf)
        self._left = min(float(pages), self._left + max(0.0, now - self._at) * pages / self._settings.interval_s)
        self._at = now

    def _allowed(self, room: int, busy: int) -> int:
        """How many looks may be added, as far as new URLs have a right to the rest."""
        stats = self._frontier.stats()
        if stats.queued + stats.leased <= busy:
            return room
        fetched, looks = self._fetched
        return int(self._settings.share * (fetched + room) + 0.5) - looks - busy

    def _queue(self, key: int, host: str, now: float, urgency: float) -> int:
        """Have the frontier hold a page; 0: it can't."""
        looks = self._again.book.looks(key)
        if self._settings.probe:
            self._probe(key, host, now)
        added = self._frontier.add([Lead(url="", key=key, host=host, again=urgency)], now)
        looks.queued = int(added.raised > 0)
        looks.tried_at = looks.tried_at if looks.queued else now
        self._again.book.save([looks])
        self._shelf.update(looks, left=looks.strikes > 1)
        return looks.queued

    def _probe(self, key: int, host: str, now: float) -> None:
        """Before the first look at a host: what does it say where it has nothing?"""
        empty = self._again.empty
        if not empty.probed(host):
            empty.note_probe(host, now)
            url = probe_url(self._again.book.url_of(key))
            self._frontier.add([Lead(url=url, key=key_of(url), host=host)], now)
            self._frontier.add([Lead(url=url, key=key_of(url), host=host, again=3.0)], now)

    @property
    def continuous(self) -> bool:
        """Does the run wait for what becomes due?"""
        return self._settings.continuous

    @property
    def above(self) -> float:
        """The lowest key that may be leased: all the budget for looks means none for new URLs."""
        return AGAIN if self._settings.share >= 1.0 else -inf

    def over(self, now: float) -> str:
        """Why a run that is not to go on for ever has done its part; or nothing."""
        if self._settings.continuous or not self._began_with or self._again.book.queued():
            return ""
        wakes_at = self.wakes_at(now)
        due = wakes_at is not None and wakes_at <= now
        return "" if due or self._owed() else OVER

    def _owed(self) -> bool:
        """Have new URLs had less than their part? A run's budget is its looks and as much more as the share says."""
        fetched, looks = self._fetched
        stats = self._frontier.stats()
        return stats.queued + stats.leased > 0 and (fetched - looks) * self._settings.share < looks * self._rest

    @property
    def _rest(self) -> float:
        return 1.0 - self._settings.share

    def wakes_at(self, now: float) -> float | None:
        """When the next look is due; None: no page is left to look at."""
        free_at, second_at = self._shelf.free_at(self._settings.least_s, self._settings.second_look_s)
        missing = max(0.0, 1.0 - self._left)
        paid_at = self._at + missing * self._settings.interval_s / max(1, len(self._shelf))
        next_at = min(max(free_at, paid_at), second_at)
        return None if next_at == inf else max(next_at, now)
