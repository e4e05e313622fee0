"""An index on an OpenSearch server: the same answers as the embedded index, bulk indexing, and the swap of the alias.

The server is a double of its documented protocol (`checks.opensearch_server`).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

import opilio as opilio_api
from checks.indexed import BIRD_PAGES, QUERIES, A, B, Sheet, judge, lose, store
from checks.opensearch_server import OpenSearchDouble, opensearch_double
from checks.page_server import pages_of
from opilio.cli.main import run_command
from opilio.core.errors import CollectionError, QueryError, UsageError
from opilio.manage.verify import verify
from opilio.search.opensearch.index import OpenSearchClient, OpenSearchIndex
from opilio.search.results import SearchFilters, SearchResults
from opilio.search.searcher import Searcher

# Besides the queries of the embedded index.
MORE_QUERIES = """http://a.example/wren|+small bird|-bird|relevant:yes|band:"very high"|small brown toy|song soft
genre:news|year:2023|text:rails|title:"the wren"|robbin~2|""".replace("\n", "|").split("|")


@pytest.fixture
def server() -> Iterator[OpenSearchDouble]:
    with opensearch_double() as double:
        yield double


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return store(tmp_path / "birds", BIRD_PAGES)


def remote(folder: Path, server: OpenSearchDouble) -> OpenSearchIndex:
    made = OpenSearchIndex(folder, OpenSearchClient(server.url))
    made.update_indexes()
    return made


def names(results: SearchResults) -> set[str]:
    return {hit.url.rpartition("/")[2] for hit in results.hits}


def test_queries_find_the_same_pages_as_in_the_embedded_index(folder: Path, server: OpenSearchDouble) -> None:
    embedded, index = Searcher([folder]), remote(folder, server)
    embedded.update_indexes()
    for query in (*(query for query, _ in QUERIES), *MORE_QUERIES):
        ours, theirs = index.search(query), embedded.search(query)
        assert (query, names(ours), ours.total) == (query, names(theirs), theirs.total)
    assert index.search("http://a.example/wren").hits[0].url == f"{A}/wren"
    (hit,) = index.search("loud").hits
    assert any(segment.marked for segment in hit.snippet)


@pytest.mark.parametrize(
    "filters",
    [
        SearchFilters(hosts=("a.example",)),
        SearchFilters(languages=("de", "ja"), relevant=True),
        SearchFilters(after="2023-11-01", before="2030-01-01", bands=("high", "very high")),
        SearchFilters(before="2000-01-01"),
        SearchFilters(added_after=1.8e9),
        SearchFilters(at=1_700_000_001.0),
    ],
)
def test_filters_and_facets_agree_with_the_embedded_index(
    folder: Path, server: OpenSearchDouble, filters: SearchFilters
) -> None:
    embedded, index = Searcher([folder]), remote(folder, server)
    embedded.update_indexes()
    ours, theirs = index.search("", filters), embedded.search("", filters)
    assert (names(ours), ours.total) == (names(theirs), theirs.total)
    counts = [
        {facet.name: {(v.value, v.count, v.chosen) for v in facet.values if v.count} for facet in results.facets}
        for results in (ours, theirs)
    ]
    assert {name: values for name, values in counts[0].items() if values} == {
        name: values for name, values in counts[1].items() if values
    }


def test_only_changes_are_sent_by_any_machine(folder: Path, server: OpenSearchDouble) -> None:
    assert remote(folder, server).search("wren").total == 1
    store(folder, [Sheet(url=f"{A}/new", title="New", text="Another wren.", at=1_700_000_100.0)])
    lose(folder, f"{A}/robin", 1_700_000_200.0)
    judge(folder, f"{B}/train", relevant=True)
    server.log.clear()
    index = OpenSearchIndex(folder, OpenSearchClient(server.url))
    progress = index.update_indexes()
    assert sum("_bulk" in line for line in server.log) == 2
    # The robin is a past version now.
    assert (progress.indexed, progress.removed) == (3, 1)
    assert names(index.search("wren")) == {"wren", "new"}
    assert names(index.search("robin")) == set()
    assert names(index.search("robin", SearchFilters(at=1_700_000_050.0))) == {"robin"}
    assert names(index.search("relevant:yes rails")) == {"train"}
    assert index.update_indexes().indexed == 0


def test_a_rebuild_swaps_the_alias_and_a_failed_one_changes_nothing(folder: Path, server: OpenSearchDouble) -> None:
    index = remote(folder, server)
    (before,) = server.indexes
    server.refuse_bulk = True
    with pytest.raises(CollectionError, match="429 Data too large"):
        index.rebuild()
    assert list(server.indexes) == [before]
    server.refuse_bulk = False
    assert index.rebuild().indexed == 5
    (after,) = server.indexes
    assert after != before and server.aliases == {"opilio-birds": after}
    assert index.search("wren").total == 1


def test_hits_are_paged_and_sorted(folder: Path, server: OpenSearchDouble) -> None:
    index = remote(folder, server)
    pages = [index.search("", page=n, size=2, sort="relevance") for n in (1, 2, 3)]
    scores = [hit.relevance for page in pages for hit in page.hits]
    assert scores == sorted(scores, reverse=True) and len(scores) == pages[0].total == 5
    assert pages[0].pages == 3


def test_search_and_serve_use_the_server_that_holds_the_index(
    folder: Path, server: OpenSearchDouble, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    embedded = Searcher([folder])
    embedded.update_indexes()
    asked = ("wren OR robin", "host:a.example bird", "Zaunkönig Wald", '"small brown bird"')
    expected = {"newcomer": 1} | {query: embedded.search(query).total for query in asked}
    assert run_command(["maintain", "reindex", str(folder), "--server", server.url]) == 0
    assert "5 pages indexed" in capsys.readouterr().out
    store(folder, [Sheet(url=f"{A}/new", title="New", text="Another newcomer.", at=1_700_000_100.0)])
    # The embedded index stays as it was, so it can't be what answers.
    assert run_command(["search", str(folder), "newcomer", "--json"]) == 0
    (hit,) = json.loads(capsys.readouterr().out)["hits"]
    assert (hit["url"], hit["collections"]) == (f"{A}/new", ["birds"])
    server.log.clear()
    with pages_of([folder], tmp_path) as client:
        for query, total in expected.items():
            found = client.get(f"/search.json?{urlencode({'q': query})}").data
            assert (query, found["total"]) == (query, total)
        assert client.get("/search?q=newcomer").status == 200
        assert client.get("/c/birds/subtopics").status == 400
    assert any("_search" in line for line in server.log)
    with opilio_api.open(folder) as collection:
        assert [one.url for one in collection.search("newcomer").hits] == [f"{A}/new"]
    assert not [line for line in verify(folder) if line.startswith("index")]


def test_an_index_on_a_server_is_searched_alone_until_there_is_an_embedded_one(
    folder: Path, server: OpenSearchDouble, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["maintain", "reindex", str(folder), "--server", server.url]) == 0
    other = store(tmp_path / "other", BIRD_PAGES[:1])
    both = Searcher([folder, other])
    both.update_indexes()
    with pytest.raises(QueryError, match="is searched alone"):
        both.search("wren")
    assert both.search("robin", SearchFilters(collections=("birds",))).total == 1
    for words in (["wren", "--passages"], [f"{A}/wren", "--like"]):
        assert run_command(["search", str(folder), *words]) == 2
        assert "needs an embedded index; 'opilio maintain reindex' without --server" in capsys.readouterr().err
    assert run_command(["maintain", "reindex", str(folder)]) == 0
    server.log.clear()
    assert both.search("wren").total == 1
    assert server.log == []


def test_one_search_takes_a_server(folder: Path, server: OpenSearchDouble, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["search", str(folder), "wren", "--server", server.url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"] == 1


def test_a_wrong_server_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="not the address of an OpenSearch server"):
        OpenSearchClient("search.example:9200")
    assert run_command(["search", str(folder), "wren", "--server", "http://127.0.0.1:1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "can't be reached" in line
