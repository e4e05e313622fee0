"""The summary of a web for `opilio lab webs`: counts, and the pages that can be reached from seeds."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import OfflineWebError
from opilio.core.urls import host_of
from opilio.lab.webs.labels import GroundTruthLabels, load_labels
from opilio.lab.webs.pages import ParsedPages, WebLinkGraph
from opilio.lab.webs.topics import LabTopic, SeedSet, load_topics
from opilio.lab.webs.web import LabProblem, WarcWeb


class SeedReach(msgspec.Struct, frozen=True, kw_only=True):
    """The pages that a seed set reaches. `at_depth[d]` counts relevant pages d links from the seeds."""

    name: str
    seeds: int
    missing_seeds: int
    reachable: int  # pages, relevant or not
    relevant: int
    at_depth: tuple[int, ...]


class TopicSummary(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    relevant: int
    seed_sets: tuple[SeedReach, ...]


class WebSummary(msgspec.Struct, frozen=True, kw_only=True):
    schema: int = 1
    name: str
    pages: int
    hosts: int
    links: int  # distinct links of a page to another page of the web
    links_between_hosts: int
    dead_links: int
    labels: int
    judged: int
    topics: tuple[TopicSummary, ...]
    problems: tuple[LabProblem, ...]


def summarize_web(folder: Path, cache: Path | None = None, processes: int = 2) -> WebSummary:
    """Read a web's folder; labels and topics are optional."""
    web = WarcWeb.open(folder, cache)
    graph = ParsedPages.open(web, cache, processes).graph
    topics, topic_problems = load_topics(web.folder)
    labels, label_problems = _labels(web)
    judged = labels.labeled_pages if labels else np.zeros(0, dtype=bool)
    return WebSummary(
        name=web.name,
        pages=len(web),
        hosts=len(web.hosts),
        links=graph.links,
        links_between_hosts=count_cross_host_links(web, graph),
        dead_links=graph.dead,
        labels=len(labels.page_counts) if labels else 0,
        judged=int(judged.sum()),
        topics=tuple(_topic(web, graph, labels, topic) for topic in topics),
        problems=(*web.problems, *topic_problems, *label_problems),
    )


def count_reachable(
    graph: WebLinkGraph, relevant: NDArray[np.bool_], seeds: Sequence[int]
) -> tuple[int, tuple[int, ...]]:
    """How many pages can be reached from some seeds, and how many relevant ones at each depth."""
    depths = graph.depths(seeds)[: graph.pages]
    hits = depths[relevant & (depths >= 0)]
    return int((depths >= 0).sum()), tuple(np.bincount(hits).tolist()) if len(hits) else ()


def count_cross_host_links(web: WarcWeb, graph: WebLinkGraph) -> int:
    """Links that lead from one host to another."""
    hosts = {name: number for number, name in enumerate(web.hosts)}
    host = np.array([hosts[host_of(url)] for url in web.urls], dtype=np.int64)
    sources = np.repeat(np.arange(graph.pages), np.diff(graph.starts))
    live = graph.targets < graph.pages
    return int((host[sources[live]] != host[graph.targets[live]]).sum())


def _labels(web: WarcWeb) -> tuple[GroundTruthLabels | None, list[LabProblem]]:
    try:
        labels = load_labels(web)
    except OfflineWebError as error:
        return None, [LabProblem("label", "labels.tsv", str(error))]
    return labels, labels.problems


def _topic(web: WarcWeb, graph: WebLinkGraph, labels: GroundTruthLabels | None, topic: LabTopic) -> TopicSummary:
    relevant = labels.relevant(topic) if labels else np.zeros(len(web), dtype=bool)
    sets = tuple(_seed_set(web, graph, relevant, seeds) for seeds in topic.seed_sets)
    return TopicSummary(name=topic.name, relevant=int(relevant.sum()), seed_sets=sets)


def _seed_set(web: WarcWeb, graph: WebLinkGraph, relevant: NDArray[np.bool_], seeds: SeedSet) -> SeedReach:
    known = [number for url in seeds.urls if (number := web.number_of(url)) is not None]
    reachable, at_depth = count_reachable(graph, relevant, known)
    return SeedReach(
        name=seeds.name,
        seeds=len(seeds.urls),
        missing_seeds=len(seeds.urls) - len(known),
        reachable=reachable,
        relevant=sum(at_depth),
        at_depth=at_depth,
    )
