"""Intervals and paired tests over runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.lab.evaluation import statistics


def test_bootstrap_is_the_same_when_the_generator_is() -> None:
    values = [0.1, 0.5, 0.4, 0.9]
    first = statistics.bootstrap_mean(values, np.random.default_rng(7))
    assert first == statistics.bootstrap_mean(values, np.random.default_rng(7))
    assert first.low < first.mean < first.high


def test_bootstrap_over_topics_is_wider_when_topics_differ() -> None:
    values = [0.1] * 10 + [0.9] * 10
    plain = statistics.bootstrap_mean(values, np.random.default_rng(1))
    nested = statistics.bootstrap_mean(values, np.random.default_rng(1), groups=["a"] * 10 + ["b"] * 10)
    assert nested.high - nested.low > plain.high - plain.low
    assert nested.mean == plain.mean == pytest.approx(0.5)


def test_bootstrap_of_nothing_is_empty() -> None:
    assert statistics.bootstrap_mean([], np.random.default_rng(1)) == statistics.ConfidenceInterval(0.0, 0.0, 0.0, 0)
    with pytest.raises(ValueError, match="groups"):
        statistics.bootstrap_mean([1.0], np.random.default_rng(1), groups=[])


def test_paired_test_when_one_side_always_wins() -> None:
    result = statistics.paired_test([2, 3, 4, 5, 6, 7], [1, 1, 1, 1, 1, 1])
    assert result.p_value == pytest.approx(2 / 64)
    assert (result.rank_biserial, result.wins, result.losses) == (1.0, 6, 0)


def test_paired_test_when_nothing_differs() -> None:
    result = statistics.paired_test([1.0, 2.0], [1.0, 2.0])
    assert (result.p_value, result.difference, result.dz) == (1.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="pairs"):
        statistics.paired_test([1.0], [])


@settings(deadline=None)
@given(st.lists(st.integers(-30, 30).filter(bool), min_size=2, max_size=12, unique_by=abs))
def test_paired_test_agrees_with_scipy_when_exact(gaps: list[int]) -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    ours = statistics.paired_test([float(g) for g in gaps], [0.0] * len(gaps))
    assert ours.p_value == pytest.approx(stats.wilcoxon(gaps, method="exact").pvalue)


def test_paired_test_agrees_with_scipy_when_there_are_many_pairs() -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    gaps = np.round(np.random.default_rng(3).normal(0.3, 1.0, 60), 1)
    expected = stats.wilcoxon(gaps[gaps != 0], method="asymptotic").pvalue
    assert statistics.paired_test(gaps.tolist(), [0.0] * 60).p_value == pytest.approx(expected)


def test_holm_never_lowers_and_keeps_the_order() -> None:
    assert statistics.holm_correction([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert statistics.holm_correction([]) == []
