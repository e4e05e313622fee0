"""Sitemaps and feeds: the pages they list and when each last changed.

Scanned tag by tag instead of with an XML parser: such files are often broken, and entities of an untrusted file must
not be expanded. The number of entries is bounded; entries that cannot be read are skipped.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from html import unescape
from itertools import islice

from opilio.core.clock import parse_date
from opilio.core.records import FetchResult, SitemapEntry, media_type
from opilio.core.urls import canonicalize_url

MAX_ENTRIES = 5_000
MAX_CHARACTERS = 1_000_000  # of all their URLs
# The largest sitemap that sitemaps.org allows.
MAX_BYTES = 50_000_000
_GZIP_START = b"\x1f\x8b"
_FEED_KINDS = ("xml", "rss", "atom")
_ROOT_ELEMENT = re.compile(rb"<(?:\w+:)?(urlset|sitemapindex|rss|RDF|feed)[\s>]", re.IGNORECASE)
# No pattern crosses a "<" and none contains ".*?", so scanning takes time linear in the size of the file.
_ENTRY_TAG = re.compile(
    r"<(?P<close>/?)(?P<name>(?:\w+:)?(?P<kind>url|sitemap|item|entry))\b(?P<rest>[^<>]*)>", re.IGNORECASE
)
_LOCATION_TAG = re.compile(r"<(?:(?P<loc>(?:\w+:)?loc\b)|link)(?P<rest>[^<>]*)>", re.IGNORECASE)
_HREF = re.compile(r"\bhref=[\"']([^\"']+)[\"']", re.IGNORECASE)
_REL = re.compile(r"\brel=[\"']?([\w-]*)", re.IGNORECASE)
# RSS: the address of an item without a link, unless it says that it is only a name.
_GUID = re.compile(r"<guid\b(?![^<>]*=[\"']false)[^<>]*>\s*+(?:<!\[CDATA\[\s*+)?(https?://[^<>\s\]]+)", re.IGNORECASE)
_LINK_END = re.compile(r"</link>", re.IGNORECASE)
# No character has such a number, and `unescape` refuses very long ones.
_LONG_REFERENCE = re.compile(r"&#\d{9,}+;?")
_DATE_TAG = re.compile(r"<(?:\w+:)?(?:lastmod|updated|pubDate|date|published)\b[^<>]*>", re.IGNORECASE)


def parse_sitemap(fetched: FetchResult) -> tuple[SitemapEntry, ...]:
    """The entries of a sitemap or feed; empty if the response is neither.

    >>> body = b"<urlset><url><loc>/a?x=1&amp;y=2</loc><lastmod>1970-01-02</lastmod></url></urlset>"
    >>> parse_sitemap(FetchResult(url="http://a.example/map.xml", body=body, headers=(("Content-Type", "text/xml"),)))
    (SitemapEntry(url='http://a.example/a?x=1&y=2', modified_at=86400.0, is_sitemap=False),)
    """
    kind = media_type(fetched.header("content-type"))
    compressed = fetched.body.startswith(_GZIP_START) and fetched.url.endswith(".gz")
    body = gunzip_bounded(fetched.body) if compressed else fetched.body
    if not (compressed or any(word in kind for word in _FEED_KINDS)) or not has_sitemap_root(body):
        return ()
    return tuple(_limited(sitemap_entries(body.decode("utf-8", "replace"), fetched.url)))


def _limited(entries: Iterable[SitemapEntry]) -> Iterator[SitemapEntry]:
    """The first entries, up to the limits of their number and of their URLs."""
    size = 0
    for entry in islice(entries, MAX_ENTRIES):
        size += len(entry.url)
        if size > MAX_CHARACTERS:
            return
        yield entry


def gunzip_bounded(body: bytes) -> bytes:
    """The body without gzip, at most `MAX_BYTES`; truncated data is kept as far as it goes, damaged data is dropped."""
    if not body.startswith(_GZIP_START):
        return body
    try:
        return zlib.decompressobj(wbits=31).decompress(body, MAX_BYTES)
    except zlib.error:
        return b""


def has_sitemap_root(body: bytes) -> bool:
    """True if the body begins with the root element of a sitemap or feed."""
    return _ROOT_ELEMENT.search(body[:2_000]) is not None


def sitemap_entries(xml: str, base_url: str) -> Iterator[SitemapEntry]:
    """The entries in the text of a sitemap, sitemap index or feed, with URLs made absolute and canonical."""
    for kind, content in _scan_entries(xml):
        location = _find_location(content)
        url = canonicalize_url(_clean_xml_text(location), base_url) if location is not None else None
        if url is not None:
            modified_at = parse_date(_clean_xml_text(_find_date(content))) or 0.0
            yield SitemapEntry(url=url, modified_at=max(0.0, modified_at), is_sitemap=kind == "sitemap")


def _scan_entries(xml: str) -> Iterator[tuple[str, str]]:
    """Kind and content of each entry: from an opening tag to the first closing tag of the same name."""
    tags = list(_ENTRY_TAG.finditer(xml))
    last_close = {tag["name"].lower(): tag.start() for tag in tags if _is_end(tag)}
    opened = ""
    start = 0
    kind = ""
    for tag in tags:
        name = tag["name"].lower()
        if opened:
            if name == opened and _is_end(tag):
                yield kind, xml[start : tag.start()]
                opened = ""
        elif not tag["close"] and last_close.get(name, -1) >= tag.end():
            opened, start, kind = name, tag.end(), tag["kind"].lower()


def _is_end(tag: re.Match[str]) -> bool:
    return bool(tag["close"]) and not tag["rest"].strip()


def _find_location(content: str) -> str | None:
    """The URL of an entry: the text of `loc`, `link` or `guid`, or the `href` of a `link` to the page itself.

    An Atom entry has more links, to its comments, files or its own XML, in any order (RFC 4287, 4.2.7.2).
    """
    # Found once: looking for an end that is missing from every tag would take quadratic time.
    last_end = content.rfind("</")
    last_link_end = max((end.start() for end in _LINK_END.finditer(content)), default=-1)
    own: str | None = None
    for tag in _LOCATION_TAG.finditer(content):
        start = tag.end()
        if tag["loc"]:
            if last_end >= start:
                return content[start : content.index("</", start)]
        elif hrefs := _HREF.findall(tag["rest"]):
            rel = _REL.search(tag["rest"])
            if rel is None or rel[1].lower() in ("alternate", ""):
                return str(hrefs[-1])
            if own is None and rel[1].lower() == "self":
                own = str(hrefs[-1])
        elif last_link_end >= start and (end := _LINK_END.search(content, start)):
            return content[start : end.start()]
    guid = _GUID.search(content)
    return guid[1] if guid else own


def _find_date(content: str) -> str:
    tag = _DATE_TAG.search(content)
    end = content.find("</", tag.end()) if tag else -1
    return content[tag.end() : end] if tag and end >= 0 else ""


def _clean_xml_text(raw: str) -> str:
    first, *sections = raw.split("<![CDATA[")
    parts = [first]
    for section in sections:
        text, end, rest = section.partition("]]>")
        parts += (text, rest) if end else ("<![CDATA[", text)
    return unescape(_LONG_REFERENCE.sub("\ufffd", "".join(parts))).strip()
