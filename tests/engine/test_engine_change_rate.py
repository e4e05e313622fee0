"""Rates of change estimated from irregular visits: near the truth, never impossible, learned from similar pages."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.core.clock import DAY_S
from opilio.engine.revisit.candidates import (
    POLICIES,
    RATE_COUNT,
    RATES,
    GroupRatePriors,
    RevisitCandidates,
    change_probability,
    mean_rate,
    rate_posterior,
    visit_log_likelihood,
)

LOOKS = st.lists(st.tuples(st.floats(0.0, 1e9), st.booleans()), max_size=12)


def groups(kin: GroupRatePriors, directory: str = "d") -> np.ndarray:
    names = (("kind", "page"), ("host", "h"), ("directory", directory))
    return np.array([[kin.group_id(name) for name in names]], dtype=np.int32)


def seen(true_days: float, looks: int, rng: np.random.Generator) -> np.ndarray:
    """Visits at random times of a page that changes at this rate."""
    total = np.zeros(RATE_COUNT)
    for _ in range(looks):
        waited = rng.uniform(0.2, 6.0) * DAY_S
        total += visit_log_likelihood(waited, bool(rng.random() < 1 - np.exp(-waited / (true_days * DAY_S))))
    return total


@pytest.mark.parametrize("true_days", [0.5, 3.0, 30.0])
def test_rate_is_near_the_truth_when_looks_are_irregular(true_days: float) -> None:
    rng, kin = np.random.default_rng(1), GroupRatePriors()
    found = [
        float(1 / mean_rate(rate_posterior(seen(true_days, 60, rng)[None], kin.prior(groups(kin))))[0] / DAY_S)
        for _ in range(20)
    ]
    assert 0.5 < np.median(found) / true_days < 2.0


def test_counting_changes_would_say_too_little_of_a_fast_page() -> None:
    """Looked at once a day, a page that changes every two hours changes once a day at most."""
    rng, kin = np.random.default_rng(2), GroupRatePriors()
    likelihood = sum(visit_log_likelihood(rng.uniform(0.1, 1.0) * DAY_S, True) for _ in range(30))
    assert mean_rate(rate_posterior(np.asarray(likelihood)[None], kin.prior(groups(kin))))[0] * DAY_S > 4


def test_page_that_was_never_looked_at_has_the_rate_of_its_directory() -> None:
    rng, kin = np.random.default_rng(3), GroupRatePriors()
    for name, days in (("fast", 1.0), ("slow", 200.0)):
        for _ in range(30):
            mine = groups(kin, name)
            after = rate_posterior(seen(days, 5, rng)[None], kin.prior(mine))[0]
            kin.learn(mine[0].tolist(), None, after)
    fast, slow = (float(mean_rate(kin.prior(groups(kin, name)))[0]) for name in ("fast", "slow"))
    assert fast > 3 * slow


@given(LOOKS)
def test_whatever_was_seen_beliefs_are_chances(looks: list[tuple[float, bool]]) -> None:
    kin = GroupRatePriors()
    total = sum((visit_log_likelihood(waited, changed) for waited, changed in looks), np.zeros(RATE_COUNT))
    chances = rate_posterior(total[None], kin.prior(groups(kin)))
    assert np.isfinite(chances).all()
    assert chances.sum() == pytest.approx(1.0)
    assert RATES[0] <= mean_rate(chances)[0] <= RATES[-1] * 1.001
    assert 0.0 <= change_probability(chances, np.array([DAY_S]))[0] <= 1.0


def candidates(
    waited_days: list[float], rates: list[int], worth: list[float], result: list[bool] | None = None
) -> RevisitCandidates:
    return RevisitCandidates(
        waited_s=np.array(waited_days) * DAY_S,
        rate_probabilities=np.eye(RATE_COUNT)[rates],
        value=np.array(worth),
        hinted=np.array(result or [False] * len(rates)),
        interval_s=7 * DAY_S,
    )


def test_policies_order_pages_as_their_names_say() -> None:
    fast, middle, slow = RATE_COUNT - 1, 11, 2
    pages = candidates([3, 2, 1], [slow, middle, fast], [1, 1, 1])
    assert POLICIES["fixed"](pages).argmax() == 0
    assert POLICIES["proportional"](pages).argmax() == 2
    assert POLICIES["adaptive"](pages).argmax() == 1, "who changes too fast to follow is worth less"


def test_value_grows_with_relevance_with_time_and_with_what_a_sitemap_says() -> None:
    value = POLICIES["adaptive"]
    assert np.all(np.diff(value(candidates([3, 3, 3], [11, 11, 11], [0.1, 0.5, 2.0]))) > 0)
    assert np.all(np.diff(value(candidates([1, 3, 9, 30], [11] * 4, [1] * 4))) > 0)
    plain, result = value(candidates([1, 1], [6, 6], [1, 1], [False, True]))
    assert result > 5 * plain
