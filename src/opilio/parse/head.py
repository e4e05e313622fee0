"""Metadata of a page: what crawling needs (title, language, base, canonical, robots directives), and exports.

Reads meta, link, base and title elements wherever they are, and X-Robots-Tag headers. Exports also get author, dates
and licence, from meta and link elements and JSON-LD.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
from turbohtml import Document, Element

from opilio.parse.text_blocks import clean_text

_REFRESH = re.compile(r"""^\s*[\d.]*\s*[;,\s]\s*(?:url\s*=\s*)?["']?([^"'>]+)""", re.IGNORECASE)
_FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml"})
LICENCE_METAS = ("license", "licence", "dcterms.license", "dc.rights", "dcterms.rights", "rights")
_FOLLOWED_RELS = ("next", "prev", "previous")
_LINK_VALUE = re.compile(r"<([^<>]*)>([^<,]*)")
_REL = re.compile(r"""\brel\s*=\s*["']?([\w -]+)""", re.IGNORECASE)
_HREFLANG = re.compile(r"""\bhreflang\s*=\s*["']?([\w-]+)""", re.IGNORECASE)
_MAX_LINK_HEADER = 8_000
_MAX_ALTERNATES = 200
_DATE_META_NAMES = (
    "article:published_time",
    "date",
    "dc.date",
    "dcterms.created",
    "citation_publication_date",
    "pubdate",
)


class HeadLink(msgspec.Struct, frozen=True):
    """A link in the head of a page."""

    href: str
    rel: str
    anchor: str = ""


class PageHead(msgspec.Struct, kw_only=True):
    """The metadata found so far; the first value of each wins."""

    title: str = ""
    base: str = ""
    canonical: str = ""
    licence: str = ""
    # By name, property or http-equiv in lower case.
    meta: dict[str, str] = msgspec.field(default_factory=dict)
    # Further values of the same names.
    repeated: list[tuple[str, str]] = msgspec.field(default_factory=list)
    links: list[HeadLink] = msgspec.field(default_factory=list)
    feeds: list[str] = msgspec.field(default_factory=list)
    # Language tag (or x-default) and href of the same page in other languages.
    alternates: list[tuple[str, str]] = msgspec.field(default_factory=list)

    def first_value(self, *names: str) -> str:
        """The first nonempty value of these names."""
        return next((self.meta[name] for name in names if self.meta.get(name)), "")

    def all_values(self, name: str) -> list[str]:
        """All meta values of a name."""
        return [*([self.meta[name]] if name in self.meta else []), *(v for n, v in self.repeated if n == name)]

    @property
    def published(self) -> str:
        return self.first_value(*_DATE_META_NAMES)[:40]


def read_head(elements: Iterable[Element]) -> PageHead:
    """Read the title, meta, link and base elements."""
    head = PageHead()
    for element in elements:
        tag = element.tag
        if tag == "meta":
            _read_meta(head, element)
        elif tag == "link":
            _read_link(head, element)
        elif tag == "title":
            head.title = head.title or clean_text(element.text)
        elif tag == "base":
            head.base = head.base or (element.attr("href") or "")
    refresh = _REFRESH.match(head.meta.get("refresh", ""))
    if refresh:
        head.links.append(HeadLink(refresh[1].strip(), "refresh"))
    return head


def read_header_links(headers: Iterable[tuple[str, str]], head: PageHead) -> None:
    """Add the links of `Link` (RFC 8288: next, previous, other languages) and `Refresh` headers.

    >>> read_header_links([("Link", '</2>; rel=next, </de>; rel="alternate"; hreflang="de"')], head := PageHead())
    >>> head.links, head.alternates
    ([HeadLink(href='/2', rel='next', anchor='')], [('de', '/de')])
    """
    for name, value in headers:
        if name.lower() == "link":
            for href, options in _LINK_VALUE.findall(value[:_MAX_LINK_HEADER]):
                words = link_rels(options)
                head.links += [HeadLink(href.strip(), rel) for rel in _FOLLOWED_RELS if rel in words][:1]
                if "alternate" in words and (language := _HREFLANG.search(options)):
                    head.alternates.append((language[1], href.strip()))
        elif name.lower() == "refresh" and (refresh := _REFRESH.match(value)):
            head.links.append(HeadLink(refresh[1].strip(), "refresh"))


def link_rels(options: str) -> list[str]:
    """The relations in the options of a Link header.

    >>> link_rels('; rel="next license"; title=x')
    ['next', 'license']
    """
    rels = _REL.search(options)
    return rels[1].lower().split() if rels else []


def _read_meta(head: PageHead, element: Element) -> None:
    name = element.attr("name") or element.attr("property") or element.attr("http-equiv")
    content = element.attr("content")
    if not name or not content:
        return
    name = name.strip().lower()
    if name in head.meta:
        head.repeated.append((name, clean_text(content)))
    else:
        head.meta[name] = clean_text(content)


def _read_link(head: PageHead, element: Element) -> None:
    rels = (element.attr("rel") or "").lower().split()
    href = element.attr("href")
    if not href:
        return
    if "canonical" in rels:
        head.canonical = head.canonical or href
    if "license" in rels:
        head.licence = head.licence or href.strip()
    if "alternate" in rels:
        if (element.attr("type") or "").lower() in _FEED_TYPES:
            head.feeds.append(href)
        elif (language := element.attr("hreflang")) and len(head.alternates) < _MAX_ALTERNATES:
            head.alternates.append((language, href))
    for rel in _FOLLOWED_RELS:
        if rel in rels:
            head.links.append(HeadLink(href, rel, clean_text(element.attr("title") or "")))
            return


DIRECTIVES_WITH_VALUE = frozenset(
    ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview", "charset")
)


def robots_words(values: Iterable[str], agent: str) -> set[str]:
    """The words of the directives for `agent` in meta robots contents and X-Robots-Tag values.

    >>> robots_words(["otherbot: noindex", "opilio: nofollow"], "opilio")
    {'nofollow'}
    """
    return {word for value in values for word in _directives_for(value, agent.lower())}


def _directives_for(value: str, agent: str) -> set[str]:
    """The directives in one value; a name before a colon is the agent that the rest applies to."""
    words: set[str] = set()
    applies = True
    for part in value.lower().split(","):
        name, colon, rest = part.partition(":")
        if colon and name.strip() in DIRECTIVES_WITH_VALUE:
            continue
        if colon:
            applies = name.strip() in (agent, "*", "robots")
            part = rest
        if applies:
            words |= set(part.split())
    return words


_MAX_JSON_LD = 200_000  # bytes of one block
JSON_LD_TYPE = b"application/ld+json"
_MAX_NODES = 500  # of one block that are looked at
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ][\d:.]+(?:Z|[+-]\d{2}:?\d{2})?)?")
_AUTHOR_NAMES = ("author", "article:author", "dc.creator", "dcterms.creator", "citation_author", "parsely-author")
_PUBLISHED_NAMES = (
    *("article:published_time", "date", "dc.date", "dcterms.created", "dcterms.issued", "dc.date.issued"),
    *("citation_publication_date", "pubdate", "parsely-pub-date"),
)
_MODIFIED_NAMES = ("article:modified_time", "og:updated_time", "dcterms.modified", "dc.date.modified", "last-modified")


class PageMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a page states about itself; an empty string if it does not."""

    title: str = ""
    author: str = ""
    published: str = ""
    modified: str = ""
    licence: str = ""


def read_metadata(document: Document, head: PageHead) -> PageMetadata:
    """The metadata; meta elements count before JSON-LD, the main heading before the title element."""
    nodes = list(_json_ld(document))
    headings = document.select("h1")
    # Several main headings are those of chapters. Documentation tools add a sign to headings.
    heading = clean_text(headings[0].text).rstrip("¶ ") if len(headings) == 1 or (headings and not head.title) else ""
    time = document.select_one("time[datetime][pubdate],[itemprop=datePublished][datetime]")
    published = _first_date(*(head.meta.get(name, "") for name in _PUBLISHED_NAMES), _node_text(nodes, "datePublished"))
    return PageMetadata(
        title=clean_text(head.first_value("og:title") or heading or head.title)[:500],
        author=_author(document, head, nodes)[:200],
        published=published or _first_date((time.attr("datetime") or "") if time else ""),
        modified=_first_date(*(head.meta.get(name, "") for name in _MODIFIED_NAMES), _node_text(nodes, "dateModified")),
        licence=_licence(document, head, nodes)[:500],
    )


def _author(document: Document, head: PageHead, nodes: list[dict[str, Any]]) -> str:
    declared = head.first_value(*_AUTHOR_NAMES)
    if declared and not declared.startswith(("http://", "https://")):
        return declared
    link = document.select_one("a[rel~=author],[itemprop=author]")
    return _node_text(nodes, "author") or (clean_text(link.text) if link else "")


def _licence(document: Document, head: PageHead, nodes: list[dict[str, Any]]) -> str:
    link = document.select_one("link[rel~=license][href],a[rel~=license][href]")
    href = (link.attr("href") or "") if isinstance(link, Element) else ""
    return href.strip() or _node_text(nodes, "license") or head.first_value(*LICENCE_METAS)


def _first_date(*values: str) -> str:
    """The first value that begins with an ISO date."""
    return next((found[0] for value in values if (found := _ISO_DATE.match(value.strip()))), "")


def json_ld_licence(body: bytes) -> str:
    """The licence that the JSON-LD of a page states, or nothing. Reads bytes: the tree of a crawl has no scripts."""
    return _node_text(list(_read_json_ld(_script_blocks(body))), "license")


def _script_blocks(body: bytes) -> Iterator[bytes]:
    position = body.find(JSON_LD_TYPE)
    while position >= 0:
        start = body.find(b">", position) + 1
        end = body.find(b"</script", start)
        if not start or end < 0:
            return
        yield body[start:end]
        position = body.find(JSON_LD_TYPE, end)


def _json_ld(document: Document) -> Iterator[dict[str, Any]]:
    return _read_json_ld(script.text for script in document.select('script[type="application/ld+json"]'))


def _read_json_ld(blocks: Iterable[str | bytes]) -> Iterator[dict[str, Any]]:
    """The objects of the JSON-LD blocks, outer ones first; blocks that cannot be read are skipped."""
    for block in blocks:
        if len(block) > _MAX_JSON_LD:
            continue
        with suppress(msgspec.DecodeError, RecursionError):
            queue = [msgspec.json.decode(block)]
            seen = 0
            while queue and seen < _MAX_NODES:
                node, seen = queue.pop(0), seen + 1
                if isinstance(node, dict):
                    yield node
                    queue += [node[key] for key in ("@graph", "mainEntity", "mainEntityOfPage") if key in node]
                elif isinstance(node, list):
                    queue += node


def _node_text(nodes: list[dict[str, Any]], name: str) -> str:
    """The first value of a property as text: a string, the name or URL of an object, or a list of those."""
    for node in nodes:
        values = node.get(name)
        texts = [_value_text(value) for value in (values if isinstance(values, list) else [values])]
        if any(texts):
            return ", ".join(filter(None, texts))
    return ""


def _value_text(value: object) -> str:
    if isinstance(value, dict):
        value = value.get("name") or value.get("url") or value.get("@id")
    return clean_text(value) if isinstance(value, str) else ""
