"""Markdown is wrapped, and written in plain technical English."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIDTH = 100
# Reports under docs/lab/*/ are written by `opilio lab run`.
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs" / "decisions").glob("*.md"),
        *(ROOT / "docs" / "papers").glob("*.md"),
        *(ROOT / "docs" / "tutorials").glob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / "docs" / "lab").glob("*.md"),
        *(ROOT / "benchmarks").rglob("*.md"),
        *(ROOT / "src").rglob("*.md"),
    ]
)
BANNED = (
    "whoever|nobody|somebody|anybody|a person|is told|are told|tells?|told|said|looks? again|looked at|is none|so many"
    "|goes? on where|under way|wish(es)?|manners|minds?|desk|shelf|shelves|keeper|ledger|rests"
    "|(is|are) no (?!longer)[a-z]+er"
)
WORD = re.compile(rf"\b({BANNED})\b", re.IGNORECASE)
CODE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`[^`]*`|\]\([^)]*\)")


def _without_code(page: Path) -> list[str]:
    """The lines of a page; lines of code blocks are empty, so that line numbers stay."""
    text = page.read_text(encoding="utf-8")
    return CODE.sub(lambda block: "\n" * block[0].count("\n"), text).split("\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_lines_of_a_page_are_wrapped(page: Path) -> None:
    lines = enumerate(_without_code(page), start=1)
    prose = [(n, line) for n, line in lines if not line.lstrip().startswith("|")]
    # The address of a link may be longer than a line.
    long = [n for n, line in prose if len(line) > WIDTH and " " in line[:WIDTH].lstrip("-1234567890. ")]
    assert long == [], f"lines over {WIDTH} columns"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_page_uses_the_usual_words(page: Path) -> None:
    lines = enumerate(_without_code(page), start=1)
    found = [(n, m[0]) for n, line in lines for m in WORD.finditer(INLINE.sub("", line))]
    assert found == [], "say it with the usual technical word"
