"""The nine-step flow of S2 in the engine (S2-09 to S2-17): answers recorded, aging, the watchdog on record."""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from checks.learning_webs import crawl_and_stop_dead, learner_of, mixed_web
from checks.small_webs import (
    HTML,
    SmallWeb,
    crawl,
    events,
    known,
    one_line,
    opilio,
    page,
    rows,
    served,
    settings_for,
    stored,
)
from opilio.core.protocols import RANK_STATE
from opilio.core.records import url_key
from opilio.fetch.decoding import RecordedResponse
from opilio.methods.treasure.build import load_collection_graph
from opilio.methods.treasure.graph import GraphNode, TGraph, check_graph, encode_graph
from opilio.methods.treasure.ranker import TreasureRanker
from opilio.rank.link_scores import unpack

HUB = "http://birds.example/"
GONE = "http://birds.example/birds-3.html"


def tree_for(server: Any, **more: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "strategy": "s2-treasure",
        "topic": {"name": "wrens and other small birds", "dewey": ["598"]},
        "stop": {"pages": 0},
        "engine": {"batch": 1, "connections": 1},
        "rank": {"watchdog": 5},
    }
    return settings_for(server, [HUB], **{**settings, **more})


def ranker_of(committer: Any) -> TreasureRanker:
    made = learner_of(committer, RANK_STATE)
    assert isinstance(made, TreasureRanker)
    return made


def links_of(folder: Path, page: str) -> dict[str, float]:
    columns = unpack(rows(folder, "SELECT columns FROM links WHERE parent = ?", url_key(page))[0][0])
    return dict(zip(columns.urls, np.frombuffer(columns.scores, np.float32).tolist(), strict=True))


def test_crawl_records_answers_priorities_and_the_watchdog_s2_10_s2_16_s2_14(tmp_path: Path) -> None:
    web = {**mixed_web(), GONE: RecordedResponse(503, (HTML,), b"later")}
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", tree_for(server))
    assert set(stored(tmp_path / "c")) >= {url for url in web if "trains" in url}  # off-topic links are kept
    assert rows(tmp_path / "c", "SELECT status FROM answer WHERE key = ?", url_key(GONE)) == [(503,)]
    off_topic = links_of(tmp_path / "c", "http://trains.example/")
    assert max(off_topic.values()) == pytest.approx(0.01)
    result = [json.loads(data) for data in events(tmp_path / "c", "GraphChanged")]
    assert [update["version"] for update in result] == list(range(1, len(result) + 1))
    graph, version = load_collection_graph(tmp_path / "c")
    assert (version, len(graph)) == (result[-1]["version"], result[-1]["nodes"])
    check_graph(graph, "grown while crawling")
    assert "level 0" in opilio("lab", "tgraph", "show", tmp_path / "c").stdout


def test_on_topic_pages_come_before_what_off_topic_pages_link_to(tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web())) as server:
        crawl(tmp_path / "c", tree_for(server, order={"mode": "off"}))
    order = [url for (url,) in rows(tmp_path / "c", "SELECT url FROM page ORDER BY seq")]
    deep_birds = [at for at, url in enumerate(order) if "birds-" in url]
    deep_trains = [at for at, url in enumerate(order) if "trains-" in url]
    assert np.median(deep_birds) < np.median(deep_trains)


def test_similarity_by_the_words_of_a_link_grows_a_graph_with_anchors(tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web())) as server:
        crawl(tmp_path / "c", tree_for(server, rank={"similarity": "link", "watchdog": 1}))
    assert any(node.anchor for node in load_collection_graph(tmp_path / "c")[0].nodes.values())


@pytest.mark.parametrize("judge", ["cosine", "coverage", "learned"])
def test_every_judge_goes_with_the_t_graph_s2_03(tmp_path: Path, judge: str) -> None:
    with served(SmallWeb(mixed_web())) as server:
        topic = {"name": "wrens and other small birds", "keywords": ["wren", "robin", "nest"]}
        crawl(tmp_path / "c", tree_for(server, judge={"kind": judge}, topic=topic))
    assert len(stored(tmp_path / "c")) == len(mixed_web())
    assert len(load_collection_graph(tmp_path / "c")[0]) > 0  # the watchdog learns from what this judge calls relevant


@pytest.mark.parametrize("after", [4, 30])
def test_graph_on_disk_is_the_one_in_memory_when_a_crawl_ends_without_a_word(tmp_path: Path, after: int) -> None:
    with served(SmallWeb(mixed_web())) as server:
        before = ranker_of(crawl_and_stop_dead(tmp_path / "c", tree_for(server), after))
        again = ranker_of(crawl_and_stop_dead(tmp_path / "c", tree_for(server), 0))
    assert again.updater.graph.nodes == before.updater.graph.nodes
    assert again.snapshot() == before.snapshot()


@pytest.mark.slow
def test_killed_crawl_reports_every_change_once(tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web())) as server:
        for after in (20, 20):
            crawl_and_stop_dead(tmp_path / "c", tree_for(server), after)
        crawl(tmp_path / "c", tree_for(server))
    result = [json.loads(data)["version"] for data in events(tmp_path / "c", "GraphChanged")]
    assert result == list(range(1, len(result) + 1))
    assert len(result) > 1


@pytest.mark.slow
def test_workers_know_the_graph(tmp_path: Path) -> None:
    graph = TGraph([GraphNode(id="t", url="http://x.example/", level=0, dc="wren bird nest", mh="birds")])
    (tmp_path / "g.json").write_bytes(encode_graph(graph))
    with served(SmallWeb(mixed_web())) as server:
        more = {"rank": {"graph": str(tmp_path / "g.json"), "watchdog": 0, "focus": "any"}}
        for name, workers in (("inline", 0), ("workers", 2)):
            crawl(tmp_path / name, tree_for(server, **more, engine={"workers": workers}))
    assert known(tmp_path / "inline") == known(tmp_path / "workers")
    assert links_of(tmp_path / "inline", HUB) == links_of(tmp_path / "workers", HUB)
    assert max(links_of(tmp_path / "workers", HUB).values()) == 1.0
    assert load_collection_graph(tmp_path / "inline")[0].nodes == graph.nodes  # watchdog 0: it sleeps


def test_target_that_did_not_change_keeps_its_heading(tmp_path: Path) -> None:
    """A target is named by its main heading, not by what stands in the window's title."""
    (tmp_path / "g.json").write_bytes(encode_graph(TGraph([GraphNode(id="t", url=HUB, level=0, mh="All birds")])))
    wren = "http://birds.example/wren.html"
    said = b"<h1>%s</h1><p>wrens, robins and other birds in their nests <a href='/wren.html'>wren</a>"
    web = {HUB: RecordedResponse(200, (HTML,), b"<title>Birds - a site</title>" + said % b"All birds")}
    web[wren] = RecordedResponse(200, (HTML,), b"<title>Wren - a site</title>" + said % b"The wren")
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", tree_for(server, rank={"graph": str(tmp_path / "g.json"), "watchdog": 1}))
    result = [json.loads(data)["refreshed"] for data in events(tmp_path / "c", "GraphChanged")]
    assert result == [0, 0]
    assert {n.url: n.mh for n in load_collection_graph(tmp_path / "c")[0].at_level(0)} == {
        HUB: "All birds",
        wren: "The wren",
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [(None, "can't be read"), ("{", "not a T-Graph"), ('{"schema":1,"kind":"t-graph","nodes":[]}', "has no node")],
)
def test_graph_that_cannot_be_used_leaves_no_folder_behind(tmp_path: Path, text: str | None, complaint: str) -> None:
    if text is not None:
        (tmp_path / "g.json").write_text(text)
    options = ("--strategy", "s2-treasure", "--seed", HUB, "--into", "c", "--set", "rank.graph=g.json")
    done = opilio("crawl", "wrens and other birds", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in one_line(done)
    assert "rank.graph g.json" in one_line(done)
    assert not (tmp_path / "c").exists()


SENSELESS = "rank.threshold=2 rank.depth=0 rank.watchdog=-1 order.factor=0 order.factor=-0.1 order.every=0".split()


def test_weights_without_a_watchdog_are_refused(tmp_path: Path) -> None:
    options = ("--seed", HUB, "--into", "c", "--set", "rank.weights=fitted", "--set", "rank.watchdog=0")
    done = opilio("crawl", "wrens and other birds", "--strategy", "s2-treasure", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert "with rank.watchdog = 0 nothing is learned" in one_line(done)
    assert not (tmp_path / "c").exists()


def test_graph_of_a_crawl_that_has_begun_cannot_be_changed(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_bytes(encode_graph(TGraph([GraphNode(id="t", url=HUB, level=0, mh="birds")])))
    with served(SmallWeb({HUB: page()})) as server:
        crawl(tmp_path / "c", tree_for(server, rank={"graph": str(tmp_path / "g.json")}))
    for graph, code in (("other.json", 2), (tmp_path / "g.json", 0)):
        done = opilio("crawl", "--into", tmp_path / "c", "--set", f"rank.graph={graph}")
        assert done.returncode == code, done.stderr
        assert ("rank.graph other.json" in done.stderr) == bool(code)


@pytest.mark.parametrize("setting", SENSELESS)
def test_option_that_makes_no_sense_leaves_no_folder_behind(tmp_path: Path, setting: str) -> None:
    options = ("--strategy", "s2-treasure", "--seed", HUB, "--into", "c", "--set", setting)
    done = opilio("crawl", "wrens and other birds", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert setting.partition("=")[0] in one_line(done)
    assert not (tmp_path / "c").exists()


def test_paper_defaults_are_the_strategy_s_own_s2_37() -> None:
    from opilio.engine.wiring.settings import complete_settings as complete
    from opilio.topic.setup import resolve_settings as resolve

    settings = complete(resolve({"strategy": "s2-treasure", "topic": {"name": "grammar"}}))
    wanted = {"depth": 3, "threshold": 0.05, "anchor_impact": 1.4, "max_length": 3, "unrelated": 0.01}
    assert {name: settings.rank[name] for name in wanted} == wanted
    assert (settings.order["factor"], settings.order["every"]) == (0.05, 100)
    assert settings.judge["weighing"] == settings.rank["weighing"] == "paper"
    assert msgspec.json.encode(settings)


def test_agents_all_begin_with_the_graph(tmp_path: Path) -> None:
    graph = TGraph([GraphNode(id="t", url="http://x.example/", level=0, dc="wren bird nest list", mh="birds")])
    (tmp_path / "g.json").write_bytes(encode_graph(graph))
    with served(SmallWeb(mixed_web(4))) as server:
        rank = {"graph": str(tmp_path / "g.json"), "watchdog": 0, "focus": "any"}
        crawl(tmp_path / "c", tree_for(server, rank=rank, agents={"count": 2}, order={"kind": "best-first"}))
    assert max(links_of(tmp_path / "c", HUB).values()) == 1.0


def test_context_graph_without_documents_is_refused(tmp_path: Path) -> None:
    target = {"id": "t", "url": HUB, "level": 0, "MH": "Birds"}
    (tmp_path / "g.json").write_text(json.dumps({"schema": 1, "kind": "t-graph", "nodes": [target]}))
    options = ("--strategy", "s2-context-graph", "--seed", HUB, "--into", "c", "--set", "rank.graph=g.json")
    done = opilio("crawl", "birds", *options, cwd=tmp_path)
    assert (done.returncode, "rank.graph g.json: has no documents" in one_line(done)) == (2, True)
    assert not (tmp_path / "c").exists()
