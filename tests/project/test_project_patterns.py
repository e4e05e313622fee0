"""Every regular expression of the package takes time linear in its input.

The patterns are found in the modules and in the calls of their source, so a new one is tested without being listed.
Patterns that are composed when the program runs can't be found; `COMPOSED` says why each is harmless. Hostile inputs
are derived from each pattern: examples of what it matches, with and without what is optional, cut off at every
position, repeated, or with their last character repeated. `checks.growth` tells linear from quadratic.
"""

import ast
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from re import _constants as codes
from re import _parser as parser
from typing import Any

import pytest

import opilio
from checks.growth import TOO_STEEP, growth
from opilio.parse.documents.pdf import LinkPlacement, PageLink
from opilio.text.tokens import tokenize_bytes

# Their patterns read what the user writes, or pages that the lab generated.
TRUSTED_INPUT = ("opilio.cli", "opilio.lab", "opilio.testing")
# Patterns that compare parts of one URL, which has at most 2,000 characters, or read the schema of a collection.
BOUNDED_INPUT = {"opilio.engine.politeness.traps._REPEATED", "opilio.store.maintain.merge_tables._TABLE"}
# Modules with patterns that are not written as one string, by the reason why they need no test of their own here.
COMPOSED = {
    "opilio.core.urls": "an attribute of the module, so it is tested",
    "opilio.text.tokens": "an attribute of the module, so it is tested",
    "opilio.store.postgres.connection": "an attribute of the module, so it is tested",
    "opilio.core.scope": "a pattern of the user; those of fnmatch do not backtrack",
    "opilio.frontier.sqlite.queries": "a pattern of the user; those of fnmatch do not backtrack",
    "opilio.search.snippet": "words of a query, which are short",
    "opilio.search.word_forms": "one plain word",
    "opilio.seeds.api_client": "the user's keys",
    "opilio.store.postgres.schema": "reads our own schema",
}
FUNCTIONS = frozenset({"compile", "findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"})
_CATEGORY_EXAMPLES = {"DIGIT": "7", "SPACE": " ", "WORD": "w", "NOT_DIGIT": "n", "NOT_SPACE": "n", "NOT_WORD": "-"}


def patterns() -> Iterator[tuple[str, re.Pattern[Any], str]]:
    """Name, pattern and method of all patterns that are attributes of modules."""
    for module in pkgutil.walk_packages(opilio.__path__, "opilio."):
        if module.name.startswith(TRUSTED_INPUT) or module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            pattern = getattr(value, "__self__", value)
            if isinstance(pattern, re.Pattern):
                yield f"{module.name}.{name}", pattern, getattr(value, "__name__", "findall")


def written_patterns() -> Iterator[tuple[str, re.Pattern[Any] | None, str]]:
    """Module, pattern and method of every call of a function of `re`; None for a pattern that is composed."""
    root = Path(opilio.__file__).parent
    for path in sorted(root.rglob("*.py")):
        module = ".".join(("opilio", *path.relative_to(root).with_suffix("").parts))
        if module.startswith(TRUSTED_INPUT):
            continue
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[pattern, *_]):
                    if method in FUNCTIONS:
                        source = pattern.value if isinstance(pattern, ast.Constant) else None
                        tested = re.compile(source) if isinstance(source, (str, bytes)) else None
                        yield module, tested, "findall" if method == "compile" else method


def example(tree: Any, repeats: int = 1) -> str:
    """A short text that the pattern matches or nearly matches; parts that may be missing are there `repeats` times."""
    return "".join(_example_of(code, argument, repeats) for code, argument in tree)


def _example_of(code: Any, argument: Any, repeats: int) -> str:
    text = ""
    if code is codes.LITERAL:
        text = chr(argument)
    elif code is codes.NOT_LITERAL or code is codes.ANY:
        text = "n"
    elif code is codes.IN:
        text = _example_of_class(argument)
    elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        text = example(argument[2], repeats) * int(min(max(argument[0], repeats), 20))
    elif code is codes.SUBPATTERN:
        text = example(argument[3], repeats)
    elif code is codes.ATOMIC_GROUP:
        text = example(argument, repeats)
    elif code is codes.BRANCH:
        text = example(argument[1][0], repeats)
    return text


def _example_of_class(members: Any) -> str:
    excluded = any(code is codes.NEGATE for code, _ in members)
    if excluded:
        return next((c for c in "nm7-/ é" if re.fullmatch(_class_source(members), c)), "é")
    code, argument = members[0]
    if code is codes.RANGE:
        return chr(argument[0])
    return _CATEGORY_EXAMPLES[str(argument).removeprefix("CATEGORY_")] if code is codes.CATEGORY else chr(argument)


def _class_source(members: Any) -> str:
    names = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w", "NOT_DIGIT": r"\D", "NOT_SPACE": r"\S", "NOT_WORD": r"\W"}
    source = ""
    for code, argument in members:
        if code is codes.NEGATE:
            source += "^"
        elif code is codes.RANGE:
            source += f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}"
        elif code is codes.CATEGORY:
            source += names[str(argument).removeprefix("CATEGORY_")]
        else:
            source += re.escape(chr(argument))
    return f"[{source}]"


def branches(tree: Any) -> list[str]:
    """Examples of every alternative at the top of the pattern or in a group of its own."""
    found = [example(tree), example(tree, 0)]
    for code, argument in tree:
        if code is codes.SUBPATTERN:
            code, argument = argument[3][0] if len(argument[3]) else (None, None)
        if code is codes.BRANCH:
            found += [example(branch) for branch in argument[1][:12]]
    return [text for text in dict.fromkeys(found) if text]


def hostile_inputs(pattern: re.Pattern[Any]) -> Iterator[Callable[[int], str]]:
    """Functions from a length to a text of about that length."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    beginnings: dict[str, None] = {}
    for text in branches(parser.parse(source, pattern.flags & ~re.ASCII | re.UNICODE)):
        beginnings |= dict.fromkeys(text[:end] for end in range(1, min(len(text), 40) + 1))
    for start in list(beginnings)[:80]:
        yield partial(_repeat, start, "")
        yield partial(_repeat, start, " ")
        yield partial(_prolong, start, "\0")
        yield partial(_prolong, start, "w")


def _repeat(part: str, between: str, length: int) -> str:
    return (part + between) * (length // len(part + between)) + "\0"


def _prolong(start: str, end: str, length: int) -> str:
    return start + start[-1] * length + end


def steepest(pattern: re.Pattern[Any], method: str) -> tuple[float, str]:
    run = (lambda text: pattern.sub("", text)) if method in ("sub", "subn") else getattr(pattern, method)
    if method in ("sub", "subn") and isinstance(pattern.pattern, bytes):
        run = pattern.findall
    worst = (0.0, "")
    for make in hostile_inputs(pattern):

        def encoded(n: int, make: Callable[[int], str] = make) -> Any:
            return make(n) if isinstance(pattern.pattern, str) else make(n).encode("latin-1", "replace")

        worst = max(worst, (growth(run, encoded), make(12)))
        if worst[0] > TOO_STEEP:
            break
    return worst


def test_all_patterns_are_linear() -> None:
    steep = {}
    for name, pattern, method in patterns():
        ratio, text = steepest(pattern, method)
        if ratio > TOO_STEEP and name not in BOUNDED_INPUT:
            steep[name] = (round(ratio, 1), text)
    assert not steep, "\n".join(f"{name}: {found}" for name, found in steep.items())


def test_patterns_inside_functions_are_linear() -> None:
    """Those at the top of modules are tested with their flags and methods above."""
    known = {pattern.pattern for _, pattern, _ in patterns()}
    steep = {}
    for module, pattern, method in written_patterns():
        if pattern is not None and pattern.pattern not in known:
            ratio, text = steepest(pattern, method)
            if ratio > TOO_STEEP:
                steep[f"{module}: {pattern.pattern!r}"] = (round(ratio, 1), text)
    assert not steep, steep


def test_composed_patterns_are_known() -> None:
    assert {module for module, pattern, _ in written_patterns() if pattern is None} == set(COMPOSED)


@pytest.mark.parametrize("source", [r"404\W*(?:error)?\W*$", r"<a>.*?</a>", r"[.!?]+\s", r"</?[a-z][^ />]*>"])
def test_quadratic_pattern_is_recognized(source: str) -> None:
    pattern = re.compile(source, re.DOTALL)
    assert steepest(pattern, "findall")[0] > TOO_STEEP


def test_placing_the_links_of_a_pdf_takes_linear_time() -> None:
    """Text and links grow together; the anchors begin alike and match nowhere."""

    def place(length: int) -> str:
        links = [PageLink(f"http://a.example/{n}", "a" * 20 + f"b{n}") for n in range(length // 24)]
        return LinkPlacement(links).place("a" * length)

    assert growth(place, int) < TOO_STEEP


def test_folding_a_text_of_many_different_characters_takes_linear_time() -> None:
    """Private characters, each of which becomes a space."""

    def text(length: int) -> str:
        return "".join(chr(0xF0000 + number) for number in range(length))

    assert growth(tokenize_bytes, text) < TOO_STEEP
