"""Both libraries build the trees that html5lib-tests expects; `make test` gets its files with html5lib's source."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from turbohtml import Document, Element, Text

from opilio.parse.html import TreeBuilder, _build_turbohtml_tree
from opilio.parse.lexbor_tree import LexborElement, build_lexbor_tree

FILES = os.environ.get("OPILIO_HTML5LIB", "")
_TEMPLATE_CONTENT = "content"
_ELEMENT = re.compile(r"^<(?:\w+ )?([^ ]+)>$")  # "<svg a>" is an element of SVG
_NAMESPACE = re.compile("^(xlink|xml|xmlns) (?=[a-z]+=)")  # of an attribute
_LINE = re.compile(r"\| ( *)(.*)", re.DOTALL)


class Case(NamedTuple):
    """A page and its nodes; each with its depth, elements as `<name`, attributes as `name="value"`, text in quotes."""

    name: str
    markup: str
    nodes: list[tuple[int, str]]


def read_cases(folder: Path) -> Iterator[Case]:
    """The cases that concern a crawl: whole pages, without scripts."""
    for path in sorted(folder.glob("*.dat")):
        blocks = re.split(r"(?:\A|\n\n)#data\n", path.read_bytes().decode())[1:]
        for number, block in enumerate(blocks):
            markup, _, rest = f"\n{block}".partition("\n#errors\n")
            options, _, document = rest.partition("#document\n")
            if document and "#document-fragment" not in options and "#script-on" not in options:
                yield Case(f"{path.name} {number}", markup[1:], expected_nodes(document.rstrip("\n")))


def expected_nodes(document: str) -> list[tuple[int, str]]:
    """The nodes of a written tree without comments, document types and the content of templates."""
    nodes: list[tuple[int, str]] = []
    hidden_depth = None
    for line in re.split(r"\n(?=\| )", document):
        match = _LINE.fullmatch(line)
        assert match is not None, line
        depth, written = len(match[1]) // 2, match[2]
        if hidden_depth is not None and depth > hidden_depth:
            continue
        hidden_depth = depth if written == _TEMPLATE_CONTENT else None
        if hidden_depth is None and not written.startswith("<!"):
            append_node(nodes, depth, _NAMESPACE.sub(r"\1:", _ELEMENT.sub(r"<\1", written)))
    return nodes


def built_nodes(document: Document) -> list[tuple[int, str]]:
    """The nodes of a tree in the same form."""
    nodes: list[tuple[int, str]] = []
    stack: list[tuple[object, int]] = [(document[index], 0) for index in reversed(range(len(document)))]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, Text):
            append_node(nodes, depth, f'"{node.data}"')
        elif isinstance(node, Element | LexborElement):
            append_node(nodes, depth, f"<{node.tag}")
            attributes = node.attrs if isinstance(node, Element) else node._attributes
            for name, value in sorted(attributes.items()):
                text = value if isinstance(value, str) else " ".join(value or ())
                append_node(nodes, depth + 1, f'{name}="{text}"')
            stack += [(node[index], depth + 1) for index in reversed(range(len(node)))]
    return nodes


def append_node(nodes: list[tuple[int, str]], depth: int, node: str) -> None:
    """Append a node; text continues the text before it."""
    if node.startswith('"') and nodes and nodes[-1][0] == depth and nodes[-1][1].startswith('"'):
        nodes[-1] = depth, nodes[-1][1][:-1] + node[1:]
    elif node != '""':
        nodes.append((depth, node))


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    if not Path(FILES or "none").is_dir():
        pytest.skip("html5lib-tests is not there; 'make test' gets it")
    return list(read_cases(Path(FILES)))


@pytest.mark.slow
@pytest.mark.parametrize("build", [_build_turbohtml_tree, build_lexbor_tree], ids=["turbohtml", "selectolax"])
def test_trees_are_those_of_html5lib_tests(build: TreeBuilder, cases: list[Case]) -> None:
    assert len(cases) > 1_500
    different = [case for case in cases if built_nodes(build(case.markup.encode(), "utf-8")) != case.nodes]
    # Since 2025 the HTML standard allows other elements in a list of options; these files are older.
    assert [case.name for case in different if "<select>" not in case.markup] == []
    assert len(different) < 20


@pytest.mark.slow
def test_libraries_build_the_same_trees(cases: list[Case]) -> None:
    for case in cases:
        trees = [build(case.markup.encode(), "utf-8") for build in (_build_turbohtml_tree, build_lexbor_tree)]
        assert built_nodes(trees[0]) == built_nodes(trees[1]), case.name
