"""Tags, notes, lists and saved searches: written, exported, kept by merge, compact, copies of files and moves."""

import json
import shutil
from pathlib import Path

import pytest

import opilio
from checks.page_server import crawled
from opilio.cli.main import run_command
from opilio.core.errors import QueryError, UsageError
from opilio.core.records import url_key
from opilio.manage.compact import compact
from opilio.manage.merge import merge
from opilio.manage.verify import verify
from opilio.search.results import SearchFilters
from opilio.search.searcher import Searcher
from opilio.store.annotations import Annotations, annotations_of, copy_annotations, mark_search_seen
from opilio.store.collection import Collection, open_readonly

SITE = "http://h0.example"
FIRST, SECOND, THIRD = (f"{SITE}/{page}.html" for page in (0, 1, 3))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return crawled(tmp_path_factory.mktemp("annotations") / "birds")


@pytest.fixture
def birds(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "birds"))


def noted(folder: Path, url: str) -> Annotations:
    with open_readonly(folder) as collection:
        return annotations_of(collection.connection, url_key(url))


def test_pages_are_annotated_through_the_api(birds: Path) -> None:
    with opilio.open(birds) as collection:
        assert collection.tag(FIRST, " to   read", "wren").tags == ("to read", "wren")
        assert collection.tag(FIRST, "to read", remove=True).tags == ("wren",)
        assert collection.note(FIRST, "quote the second paragraph").note == "quote the second paragraph"
        collection.lists.add("cite", THIRD, FIRST, SECOND)
        collection.lists.move("cite", SECOND, 1)
        assert dict(collection.lists) == {"cite": (SECOND, THIRD, FIRST)}
        assert [page.url for page in collection.pages(in_list="cite")] == [SECOND, THIRD, FIRST]
        collection.lists.rename("cite", "to cite")
        collection.lists.remove("to cite", THIRD)
        assert collection.note(FIRST) == Annotations(
            tags=("wren",), note="quote the second paragraph", lists=("to cite",)
        )
        assert [hit.tags for hit in collection.search("", filters={"tags": ("wren",)})] == [("wren",)]
        del collection.lists["to cite"]
        assert len(collection.lists) == 0
        assert collection.note(FIRST, "").note == ""


@pytest.mark.parametrize(
    ("url", "tag", "problem"),
    [
        ("http://h0.example/none.html", "wren", "is not a stored page"),
        ("h0.example", "wren", "not a valid http"),
        (FIRST, " ", "the name is empty"),
        (FIRST, "a,b", "comma"),
        (FIRST, "x" * 81, "longer than 80"),
    ],
)
def test_annotation_that_is_wrong_changes_nothing(birds: Path, url: str, tag: str, problem: str) -> None:
    with opilio.open(birds) as collection, pytest.raises(UsageError, match=problem):
        collection.tag(url, "fine", tag)
    assert noted(birds, FIRST) == Annotations()


def test_saved_search_lists_what_was_stored_since(birds: Path) -> None:
    with opilio.open(birds) as collection:
        collection.searches.save("birds", "wren", SearchFilters(hosts=("h0.example",)))
        saved = collection.searches["birds"]
        assert collection.searches.new("birds").total == 0
        collection.searches.seen("birds")
        hits = Searcher([birds]).new_hits(saved, 0.0, 100)
        assert hits.total
        assert all(hit.relevant and hit.host == "h0.example" for hit in hits)
        assert [hit.fetched_at for hit in hits] == sorted((hit.fetched_at for hit in hits), reverse=True)
        del collection.searches["birds"]
        assert "birds" not in collection.searches


def test_search_that_is_wrong_is_neither_saved_nor_marked(birds: Path) -> None:
    with opilio.open(birds) as collection:
        with pytest.raises(QueryError, match="unclosed"):
            collection.searches.save("birds", '"wren')
        assert list(collection.searches) == []
    with pytest.raises(UsageError, match="none is saved under this name"):
        mark_search_seen(birds, "birds", 1.0)


def test_commands_annotate_save_and_export(birds: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def run(*words: object) -> tuple[int, str, str]:
        code = run_command([*map(str, words)])
        return code, *capfd.readouterr()

    _, out, _ = run(
        "label", birds, FIRST, "--tag", "wren", "--tag", "song", "--note", "a & b", "--list", "cite", "--json"
    )
    found = json.loads(out)
    assert (found["tags"], found["note"], found["lists"]) == (["song", "wren"], "a & b", ["cite"])
    assert run("label", birds, SECOND, "--list", "cite")[0] == 0
    assert "tags   song\n" in run("label", birds, FIRST, "--untag", "wren")[1]
    bibtex, ris = (run("export", birds, "--format", form, "--list", "cite")[1] for form in ("bibtex", "ris"))
    assert "keywords = {song}" in bibtex
    assert r"annote = {a \& b}" in bibtex
    assert "KW  - song" in ris
    rows = [json.loads(line) for line in run("export", birds, "--list", "cite")[1].splitlines()]
    assert [(row["url"], row["tags"], row["note"]) for row in rows] == [(FIRST, "song", "a & b"), (SECOND, "", "")]
    assert "tags: song" in run("export", birds, "--tag", "wren")[2]
    assert "lists: cite" in run("export", birds, "--list", "site")[2]
    assert run("label", birds, FIRST, "--tag", "x", "--relevant")[0] == 2
    assert "saved" in run("search", birds, "wren", "--save", "wrens")[2]
    code, _, message = run("search", birds, "--saved", "wrens")
    assert (code, message.startswith("no relevant page was stored since 20")) == (0, True), message
    assert "saved: wrens" in run("search", birds, "--saved", "wren")[2]


def test_annotations_survive_maintenance(birds: Path, tmp_path: Path) -> None:
    other, both = Path(shutil.copytree(birds, tmp_path / "other")), tmp_path / "both"
    with opilio.open(birds) as one, opilio.open(other) as two:
        one.tag(FIRST, "a")
        two.tag(FIRST, "b")
        one.note(FIRST, "first")
        two.note(FIRST, "second")
        one.lists.add("cite", SECOND, FIRST)
        two.lists.add("cite", THIRD, FIRST)
        two.searches.save("wrens", "wren")
    compact(birds, 2e9)
    assert verify(birds) == []
    merge([birds, other], both, 2e9)
    assert verify(both) == []
    with opilio.open(both) as merged:
        assert merged.note(FIRST) == Annotations(tags=("a", "b"), note="first\nsecond", lists=("cite",))
        assert merged.lists["cite"] == (SECOND, FIRST, THIRD)
        assert list(merged.searches) == ["wrens"]


def test_page_that_moves_takes_its_annotations_along(birds: Path) -> None:
    with opilio.open(birds) as collection:
        collection.tag(FIRST, "wren")
        collection.lists.add("cite", FIRST)
    stored = Collection.open_for_writing(birds)
    with stored.unit_of_work():
        copy_annotations(stored.connection, url_key(FIRST), url_key(SECOND))
    stored.close()
    assert noted(birds, SECOND) == Annotations(tags=("wren",), lists=("cite",))
