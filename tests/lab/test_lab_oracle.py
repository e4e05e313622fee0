"""The oracle and the random order on small graphs, against exhaustive search."""

import random
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.lab.evaluation import metrics
from opilio.lab.evaluation.oracle import oracle_hits, oracle_order, random_order, unlocked_relevant
from opilio.lab.webs.pages import WebLinkGraph


@st.composite
def small_webs(draw: st.DrawFn) -> tuple[list[list[int]], np.ndarray]:
    pages = draw(st.integers(2, 8))
    rows = draw(st.lists(st.lists(st.integers(0, pages), max_size=3), min_size=pages, max_size=pages))
    relevant = draw(st.lists(st.booleans(), min_size=pages, max_size=pages))
    return rows, np.array(relevant)


def best_area(rows: list[list[int]], relevant: np.ndarray, seeds: list[int], budget: int) -> int:
    """The largest area any order can have, by trying all of them."""

    @cache
    def best(fetched: frozenset[int], left: int) -> int:
        if not left:
            return 0
        known = (set(seeds) | {t for p in fetched for t in rows[p]}) - fetched
        held = sum(bool(relevant[p]) for p in fetched)
        gains = [held + bool(relevant[p]) + best(fetched | {p}, left - 1) for p in known if p < len(rows)]
        return max(gains, default=held * left)

    return best(frozenset(), budget)


@settings(max_examples=300, deadline=None)
@given(small_webs(), st.integers(1, 8))
def test_no_order_beats_the_oracle_by_much(web: tuple[list[list[int]], np.ndarray], budget: int) -> None:
    rows, relevant = web
    ours = metrics.area_under_found(oracle_hits(WebLinkGraph.from_rows(rows), relevant, [0], budget), budget)
    best = best_area(rows, relevant, [0], budget)
    assert ours <= best
    assert ours >= 0.85 * best


@settings(max_examples=100, deadline=None)
@given(small_webs(), st.integers(1, 8), st.integers(0, 5))
def test_orders_fetch_only_what_is_known(web: tuple[list[list[int]], np.ndarray], budget: int, seed: int) -> None:
    rows, relevant = web
    graph = WebLinkGraph.from_rows(rows)
    for order in (oracle_order(graph, relevant, [0], budget), random_order(graph, [0], budget, random.Random(seed))):
        assert len(order) == len(set(order)) <= budget
        known = {0}
        for node in order:
            assert node in known
            known.update(graph.out_links(node).tolist())


def test_oracle_goes_through_a_tunnel_when_it_pays_more() -> None:
    # 0 → 1 → (nothing but 7); 0 → 2 → 3 → 4, 5, 6: two irrelevant pages unlock three relevant ones
    rows = [[1, 2], [7], [3], [4, 5, 6], [], [], [], []]
    relevant = np.array([False, False, False, False, True, True, True, True])
    assert oracle_order(WebLinkGraph.from_rows(rows), relevant, [0], 8)[:3] == [0, 2, 3]


def test_oracle_prefers_the_short_errand_when_the_budget_is_short() -> None:
    rows = [[1, 2], [7], [3], [4, 5, 6], [], [], [], []]
    relevant = np.array([False, False, False, False, True, True, True, True])
    assert oracle_order(WebLinkGraph.from_rows(rows), relevant, [0], 3) == [0, 1, 7]


def test_oracle_stops_when_nothing_relevant_is_left() -> None:
    assert oracle_order(WebLinkGraph.from_rows([[1], [2], []]), np.array([True, False, False]), [0], 9) == [0]


def test_unlocked_pages_follow_chains_and_cycles() -> None:
    graph = WebLinkGraph.from_rows([[1], [2], [1, 3], []])
    assert unlocked_relevant(graph, np.array([False, True, True, True])) == [0b111, 0b111, 0b111, 0]


def test_depths_count_links_from_the_nearest_seed() -> None:
    graph = WebLinkGraph.from_rows([[1, 4], [2], [], [0]])
    assert graph.depths([0]).tolist() == [0, 1, 2, -1, 1]
    assert (graph.pages, graph.links, graph.dead, graph.nodes) == (4, 3, 1, 5)


def test_random_order_counts_dead_links_as_fetches() -> None:
    assert sorted(random_order(WebLinkGraph.from_rows([[1, 2], []]), [0], 9, random.Random(1))) == [0, 1, 2]
