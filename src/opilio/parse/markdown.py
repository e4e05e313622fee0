"""Markdown in both directions: a page as Markdown, and Markdown that a server sent as HTML.

A page is written with the headings, lists, tables and code blocks of its main content. Markdown from a server becomes
HTML, so that its links, headings and text are read as on other pages.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from html import escape
from urllib.parse import urljoin

from markdown_it import MarkdownIt
from turbohtml import Element, Markdown, Text

_MAX_SPAN = 50
# Of a table whose merged cells are split, or whose rows are padded.
_MAX_CELLS = 20_000
# Cells of one table after that: a few merged ones can cover very many.
_MAX_PLACES = 100_000
_LAYOUT_CONTENT = "h1,h2,h3,table,form,section,article"
_LINE_NUMBERS = "td.linenos,td.gutter,td.lineno,td.listing_lines,td.blob-num,td.line-numbers"
_LONG_CELL = 600  # characters in paragraphs


def flatten_tables(main: Element) -> None:
    """Turn layout tables into blocks, and give all rows of the others as many cells: the renderer writes a table with
    merged cells, or with rows of different lengths, as HTML."""
    for cell in main.select(_LINE_NUMBERS):
        cell.decompose()
    for table in main.select("table"):
        cells = table.select("td,th")
        merged = table.select_one("[colspan],[rowspan]") is not None
        if _is_layout(table, cells) or (merged and len(cells) > _MAX_CELLS):
            _turn_into_blocks(table)
            continue
        rows = [row for row in table.select("tr") if row.closest("table") == table]
        if merged:
            _split_merged_cells(rows)
        if not _pad_rows(rows):
            _turn_into_blocks(table)


def _turn_into_blocks(table: Element) -> None:
    for part in [table, *table.select("tbody,thead,tfoot,tr,td,th")]:
        if part is table or part.closest("table") in (table, None):
            part.tag = "div"


def _is_layout(table: Element, cells: list[Element]) -> bool:
    if (table.attr("role") or "").lower() in ("presentation", "none") or len(cells) < 2:
        return True
    # A note of AsciiDoc: its icon and its text.
    if table.closest(".admonitionblock") is not None:
        return True
    if table.select_one("th") is not None or table.select_one("caption") is not None:
        return False
    return any(
        cell.select_one(_LAYOUT_CONTENT) is not None
        or any("\n" in block.text.strip() for block in cell.select("pre"))
        or (len(cell.text) > _LONG_CELL and len(cell.select("p,ul,ol,pre,blockquote")) > 1)
        for cell in cells
    )


def _cells(row: Element) -> list[Element]:
    return [child for child in row.children if isinstance(child, Element) and child.tag in ("td", "th")]


def _pad_rows(rows: Sequence[Element]) -> bool:
    """Add empty cells at the ends of short rows; False if they would be too many."""
    lengths = [len(_cells(row)) for row in rows]
    longest = max(lengths, default=0)
    if min(lengths, default=0) == longest:
        return True
    if longest * len(rows) > _MAX_CELLS:
        return False
    for row, length in zip(rows, lengths, strict=True):
        for _ in range(longest - length if length else 0):
            row.append(Element("td"))
    return True


def _split_merged_cells(rows: Sequence[Element]) -> None:
    """Rows get an empty cell for every column that a cell of this row or of a row above covers."""
    # Column -> how many further rows it is covered.
    covered: dict[int, int] = {}
    places = 0
    for row in rows:
        column = 0
        for cell in _cells(row):
            before, column = column, _fill_covered(cell, column, covered)
            width, height = _take_span(cell, "colspan"), _take_span(cell, "rowspan")
            places += column - before + width
            if places > _MAX_PLACES:
                return
            for extra in range(width):
                if extra:
                    cell.insert_after(Element("td"))
                if height > 1:
                    covered[column + extra] = height - 1
            column += width


def _fill_covered(cell: Element, column: int, covered: dict[int, int]) -> int:
    """Insert an empty cell for each covered column before this cell; returns the cell's column."""
    while covered.get(column, 0) > 0:
        covered[column] -= 1
        cell.insert_before(Element("td"))
        column += 1
    return column


def _take_span(cell: Element, name: str) -> int:
    value = (cell.attr(name) or "1").strip()
    if name in cell.attrs:
        del cell.attrs[name]
    if not (value.isascii() and value.isdigit()):
        return 1
    # `int` refuses very long numbers.
    return min(_MAX_SPAN, max(1, int(value))) if len(value) < 9 else _MAX_SPAN


CODE_FENCE = re.compile("`{3,}")
# The renderer writes emphasis as HTML where Markdown can't express it; the text matters more.
_EMPHASIS_TAG = re.compile(r"`[^`]*`|</?(?:em|strong)>")
# The renderer writes some hard and thin spaces as entities. At the start of a line they are indentation, not code.
_SPACE_ENTITY = re.compile(r"`[^`]*`|(?<!\\)&#(?:160|819[2-9]|820[0-2]|8239|8287|12288);")
_TYPOGRAPHIC_SPACES = dict.fromkeys((*range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), "\xa0")
_INDENTATION = re.compile(r"^([ >]*)\xa0[\xa0 ]*")
_LINE_BREAK = "\x1e"
_SPACES = re.compile(r"[ \t\r\n]+")
_BLANK_LINES = re.compile(r"\n{3,}")
_RULE = "---"
# Terms of definition lists, and titles of notes: Sphinx, AsciiDoc, DocBook.
_TERMS = (
    "dt,.admonition-title,.admonitionblock td.icon .title,.note>.title,.tip>.title,.warning>.title,.caution>.title,"
    ".important>.title"
)
_BLOCKS = "p,div,ul,ol,dl,table,pre,blockquote,h1,h2,h3,h4,h5,h6"
# How highlighters name the language of a code block: Sphinx, GitHub, Prism, highlight.js, SyntaxHighlighter.
_LANGUAGE = re.compile(r"(?:^|\s)(?:highlight-source-|highlight-|language-|lang-|brush:\s*)([\w+#-]+)", re.IGNORECASE)
_NO_LANGUAGE = frozenset({"none", "default", "text", "notranslate", "plaintext"})
# A code block and the elements around it that may name its language.
_LANGUAGE_LEVELS = 3


def render_markdown(main: Element, base: str, *, links: bool = True) -> str:
    """The element as GitHub-flavored Markdown with absolute links.

    Without `links`, the text in the same layout: no links, emphasis or escapes.
    """
    options = Markdown(
        inline=Markdown.Inline(ignore_emphasis=not links),
        links=Markdown.Links(ignore=not links, autolink=links),
        images=Markdown.Images(mode="ignore"),
        tables=Markdown.Tables(cell_blocks="text"),
        escaping=Markdown.Escaping() if links else Markdown.Escaping(mode="none", asterisks=False, underscores=False),
    )
    if links:
        _resolve_links(main, base)
    _mark_layout(main)
    _mark_languages(main)
    _unwrap_emphasized_lines(main)
    _mark_terms(main)
    flatten_tables(main)
    lines, inside, fence = [], False, ""
    for line in str(main.to_markdown(options)).split("\n"):
        found = CODE_FENCE.match(line.lstrip(" >"))
        mark = found[0] if found else ""
        if mark and (not inside or mark == fence):
            inside, fence = not inside, mark
        lines.append(line if inside or mark else _clean_line(line))
    return _strip_rules(_BLANK_LINES.sub("\n\n", "\n".join(lines)).strip())


def _strip_rules(markdown: str) -> str:
    """Remove horizontal rules at the start and the end; they separated the content from what is left out."""
    while markdown.startswith(f"{_RULE}\n"):
        markdown = markdown[len(_RULE) :].lstrip()
    while markdown.endswith(f"\n{_RULE}"):
        markdown = markdown[: -len(_RULE)].rstrip()
    return markdown


def _clean_line(line: str) -> str:
    """A line outside of code: no tags, no hard spaces, no heading or break without text; two spaces end a line."""
    if "<" in line:
        line = _EMPHASIS_TAG.sub(lambda found: found[0] if found[0][0] == "`" else "", line)
    if "&#" in line:
        line = _SPACE_ENTITY.sub(lambda found: found[0] if found[0][0] == "`" else "\xa0", line)
    if not line.isascii() and "\xa0" in (line := line.translate(_TYPOGRAPHIC_SPACES)):
        line = _INDENTATION.sub(r"\1", line).replace("\xa0", " ")
    text = line.strip(" >")
    if text == "\\" or (text.startswith("#") and not text.strip("#")):
        return ""
    return line.rstrip() + ("  " if line.endswith("  ") and line.strip() else "")


def _resolve_links(main: Element, base: str) -> None:
    """Make links absolute; remove titles, which repeat the text, and links without text, such as those of images."""
    for link in main.select("a[href]"):
        if not link.text.strip():
            link.unwrap()
            continue
        if "title" in link.attrs:
            del link.attrs["title"]
        with suppress(ValueError):
            link.attrs["href"] = urljoin(base, link.attr("href") or "")


def _mark_layout(main: Element) -> None:
    """Text that DocBook lays out by line breaks and hard spaces is preformatted, like a code block."""
    for block in main.select(".literallayout"):
        if block.select_one("a[href],table,ul,ol,pre") is None:
            for line_break in block.select("br"):
                line_break.replace_with(Text(_LINE_BREAK))
            # Other white space is that of the source: it separates words, but does not indent a line.
            lines = [_SPACES.sub(" ", line).strip(" ") for line in block.text.split(_LINE_BREAK)]
            block.tag = "pre"
            block.set_text("\n".join(line.replace("\xa0", " ").rstrip() for line in lines).strip("\n"))


def _has_lines(element: Element) -> bool:
    return len(element.select("br")) > 1


def _unwrap_emphasized_lines(main: Element) -> None:
    """Remove emphasis over several line breaks, which the renderer writes as HTML."""
    for emphasis in main.select("em,i,strong,b"):
        if _has_lines(emphasis):
            emphasis.unwrap()


def _mark_terms(main: Element) -> None:
    """Write terms of definition lists and titles of notes in bold: Markdown has neither."""
    for term in main.select(_TERMS):
        if term.select_one(_BLOCKS) is not None or not term.text.strip() or _has_lines(term):
            continue
        if term.tag != "dt":
            term.tag = "p"
        # Nested emphasis makes the renderer write HTML.
        for emphasis in term.select("em,i,strong,b"):
            emphasis.unwrap()
        term.wrap_children(Element("strong"))


def _mark_languages(main: Element) -> None:
    """Give each code block the class that the renderer reads its language from."""
    for block in main.select("pre"):
        names = [block, *block.select("code")[:1], *list(block.ancestors)[: _LANGUAGE_LEVELS - 1]]
        for element in names:
            found = _LANGUAGE.search((element.attr("class") or "") if isinstance(element, Element) else "")
            if found and found[1].lower() not in _NO_LANGUAGE:
                language = "python" if found[1] == "python3" else found[1].lower()
                target = block.find("code") or block
                target.attrs["class"] = f"language-{language}"
                break


# A longer text is cut off: the converter takes about a second for a megabyte.
MAX_CHARACTERS = 500_000
_FIRST_HEADING = re.compile(r"^# ([^\n]{1,300})", re.MULTILINE)

# Fields between two lines of dashes, as site generators have them (YAML); a rule alone has no field below it.
_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n(?=[A-Za-z][\w-]*:)((?:[^\n]*\n){1,200}?)---[ \t]*(?:\r?\n|\Z)")
_FIELD = re.compile(r"^(title|author|date|description):[ \t]+([^\r\n]+)", re.MULTILINE | re.IGNORECASE)


def markdown_to_html(text: str) -> str:
    """The page as HTML; its title is that of its front matter, else the first main heading.

    >>> markdown_to_html("# Wrens\\n\\nSee [owls](/owl).")
    '<title>Wrens</title><body><h1>Wrens</h1>\\n<p>See <a href="/owl">owls</a>.</p>\\n'
    """
    front = _FRONT_MATTER.match(text)
    text = text[front.end() :] if front else text
    about = {key.lower(): value.strip().strip("\"'") for key, value in _FIELD.findall(front[1] if front else "")}
    heading = _FIRST_HEADING.search(text)
    title = about.pop("title", "") or (heading[1].strip(" #") if heading else "")
    head = f"<title>{escape(title)}</title>" if title else ""
    head += "".join(f'<meta name="{key}" content="{escape(value)}">' for key, value in about.items() if value)
    return f"{head}<body>{_converter().render(text[:MAX_CHARACTERS])}"


@cache
def _converter() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": True}).enable("table")
