"""What a page says about itself: title, description, keywords, language, robots, base, refresh, next and previous.

Reads meta, link, base and title elements wherever they stand. Must not: look at the text.
"""

import re
from collections.abc import Iterable

import msgspec
from turbohtml import Element

from opilio.parse.blocks import tidy

_REFRESH = re.compile(r"""^\s*[\d.]*\s*[;,\s]\s*(?:url\s*=\s*)?["']?([^"'>]+)""", re.IGNORECASE)
_FEEDS = frozenset({"application/rss+xml", "application/atom+xml"})
_FOLLOWED_RELS = ("next", "prev", "previous")
_PUBLISHED = ("article:published_time", "date", "dc.date", "dcterms.created", "citation_publication_date", "pubdate")


class HeadLink(msgspec.Struct, frozen=True):
    """A link that has no place in the text."""

    href: str
    rel: str
    anchor: str = ""


class Head(msgspec.Struct, kw_only=True):
    """What was found so far; the first of each wins."""

    title: str = ""
    base: str = ""
    canonical: str = ""
    meta: dict[str, str] = msgspec.field(default_factory=dict)  # by lower-case name, property or http-equiv
    repeated: list[tuple[str, str]] = msgspec.field(default_factory=list)  # further values of names that were there
    links: list[HeadLink] = msgspec.field(default_factory=list)
    feeds: list[str] = msgspec.field(default_factory=list)

    def first(self, *names: str) -> str:
        """The first of these meta values that is there."""
        return next((self.meta[name] for name in names if self.meta.get(name)), "")

    def every(self, name: str) -> list[str]:
        """All meta values of a name."""
        return [*([self.meta[name]] if name in self.meta else []), *(v for n, v in self.repeated if n == name)]

    @property
    def published(self) -> str:
        return self.first(*_PUBLISHED)[:40]


def read_head(elements: Iterable[Element]) -> Head:
    """Gather what the title, meta, link and base elements say."""
    head = Head()
    for element in elements:
        tag = element.tag
        if tag == "meta":
            _read_meta(head, element)
        elif tag == "link":
            _read_link(head, element)
        elif tag == "title":
            head.title = head.title or tidy(element.text)
        elif tag == "base":
            head.base = head.base or (element.attr("href") or "")
    refresh = _REFRESH.match(head.meta.get("refresh", ""))
    if refresh:
        head.links.append(HeadLink(refresh[1].strip(), "refresh"))
    return head


def _read_meta(head: Head, element: Element) -> None:
    name = element.attr("name") or element.attr("property") or element.attr("http-equiv")
    content = element.attr("content")
    if not name or not content:
        return
    name = name.strip().lower()
    if name in head.meta:
        head.repeated.append((name, tidy(content)))
    else:
        head.meta[name] = tidy(content)


def _read_link(head: Head, element: Element) -> None:
    rels = (element.attr("rel") or "").lower().split()
    href = element.attr("href")
    if not href:
        return
    if "canonical" in rels:
        head.canonical = head.canonical or href
    if "alternate" in rels and (element.attr("type") or "").lower() in _FEEDS:
        head.feeds.append(href)
    for rel in _FOLLOWED_RELS:
        if rel in rels:
            head.links.append(HeadLink(href, rel, tidy(element.attr("title") or "")))
            return
