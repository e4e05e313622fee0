"""How well judges separate the pages of a topic from all others, before anything is learned: by the labels of a web.

python benchmarks/topics/judges.py WEB [--judge dewey --judge cosine …] [--topics 6]

Every judge gets name, description and keywords of a topic and sees every labelled page of the web. Printed are
average precision, and precision, recall and F1 at the judge's own threshold, as means over topics with 95 % intervals.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from opilio.core.protocols import Judge
from opilio.core.records import Page, Reading
from opilio.engine.wiring.assembly import AnalysisOptions, build_analysis_parts
from opilio.engine.wiring.start import initial_states
from opilio.engine.wiring.topic import build_topic
from opilio.lab.evaluation.metrics import average_precision
from opilio.lab.evaluation.statistics import bootstrap_mean
from opilio.lab.experiments.replay import OfflineWeb, lab_settings
from opilio.lab.webs.labels import GroundTruthLabels, load_labels
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.topics import LabTopic, load_topics
from opilio.lab.webs.web import WarcWeb

KINDS = ("dewey", "cosine", "coverage", "contains")
MEASURES = ("average precision", "precision", "recall", "F1")


def judge_of(offline: OfflineWeb, topic: LabTopic, kind: str) -> tuple[Judge, Callable[[Page], Reading]]:
    """A judge as a crawl would have it on its first page, and who reads pages for it."""
    settings = lab_settings("best-first", topic.brief, (), 1, {"judge": {"kind": kind}})
    built = build_topic(settings)
    options = AnalysisOptions(records=False, read_pages=offline.readings(settings).reader)
    analyzer = build_analysis_parts(settings, built, initial_states(settings, built), options).analyzer
    return analyzer._judge, analyzer._read


def measured(offline: OfflineWeb, labels: GroundTruthLabels, topic: LabTopic, kind: str) -> tuple[float, ...]:
    """The four measures of one judge on one topic."""
    judge, read = judge_of(offline, topic, kind)
    scores, taken, right = [], [], []
    truth = labels.relevant(topic)
    for number in np.flatnonzero(labels.labeled_pages).tolist():
        page = offline.pages.page(number)
        if page is not None:
            verdict = judge.judge(read(page))
            scores.append(verdict.score)
            taken.append(verdict.relevant)
            right.append(bool(truth[number]))
    hits = sum(t and r for t, r in zip(taken, right, strict=True))
    precision, recall = hits / max(1, sum(taken)), hits / max(1, sum(right))
    together = 2 * precision * recall / (precision + recall) if hits else 0.0
    return average_precision(scores, right) or 0.0, precision, recall, together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("web", type=Path)
    parser.add_argument("--judge", action="append")
    parser.add_argument("--topics", type=int, default=0)
    options = parser.parse_args()
    web = WarcWeb.open(options.web)
    offline, labels = OfflineWeb(web, ParsedPages.open(web)), load_labels(web)
    topics = load_topics(web.folder)[0][: options.topics or None]
    print(f"{web.name}, {len(topics)} topics\n| judge | " + " | ".join(MEASURES) + " |")
    for kind in options.judge or KINDS:
        found = [measured(offline, labels, topic, kind) for topic in topics]
        print(f"| {kind} | " + " | ".join(_shown([row[n] for row in found]) for n in range(len(MEASURES))) + " |")


def _shown(values: Sequence[float]) -> str:
    found = bootstrap_mean(values, np.random.default_rng(0))
    return f"{found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]"


if __name__ == "__main__":
    main()
