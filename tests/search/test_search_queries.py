"""Searching a collection: queries and their results."""

import re
from pathlib import Path

import pytest

from checks.indexed import BIRD_PAGES, QUERIES, A, B, Sheet, store
from opilio.core.errors import QueryError, UsageError
from opilio.search.candidates import RankingWeights
from opilio.search.results import FacetValue, SearchFilters, SearchResults, html_results, rich_hit
from opilio.search.searcher import Searcher


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    made = Searcher([store(tmp_path_factory.mktemp("collections") / "birds", BIRD_PAGES)])
    made.update_indexes()
    return made


def found(results: SearchResults) -> list[str]:
    return [hit.url.rpartition("/")[2] for hit in results.hits]


@pytest.mark.parametrize(("query", "pages"), QUERIES)
def test_query_finds_pages(searcher: Searcher, query: str, pages: set[str]) -> None:
    """S1-08: words, where they stand, and in which field."""
    assert set(found(searcher.search(query))) == pages


@pytest.mark.parametrize(
    ("query", "pages"),
    [
        ("url:b12.html", ["Wren_(b12).html"]),  # cut as addresses are
        ("b12", ["Wren_(b12).html"]),
        ("HTTP://A.example:80/Wren_(b12).html#song", ["Wren_(b12).html"]),  # as a user copies it
        (f"{A}/wren", ["wren", "letter", "Wren_(b12).html"]),  # itself, then who writes it or begins so
    ],
)
def test_page_is_found_by_its_address(tmp_path: Path, query: str, pages: list[str]) -> None:
    sheets = (
        Sheet(url=f"{A}/Wren_(b12).html", title="Twelve", text="The twelfth of them.", score=0.9),
        Sheet(url=f"{A}/wren", title="Brown", text="It is small.", score=0.1),
        Sheet(url=f"{B}/letter", title="Letter", text=f"Have a look at {A}/wren today.", score=0.1),
    )
    searcher = Searcher([store(tmp_path / "birds", sheets)])
    searcher.update_indexes()
    assert found(searcher.search(query)) == pages


@pytest.mark.parametrize(
    ("query", "result"),
    [
        ('"wren', "unclosed quote"),
        ("(wren", 'add ")"'),
        ("wren)", "unmatched"),
        ("wren AND", "ends with an operator"),
        ("OR wren", "needs a word on each side"),
        ("titel:wren", 'did you mean "title:"'),
        ("a*", "at least two letters"),
        ("wren band:hihg", 'band "hihg" is unknown; known: very high, high'),
        ("relevant:maybe", "known: yes, no"),
        ("wren " * 100, "more than 64 words"),
        ("x" * 2000, "more than 1000"),
        ("(" * 30 + "a" + ")" * 30, "nested"),
    ],
)
def test_query_is_explained_when_it_is_wrong(searcher: Searcher, query: str, result: str) -> None:
    with pytest.raises(QueryError, match=re.escape(result)):
        searcher.search(query)


def test_words_are_marked_in_title_and_snippet(searcher: Searcher) -> None:
    (hit,) = searcher.search("wren song OR sings").hits[:1]
    assert [segment.text for segment in hit.title if segment.marked] == ["wren"]
    assert {segment.text for segment in hit.snippet if segment.marked} == {"wren", "sings"}
    assert "".join(segment.text for segment in hit.snippet) == "A wren is a small brown bird. It sings loudly."


def test_empty_query_browses_the_most_relevant_first(searcher: Searcher) -> None:
    results = searcher.search("", SearchFilters(relevant=True))
    assert found(results) == ["wren", "zaun", "robin", "tokyo"]
    assert results.total == 4


def test_facet_with_a_chosen_value_counts_the_others_too(searcher: Searcher) -> None:
    """Any of several values is enough, so the others can be chosen besides; other facets count what was found."""
    one = searcher.search("", SearchFilters(hosts=("a.example",)))
    facets = {facet.name: facet.values for facet in one.facets}
    assert facets["hosts"] == (FacetValue("b.example", 3), FacetValue("a.example", 2, chosen=True))
    assert sum(value.count for value in facets["languages"]) == one.total == 2
    both = searcher.search("", SearchFilters(hosts=("a.example", "b.example"), languages=("en",)))
    assert both.total == 3
    (languages,) = [facet.values for facet in both.facets if facet.name == "languages"]
    assert {value.value: value.count for value in languages} == {"en": 3, "de": 1, "ja": 1}


@pytest.mark.parametrize("query", ["Zaunkönig", "Zaunko\u0308nig", "ＺＡＵＮＫＯＮＩＧ"])
def test_word_is_found_however_its_letters_are_encoded(tmp_path: Path, query: str) -> None:
    pages = [Sheet(url=f"{A}/apart", text="Ein Zaunko\u0308nig singt.", language="de")]
    pages += [Sheet(url=f"{A}/joined", text="Zaunkönige singen.", language="de")]
    searcher = Searcher([store(tmp_path / "birds", pages)])
    searcher.update_indexes()
    assert sorted(found(searcher.search(query))) == ["apart", "joined"]


def test_facet_reports_a_chosen_value_that_nothing_has(searcher: Searcher) -> None:
    (hosts,) = [f.values for f in searcher.search("", SearchFilters(hosts=("c.example",))).facets if f.name == "hosts"]
    assert hosts[-1] == FacetValue("c.example", 0, chosen=True)
    assert len(hosts) == 3


def test_facets_count_what_was_found_and_filters_narrow_it(searcher: Searcher) -> None:
    facets = {facet.name: {v.value: v.count for v in facet.values} for facet in searcher.search("").facets}
    assert facets["hosts"] == {"b.example": 3, "a.example": 2}
    assert facets["languages"] == {"en": 3, "de": 1, "ja": 1}
    assert facets["genres"] == {"news": 1}
    assert facets["polarities"] == {"neutral": 2, "positive": 1}
    assert list(facets["bands"]) == ["very high", "high", "medium", "very low"]
    chosen = searcher.search("", SearchFilters(hosts=("a.example",), bands=("high",)))
    assert found(chosen) == ["robin"]


def test_polarity_of_a_hit_is_shown_as_its_tone_s3_f1(searcher: Searcher) -> None:
    """Alone, the word "positive" could be the verdict of the crawl."""
    results = searcher.search("toy train")
    assert "tone: positive" in rich_hit(1, results.hits[0]).plain
    assert "tone: positive" in html_results(results)
    assert "tone" not in html_results(searcher.search("Zaunkönige"))  # unknown: only English texts have one


def test_pages_follow_each_other_without_gap_or_repetition(searcher: Searcher) -> None:
    pages = [found(searcher.search("", page=number, size=2)) for number in (1, 2, 3, 4)]
    assert [len(page) for page in pages] == [2, 2, 1, 0]
    assert len({url for page in pages for url in page}) == 5


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two collections with 30 pages in common, worded and judged otherwise; many pages fit a question equally well."""
    folder = tmp_path_factory.mktemp("many")
    worded = [
        (f"{A}/{n}", "wren " * (n * factor % 4 + 1) + "owl " * (n % 3), n * factor % 50 / 50)
        for factor, numbers in ((7, range(60)), (11, range(30, 80)))
        for n in numbers
    ]
    sheets = [Sheet(url=url, title="page", text=text, score=score) for url, text, score in worded]
    folders = [store(folder / "one", sheets[:60]), store(folder / "two", sheets[60:])]
    Searcher(folders).update_indexes()
    return folders


@pytest.mark.parametrize("sort", ["best", "relevance", "newest"])
@pytest.mark.parametrize(("last", "query", "total"), [(1, "wren", 60), (2, "wren", 80), (2, "", 80)])
def test_paging_shows_each_hit_once_when_there_are_more_than_are_mixed(
    many: list[Path], last: int, query: str, total: int, sort: str
) -> None:
    searcher = Searcher(many[:last], ranking=RankingWeights(candidates=10))
    pages = [searcher.search(query, page=number, size=7, sort=sort) for number in range(1, total // 7 + 2)]
    assert {(page.total, page.pages) for page in pages} == {(total, total // 7 + 1)}
    shown = [hit.url for page in pages for hit in page.hits]
    assert (len(shown), len(set(shown))) == (total, total)
    assert shown == [hit.url for hit in searcher.search(query, size=100, sort=sort).hits]


def test_scores_fall_from_hit_to_hit_behind_those_that_are_mixed_too(many: list[Path]) -> None:
    scores = [hit.score for hit in Searcher(many, ranking=RankingWeights(candidates=10)).search("wren", size=100).hits]
    assert scores == sorted(scores, reverse=True)


def test_similar_pages_are_found_by_their_words(searcher: Searcher) -> None:
    assert next(hit.url for hit in searcher.similar(f"{A}/wren")) == f"{A}/robin"
    with pytest.raises(UsageError, match="is not in the index"):
        searcher.similar("http://nowhere.example/")


def test_collections_are_searched_as_one(tmp_path: Path) -> None:
    """S2-F1: hits of several collections in one order, a page that both hold once."""
    one = store(tmp_path / "one", BIRD_PAGES[:2])
    two = store(tmp_path / "two", [BIRD_PAGES[0], Sheet(url=f"{B}/wrens", title="Wrens", text="Many a wren sings.")])
    both = Searcher([one, two])
    both.update_indexes()
    results = both.search("wren")
    assert {hit.url: hit.collections for hit in results.hits} == {
        f"{A}/wren": ("one", "two"),
        f"{B}/wrens": ("two",),
    }
    assert results.total == 2
    assert {hit.collections for hit in both.search("wren", SearchFilters(collections=("two",))).hits} == {("two",)}


def test_collections_whose_folders_have_the_same_name_are_distinguished(tmp_path: Path) -> None:
    folders = [store(tmp_path / place / "birds", [page]) for place, page in zip("xy", BIRD_PAGES, strict=False)]
    for searcher, names in (
        (Searcher(folders), [str(folder) for folder in folders]),
        (Searcher(folders, names=["birds", "birds-2"]), ["birds", "birds-2"]),
    ):
        searcher.update_indexes()
        for name, url in zip(names, (f"{A}/wren", f"{A}/robin"), strict=True):
            hits = searcher.search("", SearchFilters(collections=(name,))).hits
            assert [(hit.url, hit.collections) for hit in hits] == [(url, (name,))]


@pytest.mark.parametrize(
    ("query", "better"),
    [
        ("robbin", "robin"),  # a letter too many
        ("title:brid OR lokomotive", ""),  # nothing like it in the field that was asked for; no such word
        ("samll brown", "small brown"),
        ("-toy loudyl", "-toy loudly"),
        ("wren", ""),
        ("wäldren", "waldern"),
        ('"robbin"', ""),  # a quoted word is meant as it is written
    ],
)
def test_better_spelling_is_suggested_when_it_finds_more(searcher: Searcher, query: str, better: str) -> None:
    assert searcher.search(query).suggestion == better


def test_stop_word_is_not_suggested_for_a_rare_word(tmp_path: Path) -> None:
    sheets = [Sheet(url=f"{A}/{n}", title="Days", text="When it rains, when it snows.") for n in range(30)]
    searcher = Searcher([store(tmp_path / "birds", [*sheets, BIRD_PAGES[0]])])
    searcher.update_indexes()
    assert (searcher.search("wren").total, searcher.search("wren").suggestion) == (1, "")


def test_plural_that_no_page_contains_is_not_a_misspelling(tmp_path: Path) -> None:
    texts = [("Wing", "A wing has feathers.")] * 3 + [("Song", "A wren sings.")] * 5
    sheets = [Sheet(url=f"{A}/{n}", title=title, text=text) for n, (title, text) in enumerate(texts)]
    searcher = Searcher([store(tmp_path / "birds", sheets)])
    searcher.update_indexes()
    results = searcher.search("wings")
    assert (results.total, results.suggestion) == (3, "")


def test_note_is_given_when_no_page_has_enough_of_the_words(searcher: Searcher) -> None:
    results = searcher.search("wren locomotive")
    assert found(results) == ["wren", "train"]  # the second one by its meaning
    assert [hit.by_meaning for hit in results] == [False, True]
    assert "some of them" in results.notes[0]


@pytest.mark.parametrize("query", ["🐦", '"" *'])
def test_note_is_given_when_a_query_has_no_word(searcher: Searcher, query: str) -> None:
    assert searcher.search(query).notes == ("The query contains no word to search for; these are all pages.",)
    assert searcher.search(" ").notes == ()


def test_order_is_that_of_one_index_when_a_collection_is_divided(tmp_path: Path) -> None:
    """S2-F1: a word that is rare in one part and common in the other weighs what it weighs in all."""
    birds = ["wren" if n % 7 == 0 or n > 30 else "robin" for n in range(60)]
    texts = [f"{bird} {'eagle ' * (n % 3)}" for n, bird in enumerate(birds)]
    sheets = [Sheet(url=f"{A}/{n}", title=f"page {n}", text=text) for n, text in enumerate(texts)]
    whole = Searcher([store(tmp_path / "whole", sheets)])
    halves = Searcher([store(tmp_path / "one", sheets[:30]), store(tmp_path / "two", sheets[30:])])
    for searcher in (whole, halves):
        searcher.update_indexes()
    for query in ("wren", "robin", "wren eagle", "robin OR eagle"):
        one, two = (searcher.search(query, size=60) for searcher in (whole, halves))
        assert one.total == two.total
        assert one.facets == two.facets
        scores = [{hit.url: hit.text_score for hit in results.hits} for results in (one, two)]
        assert scores[1] == pytest.approx(scores[0], rel=0.06)  # the mean length of a page is each index's own
