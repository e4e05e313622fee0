"""The query-log table: S4-03…S4-11 with S4-E1…S4-E9."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.core.errors import TopicError
from opilio.topic.weights import QueryLogSmoothing, QueryLogWeights, query_frequencies, stem_query

STOP = {"for", "of", "it", "the", "a", "can", "do", "did", "will", "shall"}  # "new" is not one of them (S4-E3)
QUERIES = (
    "Kejriwal new manifesto for lok sabha polls 2014.",
    "Manifesto of BJP for lok sabha polls 2014.",
    "lok sabha polls 2014 dates",
)


def plural_only(word: str) -> str:
    """A light lemmatiser as S4-E2 asks for."""
    word = word.lower()
    return "" if word in STOP else word.removesuffix("s")


def stems(*queries: str, phrases: tuple[str, ...] = ("lok sabha",)) -> list[list[str]]:
    return [stem_query(q, plural_only, phrases) for q in queries]


def test_frequencies_of_the_example_s4_09() -> None:
    expected = {"bjp": 1, "date": 1, "kejriwal": 1, "lok sabha": 3, "manifesto": 2, "new": 1, "poll": 3, "2014": 3}
    assert query_frequencies(stems(*QUERIES)) == expected


def test_without_a_lexicon_the_phrase_is_two_terms_s4_e1() -> None:
    frequencies = query_frequencies(stems(*QUERIES, phrases=()))
    assert (frequencies["lok"], frequencies["sabha"]) == (3, 3)


def test_weights_of_the_example_s4_10() -> None:
    weights = QueryLogSmoothing(memory=0.5).update(QueryLogWeights(), stems(*QUERIES)).weights
    expected = {"bjp": 0.5, "date": 0.5, "kejriwal": 0.5, "lok sabha": 1.5, "manifesto": 1.0, "new": 0.5}
    assert weights == expected | {"poll": 1.5, "2014": 1.5}


def test_threshold_gives_table_i_and_silence_empties_it_s4_11() -> None:
    log = QueryLogSmoothing(memory=0.5, threshold=1.0)
    asked = log.update(QueryLogWeights(), stems(*QUERIES))
    assert log.keywords(asked) == {"lok sabha": 1.5, "poll": 1.5, "manifesto": 1.0, "2014": 1.5}
    silent = log.update(asked, [])
    halves = {s: silent.weights[s] for s in ("lok sabha", "poll", "manifesto", "2014")}
    assert halves == {"lok sabha": 0.75, "poll": 0.75, "manifesto": 0.5, "2014": 0.75}
    assert log.keywords(silent) == {}
    assert len(log.table(silent)) == 0


def test_new_frequency_and_old_weight_are_mixed_by_the_memory_s4_07() -> None:
    """(1 - .25) · 3 + .25 · 2, which a memory of one half could not tell from the reverse."""
    asked = QueryLogSmoothing(memory=0.25).update(QueryLogWeights({"poll": 2.0}), [["poll"]] * 3)
    assert asked.weights == {"poll": 2.75}


def test_term_twice_in_one_query_counts_once_s4_07() -> None:
    assert query_frequencies([["poll", "poll"], ["poll"]]) == {"poll": 2}


@pytest.mark.parametrize("memory", [0.0, -0.1, 0.51, 1.0])
def test_memory_outside_its_range_is_refused_s4_07(memory: float) -> None:
    with pytest.raises(TopicError, match="greater than 0"):
        QueryLogSmoothing(memory=memory)


def test_weight_waits_below_the_threshold_until_forgotten_s4_e8() -> None:
    log = QueryLogSmoothing(memory=0.5, threshold=1.0)
    state = log.update(QueryLogWeights(), [["wren"]])
    assert log.keywords(state) == {} and state.weights == {"wren": 0.5}
    for _ in range(10):
        state = log.update(state, [])
    assert state.weights == {}


def test_relative_frequency_does_not_depend_on_traffic_s4_e9() -> None:
    log = QueryLogSmoothing(relative=True, threshold=0.2)
    little, much = (log.update(QueryLogWeights(), stems(*QUERIES) * n).weights for n in (1, 7))
    assert little == pytest.approx(much)


def test_table_is_normalised_and_follows_a_shift_of_interest_s4_26() -> None:
    log = QueryLogSmoothing(threshold=1.0)
    state = log.update(QueryLogWeights(), [["cricket"]] * 4)
    for _ in range(3):
        state = log.update(state, [["election"]] * 4)
    table = log.table(state)
    assert table.keywords[0].stem == "election" and table.keywords[0].weight == 1.0
    assert "cricket" not in table.weights


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c"]), max_size=4), max_size=6))
def test_weight_never_exceeds_the_number_of_queries(queries: list[list[str]]) -> None:
    weights = QueryLogSmoothing(memory=0.25).update(QueryLogWeights(), queries).weights
    assert all(0.0 < w <= len(queries) for w in weights.values())
