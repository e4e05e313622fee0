"""The revisit experiment: a collection is crawled from a web and updated while the web changes; with report and plot.

Every policy starts with a copy of the same collection, gets the same budget, and sees the same web with the same
faults. The engine is that of a live crawl, on a virtual clock; the crawler's own judge decides relevance, the labels
score the outcome: freshness and age of the relevant pages over time (Cho and Garcia-Molina 2000).

A page is fresh while the stored version is the web's current one. Its age is the time since the web first had another.
A page that has vanished and is still in the collection is stale since it vanished.
"""

import asyncio
import shutil
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.clock import DAY_S, VirtualClock
from opilio.core.display import GRID_COLOR, PALETTE, new_figure, save_figure
from opilio.core.settings import Settings, Tree
from opilio.dedup import create_dedup_tables as create_seen
from opilio.engine.wiring.assembly import open_analysis
from opilio.engine.wiring.build import Environment, build_engine, build_frontier, seed_leads
from opilio.engine.wiring.start import initial_states, latest_snapshots
from opilio.engine.wiring.topic import build_topic
from opilio.frontier.schema import create_frontier_tables as create_frontier
from opilio.lab.evaluation.statistics import ConfidenceInterval, bootstrap_mean
from opilio.lab.experiments.replay import ReplayFetcher, lab_settings, replay_crawl
from opilio.lab.experiments.runs import ExperimentRunner
from opilio.lab.reports.plots import PLOT_FORMATS
from opilio.lab.reports.tables import markdown_table
from opilio.lab.synthetic.changing import ChangingWeb, Churn, PageLifetime, build_lifetimes
from opilio.lab.webs.topics import LabTopic, SeedSet, select_topics
from opilio.store.collection import Collection
from opilio.store.pages import version_intervals
from opilio.store.revisits import count_revisits
from opilio.store.versions import count_answers
from opilio.store.warc import WarcWriter
from opilio.store.writer import CollectionWriter

Array = NDArray[np.float64]


class VersionInterval(msgspec.Struct, frozen=True):
    """One stored version with the time during which it was current."""

    url: str
    fetched_at: float
    replaced_at: float


class FreshnessMeasures(msgspec.Struct, frozen=True, kw_only=True):
    """The measures of a run, at each of `times`."""

    times: tuple[float, ...]
    # Share of the relevant pages whose stored version is current.
    fresh: tuple[float, ...]
    age_days: tuple[float, ...]  # mean over them, 0 for fresh ones
    fetches: int
    revisits: int
    # Relevant pages that appeared and were found.
    new_relevant: int
    born_relevant: int  # relevant pages that appeared


def load_versions(collection: Collection) -> list[VersionInterval]:
    """Every version that was ever current."""
    return [VersionInterval(*row) for row in version_intervals(collection.connection)]


def measure_freshness(
    collection: Collection, web: ChangingWeb, relevant: set[str], times: Sequence[float]
) -> FreshnessMeasures:
    """Measure a collection against its web."""
    kept = [k for k in load_versions(collection) if web.original_url(k.url) in relevant]
    fresh, age = np.zeros(len(times)), np.zeros(len(times))
    for place, at in enumerate(times):
        ages = np.array([_staleness_s(web, k, at) for k in kept if k.fetched_at <= at < k.replaced_at])
        fresh[place] = float((ages == 0).mean()) if len(ages) else 0.0
        age[place] = float(ages.mean()) / DAY_S if len(ages) else 0.0
    begin = times[0]
    db = collection.connection
    revisits = count_revisits(db)
    born = {url for url in relevant if web.created_at(url) > begin}
    found = {web.original_url(k.url) for k in kept} & born
    return FreshnessMeasures(
        times=tuple(times),
        fresh=tuple(fresh.tolist()),
        age_days=tuple(age.tolist()),
        fetches=count_answers(db, begin),
        revisits=revisits,
        new_relevant=len(found),
        born_relevant=len(born),
    )


def _staleness_s(web: ChangingWeb, kept: VersionInterval, at: float) -> float:
    """Seconds since the stored version became outdated; 0 while it is current."""
    ended = web.disappears_at(kept.url)
    edits = web.edit_times(kept.url)
    after = bisect_right(edits, kept.fetched_at)
    stale_at = min(edits[after] if after < len(edits) else float("inf"), ended)
    return max(0.0, at - stale_at)


START_TIME_S = 1_700_000_000.0
STRATEGY = "best-first"
SAMPLE_COUNT = 81


class RevisitCase(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies a case."""

    topic: str
    seed_set: str
    pages: int = 500
    interval_days: float = 8.0
    churn: Churn = Churn()


class RevisitStudy:
    """One web, one topic, one schedule: a first collection, and any number of runs from it."""

    def __init__(self, runner: ExperimentRunner, case: RevisitCase, place: Path) -> None:
        self._runner = runner
        self._case = case
        self._folder = place
        self._topic: LabTopic = runner.topics[case.topic]
        self._seeds: SeedSet = next(s for s in self._topic.seed_sets if s.name == case.seed_set)
        self._page_urls = self._crawl_page_urls()
        self._lifetimes: dict[str, PageLifetime] = build_lifetimes(
            self._page_urls, case.churn, START_TIME_S, self._seeds.urls
        )

    def _crawl_page_urls(self) -> list[str]:
        """The pages that a crawl of the unchanged web finds first; the web is limited to them."""
        standing = replace(self._runner.offline, ignore_faults=True)
        trace = replay_crawl(standing, self._settings({}, self._case.pages))
        return list(dict.fromkeys(f.url for f in trace.fetches if f.judge_score >= 0))

    def _settings(self, more: Tree, budget: int = 0) -> Settings:
        """Failures are retried, as by a live crawl: revisits are counted here, not requests."""
        return lab_settings(STRATEGY, self._topic.brief, self._seeds.urls, budget, {"fetch": {"retries": 2}, **more})

    @property
    def relevant(self) -> set[str]:
        """The relevant pages by the labels, which no crawler sees."""
        urls, wanted = self._runner.offline.web.urls, self._runner.labels.relevant(self._topic)
        return {urls[int(n)] for n in np.flatnonzero(wanted)} & set(self._page_urls)

    def build_collection(self) -> None:
        """Crawl the first collection."""
        asyncio.run(self._crawl(self._folder / "start", START_TIME_S - DAY_S, self._settings({})))

    def run_policy(self, name: str, revisit: Tree) -> FreshnessMeasures:
        """Run one policy for the whole time."""
        folder, days = self._folder / name, self._case.churn.days
        shutil.copytree(self._folder / "start", folder)
        wanted = {"on": True, "continuous": True, "interval_s": self._case.interval_days * DAY_S, **revisit}
        more: Tree = {"revisit": wanted, "stop": {"minutes": days * 1440.0, "harvest_below": 0.0}}
        web = asyncio.run(self._crawl(folder, START_TIME_S, self._settings(more)))
        times = (START_TIME_S + np.linspace(0.0, days * DAY_S, SAMPLE_COUNT)).tolist()
        collection = Collection.open_for_reading(folder)
        try:
            return measure_freshness(collection, web, self.relevant, times)
        finally:
            collection.close()
            shutil.rmtree(folder)

    async def _crawl(self, folder: Path, start: float, settings: Settings) -> ChangingWeb:
        clock = VirtualClock(start)
        web = ChangingWeb(self._runner.offline.web, self._lifetimes, self._case.churn, clock)
        resumed = folder.exists()
        opened = Collection.open_for_writing(folder) if resumed else Collection.create(folder, "", _TABLE_CREATORS)
        writer = CollectionWriter(opened, WarcWriter(folder, "lab"))
        writer.resume()
        try:
            await self._run(opened, writer, web, clock, settings)
        finally:
            writer.close()
            opened.close()
        return web

    async def _run(
        self,
        collection: Collection,
        writer: CollectionWriter,
        web: ChangingWeb,
        clock: VirtualClock,
        settings: Settings,
    ) -> None:
        topic = build_topic(settings)
        states = latest_snapshots(collection) or initial_states(settings, topic)
        frontier = build_frontier(settings, collection)
        with collection.unit_of_work():
            frontier.recover(clock.now())
            frontier.add(seed_leads(settings), clock.now())
        fetcher = ReplayFetcher(web, clock, 0.0, faults=self._runner.offline.faults())
        environment = Environment(collection, writer, frontier, fetcher, clock)
        async with open_analysis(settings, topic, states) as analysis:
            await build_engine(settings, environment, analysis, resumed=False).run()


_TABLE_CREATORS = (create_frontier, create_seen)


def revisit_cases(
    runner: ExperimentRunner, topics: int, pages: int, interval_days: float, churns: Sequence[Churn]
) -> list[RevisitCase]:
    """One case for every schedule of the first `topics` topics, from on-topic seeds if there are any."""
    known = select_topics(list(runner.topics.values()), (), runner.offline.web.folder)
    return [
        RevisitCase(
            topic=topic.name, seed_set=_default_seed_set(topic), pages=pages, interval_days=interval_days, churn=churn
        )
        for topic in known[:topics]
        for churn in churns
    ]


def _default_seed_set(topic: LabTopic) -> str:
    names = [seeds.name for seeds in topic.seed_sets]
    return next((name for name in names if name.startswith("on-topic")), names[0])


class RevisitRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run: web, topic, change schedule and policy, with the measured freshness."""

    web: str
    topic: str
    schedule: int
    policy: str
    truth: FreshnessMeasures

    @property
    def fresh(self) -> float:
        return float(np.mean(self.truth.fresh))

    @property
    def age_days(self) -> float:
        return float(np.mean(self.truth.age_days))

    @property
    def case(self) -> tuple[str, str, int]:
        return self.web, self.topic, self.schedule

    @property
    def found_share(self) -> float:
        return self.truth.new_relevant / max(1, self.truth.born_relevant)

    @property
    def found_per_100_fetches(self) -> float:
        return 100.0 * self.truth.new_relevant / max(1, self.truth.fetches)


Measure = Callable[[RevisitRun], float]
MEASURES: dict[str, Measure] = {
    "freshness": lambda run: run.fresh,
    "age, days": lambda run: run.age_days,
    "new relevant pages found": lambda run: run.found_share,
    "new relevant pages per 100 fetches": lambda run: run.found_per_100_fetches,
}


def format_revisit_report(runs: Sequence[RevisitRun], reference: str, seed: int = 0) -> str:
    """The tables as Markdown. If the reference policy did not run, the last policy is the reference."""
    policies = list(dict.fromkeys(run.policy for run in runs))
    reference = reference if reference in policies else policies[-1]
    others = [name for name in policies if name != reference]
    measures = list(MEASURES.values())
    means = [
        [f"`{name}`", *(_format_interval(_mean_interval(runs, name, m, seed)) for m in measures)] for name in policies
    ]
    pairs = [
        [
            f"`{reference}` − `{name}`",
            *(_format_interval(_difference_interval(runs, (reference, name), m, seed)) for m in measures[:2]),
        ]
        for name in others
    ]
    by_web = [
        [web, *(f"{np.mean([r.fresh for r in runs if (r.web, r.policy) == (web, p)]):.3f}" for p in policies)]
        for web in dict.fromkeys(run.web for run in runs)
    ]
    spent = [[f"`{p}`", *_cost_cells([run.truth for run in runs if run.policy == p])] for p in policies]
    parts = ["## Means over cases", markdown_table(["policy", *MEASURES], means)]
    parts += ["## Paired differences", markdown_table(["pair", *list(MEASURES)[:2]], pairs)] if pairs else []
    parts += ["## Freshness by web", markdown_table(["web", *policies], by_web)]
    parts += ["## Budget used", markdown_table(["policy", "fetches per run", "revisits that got the page"], spent)]
    return "\n\n".join(parts) + "\n"


def _cost_cells(truths: Sequence[FreshnessMeasures]) -> list[str]:
    return [
        f"{np.mean([truth.fetches for truth in truths]):.0f}",
        f"{np.mean([truth.revisits for truth in truths]):.0f}",
    ]


def _mean_interval(runs: Sequence[RevisitRun], policy: str, measure: Measure, seed: int) -> ConfidenceInterval:
    mine = [run for run in runs if run.policy == policy]
    groups = [(run.web, run.topic) for run in mine]
    return bootstrap_mean([measure(run) for run in mine], np.random.default_rng(seed), groups)


def _difference_interval(
    runs: Sequence[RevisitRun], pair: tuple[str, str], measure: Measure, seed: int
) -> ConfidenceInterval:
    one, other = pair
    by_case = {(run.case, run.policy): measure(run) for run in runs}
    cases = [case for case, policy in by_case if policy == one and (case, other) in by_case]
    values = [by_case[case, one] - by_case[case, other] for case in cases]
    return bootstrap_mean(values, np.random.default_rng(seed), [case[:2] for case in cases])


def _format_interval(found: ConfidenceInterval) -> str:
    # The interval of a single case would have no width and say nothing about others.
    return f"{found.mean:.3f}" if found.n < 2 else f"{found.mean:.3f} ({found.low:.3f} … {found.high:.3f})"


def draw_revisit_plot(runs: Sequence[RevisitRun], folder: Path) -> list[Path]:
    """Plots freshness and age over time: one line per policy, the mean over cases."""
    folder.mkdir(parents=True, exist_ok=True)
    with new_figure(8.0, 3.4) as figure:
        for place, (field, label) in enumerate((("fresh", "freshness"), ("age_days", "age, days"))):
            axes = figure.add_subplot(1, 2, place + 1)
            for number, policy in enumerate(dict.fromkeys(run.policy for run in runs)):
                mine = [run.truth for run in runs if run.policy == policy]
                days = (np.array(mine[0].times) - mine[0].times[0]) / 86_400.0
                curve: Array = np.mean([getattr(truth, field) for truth in mine], axis=0)
                axes.plot(days, curve, color=PALETTE[number % len(PALETTE)], label=policy, linewidth=1.6)
            axes.set(xlabel="days", ylabel=label)
            axes.set_ylim(bottom=0)
            axes.grid(axis="y", color=GRID_COLOR, linewidth=0.6)
        figure.axes[0].legend(frameon=False, loc="lower left")
        written = [folder / f"freshness.{form}" for form in PLOT_FORMATS]
        for path, form in zip(written, PLOT_FORMATS, strict=True):
            save_figure(figure, path, form)
    return written
