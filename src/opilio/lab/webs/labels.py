"""The labels of a web's pages, and a summary of the web with them: counts, and what can be reached from the seeds.

Only the evaluation reads labels; no module on the crawler side may import this.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import OfflineWebError
from opilio.core.urls import canonicalize_url, host_of
from opilio.lab.webs.pages import ParsedPages, WebLinkGraph
from opilio.lab.webs.topics import LabTopic, SeedSet, load_topics
from opilio.lab.webs.web import LabProblem, WarcWeb


class GroundTruthLabels:
    """The labels of each page of a web, by page number.

    A page without labels, or whose labels all begin with `_`, is not judged: it is never relevant and does not count
    for a judge's precision.
    """

    def __init__(self, by_page: list[tuple[str, ...]], problems: list[LabProblem]) -> None:
        self.by_page = by_page
        self.problems = problems
        self._relevant: dict[tuple[str, ...], NDArray[np.bool_]] = {}

    @property
    def page_counts(self) -> dict[str, int]:
        """The number of pages with each label."""
        counts: dict[str, int] = {}
        for labels in self.by_page:
            for label in labels:
                counts[label] = counts.get(label, 0) + 1
        return counts

    @cached_property
    def labeled_pages(self) -> NDArray[np.bool_]:
        """Which pages have a label that counts."""
        return np.array([_is_judging_label(labels) for labels in self.by_page], dtype=bool)

    def relevant(self, topic: LabTopic) -> NDArray[np.bool_]:
        """Which pages are relevant to a topic: cached, since every measure needs it."""
        if topic.relevant not in self._relevant:
            self._relevant[topic.relevant] = self._compute_relevant_pages(topic)
        return self._relevant[topic.relevant]

    def _compute_relevant_pages(self, topic: LabTopic) -> NDArray[np.bool_]:
        answers: dict[tuple[str, ...], bool] = {}
        for labels in self.by_page:
            if labels not in answers:
                answers[labels] = topic.is_relevant([x for x in labels if not x.startswith("_")])
        return np.array([answers[labels] for labels in self.by_page], dtype=bool)


def _is_judging_label(labels: tuple[str, ...]) -> bool:
    return any(not label.startswith("_") for label in labels)


def load_labels(web: WarcWeb) -> GroundTruthLabels:
    """The labels in `labels.tsv` of a web; without that file crawls can run but not be scored."""
    path = web.folder / "labels.tsv"
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except FileNotFoundError:
        raise OfflineWebError(f"{path}: no labels, so crawls of this web can't be scored") from None
    except (OSError, UnicodeDecodeError) as error:
        raise OfflineWebError(f"{path}: {error}") from error
    return parse_labels(web, lines)


def parse_labels(web: WarcWeb, lines: list[str]) -> GroundTruthLabels:
    """Labels from lines of URL, tab, labels joined by `|`; a URL given twice gets the labels of both."""
    by_page: list[tuple[str, ...]] = [()] * len(web)
    problems: list[LabProblem] = []
    for place, line in enumerate(lines, start=1):
        address, tab, joined = line.partition("\t")
        if not line.strip() or line.startswith("#"):
            continue
        number = web.number_of(canonicalize_url(address) or "")
        labels = tuple(x.strip() for x in joined.split("|") if x.strip())
        if not tab or not labels:
            problems.append(LabProblem("label", f"labels.tsv line {place}", "no tab and label; skipped"))
        elif number is None:
            problems.append(LabProblem("label", address, "label for an address that the web does not hold; skipped"))
        # A page that can't be fetched must not count for the oracle.
        elif _is_judging_label(labels) and web.status(number) != 200:
            problems.append(LabProblem("label", address, f"label for an answer {web.status(number)}, no page; skipped"))
        else:
            by_page[number] = tuple(dict.fromkeys(by_page[number] + labels))
    if not any(by_page):
        why = f": {problems[0]}; a line is an address, a tab, and labels joined by |" if problems else ""
        raise OfflineWebError(f"{web.folder}: labels.tsv names no page of the web{why}")
    return GroundTruthLabels(by_page, problems)


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
    # Its labels that pages have: the related topics of S2's Table 4.
    labels: int
    seed_sets: tuple[SeedReach, ...]


class WebSummary(msgspec.Struct, frozen=True, kw_only=True):
    schema: int = 1
    name: str
    pages: int
    hosts: int
    # Distinct links of a page to another page of the web.
    links: int
    links_between_hosts: int
    dead_links: int
    labels: int  # without those that begin with `_`
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
        labels=sum(not label.startswith("_") for label in labels.page_counts) if labels else 0,
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
    related = sum(topic.is_relevant([label]) for label in labels.page_counts) if labels else 0
    return TopicSummary(name=topic.name, relevant=int(relevant.sum()), labels=related, seed_sets=sets)


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
