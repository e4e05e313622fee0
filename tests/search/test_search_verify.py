"""`verify` compares the index with the collection, and repairs it."""

from contextlib import closing
from pathlib import Path

import pytest

from checks.indexed import Sheet, lose, spoil, store
from opilio.manage.compact import check_and_repair, compact
from opilio.manage.verify import check_index
from opilio.search.indexer import update_index
from opilio.search.manifest import IndexManifest
from opilio.search.searcher import Searcher
from opilio.store.collection import Collection, open_readonly

A = "http://a.example"


def problems(folder: Path) -> list[str]:
    with open_readonly(folder) as collection:
        return list(check_index(collection))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = store(tmp_path / "c", [Sheet(url=f"{A}/{n}", title="Wren", text=f"number{n}") for n in range(4)])
    update_index(made)
    return made


def test_index_that_agrees_or_is_behind_is_no_problem(folder: Path, tmp_path: Path) -> None:
    assert problems(folder) == []
    store(folder, [Sheet(url=f"{A}/0", title="Eagle"), Sheet(url=f"{A}/9", title="Owl")])
    lose(folder, f"{A}/1", 1.8e9)
    assert problems(folder) == []
    assert problems(store(tmp_path / "without", [Sheet(url=f"{A}/0")])) == []


def test_past_version_that_only_the_index_has_is_reported_and_let_go(folder: Path) -> None:
    store(folder, [Sheet(url=f"{A}/0", title="Eagle")])
    update_index(folder)
    assert problems(folder) == []
    with closing(Collection.open_for_writing(folder)) as collection:
        collection.connection.execute("DELETE FROM version")
    (result,) = problems(folder)
    assert "holds 1 past versions of pages, the collection has 0" in result
    assert result in check_and_repair(folder, 1.8e9).repaired


def test_index_of_a_collection_that_dropped_versions_is_no_problem(folder: Path) -> None:
    store(folder, [Sheet(url=f"{A}/0", title="Eagle")])
    update_index(folder)
    compact(folder, 1.8e9, versions=0)
    assert problems(folder) == []
    update_index(folder)
    assert problems(folder) == []


@pytest.mark.parametrize("file", ["terms/*.store", "terms/*.pos", "derived.db"])
def test_index_whose_files_are_damaged_is_reported_and_made_again(folder: Path, file: str) -> None:
    spoil(folder, file)
    found = problems(folder)
    assert all(problem.startswith("index: ") for problem in found)
    assert any(problem.startswith(f"index: {folder}/index: the index is damaged") for problem in found)
    assert set(found) <= set(check_and_repair(folder, 1.8e9).repaired)
    assert problems(folder) == []
    assert Searcher([folder]).search("wren").total == 4


@pytest.mark.parametrize(
    ("damage", "result"),
    [
        ("DELETE FROM entry WHERE key = (SELECT min(key) FROM entry)", "index: lacks http://a.example/"),
        ("UPDATE entry SET seq = 0", "or holds an older version"),
        ("INSERT INTO entry VALUES (7, 1, 0, 0, x'', '')", "no longer has (key 7)"),
    ],
)
def test_index_that_does_not_agree_is_reported_and_made_again(folder: Path, damage: str, result: str) -> None:
    manifest = IndexManifest(folder / "index")
    manifest.connection.execute(damage)
    manifest.close()
    assert any(result in problem for problem in problems(folder))
    report = check_and_repair(folder, 1.8e9)
    assert [text for text in report.problems if text.startswith("index")] == []
    assert Searcher([folder]).search("wren").total == 4
