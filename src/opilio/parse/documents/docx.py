"""DOCX (Office Open XML): paragraphs, headings, lists, tables, links and properties, read from the XML itself.

python-docx reads the same text in half of the time, but it needs lxml and reads nothing of a damaged file
(table in benchmarks/README.md).
"""

from html import escape
from typing import NamedTuple

from opilio.core.errors import ParseError
from opilio.parse.documents.formats import DocumentArchive, DocumentFormat, HtmlDocument, Tag, html_page, read_xml

_MAX_CHARACTERS = 4_000_000
_TABLE_TAGS = {"tbl": "table", "tr": "tr", "tc": "td"}
# Deleted text, field codes, and the fallback copies of drawings.
_SKIPPED = frozenset({"delText", "instrText", "Fallback", "pict"})
_MAX_LIST_LEVELS = 9  # of Word itself
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


class _Styles(NamedTuple):
    """Paragraph styles by their ids: the ranks of headings, and the styles of list items."""

    headings: dict[str, int]
    lists: set[str]


class _DocumentBody:
    """Writes HTML while the elements of `word/document.xml` are reported."""

    def __init__(self, targets: dict[str, str], styles: _Styles) -> None:
        self.parts: list[str] = []
        self._targets = targets
        self._styles = styles
        self._paragraph: list[str] = []
        self._tag = "p"
        # Of this paragraph, if it is an item.
        self._list_level = 0
        self._open_lists = 0
        self._in_text = False
        self._skipping = 0
        self._size = 0

    def start(self, tag: Tag) -> None:
        name, attributes = tag
        if name in _SKIPPED or self._skipping:
            self._skipping += 1
        elif name == "p":
            self._end_paragraph()
        elif name in _TABLE_TAGS:
            self._end_paragraph()
            self._set_lists(0)
            self.parts.append(f"<{_TABLE_TAGS[name]}>")
        elif name == "pStyle":
            style = attributes.get("val", "")
            level = self._styles.headings.get(style, 0)
            self._tag = f"h{min(level, 6)}" if level else "li" if style in self._styles.lists else self._tag
        elif name == "numPr" and self._tag == "p":
            self._tag = "li"
        elif name == "ilvl" and (level_stated := attributes.get("val", "")).isdecimal():
            # `int` refuses very long numbers.
            self._list_level = min(int(level_stated[:9]), _MAX_LIST_LEVELS - 1)
        elif name == "hyperlink":
            self._paragraph.append(f'<a href="{self._target(attributes.get("id", ""))}">')
        elif name == "t":
            self._in_text = True
        elif name in _BREAKS:
            self._paragraph.append(_BREAKS[name])

    def end(self, name: str) -> None:
        if self._skipping:
            self._skipping -= 1
        elif name == "t":
            self._in_text = False
        elif name == "p":
            self._end_paragraph()
        elif name == "hyperlink":
            self._paragraph.append("</a>")
        elif name in _TABLE_TAGS:
            self._end_paragraph()
            self._set_lists(0)
            self.parts.append(f"</{_TABLE_TAGS[name]}>")

    def text(self, value: str) -> bool:
        if self._in_text and not self._skipping:
            self._paragraph.append(escape(value))
            self._size += len(value)
        return self._size <= _MAX_CHARACTERS

    def _target(self, link: str) -> str:
        """The URL of a link, escaped; it counts as text, since very many links can have the same long URL."""
        target = escape(self._targets.get(link, "")) if self._size <= _MAX_CHARACTERS else ""
        self._size += len(target)
        return target

    def _end_paragraph(self) -> None:
        content = "".join(self._paragraph).strip()
        if content and self._tag == "li":
            self._set_lists(self._list_level + 1)
            # An item stays open for a list inside it; HTML ends it at the next one.
            self.parts.append(f"<li>{content}")
        elif content:
            self._set_lists(0)
            self.parts.append(f"<{self._tag}>{content}</{self._tag}>")
        self._paragraph, self._tag, self._list_level = [], "p", 0

    def _set_lists(self, number: int) -> None:
        """Open or close lists until this number is open."""
        change = number - self._open_lists
        self.parts.append("<ul>" * change if change > 0 else "</ul>" * -change)
        self._open_lists = number


def docx_to_html(body: bytes) -> HtmlDocument:
    """The document as HTML; its title is that of its properties."""
    archive = DocumentArchive(body, "DOCX")
    writer = _DocumentBody(_link_targets(archive), _paragraph_styles(archive))
    complete = read_xml(archive.read("word/document.xml"), writer.start, writer.end, writer.text)
    if not any(writer.parts):
        raise ParseError("document: the DOCX file has no text")
    about = _properties(archive)
    html = html_page(
        "".join(writer.parts),
        title=about.get("title", ""),
        author=about.get("creator", ""),
        description=about.get("description", "") or about.get("subject", ""),
        keywords=about.get("keywords", ""),
        date=about.get("created", "")[:10],
        language=about.get("language", ""),
    )
    return HtmlDocument(html=html, truncated=not complete or archive.is_exhausted or archive.is_cut)


def _link_targets(archive: DocumentArchive) -> dict[str, str]:
    targets: dict[str, str] = {}

    def start(tag: Tag) -> None:
        if tag.name == "Relationship" and tag.attributes.get("TargetMode") == "External":
            targets[tag.attributes.get("Id", "")] = tag.attributes.get("Target", "")

    read_xml(archive.read("word/_rels/document.xml.rels"), start, _ignore_end, _ignore_text)
    return targets


def _paragraph_styles(archive: DocumentArchive) -> _Styles:
    """The rank of each style that is a heading, by its outline level, and the styles of list items."""
    found = _Styles({}, set())
    style = ""

    def start(tag: Tag) -> None:
        nonlocal style
        value = tag.attributes.get("val", "")
        if tag.name == "style":
            style = tag.attributes.get("styleId", "")
        elif tag.name == "outlineLvl" and value.isdecimal() and len(value) == 1 and int(value) < 9:
            found.headings[style] = int(value) + 1
        elif tag.name == "name" and style and value.lower() == "title":
            found.headings[style] = 1
        elif tag.name == "numPr" and style:
            found.lists.add(style)

    read_xml(archive.read("word/styles.xml"), start, _ignore_end, _ignore_text)
    return found


def _properties(archive: DocumentArchive) -> dict[str, str]:
    """The values of `docProps/core.xml` by their names."""
    values: dict[str, str] = {}
    current = ""

    def start(tag: Tag) -> None:
        nonlocal current
        current = tag.name

    def text(value: str) -> bool:
        values[current] = (values.get(current, "") + value)[:1000]
        return True

    read_xml(archive.read("docProps/core.xml"), start, _ignore_end, text)
    return {name: value.strip() for name, value in values.items()}


def _ignore_end(_name: str) -> None:
    pass


def _ignore_text(_text: str) -> bool:
    return True


def _is_docx(body: bytes) -> bool:
    return body.startswith(b"PK\x03\x04") and b"word/document.xml" in body


FORMAT = DocumentFormat(
    name="DOCX",
    types=("application/vnd.openxmlformats-officedocument.wordprocessingml.document",),
    extensions=("docx",),
    to_html=docx_to_html,
    recognizes=_is_docx,
)
