"""Every item of the papers' feature lists has one row with a verdict, and pytest collects the tests that it names."""

import ast
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from checks.paper_tests import PaperTests

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "paper-ids.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in re.findall(r"^\| [SX]\d?-.*$", PAGE, re.MULTILINE)
]
COUNTS = {"S0": (35, 12, 1), "S1": (34, 8, 2), "S2": (51, 14, 14), "S3": (40, 12, 3), "S4": (26, 11, 2)}


def ids_of(paper: str) -> list[str]:
    items, errata, future = COUNTS[paper]
    more = ["S2-40b", "S2-40c"] if paper == "S2" else []
    named = [*(f"{paper}-E{n}" for n in range(1, errata + 1)), *(f"{paper}-F{n}" for n in range(1, future + 1))]
    return [*(f"{paper}-{n:02}" for n in range(1, items + 1)), *more, *named]


def test_every_item_has_one_row() -> None:
    expected = [*(one for paper in COUNTS for one in ids_of(paper)), *(f"X-{number:02}" for number in range(1, 17))]
    assert sorted(row[0] for row in ROWS) == sorted(expected)
    assert len(expected) == 283


def test_every_row_has_a_verdict_and_the_page_counts_them() -> None:
    verdicts = [row[2] for row in ROWS]
    assert [v for v in verdicts if not re.match(r"works$|partly: |not built", v)] == []
    assert f"{verdicts.count('works')} items work" in " ".join(PAGE.split())


def test_every_row_names_a_test_or_says_that_there_is_nothing_to_build() -> None:
    without = [row[0] for row in ROWS if "`test_" not in "".join(row)]
    assert without == [row[0] for row in ROWS if "nothing to build" in "".join(row)] == ["S2-E14", "S4-E11"]


class SourceFile:
    """The tests of a file: names of functions, and per class the names of its bases and of its own tests."""

    def __init__(self, path: Path) -> None:
        body = ast.parse(path.read_text(encoding="utf-8")).body
        self.functions = run_tests(body)
        self.classes = {
            node.name: ([ast.unparse(base).rpartition(".")[2] for base in node.bases], run_tests(node.body))
            for node in body
            if isinstance(node, ast.ClassDef)
        }


def run_tests(body: list[ast.stmt]) -> set[str]:
    """The tests without a `skip` or `xfail` mark; `skipif` depends on the machine."""
    functions = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {
        node.name
        for node in functions
        if node.name.startswith("test_")
        and not any(re.search(r"\.(skip|xfail)\b", ast.unparse(mark)) for mark in node.decorator_list)
    }


def class_tests(name: str, classes: Mapping[str, tuple[list[str], set[str]]]) -> set[str]:
    """The tests of a class, inherited ones too."""
    bases, own = classes.get(name, ([], set()))
    return own.union(*(class_tests(base, classes) for base in bases))


def test_tests_that_the_page_names_exist_and_are_collected() -> None:
    """pytest collects functions and methods of `Test…` classes, inherited ones too, in files test_*.py.

    The files are read instead of collected: collecting the whole suite takes twenty seconds.
    """
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    suites: dict[str, tuple[list[str], set[str]]] = {}
    for folder in (ROOT / "tests" / "checks", ROOT / "src" / "opilio" / "testing"):
        for path in sorted(folder.rglob("*.py")):
            suites |= SourceFile(path).classes
    collected: set[str] = set()
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        found = SourceFile(path)
        classes = suites | found.classes
        tested = [name for name in found.classes if name.startswith("Test")]
        collected |= found.functions.union(*(class_tests(name, classes) for name in tested))
    assert named - collected == set()


def test_skipped_tests_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "test_some.py"
    path.write_text("@pytest.mark.skip('later')\ndef test_a(): ...\nclass TestB(Suite):\n    def test_b(self): ...\n")
    found = SourceFile(path)
    assert found.functions == set()
    assert class_tests("TestB", found.classes | {"Suite": ([], {"test_c"})}) == {"test_b", "test_c"}


def test_settings_that_the_page_names_are_documented() -> None:
    reference = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:rank|judge|senses|order|stop|store|boost|topic)\.\w+)", PAGE))
    assert [name for name in sorted(named) if f"`{name}" not in reference] == []


def test_named_test_that_was_only_skipped_did_not_run() -> None:
    ran = PaperTests(frozenset({"test_a", "test_b", "test_c"}))
    outcomes = (("test_a", "skipped", "setup"), ("test_b[1]", "skipped", "setup"), ("test_b[2]", "passed", "call"))
    for name, outcome, when in (*outcomes, ("test_d", "skipped", "setup")):
        report = pytest.TestReport(f"tests/test_x.py::{name}", ("", 0, ""), {}, outcome, None, when)  # type: ignore[arg-type]
        ran.pytest_runtest_logreport(report)
    assert ran.not_run == ["test_a"]
