"""Scores the order of a crawl's fetches by the labels, in the same way for every crawler.

Opilio and other crawlers are scored only by the requested URLs and the status of the responses. A page counts once,
when it is fetched; every attempt costs one.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.urls import host_of
from opilio.lab.evaluation import metrics
from opilio.lab.evaluation.oracle import oracle_hits
from opilio.lab.server.http import LoggedFetch
from opilio.lab.webs.labels import GroundTruthLabels
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.topics import LabTopic, SeedSet
from opilio.lab.webs.web import WarcWeb


class CrawlScore(msgspec.Struct, frozen=True, kw_only=True):
    """The score of one crawl by the labels."""

    budget: int
    fetched: int
    relevant_found: int
    relevant_reachable: int
    harvest: float
    recall: float
    auc_vs_oracle: float
    to_half: int | None
    to_ninety: int | None
    relevant_hosts: int
    host_entropy: float
    failures: int
    repeats: int  # fetches of a URL that had been fetched before
    duplicates: int  # pages whose body had been fetched before from another URL
    # Share of the pages of the other on-topic seed sets that were fetched; None without other sets.
    target_recall: float | None
    curve: tuple[tuple[int, int], ...]
    hosts: int = 0  # hosts with a fetched page, relevant or not
    places: int = 0  # directories with relevant pages


class Referee:
    """Scores crawls of one web. The oracle is computed once per topic, seed set and budget."""

    def __init__(self, web: WarcWeb, pages: ParsedPages, labels: GroundTruthLabels) -> None:
        self._web = web
        self._graph = pages.graph
        self._bodies = pages.body_hashes
        self._labels = labels
        self._oracles: dict[tuple[str, str, int], NDArray[np.bool_]] = {}

    def seeds(self, seed_set: SeedSet) -> list[int]:
        """The pages of a seed set that are in the web."""
        return [n for url in seed_set.urls if (n := self._web.number_of(url)) is not None]

    def oracle(self, topic: LabTopic, seed_set: SeedSet, budget: int) -> NDArray[np.bool_]:
        """Which fetches of the oracle are relevant."""
        key = (topic.name, seed_set.name, budget)
        if key not in self._oracles:
            relevant = self._labels.relevant(topic)
            self._oracles[key] = oracle_hits(self._graph, relevant, self.seeds(seed_set), budget)
        return self._oracles[key]

    def reachable(self, topic: LabTopic, seed_set: SeedSet) -> int:
        """The number of relevant pages that can be reached from a seed set."""
        depths = self._graph.depths(self.seeds(seed_set))[: len(self._web)]
        return int((self._labels.relevant(topic) & (depths >= 0)).sum())

    def hits(self, topic: LabTopic, attempts: Sequence[LoggedFetch]) -> NDArray[np.bool_]:
        """Which attempts fetched a relevant page for the first time."""
        relevant = self._labels.relevant(topic)
        found: set[int] = set()
        flags = np.zeros(len(attempts), dtype=bool)
        for place, attempt in enumerate(attempts):
            number = self._web.number_of(attempt.url) if attempt.status == 200 else None
            if number is not None and relevant[number] and number not in found:
                found.add(number)
                flags[place] = True
        return flags

    def score(self, topic: LabTopic, seed_set: SeedSet, attempts: Sequence[LoggedFetch], budget: int) -> CrawlScore:
        """All measures of a crawl by the labels, cut at the budget."""
        attempts = attempts[:budget]
        hits = self.hits(topic, attempts)
        reachable = self.reachable(topic, seed_set)
        spread = metrics.host_spread([host_of(a.url) for a, hit in zip(attempts, hits, strict=True) if hit])
        return CrawlScore(
            budget=budget,
            fetched=len(attempts),
            relevant_found=int(hits.sum()),
            relevant_reachable=reachable,
            harvest=metrics.harvest(hits),
            recall=metrics.recall(hits, reachable),
            auc_vs_oracle=metrics.auc_vs_oracle(hits, self.oracle(topic, seed_set, budget), budget),
            to_half=metrics.fetches_to_recall(hits, 0.5, reachable),
            to_ninety=metrics.fetches_to_recall(hits, 0.9, reachable),
            relevant_hosts=spread.hosts,
            host_entropy=spread.entropy,
            failures=sum(a.status == 0 or a.status >= 400 for a in attempts),
            repeats=len(attempts) - len({a.url for a in attempts}),
            duplicates=self._duplicates(attempts),
            target_recall=self._target_recall(topic, seed_set, attempts),
            curve=tuple(metrics.curve_points(hits)),
            hosts=len({host_of(a.url) for a in attempts if a.status == 200}),
            places=len({a.url.rpartition("/")[0] for a, hit in zip(attempts, hits, strict=True) if hit}),
        )

    def _duplicates(self, attempts: Sequence[LoggedFetch]) -> int:
        """Compares bodies instead of the crawler's own decision: the same for all crawlers."""
        came = {a.url: n for a in attempts if a.status == 200 and (n := self._web.number_of(a.url)) is not None}
        return len(came) - len({self._bodies[n] for n in came.values()})

    def _target_recall(self, topic: LabTopic, seed_set: SeedSet, attempts: Sequence[LoggedFetch]) -> float | None:
        """Share of the topic's other on-topic seeds that were found (literature.md §4)."""
        relevant, own = self._labels.relevant(topic), set(self.seeds(seed_set))
        named = {n for other in topic.seed_sets for n in self.seeds(other)} - own
        targets = {n for n in named if relevant[n]}
        met = {self._web.number_of(a.url) for a in attempts if a.status == 200}
        return metrics.target_recall(met, targets) if targets else None
