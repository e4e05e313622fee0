"""The watchdog: grows, reinforces, silences and drops, by what a crawl met; always a valid graph (S2-14)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.methods.treasure.graph import GraphNode, LinkDestination, TGraph, check_graph
from opilio.methods.treasure.updater import GraphExperience, GraphUpdater, GraphUpdaterOptions

LINK = ("Grammar", "Language", "Contents", "verbs and nouns")


def met(key: int, on_topic: bool = True, parent: int = 0, **more: object) -> GraphExperience:
    seen = GraphExperience(key, parent, f"http://x.example/{key}", on_topic, 0.9 if on_topic else 0.0, f"page {key}")
    return msgspec.structs.replace(seen, **more)


def small_graph() -> TGraph:
    target = GraphNode(id="t", url="http://x.example/t", level=0, mh="Grammar")
    steps = [
        GraphNode(id=n, url="", level=1, ish=n, dic=LinkDestination(leads_to=("t",))) for n in ("good", "bad", "bad2")
    ]
    far = [GraphNode(id=n, url="", level=2, dic=LinkDestination(leads_to=(n[3:],))) for n in ("farbad2", "fargood")]
    return TGraph([target, *steps, *far])


def test_first_on_topic_page_is_the_first_target() -> None:
    dog = GraphUpdater()
    dog.learn([met(1, on_topic=False), met(2)])
    assert [node.mh for node in dog.graph.at_level(0)] == ["page 2"]
    assert dog.version == 1


def test_links_on_the_way_to_a_target_become_nodes() -> None:
    dog = GraphUpdater(GraphUpdaterOptions(period=3), small_graph())
    dog.learn([met(1), met(2, parent=1, link=LINK), met(3, parent=2, link=LINK, classes=("415",))])
    grown = [node for node in dog.graph.nodes.values() if "w" in node.id]
    assert sorted(node.level for node in grown) == [0, 0, 0, 1, 1, 2]
    way = next(node for node in grown if node.level == 2)
    assert (way.parts, way.url, way.dic.url) == (LINK, "http://x.example/1", "http://x.example/2")
    assert [(node.level, node.dic.url) for node in grown if node.dic.classes] == [(0, ""), (1, "http://x.example/3")]
    check_graph(dog.graph, "grown")


def test_nothing_changes_before_the_period_is_over() -> None:
    graph = small_graph()
    dog = GraphUpdater(GraphUpdaterOptions(period=3), graph)
    dog.learn([met(1), met(2), met(9, on_topic=False)])
    assert (dog.graph, dog.version, dog.updates) == (graph, 0, [])
    dog.learn([met(3)])
    assert dog.version == 1
    assert [update.added for update in dog.updates] == [3]


def test_period_of_zero_lets_it_sleep() -> None:
    dog = GraphUpdater(GraphUpdaterOptions(period=0), small_graph())
    dog.learn([met(key) for key in range(50)])
    assert dog.version == 0


def test_nodes_are_credited_and_misleading_ones_dropped_or_silenced() -> None:
    dog = GraphUpdater(GraphUpdaterOptions(period=10, tries=10), small_graph())
    good = [met(i, node="good") for i in range(10)]
    bad = [met(i, on_topic=False, node=name) for name in ("bad", "bad2") for i in range(100, 110)]
    dog.learn([*bad, *good])
    assert dog.graph.nodes["good"].dic.hits == 10
    assert "bad" not in dog.graph.nodes  # a step without a node: it is removed
    assert dog.graph.nodes["bad2"].dic.silent  # a step of another: it stays, unheard
    assert (dog.updates[0].silenced, dog.updates[0].dropped) == (1, 1)
    check_graph(dog.graph, "pruned")


@pytest.mark.parametrize(("heading", "refreshed"), [("Grammar of today", 1), ("Grammar", 0)])
def test_target_that_is_met_again_has_the_heading_it_has_now(heading: str, refreshed: int) -> None:
    dog = GraphUpdater(GraphUpdaterOptions(period=1), small_graph())
    dog.learn([met(5, url="http://x.example/t", title="Grammar - an encyclopaedia", heading=heading)])
    assert dog.graph.nodes["t"].mh == heading
    assert dog.updates[0].refreshed == refreshed


def test_levels_are_bounded() -> None:
    dog = GraphUpdater(GraphUpdaterOptions(period=5, per_level=10, top=1.0), small_graph())
    for start in range(0, 100, 5):
        dog.learn([met(key, link=LINK) for key in range(start + 1, start + 6)])
    assert len(dog.graph.at_level(1)) <= 10
    check_graph(dog.graph, "bounded")


def test_weights_follow_experience_s2_f8() -> None:
    dog = GraphUpdater(GraphUpdaterOptions(period=0), small_graph())
    for key in range(100):
        paid = key % 2 == 0
        dog.learn([met(key, on_topic=paid, node="good", parts=(0.1, 0.1, 0.1, 0.9 if paid else 0.1))])
    assert dog.weights[3] == pytest.approx(1.0)


experiences = st.lists(
    st.builds(
        lambda key, parent, on_topic, node, score: met(key, on_topic, parent, node=node, score=score, link=LINK),
        st.integers(1, 30),
        st.integers(0, 30),
        st.booleans(),
        st.sampled_from(["", "good", "bad", "fargood", "gone"]),
        st.floats(0, 1),
    ),
    max_size=60,
)


@given(experiences, st.integers(1, 5))
def test_graph_stays_valid_and_a_snapshot_goes_on_the_same(seen: list[GraphExperience], size: int) -> None:
    habits = GraphUpdaterOptions(period=4, tries=3, per_level=6)
    dog, other = GraphUpdater(habits, small_graph()), GraphUpdater(habits)
    for at in range(0, len(seen), size):
        dog.learn(seen[at : at + size])
        check_graph(dog.graph, "any")
        other.restore(dog.snapshot())
        assert other.snapshot() == dog.snapshot()
        assert other.graph.nodes == dog.graph.nodes
