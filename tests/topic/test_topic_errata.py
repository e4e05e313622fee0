"""Errata of the papers that no other test names, resolved as the specification says."""

import inspect
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.engines import PageFetcher, html, plain_tree, run_engine, states
from checks.scored_links import scored_links
from opilio.core.registry import kind_options
from opilio.judge.similarity import ContainsJudge
from opilio.rank.baselines import LinkScoreRanker
from opilio.testing.conformance import lead_to, reading_of, terms_of, url_terms, verdict_of
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.page_terms import PageTerms
from opilio.topic.weights import QueryLogSmoothing, QueryLogWeights, table_from_weights

HERE = "http://a.example/"
weights = st.dictionaries(st.sampled_from(["wren", "nest", "song", "hedge"]), st.floats(0.01, 9.0), min_size=1)


def test_loop_runs_while_the_queue_is_not_empty_s0_e1_s0_01(tmp_path: Path) -> None:
    pages = {f"{HERE}{n}": html(f"{HERE}{n}", f"<p>wrens {n * 'song '}</p><a href='/{n + 1}'>on</a>") for n in range(5)}
    reason, _ = run_engine(tmp_path / "c", plain_tree([f"{HERE}0"], strategy="s0"), PageFetcher(pages))
    assert "empty" in reason or "left" in reason
    assert [state for state, _ in states(tmp_path / "c").values()] == [2] * 5 + [3]


def test_every_value_the_paper_leaves_open_is_an_option_s0_e8() -> None:
    assert "threshold" in kind_options("judge", "cosine")
    assert "threshold" in kind_options("rank", "linkscore")
    assert {"period", "added", "size"} <= kind_options("expansion", "periodic").keys()


def test_weight_at_the_threshold_makes_a_keyword_s4_08() -> None:
    state = QueryLogWeights({"poll": 1.0, "date": 0.999})
    assert QueryLogSmoothing(threshold=1.0).keywords(state) == {"poll": 1.0}


def test_smoothing_constant_and_url_score_have_names_of_their_own_s4_e5() -> None:
    assert {"memory", "threshold"} <= set(inspect.signature(QueryLogSmoothing).parameters)
    ranked = scored_links(
        LinkScoreRanker(EvolvingTopic(table_from_weights({"wren": 1.0})), url_terms),
        reading_of("[wren](http://b.example/wren)"),
        verdict_of(0.5),
        lead_to(),
    )
    assert [part.name for part in ranked[0].parts] == ["url", "anchor", "parent", "around"]


@given(weights)
def test_normalising_twice_changes_nothing_s4_e7_s0_19(given_weights: dict[str, float]) -> None:
    once = table_from_weights(given_weights)
    assert table_from_weights(once.weights) == once
    assert once.keywords[0].weight == 1.0
    assert all(0.0 < keyword.weight <= 1.0 for keyword in once.keywords)


@given(weights, st.floats(0.1, 10.0))
def test_table_does_not_see_the_scale_of_its_weights_s0_e2_s4_e9(
    given_weights: dict[str, float], factor: float
) -> None:
    scaled = table_from_weights({stem: weight * factor for stem, weight in given_weights.items()})
    assert scaled.weights == pytest.approx(table_from_weights(given_weights).weights)


def test_containing_the_query_counts_every_sense_s3_e7() -> None:
    judge = ContainsJudge("jaguar", PageTerms(terms_of))
    car, cat = reading_of("the jaguar has a fast engine"), reading_of("the jaguar hunts in the jungle")
    assert judge.judge(car).relevant and judge.judge(cat).relevant  # why the lab's judge of record is another
