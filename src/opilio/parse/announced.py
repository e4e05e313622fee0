"""Sitemaps and feeds: which pages there are, and when each last changed. Pure.

By patterns, not by an XML parser: such files are often broken, and an entity must not make one grow. Whatever is in
them is bounded; what can't be read is left out.
"""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import unescape

from opilio.model.records import Announced, Fetched
from opilio.model.urls import canonical

MOST = 5_000
_KINDS = ("xml", "rss", "atom")
_START = re.compile(rb"<(urlset|sitemapindex|rss|rdf:RDF|feed)[\s>]", re.IGNORECASE)
_ENTRY = re.compile(r"<(url|sitemap|item|entry)\b[^>]*>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_PLACE = re.compile(
    r"<loc[^>]*>(.*?)</loc>|<link[^>]*\bhref=[\"']([^\"']+)[\"'][^>]*>|<link[^>]*>(.*?)</link>",
    re.IGNORECASE | re.DOTALL,
)
_DATE = re.compile(r"<(?:lastmod|updated|pubDate|dc:date|published)[^>]*>(.*?)</", re.IGNORECASE | re.DOTALL)
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)


def announced(fetched: Fetched) -> tuple[Announced, ...]:
    """What a sitemap or feed tells of; nothing where the answer is neither.

    >>> body = b"<urlset><url><loc>/a?x=1&amp;y=2</loc><lastmod>1970-01-02</lastmod></url></urlset>"
    >>> announced(Fetched(url="http://a.example/sitemap.xml", body=body, headers=(("Content-Type", "text/xml"),)))
    (Announced(url='http://a.example/a?x=1&y=2', at=86400.0, index=False),)
    """
    kind = fetched.header("content-type").partition(";")[0].lower()
    if not any(word in kind for word in _KINDS) or not _START.search(fetched.body[:2_000]):
        return ()
    found: list[Announced] = []
    for entry in _ENTRY.finditer(fetched.body.decode("utf-8", "replace")):
        place, date = _PLACE.search(entry[2]), _DATE.search(entry[2])
        url = canonical(_text(next(filter(None, place.groups()), "")), fetched.url) if place else None
        if url is not None:
            at = date_of(_text(date[1])) if date else 0.0
            found.append(Announced(url=url, at=at, index=entry[1].lower() == "sitemap"))
        if len(found) == MOST:
            break
    return tuple(found)


def _text(raw: str) -> str:
    return unescape(_CDATA.sub(r"\1", raw)).strip()


def date_of(text: str) -> float:
    """Seconds since 1970 of a W3C or an e-mail date; 0 for what is neither.

    >>> date_of("1970-01-01T00:01:00Z"), date_of("Thu, 01 Jan 1970 00:00:30 GMT"), date_of("soon")
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
