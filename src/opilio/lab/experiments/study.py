"""Carries out an experiment: which runs it needs, spread over processes, returned in a fixed order."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from opilio.core.errors import ConfigError, OfflineWebError, UsageError
from opilio.core.settings import Tree, describe_validation_error, merge_trees
from opilio.engine.wiring.topic import build_topic, initial_topic_state
from opilio.engine.workers.pool import available_cpus
from opilio.lab.experiments.declarations import BOUND_STRATEGIES, PEER_PREFIX, Experiment, Variant, registration_digest
from opilio.lab.experiments.replay import lab_settings
from opilio.lab.experiments.results import RunResult
from opilio.lab.experiments.runs import ExperimentJob, ExperimentRunner
from opilio.lab.experiments.search_engine import search_result_count
from opilio.lab.peers.adapter import check_peer
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import open_synthetic_web
from opilio.lab.webs.resources import map_unordered
from opilio.lab.webs.topics import LabTopic, SeedSet, TopicBrief, drawn_seed_count, select_topics
from opilio.lab.webs.web import LabProblem
from opilio.methods.attributes.training import LearnerComparison

OnRunFinished = Callable[[int, RunResult], None]  # index of a job, and its run


class StudyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The user's options; unset ones default to the experiment's own."""

    webs: tuple[Path, ...]
    topics: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()
    pages: int = 0
    seed_sets: int = 0
    random_seed: int = 0
    # Number of random seeds, counted up from `random_seed`.
    random_seeds: int = 1
    overrides: Tree = {}


class Study:
    """All runs of one experiment. `problems` lists what was skipped and why."""

    def __init__(self, experiment: Experiment, choice: StudyOptions) -> None:
        self.experiment = experiment
        self.options = choice
        self.problems: list[LabProblem] = []

    @property
    def registration(self) -> str:
        """The digest of a registered experiment; empty for others, and if an option changes what is run."""
        choice = self.options
        changed = choice.topics or choice.pages or choice.seed_sets or choice.random_seed or choice.overrides
        return registration_digest(self.experiment) if self.experiment.registered and not changed else ""

    def jobs(self) -> list[ExperimentJob]:
        """Every run, in a fixed order: runs of one case are adjacent, so that they share an oracle."""
        for variant in self.options.variants:
            _check_variant(variant, self.options.overrides)
        for topic in self.experiment.classes:
            build_topic(lab_settings("breadth", TopicBrief(name=topic), (), 1, self._overrides_for(topic)))
        found = [
            job for folder, name in unique_web_names(self.options.webs) for job in self._jobs_for_web(folder, name)
        ]
        if not found:
            raise OfflineWebError(f"{self.options.webs[0]}: nothing to run: {_first_problem(self.problems)}")
        return found

    def _jobs_for_web(self, folder: Path, name: str) -> Iterator[ExperimentJob]:
        runner = open_runner(folder)
        # Report errors in hosts.toml before the first run.
        runner.offline.faults()
        for variant in self.options.variants:
            _prepare(runner, variant, self.options.overrides)
        self.problems += [*runner.offline.web.problems, *runner.topic_problems, *runner.labels.problems]
        for topic in self._topics(runner):
            if not runner.labels.relevant(topic).any():
                wanted = ", ".join(topic.relevant) or "none are given"
                self._skip("topic", topic.name, f"no page has a label that makes it relevant ({wanted}); skipped")
                continue
            if not self._all_variants_accept(topic):
                continue
            targets = self.experiment.targets
            if targets and all(s.name != targets for s in topic.seed_sets):
                self._skip("seed", f"{topic.name}/{targets}", "no such seed set, so there is no T-Graph to start with")
            for seeds in self._seed_sets(runner, topic):
                for job in self._jobs_for_case(topic, seeds):
                    budget = self.options.pages or self.experiment.budgets.get(name, job.budget)
                    yield msgspec.structs.replace(job, folder=str(folder), web=name, budget=budget)

    def compare_classifiers(self) -> dict[str, LearnerComparison]:
        """The classifiers of S1 by topic, where the experiment trains some."""
        size, found = self.experiment.training, dict[str, LearnerComparison]()
        for folder, _ in unique_web_names(self.options.webs) if size else ():
            runner = open_runner(folder)
            for topic in self._topics(runner):
                found[topic.name] = runner.preparation.training.compare(topic.brief, size)
        return found

    def _all_variants_accept(self, topic: LabTopic) -> bool:
        """Can every variant use the topic's words? If not, report it before the first run."""
        tried: set[bytes] = set()
        for variant in filter(_is_own_strategy, self.options.variants):
            try:
                more = merge_trees(variant.set, self._overrides_for(topic.name))
                settings = lab_settings(variant.kind, topic.brief, (), 1, more)
                heard = msgspec.msgpack.encode((settings.topic, settings.judge, settings.senses, settings.expansion))
                if heard not in tried:
                    initial_topic_state(settings, build_topic(settings))
                tried.add(heard)
            except UsageError as error:
                self._skip("topic", topic.name, f"'{variant.name}' can't crawl for it: {error}; skipped")
                return False
        return True

    def _jobs_for_case(self, topic: LabTopic, seeds: SeedSet) -> Iterator[ExperimentJob]:
        choice, declared = self.options, self.experiment
        bounds = [Variant(name=name) for name in declared.bounds if name not in {v.name for v in choice.variants}]
        for draw in range(self._draws(seeds)):
            for variant in (*choice.variants, *bounds):
                yield ExperimentJob(
                    experiment=declared.name,
                    topic=topic.name,
                    seed_set=seeds.name,
                    variant=variant,
                    budget=choice.pages or declared.budget,
                    random_seed=choice.random_seed + draw,
                    latency_s=declared.latency_s,
                    overrides=self._overrides_for(topic.name),
                    targets=declared.targets if variant.graph else "",
                    coverage=declared.coverage,
                    training=declared.training,
                )

    def _draws(self, seeds: SeedSet) -> int:
        """How often a case is run. Executions differ in what search engines know: other seeds need one of them."""
        declared, draws = self.experiment, self.options.random_seeds
        by_engines = declared.coverage < 1.0 and draws == declared.executions
        return 1 if by_engines and not search_result_count(seeds.name) else draws

    def _overrides_for(self, topic: str) -> Tree:
        classes = self.experiment.classes.get(topic)
        return (
            merge_trees({"topic": {"dewey": list(classes)}}, self.options.overrides)
            if classes
            else self.options.overrides
        )

    def _topics(self, runner: ExperimentRunner) -> list[LabTopic]:
        """The selected topics; else all, or as many as the experiment takes, the largest first."""
        topics = select_topics(list(runner.topics.values()), self.options.topics, runner.offline.web.folder)
        named = [topic for topic in topics if topic.name in self.experiment.topic_names]
        if named and not self.options.topics:
            return named
        most = self.experiment.topics
        if self.options.topics or not most or len(topics) <= most:
            return topics
        return sorted(topics, key=lambda t: -int(runner.labels.relevant(t).sum()))[:most]

    def _seed_sets(self, runner: ExperimentRunner, topic: LabTopic) -> list[SeedSet]:
        """The first K sets of each kind that reach a relevant page."""
        most = self.options.seed_sets or self.experiment.seed_sets
        kinds = [kind for kind in self.experiment.seed_kinds if _is_made(kind)]
        searched = [runner.seed_set(topic, kind, self.experiment.coverage) for kind in kinds]
        kept = [seeds for seeds in searched if self._reaches_relevant(runner, topic, seeds)]
        for kind, sets in self._seed_sets_by_kind(topic).items():
            useful = [s for s in sets if runner.referee.reachable(topic, s)]
            for seeds in sets[:most]:
                self._report_missing_seeds(runner, topic, seeds)
                self._reaches_relevant(runner, topic, seeds)
            if 0 < len(useful) < most:
                self._skip("seed", f"{topic.name}/{kind}", f"{len(useful)} usable seed sets of this kind, not {most}")
            kept += useful[:most]
        if not kept:
            self._skip("topic", topic.name, "no usable seed set of the kinds this experiment uses; skipped")
        return kept

    def _reaches_relevant(self, runner: ExperimentRunner, topic: LabTopic, seeds: SeedSet) -> bool:
        """Skip and report seeds without a path to a relevant page: every crawler would score 0."""
        if runner.referee.reachable(topic, seeds):
            return True
        self._skip("seed", f"{topic.name}/{seeds.name}", "reaches no relevant page; skipped")
        return False

    def _report_missing_seeds(self, runner: ExperimentRunner, topic: LabTopic, seeds: SeedSet) -> None:
        lost = len(seeds.urls) - len(runner.referee.seeds(seeds))
        if lost:
            detail = f"{lost} of {len(seeds.urls)} seeds not in the web: a 404 each"
            self._skip("seed", f"{topic.name}/{seeds.name}", detail)

    def _seed_sets_by_kind(self, topic: LabTopic) -> dict[str, list[SeedSet]]:
        own = [kind for kind in self.experiment.seed_kinds if not _is_made(kind)]
        others = [s for s in topic.seed_sets if s.name != self.experiment.targets]
        return _group_seed_sets(others, own) if own else {}

    def _skip(self, kind: str, subject: str, detail: str) -> None:
        self.problems.append(LabProblem(kind, subject, detail))


def _is_made(kind: str) -> bool:
    """Is a seed set of this name made by the lab? The others are in the topics file."""
    return bool(search_result_count(kind) or drawn_seed_count(kind))


def _check_variant(variant: Variant, more: Tree) -> None:
    """Report errors in a variant before the first run."""
    kind = variant.kind
    if kind.startswith(PEER_PREFIX):
        check_peer(kind.removeprefix(PEER_PREFIX))
    elif kind not in BOUND_STRATEGIES:
        lab_settings(kind, TopicBrief(name=variant.name), (), 1, merge_trees(variant.set, more))


def _is_own_strategy(variant: Variant) -> bool:
    return variant.kind not in BOUND_STRATEGIES and not variant.kind.startswith(PEER_PREFIX)


def _prepare(runner: ExperimentRunner, variant: Variant, more: Tree) -> None:
    """Read the words with all cores before the runs are spread, so that no process does it again."""
    if _is_own_strategy(variant):
        settings = lab_settings(variant.kind, TopicBrief(name=variant.name), (), 1, merge_trees(variant.set, more))
        runner.offline.readings(settings, available_cpus())


def run_jobs(
    jobs: Sequence[ExperimentJob],
    processes: int,
    on_finished: OnRunFinished,
    done: Mapping[int, RunResult] | None = None,
) -> list[RunResult]:
    """All runs in the order of the jobs, whatever the number of processes. Peers run alone: they use every core.

    `done`: finished runs by job index. `on_finished` is called with each other run.
    """
    runs: dict[int, RunResult] = dict(done or {})

    def came(place: int, run: RunResult) -> None:
        runs[place] = run
        on_finished(place, run)

    wanted = [(place, job) for place, job in enumerate(jobs) if place not in runs]
    ours = [(place, job) for place, job in wanted if not job.variant.kind.startswith(PEER_PREFIX)]
    if processes < 2 or len(ours) < 2:
        for place, job in ours:
            came(place, run_job(job))
    else:
        for number, run in map_unordered(run_job, [job for _, job in ours], min(processes, len(ours))):
            came(ours[number][0], run)
    for place, job in wanted:
        if place not in runs:
            came(place, run_job(job))
    return [runs[place] for place in range(len(jobs))]


def run_job(job: ExperimentJob) -> RunResult:
    """Run a job in this process, which keeps its webs open."""
    return open_runner(Path(job.folder)).run(job)


def declared_web(experiment: Experiment) -> Path:
    """The folder of the synthetic web that an experiment declares, made if it is missing."""
    try:
        shape = msgspec.convert(experiment.shape, WebShape)
    except msgspec.ValidationError as error:
        raise ConfigError(f"experiment {experiment.name}: shape: {describe_validation_error(error)}") from error
    return open_synthetic_web(shape, "synthetic")


@lru_cache(maxsize=8)
def open_runner(folder: Path) -> ExperimentRunner:
    """A web, opened once per process: its content does not change during an experiment."""
    return ExperimentRunner.open(folder)


def run_errors(runs: Sequence[RunResult]) -> list[LabProblem]:
    """Runs whose results are too low because of errors in Opilio."""
    return [LabProblem("error", f"{r.topic}/{r.seed_set}, {r.strategy}", r.error) for r in runs if r.error]


def _group_seed_sets(sets: Sequence[SeedSet], kinds: Sequence[str]) -> dict[str, list[SeedSet]]:
    """Seed sets by kind (`on-topic`, `generic`); sets with other names are kinds of their own."""
    groups: dict[str, list[SeedSet]] = {kind: [] for kind in kinds}
    known = ("on-topic", "generic")
    for seeds in sets:
        kind = next((k for k in known if seeds.name.startswith(k)), "other")
        if kind in groups or kind == "other":
            groups.setdefault(kind, []).append(seeds)
    return groups


def unique_web_names(folders: Sequence[Path]) -> list[tuple[Path, str]]:
    """Webs and their names in results: those of the folders, with parent folders where two names are equal.

    A web that is given twice counts once. Names must be unique, because cases are identified by them.
    """
    whole = list(dict.fromkeys(folder.resolve() for folder in folders))
    called = Counter(folder.name for folder in whole)
    shared = os.path.commonpath(whole)
    return [(f, f.name if called[f.name] == 1 else str(f.relative_to(shared))) for f in whole]


def _first_problem(problems: Sequence[LabProblem]) -> str:
    return next((str(p) for p in problems if p.kind in ("seed", "topic")), "no topic")
