"""Every item of the papers' feature lists has one row with a verdict, and the tests that it names exist."""

import re
from pathlib import Path

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


def test_tests_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    known = {
        name
        for folder in (ROOT / "tests", ROOT / "src" / "opilio" / "testing")
        for path in folder.rglob("*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8"))
    }
    assert named - known == set()


def test_settings_that_the_page_names_are_documented() -> None:
    reference = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:rank|judge|senses|order|stop|store|boost|topic)\.\w+)", PAGE))
    assert [name for name in sorted(named) if f"`{name}" not in reference] == []
