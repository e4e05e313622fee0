"""A T-Graph as a record: levels, ways, pruning, its file, and what makes it unusable (S2-27 to S2-33)."""

import msgspec
import pytest

from opilio.core.errors import ConfigError
from opilio.methods.treasure.graph import (
    GraphDocument,
    GraphNode,
    LinkDestination,
    TGraph,
    decode_graph,
    encode_graph,
    graph_as_svg,
    graph_as_text,
)


def node(name: str, level: int, *leads_to: str, **more: str) -> GraphNode:
    return GraphNode(
        id=name, url=f"http://x.example/{name}", level=level, dic=LinkDestination(leads_to=leads_to), **more
    )


CHAIN = [node("t", 0), node("a", 1, "t"), node("b", 2, "a"), node("c", 3, "b"), node("d", 2, "a")]


def test_distance_is_the_least_number_of_links_to_a_target_s2_32() -> None:
    graph = TGraph([*CHAIN, node("e", 3, "b", "a")])  # one way of e skips a level
    assert graph.distances == {"t": 0, "a": 1, "b": 2, "d": 2, "c": 3, "e": 2}


def test_pruning_takes_what_has_no_way_any_more_s2_30() -> None:
    assert set(TGraph(CHAIN).without_nodes({"b"}).nodes) == {"t", "a", "d"}
    assert set(TGraph([*CHAIN, node("e", 3, "b", "d")]).without_nodes({"b"}).nodes) == {"t", "a", "d", "e"}


def test_graph_comes_back_from_its_file() -> None:
    graph = TGraph(
        [*CHAIN, node("f", 1, "t", ish="Grammar", dc="words of a sentence")],
        [GraphDocument(url="http://x.example/t", level=0, words={"grammar": 3})],
    )
    again = decode_graph(encode_graph(graph), "g.json")
    assert again.nodes == graph.nodes
    assert again.documents == graph.documents


def test_file_names_the_components_as_the_paper_does_s2_e1() -> None:
    data = msgspec.json.decode(encode_graph(TGraph(CHAIN)))
    assert {"ISH", "SH", "MH", "DC", "DIC"} <= data["nodes"][0].keys()


@pytest.mark.parametrize(
    ("nodes", "complaint"),
    [
        ([node("a", 1, "b"), node("b", 1, "a"), node("t", 0)], "cycle"),
        ([node("t", 0), node("b", 2, "t")], "no node of level 1"),
        ([node("a", 1, "t")], "no node of level 0"),
        ([node("t", 0), node("a", 1)], "node a of level 1 leads nowhere"),
        ([node("t", 0), node("a", 1, "gone")], "leads to gone, which does not exist"),
        ([node("t", 0), node("t", 0)], "two nodes have the id t"),
        ([node("t", 0), node("a", -1)], "levels count from 0"),
        ([], "has no node"),
    ],
)
def test_unusable_graph_is_refused_in_one_line(nodes: list[GraphNode], complaint: str) -> None:
    data = msgspec.json.encode({"schema": 1, "kind": "t-graph", "nodes": nodes})
    with pytest.raises(ConfigError, match=complaint) as error:
        decode_graph(data, "my.json")
    assert str(error.value).startswith("my.json: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"level": 1_000_000_000}, "document http://x.example/: level 1000000000, of which there is no node"),
        ({"level": -1}, "level -1, of which there is no node"),
        ({"level": 0, "words": {"wren": -7}}, "Expected `int` >= 0"),
        ({"level": 0, "words": {"wren": 10**30}}, "Expected `int`"),
    ],
)
def test_documents_that_no_layer_can_learn_from_are_refused(document: dict[str, object], complaint: str) -> None:
    documents = [{"url": "http://x.example/", **document}]
    data = msgspec.json.encode({"schema": 1, "kind": "t-graph", "nodes": CHAIN, "documents": documents})
    with pytest.raises(ConfigError, match=complaint):
        decode_graph(data, "g.json")


def test_graph_saved_by_an_editor_that_marks_its_files_is_read() -> None:
    assert len(decode_graph(b"\xef\xbb\xbf" + encode_graph(TGraph(CHAIN)), "g.json")) == len(CHAIN)


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"schema": 1, "kind": "t-graph", "nodes": [{}]}'])
def test_what_is_no_graph_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError, match=r"my\.json: not a T-Graph"):
        decode_graph(data, "my.json")


def test_graph_of_a_newer_version_is_refused() -> None:
    with pytest.raises(ConfigError, match="newer"):
        decode_graph(b'{"schema": 9, "kind": "t-graph", "nodes": []}', "my.json")


def test_picture_escapes_text_of_strangers() -> None:
    graph = TGraph([node("t", 0, mh="<script>&\x00"), node("a", 1, "t")])
    drawn = graph_as_svg(graph)
    assert "<script>" not in drawn
    assert "\x00" not in drawn
    assert drawn.count("<rect") == 3
    assert "level 1: 1 node of 1 page" in graph_as_text(graph)


def test_picture_of_a_large_graph_shows_some_of_each_level() -> None:
    drawn = graph_as_svg(TGraph([node(f"t{i}", 0) for i in range(99)]))
    assert "targets: 99, the first 60 shown" in drawn
