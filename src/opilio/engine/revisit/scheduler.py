"""When to revisit which page: a budget that fills with time, and a policy that spends it.

The budget allows one revisit per page and `revisit.interval_s`, whatever the policy. Chosen pages wait in the frontier
before new URLs, so the same delays and limits hold for them. While there are new URLs, at most `revisit.share` of the
fetches are revisits. Revisits are conditional requests: the fetcher sends the validators of the stored page.
"""

from collections.abc import Mapping
from math import inf

from opilio.core.protocols import Database, Fetcher, Frontier
from opilio.core.records import FetchResult, Lead, Tier, url_key
from opilio.core.settings import RevisitSettings, Settings
from opilio.engine.revisit.candidates import MAX_MISSING_CHECKS, RevisitTable
from opilio.engine.revisit.outcomes import RevisitOutcomes
from opilio.engine.revisit.sitemaps import SitemapScheduler, probe_url
from opilio.store.collection import Collection
from opilio.store.pages import page_validators
from opilio.store.revisits import RevisitStore, SitemapStore

BUDGET_META_KEY = "revisit_budget"  # in `meta`: looks to spend, and when that was reckoned
MIN_PLAN_BATCH = (
    32  # looks that are planned at once, at least; more where there are many pages, for each plan reads them all
)
PROBE_URGENCY = 3.0  # a host's probe goes before its revisits
ALL_REVISITED_REASON = "all due pages revisited"


class RevisitScheduler:
    """Plans looks. `feed` runs inside a unit of work."""

    def __init__(
        self, collection: Collection, frontier: Frontier, again: RevisitOutcomes, settings: RevisitSettings
    ) -> None:
        self._collection = collection
        self._frontier = frontier
        self._outcomes = again
        self._settings = settings
        self._table = RevisitTable()
        self._initial_pages = 0  # pages; a run that began with none is a crawl like any other
        self._budget, self._budget_at = -1.0, 0.0  # the budget
        self._fetch_counts = [0, 0]  # by this run: all, and of them looks
        self._nothing_due_at = -inf  # last time that there was nothing to plan
        self.sitemaps: SitemapScheduler | None = None

    def load(self, now: float) -> None:
        """Take up every page, and the budget as it was left."""
        book = self._outcomes.store
        for facts, looks in book.all_pages():
            self._table.put(facts, looks)
        for facts, looks in book.gone_pages(MAX_MISSING_CHECKS):
            self._table.put(facts, looks, left=True)
        self._table.clamp_times(now)
        self._initial_pages = len(self._table)
        self._outcomes.table = self._table
        if self._settings.announcements:
            notices = SitemapStore(self._collection.connection)
            self.sitemaps = SitemapScheduler(notices, book, self._frontier, self._table)
            with self._collection.unit_of_work():
                self.sitemaps.load_from_robots(self._collection.connection)
        stored = self._collection.meta(BUDGET_META_KEY)
        if stored:
            self._budget, self._budget_at = map(float, stored.split())
        else:
            self._budget, self._budget_at = self._table.due_visits(now, self._settings.interval_s), now

    def record_fetches(self, fetched: int, looks: int) -> None:
        """Count committed fetches and the revisits among them."""
        self._fetch_counts[0] += fetched
        self._fetch_counts[1] += looks

    def enqueue_due(self, now: float, room: int) -> None:
        """Have the frontier hold as many looks as are due, and as there is room for."""
        self._refill(now)
        if self.sitemaps is not None:
            self.sitemaps.enqueue_due(now, self._settings.interval_s)
        busy = self._table.queued_count
        for key, host in self._table.pages_to_confirm(now, self._settings.second_look_s):
            self._queue_page(key, host, now, 2.0)
        wanted = min(int(self._budget), self._allowed_visits(room, busy))
        if wanted <= 0 or busy >= max(room, MIN_PLAN_BATCH) or now <= self._nothing_due_at:
            return
        portion = min(wanted, max(MIN_PLAN_BATCH, len(self._table) // 500))
        chosen = self._table.top_candidates(self._settings, now, portion)
        for key, host in chosen:
            self._budget -= self._queue_page(key, host, now, 1.0)
        if not chosen:
            self._nothing_due_at = now
        self._collection.set_meta(**{BUDGET_META_KEY: f"{self._budget!r} {self._budget_at!r}"})

    def _refill(self, now: float) -> None:
        """A clock set back gives nothing, and takes nothing."""
        pages = len(self._table)
        self._budget = min(
            float(pages), self._budget + max(0.0, now - self._budget_at) * pages / self._settings.interval_s
        )
        self._budget_at = now

    def _allowed_visits(self, room: int, busy: int) -> int:
        """How many looks may be added, as far as new URLs have a right to the rest."""
        stats = self._frontier.stats()
        if stats.queued + stats.leased <= busy:
            return room
        fetched, looks = self._fetch_counts
        return int(self._settings.share * (fetched + room) + 0.5) - looks - busy

    def _queue_page(self, key: int, host: str, now: float, urgency: float) -> int:
        """Have the frontier hold a page; 0: it can't."""
        looks = self._outcomes.store.record(key)
        if self._settings.probe:
            self._queue_probe(key, host, now)
        looks.queued = self._frontier.revive([(host, key)], urgency)
        looks.tried_at = looks.tried_at if looks.queued else now
        self._outcomes.store.save([looks])
        self._table.update(looks, left=looks.strikes > 1)
        return looks.queued

    def _queue_probe(self, key: int, host: str, now: float) -> None:
        """Before the first look at a host: what does it say where it has nothing?"""
        empty = self._outcomes.soft_404_texts
        if not empty.was_probed(host):
            empty.record_probe(host, now)
            url = probe_url(self._outcomes.store.url_of(key))
            self._frontier.add([Lead(url=url, key=url_key(url), host=host)], now)
            self._frontier.revive([(host, url_key(url))], PROBE_URGENCY)

    @property
    def continuous(self) -> bool:
        """Does the run wait for what becomes due?"""
        return self._settings.continuous

    @property
    def min_tier(self) -> int:
        """The lowest tier that may be leased: where revisits have the whole budget, new URLs are not fetched."""
        return Tier.REVISIT if self._settings.share >= 1.0 else Tier.LINK

    def stop_reason(self, now: float) -> str:
        """Why a run that is not to go on for ever has done its part; or nothing."""
        if self._settings.continuous or not self._initial_pages or self._outcomes.store.queued_keys():
            return ""
        wakes_at = self.next_due_at(now)
        due = wakes_at is not None and wakes_at <= now
        return "" if due or self._new_urls_owed() else ALL_REVISITED_REASON

    def _new_urls_owed(self) -> bool:
        """Have new URLs had less than their part? A run's budget is its looks and as much more as the share says."""
        fetched, looks = self._fetch_counts
        stats = self._frontier.stats()
        return (
            stats.queued + stats.leased > 0 and (fetched - looks) * self._settings.share < looks * self._new_url_share
        )

    @property
    def _new_url_share(self) -> float:
        return 1.0 - self._settings.share

    def next_due_at(self, now: float) -> float | None:
        """When the next look is due; None: no page is left to look at."""
        free_at, second_at = self._table.next_due_times(self._settings.least_s, self._settings.second_look_s)
        missing = max(0.0, 1.0 - self._budget)
        paid_at = self._budget_at + missing * self._settings.interval_s / max(1, len(self._table))
        next_at = min(max(free_at, paid_at), second_at)
        return None if next_at == inf else max(next_at, now)


class ConditionalFetcher:
    """ETag and Last-Modified of a stored page go with the request (RFC 9110, 13.1): a 304 costs no parse."""

    def __init__(self, fetcher: Fetcher, connection: Database) -> None:
        self._fetcher = fetcher
        self._db = connection

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> FetchResult:
        return await self._fetcher.fetch(url, validators or self._stored_validators(url))

    def _stored_validators(self, url: str) -> dict[str, str] | None:
        stored = page_validators(self._db, url_key(url))
        return {"If-None-Match": stored[0], "If-Modified-Since": stored[1]} if stored and any(stored) else None

    async def close(self) -> None:
        """The fetcher is closed by its owner."""


def with_conditional_requests(settings: Settings, fetcher: Fetcher, connection: Database) -> Fetcher:
    """The fetcher of a crawl: with revisits, scheduled now or queued by an earlier run, it sends conditional requests.

    Others save the question whether a page is stored: it takes some twenty microseconds a fetch.
    """
    if settings.revisit.on or RevisitStore(connection).queued_keys():
        return ConditionalFetcher(fetcher, connection)
    return fetcher
