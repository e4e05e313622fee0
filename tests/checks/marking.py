"""Marks tests by what they use: `browser`, `process`, `kill`, `system`.

The globals that a test, its fixtures and their helpers refer to are followed as long as they belong to the tests. A new
test needs no mark of its own this way, and `make quick` stays quick. Only `slow` and `install` are set where a test is
defined.
"""

import inspect
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

import pytest

TESTS = Path(__file__).parents[1]
SYSTEM_FOLDERS = frozenset({"lab", "web"})
# A name that is used anywhere on the way to the mark it stands for.
MARKS = {
    "sync_playwright": "browser",
    "needs_chromium": "browser",
    "Popen": "process",
    "Process": "process",
    "ProcessPoolExecutor": "process",
    "get_context": "process",
    "subprocess": "process",
    "SIGKILL": "kill",
    "killed_after": "kill",
}


def marks_of(item: pytest.Function) -> set[str]:
    """The marks of one collected test."""
    fixtures = [definition.func for found in item._fixtureinfo.name2fixturedefs.values() for definition in found]
    system = {"system"} if SYSTEM_FOLDERS & set(item.path.relative_to(TESTS).parts[:-1]) else set()
    return system | {
        MARKS[name]
        for start in (item.function, *fixtures)
        for function in _reached(inspect.unwrap(start))
        for name in _names(function.__code__)
        if name in MARKS
    }


@cache
def _reached(start: FunctionType) -> tuple[FunctionType, ...]:
    """The functions of the tests that a function refers to, directly or through others, and itself."""
    found: dict[FunctionType, None] = {}
    waiting = [start]
    while waiting:
        function = waiting.pop()
        if function not in found:
            found[function] = None
            waiting += [
                near
                for name in _names(function.__code__)
                if name in function.__globals__
                for near in _functions(function.__globals__[name])
            ]
    return tuple(found)


def _functions(value: object) -> Iterator[FunctionType]:
    """What a name stands for, as functions of the tests: the function itself, or the methods of a class."""
    if inspect.isclass(value) and _is_ours(value.__module__):
        for member in vars(value).values():
            yield from _functions(getattr(member, "fget", None) or getattr(member, "__func__", member))
    elif callable(value):
        plain = inspect.unwrap(value)
        if isinstance(plain, FunctionType) and _is_ours(plain.__module__):
            yield plain


@cache
def _is_ours(module: str) -> bool:
    path = getattr(sys.modules.get(module), "__file__", None)
    return path is not None and TESTS in Path(path).parents


@cache
def _names(code: CodeType) -> frozenset[str]:
    """The globals and attributes that code uses, inner functions included."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return frozenset(code.co_names).union(*inner)
