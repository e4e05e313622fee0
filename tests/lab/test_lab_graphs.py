"""Experiments whose rankers begin with T-Graphs of the web's own links, and runs named after their seeds (S2-40)."""

from pathlib import Path

import msgspec
import pytest

from opilio.core.errors import UsageError
from opilio.lab.evaluation.metrics import predicted_precision
from opilio.lab.experiments.declarations import Variant, load_experiment
from opilio.lab.experiments.preparation import TGraphCache, resolve_targets
from opilio.lab.experiments.replay import OfflineWeb, lab_settings, replay_crawl
from opilio.lab.experiments.results import LinkQuality, RunResult
from opilio.lab.experiments.runs import ExperimentJob
from opilio.lab.experiments.study import Study, StudyOptions, open_runner
from opilio.lab.reports.tables import split_by_seed_kind
from opilio.lab.webs.pages import ParsedPages, WebLinks
from opilio.lab.webs.topics import load_topics
from opilio.lab.webs.web import WarcWeb
from opilio.methods.treasure.graph import TGraph, check_graph
from opilio.methods.treasure.updater import GraphState


def tgraph_cache(offline: OfflineWeb) -> TGraphCache:
    return TGraphCache(offline, WebLinks(offline.web, offline.pages))


@pytest.fixture(scope="module")
def offline(small_folder: Path, lab_cache: Path) -> OfflineWeb:
    web = WarcWeb.open(small_folder, lab_cache)
    return OfflineWeb(web, ParsedPages.open(web, lab_cache, processes=1))


def test_back_links_are_links_the_other_way_round(offline: OfflineWeb) -> None:
    links = WebLinks(offline.web, offline.pages)
    for url in offline.web.urls[:40]:
        assert all(url in links.parents_of(child) for child in links.links_of(url))
        assert all(url in links.links_of(parent) for parent in links.parents_of(url))
    assert links.parents_of("http://nowhere.example/") == links.links_of("http://nowhere.example/") == []


def test_targets_that_are_not_there_are_distinguished(offline: OfflineWeb) -> None:
    links = WebLinks(offline.web, offline.pages)
    there = next(url for url in offline.web.urls if links.page(url) is not None)
    assert resolve_targets([there, "http://nowhere.example/", "there"], links) == (
        [there],
        ["http://nowhere.example/", "there"],
    )
    with pytest.raises(UsageError, match="--target http://nowhere"):
        resolve_targets(["http://nowhere.example/"], links)


@pytest.mark.parametrize("strategy", ["s2-treasure", "s2-context-graph"])
def test_crawls_begin_with_a_graph_of_the_targets(offline: OfflineWeb, small_folder: Path, strategy: str) -> None:
    topic = load_topics(small_folder)[0][0]
    targets = [s.urls for s in topic.seed_sets if s.name.startswith("on-topic")][-1]
    settings = lab_settings(strategy, topic.brief, topic.seed_sets[0].urls, 30, {"topic": {"dewey": ["598"]}})
    begin = tgraph_cache(offline).initial_state(settings, targets)
    state = msgspec.msgpack.decode(begin["rank"], type=GraphState)
    check_graph(TGraph(state.nodes), "built")
    assert {node.url for node in state.nodes if node.level == 0} == set(targets)
    assert {d.level for d in state.documents} >= {0, 1}
    assert len(replay_crawl(offline, settings, begin=begin).fetches) == 30


def test_rankers_without_graphs_begin_with_nothing(offline: OfflineWeb, small_folder: Path) -> None:
    topic = load_topics(small_folder)[0][0]
    seeds = topic.seed_sets[0].urls
    assert tgraph_cache(offline).initial_state(lab_settings("s0", topic.brief, seeds, 30), seeds) == {}
    assert tgraph_cache(offline).initial_state(lab_settings("s2-treasure", topic.brief, seeds, 30), ()) == {}


def run_named(strategy: str, seed_set: str) -> RunResult:
    return RunResult(
        experiment="x", web="w", topic="t", strategy=strategy, seed_set=seed_set, random_seed=0, budget=10, fetched=10,
        relevant_found=1, relevant_reachable=2, harvest=0.1, recall=0.5, auc_vs_oracle=0.5, curve=((10, 1),),
    )  # fmt: skip


def test_runs_are_named_after_their_seeds_s2_40() -> None:
    runs = [run_named("1", "generic-of-7"), run_named("2", "on-topic-1"), run_named("1", "on-topic-of-17")]
    assert [run.strategy for run in split_by_seed_kind(runs)] == ["T1", "T2", "G1"]


def test_eight_runs_of_table_6_are_declared_s2_40() -> None:
    declared = load_experiment("s2-40")
    changed = {v.name: v.set for v in declared.variants}
    assert declared.by_seeds
    assert changed["1"] == {}
    assert (declared.window, declared.seed_kinds) == (1000, ("on-topic-of-17", "generic-of-7"))
    assert changed["2"]["rank"] == {"threshold": 0.10}
    assert changed["3"]["rank"] == {"anchor_impact": 0.50}
    assert changed["4"]["order"]["factor"] == 0.02
    assert {plot.kind for plot in declared.plot} == {"blocks", "cumulative", "harvest"}


def test_seeds_are_as_many_as_in_the_paper_s2_35(small_folder: Path) -> None:
    declared = msgspec.structs.replace(load_experiment("s2-40"), seed_kinds=("on-topic-of-3", "generic-of-2"), topics=1)
    study = Study(declared, StudyOptions(webs=(small_folder,), variants=declared.variants[:1]))
    assert {job.seed_set for job in study.jobs()} == {"on-topic-of-3", "generic-of-2"}
    runner = open_runner(small_folder)
    topic = runner.topics[study.jobs()[0].topic]
    relevant, known = runner.labels.relevant(topic), {url for seeds in topic.seed_sets for url in seeds.urls}
    seeds = {name: runner.seed_set(topic, name).urls for name in ("on-topic-of-3", "generic-of-2")}
    judged = {name: [bool(relevant[runner.offline.web.urls.index(u)]) for u in urls] for name, urls in seeds.items()}
    assert judged == {"on-topic-of-3": [True] * 3, "generic-of-2": [False] * 2}
    assert known.isdisjoint(seeds["on-topic-of-3"])


def test_precision_of_the_prioritiser_is_that_of_the_links_it_predicts_on_topic_s2_e2(small_folder: Path) -> None:
    runner = open_runner(small_folder)
    topic = next(iter(runner.topics))

    def links(strategy: str) -> LinkQuality | None:
        variant = Variant(name=strategy)
        job = ExperimentJob(experiment="e", topic=topic, seed_set="on-topic-1", variant=variant, budget=60)
        return runner.run(msgspec.structs.replace(job, targets="on-topic-2")).links

    assert predicted_precision([1.0, 0.5, 0.01, 0.01], [True, False, True, True], off_topic=0.01) == 0.5
    assert predicted_precision([0.01], [True], off_topic=0.01) is None
    predicted, other = links("s2-treasure"), links("best-first")
    assert predicted is not None and predicted.precision is not None and 0.0 < predicted.precision < 1.0
    assert other is not None and other.precision is None


def test_no_crawl_starts_from_the_targets(small_folder: Path) -> None:
    declared = msgspec.structs.replace(load_experiment("s2-46"), targets="on-topic-2", seed_sets=2)
    picked = tuple(v for v in declared.variants if v.name in ("s2-treasure", "s2 without a graph"))
    jobs = Study(declared, StudyOptions(webs=(small_folder,), variants=picked)).jobs()
    assert {job.seed_set for job in jobs if job.variant.name == "s2-treasure"} == {
        "on-topic-1",
        "generic-1",
        "generic-2",
    }
    assert {job.targets for job in jobs if job.variant.name == "s2-treasure"} == {"on-topic-2"}
    assert {job.targets for job in jobs if job.variant.name == "s2 without a graph"} == {""}
