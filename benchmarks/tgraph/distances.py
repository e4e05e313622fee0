"""Do T-Graphs that were built from real back-links order the links of on-topic pages?

    python benchmarks/tgraph/distances.py [--topics FIRST-LAST] [--pages N] WEB...

For each topic: a T-Graph from the last on-topic seed set, three levels up, and the links of at most N relevant pages
that are not in the graph, without those to the page itself (a table of contents). The steps of a link are the links
from its page to the nearest relevant one: 0 if it is relevant. Two values, each a mean over topics, .5 is no order at
all: the probability that, of two links, the one to a relevant page has the higher priority (AUC), and the same for
the one with fewer steps. `mean` compares as the paper does, `link` by the words of a link (`rank.similarity`). The
last table has the AUC of each component alone: the similarity to the most similar node.
"""

import argparse
from collections import Counter, deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from opilio.lab.evaluation.metrics import rank_auc
from opilio.lab.experiments.preparation import build_tgraph, resolve_targets
from opilio.lab.experiments.replay import lab_settings
from opilio.lab.experiments.runs import ExperimentRunner
from opilio.lab.webs.pages import WebLinkGraph
from opilio.lab.webs.topics import LabTopic
from opilio.methods.treasure.build import GraphBuilder, GraphLimits, build_graph_builder
from opilio.methods.treasure.graph import NODE_PARTS, LinkParts, link_parts
from opilio.methods.treasure.matching import DC_WEIGHTS, EQUAL_WEIGHTS, MatchingOptions, NodeIndex, match_links
from opilio.methods.treasure.ranker import squared_idf
from opilio.topic.page_terms import CachedIdf
from opilio.topic.setup import background_frequencies

FAR = 9  # steps of a page without a path to a relevant one
SIMILARITIES = {"mean": EQUAL_WEIGHTS, "link": DC_WEIGHTS}
SINGLE_PARTS = {name: tuple(float(name == part) for part in NODE_PARTS) for name in NODE_PARTS}


class Matched(NamedTuple):
    """The links of a topic's pages, one row each."""

    distance: np.ndarray
    priority: np.ndarray
    steps: np.ndarray
    parts: np.ndarray  # the similarity to the most similar node, by each component alone


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--topics", default="1-99")
    options.add_argument("--pages", type=int, default=60)
    options.add_argument("web", nargs="+")
    chosen = options.parse_args()
    first, last = map(int, chosen.topics.split("-"))
    print("| web | similarity | topics | links | d = 0 | 1 | 2 | 3 | no match | AUC | fewer steps |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    alone = []
    for folder in chosen.web:
        runner = ExperimentRunner.open(Path(folder))
        topics = list(runner.topics.values())[first - 1 : last]
        for similarity in SIMILARITIES:
            matched = [links_of_topic(runner, topic, similarity, chosen.pages) for topic in topics]
            report(Path(folder).name, similarity, matched)
            alone.append((Path(folder).name, similarity, matched))
    print("\n| web | similarity | " + " | ".join(NODE_PARTS) + " |\n|---|---|---|---|---|---|")
    for name, similarity, matched in alone:
        values = [mean_auc([(found.parts[at], found.steps == 0) for found in matched]) for at in range(len(NODE_PARTS))]
        print(f"| {name} | {similarity} | " + " | ".join(f"{value:.2f}" for value in values) + " |")


def links_of_topic(runner: ExperimentRunner, topic: LabTopic, similarity: str, pages: int) -> Matched:
    """What the links of a topic's pages match."""
    links, web = runner.preparation.links, runner.offline.web
    settings = lab_settings("s2-treasure", topic.brief, (), 1)
    builder = build_graph_builder(settings, links.page, runner.offline.readings(settings).reader)
    on_topic = [seeds for seeds in topic.seed_sets if seeds.name.startswith("on-topic")]
    targets, _ = resolve_targets(on_topic[-1].urls, links)
    graph = build_tgraph(links, builder, targets, GraphLimits())
    used = {node.url for node in graph.nodes.values()}
    by_link = similarity == "link"
    rarity = partial(squared_idf, CachedIdf(background_frequencies().__getitem__)) if by_link else None
    index = NodeIndex(graph, builder.terms, rarity)
    steps = steps_to_relevant(runner.offline.pages.graph, runner.labels.relevant(topic), len(web))
    relevant = [url for number, url in enumerate(web.urls) if steps[number] == 0 and url not in used]
    rows: list[np.ndarray] = []
    for url in sorted(relevant)[:pages]:
        parts = page_parts(builder, url, by_link)
        if parts is not None:
            numbers = [-1 if target == url else web.number_of(target) for target in parts[1]]
            rows.append(
                match_page(index, parts[0], SIMILARITIES[similarity], [-1 if n is None else n for n in numbers])
            )
    table = np.concatenate(rows, axis=1)
    table = table[:, table[2] >= 0]
    return Matched(table[0], table[1], steps[table[2].astype(int)], table[3:])


def page_parts(builder: GraphBuilder, url: str, by_link: bool) -> tuple[LinkParts, list[str]] | None:
    """The components of a page's links, and where they lead."""
    reading = builder.read(url)
    if reading is None:
        return None
    return link_parts(reading, builder.terms, link_words=by_link), [link.url for link in reading.page.links]


def match_page(index: NodeIndex, parts: LinkParts, weights: tuple[float, ...], numbers: list[int]) -> np.ndarray:
    """Distance, priority and page of each link, and its similarity by each component alone."""
    match = match_links(index, parts, MatchingOptions(weights=weights))
    # Above a threshold of 1 no node matches: OSM is that of the most similar one.
    alone = [match_links(index, parts, MatchingOptions(weights=w, threshold=1.0)).osm for w in SINGLE_PARTS.values()]
    return np.stack([match.distance, match.priority, np.array(numbers), *alone])


def steps_to_relevant(graph: WebLinkGraph, relevant: np.ndarray, count: int) -> np.ndarray:
    """The links from each page to the nearest relevant one."""
    parents: dict[int, list[int]] = {}
    for page in range(count):
        for target in graph.targets[graph.starts[page] : graph.starts[page + 1]].tolist():
            parents.setdefault(target, []).append(page)
    steps = np.where(relevant[:count], 0, FAR)
    waiting = deque(np.flatnonzero(relevant[:count]).tolist())
    while waiting:
        page = waiting.popleft()
        for parent in parents.get(page, ()):
            if steps[parent] == FAR:
                steps[parent] = min(FAR - 1, steps[page] + 1)
                waiting.append(parent)
    return steps


def report(web: str, similarity: str, topics: list[Matched]) -> None:
    distances = Counter(np.concatenate([found.distance for found in topics]).astype(int).tolist())
    count = distances.total()
    shares = " | ".join(f"{distances[d] / count:.0%}" for d in (0, 1, 2, 3, -1))
    auc = mean_auc([(found.priority, found.steps == 0) for found in topics])
    fewer = [value for found in topics if (value := fewer_steps(found.priority, found.steps)) is not None]
    cells = f"{len(topics)} | {count} | {shares} | {auc:.2f} | {np.mean(fewer):.2f}"
    print(f"| {web} | {similarity} | {cells} |", flush=True)


def mean_auc(topics: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """Over the topics that have links of both kinds."""
    values = [rank_auc(score, good) for score, good in topics]
    return float(np.mean([value for value in values if value is not None]))


def fewer_steps(priority: np.ndarray, steps: np.ndarray) -> float | None:
    """The probability that, of two links with different steps, the one with fewer has the higher priority."""
    total = pairs = 0.0
    found = np.unique(steps).tolist()
    for near in found:
        for far in (other for other in found if other > near):
            both = (steps == near) | (steps == far)
            count = float((steps == near).sum() * (steps == far).sum())
            total += count * (rank_auc(priority[both], steps[both] == near) or 0.0)
            pairs += count
    return total / pairs if pairs else None


if __name__ == "__main__":
    main()
