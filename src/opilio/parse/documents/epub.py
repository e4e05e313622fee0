"""EPUB: a zip of XHTML chapters in the order of its spine, joined into one page."""

import posixpath
import re
from urllib.parse import unquote

from opilio.core.errors import ParseError
from opilio.parse.documents.formats import DocumentArchive, DocumentFormat, HtmlDocument, Tag, html_page, read_xml
from opilio.parse.encoding import ContentKind
from opilio.parse.html import parse_tree

_CONTAINER = "META-INF/container.xml"
_MAX_CHAPTERS = 500
_MAX_CHARACTERS = 6_000_000
_LINK = re.compile(r"https?://", re.IGNORECASE).match
_METADATA = frozenset({"title", "creator", "language", "description", "date", "rights", "subject"})


class _Package:
    """What the package file (OPF) says: metadata, and the chapters in order."""

    def __init__(self) -> None:
        self.metadata: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._spine: list[str] = []
        self._current = ""

    def start(self, tag: Tag) -> None:
        name, attributes = tag
        self._current = name if name in _METADATA and name not in self.metadata else ""
        # The table of contents repeats the headings.
        if name == "item" and "nav" not in attributes.get("properties", "").split():
            self._files[attributes.get("id", "")] = attributes.get("href", "")
        elif name == "itemref":
            self._spine.append(attributes.get("idref", ""))

    def end(self, _name: str) -> None:
        self._current = ""

    def text(self, value: str) -> bool:
        if self._current:
            self.metadata[self._current] = (self.metadata.get(self._current, "") + value).strip()[:1000]
        return True

    def chapters(self, folder: str) -> list[str]:
        hrefs = [self._files.get(name, "") for name in self._spine]
        return [posixpath.normpath(posixpath.join(folder, unquote(href))) for href in hrefs if href]


def epub_to_html(body: bytes) -> HtmlDocument:
    """The chapters as one page. Links between chapters are dropped: they lead nowhere outside the book."""
    archive = DocumentArchive(body, "EPUB")
    path = _package_path(archive)
    package = _Package()
    read_xml(archive.read(path), package.start, package.end, package.text)
    chapters = package.chapters(posixpath.dirname(path))
    parts: list[str] = []
    size = 0
    for chapter in chapters[:_MAX_CHAPTERS]:
        if size > _MAX_CHARACTERS or archive.is_exhausted:
            break
        parts.append(_chapter_html(archive.read(chapter)))
        size += len(parts[-1])
    if not any(parts):
        raise ParseError("document: the EPUB file has no readable chapters")
    about = package.metadata
    html = html_page(
        "".join(parts),
        title=about.get("title", ""),
        language=about.get("language", ""),
        author=about.get("creator", ""),
        description=about.get("description", ""),
        keywords=about.get("subject", ""),
        date=about.get("date", "")[:10],
    )
    truncated = len(parts) < len(chapters) or archive.is_exhausted or archive.is_cut or not all(parts)
    return HtmlDocument(html=html, truncated=truncated)


def _package_path(archive: DocumentArchive) -> str:
    paths: list[str] = []

    def start(tag: Tag) -> None:
        if tag.name == "rootfile":
            paths.append(tag.attributes.get("full-path", ""))

    read_xml(archive.read(_CONTAINER), start, lambda _name: None, lambda _text: True)
    if not paths:
        raise ParseError(f"document: the EPUB file has no {_CONTAINER}")
    return paths[0]


def _chapter_html(xhtml: bytes) -> str:
    """The content of a chapter's body."""
    body = parse_tree(xhtml, ContentKind.XHTML, "").find("body")
    if body is None:
        return ""
    for link in body.select("a[href]"):
        if not _LINK(link.attr("href") or ""):
            del link.attrs["href"]
    return f"<section>{body.inner_html}</section>"


def _is_epub(body: bytes) -> bool:
    # The first member is the file `mimetype`, stored without compression.
    return body.startswith(b"PK\x03\x04") and b"mimetypeapplication/epub+zip" in body[:100]


FORMAT = DocumentFormat(
    name="EPUB",
    types=("application/epub+zip",),
    extensions=("epub",),
    to_html=epub_to_html,
    recognizes=_is_epub,
)
