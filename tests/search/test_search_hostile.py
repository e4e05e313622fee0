"""Pages and queries that mean harm, or are only broken: nothing crashes, and what is shown is plain text."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.indexed import Sheet, store
from opilio.core.errors import QueryError
from opilio.search.query import parse_query
from opilio.search.results import IndexDocument, SearchFilters, SearchHit
from opilio.search.schema import MAX_TITLE_LENGTH, to_engine_document
from opilio.search.searcher import Searcher

A = "http://a.example"
SCRIPT = "<script>alert(1)</script>"
PAGES = (
    Sheet(url=f"{A}/long", title="wren " * 200_000, text="harmless"),
    Sheet(url=f"{A}/run", title="run", text="wren " + "x" * 1_000_000),
    Sheet(url=f"{A}/turned", title="wren \u202egnp.exe\u2066\x00\x1b[31m", text="\u202dturned wren\u202c"),
    Sheet(url=f"{A}/half", title="wren half", text="\udfff broken wren"),
    Sheet(url=f"{A}/script", title=f"wren {SCRIPT}", text=f"A wren {SCRIPT}", links=[(f"{A}/long", SCRIPT)]),
    Sheet(url=f"{A}/empty"),
    Sheet(url=f"{A}/lines", title="lines", text="wren\n" * 100_000, heading="wren " * 50_000, language="x" * 5_000),
)


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    made = Searcher([store(tmp_path_factory.mktemp("hostile") / "c", PAGES)])
    made.update_indexes()
    return made


def shown(hit: SearchHit) -> str:
    return "".join(segment.text for segment in (*hit.title, *hit.snippet))


def test_hostile_pages_are_found_and_shown_harmlessly(searcher: Searcher) -> None:
    hits = {hit.url.rpartition("/")[2]: hit for hit in searcher.search("wren", size=50).hits}
    assert set(hits) == {"long", "turned", "half", "script", "lines", "run"}
    for hit in hits.values():
        assert len(shown(hit)) < MAX_TITLE_LENGTH + 400
        assert not set(shown(hit)) & {"\u202e", "\u202d", "\u2066", "\x00", "\x1b", "\ud800"}
        shown(hit).encode()
    assert SCRIPT in shown(hits["script"])  # text is text: the display escapes it


def test_document_of_any_text_and_time_is_made() -> None:
    odd = IndexDocument(
        key=1, seq=1, url=f"{A}/\ud800", host="\ud800", title="\udc00", body="\ud800", date=1e17, score=-5.0
    )
    to_engine_document(odd)


def test_page_without_words_is_browsed_and_named_by_its_address(searcher: Searcher) -> None:
    (hit,) = [hit for hit in searcher.search("", size=50).hits if hit.url == f"{A}/empty"]
    assert [segment.text for segment in hit.title] == [f"{A}/empty"]


@settings(deadline=None, max_examples=150)
@given(query=st.text(max_size=40) | st.text(alphabet='ab "()+-~*:title ORANDNOT', max_size=40))
def test_any_query_is_answered_or_explained(searcher: Searcher, query: str) -> None:
    try:
        searcher.search(query)
    except QueryError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "query", ["\udc80", "wren\x00", "*", "~", '""', "title:", "a:b:c", "~~~2", "http://x/?a=1&b=2", "-"]
)
def test_odd_query_is_answered(searcher: Searcher, query: str) -> None:
    assert searcher.search(query).total >= 0


@settings(deadline=None)
@given(query=st.text(alphabet="ab ()", max_size=60))
def test_brackets_that_fit_are_always_understood(query: str) -> None:
    depth = [query[:n].count("(") - query[:n].count(")") for n in range(len(query) + 1)]
    if min(depth) >= 0 and depth[-1] == 0 and max(depth) <= 10:
        parse_query(query)
    elif min(depth) < 0 or depth[-1]:
        with pytest.raises(QueryError):
            parse_query(query)


@pytest.mark.parametrize(
    "filters",
    [
        SearchFilters(hosts=("\udc80",)),
        SearchFilters(subtopics=("x" * 100_000,)),
        SearchFilters(at=1e300),
        SearchFilters(at=-1e300),
        SearchFilters(languages=("",)),
        SearchFilters(collections=("no such one",)),
    ],
)
def test_odd_filter_finds_nothing(searcher: Searcher, filters: SearchFilters) -> None:
    assert searcher.search("harmless", filters).total in (0, 1)


@pytest.mark.parametrize(
    "arguments", [{"page": 0}, {"size": 0}, {"size": 1_000}, {"page": 10_000}, {"sort": "x"}, {"page": -1}]
)
def test_page_that_can_not_be_is_explained(searcher: Searcher, arguments: dict[str, int]) -> None:
    with pytest.raises(QueryError):
        searcher.search("wren", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "filters", [SearchFilters(after="soon"), SearchFilters(before="2026-13-01"), SearchFilters(at=float("nan"))]
)
def test_date_that_is_invalid_is_explained(searcher: Searcher, filters: SearchFilters) -> None:
    with pytest.raises(QueryError, match="is no"):
        searcher.search("wren", filters)


def test_empty_collection_answers(tmp_path: Path) -> None:
    empty = Searcher([store(tmp_path / "c", [])])
    assert empty.search("wren").total == 0
    assert empty.update_indexes().indexed == 0
    assert empty.search("").hits == ()
    assert empty.subtopics() == ()
