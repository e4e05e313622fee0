"""Passages: which part of which page answers a question, with highlights and a citation."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

import opilio
from checks.indexed import Sheet, store
from checks.small_webs import opilio as command
from opilio.search.passages import MAX_PASSAGE, split_passages
from opilio.search.searcher import Searcher

FILLER = "The collection of the museum was founded long ago and is open to visitors on most days. " * 12
PAGES = (
    Sheet(
        url="http://a.example/wren",
        title="The wren",
        text=f"{FILLER}\nThe wren builds a round nest of moss and grass, low in a hedge.\n{FILLER}",
        score=0.9,
    ),
    Sheet(
        url="http://a.example/manual",
        title="Manual",
        text=f"{FILLER}\n" * 120 + "The incubator is warmed to 38 degrees before eggs are laid into it.",
        score=0.8,
    ),
    Sheet(url="http://a.example/robin", title="Robins", text=f"A robin sings in winter.\n{FILLER}", score=0.7),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store(tmp_path_factory.mktemp("collections") / "birds", PAGES)


def test_best_passage_answers_the_question(folder: Path) -> None:
    best = next(iter(opilio.open(folder).passages("where does the wren build its nest?", limit=3)))
    assert "round nest of moss" in best.text
    assert len(best.text) <= MAX_PASSAGE
    assert {best.text[start:end] for start, end in best.highlights} == {"wren", "builds", "nest"}
    assert best.citation.startswith("The wren. ")
    assert "http://a.example/wren (retrieved " in best.citation


def test_sentences_come_before_a_list_of_names(tmp_path: Path) -> None:
    names = "Great kestrel president Tern Wren Merlin Heron Ostrich Pipit Kestrel Index Plover Rook Shrike " * 4
    told = "The first president of the kestrel society was chosen in the year after it had been founded in a barn. " * 3
    sheets = (
        Sheet(url="http://a.example/index", title="Kestrel president", text=names, score=0.5),
        Sheet(url="http://a.example/society", title="Society", text=told, score=0.5),
    )
    folder = store(tmp_path / "birds", sheets)
    best = next(iter(opilio.open(folder).passages("who was the kestrel president?", limit=2)))
    assert best.url == "http://a.example/society"


def test_end_of_a_long_page_is_found(folder: Path) -> None:
    assert len(PAGES[1].text) > 100_000
    collection = opilio.open(folder)
    assert "warmed to 38 degrees" in next(iter(collection.passages("warm incubator", limit=1))).text
    snippet = "".join(segment.text for segment in collection.search("warm incubator").hits[0].snippet)
    assert "The incubator is warmed" in snippet


def test_page_without_the_words_comes_last_or_not_at_all(folder: Path) -> None:
    found = opilio.open(folder).passages("wren nest moss", limit=2)
    assert [passage.url for passage in found][:1] == ["http://a.example/wren"]
    assert len(opilio.open(folder).passages("zzzz")) == 0


def test_command_prints_passages_and_citations(folder: Path) -> None:
    done = command("search", folder, "wren nest", "--passages", "-n", 1)
    assert "round nest of moss" in done.stdout
    assert "http://a.example/wren (retrieved " in done.stdout
    assert "1 passage (" in done.stderr
    result = json.loads(command("search", folder, "wren nest", "--passages", "--json").stdout)
    assert {"text", "highlights", "url", "title", "citation", "score"} <= set(result["passages"][0])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "One line.",
        "x" * 5_000,  # no sentence, no blank
        "word " * 2_000,
        "A sentence. " * 500 + "\n" + "Short\n" * 300,
        "\n".join(f"Block {n}: " + "some words " * n for n in range(80)),
    ],
)
def test_passages_cover_a_text_without_overlap(text: str) -> None:
    places = list(split_passages(text))
    assert all(start < end <= start + MAX_PASSAGE for start, end in places)
    assert all(before[1] <= after[0] for before, after in pairwise(places))
    covered = "".join(text[start:end] for start, end in places)
    assert "".join(covered.split()) == "".join(text.split())


def sheets_of_one_site(pages: int) -> list[Sheet]:
    """Pages whose first block is the same slogan."""
    return [
        Sheet(
            url=f"http://a.example/{n}",
            title=f"Bird {n}",
            heading="Small. Fast. Reliable.",
            text=f"Bird number {n} of the island builds a nest of moss, which holds {n + 3} eggs.",
        )
        for n in range(pages)
    ]


def test_text_that_a_site_repeats_is_in_no_passage_and_no_snippet(tmp_path: Path) -> None:
    birds = opilio.open(store(tmp_path / "birds", sheets_of_one_site(10)))
    shown = [passage.text for passage in birds.passages("fast reliable nest of moss", limit=10)]
    shown += ["".join(segment.text for segment in hit.snippet) for hit in birds.search("nest of moss").hits]
    similar = Searcher([tmp_path / "birds"]).similar("http://a.example/1")
    shown += ["".join(segment.text for segment in hit.snippet) for hit in similar]
    assert len(shown) == 29
    assert [text for text in shown if not text.startswith("Bird number") or not text.endswith("eggs.")] == []
    # It is left out of what is shown only.
    assert birds.search("reliable").total == 10


def test_text_of_few_pages_stays_in_passages(tmp_path: Path) -> None:
    birds = opilio.open(store(tmp_path / "birds", sheets_of_one_site(7)))
    assert next(iter(birds.passages("nest of moss"))).text.startswith("Small. Fast. Reliable.\nBird number")


def test_text_that_versions_of_a_page_share_is_no_site_text(tmp_path: Path) -> None:
    for n in range(9):
        text = f"The wren builds a nest of moss. {'It was seen again. ' * n}"
        store(tmp_path / "birds", [Sheet(url="http://a.example/wren", heading="Wrens", text=text, at=1.7e9 + n)])
    passage = next(iter(opilio.open(tmp_path / "birds").passages("nest of moss")))
    assert passage.text.startswith("Wrens\nThe wren builds")
