"""A second tree builder on selectolax (lexbor), for the case that the default library has a flaw.

`build_lexbor_tree` returns a tree of Python objects with the operations of `turbohtml.Document` and `Element` that the
crawl's parser uses; everything after the tree is shared. Text nodes are `turbohtml.Text`, which only hold a string. It
takes several times as long as the default. lexbor needs quadratic time for very many attributes in one tag and for very
deep nesting, so both are limited before parsing.
"""

import re
from collections.abc import Iterable, Iterator
from typing import cast

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError
from turbohtml import Document, Namespace, PlainText, Text

from opilio.core.errors import ParseError
from opilio.parse.encoding import canonical_encoding, decode_text
from opilio.parse.text_blocks import FLOW_BREAKS

# The depth that the default library allows.
_MAX_DEPTH = 512
# Elements whose text is never shown.
_SILENT_ELEMENTS = frozenset(("head", "title", "style", "script", "template", "rp"))
# Their children are HTML again (HTML standard, 13.2.6.5).
_INTEGRATION_POINTS = frozenset(("mi", "mo", "mn", "ms", "mtext", "annotation-xml", "foreignObject", "desc", "title"))
_FLOW_BREAKS = frozenset(FLOW_BREAKS)
_WHITE_SPACE = re.compile("[ \t\n\r\f]+")

# Only such a page can have a tag with too many attributes or too deep nesting.
_LIMITED_BYTES = 20_000
_MAX_ATTRIBUTES = 5_000
_TAG = re.compile(r"""<([A-Za-z][^\s/>]*+)((?:[^>=]|=\s*+(?:"[^"]*+"?|'[^']*+'?)?+)*+)>?""")
_ATTRIBUTE_BREAK = re.compile(r"""[\s/"']+""")
# More open elements than this: only the tags that matter to the parser are kept.
_MAX_OPEN = 2_000
_KEPT_TAGS = frozenset(
    "a area base body br dd dt frame frameset h1 h2 h3 h4 h5 h6 head html iframe img li link meta noembed noframes"
    " option p plaintext script style td textarea th title tr xmp".split()
)
# Always matches where it begins, so that tags without an end are not read again from each of them.
_ANY_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*+)[^>]*+>?")


class LexborElement:
    """An element with the operations of `turbohtml.Element` that the parser uses."""

    __slots__ = ("_attributes", "_children", "namespace", "parent", "tag")

    def __init__(
        self, tag: str, attributes: dict[str, str | None], parent: "LexborElement | None", namespace: Namespace
    ) -> None:
        self.tag = tag
        self.parent = parent
        self.namespace = namespace
        self._attributes = attributes
        self._children: list[LexborElement | Text] = []

    def __len__(self) -> int:
        return len(self._children)

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: int) -> "LexborElement | Text":
        return self._children[index]

    def attr(self, name: str) -> str | None:
        """The value of an attribute, empty if it has none; None if there is no such attribute."""
        return (self._attributes[name] or "") if name in self._attributes else None

    def append(self, child: "LexborElement | Text") -> None:
        self._children.append(child)

    def insert(self, index: int, child: "LexborElement | Text") -> None:
        self._children.insert(index, child)

    def set_text(self, text: str) -> None:
        """Replace the children by this text."""
        self._children = [Text(text)]

    @property
    def descendants(self) -> Iterator["LexborElement | Text"]:
        """All nodes below this one in document order."""
        stack = self._children[::-1]
        while stack:
            node = stack.pop()
            yield node
            if isinstance(node, LexborElement):
                stack += node._children[::-1]

    @property
    def text(self) -> str:
        return "".join([node.data for node in self.descendants if isinstance(node, Text)])

    def iter_elements(self, tags: Iterable[str], _snapshot: bool = False) -> list["LexborElement"]:
        """The elements below this one with one of these tags, in document order."""
        wanted = frozenset(tags)
        return [node for node in self.descendants if isinstance(node, LexborElement) and node.tag in wanted]

    def find(self, tags: str | list[str]) -> "LexborElement | None":
        """The first element below this one with this tag, or with one of these."""
        wanted = (tags,) if isinstance(tags, str) else tags
        found = (node for node in self.descendants if isinstance(node, LexborElement) and node.tag in wanted)
        return next(found, None)

    def select(self, _selector: str) -> list["LexborElement"]:
        """Blocks that `to_text` does not end: none here."""
        return []

    def closest(self, selector: str) -> "LexborElement | None":
        """The nearest of this element and those around it whose tag is in a list such as `article,main`."""
        wanted = selector.split(",")
        node: LexborElement | None = self
        while node is not None and node.tag not in wanted:
            node = node.parent
        return node

    def remove(self, selector: str) -> None:
        """Remove all elements below this one whose tag is in a list such as `script,style`."""
        wanted = frozenset(selector.split(","))
        stack = [self]
        while stack:
            element = stack.pop()
            element._children = [
                child for child in element._children if isinstance(child, Text) or child.tag not in wanted
            ]
            stack += [child for child in element._children if isinstance(child, LexborElement)]

    def to_text(self, _format: PlainText) -> str:
        """The visible text, with an empty line where a block starts or ends."""
        parts: list[str] = []
        stack: list[LexborElement | Text | str] = [self]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                parts.append(node)
            elif isinstance(node, Text):
                parts.append(_WHITE_SPACE.sub(" ", node.data))
            elif node.tag == "br":
                parts.append("\n")
            elif node.tag not in _SILENT_ELEMENTS:
                if node.tag in _FLOW_BREAKS:
                    parts.append("\n\n")
                    stack.append("\n\n")
                stack += node._children[::-1]
        text = "".join(parts)
        while "  " in text:
            text = text.replace("  ", " ")
        return text.replace(" \n", "\n").replace("\n ", "\n")


class LexborDocument(LexborElement):
    """A document with the operations of `turbohtml.Document` that the parser uses."""

    __slots__ = ("encoding",)

    def __init__(self, encoding: str) -> None:
        super().__init__("#document", {}, None, Namespace.HTML)
        self.encoding = encoding

    @property
    def root(self) -> LexborElement | None:
        return self.find("html")


def build_lexbor_tree(body: bytes, encoding: str | None) -> Document:
    """The tree of a page in this encoding; None: the encoding is detected."""
    if encoding is None:
        text, detected = decode_text(body, "")
        name = detected.removesuffix("-sig")
    else:
        text, name = body.decode(f"whatwg-{encoding}"), canonical_encoding(encoding)
    if len(text) > _LIMITED_BYTES:
        text = _limit_markup(text)
    document = LexborDocument(name)
    try:
        root = LexborHTMLParser(text).root
    except SelectolaxError as error:
        raise ParseError(f"html: selectolax can't parse the page: {error}") from error
    if root is not None:
        _copy_tree(root, document)
    # The operations that the parser uses are the same.
    return cast("Document", document)


def _copy_tree(root: LexborNode, document: LexborDocument) -> None:
    """Copy the nodes; what is nested too deep becomes a sibling."""
    stack: list[tuple[LexborNode, LexborElement, int]] = [(root, document, 0)]
    while stack:
        node, parent, depth = stack.pop()
        if node.next is not None:
            stack.append((node.next, parent, depth))
        if node.is_text_node:
            parent.append(Text(node.text_content or ""))
        elif node.is_element_node:
            element = LexborElement(str(node.tag), node.attributes, parent, _namespace_in(parent, str(node.tag)))
            parent.append(element)
            if node.first_child is not None:
                stack.append((node.first_child, element if depth < _MAX_DEPTH else parent, depth + 1))


def _namespace_in(parent: LexborElement, tag: str) -> Namespace:
    if tag == "svg":
        return Namespace.SVG
    if tag == "math":
        return Namespace.MATHML
    return Namespace.HTML if parent.tag in _INTEGRATION_POINTS else parent.namespace


def _limit_markup(text: str) -> str:
    """Remove what takes lexbor quadratic time: the attributes of tags with very many, and very deep nesting."""
    text = _TAG.sub(_limit_attributes, text)
    opened = 0
    for closing, name in _ANY_TAG.findall(text):
        if name.lower() not in _KEPT_TAGS:
            opened += -1 if closing else 1
            if opened > _MAX_OPEN:
                return _ANY_TAG.sub(lambda tag: tag[0] if tag[2].lower() in _KEPT_TAGS else " ", text)
    return text


def _limit_attributes(tag: re.Match[str]) -> str:
    if len(tag[2]) < 2 * _MAX_ATTRIBUTES or len(_ATTRIBUTE_BREAK.findall(tag[2])) <= _MAX_ATTRIBUTES:
        return tag[0]
    return f"<{tag[1]}>"
