"""Weight tables from documents: S0-13…S0-23, S1-17…S1-20, S3-10…S3-13, S4-02."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.tables import NO_NOISE_FILTER, table_from_documents
from opilio.core.errors import TopicError
from opilio.text.vocabulary import term_id
from opilio.topic.weights import (
    NoiseFilter,
    TermStatistics,
    TfDf,
    TfIdf,
    WeightTable,
    collect_statistics,
    corpus_idf,
    smooth_idf,
    table_from_weights,
)

S0_TABLE_2 = {"int": 1, "code": 0.92, "algorithm": 0.87, "program": 0.81, "database": 0.78, "internet": 0.76}
S0_TABLE_2 |= {"html": 0.69, "computer": 0.61, "hardware": 0.58, "software": 0.53}
S1_TABLE_1 = {"dna": 1, "genetic": 0.9168, "family": 0.7084, "ancestor": 0.6668, "history": 0.3334}
S1_TABLE_1 |= {"micro": 0.1043, "bio": 0.4168}

stems = st.text("abcdefg", min_size=3, max_size=4)
documents = st.lists(st.dictionaries(stems, st.integers(1, 9), max_size=8), max_size=6)


def test_tf_and_weight_match_the_papers_product_s0_20() -> None:
    statistics = collect_statistics([{"wren": 14, "nest": 86}, {"nest": 1}])
    assert collect_statistics([{"wren": 14, "nest": 86}]).shares["wren"] == pytest.approx(0.14)
    weights = TfIdf(noise=NO_NOISE_FILTER).weigh(statistics, lambda _: 4.0)
    assert weights["wren"] == pytest.approx(0.28)


def test_weight_is_tf_times_idf_and_the_heaviest_come_first_s0_16_s0_17_s0_18_x_03() -> None:
    """TF·IDF of S0, S1 and S3 beside the TF·DF of S4's static baseline, of the same pages."""
    pages = [{"wren": 8, "nest": 2}, {"wren": 1, "lake": 3}]
    statistics = collect_statistics(pages)
    idf = {"wren": math.log10(2 / 2), "nest": math.log10(2 / 1), "lake": math.log10(2 / 1)}
    tf = {"wren": (0.8 + 0.25) / 2, "nest": 0.2 / 2, "lake": 0.75 / 2}
    papers = TfIdf(idf_source="corpus", log_base=10, noise=NO_NOISE_FILTER)
    assert papers.weigh(statistics) == pytest.approx({stem: tf[stem] * idf[stem] for stem in tf})
    assert [k.stem for k in table_from_documents(pages, weighing=papers).keywords] == ["lake", "nest"]
    background = TfIdf(noise=NO_NOISE_FILTER)  # ours: tf · idf of a background corpus
    assert background.weigh(statistics, {"wren": 4.0, "nest": 5.0, "lake": 2.0}.__getitem__)["wren"] == 4 * tf["wren"]
    by_df = TfDf(noise=NO_NOISE_FILTER).weigh(statistics)
    assert max(by_df, key=by_df.__getitem__) == "wren"


@pytest.mark.parametrize(("base", "weight"), [(10, 0.14), (math.e, 0.3224), (2, 0.4651)])
def test_weight_depends_on_the_log_base_s0_e2(base: float, weight: float) -> None:
    assert 0.14 * corpus_idf(1000, 100, base) == pytest.approx(weight, abs=5e-5)


def test_log_base_cancels_when_normalised_s0_e2() -> None:
    pages = [{"wren": 3, "nest": 1}, {"wren": 1, "lake": 4}, {"lake": 1, "nest": 2, "song": 5}]
    tables = [
        table_from_documents(pages, weighing=TfIdf(idf_source="corpus", log_base=b, noise=NO_NOISE_FILTER))
        for b in (2, 10)
    ]
    assert tables[0].weights == pytest.approx(tables[1].weights)


def test_log_base_of_one_is_refused() -> None:
    with pytest.raises(TopicError, match="log_base"):
        corpus_idf(10, 1, 1.0)


def test_idf_vanishes_for_ubiquitous_words_unless_smoothed_x_14() -> None:
    assert corpus_idf(10, 10) == 0.0
    assert smooth_idf(10, 10) == pytest.approx(math.log(2))
    pages = [{"audi": 5, "car": 1}, {"audi": 4}]
    assert "audi" not in table_from_documents(pages, weighing=TfIdf(idf_source="corpus", noise=NO_NOISE_FILTER)).weights
    assert (
        table_from_documents(pages, weighing=TfIdf(idf_source="smooth", noise=NO_NOISE_FILTER)).keywords[0].stem
        == "audi"
    )
    assert (
        table_from_documents(pages, weighing=TfIdf(noise=NO_NOISE_FILTER), background=lambda _: 3.0).keywords[0].stem
        == "audi"
    )


def test_table_2_is_normalised_with_its_norm_s0_22() -> None:
    table = table_from_weights(S0_TABLE_2)
    assert table.keywords[0].weight == 1.0
    assert table.norm == pytest.approx(2.4312, abs=5e-5)


def test_table_1_norm_and_order_s1_20_s1_e2() -> None:
    table = table_from_weights(S1_TABLE_1)
    assert table.norm == pytest.approx(1.7558, abs=5e-5)
    assert [k.stem for k in table.keywords][-3:] == ["bio", "history", "micro"]


def test_table_keeps_the_size_it_is_given_s0_13_s1_17() -> None:
    page = {f"word{chr(97 + i // 26)}{chr(97 + i % 26)}": i + 1 for i in range(400)}
    smooth = TfIdf(idf_source="smooth")
    assert len(table_from_documents([page] * 50, 300, smooth)) == 300
    assert len(table_from_documents([page], 7, smooth)) == 7


def test_tf_df_prefers_what_many_results_say_s4_02() -> None:
    pages = [{"poll": 2, "cake": 8}, {"poll": 2, "tree": 4, "oak": 4}, {"poll": 2, "vote": 4, "seat": 4}]
    table = table_from_documents(pages, weighing=TfDf(noise=NO_NOISE_FILTER))
    assert table.keywords[0].stem == "poll"
    # TF .6 in three pages against .8 in one.
    assert table.weights["cake"] == pytest.approx(0.8 * 1 / (0.6 * 3))


def test_noise_filter_drops_rare_short_and_mixed_tokens_s0_e11_s3_e8() -> None:
    pages = [{"int": 9, "x1": 9, "2014": 3, "wren": 2, "hwi": 9}, {"int": 9, "x1": 4, "2014": 3, "wren": 2}]
    kept = table_from_documents(pages, weighing=TfIdf(idf_source="smooth")).weights.keys()
    assert kept == {"int", "2014", "wren"}  # "int" still passes, as S0-E11 says
    noise = NoiseFilter(min_letters=4, numbers=False)
    assert table_from_documents(pages, weighing=TfIdf(idf_source="smooth", noise=noise)).weights.keys() == {"wren"}


def test_noise_filter_asks_no_more_documents_than_there_are() -> None:
    assert table_from_documents([{"wren": 2}], weighing=TfIdf(idf_source="smooth")).weights == {"wren": 1.0}


@given(documents)
def test_table_is_empty_or_normalised_and_sorted(pages: list[dict[str, int]]) -> None:
    weights = [k.weight for k in table_from_documents(pages, 5, TfIdf(idf_source="smooth")).keywords]
    assert len(weights) <= 5
    assert weights == sorted(weights, reverse=True)
    assert not weights or weights[0] == 1.0
    assert all(0.0 < w <= 1.0 for w in weights)


@given(documents)
def test_online_table_equals_the_table_of_all_documents_s3_11(pages: list[dict[str, int]]) -> None:
    online = TermStatistics()
    for page in pages:
        online.add(page)
    smooth = TfIdf(idf_source="smooth", noise=NO_NOISE_FILTER)
    assert table_from_weights(smooth.weigh(online)) == table_from_documents(pages, None, smooth)


@given(documents)
def test_table_does_not_depend_on_the_order_of_documents(pages: list[dict[str, int]]) -> None:
    smooth = TfIdf(idf_source="smooth", noise=NO_NOISE_FILTER)
    there, back = (table_from_documents(p, None, smooth).weights for p in (pages, pages[::-1]))
    assert there == pytest.approx(back)


def test_statistics_forget_the_rarest_stems_when_full() -> None:
    statistics = TermStatistics(limit=2)
    for page in ({"wren": 1, "nest": 1}, {"wren": 1, "lake": 1, "nest": 1}, {"wren": 1, "song": 1, "bill": 1}):
        statistics.add(page)
    assert statistics.containing.keys() == {"wren", "nest"}
    assert statistics.documents == 3


def test_successor_says_what_was_added() -> None:
    first = table_from_weights({"wren": 2.0, "nest": 1.0})
    second = first.next_version(table_from_weights({"wren": 2.0, "nest": 1.0, "song": 0.5}))
    assert (second.version, second.added) == (1, ("song",))
    assert second.next_version(WeightTable(second.keywords)) is second


def test_phrase_is_one_term_of_the_table_s4_e1() -> None:
    table = table_from_weights({"lok sabha": 2.0, "sabha": 1.0})
    assert table.vector == {term_id("lok sabha"): 1.0, term_id("sabha"): 0.5}


def test_top_cuts_a_table() -> None:
    assert table_from_weights({"wren": 2.0, "nest": 1.0}).top(1).weights == {"wren": 1.0}


def test_statistics_of_no_documents_gives_an_empty_table() -> None:
    assert len(table_from_weights(TfIdf().weigh(collect_statistics([])))) == 0


def test_stem_counted_zero_times_is_not_in_the_document() -> None:
    assert collect_statistics([{"wren": 0, "nest": 1}]).containing == {"nest": 1}
