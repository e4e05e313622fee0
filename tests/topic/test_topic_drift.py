"""Queries change in the middle of a crawl: only the table that follows the log adapts (S4-26)."""

from pathlib import Path
from typing import Any

import pytest

from opilio.lab.experiments.replay import OfflineWeb, lab_settings, replay_crawl
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import write_synthetic_web
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.topics import LabTopic, load_topics
from opilio.lab.webs.web import WarcWeb

SHAPE = WebShape(seed=11, pages=900, hosts=8, topics=2, topical_share=0.5, traps=(), tunnels=0, seed_sets=1)
BEFORE, AFTER, STEP = 40, 80, 10  # pages before and after the change, and between two tables


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_synthetic_web(SHAPE, tmp_path_factory.mktemp("drift"))


def log_of(folder: Path, first: LabTopic, then: LabTopic) -> Path:
    """As many queries as pages: about the one topic, then about the other."""
    path = folder / "log.txt"
    asked = [(t, n) for t, count in ((first, BEFORE + STEP), (then, AFTER)) for n in range(count)]
    lines = [f"{t.brief.keywords[n % 8]} {t.brief.keywords[(3 * n + 1) % 8]}" for t, n in asked]
    path.write_text("\n".join(lines))
    return path


def shares(folder: Path, expansion: dict[str, Any], first: LabTopic, then: LabTopic) -> tuple[float, float]:
    """Which part of the last pages is about each topic, by the labels."""
    web = WarcWeb.open(folder, folder / "cache")
    offline = OfflineWeb(web, ParsedPages.open(web, folder / "cache", processes=1))
    seeds = [*first.seed_sets[0].urls, *then.seed_sets[0].urls]
    more = {"expansion": expansion, "rank": {"tunnel_depth": -1}}
    trace = replay_crawl(offline, lab_settings("s4-dynamic", first.brief, seeds, BEFORE + AFTER, more))
    labels = dict(line.split("\t") for line in (folder / "labels.tsv").read_text("utf-8").splitlines())
    last = [labels.get(fetch.url, "") for fetch in trace.fetches[-AFTER // 2 :]]
    found = [sum(t.is_relevant([label]) for label in last) / len(last) for t in (first, then)]
    return found[0], found[1]


@pytest.mark.slow
def test_only_the_dynamic_table_follows_a_log_that_drifts_s4_26(folder: Path) -> None:
    first, then = load_topics(folder)[0]
    log = str(log_of(folder, first, then))
    follows = {"kind": "query-log", "log": log, "interval": STEP, "per_interval": STEP}
    old_dynamic, new_dynamic = shares(folder, follows, first, then)
    old_static, new_static = shares(folder, {"kind": "none"}, first, then)
    assert new_dynamic > 2 * new_static
    assert new_dynamic > old_dynamic and old_static > new_static
