"""Which distances from a target the links of on-topic pages match in T-Graphs that were built from real back-links.

    python benchmarks/tgraph/distances.py WEB...

For each of six topics: a T-Graph from the last on-topic seed set, three levels up, and the links of at most 60 relevant
pages that are not in the graph. AUC is the probability that, of two links, the one to a relevant page has the higher
value: 0.5 is no order at all. Two values are compared: the paper's priority (S2-32), and the similarity to the nearest
nodes (OSM).
"""

import sys
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np

from opilio.core.settings import Settings
from opilio.lab.evaluation.metrics import rank_auc
from opilio.lab.experiments.preparation import build_tgraph, resolve_targets
from opilio.lab.experiments.runs import ExperimentRunner
from opilio.lab.webs.topics import LabTopic
from opilio.methods.treasure.build import GraphLimits
from opilio.methods.treasure.graph import link_parts
from opilio.methods.treasure.graph_builder import build_graph_builder
from opilio.methods.treasure.matching import MatchingOptions, NodeIndex, match_links
from opilio.text.vocabulary import Vocabulary

TOPICS, PAGES = 6, 60
THRESHOLDS = (0.05, 0.2, 0.4)


def main() -> None:
    print("| web | threshold | links | d = 0 | 1 | 2 | 3 | no match | AUC of the priority | of OSM |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for folder in sys.argv[1:]:
        runner = ExperimentRunner.open(Path(folder))
        topics = list(runner.topics.values())[:TOPICS]
        matched = [links_of_topic(runner, topic) for topic in topics]
        for threshold in THRESHOLDS:
            report(Path(folder).name, threshold, [found[threshold] for found in matched])


Matched = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # distance, priority, OSM, whether relevant


def links_of_topic(runner: ExperimentRunner, topic: LabTopic) -> dict[float, Matched]:
    """What the links of the topic's pages match, by threshold."""
    links, web = runner.preparation.links, runner.offline.web
    builder = build_graph_builder(Settings(), links.page)
    targets, _ = resolve_targets(topic.seed_sets[-1].urls, links)
    graph = build_tgraph(links, builder, targets, GraphLimits())
    used = {node.url for node in graph.nodes.values()}
    terms_of = Vocabulary().terms
    index = NodeIndex(graph, terms_of)
    flags = runner.labels.relevant(topic)
    relevant = {web.urls[n] for n in np.flatnonzero(flags).tolist()}
    known = set(web.urls)
    rows: dict[float, list[np.ndarray]] = {threshold: [] for threshold in THRESHOLDS}
    for url in [url for url in sorted(relevant) if url not in used][:PAGES]:
        reading = builder.read(url)
        if reading is None:
            continue
        parts = link_parts(reading, terms_of)
        inside = np.array([link.url in known for link in reading.page.links], dtype=bool)
        good = np.array([link.url in relevant for link in reading.page.links], dtype=bool)
        for threshold, found in rows.items():
            match = match_links(index, parts, MatchingOptions(threshold=threshold))
            found.append(np.stack([match.distance, match.priority, match.osm, good])[:, inside])
    return {threshold: tuple(np.concatenate(found, axis=1)) for threshold, found in rows.items()}


def report(web: str, threshold: float, topics: list[Matched]) -> None:
    distances = Counter(np.concatenate([found[0] for found in topics]).astype(int).tolist())
    count = distances.total()
    shares = " | ".join(f"{distances[d] / count:.0%}" for d in (0, 1, 2, 3, -1))
    order = partial(mean_auc, topics)
    print(f"| {web} | {threshold} | {count} | {shares} | {order(1):.2f} | {order(2):.2f} |", flush=True)


def mean_auc(topics: list[Matched], column: int) -> float:
    """Over the topics that have links of both kinds."""
    values = [rank_auc(found[column], found[3] > 0) for found in topics]
    return float(np.mean([value for value in values if value is not None]))


if __name__ == "__main__":
    main()
