"""PageRank, topical PageRank and the distiller's hubs over a partial graph, against small graphs worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.rank.link_graph import CrawledLinkGraph


def structure(pages: dict[int, tuple[str, float, list[int]]]) -> CrawledLinkGraph:
    made = CrawledLinkGraph()
    hosts = {key: host for key, (host, _, _) in pages.items()}
    for key, (host, relevance, links) in pages.items():
        made.add(key, host, relevance, [(link, hosts.get(link, "unfetched")) for link in links])
    return made


def value(made: CrawledLinkGraph, values: np.ndarray, key: int) -> float:
    return float(values[made.node_of[key]])


STAR = {1: ("a", 0.9, [9, 8]), 2: ("b", 0.1, [9]), 3: ("c", 0.1, [9, 7])}


def test_page_that_many_link_to_ranks_first_s2_f5() -> None:
    made = structure(STAR)
    ranks = made.pagerank()
    assert value(made, ranks, 9) == 1.0
    assert value(made, ranks, 8) < 1.0


def test_topical_pagerank_follows_relevant_pages() -> None:
    made = structure(STAR)
    plain, topical = made.pagerank(), made.pagerank(topical=True)
    assert value(made, plain, 8) == pytest.approx(value(made, plain, 7))
    assert value(made, topical, 8) > 2 * value(made, topical, 7)


def test_pagerank_is_that_of_the_power_iteration_on_a_ring() -> None:
    made = structure({n: ("h", 1.0, [(n + 1) % 5]) for n in range(5)})
    assert made.pagerank().tolist() == pytest.approx([1.0] * 5)


def test_hub_links_to_relevant_pages_of_other_hosts() -> None:
    web = {1: ("a", 0.8, [5, 6, 7]), 2: ("b", 0.8, [5, 99]), 3: ("a", 0.0, [5, 6, 7])}
    web |= {n: ("c", 0.9, []) for n in (5, 6, 7)}
    made = structure(web)
    hubs = made.hubs()
    assert value(made, hubs, 1) == 1.0
    assert 0.0 < value(made, hubs, 2) < 1.0
    assert value(made, hubs, 3) == 0.0  # an irrelevant page is no hub of the topic
    assert value(made, made.best_parent_strength(hubs, top=2), 99) == pytest.approx(value(made, hubs, 2))
    assert value(made, made.best_parent_strength(hubs, top=1), 99) == 0.0


def test_links_within_a_host_make_no_hub_unless_enabled() -> None:
    made = structure({1: ("a", 1.0, [2, 3]), 2: ("a", 1.0, []), 3: ("a", 1.0, [])})
    assert made.hubs().max() == 0.0
    assert value(made, made.hubs(same_host=True), 1) == 1.0


def test_page_fetched_again_adds_no_links_twice_and_bounds_are_kept() -> None:
    made = CrawledLinkGraph(max_links=2)
    for key in (1, 1, 2):
        made.add(key, "a", 0.5, [(10 + key, "b"), (20 + key, "b")])
    assert len(made) == 4  # 1 and its two links, and 2
    assert len(CrawledLinkGraph().pagerank()) == 0


@given(
    st.dictionaries(
        st.integers(0, 9), st.tuples(st.sampled_from("abc"), st.floats(0, 1), st.lists(st.integers(0, 15))), max_size=10
    )
)
def test_values_are_shares_whatever_the_graph(web: dict[int, tuple[str, float, list[int]]]) -> None:
    made = structure(web)
    for values in (
        made.pagerank(),
        made.pagerank(topical=True),
        made.hubs(),
        made.best_parent_strength(made.hubs(same_host=True), 3),
    ):
        assert len(values) == len(made)
        assert np.isfinite(values).all()
        assert ((values >= 0.0) & (values <= 1.0 + 1e-9)).all()
