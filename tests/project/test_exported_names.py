"""The public surface changes on purpose only: a name that comes or goes is a line here and in the CHANGELOG."""

import subprocess
import sys
from pathlib import Path

import pytest

import opilio

EXPORTED = {
    "CollectionError",
    "CollectionView",
    "Comparison",
    "ConfigError",
    "DemoWeb",
    "Event",
    "Explanation",
    "LabelReport",
    "OpilioError",
    "PageHistory",
    "PageTable",
    "PassageResults",
    "QueryError",
    "SearchFilters",
    "SearchHit",
    "SearchResults",
    "SeedError",
    "Status",
    "StoredPage",
    "TopicError",
    "UsageError",
    "__version__",
    "acrawl",
    "compare",
    "crawl",
    "demo_web",
    "open",
}
COLLECTION = {"close", "export", "history", "label", "note", "pages", "passages", "search", "status", "tag", "why"}
PAGES = {"arrow_batches", "rows", "to_arrow", "to_list", "to_pandas"}
DISPLAYED = (
    "CollectionView",
    "Comparison",
    "Explanation",
    "LabelReport",
    "PageHistory",
    "PageTable",
    "PassageResults",
    "SearchResults",
    "Status",
    "StoredPage",
)
API = Path(__file__).parents[2] / "docs" / "api.md"


def public(names: list[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_names_are_those_that_were_agreed_on() -> None:
    assert set(opilio.__all__) == EXPORTED
    assert set(dir(opilio)) >= EXPORTED


@pytest.mark.parametrize("name", sorted(EXPORTED))
def test_name_can_be_imported(name: str) -> None:
    assert getattr(opilio, name) is not None


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'crawll'"):
        opilio.crawll  # noqa: B018


def test_collection_has_the_methods_that_were_agreed_on() -> None:
    assert public(dir(opilio.CollectionView)) == COLLECTION


def test_pages_have_the_methods_that_were_agreed_on() -> None:
    assert public(dir(opilio.PageTable)) == PAGES


@pytest.mark.parametrize("name", DISPLAYED)
def test_results_have_rich_and_html_representations(name: str) -> None:
    result = getattr(opilio, name)
    assert hasattr(result, "__rich__") and hasattr(result, "_repr_html_")


def test_exceptions_are_one_tree() -> None:
    errors = {name for name in EXPORTED if name.endswith("Error")}
    assert all(issubclass(getattr(opilio, name), opilio.OpilioError) for name in errors)


def test_import_loads_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import opilio; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.partition(".")[0] not in {"importlib", "typing"}}
    assert {name for name in loaded if name.startswith("opilio.")} == set()
    assert loaded & {"numpy", "msgspec", "rich", "tantivy", "asyncio"} == set()
