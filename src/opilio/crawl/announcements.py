"""What sitemaps and feeds say of pages, and what a host says where it has none: cheap knowledge before any look.

A page that they call unchanged needs no look, one that they call changed comes first, one that nobody knew is a lead.
Inside the ledger's unit of work; only where pages are looked at again.
"""

import sqlite3
from collections.abc import Sequence

import msgspec
import numpy as np
import xxhash

from opilio.crawl.lookagain import Shelf
from opilio.fetch.robots import Rules
from opilio.learn.changerate import evidence
from opilio.model.protocols import Frontier
from opilio.model.records import Announced, Lead, Outcome, key_of
from opilio.model.urls import host_of, origin_of
from opilio.store.looks import LookBook
from opilio.store.notices import Notices

EVERY = 0.125  # of the interval between two looks at a page: sitemaps and feeds are asked for as often
MOST_OF_A_HOST = 20
NEW_SCORE = 0.3  # of a page that only a sitemap or feed tells of
PROBE = "opilio-looks-for-no-page-"


class Announcements:
    """Asks for sitemaps and feeds, and takes in what they say."""

    def __init__(self, notices: Notices, book: LookBook, frontier: Frontier, shelf: Shelf) -> None:
        self._notices = notices
        self._book = book
        self._frontier = frontier
        self._shelf = shelf

    def note(self, urls: Sequence[str], host: str, kind: str) -> None:
        """There is a sitemap or feed; of a host's own only, and not too many."""
        own = [url for url in urls if host_of(url) == host]
        self._notices.add(own, host, kind, MOST_OF_A_HOST)

    def load(self, connection: sqlite3.Connection) -> None:
        """Sitemaps that were named in robots.txt when nobody asked for them."""
        for origin, rules in connection.execute("SELECT origin, rules FROM robots").fetchall():
            self.note(msgspec.msgpack.decode(rules, type=Rules).sitemaps, host_of(origin), "sitemap")

    def ask(self, now: float, interval_s: float) -> None:
        """Queue those that are due."""
        for url, key, host in self._notices.due(now - EVERY * interval_s):
            lead = Lead(url=url, key=key, host=host, score=NEW_SCORE, depth=1)
            self._frontier.add([lead], now)
            self._frontier.add([Lead(url=url, key=key, host=host, again=1.0)], now)
            self._notices.asked(key, now)
            looks = self._book.looks(key)
            looks.queued = 1  # the run is not over before it came
            self._book.save([looks])

    def take(self, outcomes: Sequence[Outcome], now: float) -> list[Lead]:
        """What came; returns leads to pages that nobody knew."""
        leads: list[Lead] = []
        for outcome in outcomes:
            told = outcome.analysis.announced if outcome.analysis else ()
            feeds = outcome.analysis.feeds if outcome.analysis else ()
            if feeds:
                self.note(feeds, outcome.lead.host, "feed")
            if told:
                fetched = outcome.fetched
                marks = fetched.header("etag"), fetched.header("last-modified")
                self._notices.came(outcome.lead.key, marks, len(told))
                self.note([one.url for one in told if one.index], outcome.lead.host, "sitemap")
                leads += self._told([one for one in told if not one.index], outcome.lead, now)
        return leads

    def _told(self, pages: Sequence[Announced], source: Lead, now: float) -> list[Lead]:
        leads = []
        for one in pages:
            key, host = key_of(one.url), host_of(one.url)
            if key in self._shelf:
                if one.at > 0:
                    self._hear(key, one.at, now)
            elif host == source.host:  # a sitemap speaks for its own host only
                leads.append(Lead(url=one.url, key=key, host=host, score=NEW_SCORE, depth=1, parent=source.key))
        return leads

    def _hear(self, key: int, changed_at: float, now: float) -> None:
        """A page was last changed at that time, it is said."""
        looks, checked_at = self._book.looks(key), self._shelf.checked_at(key)
        if changed_at > checked_at:
            if looks.hinted_at >= changed_at:
                return
            looks.hinted_at = changed_at
        elif now > checked_at:
            rates = self._shelf.rates_of(key).astype(np.float64) + evidence(now - checked_at, changed=False)
            looks.rates, looks.checked_at = rates.astype(np.float32).tobytes(), now
        self._book.save([looks])
        self._shelf.update(looks, left=looks.strikes > 1)


def probe_url(url: str) -> str:
    """An address of the same host that can't be there; the same one each time.

    >>> is_probe(probe_url("http://a.example/wren.html")), is_probe("http://a.example/wren.html")
    (True, False)
    """
    origin = origin_of(url)
    return f"{origin}/{PROBE}{xxhash.xxh3_64_hexdigest(origin.encode())[:8]}.html"


def is_probe(url: str) -> bool:
    return f"/{PROBE}" in url
