"""Prepare tables for Markdown, which has neither merged cells nor tables that lay out a page."""

from turbohtml import Element

_MAX_SPAN = 50
_MAX_CELLS = 20_000  # of a table whose merged cells are split
_LAYOUT_CONTENT = "h1,h2,h3,table,form,section,article"
_LINE_NUMBERS = "td.linenos,td.gutter,td.lineno,td.listing_lines,td.blob-num,td.line-numbers"
_LONG_CELL = 600  # characters in paragraphs


def flatten_tables(main: Element) -> None:
    """Turn layout tables into blocks, and split merged cells: the text in the first, the others empty."""
    for cell in main.select(_LINE_NUMBERS):
        cell.decompose()
    for table in main.select("table"):
        cells = table.select("td,th")
        if _is_layout(table, cells):
            for part in [table, *table.select("tbody,thead,tfoot,tr,td,th")]:
                if part is table or part.closest("table") in (table, None):
                    part.tag = "div"
        elif len(cells) <= _MAX_CELLS and table.select_one("[colspan],[rowspan]") is not None:
            _split_merged_cells(table)


def _is_layout(table: Element, cells: list[Element]) -> bool:
    if (table.attr("role") or "").lower() in ("presentation", "none") or len(cells) < 2:
        return True
    if table.select_one("th") is not None or table.select_one("caption") is not None:
        return False
    return any(
        cell.select_one(_LAYOUT_CONTENT) is not None
        or any("\n" in block.text.strip() for block in cell.select("pre"))
        or (len(cell.text) > _LONG_CELL and len(cell.select("p,ul,ol,pre,blockquote")) > 1)
        for cell in cells
    )


def _split_merged_cells(table: Element) -> None:
    """Rows get an empty cell for every column that a cell of this row or of a row above covers."""
    covered: dict[int, int] = {}  # column -> how many further rows it is covered
    for row in table.select("tr"):
        column = 0
        for cell in [child for child in row.children if isinstance(child, Element) and child.tag in ("td", "th")]:
            column = _fill_covered(cell, column, covered)
            width, height = _take_span(cell, "colspan"), _take_span(cell, "rowspan")
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
    return min(_MAX_SPAN, max(1, int(value))) if value.isascii() and value.isdigit() else 1
