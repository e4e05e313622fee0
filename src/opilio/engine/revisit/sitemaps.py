"""What sitemaps and feeds say of pages, and what a host says where it has none: cheap knowledge before any look.

A page listed as unchanged needs no revisit, a changed one comes first, an unknown one is a lead.
Runs inside the transaction of a commit, and only with a revisit policy.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
import xxhash

from opilio.core.protocols import Database, Frontier
from opilio.core.records import Lead, Outcome, SitemapEntry, url_key
from opilio.core.urls import host_of, origin_of
from opilio.engine.politeness.robots import RobotsRules
from opilio.engine.revisit.candidates import RevisitTable
from opilio.engine.revisit.change_rate import visit_log_likelihood
from opilio.store.revisits import RevisitStore, SitemapStore
from opilio.store.run_tables import robots_rows

SITEMAP_INTERVAL_SHARE = 0.125  # of the interval between two looks at a page: sitemaps and feeds are asked for as often
MAX_SITEMAPS_PER_HOST = 20
SITEMAP_LEAD_SCORE = 0.3  # of a page known only from a sitemap or feed
PROBE_PATH_PREFIX = "opilio-looks-for-no-page-"


class SitemapScheduler:
    """Asks for sitemaps and feeds, and takes in what they say."""

    def __init__(self, notices: SitemapStore, book: RevisitStore, frontier: Frontier, table: RevisitTable) -> None:
        self._sitemap_store = notices
        self._revisit_store = book
        self._frontier = frontier
        self._table = table

    def add(self, urls: Sequence[str], host: str, kind: str) -> None:
        """There is a sitemap or feed; of a host's own only, and not too many."""
        own = [url for url in urls if host_of(url) == host]
        self._sitemap_store.add(own, host, kind, MAX_SITEMAPS_PER_HOST)

    def load_from_robots(self, connection: Database) -> None:
        """Sitemaps named in robots.txt that were not requested yet."""
        for row in robots_rows(connection):
            self.add(msgspec.msgpack.decode(row.rules, type=RobotsRules).sitemaps, host_of(row.origin), "sitemap")

    def enqueue_due(self, now: float, interval_s: float) -> None:
        """Queue those that are due."""
        for url, key, host in self._sitemap_store.due(now - SITEMAP_INTERVAL_SHARE * interval_s):
            lead = Lead(url=url, key=key, host=host, score=SITEMAP_LEAD_SCORE, depth=1)
            self._frontier.add([lead], now)
            self._frontier.revive([(host, key)])
            self._sitemap_store.mark_requested(key, now)
            looks = self._revisit_store.record(key)
            looks.queued = 1  # the run is not over before it came
            self._revisit_store.save([looks])

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
                marks = fetched.header("etag"), fetched.header("last-modified")
                self._sitemap_store.mark_received(outcome.lead.key, marks, len(entries))
                self.add([one.url for one in entries if one.is_sitemap], outcome.lead.host, "sitemap")
                leads += self._process_entries([one for one in entries if not one.is_sitemap], outcome.lead, now)
        return leads

    def _process_entries(self, pages: Sequence[SitemapEntry], source: Lead, now: float) -> list[Lead]:
        leads = []
        for one in pages:
            key, host = url_key(one.url), host_of(one.url)
            if key in self._table:
                if one.modified_at > 0:
                    self._apply_change_date(key, one.modified_at, now)
            elif host == source.host:  # a sitemap speaks for its own host only
                leads.append(
                    Lead(url=one.url, key=key, host=host, score=SITEMAP_LEAD_SCORE, depth=1, parent=source.key)
                )
        return leads

    def _apply_change_date(self, key: int, changed_at: float, now: float) -> None:
        """Record the time of the last change that a sitemap states."""
        looks, checked_at = self._revisit_store.record(key), self._table.checked_at(key)
        if changed_at > checked_at:
            if looks.hinted_at >= changed_at:
                return
            looks.hinted_at = changed_at
        elif now > checked_at:
            rates = self._table.rate_evidence(key).astype(np.float64) + visit_log_likelihood(
                now - checked_at, changed=False
            )
            looks.rates, looks.checked_at = rates.astype(np.float32).tobytes(), now
        self._revisit_store.save([looks])
        self._table.update(looks, left=looks.strikes > 1)


def probe_url(url: str) -> str:
    """An address of the same host that can't be there; the same one each time.

    >>> is_probe(probe_url("http://a.example/wren.html")), is_probe("http://a.example/wren.html")
    (True, False)
    """
    origin = origin_of(url)
    return f"{origin}/{PROBE_PATH_PREFIX}{xxhash.xxh3_64_hexdigest(origin.encode())[:8]}.html"


def is_probe(url: str) -> bool:
    return f"/{PROBE_PATH_PREFIX}" in url
