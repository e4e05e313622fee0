"""XML documents such as DocBook, TEI, JATS and DITA, by the usual names of their elements.

Elements of unknown names become blocks. Data in XML has hardly any text of its own and is not a page; sitemaps and
feeds are read elsewhere.
"""

from collections.abc import Mapping
from html import escape

from opilio.core.errors import ParseError
from opilio.core.records import CONTENT_TYPE_FAILURE
from opilio.parse.documents.formats import DocumentFormat, HtmlDocument, Tag, html_page, read_xml

_MAX_CHARACTERS = 4_000_000
_MIN_WORDS = 20
_TITLES = frozenset({"title", "head", "article-title", "bridgehead"})
_SECTIONS = frozenset(
    """article book chapter part preface appendix section sect1 sect2 sect3 sect4 sect5 sec div div1 div2 div3 refsect1
    refsect2 topic body glossary bibliography""".split()
)
_LINK_ATTRIBUTES = ("href", "url", "target")
_LINKS = frozenset({"a", "link", "ulink", "ref", "ext-link", "xref", "uri"})
_TAGS = {
    **dict.fromkeys(("para", "simpara", "p", "ab", "l"), "p"),
    **dict.fromkeys(("listitem", "item", "li"), "li"),
    **dict.fromkeys(("itemizedlist", "orderedlist", "list", "simplelist"), "ul"),
    **dict.fromkeys(("programlisting", "screen", "literallayout", "synopsis", "eg", "code-block", "codeblock"), "pre"),
    **dict.fromkeys(("table", "informaltable"), "table"),
    **dict.fromkeys(("row", "tr"), "tr"),
    **dict.fromkeys(("entry", "cell", "td"), "td"),
    "th": "th",
    **dict.fromkeys(("literal", "code", "command", "filename", "function", "option", "varname", "userinput"), "code"),
    **dict.fromkeys(("emphasis", "hi", "em", "i", "b", "bold", "italic"), "em"),
    **dict.fromkeys(
        """abbrev acronym application classname date email envar firstname foreign forename givenname guilabel keycap
        name orgname persName personname phrase placeName productname quote replaceable sub subscript sup superscript
        surname systemitem tag term type""".split(),
        "span",
    ),
    # They describe a table, or list sources of the file itself.
    **dict.fromkeys(("colspec", "teiHeader", "xi:include", "style", "script"), ""),
}
# Roots of files that list or configure something; `html` is a page of its own.
_DATA_ROOTS = frozenset(
    """urlset sitemapindex rss RDF feed opml svg plist stylesheet transform schema definitions project kml gpx
    OpenSearchDescription crossdomain-policy cross-domain-policy browserconfig Error html""".split()
)


class _XmlPage:
    """Writes HTML while the elements of a document are reported."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.title = ""
        self.language = ""
        self.words = 0
        self.is_data = False
        # The closing tag of every open element.
        self._open: list[str] = []
        self._sections = 0
        self._skipped = 0
        self._in_title = False
        self._size = 0

    def start(self, tag: Tag) -> None:
        name, attributes = tag
        if not self._open:
            self.is_data = name in _DATA_ROOTS
            self.language = attributes.get("lang", "")
        begin, end = self._tags(name, attributes)
        if not begin:
            self._skipped += 1
        self._sections += name in _SECTIONS
        self._open.append(end)
        self.parts.append(begin)

    def _tags(self, name: str, attributes: Mapping[str, str]) -> tuple[str, str]:
        """The opening and the closing tag; empty for an element that is left out."""
        if name in _TITLES:
            self._in_title = not self.title
            rank = min(max(self._sections, 1), 6)
            return f"<h{rank}>", f"</h{rank}>"
        if name in _LINKS:
            target = next((attributes[key] for key in _LINK_ATTRIBUTES if attributes.get(key)), "")
            return f'<a href="{escape(target)}">', "</a>"
        mapped = _TAGS.get(name, "div")
        return (f"<{mapped}>", f"</{mapped}>") if mapped else ("", "")

    def end(self, name: str) -> None:
        closing = self._open.pop()
        if not closing:
            self._skipped -= 1
        self._sections -= name in _SECTIONS
        if name in _TITLES:
            self._in_title = False
        self.parts.append(closing)

    def text(self, value: str) -> bool:
        if not self._skipped and not self.is_data:
            self.parts.append(escape(value))
            self.words += len(value.split())
            self._size += len(value)
            if self._in_title:
                self.title = f"{self.title} {' '.join(value.split())}".strip()[:500]
                self._in_title = len(self.title) < 500
        return self._size <= _MAX_CHARACTERS and not self.is_data


def xml_to_html(body: bytes) -> HtmlDocument:
    """The document as HTML; its title is its first title element."""
    page = _XmlPage()
    complete = read_xml(body, page.start, page.end, page.text)
    if page.is_data or page.words < _MIN_WORDS:
        raise ParseError(f"{CONTENT_TYPE_FAILURE}: XML data, not a document")
    return HtmlDocument(
        html=html_page("".join(page.parts), title=page.title, language=page.language), truncated=not complete
    )


def _never(_body: bytes) -> bool:
    return False


FORMAT = DocumentFormat(
    name="XML",
    types=(
        *("application/xml", "text/xml", "application/docbook+xml", "application/tei+xml", "application/jats+xml"),
        *("application/dita+xml",),
    ),
    extensions=("xml",),
    to_html=xml_to_html,
    recognizes=_never,
)
