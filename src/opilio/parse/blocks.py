"""The text of a page as one marked string (`Page.flow`), and which of its blocks are boiler-plate.

The tree is prepared natively (inline elements unwrapped, white space collapsed), written out once, and the tags that
are left are turned into marks by a few native passes over one string: about 0.1 µs a node, where walking the nodes
in Python took three times as long. The written form is safe to take apart because the writer escapes `<` and `>` in
every text and attribute. Must not: know of addresses.
"""

import re

from turbohtml import Element
from turbohtml.clean import collapse_whitespace_node, strip_comments_node

from opilio.model.records import BLOCK_BREAK, LINK_CLOSES, LINK_OPENS

# Never text: scripts, styles, inert templates, drawings, the choices of forms, raw fall-backs for frames.
# A noscript's content stays: we run no scripts, so it is what we are meant to see.
HIDDEN = "script,style,template,svg,select,datalist,noembed,noframes,textarea"
# Elements that do not break a paragraph (S2-23); the empty ones among them simply go. Everything else is a break.
INLINE = (
    "span,b,i,em,strong,code,tt,font,u,small,big,sup,sub,abbr,acronym,cite,q,s,strike,del,ins,kbd,samp,var,mark,time,"
    "label,bdi,bdo,dfn,data,wbr,nobr,ruby,rb,rt,rp,blink,img,input,button,map,object,param,picture,source,output,basefont"
)
# Elements around navigation and the like (boilerpipe's and HTML's own sectioning rule).
SURROUNDINGS = ("nav", "header", "footer", "aside")

_BOILER_OPENS, _BOILER_CLOSES = "\x05", "\x06"
_MARKS = (LINK_OPENS, LINK_CLOSES, BLOCK_BREAK, _BOILER_OPENS, _BOILER_CLOSES, "\x00")
_OWN_MARKS = str.maketrans(dict.fromkeys(_MARKS, ""))
_GONE = "\x01"  # holds the place of a removed character until the tags are read: `<a\x04>` is not `<a>`
_HELD = str.maketrans(dict.fromkeys(_MARKS, _GONE))
_SPLIT_AT_TAGS = re.compile("<([^ >]*)[^>]*>").split
_LINKED = re.compile("\x02[^\x03]*\x03")
_TANGLED = re.compile("\x02[^\x03]*[\x02\x04-\x06]")
_ACROSS_BLOCKS = re.compile("\x02[^\x03]*[\x04-\x06][^\x03]*\x03")
_BOILER_MARKS = re.compile("[\x04-\x06 ]+")
_ENTITY = re.compile("&(?:lt|gt|amp|nbsp);")
_CHARACTER = {"&nbsp;": " ", "&lt;": "<", "&gt;": ">", "&amp;": "&"}  # all the writer ever escapes in text


class _MarkOfTag(dict[str, str]):
    """What each tag of the written tree becomes; any tag that is not here is a break."""

    def __missing__(self, tag: str) -> str:
        return BLOCK_BREAK


_COMMON = ("p", "li", "td", "th", "tr", "div", "ul", "ol", "dl", "dt", "dd", "table", "tbody")  # spared the slow way
_MARK_OF_TAG = _MarkOfTag(
    {
        "a": LINK_OPENS,
        "/a": LINK_CLOSES,
        "br": " ",
        **dict.fromkeys([*_COMMON, *(f"/{tag}" for tag in _COMMON)], BLOCK_BREAK),
        **dict.fromkeys(SURROUNDINGS, f"{BLOCK_BREAK}{_BOILER_OPENS}{BLOCK_BREAK}"),
        **dict.fromkeys([f"/{tag}" for tag in SURROUNDINGS], f"{BLOCK_BREAK}{_BOILER_CLOSES}{BLOCK_BREAK}"),
    }
)
_DENSE = 0.4  # a block with less than this share of its text outside links is link-dense


def tidy(text: str) -> str:
    """A text on one line, without our marks and with single spaces."""
    if any(mark in text for mark in _MARKS):
        text = text.translate(_OWN_MARKS)
    return " ".join(text.split())


def flow_of(body: Element) -> tuple[str, list[bool]]:
    """All visible text with link and block marks, and for every block whether it is boiler-plate.

    Every `a` element that is left in the tree becomes one pair of link marks, in document order; the caller has
    made all others something else. Consumes the tree.
    """
    strip_comments_node(body)
    body.strip_tags(INLINE)
    body.normalize()
    collapse_whitespace_node(body)
    written = body.serialize(inner=True)
    if any(mark in written for mark in _MARKS):
        written = written.translate(_HELD)
    return _flagged(_one_block_per_link(_marked(written)))


def _marked(written: str) -> str:
    """Tags to marks, entities to characters."""
    parts = _SPLIT_AT_TAGS(written)  # text, tag, text, tag, ..., text
    parts[1::2] = map(_MARK_OF_TAG.__getitem__, parts[1::2])
    marked = "".join(parts)
    if "&" in marked:
        marked = _ENTITY.sub(lambda entity: _CHARACTER[entity[0]], marked)
    marked = marked.replace(_GONE, "")
    while "  " in marked:  # left by line breaks and hard spaces
        marked = marked.replace("  ", " ")
    return marked


def _one_block_per_link(marked: str) -> str:
    """Links neither nest nor reach over a break: those that do get a block of their own."""
    if not _TANGLED.search(marked):
        return marked
    marked = re.sub("(\x02[^\x02\x03]*)(?=\x02)", "\\1\x03", marked)
    marked = re.sub("(\x02[^\x02\x03]*\x03)|\x03", "\\1", marked)
    return _ACROSS_BLOCKS.sub(_on_its_own, marked)


def _on_its_own(link: re.Match[str]) -> str:
    inside = _BOILER_MARKS.sub(" ", link[0][1:-1]).strip()
    return f"{BLOCK_BREAK}{LINK_OPENS}{inside}{LINK_CLOSES}{BLOCK_BREAK}"


def _flagged(marked: str) -> tuple[str, list[bool]]:
    blocks = list(filter(None, map(str.strip, marked.split(BLOCK_BREAK)))) or [""]
    surrounded: list[bool] = []
    if _BOILER_OPENS in marked or _BOILER_CLOSES in marked:
        blocks, surrounded = _without_surroundings(blocks)
    flow = BLOCK_BREAK.join(blocks)
    dense = link_dense(blocks, _LINKED.sub("", flow).split(BLOCK_BREAK))
    flags = [a or b for a, b in zip(surrounded, dense, strict=True)] if surrounded else dense
    return flow, flags


def _without_surroundings(marked_blocks: list[str]) -> tuple[list[str], list[bool]]:
    blocks: list[str] = []
    surrounded: list[bool] = []
    depth = 0
    for block in marked_blocks:
        if block == _BOILER_OPENS:
            depth += 1
        elif block == _BOILER_CLOSES:
            depth = max(0, depth - 1)
        else:
            blocks.append(block)
            surrounded.append(depth > 0)
    return blocks or [""], surrounded or [False]


def link_dense(blocks: list[str], outside: list[str]) -> list[bool]:
    """Blocks that are mostly links and stand beside another such block: menus, not a heading that is a link.

    `outside` holds the same blocks without what stands in links.
    """
    dense = [len(rest) < _DENSE * len(block) for block, rest in zip(blocks, outside, strict=True)]
    before = [False, *dense[:-1]]
    after = [*dense[1:], False]
    return [d and (b or a) for d, b, a in zip(dense, before, after, strict=True)]
