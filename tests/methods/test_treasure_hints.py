"""T-Graph priority, OSM and context-graph layer as features of the committee: 0 without a graph, learned with one."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from checks.learning_webs import mixed_web
from checks.small_webs import TOPIC, SmallWeb, crawl, one_line, opilio, rows, served, settings_for
from opilio.core.records import Reading
from opilio.learn.word_model import DENSE_FIELDS, unpack_features
from opilio.methods.treasure.context_graph import ContextGraphRanker, GraphHints
from opilio.methods.treasure.graph import GraphDocument, GraphNode, LinkDestination, TGraph, encode_graph
from opilio.methods.treasure.updater import GraphState
from opilio.testing.conformance import reading_of, terms_of

GRAPH = TGraph(
    [
        GraphNode(id="t", url="", level=0, dc="nothing alike"),
        GraphNode(id="a", url="", level=1, dc="the wren sings", dic=LinkDestination(leads_to=("t",))),
        GraphNode(id="b", url="", level=2, dc="a hedge grows", dic=LinkDestination(leads_to=("a",))),
    ],
    [GraphDocument(url="", level=0, words={"wren": 5, "sings": 3}), GraphDocument(url="", level=1, words={"hedge": 5})],
)
HUB = "http://birds.example/"


def weigh(reading: Reading) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    terms, counts = np.unique(np.array(reading.terms, dtype=np.int64), return_counts=True)
    return terms, counts.astype(np.float64), counts.astype(np.float64)


def hints(graph: TGraph | None = None) -> GraphHints:
    made = GraphHints(terms_of, ContextGraphRanker(terms_of, weigh))
    if graph is not None:
        made.restore(msgspec.msgpack.encode(GraphState(nodes=[*graph.nodes.values()], documents=[*graph.documents])))
    return made


PAGE = reading_of("wren [sings](http://a.example/)\nhedge [grows](http://b.example/)\ntrains [run](http://c.example/)")


def test_links_are_distinguished_by_the_graph() -> None:
    made = hints(GRAPH)
    near, far, none = made.tgraph(PAGE)
    assert near == 1.0
    assert 0.0 < far < near
    assert none == 0.0
    assert made.osm(PAGE)[0] > made.osm(PAGE)[2] == 0.0
    assert made.layer(reading_of("wren sings wren [x](http://a.example/)")).tolist() == [1.0]
    assert made.layer(reading_of("locomotive boiler [x](http://a.example/)")).tolist() == [0.0]


def test_everything_is_nought_without_a_graph() -> None:
    made = hints()
    for column in (made.tgraph(PAGE), made.osm(PAGE), made.layer(PAGE)):
        assert column.tolist() == [0.0, 0.0, 0.0]


def features_of(folder: Path) -> np.ndarray:
    kept = [f for (f,) in rows(folder, "SELECT features FROM frontier_url") if f]
    return unpack_features(kept)["dense"][:, [DENSE_FIELDS.index(name) for name in ("tgraph", "osm", "layer")]]


@pytest.mark.parametrize("workers", [0, 2])
def test_committee_hands_them_on_where_asked(tmp_path: Path, workers: int) -> None:
    graph = TGraph([GraphNode(id="t", url="", level=0, dc="wren bird nest list birds")])
    (tmp_path / "g.json").write_bytes(encode_graph(graph))
    tree: dict[str, Any] = {"strategy": "opilio", "topic": {"name": TOPIC}, "stop": {"pages": 10}}
    with served(SmallWeb(mixed_web(4))) as server:
        for name, rank in (("with", {"hints": True, "graph": str(tmp_path / "g.json")}), ("without", {})):
            settings = settings_for(server, [HUB], **tree, rank=rank, engine={"workers": workers})
            crawl(tmp_path / name, settings)
    assert features_of(tmp_path / "with").max() > 0.0
    assert features_of(tmp_path / "without").max() == 0.0


def test_crawl_goes_on_without_them_when_only_the_run_before_had_them(tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web(4))) as server:
        for pages, rank in ((3, {}), (6, {"hints": True}), (9, {})):
            tree = settings_for(server, [HUB], topic={"name": TOPIC}, stop={"pages": pages}, rank=rank)
            reason = crawl(tmp_path / "c", {**tree, "strategy": "opilio"})
            assert reason == f"page limit reached ({pages} pages)"


def test_graph_without_a_reader_is_refused(tmp_path: Path) -> None:
    done = opilio("crawl", TOPIC, "--seed", HUB, "--into", "c", "--set", "rank.graph=g.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "rank.hints=true" in one_line(done)
