"""The parser: turns a response into a `Page`, or raises ParseError. Implements `protocols.Parser`.

One parse, one walk over links and headings, one native extraction of the text. turbohtml builds the same tree as a
browser, handles 100,000 attributes and limits the depth of nesting; it holds the GIL, so parallel parsing needs
processes. In plain text, blank lines separate blocks and URLs are links.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
import turbohtml

from opilio.core.errors import ConfigError, ParseError
from opilio.core.records import BLOCK_BREAK, LINK_END, LINK_START, FetchResult, Link, Page, media_type, url_key
from opilio.core.settings import HtmlLibrary
from opilio.core.urls import canonicalize_url
from opilio.parse.documents.formats import convert_document
from opilio.parse.encoding import ContentKind, declared_encoding, decode_text, detect_kind, encode_href, xml_encoding
from opilio.parse.head import JSON_LD_TYPE, PageHead, json_ld_licence, read_head, read_header_links
from opilio.parse.links import (
    build_head_links,
    build_links,
    choose_alternates,
    fill_empty_anchors,
    find_links,
    resolve_links,
    tag_paths,
)
from opilio.parse.signals import read_signals
from opilio.parse.text_blocks import HIDDEN_ELEMENTS, clean_text, extract_flow

_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")
_URL = re.compile(r"https?://[^\s<>\"'\x00-\x1f]{3,2000}")
_TRAILING_PUNCTUATION = ".,;:!?)]}*_~|"


def parse_plain_text(url: str, text: str, encoding: str, limit: int) -> Page:
    """A page of plain text; the caller adds the header fields."""
    normalized = text.replace("\r\n", "\n").replace("\r", "\n")
    blocks = [b for b in map(clean_text, _BLANK_LINES.split(normalized)) if b]
    links: list[Link] = []
    beyond = 0

    def mark(found: re.Match[str]) -> str:
        nonlocal beyond
        address = found[0].rstrip(_TRAILING_PUNCTUATION)
        if found[0][len(address) :].startswith(")") and address.count("(") > address.count(")"):
            # Wren_(bird): the parenthesis belongs to the URL.
            address += ")"
        target = canonicalize_url(address)
        if target is None or target == url:
            return found[0]
        if len(links) >= limit:
            beyond += 1
            return found[0]
        host = target.split("/", 3)[2]
        links.append(Link(url=target, key=url_key(target), host=host, anchor=address, index=len(links)))
        return f"{LINK_START}{address}{LINK_END}{found[0][len(address) :]}"

    flow = BLOCK_BREAK.join([_URL.sub(mark, block) for block in blocks])
    flags = (False,) * (flow.count(BLOCK_BREAK) + 1)
    return Page(url=url, flow=flow, boilerplate=flags, links=tuple(links), encoding=encoding, links_dropped=beyond)


MAX_LINKS = 5_000
MAX_FEEDS = 5
MAX_LANGUAGE = 100  # characters of its code
# Next, previous, refresh, other languages.
MAX_HEAD_LINKS = 20

# From bytes and their declared encoding to a tree. The second one (lexbor_tree.py) has the same operations.
TreeBuilder = Callable[[bytes, str | None], turbohtml.Document]

HEAD_ELEMENTS = ("title", "meta", "link", "base")
_find_anchors = re.compile("\x02([^\x02\x03]*)\x03").findall
# Unclosed formatting elements are reopened in every following block (WHATWG 13.2.4.3): 20 bytes of markup become 60 KB
# of tree. The text does not need them, so they are removed from pages with very many tags before parsing.
_STRIP_FORMATTING_BYTES, _STRIP_FORMATTING_TAGS = 60_000, 10_000
_FORMATTING = re.compile(rb"</?(b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)(?:[\s/][^<>]*)?>", re.IGNORECASE)
_MAX_OPEN_FORMATTING = 20
# The tree of a page takes memory for each tag: the worst page of the hostile benchmark took 120 MB without this limit.
MAX_TAGS = 200_000
_CLASSIFIER = b'<span class="classifier">'
_SHADOW_ROOT = re.compile(rb"<template(?=[^<>]*\sshadowrootmode)[^<>]*>", re.IGNORECASE)
# XHTML may self-close any element; HTML would leave these open to the end of the page.
_SELF_CLOSED = re.compile(rb"<(script|style|title|iframe|textarea|a|div|span|p|td|th|li|i|b|em|strong)(\s[^<>]*)?/>")


class _ReadOptions(NamedTuple):
    """What is read of a document; see `HtmlParser`."""

    max_links: int
    with_paths: bool
    with_lists: bool
    languages: frozenset[str]


class HtmlParser:
    """Parses HTML, XHTML, Markdown, plain text and documents.

    `agent` is the product token that robots directives may name.
    Without `paths`, links have no tag path, which saves a tenth of the time. With `lists`, a page knows the blocks of
    its lists.
    `library` builds the trees of HTML pages. `languages` are the codes of those in which a page's other versions
    (hreflang) are links of the page.
    """

    def __init__(
        self,
        agent: str = "opilio",
        max_links: int = MAX_LINKS,
        *,
        paths: bool = True,
        lists: bool = False,
        library: HtmlLibrary = "turbohtml",
        languages: Iterable[str] = (),
    ) -> None:
        self._agent = agent
        self._options = _ReadOptions(max_links, paths, lists, frozenset(languages))
        self._build_tree = _tree_builder(library)

    def parse(self, fetched: FetchResult) -> Page:
        """The page in the response; raises ParseError if there is none."""
        fetched = convert_document(fetched)
        content_type = fetched.header("content-type")
        url = canonicalize_url(fetched.url)
        if url is None:
            raise ParseError(f"url: {fetched.url[:200]!r} is not an http or https URL")
        kind = ContentKind.HTML if fetched.converted else detect_kind(content_type, fetched.body)
        if kind is ContentKind.PLAIN:
            text, encoding = decode_text(fetched.body, content_type)
            page, head = parse_plain_text(url, text, encoding, self._options.max_links), PageHead()
        else:
            document = parse_response_tree(fetched, kind, self._build_tree)
            page, head = _read_document(document, url, fetched.headers, self._options)
        if not head.licence:
            _find_licence(page, head, fetched.body)
        signals = read_signals(fetched, head, self._agent)
        noindex, nofollow = signals.directives(fetched.started_at)
        return msgspec.structs.replace(
            page,
            content_type=media_type(content_type),
            language=(page.language or fetched.header("content-language").partition(",")[0].strip())[:MAX_LANGUAGE],
            noindex=noindex,
            nofollow=nofollow,
            signals=signals.encode(),
        )


def _strip_cdata(body: bytes) -> bytes:
    """Convert CDATA sections of XHTML to escaped text: in HTML they are comments up to the next bracket."""
    first, *sections = body.split(b"<![CDATA[")
    parts = [first]
    for section in sections:
        text, end, rest = section.partition(b"]]>")
        parts += (text.replace(b"&", b"&amp;").replace(b"<", b"&lt;"), rest) if end else (b"<![CDATA[", text)
    return b"".join(parts)


def has_too_many_tags(body: bytes) -> bool:
    """True if only the beginning of a page is read, because its tree would take too much memory."""
    return len(body) > 3 * MAX_TAGS and body.count(b"<") > MAX_TAGS


def _limit_tags(body: bytes) -> bytes:
    """The beginning of a page, up to the last tag that is allowed."""
    end = bisect_left(range(len(body)), MAX_TAGS + 1, key=lambda size: body.count(b"<", 0, size)) - 1
    return body[:end]


def _build_turbohtml_tree(body: bytes, encoding: str | None) -> turbohtml.Document:
    return turbohtml.parse(body, encoding=encoding, detect_encoding=True, positions=False)


def _tree_builder(library: HtmlLibrary) -> TreeBuilder:
    if library == "turbohtml":
        return _build_turbohtml_tree
    # Imported only if it is chosen: the package is an extra.
    try:
        from opilio.parse.lexbor_tree import build_lexbor_tree
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"engine.html_library = '{library}': the package is not installed; run pip install 'opilio[selectolax]'"
        ) from error
    return build_lexbor_tree


def parse_response_tree(
    fetched: FetchResult,
    kind: ContentKind,
    build: TreeBuilder = _build_turbohtml_tree,
    *,
    keep_formatting: bool = False,
) -> turbohtml.Document:
    """The tree of a response: of its HTML, or of the HTML that it was converted to."""
    if fetched.converted:
        return parse_tree(fetched.converted, ContentKind.HTML, "text/html; charset=utf-8", build)
    return parse_tree(fetched.body, kind, fetched.header("content-type"), build, keep_formatting=keep_formatting)


def _leaves_formatting_open(body: bytes) -> bool:
    """Are many formatting elements open at the same time? Each of them would be reopened in every block."""
    opened: Counter[bytes] = Counter()
    total = 0
    for found in _FORMATTING.finditer(body):
        name = found[1].lower()
        if found[0][1:2] != b"/":
            opened[name] += 1
            total += 1
        elif opened[name]:
            opened[name] -= 1
            total -= 1
        if total > _MAX_OPEN_FORMATTING:
            return True
    return False


def parse_tree(
    body: bytes,
    kind: ContentKind,
    content_type: str,
    build: TreeBuilder = _build_turbohtml_tree,
    *,
    keep_formatting: bool = False,
) -> turbohtml.Document:
    """The tree of a page that is not plain text, with some repairs of its markup.

    `keep_formatting`: also very long pages keep their inline elements, unless very many of them are not closed.
    """
    if kind is ContentKind.MARKDOWN:
        # The converter is imported for the first such page only.
        from opilio.parse.markdown import markdown_to_html

        text, _ = decode_text(body, content_type)
        body, content_type = markdown_to_html(text).encode("utf-8", "replace"), "text/html; charset=utf-8"
    if kind is ContentKind.XHTML:
        body = _SELF_CLOSED.sub(rb"<\1\2></\1>", _strip_cdata(body))
    if b"shadowrootmode" in body:
        # Browsers show a declarative shadow root as content of its host; other templates are inert.
        body = _SHADOW_ROOT.sub(b"<div>", body)
    # The style sheet of Sphinx shows a colon between a term and its type.
    body = body.replace(_CLASSIFIER, b" : " + _CLASSIFIER)
    opened = body.rfind(b"<!--")
    if opened >= 0 and body.find(b"->", opened) < 0:
        # An unclosed comment would hide the rest of the page. Its author relied on old browsers, which ended it at
        # the next bracket.
        body = body[:opened] + b"<!" + body[opened + 4 :]
    many_tags = len(body) > _STRIP_FORMATTING_BYTES and body.count(b"<") > _STRIP_FORMATTING_TAGS
    if many_tags and not (keep_formatting and not _leaves_formatting_open(body)):
        body = _FORMATTING.sub(b"", body)
    if has_too_many_tags(body):
        body = _limit_tags(body)
    encoding = declared_encoding(content_type, body) or xml_encoding(body)
    return build(body, encoding)


def _read_document(
    document: turbohtml.Document, url: str, headers: Sequence[tuple[str, str]], options: _ReadOptions
) -> tuple[Page, PageHead]:
    document.remove(HIDDEN_ELEMENTS)
    head = read_head(document.iter_elements(HEAD_ELEMENTS))
    read_header_links(headers, head)
    base = (canonicalize_url(head.base, url) if head.base else None) or url
    root, body = document.root, _find_body(document)
    if root is None or body is None:
        return Page(url=url, title=head.title), head
    encoding = (document.encoding or "").lower()
    places, headings = find_links(body, head.title)
    if encoding != "utf-8":
        places = [(e, href if href.isascii() else encode_href(href, encoding), above) for e, href, above in places]
    kept, beyond = resolve_links(places, base, url, options.max_links)
    paths = tag_paths(kept, body) if options.with_paths else [""] * len(kept)
    fill_empty_anchors(kept)
    flow, boilerplate, lists = extract_flow(body, [element for element, _, _ in kept], options.with_lists)
    anchors = _find_anchors(flow)
    # Impossible by construction; wrong contexts would be worse than no page.
    if len(anchors) != len(kept):
        raise ParseError(f"html: {len(kept)} links but {len(anchors)} link marks")
    links = build_links(kept, paths, anchors)
    language = (root.attr("lang") or root.attr("xml:lang") or head.first_value("content-language")).strip()
    if head.alternates and options.languages:
        head.links += choose_alternates(head, language, base, url, options.languages)
    unplaced = build_head_links(head.links[:MAX_HEAD_LINKS], base, url, len(links))
    page = Page(
        url=url,
        title=head.title,
        description=head.first_value("description", "og:description"),
        keywords=head.first_value("keywords"),
        canonical=(canonicalize_url(head.canonical, base) if head.canonical else None) or "",
        language=language,
        headings=tuple(headings),
        flow=BLOCK_BREAK.join([flow, *(f"{LINK_START}{link.anchor}{LINK_END}" for link in unplaced)]),
        boilerplate=(*boilerplate, *(True for _ in unplaced)),
        lists=tuple(lists),
        links=(*links, *unplaced),
        encoding=encoding,
        published=head.published,
        links_dropped=beyond + len(head.links[MAX_HEAD_LINKS:]),
        feeds=tuple(filter(None, (canonicalize_url(href, base) for href in head.feeds[:MAX_FEEDS]))),
    )
    return page, head


def _find_licence(page: Page, head: PageHead, body: bytes) -> None:
    """The licence that a link in the text or JSON-LD states; few pages have one."""
    for link in page.links:
        if link.rel and "license" in link.rel.split():
            head.licence = link.url
            return
    # The whole type: a long needle is found in half the time of a short one, 9 µs for an ordinary page (measured).
    if JSON_LD_TYPE in body and (stated := json_ld_licence(body)):
        head.meta["license"] = stated


def _find_body(document: turbohtml.Document) -> turbohtml.Element | None:
    """The body or frameset."""
    return document.find(["body", "frameset"])
