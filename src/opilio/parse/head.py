"""Metadata of a page: title, description, keywords, language, base, canonical, feeds, and robots directives.

Reads meta, link, base and title elements wherever they are, and X-Robots-Tag headers.
"""

import re
from collections.abc import Iterable

import msgspec
from turbohtml import Element

from opilio.parse.text_blocks import clean_text

_REFRESH = re.compile(r"""^\s*[\d.]*\s*[;,\s]\s*(?:url\s*=\s*)?["']?([^"'>]+)""", re.IGNORECASE)
_FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml"})
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
