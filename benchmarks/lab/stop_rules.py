"""What `stop.harvest_below` and `stop.harvest_window` cost and save, on an offline web.

python benchmarks/lab/stop_rules.py WEB --fetches 3000 --seed-set on-topic-1

Each topic is crawled once without the rule. Then every rule is applied to the verdicts of that crawl: where would it
have stopped, and which share of the relevant pages (by the labels) that the whole crawl found was found until then?
Means over topics with bootstrap intervals of 95 %.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

from opilio.core.settings import StopSettings
from opilio.engine.loop import StopRules
from opilio.lab.evaluation.statistics import bootstrap_mean
from opilio.lab.experiments.replay import CrawlTrace, OfflineWeb, lab_settings, replay_crawl
from opilio.lab.webs.labels import load_labels
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.topics import load_topics
from opilio.lab.webs.web import WarcWeb
from opilio.store.writer import CrawlCounts

SHARES = (0.005, 0.01, 0.02, 0.05)
WINDOWS = (200, 300, 500, 1000)


class Crawl(NamedTuple):
    """A crawl without the rule: the verdict of each fetch (None without a page), and the labels."""

    verdicts: list[bool | None]
    relevant: list[bool]


class Stopped(NamedTuple):
    recall: float  # of what the whole crawl found
    fetches: float  # share of the fetches of the whole crawl


def apply_rule(crawl: Crawl, below: float, window: int) -> Stopped:
    """Where the rule ends the crawl."""
    rules = StopRules(StopSettings(pages=0, harvest_below=below, harvest_window=window), 0.0)
    for number, verdict in enumerate(crawl.verdicts, 1):
        if verdict is not None:
            rules.record_page(verdict)
            if rules.stop_reason(0.0, CrawlCounts()):
                return Stopped(sum(crawl.relevant[:number]) / sum(crawl.relevant), number / len(crawl.relevant))
    return Stopped(1.0, 1.0)


def label(web: WarcWeb, trace: CrawlTrace, relevant: np.ndarray) -> Crawl:
    numbers = [web.number_of(fetch.url) for fetch in trace.fetches]
    return Crawl(
        [fetch.relevant if fetch.judge_score >= 0 else None for fetch in trace.fetches],
        [number is not None and bool(relevant[number]) for number in numbers],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("web", type=Path)
    parser.add_argument("--fetches", type=int, default=3000)
    parser.add_argument("--topics", type=int, default=10)
    parser.add_argument("--seed-set", default="on-topic-1")
    arguments = parser.parse_args()
    web = WarcWeb.open(arguments.web)
    offline, labels = OfflineWeb(web, ParsedPages.open(web)), load_labels(web)
    crawls = []
    for topic in load_topics(arguments.web)[0][: arguments.topics]:
        seeds = next(s.urls for s in topic.seed_sets if s.name == arguments.seed_set)
        settings = lab_settings("opilio", topic.brief, seeds, arguments.fetches)
        crawl = label(web, replay_crawl(offline, settings), labels.relevant(topic))
        print(f"{topic.name}: {sum(crawl.relevant)} relevant in {len(crawl.relevant)} fetches", flush=True)
        if any(crawl.relevant):
            crawls.append(crawl)
    print("below   window  recall                fetches")
    for window in WINDOWS:
        for below in SHARES:
            found = [apply_rule(crawl, below, window) for crawl in crawls]
            rng = np.random.default_rng(0)
            recall, fetches = (bootstrap_mean(values, rng) for values in zip(*found, strict=True))
            print(
                f"{below:5.3f}  {window:6}  {recall.mean:.3f} [{recall.low:.3f}, {recall.high:.3f}]"
                f"  {fetches.mean:.2f} [{fetches.low:.2f}, {fetches.high:.2f}]"
            )


if __name__ == "__main__":
    main()
