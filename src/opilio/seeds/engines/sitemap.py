"""Sitemaps: the addresses a site lists itself. An index of sitemaps is followed, compressed ones are unpacked.

Read by a pattern instead of an XML parser: entities of strangers are never expanded.
"""

import re
import zlib
from collections import deque
from collections.abc import Sequence
from html import unescape

from opilio.model.records import Answer, Failure, Hit
from opilio.model.urls import canonical, origin_of
from opilio.seeds.asking import EngineClient, Request
from opilio.seeds.wording import by_words

MOST_FILES, MOST_BYTES, LOW = 20, 50_000_000, 3  # 50 MB: what sitemaps.org allows
_LOCATION = re.compile(r"<(?:\w+:)?loc\s*>\s*(?:<!\[CDATA\[)?\s*([^<\]]+)")
_INDEX = re.compile(r"<(?:\w+:)?sitemapindex\b")


class SitemapSource:
    """Lists what the sitemaps at `urls` name, addresses with words of the query first; it has no vote."""

    def __init__(self, name: str, client: EngineClient, urls: Sequence[str]) -> None:
        self.name = name
        self._client = client
        self._urls = urls

    async def find(self, query: str, limit: int, genre: str = "") -> list[Answer]:  # noqa: ARG002 the protocol's signature
        """One answer, of the lowest priority."""
        waiting, read = deque(self._urls), set[str]()
        found: dict[str, None] = {}
        failure = None
        while waiting and len(read) < MOST_FILES:
            url = waiting.popleft()
            if url in read:
                continue
            read.add(url)
            listed, failed = await self._read(url)
            failure = failure or failed
            waiting.extend(listed.further)
            found |= dict.fromkeys(listed.pages)
        best = by_words(found, query)[:limit]
        hits = tuple(Hit(url=url, rank=rank) for rank, url in enumerate(best, 1))
        return [Answer(voter=self.name, hits=hits, failure=failure, given=LOW)]

    async def _read(self, url: str) -> tuple["Listed", Failure | None]:
        named = {origin_of(given) for given in self._urls}  # what these servers name elsewhere is not trusted
        fetched = await self._client.ask(Request(url=url, trusted=origin_of(url) in named))
        if fetched.location:  # sites move their sitemaps about
            return Listed(further=[fetched.location]), None
        if fetched.failure is not None:
            return Listed(), Failure(fetched.failure.kind, f"{url}: {fetched.failure.detail}"[:200])
        body = unpacked(fetched.body)
        listed = listed_in(body.decode("utf-8", "replace"), url)
        known = listed.pages or listed.further or b"<urlset" in body or b"<sitemapindex" in body
        return listed, None if known else Failure("answer", f"{url}: is no sitemap")


class Listed:
    """What one file names: pages, or further sitemaps."""

    def __init__(self, pages: Sequence[str] = (), further: Sequence[str] = ()) -> None:
        self.pages = pages
        self.further = further


def listed_in(xml: str, url: str) -> Listed:
    """The addresses in a sitemap, or in an index of them.

    >>> listed_in("<urlset><url><loc> /a?b=1&amp;c=2 </loc></url></urlset>", "https://a.example/map.xml").pages
    ['https://a.example/a?b=1&c=2']
    """
    named = [canonical(unescape(text.strip()), url) for text in _LOCATION.findall(xml)]
    usable = [address for address in named if address is not None]
    return Listed(further=usable) if _INDEX.search(xml) else Listed(pages=usable)


def unpacked(body: bytes) -> bytes:
    """The body without gzip, never more than a sitemap may have; what is cut off or damaged is left out."""
    if not body.startswith(b"\x1f\x8b"):
        return body
    try:
        return zlib.decompressobj(wbits=31).decompress(body, MOST_BYTES)
    except zlib.error:
        return b""
