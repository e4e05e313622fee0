"""Change dates of pages from sitemaps and feeds, and probes for the soft 404 text of a host.

A page listed as unchanged needs no revisit, a changed one comes first, an unknown one becomes a lead.
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
from opilio.engine.revisit.changes import visit_log_likelihood
from opilio.store.revisits import RevisitStore, SitemapStore
from opilio.store.run_tables import robots_rows

SITEMAP_INTERVAL_SHARE = 0.125  # of `revisit.interval_s`: how often sitemaps and feeds are requested
MAX_SITEMAPS_PER_HOST = 20
SITEMAP_LEAD_SCORE = 0.3  # of a page known only from a sitemap or feed
PROBE_PATH_PREFIX = "opilio-looks-for-no-page-"


class SitemapScheduler:
    """Requests sitemaps and feeds, and processes their entries."""

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
            self.add(msgspec.msgpack.decode(row.rules, type=RobotsRules).sitemaps, host_of(row.origin), "sitemap")

    def enqueue_due(self, now: float, interval_s: float) -> None:
        """Queue those that are due."""
        for url, key, host in self._sitemap_store.due(now - SITEMAP_INTERVAL_SHARE * interval_s):
            lead = Lead(url=url, key=key, host=host, score=SITEMAP_LEAD_SCORE, depth=1)
            self._frontier.add([lead], now)
            self._frontier.revive([(host, key)])
            self._sitemap_store.mark_requested(key, now)
            record = self._revisit_store.record(key)
            record.queued = 1  # the run does not end before it is fetched
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
            elif host == source.host:  # a sitemap may list pages of its own host only
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


def probe_url(url: str) -> str:
    """A URL of the same host that can't exist; always the same one.

    >>> is_probe(probe_url("http://a.example/wren.html")), is_probe("http://a.example/wren.html")
    (True, False)
    """
    origin = origin_of(url)
    return f"{origin}/{PROBE_PATH_PREFIX}{xxhash.xxh3_64_hexdigest(origin.encode())[:8]}.html"


def is_probe(url: str) -> bool:
    return f"/{PROBE_PATH_PREFIX}" in url
