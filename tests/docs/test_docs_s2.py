"""Every item of S2's feature list has its line in docs/lab/s2-ids.md, and the tests that it names are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "lab" / "s2-ids.md").read_text(encoding="utf-8")
IDS = [
    *(f"S2-{number:02}" for number in range(1, 52)),
    *("S2-40b", "S2-40c"),
    *(f"S2-{kind}{number}" for kind in "EF" for number in range(1, 15)),
]


def test_every_item_of_s2_has_its_line() -> None:
    named = set(re.findall(r"S2-\w+", " ".join(re.findall(r"^\| (S2-[^|]+) \|", PAGE, re.MULTILINE))))
    assert [one for one in IDS if one not in named] == []


def test_tests_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    known = {
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8"))
    }
    assert named - known == set()


def test_settings_that_the_page_names_are_documented() -> None:
    reference = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:rank|judge|senses|order|stop|store|boost|topic)\.\w+)", PAGE))
    assert [name for name in sorted(named) if f"`{name}" not in reference] == []
