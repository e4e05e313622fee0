"""While hardly any link pays, some go to the hosts that were tried least."""

import numpy as np
import pytest
from numpy.typing import NDArray

from checks.link_visits import found, visit
from opilio.learn.committee import Committee
from opilio.learn.exploration import ENOUGH_HITS, MAX_LINKS, Exploration
from opilio.learn.link_pool import LinkPool
from opilio.learn.logistic import FEATURE_INDEX, FEATURE_NAMES
from opilio.learn.scoring import CommitteeOptions
from opilio.learn.word_model import hash_text

NOTHING = [False] * 30


def pool_of(*links: tuple[str, float, int]) -> LinkPool:
    """Links with these hosts, scores, and steps since a relevant page or a seed."""
    pool = LinkPool(64, len(FEATURE_NAMES))
    rows = pool.allocate(list(range(1, len(links) + 1)), [host for host, _, _ in links])
    pool.scores[rows] = [score for _, score, _ in links]
    pool.rows["prefixes"][rows, 0] = [hash_text(host) for host, _, _ in links]
    pool.rows["dense"][rows, FEATURE_INDEX["tunnel"]] = [steps for _, _, steps in links]
    return pool


def chosen(
    pool: LinkPool, count: int, tries: dict[str, float], rate: float = 0.9, explores: Exploration | None = None
) -> list[str]:
    by_hash = {hash_text(host): number for host, number in tries.items()}

    def tries_of(hashes: NDArray[np.uint32]) -> NDArray[np.float64]:
        return np.array([by_hash.get(one, 0.0) for one in hashes.tolist()], dtype=np.float64)

    return [pool.hosts[row] for row in (explores or Exploration(0.3)).choose(pool, count, tries_of, rate).tolist()]


def test_share_of_links_is_kept_over_batches_of_any_size() -> None:
    exploration = Exploration(0.33)
    due = [exploration.due(links, NOTHING, 10) for links in (10, 11, 12, 13, 16, 25, 100)]
    assert due == [0, 0, 0, 1, 1, 3, MAX_LINKS]
    assert sum(Exploration(0.0).due(links, NOTHING, 10) for links in range(100)) == 0


def test_long_queue_is_searched_less_often() -> None:
    exploration = Exploration(0.5)
    due = [exploration.due(links, NOTHING, 25_000) for links in range(1, 14)]
    assert due == [0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 3, 0]


@pytest.mark.parametrize(("hits", "explores"), [(0, True), (2, True), (3, False), (30, False)])
def test_exploration_pauses_while_links_pay(hits: int, explores: bool) -> None:
    exploration = Exploration(0.5)
    recent = [True] * hits + [False] * (30 - hits)
    assert bool(sum(exploration.due(links, recent, 10) for links in range(20))) is explores


def test_exploration_waits_for_the_first_results() -> None:
    exploration = Exploration(0.5)
    assert sum(exploration.due(links, [False] * 5, 10) for links in range(20)) == 0


def test_link_of_the_least_tried_host_is_chosen() -> None:
    pool = pool_of(("tried.example", 0.3, 1), ("tried.example", 0.2, 1), ("new.example", 0.03, 1))
    assert chosen(pool, 1, {"tried.example": 20.0}) == ["new.example"]


def test_each_host_gets_one_link() -> None:
    pool = pool_of(("a.example", 0.3, 1), ("a.example", 0.3, 1), ("b.example", 0.1, 1), ("c.example", 0.1, 4))
    assert chosen(pool, 3, {}) == ["a.example", "b.example", "c.example"]


def test_links_near_the_seeds_come_first() -> None:
    pool = pool_of(("far.example", 0.12, 5), ("near.example", 0.03, 1))
    assert chosen(pool, 1, {}) == ["near.example"]


def test_new_hosts_wait_where_most_of_them_are_dead() -> None:
    pool = pool_of(("new.example", 0.05, 1), ("known.example", 0.05, 1))
    assert chosen(pool, 1, {"known.example": 3.0}, rate=0.9) == ["new.example"]
    assert chosen(pool, 1, {"known.example": 3.0}, rate=0.1) == ["known.example"]


def test_host_that_never_answers_is_tried_once() -> None:
    pool = pool_of(("silent.example", 0.1, 1), ("silent.example", 0.1, 1), ("other.example", 0.05, 1))
    exploration = Exploration(0.3)
    assert [chosen(pool, 1, {}, explores=exploration)[0] for _ in range(2)] == ["silent.example", "other.example"]


def test_known_hosts_come_first_when_new_ones_do_not_answer() -> None:
    silent = [(f"silent{number}.example", 0.05, 1) for number in range(30)]
    pool = pool_of(*silent, ("known.example", 0.05, 1))
    exploration = Exploration(0.3)
    order = [chosen(pool, 1, {"known.example": 2.0}, explores=exploration)[0] for _ in range(10)]
    assert 1 <= order.index("known.example") <= 8


def test_link_is_chosen_once() -> None:
    pool = pool_of(("a.example", 0.3, 1), ("b.example", 0.1, 1))
    exploration = Exploration(0.3)
    order = [chosen(pool, 1, {"a.example": 1.0, "b.example": 1.0}, explores=exploration) for _ in range(3)]
    assert order == [["a.example"], ["b.example"], []]


def test_committee_that_found_its_topic_does_not_explore_when_nothing_is_left() -> None:
    committee = Committee(CommitteeOptions(capacity=2_000))
    found(committee, 901, [1, *range(7, 7 * 150, 7)])
    first = []
    for number in range(7, 7 * 120, 7):
        committee.apply_lessons(committee.make_lesson(visit(number, float(number <= 7 * ENOUGH_HITS))))
        first += committee.explored()
    assert first == []


@pytest.mark.parametrize(("reward", "share", "explored"), [(0.0, 0.33, True), (1.0, 0.33, False), (0.0, 0.0, False)])
def test_committee_tries_another_host_only_while_nothing_pays(reward: float, share: float, explored: bool) -> None:
    committee = Committee(CommitteeOptions(capacity=400, explore=share))
    # Numbers that 7 divides are on h0, number 1 is on h1.
    found(committee, 901, [1, *range(7, 7 * 60, 7)])
    first = []
    for number in range(7, 7 * 25, 7):
        committee.apply_lessons(committee.make_lesson(visit(number, reward)))
        first += [host for host, _ in committee.explored()]
    assert ("h1.example" in first) is explored
