"""Seeds from sitemaps: the URLs that a site lists itself. Sitemap indexes are followed, gzip files are unpacked."""

from collections import deque
from collections.abc import Sequence

from opilio.core.records import EngineAnswer, EngineHit, Failure
from opilio.core.urls import origin_of
from opilio.parse.sitemaps import gunzip_bounded, has_sitemap_root, sitemap_entries
from opilio.seeds.api_client import ApiRequest, EngineClient
from opilio.seeds.finder import LOW_PRIORITY
from opilio.seeds.queries import sort_by_query_words

MAX_FILES = 20


class SitemapSource:
    """Lists the URLs in the sitemaps at `urls`, those with words of the query first. Its URLs do not count as votes."""

    def __init__(self, name: str, client: EngineClient, urls: Sequence[str]) -> None:
        self.name = name
        self._client = client
        self._urls = urls

    async def find(self, query: str, limit: int, genre: str = "") -> list[EngineAnswer]:  # noqa: ARG002 the protocol's signature
        """One answer, of the lowest priority."""
        waiting, read = deque(self._urls), set[str]()
        found: dict[str, None] = {}
        failure = None
        while waiting and len(read) < MAX_FILES:
            url = waiting.popleft()
            if url in read:
                continue
            read.add(url)
            listed, failed = await self._read(url)
            failure = failure or failed
            waiting.extend(listed.sitemaps)
            found |= dict.fromkeys(listed.pages)
        best = sort_by_query_words(found, query)[:limit]
        hits = tuple(EngineHit(url=url, rank=rank) for rank, url in enumerate(best, 1))
        return [EngineAnswer(voter=self.name, hits=hits, failure=failure, fixed_priority=LOW_PRIORITY)]

    async def _read(self, url: str) -> tuple["SitemapFile", Failure | None]:
        # Only the servers that the user named may have private addresses, not those that their sitemaps name.
        user_origins = {origin_of(given) for given in self._urls}
        fetched = await self._client.send(ApiRequest(url=url, trusted=origin_of(url) in user_origins))
        if fetched.location:
            return SitemapFile(sitemaps=[fetched.location]), None
        if fetched.failure is not None:
            return SitemapFile(), Failure(fetched.failure.kind, f"{url}: {fetched.failure.detail}"[:200])
        body = gunzip_bounded(fetched.body)
        listed = parse_sitemap_urls(body.decode("utf-8", "replace"), url)
        known = listed.pages or listed.sitemaps or has_sitemap_root(body)
        return listed, None if known else Failure("answer", f"{url}: is not a sitemap")


class SitemapFile:
    """The URLs in one file: pages and further sitemaps."""

    def __init__(self, pages: Sequence[str] = (), sitemaps: Sequence[str] = ()) -> None:
        self.pages = pages
        self.sitemaps = sitemaps


def parse_sitemap_urls(xml: str, url: str) -> SitemapFile:
    """The URLs in a sitemap or sitemap index.

    >>> parse_sitemap_urls("<urlset><url><loc> /a?b=1&amp;c=2 </loc></url></urlset>", "https://a.example/map.xml").pages
    ['https://a.example/a?b=1&c=2']
    """
    entries = list(sitemap_entries(xml, url))
    return SitemapFile(
        pages=[entry.url for entry in entries if not entry.is_sitemap],
        sitemaps=[entry.url for entry in entries if entry.is_sitemap],
    )
