"""`opilio search` and `opilio maintain reindex`."""

import json
from pathlib import Path

import pytest

from checks.indexed import Sheet, store
from checks.small_webs import one_line, opilio

PAGES = [
    Sheet(url="http://a.example/wren", title="The wren", text="A wren is a small bird.", score=0.9),
    Sheet(url="http://b.example/robin", title="Robins", text="A robin is a bird.", score=0.7),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store(tmp_path_factory.mktemp("commands") / "birds", PAGES)


def test_search_prints_hits_to_stdout_and_counts_to_stderr(folder: Path) -> None:
    done = opilio("search", folder, "wren")
    assert done.returncode == 0
    assert "The wren\n     http://a.example/wren\n     A wren is a small bird.\n" in done.stdout
    assert "1–1 of 1 page (" in done.stderr


def test_search_reports_how_many_pages_of_hits_there_are(folder: Path) -> None:
    done = opilio("search", folder, "bird", "--page", 99)
    assert (done.returncode, done.stdout) == (0, "")
    assert "no page 99 of results: --page goes up to 1" in done.stderr


def test_search_reports_a_filter_that_no_page_meets(folder: Path) -> None:
    assert 'No page has the genre "nwes".\n' in opilio("search", folder, "bird", "--genre", "nwes").stderr
    result = opilio("search", folder, "bird host:c.example").stderr
    assert 'No page has the host "c.example". There are: a.example, b.example.\n' in result


def test_search_prints_one_object_when_asked_for_json(folder: Path) -> None:
    done = opilio("search", folder, "bird", "--host", "b.example", "--json")
    result = json.loads(done.stdout)
    assert (result["schema"], result["total"], result["hits"][0]["url"]) == (1, 1, "http://b.example/robin")
    assert {"text": "bird", "marked": True} in result["hits"][0]["snippet"]


def test_search_suggests_a_better_spelling(folder: Path) -> None:
    assert "did you mean: robin" in opilio("search", folder, "robbin").stderr


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (["wren"], "give a collection and then the query"),
        (["nowhere", "wren"], "not a collection"),
        (["BIRDS", '"wren'], "unclosed quote"),
        (["BIRDS", "wren", "--sort", "x"], "is unknown; known: best"),
        (["BIRDS", "wren", "--after", "x"], "is not a date"),
        (["BIRDS", "wren", "--page", "5000"], "narrow the search"),
        (["BIRDS", "wren", "--band", "hihg"], "is unknown; known: very high, high, medium, low, very low"),
    ],
)
def test_search_explains_what_is_wrong_in_one_line(folder: Path, arguments: list[str], result: str) -> None:
    done = opilio("search", *[folder if word == "BIRDS" else word for word in arguments])
    assert done.returncode in (1, 2)
    assert result in one_line(done)


def test_index_is_made_again_and_asked_for_subtopics_and_similar_pages(folder: Path) -> None:
    assert opilio("maintain", "reindex", folder).stdout == "2 pages indexed\n"
    assert "fewer than twelve relevant pages" in opilio("topic", "subtopics", folder).stderr
    assert "http://b.example/robin" in opilio("search", "--like", folder, "http://a.example/wren").stdout
    assert "give the URL of a fetched page" in one_line(opilio("search", "--like", folder, "http://c.example/"))
