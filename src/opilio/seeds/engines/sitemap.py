"""Sitemaps: the addresses a site lists itself. An index of sitemaps is followed, compressed ones are unpacked.

Read by a pattern instead of an XML parser: entities of strangers are never expanded.
"""

import re
import zlib
from collections import deque
from collections.abc import Sequence
from html import unescape

from opilio.core.records import EngineAnswer, EngineHit, Failure
from opilio.core.urls import canonicalize_url, origin_of
from opilio.seeds.api_client import ApiRequest, EngineClient
from opilio.seeds.queries import sort_by_query_words

MAX_FILES, MAX_BYTES, LOW_PRIORITY = 20, 50_000_000, 3  # 50 MB: what sitemaps.org allows
_LOCATION = re.compile(r"<(?:\w+:)?loc\s*>\s*(?:<!\[CDATA\[)?\s*([^<\]]+)")
_INDEX = re.compile(r"<(?:\w+:)?sitemapindex\b")


class SitemapSource:
    """Lists what the sitemaps at `urls` name, addresses with words of the query first; it has no vote."""

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
        # What these servers name elsewhere is not trusted
        named = {origin_of(given) for given in self._urls}
        fetched = await self._client.send(ApiRequest(url=url, trusted=origin_of(url) in named))
        # Sites move their sitemaps about
        if fetched.location:
            return SitemapFile(further=[fetched.location]), None
        if fetched.failure is not None:
            return SitemapFile(), Failure(fetched.failure.kind, f"{url}: {fetched.failure.detail}"[:200])
        body = gunzip_bounded(fetched.body)
        listed = parse_sitemap_urls(body.decode("utf-8", "replace"), url)
        known = listed.pages or listed.sitemaps or b"<urlset" in body or b"<sitemapindex" in body
        return listed, None if known else Failure("answer", f"{url}: is no sitemap")


class SitemapFile:
    """What one file names: pages, or further sitemaps."""

    def __init__(self, pages: Sequence[str] = (), further: Sequence[str] = ()) -> None:
        self.pages = pages
        self.sitemaps = further


def parse_sitemap_urls(xml: str, url: str) -> SitemapFile:
    """The addresses in a sitemap, or in an index of them.

    >>> parse_sitemap_urls("<urlset><url><loc> /a?b=1&amp;c=2 </loc></url></urlset>", "https://a.example/map.xml").pages
    ['https://a.example/a?b=1&c=2']
    """
    named = [canonicalize_url(unescape(text.strip()), url) for text in _LOCATION.findall(xml)]
    usable = [address for address in named if address is not None]
    return SitemapFile(further=usable) if _INDEX.search(xml) else SitemapFile(pages=usable)


def gunzip_bounded(body: bytes) -> bytes:
    """The body without gzip, never more than a sitemap may have; what is cut off or damaged is left out."""
    if not body.startswith(b"\x1f\x8b"):
        return body
    try:
        return zlib.decompressobj(wbits=31).decompress(body, MAX_BYTES)
    except zlib.error:
        return b""
