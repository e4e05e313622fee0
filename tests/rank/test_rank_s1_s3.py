"""S1's attributes (S1-20…S1-24, S1-E6) and S3's link score (S3-17…S3-24, S3-E2…S3-E5)."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.scored_links import scored_links
from opilio.core.errors import ConfigError
from opilio.core.strategies import load_strategy
from opilio.methods.attributes.features import (
    EVIDENCE_DTYPE,
    add_parent_evidence,
    attribute_rows,
    gather_evidence,
    heaviest_terms,
    page_evidence,
)
from opilio.rank.topic_genre import KnownParents, ParentAgg, TopicGenreOptions, TopicGenreRanker
from opilio.testing.conformance import lead_to, reading_of, terms_of, url_terms, verdict_of
from opilio.topic.evolving import EvolvingTopic, compile_table
from opilio.topic.genre import GenreDetector, parse_genres
from opilio.topic.page_terms import flat_idf
from opilio.topic.weights import table_from_weights

S1_TABLE_1 = {"dna": 1, "genetic": 0.9168, "family": 0.7084, "ancestor": 0.6668, "history": 0.3334}
S1_TABLE_1 |= {"micro": 0.1043, "bio": 0.4168}
DNA = compile_table(table_from_weights(S1_TABLE_1))
Table = Mapping[str, float]
CARS = EvolvingTopic(table_from_weights({"audi": 1.0, "car": 0.5}))
GENRES = GenreDetector(
    parse_genres('[news]\nenglish = ["press", "report"]\n[blogs]\nenglish = ["blog"]', "small"), terms_of
)
PAGE = "[audi car](http://x.example/audi)\n[press report](http://x.example/blog) audi\n[tax](http://x.example/law)"


def row_of(url: str = "", *, anchors: Sequence[str] = (), parents: Sequence[Table] = (), **more: Any) -> list[float]:
    """One link's row from what its parents say, first finder first."""
    arounds: Sequence[Table] = more.get("arounds", ())
    said: dict[int, bytes] = {}
    for at, (anchor, parent, around) in enumerate(zip_longest(anchors, parents, arounds)):
        found = np.zeros(1, dtype=EVIDENCE_DTYPE)
        words = terms_of(anchor or "")
        found["anchor"][0, : len(words)] = words
        for name, table in (("parent", parent or {}), ("around", around or {})):
            owners = np.zeros(len(table), dtype=np.int64)
            terms = np.array([terms_of(word)[0] for word in table], dtype=np.uint32)
            size = found[name].shape[-1]
            found[name], found[f"{name}_weights"] = heaviest_terms(owners, terms, np.array([*table.values()]), 1, size)
        add_parent_evidence(said, at, found.tobytes())
    rows = attribute_rows([terms_of(url)], *gather_evidence([said.values()]), more.get("sight", DNA))
    return [float(value) for value in rows[0]]


@pytest.mark.parametrize(
    ("words", "score"),
    [("dna", 0.5696), ("dna genetic", 0.7727), ("family history", 0.4459), ("micro", 0.0594), ("", 0.0)],
)
def test_url_word_relevancy_closed_form_ours_s1_21(words: str, score: float) -> None:
    assert row_of(words)[0] == pytest.approx(score, abs=5e-5)
    assert row_of(" ".join(S1_TABLE_1))[0] == pytest.approx(1.0)


def test_anchors_of_the_first_five_parents_count_s1_22() -> None:
    found = row_of(anchors=("dna", "genetic", "here", "more", "next", "family"))
    assert found[1] == pytest.approx(0.7727, abs=5e-5)  # the sixth parent is not looked at


def test_parent_is_its_own_top_seven_adjusted_to_the_topic_s1_23() -> None:
    parent = dict(zip("a b c d e f dna genetic".split(), (9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0), strict=True))
    assert row_of(parents=[parent])[2] == pytest.approx(1.0 / DNA.norm)  # "genetic" did not make the seven


def test_adjusted_table_takes_the_texts_own_weights_s1_23_s1_24() -> None:
    text = {"dna": 1.0, "genetic": 0.5}
    expected = (1.0 + 0.5 * 0.9168) / (np.sqrt(1.25) * DNA.norm)
    assert row_of(parents=[text])[2] == pytest.approx(expected)
    assert row_of(arounds=[text])[3] == pytest.approx(expected)


def test_tables_of_several_parents_are_added_up_and_cut_again_s1_23_s1_24() -> None:
    first = dict(zip("a b c d e f dna".split(), (7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0), strict=True))
    second = dict(zip("a b c d e f genetic".split(), (7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.5), strict=True))
    for name, at in (("parents", 2), ("arounds", 3)):
        tables: dict[str, Any] = {name: [first, second]}
        found = row_of(**tables)[at]  # "genetic" is the seventh word of both together
        assert found == pytest.approx(0.9168 / DNA.norm)


def test_contents_of_parents_are_pooled_before_the_cut_s1_23() -> None:
    """A word that no parent has among its own seven heaviest can be one of all five together."""
    own = [dict.fromkeys((f"{letter}{n}" for n in range(7)), 2.0) | {"genetic": 1.5, "dna": 1.5} for letter in "abcde"]
    pooled = row_of(parents=own)[2]
    assert pooled == pytest.approx((1.0 + 0.9168) / (np.sqrt(2.0) * DNA.norm))
    assert row_of(parents=own[:1])[2] == 0.0


def test_surrounding_text_is_what_stands_beside_the_anchor_s1_24() -> None:
    reading = reading_of("family [dna genetic](http://x.example/) history")
    found = page_evidence(reading, (np.zeros(0, dtype=np.uint32), np.zeros(0)), flat_idf)
    rows = attribute_rows([[]], found, np.arange(1), DNA)
    expected = (0.7084 + 0.3334) / (np.sqrt(2.0) * DNA.norm)
    assert rows[0, 3] == pytest.approx(expected, abs=5e-5)


def test_what_is_not_known_is_zero_and_flagged_s1_e6() -> None:
    found = row_of("dna")
    assert found[1:4] == [0.0, 0.0, 0.0]
    assert found[4:] == [0.0, 1.0, 1.0, 1.0]


def test_all_links_of_a_page_at_once_s1_21_s1_24() -> None:
    reading = reading_of("family [dna genetic](http://x.example/dna)\n[](http://x.example/)")
    found = page_evidence(reading, (np.array(terms_of("dna"), dtype=np.uint32), np.ones(1)), flat_idf)
    rows = attribute_rows([terms_of("dna"), []], found, np.arange(2), DNA)
    assert rows[0, :3] == pytest.approx([0.5696, 0.7727, 1.0 / DNA.norm], abs=5e-5)
    assert 0.3 < rows[0, 3] < rows[1, 3]  # twenty words on each side, whatever block they are in, without the anchor
    assert rows[:, 4:].tolist() == [[0.0] * 4, [1.0, 1.0, 0.0, 0.0]]


@pytest.mark.parametrize(("between", "counts"), [(19, True), (20, False)])
def test_twenty_words_on_each_side_surround_a_link_s1_24(between: int, counts: bool) -> None:
    filler = "apple " * between
    for text in (f"dna {filler} [here](http://x.example/)", f"[here](http://x.example/) {filler} dna"):
        found = page_evidence(reading_of(text), (np.zeros(0, dtype=np.uint32), np.zeros(0)), flat_idf)
        assert bool(attribute_rows([[]], found, np.arange(1), DNA)[0, 3]) is counts


def test_surroundings_are_cut_to_seven_words_s1_24() -> None:
    noise = " ".join(f"{word} {word} {word}" for word in "apple berry cherry damson elder fig grape".split())
    reading = reading_of(f"dna {noise} [here](http://x.example/)")
    found = page_evidence(reading, (np.zeros(0, dtype=np.uint32), np.zeros(0)), flat_idf)
    assert attribute_rows([[]], found, np.arange(1), DNA)[0, 3] == 0.0


def test_all_links_of_a_page_to_one_address_count_together_s1_22() -> None:
    reading = reading_of("[dna](http://x.example/a)\n[tax](http://x.example/b)\n[genetic](http://x.example/a)")
    found = page_evidence(reading, (np.zeros(0, dtype=np.uint32), np.zeros(0)), flat_idf)
    assert found[0] == found[2]
    rows = attribute_rows([[]] * 3, found, np.arange(3), DNA)
    assert rows[:, 1].tolist() == pytest.approx([0.7727, 0.0, 0.7727], abs=5e-5)


def test_empty_topic_gives_zero_everywhere() -> None:
    nothing = compile_table(table_from_weights({}))
    assert row_of("a", anchors=["a"], parents=[{"a": 1.0}], sight=nothing)[:4] == [0.0, 0.0, 0.0, 0.0]


def tswt(**options: object) -> TopicGenreRanker:
    return TopicGenreRanker(CARS, url_terms, GENRES, TopicGenreOptions(**options))  # type: ignore[arg-type]


def parents_of(*relevances: float, method: ParentAgg) -> float:
    """The aggregated relevance of parents; the last one is the page at hand."""
    known = KnownParents()
    for page, relevance in enumerate(relevances[:-1]):
        known.add(page, (relevance,), [7])
    return known.aggregate(7, (relevances[-1],), method)[0]


def test_topic_score_is_the_sum_of_its_parts_s3_17() -> None:
    first = scored_links(tswt(), reading_of(PAGE), verdict_of(0.3), lead_to())[0]
    assert {p.name: p.value for p in first.parts} == pytest.approx(
        {"url": 0.5, "anchor": 0.75, "around": 0.75, "parent": 0.3}
    )
    assert first.score == pytest.approx(2.3)


def test_division_score_is_the_share_of_the_table_in_the_links_block_and_its_parents_s0_35() -> None:
    """Hati & Kumar: mean relevance of the parents + Σ of the table's weights in the division / Σ of all."""
    tree = load_strategy("division")["rank"]
    options = {name: tree[name] for name in ("form", "parent_agg")} | {"texts": tuple(tree["texts"])}
    ranked = scored_links(tswt(**options), reading_of(PAGE), verdict_of(0.3), lead_to())
    assert [r.score for r in ranked] == pytest.approx([1.0 + 0.3, 1.0 / 1.5 + 0.3, 0.3])
    assert {p.name for p in ranked[0].parts} == {"around", "parent"}
    assert tree["kind"] == "tswt"
    assert parents_of(0.3, 0.1, method=tree["parent_agg"]) == pytest.approx(0.2)


def test_best_genre_counts_s3_23_s3_e4() -> None:
    ranked = scored_links(tswt(genre=1.0), reading_of(PAGE), verdict_of(0.0), lead_to())
    genre = [next(p.value for p in r.parts if p.name == "genre") for r in ranked]
    assert genre[1] > 2.0 > genre[0]  # both news words twice, over a blog's address
    for link, best in zip(ranked, genre, strict=True):
        values = {p.name: p.value for p in link.parts if p.name.startswith("genre ")}
        whole = [value + values[f"{name} page"] for name, value in values.items() if not name.endswith(" page")]
        assert len(whole) > 1 and best == pytest.approx(max(whole))
    only = scored_links(tswt(genre=1.0, genre_text_only=True), reading_of(PAGE), verdict_of(0.0), lead_to())
    assert next(p.value for p in only[1].parts if p.name == "genre") == pytest.approx(1.0)


def test_final_score_is_the_weighted_sum_of_topic_and_genre_s3_24() -> None:
    page, verdict = reading_of(PAGE), verdict_of(0.5)
    scores = {
        weights: [r.score for r in scored_links(tswt(topic=weights[0], genre=weights[1]), page, verdict, lead_to())]
        for weights in ((1.0, 0.0), (0.0, 1.0), (0.7, 0.3))
    }
    topic, genre = scores[1.0, 0.0], scores[0.0, 1.0]
    assert topic != genre
    assert scores[0.7, 0.3] == pytest.approx([0.7 * t + 0.3 * g for t, g in zip(topic, genre, strict=True)])


@given(st.lists(st.sampled_from(["audi", "car", "press", "report", "blog", "tax"]), min_size=2, max_size=12))
def test_simple_sum_and_mean_give_the_same_order_s3_24_s3_e2(words: list[str]) -> None:
    text = "\n".join(f"[{w}](http://x.example/{w}) {w}" for w in words)
    orders = []
    for weight in (1.0, 0.5):
        ranked = scored_links(tswt(topic=weight, genre=weight), reading_of(text), verdict_of(0.5), lead_to())
        orders.append(sorted(range(len(words)), key=lambda i, r=ranked: (-r[i].score, i)))  # type: ignore[misc]
    assert orders[0] == orders[1]


def test_ranked_scale_makes_the_balance_matter_s3_e2() -> None:
    page, verdict = reading_of(PAGE), verdict_of(0.5)
    sweep = [scored_links(tswt(topic=w, genre=1 - w, scale="rank"), page, verdict, lead_to()) for w in (0.9, 0.1)]
    assert [max(r, key=lambda x: x.score).link.url[-4:] for r in sweep] == ["audi", "blog"]


def test_genre_weight_without_genres_is_refused() -> None:
    with pytest.raises(ConfigError, match="genres"):
        TopicGenreRanker(CARS, url_terms, options=TopicGenreOptions(genre=1.0))


def test_many_weak_parents_outrank_a_perfect_one_only_by_sum_s3_e3() -> None:
    assert parents_of(*[0.2] * 6, method="sum") > 1.0 > parents_of(*[0.2] * 6, method="max")


def test_parents_are_aggregated_by_the_chosen_method_s3_e3() -> None:
    assert [parents_of(0.5, 1.0, 0.3, method=how) for how in ("sum", "mean", "max", "first")] == [1.8, 0.6, 1.0, 0.5]
    assert parents_of(0.5, method="mean") == 0.5


def test_parents_are_bounded_per_link_and_in_all() -> None:
    parents = KnownParents(limit=2, per_link=2)
    for page in range(4):
        parents.add(page, (page / 10,), [7])
    assert parents.aggregate(7, (0.0,), "sum") == pytest.approx((0.1,))  # of the pages 0 and 1
    parents.add(9, (0.5,), [8, 10])
    assert parents.known.keys() == {8, 10}


def test_page_that_is_fetched_again_counts_once_with_its_new_relevance_s3_17() -> None:
    parents = KnownParents()
    parents.add(1, (0.2,), [7, 8])
    parents.add(2, (0.4,), [7])
    parents.add(1, (0.6,), [7])
    assert parents.aggregate(7, (0.0,), "sum") == pytest.approx((1.0,))
    assert 8 not in parents.known  # no longer on page 1


@pytest.mark.parametrize(("method", "expected"), [("sum", 0.7), ("mean", 0.35), ("max", 0.5), ("first", 0.5)])
def test_page_of_an_older_version_has_no_values_of_genres(method: ParentAgg, expected: float) -> None:
    parents = KnownParents()
    parents.add(1, (0.5,), [7])
    assert parents.aggregate(7, (0.2, 0.1, 0.3), method) == pytest.approx((expected, 0.1, 0.3))
