"""When to revisit which page: a budget that fills with time, and a policy that spends it.

The budget allows one revisit per page and `revisit.interval_s`, whatever the policy. Chosen pages wait in the frontier
before new URLs, so the same delays and limits hold for them. While there are new URLs, at most `revisit.share` of the
fetches are revisits. Revisits are conditional requests: the fetcher sends the validators of the stored page.

Sitemaps and feeds give change dates: a page listed as unchanged needs no revisit, a changed one comes first, an unknown
one becomes a lead.
"""

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np

from opilio.core.clock import DAY_S, format_iso_time
from opilio.core.protocols import Database, Fetcher, Frontier
from opilio.core.records import FetchResult, Lead, Outcome, SitemapEntry, Tier, url_key
from opilio.core.settings import RevisitSettings, Settings
from opilio.core.urls import host_of
from opilio.engine.politeness.robots import decode_rules
from opilio.engine.revisit.candidates import MAX_MISSING_CHECKS, RevisitTable, visit_log_likelihood
from opilio.engine.revisit.outcomes import RevisitOutcomes, probe_url
from opilio.store.collection import Collection
from opilio.store.pages import page_validators
from opilio.store.revisits import RevisitStore, SitemapStore
from opilio.store.run_tables import robots_rows

# In `meta`: revisits to spend, and when that was computed.
BUDGET_META_KEY = "revisit_budget"
# Revisits planned at once, at least; more where there are many pages, because each plan reads them all.
MIN_PLAN_BATCH = 32
# A host's probe goes before its revisits.
PROBE_URGENCY = 3.0
ALL_REVISITED_REASON = "all due pages revisited"
_MAX_SHOWN_WAIT_S = 100 * 365 * DAY_S  # dates end with the year 9999


class RevisitScheduler:
    """Plans revisits. `enqueue_due` runs inside a unit of work."""

    def __init__(
        self, collection: Collection, frontier: Frontier, outcomes: RevisitOutcomes, settings: RevisitSettings
    ) -> None:
        self._collection = collection
        self._frontier = frontier
        self._outcomes = outcomes
        self._settings = settings
        self._table = RevisitTable()
        # Pages stored at the start; a run that began with 0 is an ordinary crawl.
        self._initial_pages = 0
        self._budget, self._budget_at = -1.0, 0.0
        # By this run: all, and the revisits among them.
        self._fetch_counts = [0, 0]
        # Last time that there was nothing to plan.
        self._nothing_due_at = -inf
        self.sitemaps: SitemapScheduler | None = None

    def load(self, now: float) -> None:
        """Load every page, and the stored budget."""
        store = self._outcomes.store
        for facts, record in store.all_pages():
            self._table.put(facts, record)
        for facts, record in store.gone_pages(MAX_MISSING_CHECKS):
            self._table.put(facts, record, gone=True)
        self._table.clamp_times(now)
        self._initial_pages = len(self._table)
        self._outcomes.table = self._table
        if self._settings.announcements:
            sitemap_store = SitemapStore(self._collection.connection)
            self.sitemaps = SitemapScheduler(sitemap_store, store, self._frontier, self._table)
            with self._collection.unit_of_work():
                self.sitemaps.load_from_robots(self._collection.connection)
        stored = self._collection.meta(BUDGET_META_KEY)
        if stored:
            self._budget, self._budget_at = map(float, stored.split())
        else:
            self._budget, self._budget_at = self._table.due_visits(now, self._settings.interval_s), now

    def record_fetches(self, fetched: int, revisits: int) -> None:
        """Count committed fetches and the revisits among them."""
        self._fetch_counts[0] += fetched
        self._fetch_counts[1] += revisits

    def enqueue_due(self, now: float, room: int) -> None:
        """Queue the revisits that are due, as far as there is room."""
        self._refill(now)
        if self.sitemaps is not None:
            self.sitemaps.enqueue_due(now, self._settings.interval_s)
        queued = self._table.queued_count
        for key, host in self._table.pages_to_confirm(now, self._settings.second_look_s):
            self._queue_page(key, host, now, 2.0)
        wanted = min(int(self._budget), self._allowed_visits(room, queued))
        if wanted <= 0 or queued >= max(room, MIN_PLAN_BATCH) or now <= self._nothing_due_at:
            return
        batch = min(wanted, max(MIN_PLAN_BATCH, len(self._table) // 500))
        chosen = self._table.top_candidates(self._settings, now, batch)
        for key, host in chosen:
            self._budget -= self._queue_page(key, host, now, 1.0)
        if not chosen:
            self._nothing_due_at = now
        self._collection.set_meta(**{BUDGET_META_KEY: f"{self._budget!r} {self._budget_at!r}"})

    def _refill(self, now: float) -> None:
        """Add to the budget for the time passed; a clock that was set back changes nothing."""
        pages = len(self._table)
        self._budget = min(
            float(pages), self._budget + max(0.0, now - self._budget_at) * pages / self._settings.interval_s
        )
        self._budget_at = now

    def _allowed_visits(self, room: int, queued: int) -> int:
        """The number of revisits that may be queued beside the share of new URLs."""
        stats = self._frontier.stats()
        if stats.queued + stats.leased <= queued:
            return room
        fetched, revisits = self._fetch_counts
        return int(self._settings.share * (fetched + room) + 0.5) - revisits - queued

    def _queue_page(self, key: int, host: str, now: float, urgency: float) -> int:
        """Queue a page; 0 if the frontier refuses it."""
        record = self._outcomes.store.record(key)
        if self._settings.probe:
            self._queue_probe(key, host, now)
        record.queued = self._frontier.revive([(host, key)], urgency)
        record.tried_at = record.tried_at if record.queued else now
        self._outcomes.store.save([record])
        self._table.update(record, gone=record.strikes > 1)
        return record.queued

    def _queue_probe(self, key: int, host: str, now: float) -> None:
        """Before the first revisit at a host: request a page that can't exist, to learn its soft 404 text."""
        texts = self._outcomes.soft_404_texts
        if not texts.was_probed(host):
            texts.record_probe(host, now)
            url = probe_url(self._outcomes.store.url_of(key))
            self._frontier.add([Lead(url=url, key=url_key(url), host=host)], now)
            self._frontier.revive([(host, url_key(url))], PROBE_URGENCY)

    @property
    def continuous(self) -> bool:
        """Whether the run waits until further pages are due."""
        return self._settings.continuous

    @property
    def min_tier(self) -> int:
        """The lowest tier that may be leased: where revisits have the whole budget, new URLs are not fetched."""
        return Tier.REVISIT if self._settings.share >= 1.0 else Tier.LINK

    def stop_reason(self, now: float) -> str:
        """Why a run that is not continuous ends; empty while it does not."""
        if self._settings.continuous or not self._initial_pages or self._outcomes.store.queued_keys():
            return ""
        wakes_at = self.next_due_at(now)
        due = wakes_at is not None and wakes_at <= now
        if due or self._new_urls_owed():
            return ""
        if wakes_at is None or wakes_at - now > _MAX_SHOWN_WAIT_S:
            return ALL_REVISITED_REASON
        return f"{ALL_REVISITED_REASON}; the next is due at {format_iso_time(wakes_at)}"

    def _new_urls_owed(self) -> bool:
        """Whether new URLs got less than their share of this run's fetches."""
        fetched, revisits = self._fetch_counts
        stats = self._frontier.stats()
        return (
            stats.queued + stats.leased > 0
            and (fetched - revisits) * self._settings.share < revisits * self._new_url_share
        )

    @property
    def _new_url_share(self) -> float:
        return 1.0 - self._settings.share

    def next_due_at(self, now: float) -> float | None:
        """When the next revisit is due; None: no page is left to revisit."""
        free_at, second_at = self._table.next_due_times(self._settings.least_s, self._settings.second_look_s)
        missing = max(0.0, 1.0 - self._budget)
        paid_at = self._budget_at + missing * self._settings.interval_s / max(1, len(self._table))
        next_at = min(max(free_at, paid_at), second_at)
        return None if next_at == inf else max(next_at, now)


class ConditionalFetcher:
    """Sends ETag and Last-Modified of a stored page with the request (RFC 9110, 13.1): a 304 needs no parsing."""

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

    Other crawls save the lookup of stored pages, about twenty microseconds per fetch.
    """
    if settings.revisit.on or RevisitStore(connection).queued_keys():
        return ConditionalFetcher(fetcher, connection)
    return fetcher


# Of `revisit.interval_s`: how often sitemaps and feeds are requested.
SITEMAP_INTERVAL_SHARE = 0.125
MAX_SITEMAPS_PER_HOST = 20
# Of a page known only from a sitemap or feed.
SITEMAP_LEAD_SCORE = 0.3


class SitemapScheduler:
    """Requests sitemaps and feeds, and processes their entries, in the transaction of a commit."""

    def __init__(
        self, sitemap_store: SitemapStore, revisit_store: RevisitStore, frontier: Frontier, table: RevisitTable
    ) -> None:
        self._sitemap_store = sitemap_store
        self._revisit_store = revisit_store
        self._frontier = frontier
        self._table = table

    def add(self, urls: Sequence[str], host: str, kind: str) -> None:
        """Store the sitemaps or feeds of a host, up to a limit; those on other hosts are ignored."""
        own = [url for url in urls if host_of(url) == host]
        self._sitemap_store.add(own, host, kind, MAX_SITEMAPS_PER_HOST)

    def load_from_robots(self, connection: Database) -> None:
        """Sitemaps named in robots.txt that were not requested yet."""
        for row in robots_rows(connection):
            if (rules := decode_rules(row.rules)) is not None:
                self.add(rules.sitemaps, host_of(row.origin), "sitemap")

    def enqueue_due(self, now: float, interval_s: float) -> None:
        """Queue those that are due."""
        for url, key, host in self._sitemap_store.due(now - SITEMAP_INTERVAL_SHARE * interval_s):
            lead = Lead(url=url, key=key, host=host, score=SITEMAP_LEAD_SCORE, depth=1)
            self._frontier.add([lead], now)
            self._frontier.revive([(host, key)])
            self._sitemap_store.mark_requested(key, now)
            record = self._revisit_store.record(key)
            # The run does not end before it is fetched.
            record.queued = 1
            self._revisit_store.save([record])

    def process(self, outcomes: Sequence[Outcome], now: float) -> list[Lead]:
        """Process received sitemaps; returns leads to unknown pages."""
        leads: list[Lead] = []
        for outcome in outcomes:
            entries = outcome.analysis.sitemap_entries if outcome.analysis else ()
            feeds = outcome.analysis.feeds if outcome.analysis else ()
            if feeds:
                self.add(feeds, outcome.lead.host, "feed")
            if entries:
                fetched = outcome.fetched
                validators = fetched.header("etag"), fetched.header("last-modified")
                self._sitemap_store.mark_received(outcome.lead.key, validators, len(entries))
                self.add([entry.url for entry in entries if entry.is_sitemap], outcome.lead.host, "sitemap")
                leads += self._process_entries([entry for entry in entries if not entry.is_sitemap], outcome.lead, now)
        return leads

    def _process_entries(self, pages: Sequence[SitemapEntry], source: Lead, now: float) -> list[Lead]:
        leads = []
        for entry in pages:
            key, host = url_key(entry.url), host_of(entry.url)
            if key in self._table:
                if entry.modified_at > 0:
                    self._apply_change_date(key, entry.modified_at, now)
            # A sitemap may list pages of its own host only.
            elif host == source.host:
                leads.append(
                    Lead(url=entry.url, key=key, host=host, score=SITEMAP_LEAD_SCORE, depth=1, parent=source.key)
                )
        return leads

    def _apply_change_date(self, key: int, changed_at: float, now: float) -> None:
        """Record the time of the last change that a sitemap states."""
        record, checked_at = self._revisit_store.record(key), self._table.checked_at(key)
        if changed_at > checked_at:
            if record.hinted_at >= changed_at:
                return
            record.hinted_at = changed_at
        elif now > checked_at:
            rates = self._table.rate_evidence(key).astype(np.float64) + visit_log_likelihood(
                now - checked_at, changed=False
            )
            record.rates, record.checked_at = rates.astype(np.float32).tobytes(), now
        self._revisit_store.save([record])
        self._table.update(record, gone=record.strikes > 1)
