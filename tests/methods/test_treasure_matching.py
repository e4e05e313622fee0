"""OSM, thresholds and priorities (S2-31 to S2-33, S2-37, S2-38, S2-E4), and the batch against one pair at a time."""

from collections import Counter
from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.methods.treasure.graph import (
    ANCHOR_REPEATS,
    MAX_LIST_TERMS,
    NEAR_TERMS,
    GraphNode,
    LinkDestination,
    LinkParts,
    TGraph,
    link_parts,
)
from opilio.methods.treasure.matching import (
    DC_WEIGHTS,
    EQUAL_WEIGHTS,
    MatchingOptions,
    NodeIndex,
    WeightEvidence,
    fit_weights,
    inverse_distance,
    match_links,
)
from opilio.testing.conformance import reading_of, terms_of

WORDS = ["grammar", "verb", "noun", "syntax", "train", "rail", "poem"]
texts = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
parts = st.tuples(texts, texts, texts, texts)


def graph_of(levels: list[int], components: list[tuple[str, str, str, str]]) -> TGraph:
    target = GraphNode(id="t", url="", level=0)
    ways = {0: (), 1: ("t",), 2: ("w1",), 3: ("w2",)}
    steps = [
        GraphNode(id="w1", url="", level=1, dic=LinkDestination(leads_to=("t",))),
        GraphNode(id="w2", url="", level=2, dic=LinkDestination(leads_to=("w1",))),
    ]
    nodes = [
        GraphNode(
            id=f"n{i:03}",
            url="",
            level=level,
            ish=c[0],
            sh=c[1],
            mh=c[2],
            dc=c[3],
            dic=LinkDestination(leads_to=ways[level]),
        )
        for i, (level, c) in enumerate(zip(levels, components, strict=True))
    ]
    return TGraph([target, *steps, *nodes])


def links_of(*components: tuple[str, str, str, str]) -> LinkParts:
    heads: list[tuple[Sequence[int], Sequence[int], Sequence[int]]] = [
        (terms_of(c[0]), terms_of(c[1]), terms_of(c[2])) for c in components
    ]
    places = np.arange(len(components))
    return LinkParts(heads, [terms_of(c[3]) for c in components], places, places)


def slow_similarity(mine: str, theirs: str, counts: bool) -> float:
    a, b = Counter(mine.split()), Counter(theirs.split())
    if not counts:
        a, b = Counter(set(a)), Counter(set(b))
    norm = sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))
    return sum(a[w] * b[w] for w in a) / norm if norm else 0.0


def slow_osm(mine: tuple[str, ...], theirs: tuple[str, ...]) -> float:
    parts = [slow_similarity(m, t, counts=at == 3) for at, (m, t) in enumerate(zip(mine, theirs, strict=True))]
    return float(np.dot(parts, EQUAL_WEIGHTS))


def test_osm_is_the_mean_of_four_s2_31() -> None:
    assert MatchingOptions().weights == EQUAL_WEIGHTS
    assert np.dot((0.2, 0.1, 0.0, 0.3), EQUAL_WEIGHTS) == pytest.approx(0.15)
    nodes = graph_of([1], [("grammar", "verb rail", "noun", "syntax")])
    found = match_links(NodeIndex(nodes, terms_of), links_of(("grammar", "verb", "poem", "")), MatchingOptions())
    assert found.osm[0] == pytest.approx((1.0 + 1 / sqrt(2) + 0.0 + 0.0) / 4)


@pytest.mark.parametrize(("level", "priority"), [(1, 1.0), (2, 0.5), (3, 1 / 3)])
def test_link_may_match_a_node_of_any_level_s2_33(level: int, priority: float) -> None:
    nodes = graph_of([level], [("grammar", "verb", "noun", "syntax")])
    found = match_links(NodeIndex(nodes, terms_of), links_of(("grammar", "verb", "", "")), MatchingOptions())
    assert found.priority[0] == pytest.approx(priority)


def test_defaults_are_those_of_table_5_s2_37() -> None:
    how = MatchingOptions()
    assert (how.threshold, how.unrelated, how.rule, how.weights) == (0.05, 0.01, "least", EQUAL_WEIGHTS)


def test_priority_is_the_inverse_distance_s2_32_s2_e4() -> None:
    assert [inverse_distance(d) for d in (0, 1, 2, 3)] == pytest.approx([1, 1, 0.5, 0.3333], abs=1e-4)
    assert [inverse_distance(d, next_step=True) for d in (0, 1, 2)] == pytest.approx([1, 0.5, 0.3333], abs=1e-4)


@given(st.lists(st.tuples(st.integers(0, 3), parts), min_size=1, max_size=6), st.lists(parts, min_size=1, max_size=4))
def test_batch_is_what_one_pair_at_a_time_gives(nodes: list[Any], links: list[Any]) -> None:
    graph = graph_of([level for level, _ in nodes], [c for _, c in nodes])
    index = NodeIndex(graph, terms_of)
    found = match_links(index, links_of(*links), MatchingOptions())
    for at, link in enumerate(links):
        similar = [(graph.distances[n.id], slow_osm(link, n.parts)) for n in graph.nodes.values()]
        above = [(distance, -value) for distance, value in similar if value > 0.05 + 1e-6]
        if above:
            distance, value = min(above)
            assert (found.distance[at], found.osm[at]) == (distance, pytest.approx(-value, abs=1e-5))
            assert found.priority[at] == inverse_distance(distance)
            assert slow_osm(link, index.nodes[found.node[at]].parts) == pytest.approx(-value, abs=1e-5)
        else:
            assert (found.priority[at], found.node[at]) == (0.01, -1)


@given(st.lists(st.tuples(st.integers(0, 3), parts), min_size=1, max_size=6), st.lists(parts, min_size=1, max_size=4))
def test_all_matching_nodes_are_those_of_one_pair_at_a_time_s2_f9_s2_f10(nodes: list[Any], links: list[Any]) -> None:
    graph = graph_of([level for level, _ in nodes], [c for _, c in nodes])
    index = NodeIndex(graph, terms_of)
    every, soft = (match_links(index, links_of(*links), MatchingOptions(rule=rule)) for rule in ("all", "soft"))
    for at, link in enumerate(links):
        similar = [(inverse_distance(graph.distances[n.id]), slow_osm(link, n.parts)) for n in graph.nodes.values()]
        above = [(worth, value) for worth, value in similar if value > 0.05 + 1e-6]
        mean = sum(w * v for w, v in above) / max(sum(v for _, v in above), 1e-12)
        assert every.priority[at] == pytest.approx(max(mean, 0.01), abs=1e-5)
        assert soft.priority[at] == pytest.approx(max([w * v for w, v in above] + [0.01]), abs=1e-5)
        assert every.node[at] == soft.node[at] == match_links(index, links_of(link), MatchingOptions()).node[0]


def test_osm_at_the_threshold_does_not_pass_s2_38() -> None:
    nodes = graph_of([1], [("a b c d e f g h i j k l m n o p q r s t u v w x y", "", "", "")])
    link = links_of(("a", "", "", ""))  # cosine 0.2, OSM 0.05
    found = match_links(NodeIndex(nodes, terms_of), link, MatchingOptions())
    assert found.osm[0] == pytest.approx(0.05)
    assert found.priority[0] == 0.01
    assert match_links(NodeIndex(nodes, terms_of), link, MatchingOptions(threshold=0.049)).priority[0] == 1.0


def test_nearest_wins_over_more_similar_s2_32() -> None:
    nodes = graph_of([3, 1], [("grammar", "verb", "noun", "syntax"), ("grammar", "", "", "")])
    found = match_links(NodeIndex(nodes, terms_of), links_of(("grammar", "verb", "noun", "syntax")), MatchingOptions())
    assert (found.priority[0], found.distance[0], found.osm[0]) == (1.0, 1, 0.25)


def test_all_matching_nodes_count_where_asked_s2_f9_s2_f10() -> None:
    nodes = graph_of([3, 1], [("grammar", "verb", "noun", "syntax"), ("grammar", "", "", "")])
    index, links = NodeIndex(nodes, terms_of), links_of(("grammar", "verb", "noun", "syntax"), ("train", "", "", ""))
    every = match_links(index, links, MatchingOptions(rule="all")).priority
    assert every.tolist() == pytest.approx([(1 / 3 + 0.25) / 1.25, 0.01])
    soft = match_links(index, links, MatchingOptions(rule="soft")).priority
    assert soft.tolist() == pytest.approx([1 / 3, 0.01])


def test_parts_empty_on_both_sides_are_skipped_where_asked() -> None:
    index, links = NodeIndex(graph_of([1], [("grammar", "", "", "")]), terms_of), links_of(("grammar", "", "", ""))
    assert match_links(index, links, MatchingOptions()).osm[0] == pytest.approx(0.25)
    assert match_links(index, links, MatchingOptions(skip_empty=True)).osm[0] == pytest.approx(1.0)


def test_silent_nodes_match_nothing() -> None:
    graph = graph_of([1], [("grammar", "", "", "")])
    silent = GraphNode(id="n000", url="", level=1, ish="grammar", dic=LinkDestination(leads_to=("t",), silent=True))
    found = match_links(
        NodeIndex(graph.with_nodes([silent]), terms_of), links_of(("grammar", "", "", "")), MatchingOptions()
    )
    assert found.node[0] == -1


def test_common_stems_give_the_same_as_rare_ones() -> None:
    """Stems of many nodes are columns of a matrix, others lists: 60 nodes have both kinds."""
    components = [("grammar", "verb", f"w{i}", f"syntax syntax x{i % 9} y{i}") for i in range(60)]
    index = NodeIndex(graph_of([1 + i % 3 for i in range(60)], components), terms_of)
    link = ("grammar", "noun", "w7", "syntax x3 x3 y8 poem")
    got = index.osm(index.query(links_of(link)))[0]
    assert got.tolist() == pytest.approx([slow_osm(link, n.parts) for n in index.nodes], abs=1e-5)


def test_empty_graph_and_empty_page_are_no_trouble() -> None:
    assert match_links(
        NodeIndex(TGraph(), terms_of), links_of(("a", "", "", "")), MatchingOptions()
    ).priority.tolist() == [0.01]
    assert (
        len(
            match_links(NodeIndex(graph_of([1], [("a", "", "", "")]), terms_of), links_of(), MatchingOptions()).priority
        )
        == 0
    )


def test_links_share_headings_and_windows() -> None:
    reading = reading_of("the verb [one](http://a.example/) and [two](http://b.example/)\n[three](http://c.example/)")
    found = link_parts(reading, terms_of)
    assert found.window_of.tolist() == [0, 0, 1]
    assert len(found.heads) == 1
    assert found.of(0)[3] == terms_of("the verb one and two")


def test_links_of_one_list_are_told_apart_by_their_own_words_where_asked() -> None:
    reading = reading_of("[wren](http://a.example/1) [train](http://a.example/2) [poem](http://a.example/3)")
    dic = LinkDestination(leads_to=("t",))
    near = GraphNode(id="n", url="", level=1, dc="wren train poem", anchor="wren", dic=dic)
    graph = TGraph([GraphNode(id="t", url="", level=0), near])
    paper = match_links(NodeIndex(graph, terms_of), link_parts(reading, terms_of), MatchingOptions())
    assert len(set(paper.osm.tolist())) == 1
    index = NodeIndex(graph, terms_of, lambda terms: np.ones(len(terms)))
    by_link = MatchingOptions(weights=DC_WEIGHTS, threshold=0.5)
    found = match_links(index, link_parts(reading, terms_of, link_words=True), by_link)
    assert (found.distance.tolist(), found.osm[0]) == ([1, -1, -1], pytest.approx(1.0))


def test_rare_words_count_more_where_asked() -> None:
    graph = graph_of([1, 1], [("", "", "", "rail verb"), ("", "", "", "rail poem")])
    rare = terms_of("verb")[0]
    index = NodeIndex(graph, terms_of, lambda terms: np.where(terms == rare, 3.0, 1.0))
    found = match_links(index, links_of(("", "", "", "rail verb")), MatchingOptions(weights=DC_WEIGHTS))
    assert index.nodes[found.node[0]].dc == "rail verb"
    place = next(at for at, node in enumerate(index.nodes) if node.dc == "rail poem")
    other = index.part_similarities(place, ((), (), (), terms_of("rail verb")))[3]
    assert other == pytest.approx(1 / sqrt(10) / sqrt(2), abs=1e-5)


def test_words_without_weight_match_nothing() -> None:
    index = NodeIndex(graph_of([1], [("", "", "", "rail")]), terms_of, lambda terms: np.zeros(len(terms)))
    found = match_links(index, links_of(("", "", "", "rail")), MatchingOptions(weights=DC_WEIGHTS))
    assert (found.osm[0], found.priority[0]) == (0.0, 0.01)


def test_text_of_a_link_is_cut_near_it_where_its_words_count() -> None:
    reading = reading_of(" ".join(f"[item w{i}](http://a.example/{i})" for i in range(300)))
    sizes = {len(window) for window in link_parts(reading, terms_of, link_words=True).windows}
    assert max(sizes) == 2 * NEAR_TERMS + 2 + 2 * ANCHOR_REPEATS


def test_endless_list_is_cut_into_stretches() -> None:
    items = " ".join(f"[item w{i}](http://a.example/{i})" for i in range(MAX_LIST_TERMS))
    assert list(map(len, link_parts(reading_of(items), terms_of).windows)) == [MAX_LIST_TERMS] * 2


def test_long_list_is_one_window_s2_23() -> None:
    found = link_parts(reading_of(" ".join(f"[item w{i}](http://a.example/{i})" for i in range(300))), terms_of)
    assert list(map(len, found.windows)) == [600]


@pytest.mark.slow
@given(st.lists(st.tuples(st.tuples(*[st.floats(0, 1)] * 4), st.booleans()), min_size=100, max_size=140))
def test_fitted_weights_lie_on_the_simplex_s2_f8(rows: list[Any]) -> None:
    evidence = WeightEvidence()
    for values, paid in rows:
        evidence.add(values, paid)
    weights = evidence.weights()
    assert sum(weights) == pytest.approx(1.0)
    assert all(0.0 <= w <= 1.0 for w in weights)


def test_fitted_weights_find_the_useful_part_s2_f8() -> None:
    rng = np.random.default_rng(1)
    values = rng.random((400, 4))
    paid = values[:, 3] > 0.5
    evidence = WeightEvidence()
    for row, label in zip(values.tolist(), paid.tolist(), strict=True):
        evidence.add(row, label)
    weights = evidence.weights()
    assert weights[3] > 0.85
    assert _error(values, paid, weights) < _error(values, paid, EQUAL_WEIGHTS)


def _error(values: np.ndarray, paid: np.ndarray, weights: tuple[float, ...]) -> float:
    """The least square error that any scale and offset of OSM leaves."""
    measure = values @ np.array(weights)
    fit = np.polyfit(measure, paid.astype(float), 1)
    return float(((np.polyval(fit, measure) - paid) ** 2).mean())


def test_weights_stay_equal_without_evidence() -> None:
    evidence = WeightEvidence()
    evidence.add((0.1, 0.2, 0.3, 0.4), True)
    assert evidence.weights() == EQUAL_WEIGHTS
    assert fit_weights(np.zeros((4, 4)), np.zeros(4)) == EQUAL_WEIGHTS
