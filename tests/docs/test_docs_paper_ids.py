"""Every item of the papers' feature lists has its line in docs/lab, and the tests that it names are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / "docs" / "lab" / name).read_text(encoding="utf-8") for name in ("s2-ids.md", "paper-ids.md")}
COUNTS = {"S0": (35, 12, 1), "S1": (34, 8, 2), "S2": (51, 14, 14), "S3": (40, 12, 3), "S4": (26, 11, 2)}


def ids_of(paper: str) -> list[str]:
    items, errata, future = COUNTS[paper]
    more = ["S2-40b", "S2-40c"] if paper == "S2" else []
    named = [*(f"{paper}-E{n}" for n in range(1, errata + 1)), *(f"{paper}-F{n}" for n in range(1, future + 1))]
    return [*(f"{paper}-{n:02}" for n in range(1, items + 1)), *more, *named]


def told(page: str) -> set[str]:
    """The ids in the first cells; `S0-15 … S0-20` names all between."""
    cells = " ".join(re.findall(r"^\| (S\d-[^|]+) \|", page, re.MULTILINE))
    spans = re.findall(r"(S\d)-(\d+) … S\d-(\d+)", cells)
    between = {f"{paper}-{n:02}" for paper, first, last in spans for n in range(int(first), int(last) + 1)}
    return between | set(re.findall(r"S\d-\w+", cells))


@pytest.mark.parametrize("paper", COUNTS)
def test_every_item_of_a_paper_has_its_line(paper: str) -> None:
    named = set().union(*map(told, PAGES.values()))
    assert [one for one in ids_of(paper) if one not in named] == []


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_tests_that_the_page_names_are_there(page: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", page))
    known = {
        name
        for folder in (ROOT / "tests", ROOT / "src" / "opilio" / "testing")
        for path in folder.rglob("*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8"))
    }
    assert named - known == set()


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_settings_that_the_page_names_are_documented(page: str) -> None:
    reference = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:rank|judge|senses|order|stop|store|boost|topic)\.\w+)", page))
    assert [name for name in sorted(named) if f"`{name}" not in reference] == []
