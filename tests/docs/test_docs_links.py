"""Links within the repository lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def _anchors(page: Path) -> set[str]:
    """The anchors that headings get, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def _leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    found = (page.parent / path).resolve() if path else page
    if not found.exists():
        return False
    return not anchor or found.suffix != ".md" or anchor in _anchors(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_of_a_page_resolve(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    inner = [t for t in targets if not t.startswith(("http://", "https://", "mailto:"))]
    assert [t for t in inner if not _leads_somewhere(page, t)] == []


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = LINK.findall((folder / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(p.name for p in folder.glob("*.md") if p.name != "README.md")


@pytest.mark.parametrize("page", [p for p in PAGES if p.parent.name == "decisions" and p.name != "README.md"])
def test_decision_states_context_choice_and_cost(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [part for part in ("**Context.**", "**Choice.**", "**Cost.**") if part not in text] == []
    assert len(text.split()) < 350


def test_architecture_names_classes_that_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"`([A-Z][A-Za-z]+)(?:\.([a-z_]+))?`", text))
    gone = [name for name, _ in named if not re.search(rf"^(class )?{name}\b", source, re.MULTILINE)]
    gone += [method for _, method in named if method and not re.search(rf"\bdef {method}\(", source)]
    assert gone == []
