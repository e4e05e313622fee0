"""Curves, areas and rates of a crawl (S0-30, S2-41, S2-43)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.lab.evaluation import metrics

hits_lists = st.lists(st.booleans(), max_size=40)


@given(hits_lists, st.integers(1, 60))
def test_found_curve_is_monotone_and_ends_at_the_count(hits: list[bool], budget: int) -> None:
    curve = metrics.found_curve(hits, budget)
    assert len(curve) == budget
    assert (np.diff(curve) >= 0).all()
    assert curve[-1] == sum(hits[:budget])


@given(hits_lists)
def test_harvest_stays_between_zero_and_one(hits: list[bool]) -> None:
    assert ((metrics.harvest_curve(hits) >= 0) & (metrics.harvest_curve(hits) <= 1)).all()
    assert metrics.harvest(hits) == pytest.approx(sum(hits) / len(hits) if hits else 0)


@given(hits_lists, st.integers(1, 60))
def test_auc_vs_oracle_is_at_most_one_when_the_oracle_has_all_hits_first(hits: list[bool], budget: int) -> None:
    best = sorted(hits, reverse=True)
    value = metrics.auc_vs_oracle(hits, best, budget)
    assert 0 <= value <= 1
    assert metrics.auc_vs_oracle(best, best, budget) == (1.0 if any(best[:budget]) else 0.0)


def test_auc_vs_oracle_counts_a_crawl_that_stops_early_as_flat() -> None:
    assert metrics.auc_vs_oracle([True], [True, True], budget=4) == pytest.approx(4 / 7)


def test_fetches_to_half_is_none_when_never_reached() -> None:
    hits = [True, False, True, False]
    assert metrics.fetches_to_recall(hits, 0.5, relevant=4) == 3
    assert metrics.fetches_to_recall(hits, 0.9, relevant=4) is None
    assert metrics.fetches_to_recall(hits, 0.9, relevant=0) == 0


def test_recall_is_the_share_of_what_can_be_found() -> None:
    assert metrics.recall([True, True], relevant=4) == 0.5
    assert metrics.recall([], relevant=0) == 0.0
    assert metrics.target_recall(["a", "b"], {"b", "c"}) == 0.5


def test_host_spread_is_zero_bits_on_one_host() -> None:
    assert metrics.host_spread(["a", "a"]) == metrics.HostSpread(1, 0.0)
    assert metrics.host_spread([]) == metrics.HostSpread(0, 0.0)


@given(hits_lists, st.integers(1, 10))
def test_curve_points_end_at_the_last_fetch(hits: list[bool], most: int) -> None:
    points = metrics.curve_points(hits, most)
    assert len(points) <= most + 1
    assert not hits or points[-1] == (len(hits), sum(hits))


def test_link_auc_when_ties_count_half() -> None:
    assert metrics.rank_auc([0.5, 0.5], [True, False]) == 0.5
    assert metrics.rank_auc([0.1, 0.9], [True, True]) is None
    assert metrics.average_precision([0.1], [False]) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
def test_link_measures_agree_with_scikit_learn(pairs: list[tuple[int, bool]]) -> None:
    sk = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    scores, paid = [p[0] / 5 for p in pairs], [p[1] for p in pairs]
    if len(set(paid)) == 2:
        assert metrics.rank_auc(scores, paid) == pytest.approx(sk.roc_auc_score(paid, scores))
        assert metrics.average_precision(scores, paid) == pytest.approx(sk.average_precision_score(paid, scores))


def test_calibration_error_is_zero_when_promises_are_kept() -> None:
    assert metrics.calibration_error([0.5, 0.5], [True, False]) == 0.0
    assert metrics.calibration_error([1.0, 1.0], [False, False]) == 1.0
    assert [b.links for b in metrics.reliability_bins([0.05, 0.95, 1.0], [False, True, True])] == [1, 2]


def test_judge_quality_when_half_the_claims_are_right() -> None:
    quality = metrics.judge_quality([True, True, False, False], [True, False, True, False])
    assert quality == metrics.JudgeQuality(0.5, 0.5, 0.5, 4)
    assert metrics.judge_quality([False], [False]).f1 == 0.0


def test_measures_refuse_lists_of_different_length() -> None:
    with pytest.raises(ValueError, match="length"):
        metrics.rank_auc([0.1], [True, False])


def test_recall_is_approximated_among_fetched_pages_with_a_label_s2_42() -> None:
    predicted, relevant = [True, False, True, True, False], [True, True, True, False, True]
    assert metrics.crawled_recall(predicted, relevant, known=[True] * 5) == 0.5
    assert metrics.crawled_recall(predicted, relevant, known=[True, False, True, True, False]) == 1.0
    assert metrics.crawled_recall(predicted, relevant, known=[False] * 3 + [True, False]) is None
    assert metrics.crawled_recall([], [], []) is None
