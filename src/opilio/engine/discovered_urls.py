"""The URLs to queue after a visit: links, redirects, links of copies, and URLs that a site lists itself.

A page that names another URL as its canonical one (rel=canonical) is an alias if both have the same title and about the
same number of words. The links that the original of a copy does not have are followed: pages of a gallery or listing
can have equal words and different links. A mirror has the same links as its original at another place: equal paths, or
equal paths relative to the page. They are not followed. A mirror of another domain must have shown several copies and
little else: otherwise a stranger's copy of one page, fetched first, would keep the crawl from the rest of a site.

In a first crawl sitemaps (robots.txt, /sitemap.xml, index files) and feeds are read too, on hosts of seeds and hosts
with a relevant page. The number of listed URLs is limited per host, so that a sitemap of a million URLs does not fill
the queue: URLs with words of the topic come first, then the newest.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
import numpy as np

from opilio.core.caches import evict_oldest
from opilio.core.protocols import Database, LinkScorer
from opilio.core.records import Lead, Outcome, PageChange, SitemapEntry, Tier, url_key
from opilio.core.settings import Settings
from opilio.core.urls import host_of, origin_of
from opilio.engine.politeness.host_yield import foreign_domain
from opilio.engine.politeness.robots import decode_rules
from opilio.engine.visit import VisitLimits
from opilio.rank.link_scores import pack, unpack
from opilio.seeds.queries import count_query_words
from opilio.store.pages import page_outline, page_url
from opilio.store.versions import links_of
from opilio.store.writer import stored_robots

# An endless chain of pages with one text ends here; a listing of 5,000 items at 50 per page does not.
MAX_COPIES_FOLLOWED = 100
MAX_TRACKED_ORIGINALS = 20_000
ON_ORIGINAL = "also on the original"
MIN_MIRROR_PAGES = 5
MIN_MIRROR_SHARE = 0.8  # of the pages of its host


class _PageOutline(NamedTuple):
    key: int
    title: str
    words: int


class AliasFinder:
    """Finds the page that another one is an alias of. Remembers canonical URLs of this run, in bounded memory."""

    def __init__(self, connection: Database) -> None:
        self._connection = connection
        # By the key of a canonical URL: the first page that named it.
        self._first: dict[int, _PageOutline] = {}

    def find_original(self, page: Outcome) -> int:
        """The key of the page that has the same canonical URL; 0 if there is none."""
        analysis, lead = page.analysis, page.lead
        if analysis is None or not (analysis.canonical or lead.key in self._first):
            return 0
        target = lead.key
        if analysis.canonical and analysis.canonical != lead.url:
            # Sites set it wrongly, most often to another site.
            if host_of(analysis.canonical).removeprefix("www.") != lead.host.removeprefix("www."):
                return 0
            target = url_key(analysis.canonical)
        first = self._first.get(target) or (self._stored(target) if target != lead.key else None)
        if first is None:
            self._first[target] = _PageOutline(lead.key, analysis.title, analysis.words)
            evict_oldest(self._first, MAX_TRACKED_ORIGINALS)
            return 0
        alike = first.title == analysis.title and first.words <= 2 * analysis.words <= 4 * first.words
        return first.key if first.key != lead.key and alike else 0

    def _stored(self, key: int) -> _PageOutline | None:
        """The page with this key, or its original if it is a copy."""
        row = page_outline(self._connection, key)
        if row is not None and row.duplicate_of:
            key, row = row.duplicate_of, page_outline(self._connection, row.duplicate_of)
        return None if row is None else _PageOutline(key, row.title, row.words)


class CopyLinkFilter:
    """Drops the links of a copy that its original has too. Counts, in bounded memory, the copies of each original."""

    def __init__(self, connection: Database, enabled: bool = True) -> None:
        self._connection = connection
        self._enabled = enabled
        self._followed: Counter[int] = Counter()
        self._pages: Counter[str] = Counter()
        # By two hosts of different domains: pages that both have, whichever was fetched first.
        self._shared: Counter[tuple[str, ...]] = Counter()

    def count_page(self, page: Outcome) -> None:
        """Count a page for its host; each before its links are filtered."""
        host = page.lead.host
        self._pages[host] += 1
        original = host_of(page_url(self._connection, page.duplicate_of)) if page.duplicate_of else ""
        if foreign_domain(original, host):
            self._shared[_both(host, original)] += 1
        evict_oldest(self._pages, MAX_TRACKED_HOSTS)
        evict_oldest(self._shared, MAX_TRACKED_HOSTS)

    def distinct_links(self, copy: Outcome) -> Outcome | None:
        """The copy with the links to follow; None if there are none."""
        original = copy.duplicate_of
        if not self._enabled or copy.analysis is None or copy.analysis.agent_analyses:
            return None
        if self._followed[original] >= MAX_COPIES_FOLLOWED:
            return None
        links, original_url = unpack(copy.analysis.links), page_url(self._connection, original)
        if not links.urls or not original_url:
            return None
        known = unpack(links_of(self._connection, original))
        known_keys = set(np.frombuffer(known.keys, dtype=np.int64).tolist())
        is_mirror = self._is_mirror(copy.lead.host, host_of(original_url))
        places = {place for url in known.urls for place in _places(url, original_url)} if is_mirror else frozenset()
        keys = np.frombuffer(links.keys, dtype=np.int64).tolist()
        repeated = {
            index: ON_ORIGINAL
            for index, (url, key) in enumerate(zip(links.urls, keys, strict=True))
            if key == original or key in known_keys or not places.isdisjoint(_places(url, copy.lead.url))
        }
        if len(repeated) == len(links.urls):
            return None
        self._followed[original] += 1
        evict_oldest(self._followed, MAX_TRACKED_ORIGINALS)
        columns = msgspec.structs.replace(links, dropped=repeated | links.dropped)
        return msgspec.structs.replace(copy, analysis=msgspec.structs.replace(copy.analysis, links=pack(columns)))

    def _is_mirror(self, host: str, original: str) -> bool:
        """May the host's links be taken for those of the original's host at another place?"""
        if not foreign_domain(original, host):
            return True
        shared = self._shared[_both(host, original)]
        return shared >= MIN_MIRROR_PAGES and shared >= MIN_MIRROR_SHARE * self._pages[host]


def _both(one: str, other: str) -> tuple[str, ...]:
    return tuple(sorted((one, other)))


def _places(url: str, page: str) -> tuple[str, ...]:
    """Where a link points apart from the host: its path and query, and the same relative to the page's folder."""
    target, base = urlsplit(url), urlsplit(page)
    place = f"{target.path}?{target.query}"
    folder = base.path.rpartition("/")[0] + "/"
    if target.netloc != base.netloc or not place.startswith(folder):
        return (place,)
    return place, "./" + place[len(folder) :]


MAX_LISTS_PER_HOST = 20  # sitemaps and feeds
MAX_URLS_PER_HOST = 2_000
MAX_TRACKED_HOSTS = 20_000
LIST_SCORE = 0.5  # one request that may bring many links
# Below links that are likely to be relevant: a sitemap does not state the topic of a page.
PLAIN_SCORE, MATCHING_SCORE = 0.05, 0.3


class SiteDiscovery:
    """Turns sitemaps and feeds into leads, in bounded memory. Runs inside the committer's unit of work."""

    def __init__(self, settings: Settings, connection: Database) -> None:
        topic = settings.topic
        self._query = " ".join([topic.name, topic.description, *topic.keywords])
        # Guessing /sitemap.xml costs a request per host: only where the crawl is limited to sites.
        self._guess_sitemap = bool(settings.scope.allow)
        self._connection = connection
        self._lists: Counter[str] = Counter()
        self._urls: Counter[str] = Counter()
        self._asked: dict[str, None] = {}

    def leads(self, outcomes: Sequence[Outcome]) -> list[Lead]:
        """Leads to the sitemaps and feeds of these pages, and to what fetched sitemaps and feeds list."""
        leads: list[Lead] = []
        for outcome in outcomes:
            analysis = outcome.analysis
            if analysis is None:
                continue
            if analysis.sitemap_entries:
                leads += self._listed_leads(analysis.sitemap_entries, outcome.lead)
            elif analysis.verdict is not None and (outcome.relevant or not outcome.lead.parent):
                leads += self._list_leads([*self._sitemaps(outcome.lead.url), *analysis.feeds], outcome.lead)
        return leads

    def _sitemaps(self, url: str) -> list[str]:
        """The sitemaps of a page's host, once per run: those of its robots.txt, else a guess if allowed."""
        origin = origin_of(url)
        if origin in self._asked:
            return []
        self._asked[origin] = None
        evict_oldest(self._asked, MAX_TRACKED_HOSTS)
        rules = decode_rules(stored_robots(self._connection, origin))
        if rules is None:
            return []
        named = list(rules.sitemaps)
        return named or ([f"{origin}/sitemap.xml"] if self._guess_sitemap else [])

    def _list_leads(self, urls: Sequence[str], source: Lead) -> list[Lead]:
        """Leads to sitemaps and feeds of the same host."""
        own = [url for url in urls if host_of(url) == source.host]
        room = MAX_LISTS_PER_HOST - self._lists[source.host]
        kept = own[: max(0, room)]
        self._lists[source.host] += len(kept)
        evict_oldest(self._lists, MAX_TRACKED_HOSTS)
        return [_lead(url, source, LIST_SCORE) for url in kept]

    def _listed_leads(self, entries: Sequence[SitemapEntry], source: Lead) -> list[Lead]:
        sitemaps = [entry.url for entry in entries if entry.is_sitemap]
        pages = [entry for entry in entries if not entry.is_sitemap and host_of(entry.url) == source.host]
        hits = {entry.url: count_query_words(entry.url, self._query) for entry in pages}
        pages.sort(key=lambda entry: (-hits[entry.url], -entry.modified_at))
        kept = pages[: max(0, MAX_URLS_PER_HOST - self._urls[source.host])]
        self._urls[source.host] += len(kept)
        evict_oldest(self._urls, MAX_TRACKED_HOSTS)
        found = [_lead(e.url, source, MATCHING_SCORE if hits[e.url] else PLAIN_SCORE) for e in kept]
        return [*self._list_leads(sitemaps, source), *found]


def _lead(url: str, source: Lead, score: float) -> Lead:
    return Lead(url=url, key=url_key(url), host=host_of(url), score=score, depth=source.depth + 1, parent=source.key)


MAX_COOKIE_RETRIES = 20_000  # remembered


class OutgoingLeads:
    """Finds what to queue after a batch of visits."""

    def __init__(self, connection: Database, link_scorer: LinkScorer, limits: VisitLimits) -> None:
        self._link_scorer = link_scorer
        self._limits = limits
        self._copy_links = CopyLinkFilter(connection, limits.follow_copies)
        self._cookie_retries: dict[int, None] = {}

    def leads(self, outcomes: Sequence[Outcome]) -> list[list[Lead]]:
        """The leads of each outcome: its redirect target, or its links."""
        pages: list[Outcome] = []
        leads: list[list[Lead] | None] = []
        for outcome in outcomes:
            if outcome.analysis is not None and outcome.analysis.verdict is not None:
                self._copy_links.count_page(outcome)
            redirects = self._redirect_leads(outcome)
            page = self._copy_links.distinct_links(outcome) if redirects is None and outcome.duplicate_of else outcome
            leads.append(redirects if page is not None else [])
            if page is not None and redirects is None:
                pages.append(page)
        found = iter(self._link_scorer.score_links(pages))
        return [next(found) if known is None else known for known in leads]

    def refetches(self, outcomes: Sequence[Outcome]) -> list[tuple[str, int]]:
        """(host, key) of known URLs to fetch soon: pages have moved there, or the host now has a cookie."""
        moved = [outcome.fetched.location for outcome in outcomes if outcome.change is PageChange.MOVED]
        return [(host_of(target), url_key(target)) for target in moved] + self._cookie_targets(outcomes)

    def _redirect_leads(self, outcome: Outcome) -> list[Lead] | None:
        """The leads of a redirect; empty for a page whose links are not followed; None for an ordinary page."""
        page, target = outcome.lead, outcome.fetched.location
        # The new address is fetched soon, also if it was known before.
        if outcome.change is PageChange.MOVED:
            return [msgspec.structs.replace(_redirect_lead(page, target), hops=1, tier=Tier.FIRST)]
        if target:
            return [_redirect_lead(page, target)] if page.hops < self._limits.max_redirects else []
        if self._limits.max_depth and page.depth >= self._limits.max_depth:
            return []
        return None

    def _cookie_targets(self, outcomes: Sequence[Outcome]) -> list[tuple[str, int]]:
        """(host, key) of URLs whose response set a cookie and redirects back to them, as consent pages do."""
        targets = []
        for outcome in outcomes:
            target = outcome.fetched.location
            returns = target and (outcome.lead.hops or target == outcome.lead.url)
            if (
                returns
                and outcome.fetched.header("set-cookie")
                and (key := url_key(target)) not in self._cookie_retries
            ):
                self._cookie_retries[key] = None
                targets.append((host_of(target), key))
        evict_oldest(self._cookie_retries, MAX_COOKIE_RETRIES)
        return targets


def _redirect_lead(page: Lead, target: str) -> Lead:
    """The target of a redirect, with the score of the URL that redirects; a seed's target counts as a seed."""
    return msgspec.structs.replace(
        page,
        url=target,
        key=url_key(target),
        host=host_of(target),
        hops=page.hops + 1,
        retries=0,
        tier=Tier.FIRST if page.tier == Tier.FIRST else Tier.LINK,
    )
