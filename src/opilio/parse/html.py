"""The parser: an answer's bytes to a `Page`, whatever they are, or ParseError. Implements `protocols.Parser`.

One parse, one walk over links and headings, one native writing of the text. turbohtml builds the same tree as a
browser, survives 100,000 attributes and bounds the depth of nesting; it holds the GIL, so parallelism is by process.
Must not: fetch, follow, or judge.
"""

import re

import msgspec
import turbohtml

from opilio.model.errors import ParseError
from opilio.model.records import BLOCK_BREAK, LINK_CLOSES, LINK_OPENS, Fetched, Page
from opilio.model.urls import canonical
from opilio.parse.blocks import HIDDEN, flow_of
from opilio.parse.directives import directives
from opilio.parse.encoding import as_sent, declared, declared_in_xml, decode
from opilio.parse.head import Head, read_head
from opilio.parse.kinds import Kind, kind_of
from opilio.parse.links import head_links, links_of, name_textless, paths_of, places_of, resolve
from opilio.parse.plain import plain_page

MAX_LINKS = 5_000
MAX_FEEDS = 5
MAX_UNPLACED = 20  # links of the head: next, previous, refresh

_HEAD_ELEMENTS = ("title", "meta", "link", "base")
_ANCHORS = re.compile("\x02([^\x03]*)\x03").findall
# Unclosed formatting elements are opened again in every block that follows (WHATWG 13.2.4.3): 20 bytes of markup
# become 60 KB of tree. They mean nothing to us, so pages with very many tags lose them before they are parsed.
_LONG, _MANY_TAGS = 60_000, 10_000
_FORMATTING = re.compile(
    rb"</?(?:b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)(?:[\s/][^<>]*)?>", re.IGNORECASE
)
# XHTML may close any element at once; HTML would leave these open to the end of the page.
_CLOSED_AT_ONCE = re.compile(rb"<(script|style|title|iframe|textarea|a|div|span|p|td|th|li|i|b|em|strong)(\s[^<>]*)?/>")


class HtmlParser:
    """HTML, XHTML and plain text to pages. `agent` is the product token that robots directives may name.

    Without `paths` links have no tag path: they take a tenth of the time, and few rankers look at them.
    """

    def __init__(self, agent: str = "opilio", max_links: int = MAX_LINKS, *, paths: bool = True) -> None:
        self._agent = agent
        self._max_links = max_links
        self._paths = paths

    def parse(self, fetched: Fetched) -> Page:
        """The page in the answer; ParseError where there is none."""
        content_type = fetched.header("content-type")
        kind = kind_of(content_type, fetched.body)
        url = canonical(fetched.url)
        if url is None:
            raise ParseError(f"url: {fetched.url[:200]!r} is no http or https address")
        if kind is Kind.PLAIN:
            page, head = plain_page(url, *decode(fetched.body, content_type), self._max_links), Head()
        else:
            page, head = _read(_tree(fetched.body, kind, content_type), url, self._max_links, self._paths)
        tags = [value for name, value in fetched.headers if name.lower() == "x-robots-tag"]
        asked = directives([*head.every("robots"), *head.every(self._agent.lower()), *tags], self._agent)
        return msgspec.structs.replace(
            page,
            content_type=content_type.partition(";")[0].strip().lower(),
            language=page.language or fetched.header("content-language").partition(",")[0].strip(),
            noindex=asked.noindex,
            nofollow=asked.nofollow,
        )


def _without_sections(body: bytes) -> bytes:
    """CDATA of XHTML, in which nothing is markup, as HTML writes it: there it is a comment up to the next bracket."""
    first, *sections = body.split(b"<![CDATA[")
    parts = [first]
    for section in sections:
        text, end, rest = section.partition(b"]]>")
        parts += (text.replace(b"&", b"&amp;").replace(b"<", b"&lt;"), rest) if end else (b"<![CDATA[", text)
    return b"".join(parts)


def _tree(body: bytes, kind: Kind, content_type: str) -> turbohtml.Document:
    if kind is Kind.XHTML:
        body = _CLOSED_AT_ONCE.sub(rb"<\1\2></\1>", _without_sections(body))
    opened = body.rfind(b"<!--")
    if opened >= 0 and body.find(b"->", opened) < 0:
        # A comment that never ends would swallow the rest of the page; who wrote it meant the browsers of 1996,
        # which ended it at the next bracket.
        body = body[:opened] + b"<!" + body[opened + 4 :]
    if len(body) > _LONG and body.count(b"<") > _MANY_TAGS:
        body = _FORMATTING.sub(b"", body)
    encoding = declared(content_type, body) or declared_in_xml(body)
    return turbohtml.parse(body, encoding=encoding, detect_encoding=True, positions=False)


def _read(document: turbohtml.Document, url: str, max_links: int, with_paths: bool) -> tuple[Page, Head]:
    document.remove(HIDDEN)
    head = read_head(document.iter_elements(_HEAD_ELEMENTS))
    base = (canonical(head.base, url) if head.base else None) or url
    root, body = document.root, _body_of(document)
    if root is None or body is None:
        return Page(url=url, title=head.title), head
    encoding = (document.encoding or "").lower()
    places, headings = places_of(body, head.title)
    if encoding != "utf-8":
        places = [(e, href if href.isascii() else as_sent(href, encoding), above) for e, href, above in places]
    kept, beyond = resolve(places, base, url, max_links)
    paths = paths_of(kept, body) if with_paths else [""] * len(kept)
    name_textless(kept)
    flow, boilerplate = flow_of(body, [element for element, _, _ in kept])
    anchors = _ANCHORS(flow)
    if len(anchors) != len(kept):  # can't be, by construction; a page with false contexts would be worse than none
        raise ParseError(f"html: {len(kept)} links but {len(anchors)} link marks")
    links = links_of(kept, paths, anchors)
    unplaced = head_links(head.links[:MAX_UNPLACED], base, url, len(links))
    page = Page(
        url=url,
        title=head.title,
        description=head.first("description", "og:description"),
        keywords=head.first("keywords"),
        canonical=(canonical(head.canonical, base) if head.canonical else None) or "",
        language=(root.attr("lang") or root.attr("xml:lang") or head.first("content-language")).strip(),
        headings=tuple(headings),
        flow=BLOCK_BREAK.join([flow, *(f"{LINK_OPENS}{link.anchor}{LINK_CLOSES}" for link in unplaced)]),
        boilerplate=(*boilerplate, *(True for _ in unplaced)),
        links=(*links, *unplaced),
        encoding=encoding,
        published=head.published,
        links_dropped=beyond + len(head.links[MAX_UNPLACED:]),
        feeds=tuple(filter(None, (canonical(href, base) for href in head.feeds[:MAX_FEEDS]))),
    )
    return page, head


def _body_of(document: turbohtml.Document) -> turbohtml.Element | None:
    """The body, or the frameset that stands in its place."""
    return document.find(["body", "frameset"])
