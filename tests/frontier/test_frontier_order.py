"""The orders' arithmetic (S2-39, S2-E5, S0-E12), and lazy aging against doing it the long way."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.core.records import Tier
from opilio.core.strategies import load_strategy
from opilio.frontier.memory import MemoryFrontier
from opilio.frontier.policy import (
    Aging,
    AgingMode,
    BestFirst,
    Boltzmann,
    Expiring,
    FrontierPolicy,
    NBest,
    QueuePosition,
    QueueTime,
    finite_or_zero,
    reposition,
)
from opilio.testing.leases import landed, lead, seed


@pytest.mark.parametrize(
    ("score", "factor", "rounds"),
    [(0.01, 0.05, 20), (0.333, 0.05, 14), (0.01, 0.02, 50), (0.95, 0.05, 1), (0.5, 0.05, 10), (1.0, 0.05, 0)],
)
def test_rounds_until_an_entry_is_at_one_s2_39(score: float, factor: float, rounds: int) -> None:
    assert Aging(factor=factor).rounds_to_saturate(score) == rounds


@pytest.mark.parametrize(("factor", "insertions"), [(0.05, 2000), (0.02, 5000)])
def test_unrelated_priority_saturates_after_a_number_of_insertions_s2_39(factor: float, insertions: int) -> None:
    order = Aging(factor=factor, mode="paper")
    place = order.position(0.01, 1, QueueTime(1))
    assert place.timer == insertions // 100
    assert order.due_before(QueueTime(insertions - 1)) == place.timer - 1
    assert order.due_before(QueueTime(insertions)) == place.timer
    assert order.display_priority(place.priority, insertions) == 1.0
    assert order.display_priority(place.priority, insertions - 1) < 1.0


def test_seeds_come_before_links_that_age_s2_09() -> None:
    frontier = MemoryFrontier(FrontierPolicy(order=Aging(every=2)))
    frontier.add([lead(f"link{n}", 1.0) for n in range(50)], 0.0)
    frontier.add([seed("seed", 0.5)], 0.0)
    assert frontier.lease(0.0, 1, 1, 60.0)[0].leads[0].url.endswith("/seed")


def test_aging_off_is_best_first_s2_e5() -> None:
    order = Aging(mode="off")
    assert order.position(0.3, 500, QueueTime(9000)) == QueuePosition(0.3)
    assert order.due_before(QueueTime(9000)) is None
    assert order.display_priority(0.3, 9000) == 0.3


def long_way(order: Aging, scores: list[float]) -> list[int]:
    """S2-39 as written: after a number of insertions, walk over the queue. Returns entries in the order of leaving."""
    aged: list[float] = []
    # Entries at 1 in the order in which they reached it.
    arrived: list[int] = []
    for count, score in enumerate(scores, 1):
        aged.append(score)
        if score == 1.0:
            arrived.append(count - 1)
        if count % order.every == 0:
            raised = {i: round(a + order.factor, 6) for i, a in enumerate(aged) if a < 1.0}
            arrived += sorted((i for i, a in raised.items() if a >= 1.0), key=lambda i: (-raised[i], i))
            aged = [min(1.0, raised.get(i, 0.0)) if a < 1.0 else a for i, a in enumerate(aged)]
    base = scores if order.mode == "base_tiebreak" else [0.0] * len(scores)
    turn = {i: at for at, i in enumerate(arrived)} if order.mode == "arrival" else {}
    return sorted(range(len(scores)), key=lambda i: (-round(aged[i], 6), -base[i], turn.get(i, 0), i))


@pytest.mark.parametrize("mode", ["arrival", "paper", "base_tiebreak"])
@given(scores=st.lists(st.sampled_from([0.01, 0.05, 0.25, 1 / 3, 0.5, 0.95, 1.0, 6.0]), max_size=60))
def test_lazy_aging_orders_as_walking_over_the_queue_would_s2_e5(mode: AgingMode, scores: list[float]) -> None:
    order = Aging(every=5, factor=0.15, mode=mode)
    frontier = MemoryFrontier(FrontierPolicy(order=order))
    frontier.add([lead(str(i), score) for i, score in enumerate(scores)], 0.0)
    left = []
    while leases := frontier.lease(0.0, 1, 1, 60.0):
        left.append(int(leases[0].leads[0].url.rsplit("/", 1)[1]))
        frontier.complete(leases[0], landed(leases[0]), 0.0)
    assert left == long_way(order, scores)


def fetches_until_served(mode: AgingMode, stream: float, weak: float = 0.01) -> int | None:
    """Each fetch discovers three links of score `stream`; returns the fetch that gets the weak link, within 2,500."""
    frontier = MemoryFrontier(FrontierPolicy(order=Aging(mode=mode)))
    frontier.add([lead("weak", weak), lead("s", stream)], 0.0)
    for fetch in range(2_500):
        lease = frontier.lease(0.0, 1, 1, 60.0)[0]
        if lease.leads[0].url.endswith("/weak"):
            return fetch
        frontier.complete(lease, landed(lease), 0.0)
        frontier.add([lead(f"{fetch}-{n}", stream) for n in range(3)], 0.0)
    return None


@pytest.mark.parametrize("stream", [1.0, 0.5])
def test_weak_link_is_served_under_a_stream_of_better_ones_s2_15(stream: float) -> None:
    """A link of 0.01 waits for the later ones of at most 20 rounds, or leaves in the order of discovery at 1."""
    assert Aging().mode == load_strategy("s2-treasure")["order"]["mode"] == "arrival"
    later = 2_000 * (stream - 0.01) / 0.99
    assert fetches_until_served("arrival", stream) == pytest.approx(later, abs=100)
    assert fetches_until_served("paper", stream) == pytest.approx(670, abs=100)
    assert fetches_until_served("base_tiebreak", stream) is None
    assert fetches_until_served("off", stream) is None


def test_scores_keep_their_effect_when_the_queue_is_at_one_s2_15() -> None:
    """After 6,000 links all are at 1; those that came with 1 leave before those of 0.01 found with them."""
    links = [lead(f"{n}-{score}", score) for n in range(3_000) for score in (0.01, 1.0)]
    strong = {}
    for mode in ("arrival", "paper"):
        frontier = MemoryFrontier(FrontierPolicy(order=Aging(mode=mode)))
        frontier.add(links, 0.0)
        left = []
        for _ in range(400):
            (lease,) = frontier.lease(0.0, 1, 1, 60.0)
            left.append(lease.leads[0].url.endswith("-1.0"))
            frontier.complete(lease, landed(lease), 0.0)
        strong[mode] = sum(left)
    assert strong == {"arrival": 400, "paper": 200}


def test_expiry_renews_with_a_find_but_not_with_learning() -> None:
    order = Expiring(lifetime_s=10.0)
    assert order.position(0.5, 1, QueueTime(1, 100.0)) == QueuePosition(0.5, 110.0)
    assert order.position(0.7, 1, QueueTime(1), QueuePosition(0.5, 110.0)) == QueuePosition(0.7, 110.0)


def test_n_best_keeps_a_chosen_url_chosen_when_it_rises() -> None:
    order = NBest(n=3)
    chosen = reposition(order, 0.5, 1, QueueTime(1), QueuePosition(0.2, tier=Tier.FIRST))
    assert chosen == QueuePosition(0.5, tier=Tier.FIRST)
    assert order.display_priority(chosen.priority, 1) == 0.5
    assert order.position(0.5, 1, QueueTime(1), QueuePosition(0.2)) == QueuePosition(0.5)


def test_broken_scores_become_zero() -> None:
    assert [finite_or_zero(x) for x in (float("nan"), float("inf"), 0.5)] == [0.0, 0.0, 0.5]
    assert BestFirst().batch_size == 0


def test_links_are_drawn_by_the_exponent_of_their_scores_s1_11() -> None:
    """InfoSpiders: of two links, the better one comes first with exp(.2 / .1) to 1; the noise stays while they wait."""
    order, draws = Boltzmann(temperature=0.1), 4000
    first = [
        order.position(0.5, 2 * at, QueueTime(0)).priority > order.position(0.3, 2 * at + 1, QueueTime(0)).priority
        for at in range(draws)
    ]
    assert sum(first) / draws == pytest.approx(exp(2) / (1 + exp(2)), abs=0.02)
    place = order.position(0.5, 7, QueueTime(7))
    again = reposition(order, 0.6, 7, QueueTime(90), place)
    assert again.priority - place.priority == pytest.approx(0.1)
