"""One run of an experiment: a variant crawls a web for a topic from a seed set, then the labels judge it.

The crawl is handed brief and seeds; the labels are opened by whoever scores, after the crawl has ended. A run is a
function of its job: which process does it, and after which other job, changes nothing but its times.
"""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.crawl.config import merged
from opilio.lab import linkmetrics, metrics
from opilio.lab.accesslog import Attempt
from opilio.lab.crawls import Fetch, OfflineWeb, Trace, lab_settings, replay
from opilio.lab.declarations import BOUNDS, PEER, Variant
from opilio.lab.graphs import Graphs
from opilio.lab.labels import Labels, load_labels
from opilio.lab.oracle import oracle_order, random_order
from opilio.lab.pages import ParsedPages
from opilio.lab.peers.adapter import crawl_by_peer
from opilio.lab.referee import Referee
from opilio.lab.results import LinkQuality, Run, RunName, SelfJudged, run_of
from opilio.lab.searching import COMPARED, Beyond, SearchEngine, WebSource, asked_for, deeper
from opilio.lab.topics import LabTopic, SeedSet, load_topics
from opilio.lab.web import Problem, Web
from opilio.model.urls import host_of

SELF_POINTS = 200  # of the self-judged curve


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What tells one run from another, and all that it needs."""

    experiment: str
    folder: str = ""
    web: str = ""  # its name in results; the folder's, when left out
    topic: str
    seed_set: str
    variant: Variant
    budget: int
    random_seed: int = 0
    more: dict[str, Any] = {}  # laid over every variant
    latency_s: float = 0.0
    targets: str = ""  # the seed set whose pages are the targets of a T-Graph


class Arena:
    """A web opened for many runs, with its judge of record."""

    def __init__(
        self, offline: OfflineWeb, labels: Labels, topics: Sequence[LabTopic], problems: Sequence[Problem] = ()
    ) -> None:
        self.offline = offline
        self.labels = labels
        self.topics = {t.name: t for t in topics}
        self.topic_problems = list(problems)
        self.referee = Referee(offline.web, offline.pages, labels)
        self.search = SearchEngine(offline)
        self._graphs = Graphs(offline)

    @classmethod
    def open(cls, folder: Path, cache: Path | None = None, processes: int = 2) -> "Arena":
        web = Web.open(folder, cache)
        labels, (topics, problems) = load_labels(web), load_topics(web.folder)
        return cls(OfflineWeb(web, ParsedPages.open(web, cache, processes)), labels, topics, problems)

    def run(self, job: Job) -> Run:
        """Crawl, then judge."""
        topic = self.topics[job.topic]
        seeds = self.seed_set(topic, job.seed_set)
        trace = self._crawled(job, topic, seeds)
        attempts = [Attempt(f.url, f.status) for f in trace.fetches]
        score = self.referee.score(topic, seeds, attempts, job.budget)
        name = RunName(
            experiment=job.experiment,
            web=job.web or self.offline.web.name,
            topic=job.topic,
            strategy=job.variant.name,
            seed_set=job.seed_set,
            random_seed=job.random_seed,
        )
        own = trace.judged
        said = self._self_judged(topic, trace.fetches[: job.budget]) if own else None
        links = self._link_quality(topic, seeds, trace.fetches[: job.budget]) if own else None
        beyond = self._beyond(topic, trace.fetches[: job.budget]) if asked_for(job.seed_set) else None
        run = run_of(name, score, trace.cpu_s, trace.wall_s, said, links)
        return msgspec.structs.replace(run, virtual_s=trace.virtual_s, beyond=beyond, error=_first_of(trace.errors))

    def seed_set(self, topic: LabTopic, name: str) -> SeedSet:
        """A seed set by its name: one of the topic's, or the first results of a search."""
        results = asked_for(name)
        if results:
            return SeedSet(name=name, urls=tuple(self.search.find(topic.brief, results)))
        return next(s for s in topic.seed_sets if s.name == name)

    def _beyond(self, topic: LabTopic, fetches: Sequence[Fetch]) -> Beyond:
        """The crawl beside the engine's first results (S3-34)."""
        results = self.search.find(topic.brief, COMPARED)
        relevant = self.labels.relevant(topic)
        listed = {n for url in results if (n := self.offline.web.number_of(url)) is not None}
        got = [n for n, f in zip(self._numbers(fetches), fetches, strict=True) if n is not None and f.status == 200]
        theirs = Counter(map(host_of, results))
        urls = self.offline.web.urls
        return Beyond(
            results=len(results),
            results_relevant=int(sum(bool(relevant[n]) for n in listed)),
            new_relevant=len({n for n in got if relevant[n]} - listed),
            common_hosts=len(theirs.keys() & {host_of(urls[n]) for n in got}),
            deeper=tuple(deeper(theirs, [host_of(urls[n]) for n in got])),
        )

    def _crawled(self, job: Job, topic: LabTopic, seeds: SeedSet) -> Trace:
        kind = job.variant.kind
        if kind in BOUNDS:
            return self._bound(kind, topic, seeds, job)
        if kind.startswith(PEER):
            peer, faults = kind.removeprefix(PEER), self.offline.faults()
            return crawl_by_peer(peer, self.offline.web, topic.brief, seeds.urls, job.budget, faults)
        more = merged(merged(job.variant.set, job.more), {"engine": {"random_seed": job.random_seed}})
        settings = lab_settings(kind, topic.brief, seeds.urls, job.budget, more)
        targets = next((s.urls for s in topic.seed_sets if s.name == job.targets), ())
        sources = [WebSource(name, self.search) for name in settings.seeds.engines]
        return replay(self.offline, settings, job.latency_s, self._graphs.begin(settings, targets), sources)

    def _bound(self, kind: str, topic: LabTopic, seeds: SeedSet, job: Job) -> Trace:
        graph, known = self.offline.pages.graph, self.referee.seeds(seeds)
        if kind == "oracle":
            order = oracle_order(graph, self.labels.relevant(topic), known, job.budget)
        else:
            rng = random.Random(f"{job.random_seed} {topic.name} {seeds.name}")
            order = random_order(graph, known, job.budget, rng)
        web = self.offline.web
        live = [(web.urls[n], web.status(n)) if n < len(web) else (f"http://nowhere.invalid/{n}", 404) for n in order]
        return Trace([Fetch(url, 0.0, -1.0, False, status) for url, status in live], judged=False)

    def _self_judged(self, topic: LabTopic, fetches: Sequence[Fetch]) -> SelfJudged:
        """The crawler's own verdicts, and their quality on the fetched pages that a label judges."""
        said = np.array([f.relevant for f in fetches], dtype=bool)
        numbers = self._numbers(fetches)
        known = np.array([n is not None and self._judged[n] for n in numbers], dtype=bool) & _pages(fetches)
        quality = linkmetrics.judge_quality(said[known], self._truth(topic, numbers)[known])
        return SelfJudged(
            relevant=int(said.sum()),
            harvest=metrics.harvest(said),
            precision=quality.precision if said[known].any() else None,
            recall=quality.recall if self._truth(topic, numbers)[known].any() else None,
            curve=tuple(metrics.curve_points(said, SELF_POINTS)),
        )

    def _link_quality(self, topic: LabTopic, seeds: SeedSet, fetches: Sequence[Fetch]) -> LinkQuality:
        """The frontier's scores of what was fetched, seeds left out, against what the labels say of it."""
        begun = set(seeds.urls)
        chosen = [f for f in fetches if f.url not in begun]
        scores, paid = [f.score for f in chosen], self._truth(topic, self._numbers(chosen))
        chances = bool(scores) and min(scores) >= 0.0 and max(scores) <= 1.0
        return LinkQuality(
            auc=linkmetrics.rank_auc(scores, paid),
            average_precision=linkmetrics.average_precision(scores, paid),
            calibration_error=linkmetrics.calibration_error(scores, paid) if chances else None,
        )

    @property
    def _judged(self) -> NDArray[np.bool_]:
        return self.labels.judged

    def _numbers(self, fetches: Sequence[Fetch]) -> list[int | None]:
        return [self.offline.web.number_of(f.url) for f in fetches]

    def _truth(self, topic: LabTopic, numbers: Sequence[int | None]) -> NDArray[np.bool_]:
        relevant = self.labels.relevant(topic)
        return np.array([n is not None and bool(relevant[n]) for n in numbers], dtype=bool)


def _first_of(errors: Sequence[str]) -> str:
    return f"an error of ours ended {len(errors)} visits, the first {errors[0]}" if errors else ""


def _pages(fetches: Sequence[Fetch]) -> NDArray[np.bool_]:
    return np.array([f.judged >= 0 for f in fetches], dtype=bool)
