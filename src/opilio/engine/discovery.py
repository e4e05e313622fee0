"""URLs that a site lists itself, in a first crawl: its sitemaps (robots.txt, /sitemap.xml, index files) and feeds.

Only hosts of seeds and hosts with a relevant page are asked. The number of listed URLs is limited per host, so that a
sitemap of a million URLs does not fill the queue: URLs with words of the topic come first, then the newest.
"""

from collections import Counter
from collections.abc import Sequence

from opilio.core.caches import evict_oldest
from opilio.core.protocols import Database
from opilio.core.records import Lead, Outcome, SitemapEntry, url_key
from opilio.core.settings import Settings
from opilio.core.urls import host_of, origin_of
from opilio.engine.politeness.robots import decode_rules
from opilio.seeds.queries import count_query_words
from opilio.store.writer import stored_robots

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
