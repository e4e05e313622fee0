"""`opilio lab`: look at offline webs, make and serve them, run experiments over them."""

import importlib.util
import sys
import time
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from opilio.cli.lab_revisit import revisit
from opilio.cli.options import JsonOption, make_writable_folder, pluralize, print_json, print_text, report_write_errors
from opilio.core.errors import UsageError
from opilio.core.settings import Tree, describe_validation_error, merge_trees, parse_assignment, parse_setting
from opilio.engine.workers import available_cpus
from opilio.lab.experiments.declarations import Plot, load_experiment, select_variants
from opilio.lab.experiments.results import RunResult, write_results
from opilio.lab.experiments.resume import RunCheckpoint
from opilio.lab.experiments.runs import ExperimentJob
from opilio.lab.experiments.study import Study, StudyOptions, run_errors, run_jobs
from opilio.lab.reports.comparison import MEASURES, summarize_strategies
from opilio.lab.reports.plots import draw_plots
from opilio.lab.reports.report import ReportInput, find_section, write_report
from opilio.lab.reports.tables import split_by_seed_kind, strategy_table
from opilio.lab.server.server import LabServerConfig, LabWebServer, serve_synthetic_web, serve_web
from opilio.lab.synthetic.faults import HostFaults
from opilio.lab.synthetic.shape import WebShape
from opilio.lab.synthetic.web import write_synthetic_web
from opilio.lab.webs.summary import WebSummary, summarize_web
from opilio.lab.webs.web import LabProblem

app = typer.Typer(no_args_is_help=True, help="Offline webs: look at them, serve them, measure strategies on them.")
app.command()(revisit)

SHOWN_PROBLEMS = 10
PROGRESS_INTERVAL_S = 10.0
ShapeOption = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="KEY=VALUE", help="A property of the synthetic web; may be repeated."),
]


@app.command()
def webs(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Webs or collections.", show_default=False)],
    json: JsonOption = False,
) -> int:
    """List what webs hold: pages, hosts, links, labels, topics, and what each seed set reaches."""
    found = [summarize_web(folder, processes=available_cpus()) for folder in folders]
    if json:
        print_json({"webs": [msgspec.to_builtins(web) for web in found]})
    else:
        print_text("\n\n".join(_format_web(web) for web in found))
    return 0


@app.command()
def make(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write the web.", show_default=False)],
    shape: ShapeOption = None,
    seed: Annotated[int, typer.Option(help="The same seed and shape give the same web, byte for byte.")] = 1,
) -> int:
    """Write a synthetic web: pages, labels, topics and the faults of its hosts."""
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder}: is not empty; choose another folder")
    wanted = _shape(shape, seed)
    with report_write_errors(str(folder)):
        write_synthetic_web(wanted, folder)
    web = summarize_web(folder, processes=available_cpus())
    _print_stderr(f"{folder}: {web.pages:,} pages on {web.hosts} hosts, {len(web.topics)} topics")
    return 0


@app.command()
def serve(
    web: Annotated[Path | None, typer.Argument(metavar="WEB", help="A web; left out: a synthetic one.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8000,
    delay: Annotated[float, typer.Option(min=0, help="Seconds that every answer is held back.")] = 0.0,
    errors: Annotated[float, typer.Option(min=0, max=1, help="Share of requests answered with 503.")] = 0.0,
    throttle: Annotated[float, typer.Option(min=0, help="Requests a second and host; more get 429. 0: any.")] = 0.0,
    faults: Annotated[bool, typer.Option(help="Heed the web's own hosts.toml.")] = True,
    log: Annotated[Path | None, typer.Option(help="Write the access log here when the server stops.")] = None,
    shape: ShapeOption = None,
    seed: Annotated[int, typer.Option(help="Of the synthetic web.")] = 1,
) -> int:
    """Serve a web over HTTP on loopback, by Host header and as a forward proxy, until Ctrl-C."""
    serving = LabServerConfig(port=port, log_file=log)
    every = HostFaults(name="*", delay_s=delay, error_rate=errors, most_per_s=throttle)
    if web is not None and (shape or seed != 1):
        raise UsageError("--shape and --seed are for a synthetic web: leave WEB out")
    if log is not None:
        with report_write_errors(f"--log {log}"):
            log.open("ab").close()  # tried now: when the server stops it would be too late to choose another
    try:
        if web is None:
            answered = serve_synthetic_web(_shape(shape, seed), serving, _announce, faults=faults, every=every)
        else:
            answered = serve_web(web, serving, _announce, faults=faults, every=every)
    except OSError as error:
        if error.filename is not None:  # a file of the web
            raise
        raise UsageError(f"--port {port}: can't be used: {error.strerror or error}") from error
    _print_stderr(f"{answered} requests answered")
    return 0


@app.command()
def run(
    experiment: Annotated[str, typer.Argument(help="Its name, or a TOML file that declares it.", show_default=False)],
    web: Annotated[list[Path], typer.Option(metavar="DIR", help="A web; may be repeated.", show_default=False)],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="For the results; left out: lab-EXPERIMENT.")] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Only this topic; may be repeated.")] = None,
    strategy: Annotated[list[str] | None, typer.Option(help="Only this strategy; may be repeated.")] = None,
    pages: Annotated[int, typer.Option(min=0, help="Fetches a run; 0: as declared.")] = 0,
    seed_sets: Annotated[int, typer.Option(min=0, help="The first K seed sets of each kind; 0: as declared.")] = 0,
    random_seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = 0,
    random_seeds: Annotated[int, typer.Option(min=1, help="Repeat with so many random seeds.")] = 1,
    processes: Annotated[int, typer.Option(min=0, help="Runs at a time; 0: one per core.")] = 0,
    plots: Annotated[bool, typer.Option(help="Draw plots as SVG and PNG.")] = True,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="For every strategy.")] = None,
    json: JsonOption = False,
) -> int:
    """Run an experiment over offline webs; the labels judge."""
    declared = load_experiment(experiment)
    for section in declared.sections:
        find_section(section)
    choice = StudyOptions(
        webs=tuple(web),
        topics=tuple(topic or ()),
        variants=select_variants(declared, strategy or ()),
        pages=pages,
        seed_sets=seed_sets,
        random_seed=random_seed,
        random_seeds=random_seeds,
        overrides=reduce(merge_trees, map(parse_setting, set_ or ()), {}),
    )
    study = Study(declared, choice)
    jobs = study.jobs()
    _warn(study.problems)
    out = out or Path(f"lab-{declared.name}")
    make_writable_folder(f"--out {out}", out)
    finished = RunCheckpoint.for_jobs(jobs)
    progress = _ExperimentProgress(len(jobs), finished)
    made = progress.run_all(jobs, processes or available_cpus())
    runs, bounds = _split_bounds(made, [v.name for v in choice.variants])
    if declared.by_seeds:
        runs = split_by_seed_kind(runs)
    columns = {v.name: v.paper_column for v in choice.variants}
    with report_write_errors(f"--out {out}"):
        _write_report_files(
            ReportInput(declared, runs, bounds, [*run_errors(runs), *study.problems], columns), out, plots=plots
        )
    finished.clear()
    _print_stderr(f"{progress.remaining_runs} runs in {progress.elapsed_s:.0f} s; the report is in {out / 'report.md'}")
    if json:
        print_json({"experiment": declared.name, "out": str(out), "strategies": _means(runs)})
    else:
        print_text(strategy_table([*runs, *bounds]))
    return 0


def _split_bounds(runs: list[RunResult], variants: list[str]) -> tuple[list[RunResult], list[RunResult]]:
    """Runs of what was asked for, and the bounds that were added."""
    return [r for r in runs if r.strategy in variants], [r for r in runs if r.strategy not in variants]


def _write_report_files(material: ReportInput, out: Path, *, plots: bool) -> None:
    """The results come first: they can't be made again without the runs."""
    write_results(material.runs, out, material.bounds)
    drawn = _draw(material.runs, out, material.experiment.plot) if plots else []
    (out / "report.md").write_text(write_report(material, drawn), "utf-8")
    for problem in run_errors(material.runs)[:SHOWN_PROBLEMS]:
        _print_stderr(f"opilio: {problem}; this run is worth less than it should be, please report it")


def _draw(runs: Sequence[RunResult], folder: Path, extra: tuple[Plot, ...]) -> list[str]:
    if importlib.util.find_spec("matplotlib") is None:
        _print_stderr("no plots: matplotlib is missing (pip install 'opilio[lab]')")
        return []
    return draw_plots(runs, folder, extra)


def _means(runs: list[RunResult]) -> dict[str, dict[str, float]]:
    return {s.strategy: {name: getattr(s, name).mean for name in MEASURES} for s in summarize_strategies(runs)}


class _ExperimentProgress:
    """Keeps runs as they come in, with a line on stderr at most every ten seconds."""

    def __init__(self, runs: int, finished: RunCheckpoint) -> None:
        self._started_at = self._reported_at = time.monotonic()
        self._finished = finished
        self._done = 0
        self.resumed_runs = finished.load()
        self.remaining_runs = runs - len(self.resumed_runs)
        taken = (
            f"; {len(self.resumed_runs)} that an interrupted command had done are taken over"
            if self.resumed_runs
            else ""
        )
        _print_stderr(f"{runs} runs{taken}")

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started_at

    def run_all(self, jobs: Sequence[ExperimentJob], processes: int) -> list[RunResult]:
        """Every run, made or taken over; whoever interrupts hears that nothing is lost."""
        try:
            return run_jobs(jobs, processes, self, self.resumed_runs)
        except KeyboardInterrupt:
            finished = pluralize(self._done + len(self.resumed_runs), "finished run")
            _print_stderr(f"{finished} kept: the same command goes on from there")
            raise

    def __call__(self, place: int, run: RunResult) -> None:
        self._finished.save(place, run)
        self._done += 1
        now = time.monotonic()
        if now - self._reported_at >= PROGRESS_INTERVAL_S and self._done < self.remaining_runs:
            self._reported_at = now
            left_s = self.elapsed_s / self._done * (self.remaining_runs - self._done)
            case = f"{run.topic}, {run.seed_set}, {run.strategy}: {run.auc_vs_oracle:.2f}"
            _print_stderr(f"{self._done} of {self.remaining_runs} runs, about {left_s:.0f} s left ({case})")


def _shape(given: list[str] | None, seed: int) -> WebShape:
    tree: Tree = {"seed": seed}
    for text in given or ():
        tree |= parse_assignment(text, "--shape", "pages=500")
    try:
        return msgspec.convert(tree, WebShape)
    except msgspec.ValidationError as error:
        known = ", ".join(f.name for f in msgspec.structs.fields(WebShape))
        raise UsageError(f"--shape {describe_validation_error(error)}; known: {known}") from error


def _announce(server: LabWebServer) -> None:
    hosts = len(server.handler.source.hosts)
    print_text(server.proxy)
    sys.stdout.flush()
    _print_stderr(f"serving {hosts} hosts; use {server.proxy} as the proxy of a crawler, Ctrl-C ends")


def _warn(problems: list[LabProblem]) -> None:
    for problem in problems[:SHOWN_PROBLEMS]:
        _print_stderr(f"opilio: skipped: {problem}")
    if len(problems) > SHOWN_PROBLEMS:
        _print_stderr(
            f"opilio: skipped: {len(problems) - SHOWN_PROBLEMS} more; 'opilio lab webs --json' lists all of a web"
        )


def _print_stderr(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _format_web(web: WebSummary) -> str:
    links = f"{web.links:,} links ({web.links_between_hosts:,} between hosts), {web.dead_links:,} dead"
    lines = [
        f"{web.name}: {web.pages:,} pages on {web.hosts:,} hosts, {links}",
        f"{web.labels} labels on {web.judged:,} pages, {len(web.topics)} topics",
    ]
    for topic in web.topics:
        lines.append(f"  {topic.name}: {topic.relevant:,} relevant")
        for seeds in topic.seed_sets:
            depths = " ".join(map(str, seeds.at_depth))
            lost = f"; {seeds.missing_seeds} of {seeds.seeds} seeds not in the web" if seeds.missing_seeds else ""
            lines.append(f"    {seeds.name:14} reaches {seeds.relevant:,} of them; by depth: {depths or 'none'}{lost}")
    lines += [f"  skipped: {problem}" for problem in web.problems[:SHOWN_PROBLEMS]]
    if len(web.problems) > SHOWN_PROBLEMS:
        lines.append(f"  skipped: {len(web.problems) - SHOWN_PROBLEMS} more (--json lists all)")
    return "\n".join(lines)
