"""Sitemaps and feeds: the pages they list and when each last changed.

Read with regular expressions instead of an XML parser: such files are often broken, and entities of an untrusted file
must not be expanded. The number of entries is bounded; entries that cannot be read are skipped.
"""

import re
from collections.abc import Iterator
from html import unescape
from itertools import islice

from opilio.core.clock import parse_date
from opilio.core.records import FetchResult, SitemapEntry
from opilio.core.urls import canonicalize_url

MAX_ENTRIES = 5_000
_FEED_KINDS = ("xml", "rss", "atom")
_ROOT_ELEMENT = re.compile(rb"<(?:\w+:)?(urlset|sitemapindex|rss|RDF|feed)[\s>]", re.IGNORECASE)
_ENTRY = re.compile(
    r"<(?P<tag>(?:\w+:)?(?P<kind>url|sitemap|item|entry))\b[^>]*>(?P<content>.*?)</(?P=tag)\s*>",
    re.IGNORECASE | re.DOTALL,
)
_LOCATION = re.compile(
    r"<(?:\w+:)?loc\b[^>]*>(.*?)</|<link[^>]*\bhref=[\"']([^\"']+)[\"'][^>]*>|<link[^>]*>(.*?)</link>",
    re.IGNORECASE | re.DOTALL,
)
_DATE = re.compile(r"<(?:\w+:)?(?:lastmod|updated|pubDate|date|published)\b[^>]*>(.*?)</", re.IGNORECASE | re.DOTALL)
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)


def parse_sitemap(fetched: FetchResult) -> tuple[SitemapEntry, ...]:
    """The entries of a sitemap or feed; empty if the response is neither.

    >>> body = b"<urlset><url><loc>/a?x=1&amp;y=2</loc><lastmod>1970-01-02</lastmod></url></urlset>"
    >>> parse_sitemap(FetchResult(url="http://a.example/map.xml", body=body, headers=(("Content-Type", "text/xml"),)))
    (SitemapEntry(url='http://a.example/a?x=1&y=2', modified_at=86400.0, is_sitemap=False),)
    """
    kind = fetched.header("content-type").partition(";")[0].lower()
    if not any(word in kind for word in _FEED_KINDS) or not has_sitemap_root(fetched.body):
        return ()
    return tuple(islice(sitemap_entries(fetched.body.decode("utf-8", "replace"), fetched.url), MAX_ENTRIES))


def has_sitemap_root(body: bytes) -> bool:
    """True if the body begins with the root element of a sitemap or feed."""
    return _ROOT_ELEMENT.search(body[:2_000]) is not None


def sitemap_entries(xml: str, base_url: str) -> Iterator[SitemapEntry]:
    """The entries in the text of a sitemap, sitemap index or feed, with URLs made absolute and canonical."""
    for entry in _ENTRY.finditer(xml):
        location, date = _LOCATION.search(entry["content"]), _DATE.search(entry["content"])
        href = _clean_xml_text(next(filter(None, location.groups()), "")) if location else ""
        url = canonicalize_url(href, base_url) if location else None
        if url is not None:
            modified_at = (parse_date(_clean_xml_text(date[1])) if date else None) or 0.0
            yield SitemapEntry(
                url=url, modified_at=max(0.0, modified_at), is_sitemap=entry["kind"].lower() == "sitemap"
            )


def _clean_xml_text(raw: str) -> str:
    return unescape(_CDATA.sub(r"\1", raw)).strip()
