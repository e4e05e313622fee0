"""Questions and loose wording: words that a page lacks, slips, compounds, other languages, and meaning."""

from pathlib import Path

import numpy as np
import pytest

from checks.indexed import Sheet, store
from opilio.core.records import url_key
from opilio.search import manifest
from opilio.search import searcher as searcher_module
from opilio.search.candidates import RankingWeights, SearchRequest
from opilio.search.indexer import rebuild_index
from opilio.search.meaning import page_vectors, word_rarity
from opilio.search.query_builder import FieldWeights
from opilio.search.ranking import Search
from opilio.search.results import IndexDocument, SearchFilters, SearchResults
from opilio.search.searcher import Searcher
from opilio.store.seal import read_seal, seal_problems

HOST = "http://a.example"
TEXTS = {
    "plesiosaur": "Plesiosaurs were large marine reptiles. Fish and squid were their prey.",
    "dinosaur": "Dinosaurs were land animals. Some would eat plants, others would eat meat.",
    "shark": "Sharks eat fish. A large shark lives in warm seas.",
    "eagle": "An eagle is a large bird with wide wings and a hooked beak.",
    "wing": "A wing of an aircraft. Large wings carry heavy loads.",
    "seahorse": "A seahorse swims upright. Each seahorse has a tail that grips weeds.",
    "barn-owl": "The barn owl hunts at night. A barn owl hears very well.",
    "volcano": "A volcano is a mountain from which lava and ash erupt.",
    "railway": "The history of the railway: trains, tracks and steam locomotives.",
}
TITLES = {"barn-owl": "Barn owl", "railway": "Rail transport"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pages = [
        Sheet(url=f"{HOST}/{name}", title=TITLES.get(name, name.capitalize()), text=text)
        for name, text in TEXTS.items()
    ]
    return store(tmp_path_factory.mktemp("collections") / "mixed", pages)


@pytest.fixture(scope="module")
def searcher(folder: Path) -> Searcher:
    made = Searcher([folder])
    made.update_indexes()
    return made


def found(results: SearchResults) -> list[str]:
    return [hit.url.rpartition("/")[2] for hit in results.hits]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("what did plesiosaurs eat?", "plesiosaur"),  # the page lacks "eat"
        ("tell me about the eagle", "eagle"),  # "tell" only asks
        ("where can i find information about sharks", "shark"),
        ("sea horse", "seahorse"),  # two words for one
        ("barnowl", "barn-owl"),  # one word for two
        ("what is a volcanoe", "volcano"),
        ("Geschichte der Eisenbahn", "railway"),  # German, by meaning
        ("historia del ferrocarril", "railway"),
        ("ไดโนเสาร์กินอะไร", "dinosaur"),  # Thai, a question without spaces
        ("ประวัติศาสตร์ของรถไฟ", "railway"),
        ("鐵路的歷史", "railway"),  # traditional Chinese
        ("火山", "volcano"),
        ("вулкан", "volcano"),  # one word of a script that no page is written in
        ("der Vulkan", "volcano"),  # one stop word shows the language, as no page contains the other word
    ],
)
def test_question_finds_its_page_first(searcher: Searcher, query: str, first: str) -> None:
    assert found(searcher.search(query))[:1] == [first]


def test_misspelled_words_are_searched_corrected_and_suggested(searcher: Searcher) -> None:
    results = searcher.search("larg eagel wings")
    assert found(results)[0] == "eagle"
    assert results.suggestion == "large eagle wings"
    assert "eagle" in [segment.text for segment in results.hits[0].snippet if segment.marked]


def test_common_word_that_no_page_contains_is_no_slip(tmp_path: Path) -> None:
    texts = {f"glue-{n}": f"Glue can bind wood to wood, user {n}." for n in range(9)}
    texts |= {"access": "The installer can read its questions aloud; a braille display works too."}
    pages = [Sheet(url=f"{HOST}/{name}", title=name, text=text) for name, text in texts.items()]
    searcher = Searcher([store(tmp_path / "manual", pages)])
    searcher.update_indexes()
    results = searcher.search("blind user with a braille display")
    assert (found(results)[0], results.suggestion) == ("access", "")
    assert searcher.search("gleu and wood").suggestion == "glue and wood"


def test_page_that_states_no_language_is_found_by_other_forms(tmp_path: Path) -> None:
    text = f"Every eagle has a wide wing. {'It can carry a heavy load over the sea. ' * 8}"
    pages = [Sheet(url=f"{HOST}/{name}", title="Bird", text=text, language="") for name in "ab"]
    short = Sheet(url=f"{HOST}/c", title="Wing", text="A wing.", language="")
    searcher = Searcher([store(tmp_path / "birds", [*pages, short])])
    searcher.update_indexes()
    results = searcher.search("wings of an eagle", SearchFilters(languages=("en",)))
    assert sorted(found(results)) == ["a", "b"]
    assert {hit.language for hit in searcher.search("wing").hits} == {"en", ""}


def test_stop_words_of_a_question_are_not_highlighted(searcher: Searcher) -> None:
    hit = searcher.search("what is a bird with wings").hits[0]
    marked = {segment.text for segment in hit.snippet if segment.marked}
    assert marked == {"bird", "wings"}


def test_page_found_by_its_meaning_is_marked(searcher: Searcher) -> None:
    results = searcher.search("Geschichte der Eisenbahn")
    assert results.hits[0].by_meaning
    assert results.total == len(results.hits)


@pytest.mark.parametrize("query", ["locomotives", '"steam locomotives" trains history', "trains +steam -owl history"])
def test_short_queries_and_operators_are_literal(searcher: Searcher, query: str) -> None:
    assert found(searcher.search(query)) == ["railway"]


def test_both_of_two_equally_rare_words_are_needed(searcher: Searcher) -> None:
    assert found(searcher.search("volcano owl")) != []
    assert "No page contains enough" in searcher.search("volcano owl").notes[0]
    assert searcher.search("barn night").notes == ()


def test_rare_word_does_not_hide_pages_with_the_others(tmp_path: Path) -> None:
    pages = [Sheet(url=f"{HOST}/git{n}", title=f"Git {n}", text=f"git stores commits, part {n}") for n in range(40)]
    zoo = Sheet(url=f"{HOST}/zoo", title="Zoo", text="Lions eat meat.")
    searcher = Searcher([store(tmp_path / "manual", [*pages, zoo])])
    searcher.update_indexes()
    results = searcher.search("when did git eat")
    assert found(results)[0] == "zoo"
    assert "git0" in found(results)
    assert not any(hit.by_meaning for hit in results)


def test_coverage_is_the_share_of_the_words_that_a_page_contains(searcher: Searcher) -> None:
    search = Search(
        searcher._open(), SearchRequest(query="large eagle wings lava"), FieldWeights(), RankingWeights(candidates=20)
    )
    pages = {one.key: one for one in search.find().found}
    covered = {key: one.coverage for key, one in pages.items()}
    large, eagle, wings, lava = (search.weight_of(term) for term in search.content_terms()[:4])
    known = large + eagle + wings + lava
    assert covered[url_key(f"{HOST}/eagle")] == pytest.approx((large + eagle + wings) / known)
    assert covered[url_key(f"{HOST}/wing")] == pytest.approx((large + wings) / known)
    wing = pages[url_key(f"{HOST}/wing")]
    assert wing.title_coverage == pytest.approx(wings / known)
    assert wing.lead_coverage == pytest.approx(wing.coverage)
    assert max(one.plain for one in pages.values()) == 0.0


def test_total_and_facets_count_pages_found_by_meaning(searcher: Searcher) -> None:
    results = searcher.search("historia del ferrocarril")
    (hosts,) = [facet for facet in results.facets if facet.name == "hosts"]
    assert results.total == sum(value.count for value in hosts.values)
    assert any(hit.by_meaning for hit in results)


def test_paging_gives_every_page_of_a_question_once(searcher: Searcher) -> None:
    query = "what do large animals eat in the sea"
    total = searcher.search(query).total
    pages = [found(searcher.search(query, page=page, size=2)) for page in range(1, total // 2 + 2)]
    names = [name for page in pages for name in page]
    assert len(names) == len(set(names)) == total


def test_vectors_are_read_again_after_the_index_was_rebuilt(searcher: Searcher, folder: Path) -> None:
    before = searcher._open()[0].load_meanings()
    rebuild_index(folder)
    after = searcher._open()[0].load_meanings()
    assert after.origin != before.origin
    assert np.array_equal(after.keys, before.keys)
    assert np.array_equal(after.vectors, before.vectors)


def test_vectors_in_the_file_are_those_of_the_database(
    searcher: Searcher, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = searcher._open()[0].load_meanings()
    monkeypatch.setattr(manifest, "MIN_NEW_VECTORS", 0)
    rebuild_index(folder)
    (file,) = (folder / "index").glob("vectors-*.npy")
    assert file.name in (read_seal(folder / "index") or {})
    monkeypatch.setattr(searcher_module, "read_meanings", lambda *_: [])
    from_file = Searcher([folder])._open()[0].load_meanings()
    monkeypatch.undo()
    file.write_bytes(b"damaged")
    from_database = Searcher([folder])._open()[0].load_meanings()
    for one in (from_file, from_database):
        assert np.array_equal(one.keys, known.keys)
        assert np.array_equal(one.vectors, known.vectors)
    assert any(file.name in problem.message for problem in seal_problems(folder / "index"))
    rebuild_index(folder)
    assert not list(seal_problems(folder / "index"))


def test_only_new_vectors_are_read(searcher: Searcher) -> None:
    known = searcher._open()[0].load_meanings()
    asked: list[int] = []

    def rows_after(last: int) -> list[tuple[int, int, bytes]]:
        asked.append(last)
        return [(last + 1, int(known.keys[0]), bytes(128))]

    after = known.updated(known.origin, rows_after)
    assert asked == [known.last_id]
    assert len(after.keys) == len(known.keys)
    assert not after.vectors[0].any()
    assert np.array_equal(after.vectors[1:], known.vectors[1:])


def test_page_without_a_title_is_as_similar_as_its_text() -> None:
    untitled = page_vectors(
        IndexDocument(key=1, seq=1, url=HOST, host="a.example", body="A wren is a bird.", language="en")
    )
    assert any(untitled)
    assert untitled[: len(untitled) // 2] == untitled[len(untitled) // 2 :]


def test_noun_of_another_language_counts_more_than_its_verb() -> None:
    assert word_rarity("Pinguine") > word_rarity("fressen") > word_rarity("haben")
    assert word_rarity("qwxzzy") == 0.0


def test_document_without_words_has_no_meaning() -> None:
    assert not any(page_vectors(IndexDocument(key=1, seq=1, url=HOST, host="a.example")))


def test_word_is_as_rare_in_a_page_without_a_language(tmp_path: Path) -> None:
    """Such pages are not stemmed: few contain `wrens` as a term of the index, but it is the word of all others."""
    text = "In spring the wrens build nests of moss."
    pages = [Sheet(url=f"{HOST}/{n}", title="A bird", text=text, language="en" if n else "") for n in range(9)]
    made = Searcher([store(tmp_path / "wrens", pages)])
    made.update_indexes()
    scores = {round(hit.text_score, 3) for hit in made.search("wrens")}
    assert len(scores) == 1


def test_words_that_pages_contain_are_not_another_language(tmp_path: Path) -> None:
    """In Dutch, `in` and `men` are stop words."""
    pages = [Sheet(url=f"{HOST}/{n}", title="Film", text="The actor of Twelve Angry Men.") for n in range(3)]
    searcher = Searcher([store(tmp_path / "films", pages)])
    searcher.update_indexes()
    for query, foreign in (("actor in twelve angry men", False), ("men eet in Nederland kaas", True)):
        search = Search(searcher._open(), SearchRequest(query=query), FieldWeights(), RankingWeights())
        assert search._foreign is foreign


ASIAN_PAGES = (
    Sheet(url=f"{HOST}/th-dinosaur", title="ไดโนเสาร์", text="ไดโนเสาร์บางชนิดกินพืช บางชนิดกินเนื้อสัตว์", language="th"),
    Sheet(url=f"{HOST}/th-rice", title="ข้าว", text="ชาวนาปลูกข้าวในนา และเก็บเกี่ยวในฤดูหนาว", language="th"),
    Sheet(url=f"{HOST}/th-crab", title="ปู", text="ปูเป็นสัตว์น้ำที่มีก้าม", language="th"),
    Sheet(url=f"{HOST}/tw-dinosaur", title="恐龍", text="有些恐龍以植物為食，另一些則捕食其他動物。", language="zh"),
    Sheet(url=f"{HOST}/tw-railway", title="鐵路運輸", text="鐵路的歷史始於蒸汽火車，軌道連接城市。", language="zh"),
)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("ไดโนเสาร์กินอะไร", "th-dinosaur"),
        ("การปลูกข้าวทำอย่างไร?", "th-rice"),
        ("ปู", "th-crab"),
        ("เนื้อสัตว์", "th-dinosaur"),
        ("恐龍吃什麼？", "tw-dinosaur"),
        ("火車的歷史是什麼", "tw-railway"),
        # Two pages answer it.
        ("what did the dinosaurs eat", "dinosaur"),
    ],
)
def test_question_without_spaces_finds_its_page_first(tmp_path: Path, query: str, first: str) -> None:
    searcher = Searcher([store(tmp_path / "asian", ASIAN_PAGES)])
    searcher.update_indexes()
    assert found(searcher.search(query))[0].endswith(first)
