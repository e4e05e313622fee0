"""Modules, functions and folders keep a readable size: not too large, and not in splinters. `make check` runs this."""

import ast
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "opilio"
FUNCTION_LINES, MODULE_LINES, PUBLIC_METHODS, PARAMETERS = 50, 350, 12, 6
MEDIAN_FUNCTION, NINTH_DECILE = 9, 28
# The other end: a reader should not have to open ten files for one idea.
MEDIAN_MODULE, SMALL_MODULE, SMALL_MODULES, FOLDER_MODULES = 100, 40, 20, 20

# What may be larger, and why. Keep it short: a line here is a debt.
EXEMPT = {
    "core/protocols.py:Frontier public methods": "the whole contract between the engine and a frontier",
    "engine/analysis.py:PageAnalyzer.__init__ parameters": "one argument per step between an answer and an outcome",
    "engine/link_memory.py:CommitteeLearner public methods": "implements Learns",
    "frontier/memory_tables.py:MemoryTables public methods": "every move between the tables of one frontier",
    "frontier/sqlite/urls.py:UrlTable public methods": "every statement that writes the URL table",
    "frontier/memory.py:MemoryFrontier public methods": "implements Frontier",
    "frontier/sqlite/frontier.py:SqliteFrontier public methods": "implements Frontier",
    "frontier/postgres/frontier.py:PostgresFrontier public methods": "implements Frontier",
    "judge/learned.py:LearnedJudge public methods": "implements Judge, Learns, SamplesPages and WeighsLinks",
    "methods/agents/frontier.py:SharedFrontier public methods": "implements Frontier",
    "methods/agents/link_queue.py:AgentLinkQueue public methods": "one queue: what it offers belongs together",
    "rank/baselines.py:LinkScoreRanker.__init__ parameters": "its options are its constructor's arguments",
}

# Functions that build components (module:function): the keyword arguments are the component's options.
_PROJECT = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FACTORIES = {value for group in _PROJECT["entry-points"].values() for value in group.values()}

# The parts of S0's architecture (S0-03, S0-34), with those that each may use.
S0_PARTS: dict[str, frozenset[str]] = dict.fromkeys(
    ("seeds", "frontier", "fetch", "parse", "dedup", "judge", "rank", "store", "topic"), frozenset()
)
S0_PARTS |= {"judge": frozenset({"topic"}), "rank": frozenset({"topic"}), "seeds": frozenset({"parse"})}

Function = ast.FunctionDef | ast.AsyncFunctionDef
MODULES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}
# Modules that hold code: a package's `__init__` and an entry point are as small as they can be.
WITH_CODE = [path for path in MODULES if path.stem not in ("__init__", "__main__")]


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    for node in ast.iter_child_nodes(tree):
        name = f"{prefix}{getattr(node, 'name', '')}"
        if isinstance(node, Function):
            yield name, node
        yield from _functions(node, f"{name}." if isinstance(node, Function | ast.ClassDef) else prefix)


def _lines(node: Function) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def _body_lines(node: Function) -> int:
    """Lines without signature and docstring: the options of a command are a table, not code."""
    assert node.end_lineno is not None
    first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
    return node.end_lineno - first.lineno + 1


def _parameters(node: Function) -> int:
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def _docstring_lines(tree: ast.Module) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            found.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


def _code_lines(path: Path) -> int:
    """Lines that are neither blank, nor comment, nor docstring."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    written = {number for number, line in lines if line.strip() and not line.lstrip().startswith("#")}
    return len(written - _docstring_lines(TREES[path]))


def _too_large(path: Path) -> Iterator[tuple[str, int]]:
    """What is over a limit in a module, by a name that an exemption can give."""
    where = _name(path)
    if (lines := _code_lines(path)) > MODULE_LINES:
        yield f"{where} code lines", lines
    for name, function in _functions(TREES[path]):
        if (lines := _body_lines(function) if _is_schema(path, name) else _lines(function)) > FUNCTION_LINES:
            yield f"{where}:{name} lines", lines
        if (count := _parameters(function)) > PARAMETERS and not _is_schema(path, name):
            yield f"{where}:{name} parameters", count
    for node in ast.walk(TREES[path]):
        # The methods of a conformance suite are tests.
        if not isinstance(node, ast.ClassDef) or node.name.endswith("Checks"):
            continue
        if (count := _public_methods(node)) > PUBLIC_METHODS:
            yield f"{where}:{node.name} public methods", count


def _public_methods(node: ast.ClassDef) -> int:
    return len([m for m in node.body if isinstance(m, Function) and not m.name.startswith("_")])


def _is_schema(path: Path, function: str) -> bool:
    """Where parameters are what a user may set: a command's options, the options of a component."""
    folder = path.parent.relative_to(PACKAGE).parts
    module = ".".join(("opilio", *folder, path.stem))
    return (
        folder[:1] in (("cli",), ("api",)) or folder[:2] == ("engine", "wiring") or f"{module}:{function}" in FACTORIES
    )


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_module_is_small(path: Path) -> None:
    assert [found for found in _too_large(path) if found[0] not in EXEMPT] == []


def test_functions_are_short_over_the_whole_package() -> None:
    sizes = [_lines(function) for tree in TREES.values() for _, function in _functions(tree)]
    assert median(sizes) <= MEDIAN_FUNCTION
    assert quantiles(sizes, n=10)[8] <= NINTH_DECILE


def test_exemptions_are_needed() -> None:
    named = {exempt.partition(":")[0].removesuffix(" code lines") for exempt in EXEMPT}
    assert set(EXEMPT) <= {name for path in MODULES if _name(path) in named for name, _ in _too_large(path)}


def test_modules_are_not_splinters() -> None:
    sizes = {_name(path): _code_lines(path) for path in WITH_CODE}
    small = sorted((lines, name) for name, lines in sizes.items() if lines < SMALL_MODULE)
    assert median(sizes.values()) >= MEDIAN_MODULE
    assert len(small) <= SMALL_MODULES, f"merge some of the {len(small)} small modules into their neighbours: {small}"


def test_folders_can_be_read_at_a_glance() -> None:
    counts = Counter(_name(path.parent) for path in WITH_CODE)
    assert {folder: count for folder, count in counts.items() if count > FOLDER_MODULES} == {}


def test_class_names_are_used_once() -> None:
    places = defaultdict(list)
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(_name(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_module_says_what_it_is_for(path: Path) -> None:
    assert not TREES[path].body or ast.get_docstring(TREES[path])


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_module_is_no_grab_bag(path: Path) -> None:
    assert path.stem not in {"utils", "util", "helpers", "common", "misc"}


@pytest.mark.parametrize("part", S0_PARTS)
def test_parts_of_the_architecture_do_not_import_one_another_s0_03_s0_34(part: str) -> None:
    """Seeds, queue, downloader, parser, recognition of copies, scorers of pages and links, table, stores."""
    modules = {
        path: tree for path, tree in TREES.items() if path.relative_to(PACKAGE).parts[0].removesuffix(".py") == part
    }
    named = {name for tree in modules.values() for name in _imported(tree) if name.startswith("opilio.")}
    assert named
    assert {name.split(".")[1] for name in named} & S0_PARTS.keys() - {part} == S0_PARTS[part]


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
