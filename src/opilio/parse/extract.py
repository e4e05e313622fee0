"""The main content of a stored page, without banners and menus, as Markdown and as text, with its metadata.

Used when pages are exported, not in the crawl: the crawl needs the links of menus and flags boilerplate in `Page.flow`.
Rules, in this order: remove what is hidden or named as boilerplate, choose the element that is declared as main content
if it holds most of the text, then remove lists and rows of links around the text. A rule that would remove most of a
page is not applied. Compared with trafilatura and resiliparse in benchmarks/README.md.
"""

import re
from contextlib import suppress

import msgspec
from turbohtml import Document, Element

from opilio.core.display import strip_controls
from opilio.core.errors import ParseError
from opilio.core.records import FetchResult
from opilio.core.urls import canonicalize_url
from opilio.parse.documents.formats import convert_document
from opilio.parse.encoding import ContentKind, decode_text, detect_kind
from opilio.parse.head import PageHead, PageMetadata, read_head, read_metadata
from opilio.parse.html import HEAD_ELEMENTS, parse_response_tree
from opilio.parse.markdown import render_markdown
from opilio.parse.signals import PageSignals, read_signals
from opilio.parse.text_blocks import HIDDEN_ELEMENTS, hides_element

_HIDDEN = f"{HIDDEN_ELEMENTS},button,input,iframe,object,embed,audio,video,canvas,[hidden],[aria-hidden=true]"
_BOILERPLATE_ROLES = (
    "[role=navigation],[role=banner],[role=contentinfo],[role=dialog],[role=alertdialog],[role=search],[role=menu],"
    "[role=menubar],[role=toolbar],[role=tablist],[role=complementary],[role=status],[aria-modal=true]"
)
_BOILERPLATE_ELEMENTS = "nav,footer,header,aside,dialog,menu,form"
_CONTENT_ELEMENTS = "article,main,section,[role=main]"
# Words of class names and ids. They match whole words between hyphens, underscores and changes of case.
_BOILERPLATE_NAMES = re.compile(
    r"(?:^|[\s_-])(?:cookies?|consent|gdpr|ccpa|onetrust|cmp|breadcrumbs?|sidebar|side-?nav|navbar|nav|navigation"
    r"|navheader|navfooter|menu|footer|site-?header|masthead|topbar|toolbar|pagination|pager|paginator|share|sharing"
    r"|social|newsletter|subscribe|signup|related|recommended|recommendations|trending|promo|promoted|sponsored?"
    r"|adverts?|advertisement|ads?|adsbygoogle|banner|popup|modal|overlay|skip-?link|skip|skiplinks|print-?only"
    r"|editsection|mw-editsection|noprint|login|comment-?form|reply|outbrain|taboola|disclaimer-?bar|toc|jump|tagline)"
    r"(?:$|[\s_-])",
    re.IGNORECASE,
)
# Elements whose names say nothing of the kind: ids of sections are made of their headings.
_CONTENT_TAGS = frozenset(("body", "main", "article", "pre", "code", "h1", "h2", "h3", "h4", "h5", "h6", "dt"))
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_PERMALINKS = (
    "a.headerlink,a.anchor,a.anchorjs-link,a.header-anchor,a.heading-anchor,a.direct-link,a.permalink,a.hash-link"
)
_PERMALINK_TEXTS = frozenset({"¶", "#", "§", "🔗", "[edit]", "edit"})
# Elements that declare the main content, the most specific first.
_DECLARED = (
    "[itemprop=articleBody]",
    ".markdown-body,.entry-content,.post-content,.article-body,.article-content,.mw-parser-output",
    "article",
    "main,[role=main]",
    "#content,#main,#main-content,#mainContent,#bodyContent,#mw-content-text,.main-content",
)
_HEADINGS = ("h1", "h2")
# The share of the page's remaining text that an element must hold to be its main content.
_MAIN_SHARE = 0.6
# A rule removes an element only if more than this share of the text is left.
_LEFT_SHARE = 0.3
_COPYRIGHT = re.compile(r"©|\(c\)\s|copyright\b", re.IGNORECASE)
# Characters of a line at the end of a page.
_MAX_COPYRIGHT = 300
_LINK_LISTS = ("ul", "ol", "table", "div", "p", "td", "dl", "center")
_LINK_SHARE = 0.7
# Characters outside links that make a list content.
_LONG_TEXT = 25


def find_main_content(document: Document) -> Element | None:
    """The element with the main content, cleaned; None for a page without text. Modifies the tree."""
    body = document.find("body")
    if not isinstance(body, Element):
        return None
    document.remove(_HIDDEN)
    _remove_invisible(body)
    _remove_permalinks(body)
    _remove_boilerplate(body)
    _remove_copyright(body)
    main = _declared_content(body)
    _remove_link_lists(main)
    return main if main.text.strip() else None


def _size(element: Element) -> int:
    return len("".join(element.text.split()))


def _remove_invisible(body: Element) -> None:
    for element in body.select("[style]"):
        if hides_element(element.attr("style") or ""):
            element.decompose()


def _remove_permalinks(body: Element) -> None:
    for element in body.select(_PERMALINKS):
        if len(element.text.strip()) <= 2:
            element.decompose()
    for heading in body.select("h1,h2,h3,h4,h5,h6"):
        for link in heading.select("a"):
            if link.text.strip().lower() in _PERMALINK_TEXTS:
                link.decompose()
            elif (link.attr("href") or "").startswith("#"):
                # A link back to the table of contents.
                link.unwrap()


def _remove_boilerplate(body: Element) -> None:
    """Remove elements that are boilerplate by their tag, role or name, unless they hold most of the text."""
    total = _size(body)
    found = [*body.select(_BOILERPLATE_ELEMENTS), *body.select(_BOILERPLATE_ROLES)]
    found += [e for e in body.select("[class],[id]") if _has_boilerplate_name(e)]
    for element in found:
        if element.parent is None or _is_content(element) or _is_heading_text(element):
            continue
        size = _size(element)
        if total - size > _LEFT_SHARE * total or not size:
            total -= size
            element.decompose()


def _remove_copyright(body: Element) -> None:
    """Remove the copyright line at the end of the page."""
    for element in reversed(body.select("div,p,small,center,address,td")):
        if element.text.strip():
            if len(element.text) < min(_MAX_COPYRIGHT, len(body.text) // 2) and _COPYRIGHT.match(element.text.strip()):
                element.decompose()
            return


def _has_boilerplate_name(element: Element) -> bool:
    if element.tag in _CONTENT_TAGS:
        return False
    identifier = _CAMEL_CASE.sub("-", element.attr("id") or "")
    # Longer ids are made of headings: "how-to-load-related-objects".
    if identifier.count("-") + identifier.count("_") > 2:
        identifier = ""
    names = f"{_CAMEL_CASE.sub('-', element.attr('class') or '')} {identifier}"
    return _BOILERPLATE_NAMES.search(names) is not None


def _is_content(element: Element) -> bool:
    """A header of an article is its title; an aside inside one is a note; a form around the text is the page."""
    if element.tag in ("header", "aside") and not element.attr("role"):
        inside = element.closest(_CONTENT_ELEMENTS) is not None
        return inside and not _is_link_list(element) and not _has_boilerplate_name(element)
    if element.tag in ("form", "menu"):
        return _size(element) > 200 and not _is_link_list(element)
    return False


def _is_heading_text(element: Element) -> bool:
    """Does a heading have no other text? The names of classes may say "toc" where a heading links to one."""
    heading = element.closest("h1,h2,h3,h4,h5,h6")
    return heading is not None and _size(heading) <= _size(element) + 1


def _declared_content(body: Element) -> Element:
    """The element that is declared as main content and holds most of the text, else the body."""
    total = _size(body)
    for selector in _DECLARED:
        found = body.select(selector)
        if not found:
            continue
        largest = max(found, key=_size)
        if _size(largest) >= _MAIN_SHARE * total:
            return _with_heading(largest, body)
    return body


def _with_heading(main: Element, body: Element) -> Element:
    """The nearest ancestor that also has the first main heading, if it adds little else."""
    if main.find(_HEADINGS[0]) is not None:
        return main
    heading = body.find(_HEADINGS[0])
    if heading is None:
        return main
    for ancestor in main.ancestors:
        if not isinstance(ancestor, Element) or ancestor.tag == "html":
            break
        if ancestor.find(_HEADINGS[0]) is not None:
            return ancestor if _size(ancestor) <= 1.25 * _size(main) + 200 else main
    return main


def _is_link_list(element: Element) -> bool:
    size = _size(element)
    linked = sum(_size(link) for link in element.select("a[href]"))
    return linked > 0 and linked >= _LINK_SHARE * size and size - linked < max(_LONG_TEXT, size // 5)


def _remove_link_lists(main: Element) -> None:
    """Remove blocks that consist of links to other pages at the start and the end of the content.

    A page that is mostly links keeps them: they are its content. So do lists between paragraphs.
    """
    total = _size(main)
    blocks = [e for e in main.iter_elements(_LINK_LISTS) if len(e.select("a[href]")) >= 3 and _is_link_list(e)]
    dense = sum(_size(e) for e in blocks if not any(a in blocks for a in e.ancestors))
    if not blocks or dense > (1 - _LEFT_SHARE) * total:
        return
    for edge in (blocks, list(reversed(blocks))):
        for element in edge:
            if element.parent is not None and _at_edge(element, main, first=edge is blocks):
                element.decompose()


def _at_edge(element: Element, main: Element, *, first: bool) -> bool:
    """Is there no text but headings between the element and the start or the end of the content?"""
    node: Element = element
    while node is not main:
        siblings = node.previous_siblings if first else node.next_siblings
        for sibling in siblings:
            if isinstance(sibling, Element) and sibling.tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
                continue
            if sibling.text.strip(" \t\n|·•-–—/>»«") if hasattr(sibling, "text") else "":
                return False
        parent = node.parent
        if not isinstance(parent, Element):
            return False
        node = parent
    return True


class ExtractedPage(msgspec.Struct, frozen=True, kw_only=True):
    """The main content and the metadata of a page."""

    metadata: PageMetadata
    # Markdown with links, or the text laid out in the same way without links and escapes.
    content: str
    canonical: str = ""
    language: str = ""  # as declared by the page


def stored_signals(fetched: FetchResult) -> PageSignals:
    """The signals of a stored response; those of the headers only if it does not parse as HTML."""
    content_type = fetched.header("content-type")
    head = PageHead()
    with suppress(ParseError):
        kind = detect_kind(content_type, fetched.body)
        if kind not in (ContentKind.PLAIN, ContentKind.DOCUMENT):
            head = read_head(parse_response_tree(fetched, kind).iter_elements(HEAD_ELEMENTS))
    return read_signals(fetched, head)


def extract_content(fetched: FetchResult, *, markdown: bool = True) -> ExtractedPage:
    """Parse the page again and extract its main content; raises ParseError if there is no page."""
    content_type = fetched.header("content-type")
    kind = detect_kind(content_type, fetched.body)
    fetched = convert_document(fetched)
    if kind is ContentKind.PLAIN:
        text, _ = decode_text(fetched.body, content_type)
        content = strip_controls(text.replace("\r\n", "\n").replace("\r", "\n")).strip()
        return ExtractedPage(metadata=PageMetadata(), content=content)
    url = canonicalize_url(fetched.url)
    if url is None:
        raise ParseError(f"url: {fetched.url[:200]!r} is not an http or https URL")
    document = parse_response_tree(fetched, kind, keep_formatting=True)
    head = read_head(document.iter_elements(HEAD_ELEMENTS))
    metadata = read_metadata(document, head)
    base = (canonicalize_url(head.base, url) if head.base else None) or url
    root = document.root
    language = (root.attr("lang") or root.attr("xml:lang") or "") if root is not None else ""
    # A document has no menus or banners.
    main = document.find("body") if kind is ContentKind.DOCUMENT else find_main_content(document)
    return ExtractedPage(
        metadata=metadata,
        content=strip_controls(render_markdown(main, base, links=markdown)) if main is not None else "",
        canonical=(canonicalize_url(head.canonical, base) if head.canonical else None) or "",
        language=language.strip(),
    )
