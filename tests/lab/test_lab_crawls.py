"""A replayed crawl is a function of its seed; it needs no label; over HTTP it fetches the same pages."""

import asyncio
import shutil
from pathlib import Path

import pytest

from opilio.core.records import Page
from opilio.core.settings import Tree, merge_trees
from opilio.engine.wiring.session import create_crawl
from opilio.lab.experiments.declarations import Variant
from opilio.lab.experiments.replay import CrawlTrace, OfflineWeb, lab_settings, replay_crawl
from opilio.lab.experiments.runs import ExperimentJob, ExperimentRunner
from opilio.lab.experiments.study import run_errors
from opilio.lab.server.http import fetch_attempts
from opilio.lab.server.server import LabWebServer
from opilio.lab.webs.labels import load_labels
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.topics import LabTopic, load_topics
from opilio.lab.webs.web import WarcWeb

BUDGET = 60
CROWDED: Tree = {"engine": {"connections": 5}, "frontier": {"per_host": 2}}


@pytest.fixture(scope="module")
def offline(small_folder: Path, lab_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> OfflineWeb:
    """A web whose hosts never fail: a live crawl would wait for minutes after an error."""
    calm = shutil.copytree(small_folder, tmp_path_factory.mktemp("calm") / "small")
    (calm / "hosts.toml").unlink()
    web = WarcWeb.open(calm, lab_cache)
    return OfflineWeb(web, ParsedPages.open(web, lab_cache, processes=1))


@pytest.fixture(scope="module")
def topic(small_folder: Path) -> LabTopic:
    return load_topics(small_folder)[0][0]


def _crawled(offline: OfflineWeb, topic: LabTopic, strategy: str, more: Tree | None = None) -> CrawlTrace:
    settings = lab_settings(strategy, topic.brief, topic.seed_sets[0].urls, BUDGET, more)
    return replay_crawl(offline, settings, latency_s=0.1)


@pytest.mark.parametrize("strategy", ["breadth", "s0", "opilio", "s3-agents"])
def test_same_random_seed_gives_the_same_crawl(offline: OfflineWeb, topic: LabTopic, strategy: str) -> None:
    first, second = _crawled(offline, topic, strategy, CROWDED), _crawled(offline, topic, strategy, CROWDED)
    assert first.fetches == second.fetches
    assert len(first.fetches) == BUDGET


@pytest.mark.parametrize("strategy", ["s0", "opilio", "s3-agents"])
def test_number_of_workers_changes_no_crawl(offline: OfflineWeb, topic: LabTopic, strategy: str) -> None:
    crawls = [
        _crawled(offline, topic, strategy, merge_trees(CROWDED, {"engine": {"workers": workers}})).fetches
        for workers in (0, 1, 2)
    ]
    assert crawls[0] == crawls[1] == crawls[2]


class Broken(ParsedPages):
    """Pages that can't be had, by a fault of ours."""

    def page_if_same_body(self, number: int, body: bytes) -> Page | None:
        raise RuntimeError(f"broken: {number}, {len(body)} bytes")


def test_visits_that_an_error_of_ours_ended_are_reported(offline: OfflineWeb, topic: LabTopic) -> None:
    """They bring nothing, so the run is worth less than it should be: it must not look like the strategy's fault."""
    arena = ExperimentRunner(
        OfflineWeb(offline.web, Broken.load(offline.pages.folder)), load_labels(offline.web), [topic]
    )
    first = topic.seed_sets[0]
    job = ExperimentJob(
        experiment="e", topic=topic.name, seed_set=first.name, variant=Variant(name="breadth"), budget=10
    )
    run, sound = arena.run(job), ExperimentRunner(offline, arena.labels, [topic]).run(job)
    assert run.error.startswith(f"3 visits ended with an error, the first: {first.urls[0]}: RuntimeError: broken")
    (result,) = run_errors([run, sound])
    assert str(result) == f"{topic.name}/{first.name}, breadth: {run.error}"


def test_removing_the_labels_changes_no_crawl(
    offline: OfflineWeb, topic: LabTopic, small_folder: Path, tmp_path: Path
) -> None:
    bare = shutil.copytree(small_folder, tmp_path / "bare")
    (bare / "labels.tsv").unlink()
    (bare / "hosts.toml").unlink()
    web = WarcWeb.open(bare, tmp_path / "cache")
    blind = OfflineWeb(web, ParsedPages.open(web, tmp_path / "cache", processes=1))
    for strategy in ("breadth", "s0", "opilio"):
        assert _crawled(blind, topic, strategy).fetches == _crawled(offline, topic, strategy).fetches


def test_budget_counts_every_attempt(offline: OfflineWeb, topic: LabTopic) -> None:
    fetches = _crawled(offline, topic, "breadth").fetches
    assert len(fetches) == BUDGET
    assert {f.status for f in fetches} > {200}


def test_crawl_over_http_fetches_what_the_replay_fetches(offline: OfflineWeb, topic: LabTopic, tmp_path: Path) -> None:
    # Waste control depends on the order of the responses, which differs over HTTP.
    everything: Tree = {"engine": {"connections": 4}, "frontier": {"per_host": 4, "traps": False}}
    seeds = topic.seed_sets[0].urls
    replayed = replay_crawl(offline, lab_settings("breadth", topic.brief, seeds, 0, everything)).fetches
    asked = asyncio.run(_over_http(offline.web, topic, everything, tmp_path))
    assert asked == {(f.url, f.status) for f in replayed}
    assert len(asked) > 200


async def _over_http(web: WarcWeb, topic: LabTopic, more: Tree, folder: Path) -> set[tuple[str, int]]:
    async with LabWebServer(web) as server:
        proxied = merge_trees(more, {"fetch": {"proxy": server.proxy}})
        settings = lab_settings("breadth", topic.brief, topic.seed_sets[0].urls, 0, proxied)
        async with create_crawl(folder / "crawl", settings) as crawl:
            await crawl.engine.run()
        return {(a.url, a.status) for a in fetch_attempts(server.log)}
