"""Subtopics (S0-F1): pages that belong together, under a name that says why."""

import random
from pathlib import Path

import msgspec
import pytest

from checks.indexed import Sheet, store
from opilio.search.clusters import StemCount, SubtopicClassifier, cluster_pages, count_stems
from opilio.search.results import IndexDocument, SearchFilters
from opilio.search.searcher import Searcher
from opilio.text.tokens import tokenize as words_in

KINDS = {"owls": "owl night mouse feather", "gulls": "gull sea fish coast", "wrens": "wren song hedge nest"}


def sheets(kinds: dict[str, str], count: int) -> list[Sheet]:
    rng = random.Random(1)
    made = []
    for kind, words in kinds.items():
        for number in range(count):
            text = " ".join(rng.choices(words.split(), k=30) + rng.choices("bird wing egg beak".split(), k=20))
            made.append(Sheet(url=f"http://{kind}.example/{number}", title=kind, text=text, score=0.9))
    return made


def words(text: str) -> list[StemCount]:
    counted = {word: text.split().count(word) for word in text.split()}
    return [StemCount(word, word, count) for word, count in counted.items()]


def test_pages_that_share_words_are_one_subtopic_with_a_telling_name(tmp_path: Path) -> None:
    searcher = Searcher([store(tmp_path / "c", sheets(KINDS, 12))])
    searcher.update_indexes()
    found = searcher.subtopics()
    assert sum(subtopic.pages for subtopic in found) == 36
    for subtopic in found:
        hits = searcher.search("", SearchFilters(subtopics=(subtopic.name,)), size=100)
        (kind,) = {hit.host.partition(".")[0] for hit in hits.hits}  # no page of another kind
        assert set(subtopic.name.split(", ")) <= {*KINDS[kind].split(), kind}
        assert hits.total == subtopic.pages


def test_stop_words_of_pages_in_a_language_guessed_wrongly_name_nothing(tmp_path: Path) -> None:
    """The general table has no stop words: one that gets past the guess looks like a rare word."""
    known = sheets({kind: KINDS[kind] for kind in ("owls", "gulls")}, 12)
    odd = sheets({"wrens": "wren song you has the"}, 12)
    pages = [*known, *(msgspec.structs.replace(sheet, language="xx") for sheet in odd)]
    searcher = Searcher([store(tmp_path / "c", pages)])
    searcher.update_indexes()
    result = {word for subtopic in searcher.subtopics() for word in subtopic.words}
    assert {"owl", "gull", "wren"} <= result
    assert result.isdisjoint({"you", "has", "the"})


def test_endings_of_picture_files_name_nothing() -> None:
    page = IndexDocument(key=1, seq=1, url="", host="", body="Image:Wren.jpg wrens.JPEG, the png format", language="en")
    assert {stem.spelling for stem in count_stems(page)} == {"image", "wren", "png", "format"}


def test_words_of_a_footer_name_no_subtopic_of_short_pages(tmp_path: Path) -> None:
    """A page is known by its most frequent words: those that are on all pages are among them on short ones only."""
    footer = "donate sphinx copyright"
    long = [" ".join(kind + a + b for a in "abcdefgh" for b in "klmnopqr") for kind in ("sail", "oar")]
    pages = [
        Sheet(url=f"http://a.example/{n}", text=f"{text} {text} {footer}", score=0.9)
        for n, text in enumerate(10 * long)
    ]
    pages += [Sheet(url=f"http://b.example/{n}", text=f"anchor {footer}", score=0.9) for n in range(8)]
    searcher = Searcher([store(tmp_path / "c", pages)])
    searcher.update_indexes()
    result = {word for subtopic in searcher.subtopics() for word in subtopic.words}
    assert result
    assert result.isdisjoint(footer.split())


@pytest.mark.parametrize(
    ("language", "kinds"),
    [
        ("zh", {"a": "猫头鹰 老鼠", "b": "海鸥 鱼类"}),
        ("ja", {"a": "梟 夜行性", "b": "カモメ 海岸"}),
        ("ko", {"a": "부엉이 밤새", "b": "갈매기 바다"}),
        ("hi", {"a": "उल्लू रात्रि", "b": "समुद्री मछली"}),
        ("th", {"a": "นกฮูก กลางคืน", "b": "นางนวล ทะเล"}),
        ("ar", {"a": "بومة ليل", "b": "نورس بحر"}),
    ],
)
def test_pages_in_any_script_have_subtopics(tmp_path: Path, language: str, kinds: dict[str, str]) -> None:
    """Pairs of characters, and letters with vowel signs, are words too."""
    pages = [
        msgspec.structs.replace(sheet, title="", text=f"{kinds[kind]} {sheet.text}", language=language)
        for kind in kinds
        for sheet in sheets({kind: " ".join(KINDS.values())}, 8)
    ]
    pages += [msgspec.structs.replace(s, language="en") for s in sheets({"c": "train rail"}, 8)]
    searcher = Searcher([store(tmp_path / "c", pages)])
    searcher.update_indexes()
    result = {word for subtopic in searcher.subtopics() for word in subtopic.words}
    for kind in kinds.values():
        assert result & set(words_in(kind))


def test_subtopics_are_the_same_when_made_again() -> None:
    pages = [words(sheet.text) for sheet in sheets(KINDS, 8)]
    assert cluster_pages(pages) == cluster_pages(pages)


def test_pages_with_different_words_of_similar_meaning_are_one_subtopic() -> None:
    """Each page shares two words with the next one of its kind only: words alone would join neighbours, not kinds."""
    kinds = ("heron egret stork pelican sparrow finch robin thrush", "copper zinc nickel cobalt lead tin iron silver")
    pages, kind_of = [], []
    for number, text in enumerate(kinds):
        names = text.split()
        for first in range(len(names)):
            pages.append(words(" ".join((names * 2)[first : first + 3])))
            kind_of.append(number)
    classifier = SubtopicClassifier(cluster_pages(pages))
    found = [classifier.classify(page) for page in pages]
    for kind in range(len(kinds)):
        assert len({name for name, own in zip(found, kind_of, strict=True) if own == kind}) == 1
    assert len(set(found)) == len(kinds)


def test_pages_that_come_later_join_a_subtopic_and_the_facet_counts_them(tmp_path: Path) -> None:
    every = sheets(KINDS, 16)
    folder = store(tmp_path / "c", [s for s in every if int(s.url.rpartition("/")[2]) < 15])
    Searcher([folder]).update_indexes()
    store(folder, every)
    searcher = Searcher([folder])
    searcher.update_indexes()
    facets = {facet.name: facet.values for facet in searcher.search("").facets}
    assert sum(value.count for value in facets["subtopics"]) == 48


def test_few_pages_and_irrelevant_ones_have_no_subtopics(tmp_path: Path) -> None:
    few = sheets(KINDS, 3)
    far = [Sheet(url=f"http://x.example/{n}", title="x", text="railway engine", score=0.1) for n in range(40)]
    searcher = Searcher([store(tmp_path / "c", [*few, *far])])
    searcher.update_indexes()
    assert searcher.subtopics() == ()


@pytest.mark.parametrize("pages", [[], [[]] * 30, [words("same words here")] * 30])
def test_pages_without_differences_have_no_subtopics(pages: list[list[StemCount]]) -> None:
    assert cluster_pages(pages) == []
    assert SubtopicClassifier([]).classify(words("anything")) == ""
