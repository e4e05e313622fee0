"""Sitemaps and feeds: which pages there are, and when each last changed. Pure.

By patterns, not by an XML parser: such files are often broken, and an entity must not make one grow. Whatever is in
them is bounded; what can't be read is left out.
"""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import unescape

from opilio.core.records import FetchResult, SitemapEntry
from opilio.core.urls import canonicalize_url

MAX_ENTRIES = 5_000
_FEED_KINDS = ("xml", "rss", "atom")
_ROOT_ELEMENT = re.compile(rb"<(urlset|sitemapindex|rss|rdf:RDF|feed)[\s>]", re.IGNORECASE)
_ENTRY = re.compile(r"<(url|sitemap|item|entry)\b[^>]*>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_LOCATION = re.compile(
    r"<loc[^>]*>(.*?)</loc>|<link[^>]*\bhref=[\"']([^\"']+)[\"'][^>]*>|<link[^>]*>(.*?)</link>",
    re.IGNORECASE | re.DOTALL,
)
_DATE = re.compile(r"<(?:lastmod|updated|pubDate|dc:date|published)[^>]*>(.*?)</", re.IGNORECASE | re.DOTALL)
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)


def parse_sitemap(fetched: FetchResult) -> tuple[SitemapEntry, ...]:
    """What a sitemap or feed tells of; nothing where the answer is neither.

    >>> body = b"<urlset><url><loc>/a?x=1&amp;y=2</loc><lastmod>1970-01-02</lastmod></url></urlset>"
    >>> parse_sitemap(FetchResult(url="http://a.example/sitemap.xml", body=body, headers=(("Content-Type",
    ...     "text/xml"),)))
    (SitemapEntry(url='http://a.example/a?x=1&y=2', modified_at=86400.0, is_sitemap=False),)
    """
    kind = fetched.header("content-type").partition(";")[0].lower()
    if not any(word in kind for word in _FEED_KINDS) or not _ROOT_ELEMENT.search(fetched.body[:2_000]):
        return ()
    found: list[SitemapEntry] = []
    for entry in _ENTRY.finditer(fetched.body.decode("utf-8", "replace")):
        place, date = _LOCATION.search(entry[2]), _DATE.search(entry[2])
        url = canonicalize_url(_clean_xml_text(next(filter(None, place.groups()), "")), fetched.url) if place else None
        if url is not None:
            at = parse_date(_clean_xml_text(date[1])) if date else 0.0
            found.append(SitemapEntry(url=url, modified_at=at, is_sitemap=entry[1].lower() == "sitemap"))
        if len(found) == MAX_ENTRIES:
            break
    return tuple(found)


def _clean_xml_text(raw: str) -> str:
    return unescape(_CDATA.sub(r"\1", raw)).strip()


def parse_date(text: str) -> float:
    """Seconds since 1970 of a W3C or an e-mail date; 0 for what is neither.

    >>> parse_date("1970-01-01T00:01:00Z"), parse_date("Thu, 01 Jan 1970 00:00:30 GMT"), parse_date("soon")
    (60.0, 30.0, 0.0)
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        try:
            found = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError):
            return 0.0
    try:
        return max(0.0, (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
    except (OverflowError, ValueError, OSError):
        return 0.0
