"""Docstrings, comments and messages of the source use the field's words."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "opilio"
MODULES = sorted(SOURCE.rglob("*.py"))
BANNED = (
    "whoever|nobody|somebody|a person|is told|are told|tells?|told|said|looks? again|(?<!there )(?-i:is none)|so many"
    "|under way|goes on|wish(es)?|manners|minds?|desk|shelf|shelves|keeper|ledger|chooser|arena"
)
WORD = re.compile(rf"\b({BANNED})\b", re.IGNORECASE)
# Names of variables and functions with the same problem.
NAME = re.compile(r"_*(shelf|shelves|wish|wishes|looks|landings?|fate|ledger|keeper|desk|scout|everybody|telling)")
# Reviewed: names in stored data, and words in their usual meaning.
ALLOWED = {
    # A word of questions, which search ignores.
    ("search/word_forms.py", "tell"),
    # The key of a field in stored snapshots.
    ("methods/attributes/ranker.py", "told"),
    # The table of commands in collections of schema 1.
    ("store/schema.py", "wish"),
    # The URL of commands in earlier versions, which is redirected.
    ("web/app.py", "wish"),
}


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of each comment and string literal of a module; values inside f-strings are code."""
    source = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, " ".join(node.value.split())


def _names(path: Path) -> Iterator[tuple[int, str]]:
    """(line, name) of each name in a module."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(SOURCE).as_posix())
def test_module_uses_the_usual_words(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    # Most modules have no such word anywhere, and need not be parsed.
    if not WORD.search(" ".join(source.split())) and not NAME.search(source):
        return
    name = path.relative_to(SOURCE).as_posix()
    found = [(line, match[0]) for line, text in _texts(path) for match in WORD.finditer(text)]
    assert [(line, word) for line, word in found if (name, word.lower()) not in ALLOWED] == []
    assert [(line, word) for line, word in _names(path) if NAME.fullmatch(word)] == []


# A short remark, such as a unit, may follow a field or a constant.
MAX_REMARK_CHARS = 40
DIRECTIVES = ("# noqa", "# type:", "# pragma")


def _trailing_comments(path: Path) -> Iterator[tuple[int, str]]:
    """Comments behind code: in functions all, elsewhere those that are longer than a remark."""
    source = path.read_text(encoding="utf-8")
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {line for node in functions for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line, code = token.start[0], token.line[: token.start[1]].strip()
        if token.type != tokenize.COMMENT or not code or code[0] in ")]}" or token.string.startswith(DIRECTIVES):
            continue
        if line in inside or len(token.string) > MAX_REMARK_CHARS:
            yield line, token.string


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(SOURCE).as_posix())
def test_comments_stand_above_the_code(path: Path) -> None:
    assert list(_trailing_comments(path)) == []


def test_comment_behind_code_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(f"A = 1  # pages\nB = 2  # {'long ' * 9}\n\n\ndef f() -> int:\n    return 3  # why\n")
    assert [line for line, _ in _trailing_comments(module)] == [2, 6]


def test_every_exception_is_needed() -> None:
    used = {
        (name, match[0].lower())
        for name, _ in ALLOWED
        for _, text in _texts(SOURCE / name)
        for match in WORD.finditer(text)
    }
    assert ALLOWED - used == set()


def test_banned_words_are_found() -> None:
    found = [match[0] for match in WORD.finditer("Nobody is told; there is none, and this is none.")]
    assert found == ["Nobody", "is told", "is none"]
