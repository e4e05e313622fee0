"""`opilio.open()`: status, pages, search, explanations, labels, exports; the same values as the commands' `--json`."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

import opilio
from checks.small_webs import TRAINS, SmallWeb, crawl, grid, page, served, settings_for
from checks.small_webs import opilio as command

SEED = "http://h0.example/0.html"
OTHER = "http://trains.example/"
HOSTILE = "http://hostile.example/"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("api") / "birds"
    web = grid(2, 8) | {OTHER: page(TRAINS, [SEED], "Trains")}
    web[HOSTILE] = page(links=[SEED], title="<script>alert(1)</script> wrens")
    with served(SmallWeb(web)) as server:
        crawl(into, settings_for(server, [OTHER, HOSTILE]))
    return into


def test_status_is_that_of_the_command(folder: Path) -> None:
    status = opilio.open(folder).status
    printed = json.loads(command("status", folder, "--json").stdout)
    assert {"schema": 1, **msgspec.to_builtins(status)} == printed
    assert (status.pages, status.relevant) == (18, 17)


def test_why_and_history_are_those_of_the_commands(folder: Path) -> None:
    with opilio.open(folder) as birds:
        for name, result in (("why", birds.why(SEED)), ("history", birds.history(SEED))):
            printed = json.loads(command(name, folder, SEED, "--json").stdout)
            assert {"schema": 1, **json.loads(msgspec.json.encode(result))} == printed
        assert not birds.why("http://nowhere.example/").found


def test_pages_are_those_of_the_export(folder: Path, tmp_path: Path) -> None:
    birds = opilio.open(folder)
    table = birds.pages(columns=[*birds.pages().columns, "polarity", "text"])
    exported = [json.loads(line) for line in command("export", folder).stdout.splitlines()]
    assert table.to_list() == exported
    assert birds.export(tmp_path / "birds.jsonl") == len(exported) == len(table)
    assert [json.loads(line) for line in (tmp_path / "birds.jsonl").read_text().splitlines()] == exported


def test_pages_are_selected_by_their_properties(folder: Path) -> None:
    birds = opilio.open(folder)
    assert [p.url for p in birds.pages(relevant=False)] == [OTHER]
    assert {p.host for p in birds.pages(host="h1.example")} == {"h1.example"}
    assert len(birds.pages(relevant=True, min_score=0.0)) == 17
    assert len(birds.pages(min_score=2.0)) == len(birds.pages(language="xx")) == len(birds.pages(genre="none")) == 0


def test_pages_are_typed_and_read_their_text_when_asked(folder: Path) -> None:
    first = next(iter(opilio.open(folder).pages(relevant=False)))
    assert isinstance(first, opilio.StoredPage)
    assert (first.title, first.relevant, first.status) == ("Trains", False, 200)
    assert TRAINS in first.text


def test_pages_become_tables_of_other_libraries(folder: Path) -> None:
    table = opilio.open(folder).pages(relevant=True, columns=["url", "score", "relevant"])
    arrow = table.to_arrow()
    assert (arrow.column_names, arrow.num_rows) == (["url", "score", "relevant"], 17)
    assert arrow.to_pylist() == table.to_list()
    assert opilio.open(folder).pages(min_score=2.0).to_arrow().num_rows == 0
    pytest.importorskip("pandas")
    frame = table.to_pandas()
    assert frame.to_dict("records") == table.to_list()


def test_unknown_column_is_named(folder: Path) -> None:
    with pytest.raises(opilio.UsageError, match=r"column 'titel': unknown \(did you mean 'title'\?\)"):
        opilio.open(folder).pages(columns=["titel"])


def test_wrong_conditions_and_labels_are_named(folder: Path) -> None:
    birds = opilio.open(folder)
    with pytest.raises(opilio.UsageError, match=r"pages\(\): min_score: expected number"):
        birds.pages(min_score="high")  # type: ignore[arg-type]
    with pytest.raises(opilio.UsageError, match=rf"label\(\): {SEED}: give True, False or None, not 'yes'"):
        birds.label({SEED: "yes"})  # type: ignore[dict-item]


def test_search_is_that_of_the_command(folder: Path) -> None:
    results = opilio.open(folder).search("wrens", limit=3, filters={"relevant": True})
    printed = json.loads(command("search", folder, "wrens", "--limit", 3, "--relevant", "--json").stdout)
    ours = json.loads(msgspec.json.encode(results))
    assert (len(results), ours["hits"], ours["total"]) == (3, printed["hits"], printed["total"])
    hit = next(iter(results))
    assert "wren" in str(hit.snippet).lower()


def test_wrong_filters_are_named(folder: Path) -> None:
    birds = opilio.open(folder)
    with pytest.raises(opilio.UsageError, match="filters: unknown host; known: hosts, "):
        birds.search("wren", filters={"host": "h0.example"})
    with pytest.raises(opilio.UsageError, match="filters: hosts: expected "):
        birds.search("wren", filters={"hosts": 7})
    with pytest.raises(opilio.QueryError):
        birds.search("wren AND (")


def test_results_are_displayed_with_text_of_the_web_escaped(folder: Path) -> None:
    birds = opilio.open(folder)
    found = birds.search("wrens", filters={"hosts": ["hostile.example"]})
    pages = birds.pages(host="hostile.example")
    passages = birds.passages("wrens", filters={"hosts": ["hostile.example"]})
    assert len(passages) > 0
    shown: list[Any] = [pages, next(iter(pages)), found, passages, birds.why(HOSTILE), birds.history(HOSTILE)]
    out = StringIO()
    for result in [birds, *shown]:
        Console(width=200, file=out).print(result)
        assert "<script" not in result._repr_html_()
    assert ["alert(1)" in result._repr_html_() for result in shown] == [True] * 6
    assert "<script>alert(1)" in out.getvalue()  # a terminal shows the text as it is


def test_results_are_short_at_the_prompt(folder: Path) -> None:
    birds = opilio.open(folder)
    found = birds.search("wren", limit=3)
    assert repr(found).startswith("SearchResults(query='wren', total=")
    assert "hits=[3 items]" in repr(found)
    assert repr(found.hits[0]).startswith(f"SearchHit(url={found.hits[0].url!r}, key=")
    assert f"title={str(found.hits[0].title)!r}" in repr(found.hits[0])
    page = next(iter(birds.pages(relevant=True)))
    others = (birds.status, birds.why(page.url), birds.history(page.url), birds.passages("wren"))
    assert [len(repr(one)) < 1_000 for one in (found, found.hits[0], *others)] == [True] * 6


def test_closed_collection_is_refused(folder: Path) -> None:
    with opilio.open(str(folder)) as birds:
        assert repr(birds) == f"opilio.open({str(folder)!r})"
    with pytest.raises(opilio.CollectionError, match="this object is closed"):
        _ = birds.status
    with pytest.raises(opilio.CollectionError):
        opilio.open(folder / "missing")


def test_export_chooses_the_format_by_the_name(folder: Path, tmp_path: Path) -> None:
    birds = opilio.open(folder)
    assert birds.export(tmp_path / "birds.csv", relevant=True) == 17
    assert (tmp_path / "birds.csv").read_text().startswith("url,host,title,")
    assert birds.export(tmp_path / "data", format="warc") == 18
    with pytest.raises(opilio.UsageError, match="already exists"):
        birds.export(tmp_path / "birds.csv")
    with pytest.raises(opilio.UsageError, match=r"give a format or a name that ends in \.md\.jsonl, \.jsonl, "):
        birds.export(tmp_path / "birds.txt")


def test_labels_are_stored_and_removed(tmp_path: Path) -> None:
    with served(SmallWeb(grid(1, 4) | {OTHER: page(TRAINS, [SEED], "Trains")})) as server:
        crawl(tmp_path / "c", settings_for(server, [OTHER], strategy="opilio"))
    birds = opilio.open(tmp_path / "c")
    report = birds.label({OTHER: True, SEED: True})
    assert (report.labels, report.verdicts_changed) == (2, 1)
    assert [p.url for p in birds.pages(relevant=False)] == []
    removed = birds.label({OTHER: None})
    printed = json.loads(command("label", tmp_path / "c", OTHER, "--relevant", "--json").stdout)
    assert printed.keys() == {"schema", *msgspec.to_builtins(removed)}
    assert (removed.verdicts_changed, printed["verdicts_changed"]) == (1, 1)
    birds.label({OTHER: None})
    assert [p.url for p in birds.pages(relevant=False)] == [OTHER]
    with pytest.raises(opilio.UsageError, match=r"http://nowhere.example/: is not in the collection.*\n.*'wren'"):
        birds.label({"http://nowhere.example/": True, "wren": False, SEED: False})
    assert [p.url for p in birds.pages(relevant=False)] == [OTHER]  # nothing was stored
