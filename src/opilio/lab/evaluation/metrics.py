"""Measures of a crawl, of its link scores and of its judge, from the order of its fetches and the labels.

Every measure counts *fetch attempts*: a 404, a redirect and a duplicate cost one like any page, for every crawler and
for the oracle (literature.md §4, fairness rule 1). Only robots.txt is free. A crawl that stops early keeps its results:
its curve is flat up to the budget. S2-49 asks that the relevance calculator and the prioritiser be compared separately:
their measures are here too.

Opilio and other crawlers are scored only by the requested URLs and the status of the responses. A page counts once,
when it is fetched; every attempt costs one.
"""

from collections.abc import Collection, Iterable, Sequence
from math import log2

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from opilio.core.urls import host_of
from opilio.lab.evaluation.oracle import oracle_hits
from opilio.lab.server.http import LoggedFetch
from opilio.lab.webs.labels import GroundTruthLabels
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.topics import LabTopic, SeedSet
from opilio.lab.webs.web import WarcWeb
from opilio.learn.logistic import roc_auc

Counts = NDArray[np.int64]
Rates = NDArray[np.float64]


def found_curve(hits: ArrayLike, budget: int | None = None) -> Counts:
    """Relevant pages found after 1, 2, … fetches, cut or held flat at the budget.

    >>> found_curve([True, False, True], budget=5).tolist()
    [1, 1, 2, 2, 2]
    """
    curve = np.cumsum(np.asarray(hits, dtype=bool), dtype=np.int64)
    if budget is None:
        return curve
    if len(curve) >= budget:
        return curve[:budget]
    last = int(curve[-1]) if len(curve) else 0
    return np.concatenate([curve, np.full(budget - len(curve), last, dtype=np.int64)])


def area_under_found(hits: ArrayLike, budget: int) -> int:
    """Area under relevant-found over fetches 1..budget."""
    return int(found_curve(hits, budget).sum())


def auc_vs_oracle(hits: ArrayLike, oracle_hits: ArrayLike, budget: int) -> float:
    """Area of the crawl divided by the oracle's with the same budget; 0 when the oracle finds nothing."""
    best = area_under_found(oracle_hits, budget)
    return area_under_found(hits, budget) / best if best else 0.0


def harvest_curve(hits: ArrayLike) -> Rates:
    """Relevant share of the first n fetches, for each n (precision rate of S0-30)."""
    curve = found_curve(hits)
    return curve / np.arange(1, len(curve) + 1, dtype=np.float64)


def harvest(hits: ArrayLike, after: int | None = None) -> float:
    """Relevant share of the first `after` fetches (all when not given); 0 for none."""
    cut = np.asarray(hits, dtype=bool)[:after]
    return float(cut.mean()) if len(cut) else 0.0


def recall(hits: ArrayLike, relevant: int) -> float:
    """Share found of all relevant pages that can be reached."""
    return float(np.count_nonzero(hits)) / relevant if relevant else 0.0


def target_recall(fetched: Iterable[object], targets: Collection[object]) -> float:
    """Share of a fixed set of target pages that were fetched."""
    return len(set(targets) & set(fetched)) / len(set(targets)) if targets else 0.0


def fetches_to_recall(hits: ArrayLike, share: float, relevant: int) -> int | None:
    """Fetches until `share` of the relevant pages are found; None when that never happens.

    >>> fetches_to_recall([True, False, True, True], 0.5, relevant=4)
    3
    """
    wanted = int(np.ceil(share * relevant - 1e-9))
    if wanted <= 0:
        return 0
    place = int(np.searchsorted(found_curve(hits), wanted))
    return place + 1 if place < len(np.asarray(hits)) else None


class HostSpread(msgspec.Struct, frozen=True):
    """Over how many hosts the relevant pages lie, and how evenly (entropy in bits)."""

    hosts: int
    entropy: float


def host_spread(hosts: Sequence[str]) -> HostSpread:
    """The spread of relevant pages, given the host of each.

    >>> host_spread(["a", "a", "b", "b"])
    HostSpread(hosts=2, entropy=1.0)
    """
    if not hosts:
        return HostSpread(0, 0.0)
    counts: dict[str, int] = {}
    for host in hosts:
        counts[host] = counts.get(host, 0) + 1
    shares = [n / len(hosts) for n in counts.values()]
    return HostSpread(len(counts), -sum(p * log2(p) for p in shares) + 0.0)


def curve_points(hits: ArrayLike, most: int = 1000) -> list[tuple[int, int]]:
    """The found curve as (fetched, found) pairs for a file: every step, or evenly thinned to `most` and the last."""
    curve = found_curve(hits)
    step = max(1, -(-len(curve) // most))
    picked = list(range(step - 1, len(curve), step))
    if len(curve) and (not picked or picked[-1] != len(curve) - 1):
        picked.append(len(curve) - 1)
    return [(i + 1, int(curve[i])) for i in picked]


def rank_auc(scores: ArrayLike, outcomes: ArrayLike) -> float | None:
    """Probability that a link to a relevant page was scored above another (ties half); None without both kinds.

    >>> rank_auc([0.9, 0.1, 0.5], [True, False, False])
    1.0
    """
    values, paid = _as_arrays(scores, outcomes)
    return roc_auc(values[paid], values[~paid])


def mid_ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the mean of theirs.

    >>> mid_ranks([3, 1, 3]).tolist()
    [2.5, 1.0, 2.5]
    """
    _, group, sizes = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes)
    middles: NDArray[np.float64] = ends - (sizes - 1) / 2.0
    return middles[group]


def average_precision(scores: ArrayLike, outcomes: ArrayLike) -> float | None:
    """Mean precision at each relevant link, best score first; links of equal score count as one step."""
    values, paid = _as_arrays(scores, outcomes)
    if not paid.any():
        return None
    order = np.argsort(-values, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(values[order]) != 0, True))
    gained = np.cumsum(paid[order])[ends]
    steps = np.diff(gained, prepend=0)
    return float((steps * gained / (ends + 1)).sum() / gained[-1])


class CalibrationBin(msgspec.Struct, frozen=True):
    """One bar of a reliability diagram: the predicted and the observed share."""

    predicted: float
    observed: float
    links: int


def reliability_bins(scores: ArrayLike, outcomes: ArrayLike, bins: int = 10) -> list[CalibrationBin]:
    """Links grouped by predicted probability (scores in 0..1), without empty groups."""
    values, paid = _as_arrays(scores, outcomes)
    group = np.clip((values * bins).astype(np.int64), 0, bins - 1)
    members = [np.flatnonzero(group == b) for b in range(bins)]
    return [CalibrationBin(float(values[m].mean()), float(paid[m].mean()), len(m)) for m in members if len(m)]


def calibration_error(scores: ArrayLike, outcomes: ArrayLike, bins: int = 10) -> float:
    """Mean distance between predicted and observed share over the groups, weighted by their size."""
    table = reliability_bins(scores, outcomes, bins)
    links = sum(b.links for b in table)
    return sum(b.links * abs(b.predicted - b.observed) for b in table) / links if links else 0.0


class JudgeQuality(msgspec.Struct, frozen=True):
    """The page judge against the labels; pages without a label are removed before."""

    precision: float
    recall: float
    f1: float
    pages: int


def judge_quality(predicted: ArrayLike, truth: ArrayLike) -> JudgeQuality:
    """Precision, recall and F1 of verdicts (predicted relevant) against the labels."""
    claims, facts = np.asarray(predicted, dtype=bool), np.asarray(truth, dtype=bool)
    right = int((claims & facts).sum())
    precision = right / int(claims.sum()) if claims.any() else 0.0
    found = right / int(facts.sum()) if facts.any() else 0.0
    f1 = 2 * precision * found / (precision + found) if right else 0.0
    return JudgeQuality(precision, found, f1, len(facts))


def crawled_recall(predicted: ArrayLike, relevant: ArrayLike, known: ArrayLike) -> float | None:
    """Recall as S2-42 approximates it: the fetched pages are the whole collection, only those with a label count.

    None without a fetched page that is labelled relevant.

    >>> crawled_recall([True, False, True], relevant=[True, True, True], known=[True, True, False])
    0.5
    """
    facts = np.asarray(relevant, dtype=bool) & np.asarray(known, dtype=bool)
    return float(np.asarray(predicted, dtype=bool)[facts].mean()) if facts.any() else None


def predicted_precision(scores: ArrayLike, relevant: ArrayLike, off_topic: float) -> float | None:
    """Of the links scored above those predicted off topic, the relevant share (S2-E2); None without any.

    >>> predicted_precision([1.0, 0.5, 0.01, 0.01], relevant=[True, False, True, False], off_topic=0.01)
    0.5
    """
    values, paid = _as_arrays(scores, relevant)
    predicted = values > off_topic
    return float(paid[predicted].mean()) if predicted.any() else None


def _as_arrays(scores: ArrayLike, outcomes: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    values, paid = np.asarray(scores, dtype=np.float64), np.asarray(outcomes, dtype=bool)
    if values.shape != paid.shape:
        raise ValueError("scores and outcomes differ in length")
    return values, paid


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
    # Fetches of a URL that had been fetched before.
    repeats: int
    # Pages whose body had been fetched before from another URL.
    duplicates: int
    # Share of the pages of the other on-topic seed sets that were fetched; None without other sets.
    target_recall: float | None
    curve: tuple[tuple[int, int], ...]
    # Hosts with a fetched page, relevant or not.
    hosts: int = 0
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
        spread = host_spread([host_of(a.url) for a, hit in zip(attempts, hits, strict=True) if hit])
        return CrawlScore(
            budget=budget,
            fetched=len(attempts),
            relevant_found=int(hits.sum()),
            relevant_reachable=reachable,
            harvest=harvest(hits),
            recall=recall(hits, reachable),
            auc_vs_oracle=auc_vs_oracle(hits, self.oracle(topic, seed_set, budget), budget),
            to_half=fetches_to_recall(hits, 0.5, reachable),
            to_ninety=fetches_to_recall(hits, 0.9, reachable),
            relevant_hosts=spread.hosts,
            host_entropy=spread.entropy,
            failures=sum(a.status == 0 or a.status >= 400 for a in attempts),
            repeats=len(attempts) - len({a.url for a in attempts}),
            duplicates=self._duplicates(attempts),
            target_recall=self._target_recall(topic, seed_set, attempts),
            curve=tuple(curve_points(hits)),
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
        return target_recall(met, targets) if targets else None
