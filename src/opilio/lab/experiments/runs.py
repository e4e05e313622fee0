"""One run of an experiment: a variant crawls a web for a topic from a seed set, then the labels score it.

The crawl gets brief and seeds; the labels are read after it has ended. A run depends on nothing but its job. Finished
runs are stored until their experiment is finished, so that an interrupted one can resume. The name of a stored run is a
digest of all it depends on (program, libraries, web, labels, job, files).
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from opilio.core.settings import merge_trees
from opilio.core.urls import host_of
from opilio.lab.evaluation import metrics
from opilio.lab.evaluation.metrics import Referee
from opilio.lab.evaluation.oracle import FORESIGHT_STEPS, foresight_order, oracle_order, random_order
from opilio.lab.experiments.declarations import BOUND_STRATEGIES, PEER_PREFIX, Variant
from opilio.lab.experiments.preparation import CrawlPreparation
from opilio.lab.experiments.replay import CrawlTrace, OfflineWeb, ReplayedFetch, lab_settings, replay_crawl
from opilio.lab.experiments.results import LinkQuality, RunId, RunResult, SelfJudged, build_run_result
from opilio.lab.experiments.search_engine import (
    COMPARED_RESULTS,
    OfflineSearchEngine,
    OfflineSeedSource,
    SearchComparison,
    deeper_host_shares,
    search_result_count,
)
from opilio.lab.peers.adapter import crawl_by_peer
from opilio.lab.server.http import LoggedFetch
from opilio.lab.webs.labels import GroundTruthLabels, load_labels
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.resources import default_cache_folder, file_digest, load_cached, program_digest, prune, save_cached
from opilio.lab.webs.topics import LabTopic, SeedSet, drawn_seed_count, load_topics
from opilio.lab.webs.web import LabProblem, WarcWeb

SELF_JUDGED_CURVE_POINTS = 200  # points of the self-judged curve


class ExperimentJob(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies a run, with all that it needs."""

    experiment: str
    folder: str = ""
    # Its name in results; defaults to the folder's.
    web: str = ""
    topic: str
    seed_set: str
    variant: Variant
    budget: int
    random_seed: int = 0
    overrides: dict[str, Any] = {}  # settings that override every variant
    latency_s: float = 0.0
    # The seed set whose pages are the targets of a T-Graph.
    targets: str = ""
    # Pages of each seed list that classifiers are trained on.
    training: int = 0
    # The share of the pages that the search engine knows: another one for every random seed.
    coverage: float = 1.0

    @property
    def case_name(self) -> str:
        """The name of its seeds in results: executions with other search results are other cases (S3-32)."""
        own_engine = search_result_count(self.seed_set) and self.coverage < 1.0
        return f"{self.seed_set}-of-engine-{self.random_seed}" if own_engine else self.seed_set


class ExperimentRunner:
    """A web opened for many runs, with its referee."""

    def __init__(
        self,
        offline: OfflineWeb,
        labels: GroundTruthLabels,
        topics: Sequence[LabTopic],
        problems: Sequence[LabProblem] = (),
    ) -> None:
        self.offline = offline
        self.labels = labels
        self.topics = {t.name: t for t in topics}
        self.topic_problems = list(problems)
        self.referee = Referee(offline.web, offline.pages, labels)
        self.search = OfflineSearchEngine(offline)
        self.preparation = CrawlPreparation(offline, self.search)

    @classmethod
    def open(cls, folder: Path, cache: Path | None = None, processes: int = 2) -> "ExperimentRunner":
        web = WarcWeb.open(folder, cache)
        labels, (topics, problems) = load_labels(web), load_topics(web.folder)
        return cls(OfflineWeb(web, ParsedPages.open(web, cache, processes)), labels, topics, problems)

    def run(self, job: ExperimentJob) -> RunResult:
        """Crawl, then score."""
        topic = self.topics[job.topic]
        found = self.seed_set(topic, job.seed_set, job.coverage, job.random_seed)
        seeds = msgspec.structs.replace(found, name=job.case_name)
        trace = self._crawl(job, topic, seeds)
        attempts = [LoggedFetch(f.url, f.status) for f in trace.fetches]
        score = self.referee.score(topic, seeds, attempts, job.budget)
        name = RunId(
            experiment=job.experiment,
            web=job.web or self.offline.web.name,
            topic=job.topic,
            strategy=job.variant.name,
            seed_set=seeds.name,
            random_seed=job.random_seed,
        )
        own = trace.has_verdicts
        self_judged = self._self_judged(topic, trace.fetches[: job.budget]) if own else None
        links = self._link_quality(topic, seeds, trace.fetches[: job.budget], trace.off_topic) if own else None
        # The index of the search engine takes seconds to build, so it is used only where the seeds come from it.
        searched = bool(search_result_count(job.seed_set))
        beyond = self._compare_with_search(job, trace.fetches[: job.budget]) if searched else None
        run = build_run_result(name, score, trace.cpu_s, trace.wall_s, self_judged, links)
        return msgspec.structs.replace(
            run,
            virtual_s=trace.virtual_s,
            containing=self._containing(topic, trace.fetches[: job.budget]) if searched else 0.0,
            beyond=beyond,
            error=_summarize_errors(trace.errors),
        )

    def _containing(self, topic: LabTopic, fetches: Sequence[ReplayedFetch]) -> float:
        """The share of the fetched pages that contain the query: the topic's first keyword, or its name."""
        having = self.search.containing(topic.brief.keywords[0] if topic.brief.keywords else topic.name)
        got = [f.url in having for f in fetches if f.status == 200]
        return sum(got) / len(got) if got else 0.0

    def seed_set(self, topic: LabTopic, name: str, coverage: float = 1.0, engine: int = 0) -> SeedSet:
        """A seed set by its name: one of the topic's, or the first results of an engine with a share of the pages."""
        if search_result_count(name):
            return SeedSet(name=name, urls=tuple(self.search.seeds(topic.brief, name, coverage, engine)))
        if drawn_seed_count(name):
            return SeedSet(name=name, urls=tuple(self._drawn_seeds(topic, name)))
        return next(s for s in topic.seed_sets if s.name == name)

    def _drawn_seeds(self, topic: LabTopic, name: str) -> list[str]:
        """As many pages as the name states (S2-35): relevant ones drawn at random, without those of other seed sets,
        or the irrelevant ones with the most links."""
        urls, relevant = self.offline.web.urls, self.labels.relevant(topic)
        if name.startswith("generic"):
            order = np.argsort(-np.diff(self.offline.pages.graph.starts), kind="stable").tolist()
            return [urls[n] for n in order if not relevant[n]][: drawn_seed_count(name)]
        known = {url for seeds in topic.seed_sets for url in seeds.urls}
        drawn = [url for n, url in enumerate(urls) if relevant[n] and url not in known]
        random.Random(topic.name).shuffle(drawn)
        return drawn[: drawn_seed_count(name)]

    def _compare_with_search(self, job: ExperimentJob, fetches: Sequence[ReplayedFetch]) -> SearchComparison:
        """The crawl compared with the engine's first results (S3-34)."""
        topic = self.topics[job.topic]
        results = self.search.search(topic.brief, COMPARED_RESULTS, "", job.coverage, job.random_seed)
        relevant = self.labels.relevant(topic)
        listed = {n for url in results if (n := self.offline.web.number_of(url)) is not None}
        got = [n for n, f in zip(self._numbers(fetches), fetches, strict=True) if n is not None and f.status == 200]
        theirs = Counter(map(host_of, results))
        urls = self.offline.web.urls
        return SearchComparison(
            results=len(results),
            results_relevant=int(sum(bool(relevant[n]) for n in listed)),
            new_relevant=len({n for n in got if relevant[n]} - listed),
            common_hosts=len(theirs.keys() & {host_of(urls[n]) for n in got}),
            deeper=tuple(deeper_host_shares(theirs, [host_of(urls[n]) for n in got])),
        )

    def _crawl(self, job: ExperimentJob, topic: LabTopic, seeds: SeedSet) -> CrawlTrace:
        kind = job.variant.kind
        if kind in BOUND_STRATEGIES:
            return self._bound_trace(kind, topic, seeds, job)
        if kind.startswith(PEER_PREFIX):
            peer, faults = kind.removeprefix(PEER_PREFIX), self.offline.faults()
            return crawl_by_peer(peer, self.offline.web, topic.brief, seeds.urls, job.budget, faults)
        more = merge_trees(merge_trees(job.variant.set, job.overrides), {"engine": {"random_seed": job.random_seed}})
        more = merge_trees(more, self.preparation.settings(job.variant, topic.brief, job.budget, job.training))
        settings = lab_settings(kind, topic.brief, seeds.urls, job.budget, more)
        targets = next((s.urls for s in topic.seed_sets if s.name == job.targets), ())
        sources = [OfflineSeedSource(name, self.search) for name in settings.seeds.engines]
        begin = self.preparation.tgraphs.initial_state(settings, targets)
        verdicts = self._relevant_urls(topic) if job.variant.perfect_judge else None
        trace = replay_crawl(self.offline, settings, job.latency_s, begin, sources, verdicts)
        trace.off_topic = settings.rank.get("unrelated")
        return trace

    def _relevant_urls(self, topic: LabTopic) -> frozenset[str]:
        urls = self.offline.web.urls
        return frozenset(urls[n] for n in np.flatnonzero(self.labels.relevant(topic)).tolist())

    def _bound_trace(self, kind: str, topic: LabTopic, seeds: SeedSet, job: ExperimentJob) -> CrawlTrace:
        graph, known = self.offline.pages.graph, self.referee.seeds(seeds)
        if kind == "oracle":
            order = oracle_order(graph, self.labels.relevant(topic), known, job.budget)
        elif kind in FORESIGHT_STEPS:
            steps = FORESIGHT_STEPS[kind]
            order = foresight_order(graph, self.labels.relevant(topic), known, job.budget, steps)
        else:
            rng = random.Random(f"{job.random_seed} {topic.name} {seeds.name}")
            order = random_order(graph, known, job.budget, rng)
        web = self.offline.web
        live = [(web.urls[n], web.status(n)) if n < len(web) else (f"http://nowhere.invalid/{n}", 404) for n in order]
        return CrawlTrace([ReplayedFetch(url, 0.0, -1.0, False, status) for url, status in live], has_verdicts=False)

    def _self_judged(self, topic: LabTopic, fetches: Sequence[ReplayedFetch]) -> SelfJudged:
        """The crawler's own verdicts, and their quality on the fetched pages that have a label."""
        verdicts = np.array([f.relevant for f in fetches], dtype=bool)
        numbers = self._numbers(fetches)
        known = np.array([n is not None and self._labeled_pages[n] for n in numbers], dtype=bool) & _fetched_page_mask(
            fetches
        )
        relevant = self._relevance(topic, numbers)
        truth = relevant[known]
        quality = metrics.judge_quality(verdicts[known], truth)
        scores = np.array([f.judge_score for f in fetches])[known]
        chances = truth.size > 0 and scores.max() <= 1.0
        return SelfJudged(
            relevant=int(verdicts.sum()),
            harvest=metrics.harvest(verdicts),
            precision=quality.precision if verdicts[known].any() else None,
            recall=metrics.crawled_recall(verdicts, relevant, known),
            auc=metrics.rank_auc(scores, truth),
            calibration_error=metrics.calibration_error(scores, truth) if chances else None,
            reliability=tuple(metrics.reliability_bins(scores, truth)) if chances else (),
            curve=tuple(metrics.curve_points(verdicts, SELF_JUDGED_CURVE_POINTS)),
        )

    def _link_quality(
        self, topic: LabTopic, seeds: SeedSet, fetches: Sequence[ReplayedFetch], off_topic: float | None
    ) -> LinkQuality:
        """The frontier's scores of the fetched links, without seeds, against the labels."""
        begun = set(seeds.urls)
        chosen = [f for f in fetches if f.url not in begun]
        scores, paid = [f.score for f in chosen], self._relevance(topic, self._numbers(chosen))
        chances = bool(scores) and min(scores) >= 0.0 and max(scores) <= 1.0
        return LinkQuality(
            auc=metrics.rank_auc(scores, paid),
            average_precision=metrics.average_precision(scores, paid),
            calibration_error=metrics.calibration_error(scores, paid) if chances else None,
            precision=None if off_topic is None else metrics.predicted_precision(scores, paid, off_topic),
        )

    @property
    def _labeled_pages(self) -> NDArray[np.bool_]:
        return self.labels.labeled_pages

    def _numbers(self, fetches: Sequence[ReplayedFetch]) -> list[int | None]:
        return [self.offline.web.number_of(f.url) for f in fetches]

    def _relevance(self, topic: LabTopic, numbers: Sequence[int | None]) -> NDArray[np.bool_]:
        relevant = self.labels.relevant(topic)
        return np.array([n is not None and bool(relevant[n]) for n in numbers], dtype=bool)


def _summarize_errors(errors: Sequence[str]) -> str:
    return f"{len(errors)} visits ended with an error, the first: {errors[0]}" if errors else ""


def _fetched_page_mask(fetches: Sequence[ReplayedFetch]) -> NDArray[np.bool_]:
    return np.array([f.judge_score >= 0 for f in fetches], dtype=bool)


# Versions of the program whose runs are kept.
_MAX_CACHED_VERSIONS = 3
_SIDE_FILES = ("labels.tsv", "topics.toml", "hosts.toml")


class RunCheckpoint:
    """The finished runs of some jobs. A run with an error is not stored: the next try may succeed."""

    def __init__(self, files: Sequence[Path]) -> None:
        # One per job.
        self._files = files

    @classmethod
    def for_jobs(cls, jobs: Sequence[ExperimentJob], cache: Path | None = None) -> "RunCheckpoint":
        """The runs that this version of the program made from the current webs and files."""
        cache = cache or default_cache_folder()
        folder = cache / f"runs-{program_digest()}"
        prune(folder, "runs-*", _MAX_CACHED_VERSIONS)
        webs = {name: _web_digest(Path(name), cache) for name in {job.folder for job in jobs}}
        return cls([folder / _cache_key(job, webs[job.folder]) for job in jobs])

    def load(self) -> dict[int, RunResult]:
        """The finished runs by job index."""
        found = ((place, load_cached(path, RunResult)) for place, path in enumerate(self._files))
        return {place: run for place, run in found if run is not None}

    def save(self, place: int, run: RunResult) -> None:
        """Store a run atomically: the command may be killed at any time."""
        if not run.error:
            save_cached(self._files[place], run)

    def clear(self) -> None:
        """Delete the runs after the results are written: a new start of the experiment runs everything again."""
        for path in self._files:
            with suppress(OSError):
                path.unlink()


def _cache_key(job: ExperimentJob, web: bytes) -> str:
    digest = xxhash.xxh3_128(web)
    # The location of a web does not matter.
    digest.update(msgspec.msgpack.encode(msgspec.structs.replace(job, folder="")))
    for name in _strings([job.variant.set, job.overrides]):
        digest.update(file_digest(Path(name)))
    return digest.hexdigest()


def _web_digest(folder: Path, cache: Path) -> bytes:
    """A digest of all that a run reads of a web."""
    return WarcWeb.open(folder, cache).digest.encode() + b"".join(file_digest(folder / name) for name in _SIDE_FILES)


def _strings(value: object) -> Iterator[str]:
    """All strings in a tree of options: some are names of files."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _strings(part)
