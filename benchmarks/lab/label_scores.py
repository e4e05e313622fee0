"""How far labels of uncertain pages correct the judge's scores, on an offline web.

python benchmarks/lab/label_scores.py WEB --fetches 250 --seed-set generic-1

Each topic is crawled once by `opilio`. The pages whose scores are nearest to one half get their labels, and the scores
of the other pages are corrected by them, as `opilio why` does. Calibration error of one crawl, precision and recall:
means over topics, with bootstrap intervals of 95 % of the error. Crawls of fewer than 60 pages are left out.
"""

import argparse
from pathlib import Path

import numpy as np

from opilio.judge.learned import LabelCalibration
from opilio.lab.evaluation.metrics import calibration_error, judge_quality
from opilio.lab.evaluation.statistics import bootstrap_mean
from opilio.lab.experiments.declarations import topic_half
from opilio.lab.experiments.replay import OfflineWeb, lab_settings, replay_crawl
from opilio.lab.webs.labels import load_labels
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.topics import load_topics
from opilio.lab.webs.web import WarcWeb

MIN_PAGES = 60
LABELS = (0, 5, 10, 20)


def measure(scores: np.ndarray, relevant: np.ndarray, labels: int) -> tuple[float, float, float]:
    """Calibration error, precision and recall over the pages without a label."""
    order = np.argsort(np.abs(scores - 0.5), kind="stable")
    judged = [(float(scores[at]), bool(relevant[at])) for at in order[:labels]]
    calibration = LabelCalibration.fit(judged)
    rest, truth = scores[order[labels:]], relevant[order[labels:]]
    corrected = np.array([calibration.probability(score) for score in rest]) if calibration else rest
    quality = judge_quality(corrected >= 0.5, truth)
    return calibration_error(corrected, truth), quality.precision, quality.recall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("web", type=Path)
    parser.add_argument("--fetches", type=int, default=250)
    parser.add_argument("--seed-set", default="generic-1")
    arguments = parser.parse_args()
    web = WarcWeb.open(arguments.web)
    offline, labels = OfflineWeb(web, ParsedPages.open(web)), load_labels(web)
    halves: dict[str, list[list[tuple[float, float, float]]]] = {}
    for topic in load_topics(arguments.web)[0]:
        seeds = next(s.urls for s in topic.seed_sets if s.name == arguments.seed_set)
        trace = replay_crawl(offline, lab_settings("opilio", topic.brief, seeds, arguments.fetches))
        judged = [(web.number_of(fetch.url), fetch.judge_score) for fetch in trace.fetches if fetch.judge_score >= 0]
        known = [(n, score) for n, score in judged if n is not None and labels.labeled_pages[n]]
        if len(known) < MIN_PAGES:
            continue
        scores = np.array([score for _, score in known])
        relevant = labels.relevant(topic)[[n for n, _ in known]]
        halves.setdefault(topic_half(topic.name), []).append([measure(scores, relevant, count) for count in LABELS])
    for half, crawls in halves.items():
        print(f"{half}: {len(crawls)} crawls")
        for count, found in zip(LABELS, zip(*crawls, strict=True), strict=True):
            errors, precisions, recalls = zip(*found, strict=True)
            error = bootstrap_mean(errors, np.random.default_rng(0))
            print(
                f"  {count:2} labels: error {error.mean:.3f} [{error.low:.3f}, {error.high:.3f}],"
                f" precision {np.mean(precisions):.2f}, recall {np.mean(recalls):.2f}"
            )


if __name__ == "__main__":
    main()
