"""Run an experiment of the lab from the command line: progress, results, report and plots."""

import importlib.util
import time
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import msgspec

from opilio.api.lab import MEASURES, summarize_strategies
from opilio.cli.options import print_json, print_message, print_text
from opilio.core.display import pluralize
from opilio.core.errors import UsageError
from opilio.core.files import make_writable_folder, report_write_errors
from opilio.core.settings import merge_trees, parse_setting
from opilio.engine.workers.pool import available_cpus
from opilio.lab.experiments.declarations import load_experiment, select_variants, suite_experiments
from opilio.lab.experiments.results import RunResult, write_results
from opilio.lab.experiments.runs import ExperimentJob, RunCheckpoint
from opilio.lab.experiments.study import Study, StudyOptions, declared_web, run_errors, run_jobs
from opilio.lab.reports.plots import draw_plots
from opilio.lab.reports.report import ReportInput, draw_classifiers, find_section, write_report
from opilio.lab.reports.tables import split_by_seed_kind, strategy_table
from opilio.lab.webs.manuals import open_manual_webs
from opilio.lab.webs.web import LabProblem

MAX_PROBLEMS_SHOWN = 10
NO_WEB = "no web: give at least one, for example: opilio lab run EXPERIMENT --web DIR"
PROGRESS_INTERVAL_S = 10.0


class ExperimentOptions(NamedTuple):
    """The options of `opilio lab run`."""

    experiment: str
    webs: list[Path]
    out: Path | None
    topics: list[str]
    strategies: list[str]
    pages: int
    seed_sets: int
    random_seed: int
    random_seeds: int
    processes: int
    plots: bool
    assignments: list[str]
    json: bool


def run_experiments(options: ExperimentOptions) -> None:
    """Run an experiment, or all of a suite, each into its own folder below `--out`."""
    names = suite_experiments(options.experiment)
    folder = options.out or Path(f"lab-{options.experiment}")
    for name in names:
        out = options.out if len(names) == 1 and name == options.experiment else folder / name
        run_experiment(options._replace(experiment=name, out=out))


def run_experiment(options: ExperimentOptions) -> None:
    """Run what is left to run, then write results, report and plots."""
    declared = load_experiment(options.experiment)
    for section in declared.sections:
        find_section(section)
    manuals, missing = open_manual_webs(declared.manuals)
    webs = options.webs or ([declared_web(declared)] if declared.shape else [])
    if not webs and not manuals:
        raise UsageError(
            f"no web: {missing[0]}; install it or give a web with --web"
            if missing
            else NO_WEB.replace("EXPERIMENT", declared.name)
        )
    choice = StudyOptions(
        webs=(*webs, *manuals),
        topics=tuple(options.topics),
        variants=select_variants(declared, options.strategies),
        pages=options.pages,
        seed_sets=options.seed_sets,
        random_seed=options.random_seed,
        random_seeds=options.random_seeds or declared.executions,
        overrides=reduce(merge_trees, map(parse_setting, options.assignments), {}),
    )
    study = Study(declared, choice)
    study.problems += missing
    jobs = study.jobs()
    _warn(study.problems)
    out = options.out or Path(f"lab-{declared.name}")
    make_writable_folder("--out", out)
    finished = RunCheckpoint.for_jobs(jobs)
    progress = _ExperimentProgress(len(jobs), finished)
    results = progress.run_all(jobs, options.processes or available_cpus())
    results = [msgspec.structs.replace(run, registration=study.registration) for run in results]
    runs, bounds = _split_bounds(results, [v.name for v in choice.variants])
    if declared.by_seeds:
        runs = split_by_seed_kind(runs)
    columns = {v.name: v.paper_column for v in choice.variants}
    problems = [*run_errors(runs), *study.problems]
    report = ReportInput(declared, runs, bounds, problems, columns, study.compare_classifiers())
    with report_write_errors(f"--out {out}"):
        _write_report_files(report, out, plots=options.plots)
    finished.clear()
    print_message(
        f"{pluralize(progress.remaining_runs, 'run')} in {progress.elapsed_s:.0f} s; report: {out / 'report.md'}"
    )
    if options.json:
        print_json({"experiment": declared.name, "out": str(out), "strategies": _means(runs)})
    else:
        print_text(strategy_table([*runs, *bounds]))


def _split_bounds(runs: list[RunResult], variants: list[str]) -> tuple[list[RunResult], list[RunResult]]:
    """The runs of the chosen variants, and the bounds that were added to them."""
    return [r for r in runs if r.strategy in variants], [r for r in runs if r.strategy not in variants]


def _write_report_files(report: ReportInput, out: Path, *, plots: bool) -> None:
    """The results come first: without them, all runs would have to be repeated."""
    write_results(report.runs, out, report.bounds)
    drawn = _draw(report, out) if plots else []
    (out / "report.md").write_text(write_report(report, drawn), "utf-8")
    for problem in run_errors(report.runs)[:MAX_PROBLEMS_SHOWN]:
        print_message(f"opilio: {problem}; the results of this run are incomplete, please report this")


def _draw(report: ReportInput, folder: Path) -> list[str]:
    if importlib.util.find_spec("matplotlib") is None:
        print_message("no plots: matplotlib is missing (pip install 'opilio[lab]')")
        return []
    return draw_plots(report.runs, folder, report.experiment) + draw_classifiers(report.classifiers, folder)


def _means(runs: list[RunResult]) -> dict[str, dict[str, float]]:
    return {s.strategy: {name: getattr(s, name).mean for name in MEASURES} for s in summarize_strategies(runs)}


class _ExperimentProgress:
    """Saves finished runs and prints a line at most every ten seconds."""

    def __init__(self, runs: int, finished: RunCheckpoint) -> None:
        self._started_at = self._reported_at = time.monotonic()
        self._finished = finished
        self._done = 0
        self.resumed_runs = finished.load()
        self.remaining_runs = runs - len(self.resumed_runs)
        resumed = f"; {len(self.resumed_runs)} already finished by an interrupted command" if self.resumed_runs else ""
        print_message(f"{pluralize(runs, 'run')}{resumed}")

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started_at

    def run_all(self, jobs: Sequence[ExperimentJob], processes: int) -> list[RunResult]:
        """All runs, new and resumed. An interrupted command says what is saved."""
        try:
            return run_jobs(jobs, processes, self, self.resumed_runs)
        except KeyboardInterrupt:
            finished = pluralize(self._done + len(self.resumed_runs), "finished run")
            print_message(f"{finished} saved: run the same command again to continue")
            raise

    def __call__(self, place: int, run: RunResult) -> None:
        self._finished.save(place, run)
        self._done += 1
        now = time.monotonic()
        if now - self._reported_at >= PROGRESS_INTERVAL_S and self._done < self.remaining_runs:
            self._reported_at = now
            left_s = self.elapsed_s / self._done * (self.remaining_runs - self._done)
            case = f"{run.topic}, {run.seed_set}, {run.strategy}: {run.auc_vs_oracle:.2f}"
            print_message(f"{self._done} of {self.remaining_runs} runs, about {left_s:.0f} s left ({case})")


def _warn(problems: list[LabProblem]) -> None:
    for problem in problems[:MAX_PROBLEMS_SHOWN]:
        print_message(f"opilio: skipped: {problem}")
    if len(problems) > MAX_PROBLEMS_SHOWN:
        print_message(
            f"opilio: skipped: {len(problems) - MAX_PROBLEMS_SHOWN} more; 'opilio lab webs --json' lists all of a web"
        )
