"""PDF with PDFium: text in paragraphs, links, the outline as headings, title, author and date.

PDFium takes a sixth of the time of pypdf and a ninth of that of pdfminer.six, with nearly the same text (table in
benchmarks/README.md). A scanned PDF has no text: Opilio does no character recognition.
"""

import ctypes
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from opilio.core.errors import ParseError
from opilio.parse.documents.formats import DocumentFormat, HtmlDocument, html_page

if TYPE_CHECKING:
    import pypdfium2 as pdfium

MAX_PAGES = 1_000
_MAX_CHARACTERS = 4_000_000
_MAX_LINKS_PER_PAGE = 500
_MAX_OUTLINE = 2_000
_MAX_URL = 2_000
# A line that is this much shorter than the longest ones ends a paragraph, if a sentence ends there.
_SHORT_LINE = 0.85
_SENTENCE_END = (".", "!", "?", ":", ".”", '."', ".)")
_LIST_ITEM = re.compile(r"(?:[•◦▪‣–*·]|\(?\d{1,2}[.)]|\[\d{1,3}\])\s")
_DIGITS = re.compile(r"\d+")
# Running heads are found in documents of more pages: on so few pages, equal lines may be text.
_MIN_PAGES_WITH_HEADS = 4
_MIN_LINES_WITH_HEADS = 6
_SOFT_HYPHENS = ("\x02", "\ufffe", "\xad")
_WITHOUT_HYPHENS = str.maketrans("", "", "".join(_SOFT_HYPHENS))
# The dots between a heading and its page number in a table of contents.
_LEADERS = re.compile(r"(?:\s?\.){4,}")
_FILE_NAME = re.compile(r"\.(?:docx?|indd|tex|dvi|qxd|pdf|odt)$", re.IGNORECASE)
_PDF_DATE = re.compile(r"D:(\d{4})(\d{2})(\d{2})")


class PageLink(NamedTuple):
    """A link of a page and the text under it."""

    url: str
    anchor: str


class _PdfPage(NamedTuple):
    lines: list[str]
    links: list[PageLink]


def pdf_to_html(body: bytes) -> HtmlDocument:
    """The document as HTML, one block per paragraph."""
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(body)
    except pdfium.PdfiumError as error:
        raise ParseError(f"document: the PDF file is encrypted or damaged ({error})") from error
    try:
        return _convert(document, pdfium.PdfiumError)
    finally:
        document.close()


def _convert(document: "pdfium.PdfDocument", page_error: type[Exception]) -> HtmlDocument:
    pages: list[_PdfPage] = []
    size, damaged = 0, False
    for number in range(min(len(document), MAX_PAGES)):
        try:
            pages.append(_read_page(document, number))
        except page_error:
            damaged = True
            pages.append(_PdfPage([], []))
        size += sum(map(len, pages[-1].lines))
        if size > _MAX_CHARACTERS:
            break
    if not size:
        raise ParseError("document: the PDF file has no text; it may consist of scanned pages")
    heads = _running_heads(pages)
    outline = _outline(document)
    # The title on the first page is often the running head of the others.
    html = "".join(_page_html(page, heads if n else set(), outline.get(n, ())) for n, page in enumerate(pages))
    about = document.get_metadata_dict()
    date = _PDF_DATE.match(about.get("CreationDate", ""))
    page = html_page(
        html,
        title=_title(about.get("Title", ""), pages),
        author=about.get("Author", ""),
        description=about.get("Subject", ""),
        keywords=about.get("Keywords", ""),
        date="-".join(date.groups()) if date else "",
    )
    return HtmlDocument(html=page, truncated=damaged or len(pages) < len(document))


def _read_page(document: "pdfium.PdfDocument", number: int) -> _PdfPage:
    page = document[number]
    try:
        text_page = page.get_textpage()
        text = text_page.get_text_bounded()
        links = _annotations(document, page, text_page)
        text_page.close()
    finally:
        page.close()
    return _PdfPage([line.strip() for line in text.splitlines() if line.strip()], links)


def _annotations(document: "pdfium.PdfDocument", page: Any, text_page: Any) -> list[PageLink]:  # noqa: ANN401 - untyped
    """The links of a page to URLs, with the text under each."""
    from pypdfium2 import raw

    found: dict[str, list[str]] = defaultdict(list)
    position, link, area = ctypes.c_int(0), raw.FPDF_LINK(), raw.FS_RECTF()
    count = 0
    while count < _MAX_LINKS_PER_PAGE and raw.FPDFLink_Enumerate(page.raw, position, link):
        count += 1
        action = raw.FPDFLink_GetAction(link)
        length = raw.FPDFAction_GetURIPath(document.raw, action, None, 0) if action else 0
        if not 1 < length <= _MAX_URL:
            continue
        buffer = ctypes.create_string_buffer(length)
        raw.FPDFAction_GetURIPath(document.raw, action, buffer, length)
        raw.FPDFLink_GetAnnotRect(link, area)
        anchor = text_page.get_text_bounded(area.left, area.bottom, area.right, area.top)
        # A link over two lines has two areas.
        found[buffer.value.decode("utf-8", "replace")].append(" ".join(anchor.split()))
    return [PageLink(url, " ".join(filter(None, anchors))[:300]) for url, anchors in found.items()]


def _outline(document: "pdfium.PdfDocument") -> dict[int, list[tuple[int, str]]]:
    """The entries of the outline by page: rank of the heading (2 to 6) and title."""
    entries: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for count, entry in enumerate(document.get_toc(max_depth=6)):
        target = entry.get_dest()
        index = target.get_index() if target is not None else None
        if index is not None and (title := " ".join(entry.get_title().split())):
            entries[index].append((min(entry.level + 2, 6), title))
        if count >= _MAX_OUTLINE:
            break
    return entries


def _running_heads(pages: Sequence[_PdfPage]) -> set[str]:
    """First and last lines that most pages have, but for their numbers: headers and footers."""
    if len(pages) < _MIN_PAGES_WITH_HEADS:
        return set()
    full = [page.lines for page in pages if len(page.lines) >= _MIN_LINES_WITH_HEADS]
    counts = Counter(_without_numbers(line) for lines in full for line in {*lines[:2], *lines[-2:]} if len(line) < 150)
    return {line for line, count in counts.items() if count >= 0.4 * len(pages)}


def _without_numbers(line: str) -> str:
    return _DIGITS.sub("#", line)


def _page_html(page: _PdfPage, heads: set[str], outline: Sequence[tuple[int, str]]) -> str:
    edges = {0, 1, len(page.lines) - 1, len(page.lines) - 2}
    lines = [line for at, line in enumerate(page.lines) if at not in edges or _without_numbers(line) not in heads]
    ranks = {_comparable(title): rank for rank, title in outline}
    shown = {_comparable(line) for line in lines}
    blocks = [f"<h{rank}>{escape(title)}</h{rank}>" for rank, title in outline if _comparable(title) not in shown]
    links = LinkPlacement(page.links)
    for paragraph in _paragraphs(lines, ranks):
        rank = ranks.get(_comparable(paragraph))
        tag = f"h{rank}" if rank else "p"
        blocks.append(f"<{tag}>{links.place(escape(paragraph))}</{tag}>")
    return "".join([*blocks, *links.unplaced()])


class LinkPlacement:
    """Puts each link of a page around its anchor, where the text has it first: in time linear in the text."""

    def __init__(self, links: Sequence[PageLink]) -> None:
        self._left = {escape(link.anchor) or link.url: link.url for link in links}
        self._anchors = sorted(anchor for anchor in self._left if len(anchor) > 1)
        self._longest = max(map(len, self._anchors), default=0)
        self._first = {anchor[0] for anchor in self._anchors}
        # By anchor: the longest other one that it begins with.
        self._within: dict[str, str] = {}
        open_anchors: list[str] = []
        for anchor in self._anchors:
            while open_anchors and not anchor.startswith(open_anchors[-1]):
                open_anchors.pop()
            self._within[anchor] = open_anchors[-1] if open_anchors else ""
            open_anchors.append(anchor)

    def place(self, text: str) -> str:
        parts: list[str] = []
        done = at = 0
        while self._left and at < len(text):
            anchor = self._anchor_at(text, at) if text[at] in self._first else ""
            if url := self._left.pop(anchor, ""):
                parts += (text[done:at], f'<a href="{escape(url)}">{anchor}</a>')
                done = at + len(anchor)
            at += len(anchor) or 1
        return "".join((*parts, text[done:]))

    def _anchor_at(self, text: str, at: int) -> str:
        """The longest anchor at a place of the text; empty if there is no anchor."""
        rest = text[at : at + self._longest]
        place = bisect_right(self._anchors, rest)
        anchor = self._anchors[place - 1] if place else ""
        while not rest.startswith(anchor):
            anchor = self._within[anchor]
        return anchor

    def unplaced(self) -> list[str]:
        """The other links, as paragraphs of their own."""
        return [f'<p><a href="{escape(url)}">{anchor}</a></p>' for anchor, url in self._left.items()]


def _comparable(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lower()


def _paragraphs(lines: Sequence[str], ranks: dict[str, int]) -> list[str]:
    """Join lines to paragraphs: words divided at the end of a line are joined too."""
    width = sorted(map(len, lines))[int(0.9 * (len(lines) - 1))] if lines else 0
    paragraphs: list[str] = []
    ended = True
    for line in lines:
        heading = _comparable(line) in ranks
        if ended or heading or _LIST_ITEM.match(line):
            paragraphs.append(line)
        elif paragraphs[-1].endswith(_SOFT_HYPHENS):
            paragraphs[-1] = paragraphs[-1][:-1] + line
        else:
            paragraphs[-1] += f" {line}"
        ended = heading or (len(line) < _SHORT_LINE * width and line.endswith(_SENTENCE_END)) or len(line) < width / 2
    return [_LEADERS.sub(" ", paragraph.translate(_WITHOUT_HYPHENS)) for paragraph in paragraphs]


def _title(stated: str, pages: Sequence[_PdfPage]) -> str:
    """The title of the metadata, unless it is a file name; else the first line of the text."""
    if stated.strip() and not _FILE_NAME.search(stated.strip()):
        return " ".join(stated.split())[:300]
    return next((line[:300] for page in pages for line in page.lines if len(line) > 3), "")


def _is_pdf(body: bytes) -> bool:
    return body.startswith(b"%PDF-")


FORMAT = DocumentFormat(
    name="PDF",
    types=("application/pdf", "application/x-pdf"),
    extensions=("pdf",),
    to_html=pdf_to_html,
    recognizes=_is_pdf,
    module="pypdfium2",
    extra="opilio[documents]",
)
