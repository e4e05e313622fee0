"""The main content of a stored page as Markdown and as text, with its metadata. Used by exports, not in the crawl."""

from contextlib import suppress

import msgspec

from opilio.core.errors import ParseError
from opilio.core.records import FetchResult
from opilio.core.urls import canonicalize_url
from opilio.parse.documents.formats import convert_document
from opilio.parse.encoding import ContentKind, decode_text, detect_kind
from opilio.parse.head import PageHead, read_head
from opilio.parse.html import HEAD_ELEMENTS, parse_response_tree
from opilio.parse.main_content import find_main_content
from opilio.parse.markdown import render_markdown
from opilio.parse.metadata import PageMetadata, read_metadata
from opilio.parse.signals import PageSignals, read_signals


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
        content = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "").strip()
        return ExtractedPage(metadata=PageMetadata(), content=content)
    url = canonicalize_url(fetched.url)
    if url is None:
        raise ParseError(f"url: {fetched.url[:200]!r} is not an http or https URL")
    document = parse_response_tree(fetched, kind)
    head = read_head(document.iter_elements(HEAD_ELEMENTS))
    metadata = read_metadata(document, head)
    base = (canonicalize_url(head.base, url) if head.base else None) or url
    root = document.root
    language = (root.attr("lang") or root.attr("xml:lang") or "") if root is not None else ""
    # A document has no menus or banners.
    main = document.find("body") if kind is ContentKind.DOCUMENT else find_main_content(document)
    return ExtractedPage(
        metadata=metadata,
        content=render_markdown(main, base, links=markdown) if main is not None else "",
        canonical=(canonicalize_url(head.canonical, base) if head.canonical else None) or "",
        language=language.strip(),
    )
