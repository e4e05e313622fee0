"""Sizes stay small: the limits that keep every part readable in one sitting. `make check` runs this."""

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "opilio"
FUNCTION_LINES, MODULE_LINES, PUBLIC_METHODS, PARAMETERS = 50, 350, 12, 6
MEDIAN_FUNCTION, NINTH_DECILE = 9, 28

# What may be larger, and why. Keep it short: a line here is a debt.
EXEMPT = {
    "crawl/analyst.py:Analyst.__init__ parameters": "one argument per step between an answer and an outcome",
    "rank/linkscore.py:LinkScoreRanker.__init__ parameters": "its options are its constructor's arguments",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
MODULES = sorted(PACKAGE.rglob("*.py"))


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    for node in ast.iter_child_nodes(tree):
        name = f"{prefix}{getattr(node, 'name', '')}"
        if isinstance(node, Function):
            yield name, node
        yield from _functions(node, f"{name}." if isinstance(node, Function | ast.ClassDef) else prefix)


def _lines(node: Function) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def _parameters(node: Function) -> int:
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def _too_large(path: Path) -> Iterator[tuple[str, int]]:
    """What is over a limit in a module, by a name that an exemption can give."""
    text = path.read_text(encoding="utf-8")
    where, tree = path.relative_to(PACKAGE).as_posix(), ast.parse(text)
    if (lines := text.count("\n")) > MODULE_LINES:
        yield f"{where} lines", lines
    for name, function in _functions(tree):
        if (lines := _lines(function)) > FUNCTION_LINES:
            yield f"{where}:{name} lines", lines
        if (count := _parameters(function)) > PARAMETERS and not _is_schema(path):
            yield f"{where}:{name} parameters", count
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and (count := _public_methods(node)) > PUBLIC_METHODS:
            yield f"{where}:{node.name} public methods", count


def _public_methods(node: ast.ClassDef) -> int:
    return len([m for m in node.body if isinstance(m, Function) and not m.name.startswith("_")])


def _is_schema(path: Path) -> bool:
    """Modules whose functions take what the user sets: options of a command, of the Python API or of a kind."""
    return path.parent in (PACKAGE / "cli", PACKAGE / "api") or path.name in ("factories.py", "expansion_kinds.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_module_is_small(path: Path) -> None:
    assert [found for found in _too_large(path) if found[0] not in EXEMPT] == []


def test_functions_are_short_over_the_whole_package() -> None:
    sizes = [_lines(f) for path in MODULES for _, f in _functions(ast.parse(path.read_text(encoding="utf-8")))]
    assert median(sizes) <= MEDIAN_FUNCTION
    assert quantiles(sizes, n=10)[8] <= NINTH_DECILE


def test_exemptions_are_needed() -> None:
    assert set(EXEMPT) <= {name for path in MODULES for name, _ in _too_large(path)}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_module_says_what_it_is_for(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not tree.body or ast.get_docstring(tree)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_module_is_no_grab_bag(path: Path) -> None:
    assert path.stem not in {"utils", "util", "helpers", "common", "misc", "settings"}
