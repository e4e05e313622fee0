"""Whole crawls by S1's strategies on a small synthetic web: the same every time, with any number of workers."""

import pytest

from opilio.core.settings import Tree
from opilio.lab.experiments.replay import CrawlTrace, OfflineWeb, lab_settings, replay_crawl
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import write_synthetic_web
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.topics import load_topics
from opilio.lab.webs.web import WarcWeb

pytest.importorskip("sklearn")
SMALL = WebShape(pages=150, hosts=6, topics=2, trap_pages=8, seed_sets=1)
BUDGET = 60


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> OfflineWeb:
    folder = write_synthetic_web(SMALL, tmp_path_factory.mktemp("s1web") / "small")
    web = WarcWeb.open(folder, folder.parent)
    return OfflineWeb(web, ParsedPages.open(web, folder.parent, processes=1))


def crawled(offline: OfflineWeb, strategy: str, more: Tree | None = None) -> CrawlTrace:
    topic = load_topics(offline.web.folder)[0][0]
    return replay_crawl(
        offline, lab_settings(strategy, topic.brief, topic.seed_sets[0].urls, BUDGET, more), latency_s=0.1
    )


@pytest.mark.parametrize("strategy", ["s1-bayes", "s1-tree", "s1-neural", "infospiders"])
def test_two_crawls_agree(offline: OfflineWeb, strategy: str) -> None:
    first, second = (crawled(offline, strategy).fetches for _ in range(2))
    assert first == second and len(first) == BUDGET


@pytest.mark.slow
def test_number_of_workers_changes_no_crawl(offline: OfflineWeb) -> None:
    crowded: Tree = {"engine": {"connections": 3}, "rank": {"every": 10}}
    inline, apart = (
        crawled(offline, "s1-tree", {**crowded, "engine": {"connections": 3, "workers": n}}).fetches for n in (0, 2)
    )
    assert inline == apart


def test_learning_changes_the_order(offline: OfflineWeb) -> None:
    never = crawled(offline, "s1-bayes", {"rank": {"every": 1_000_000}}).fetches
    assert crawled(offline, "s1-bayes", {"rank": {"every": 5}}).fetches != never
