"""The text of a page as one marked string (`Page.flow`), and which of its blocks are boilerplate.

Link marks are inserted into the tree as text, elements that break the flow become plain blocks, and turbohtml writes
the text natively: 0.65 ms for pages of 75 KB, against 1.1 ms for writing HTML and turning its tags into marks.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from turbohtml import Element, PlainText, Text

from opilio.core.records import BLOCK_BREAK, LINK_END, LINK_START

# Never text: scripts, styles, templates, drawings, options of forms, fallbacks for frames.
# The content of noscript stays, because the crawler runs no scripts.
HIDDEN_ELEMENTS = "script,style,template,svg,select,datalist,noembed,noframes,textarea"
# In the style attribute of an element that no visitor can see.
hides_element = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE).search
# Elements that break the flow (S2-23) but that turbohtml would lay out differently: tables as grids, lists with
# numbers, literal text with its line breaks. (Paragraphs, headings, sections and the like are blocks already.)
_BLOCK_ELEMENTS = (
    *("li", "td", "th", "tr", "table", "caption", "ul", "ol", "menu", "dir", "pre", "xmp", "listing", "plaintext"),
    *("blockquote", "center", "dialog", "fieldset", "form", "hgroup", "legend", "hr", "noscript", "frameset"),
)
# Those that are blocks already, the most common first.
FLOW_BREAKS = (
    *("div", "p", "h2", "h3", "h4", "h1", "dd", "dt", "dl", "section", "article", "header", "footer", "nav", "aside"),
    *("main", "figure", "figcaption", "address", "details", "summary", "h5", "h6", "hr", "body", "html"),
)
# turbohtml does not end a block inside an inline element: in `<b><p>one</p>two</b>` the words would be joined.
_INNER_BLOCKS = f":not({','.join(FLOW_BREAKS)},tbody,thead,tfoot)>:is({','.join(FLOW_BREAKS[:-3])})"
# Elements whose text turbohtml leaves out, and a link mark in it with it.
_OMITTED_ELEMENTS = ("rp",)
# Elements around navigation and the like; a header inside an article is its title.
_BOILERPLATE_ELEMENTS = ("nav", "header", "footer", "aside")
_CONTENT_ELEMENTS = "article,main,section"

# Lists, and tables unless they lay out whole pages: then their cells contain blocks. (`select` holds no links.)
_LIST_ELEMENTS = ("ul", "ol", "menu", "dir", "dl", "table")

_BOILERPLATE_START, _BOILERPLATE_END = "\x05", "\x06"
_LIST_START, _LIST_END = "\x0e", "\x0f"
_MARKS = (LINK_START, LINK_END, BLOCK_BREAK, _BOILERPLATE_START, _BOILERPLATE_END, "\x00")
_LIST_MARKS = (_LIST_START, _LIST_END)
_ALL_MARKS = (*_MARKS, *_LIST_MARKS)
_STRIP_MARKS = str.maketrans(dict.fromkeys(_ALL_MARKS, ""))
_TEXT_FORMAT = PlainText(bullet="")
_LINK_TEXT = re.compile("\x02[^\x02\x03]*\x03")
_EMPTY_LINE = "\n\n"
_NESTED_LINKS = re.compile("\x02[^\x03]*(?:[\x02\x05\x06]|\n\n)")
_BLOCK_MARK = re.compile("[\x05\x06]|\n\n")
_ONLY_MARKS = re.compile("[\x05\x06 ]+")
_BREAKS = re.compile("[\x05\x06\x0e\x0f\n ]+")
# A block with less than this share of its text outside links is link-dense.
_LINK_DENSE_SHARE = 0.4


def clean_text(text: str) -> str:
    """A text on one line, without marks and with single spaces."""
    if not text.isprintable():
        text = text.translate(_STRIP_MARKS)
    return " ".join(text.split())


class Flow(NamedTuple):
    """All visible text with link and block marks, whether each block is boilerplate, and the blocks of each list."""

    text: str
    boilerplate: list[bool]
    lists: list[tuple[int, int]]


def extract_flow(body: Element, links: Sequence[Element], with_lists: bool = False) -> Flow:
    """The text of a page. Each of `links` (in document order) becomes one pair of link marks. Modifies the tree."""
    surroundings = [
        e for e in body.iter_elements(_BOILERPLATE_ELEMENTS) if e.tag != "header" or not e.closest(_CONTENT_ELEMENTS)
    ]
    lists = _find_lists(body) if with_lists else []
    for element in body.iter_elements(_BLOCK_ELEMENTS, True):
        element.tag = "div"
    for element in lists:
        _enclose(element, *_LIST_MARKS)
    block_ends = _end_inner_blocks(body)
    text_written = _render_text(body, links, surroundings)
    marks = _ALL_MARKS if lists else _MARKS
    around, ends = len(surroundings), len(block_ends)
    expected = [len(links), len(links), ends, around, around, 0, len(lists), len(lists)]
    # The page itself contains such characters, or text with a link was left out.
    if list(map(text_written.count, marks)) != expected[: len(marks)]:
        _remove_marks(body)
        for element in body.iter_elements(_OMITTED_ELEMENTS, True):
            if element.find("a") is not None:
                element.tag = "span"
        for element in lists:
            _enclose(element, *_LIST_MARKS)
        for end in block_ends:
            end.data = BLOCK_BREAK
        text_written = _render_text(body, links, surroundings)
    if block_ends:
        text_written = text_written.replace(BLOCK_BREAK, _EMPTY_LINE)
    if _NESTED_LINKS.search(text_written):
        text_written = _separate_links(text_written)
    return _flag_boilerplate(text_written, bool(lists))


def _find_lists(body: Element) -> list[Element]:
    def has_blocks(table: Element) -> bool:
        return (
            table.find(["p", "div", "table", "ul", "ol", "dl", "form", "h1", "h2", "h3", "h4", "h5", "h6"]) is not None
        )

    return [e for e in body.iter_elements(_LIST_ELEMENTS) if e.tag != "table" or not has_blocks(e)]


def _end_inner_blocks(body: Element) -> list[Text]:
    """Put a mark behind every block inside an inline element; returns the marks."""
    ends = []
    for block in body.select(_INNER_BLOCKS):
        end = Text(BLOCK_BREAK)
        block.insert_after(end)
        ends.append(end)
    return ends


def _enclose(element: Element, start: str, end: str) -> None:
    element.insert(0, Text(start))
    element.append(Text(end))


def _render_text(body: Element, links: Sequence[Element], surroundings: Sequence[Element]) -> str:
    """The text with marks; blocks end with an empty line."""
    for link in links:
        # The common case: one call instead of four.
        if len(link) == 1 and isinstance(link[0], Text):
            link.set_text(f"{LINK_START}{link.text}{LINK_END}")
        else:
            _enclose(link, LINK_START, LINK_END)
    for element in surroundings:
        _enclose(element, _BOILERPLATE_START, _BOILERPLATE_END)
    return str(body.to_text(_TEXT_FORMAT))


def _remove_marks(body: Element) -> None:
    for node in list(body.descendants):
        if isinstance(node, Text) and any(mark in node.data for mark in _ALL_MARKS):
            node.data = node.data.translate(_STRIP_MARKS)


def _separate_links(text_written: str) -> str:
    """Put links that nest or span several blocks into blocks of their own."""
    text_written = re.sub("(\x02[^\x02\x03]*)(?=\x02)", "\\1\x03", text_written)
    text_written = re.sub("(\x02[^\x02\x03]*\x03)|\x03", "\\1", text_written)
    return _LINK_TEXT.sub(_as_own_block, text_written)


def _as_own_block(link: re.Match[str]) -> str:
    if not _BLOCK_MARK.search(link[0]):
        return link[0]
    inside = _BREAKS.sub(" ", link[0][1:-1]).strip()
    return f"{_EMPTY_LINE}{LINK_START}{inside}{LINK_END}{_EMPTY_LINE}"


def _flag_boilerplate(text_written: str, has_lists: bool) -> Flow:
    blocks = list(filter(None, map(str.strip, _collapse_spaces(text_written).split(BLOCK_BREAK)))) or [""]
    surrounded: list[bool] = []
    lists: list[tuple[int, int]] = []
    if has_lists:
        blocks, lists = _split_lists(blocks)
    if _BOILERPLATE_START in text_written or _BOILERPLATE_END in text_written:
        blocks, surrounded = _split_boilerplate(blocks)
    flow = BLOCK_BREAK.join(blocks)
    dense = link_dense_blocks(flow, blocks)
    flags = [a or b for a, b in zip(surrounded, dense, strict=True)] if surrounded else dense
    return Flow(flow, flags, lists)


def _split_lists(marked_blocks: list[str]) -> tuple[list[str], list[tuple[int, int]]]:
    """The blocks without marks of lists, and the blocks of each list, inner lists before those around them."""
    blocks: list[str] = []
    lists: list[tuple[int, int]] = []
    opened: list[int] = []
    # Of blocks that have text and not only marks.
    count = 0
    for block in marked_blocks:
        opened += [count] * block.count(_LIST_START)
        text = block.replace(_LIST_START, "").replace(_LIST_END, "").strip()
        if text:
            blocks.append(text)
            count += bool(_ONLY_MARKS.sub("", text))
        # A link that spans blocks may have swallowed a mark.
        for _ in range(min(len(opened), block.count(_LIST_END))):
            start = opened.pop()
            if count > start:
                lists.append((start, count))
    return blocks or [""], lists


def _collapse_spaces(text_written: str) -> str:
    """Turn empty lines into block marks, line breaks and hard spaces into single spaces."""
    text = text_written.replace(_EMPTY_LINE, BLOCK_BREAK).replace("\n", " ").replace("\xa0", " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _split_boilerplate(marked_blocks: list[str]) -> tuple[list[str], list[bool]]:
    blocks: list[str] = []
    surrounded: list[bool] = []
    depth = 0
    for block in marked_blocks:
        if _BOILERPLATE_START not in block and _BOILERPLATE_END not in block:
            blocks.append(block)
            surrounded.append(depth > 0)
            continue
        opened = depth + block.count(_BOILERPLATE_START)
        text = block.replace(_BOILERPLATE_START, "").replace(_BOILERPLATE_END, "").strip()
        if text:
            blocks.append(text)
            surrounded.append(opened > 0)
        depth = max(0, opened - block.count(_BOILERPLATE_END))
    return blocks or [""], surrounded or [False]


def link_dense_blocks(flow: str, blocks: Sequence[str]) -> list[bool]:
    """Flags blocks that are mostly links and adjacent to another such block: menus, but not a heading that is a link.

    `blocks` are those of the flow. Only links are looked at: most blocks have none.
    """
    before, *rest = flow.split(LINK_START)
    at = before.count(BLOCK_BREAK)
    linked: dict[int, int] = {}
    for part in rest:
        # The anchor with both marks.
        linked[at] = linked.get(at, 0) + part.index(LINK_END) + 2
        at += part.count(BLOCK_BREAK)
    dense = {n for n, chars in linked.items() if (size := len(blocks[n])) - chars < _LINK_DENSE_SHARE * size}
    flags = [False] * len(blocks)
    for n in dense:
        flags[n] = n - 1 in dense or n + 1 in dense
    return flags
