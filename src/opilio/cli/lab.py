"""`opilio lab`: summarize, make and serve offline webs, run experiments, compare revisit policies."""

import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opilio.cli.options import (
    JsonOption,
    SetOption,
    complete_experiments,
    complete_strategies,
    complete_webs,
    print_json,
    print_message,
    print_text,
)

if TYPE_CHECKING:
    from opilio.lab.experiments.revisits import RevisitCase, RevisitRun
    from opilio.lab.experiments.runs import ExperimentRunner
    from opilio.lab.server.server import LabWebServer
    from opilio.lab.synthetic.plan import WebShape
    from opilio.lab.webs.labels import WebSummary


MAX_PROBLEMS_SHOWN = 10
ShapeOption = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="KEY=VALUE", help="A property of the synthetic web. Repeatable."),
]
WebOption = Annotated[
    list[Path],
    typer.Option(metavar="DIR", help="A web. Repeatable.", show_default=False, autocompletion=complete_webs),
]


def webs(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Webs or collections.", show_default=False, autocompletion=complete_webs),
    ],
    json: JsonOption = False,
) -> int:
    """Summarize offline webs: pages, hosts, links, labels, topics, seed sets."""
    from opilio.engine.workers.pool import available_cpus
    from opilio.lab.webs.labels import summarize_web

    found = [summarize_web(folder, processes=available_cpus()) for folder in folders]
    if json:
        print_json({"webs": found})
    else:
        print_text("\n\n".join(_format_web(web) for web in found))
    return 0


def make(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write.", show_default=False)],
    shape: ShapeOption = None,
    seed: Annotated[int, typer.Option(help="The same seed and shape always give the same web.")] = 1,
) -> int:
    """Write a synthetic web: pages, labels, topics and host faults."""
    from opilio.core.errors import UsageError
    from opilio.core.files import report_write_errors
    from opilio.engine.workers.pool import available_cpus
    from opilio.lab.synthetic.web import write_synthetic_web
    from opilio.lab.webs.labels import summarize_web

    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder}: not empty; choose another folder")
    wanted = _shape(shape, seed)
    with report_write_errors(str(folder)):
        write_synthetic_web(wanted, folder)
    web = summarize_web(folder, processes=available_cpus())
    print_message(f"{folder}: {web.pages:,} pages on {web.hosts} hosts, {len(web.topics)} topics")
    return 0


def serve(
    web: Annotated[
        Path | None,
        typer.Argument(metavar="WEB", help="A web; default: a synthetic one.", autocompletion=complete_webs),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on (0: any free port).")] = 8000,
    delay: Annotated[float, typer.Option(min=0, help="Delay of every response, in seconds.")] = 0.0,
    errors: Annotated[float, typer.Option(min=0, max=1, help="Share of requests answered with 503.")] = 0.0,
    throttle: Annotated[float, typer.Option(min=0, help="Requests per second and host, then 429 (0: no limit).")] = 0.0,
    faults: Annotated[bool, typer.Option(help="Simulate the faults in the web's hosts.toml.")] = True,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the access log when the server stops.")
    ] = None,
    shape: ShapeOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the synthetic web.")] = 1,
) -> int:
    """Serve a web over HTTP on loopback, by Host header and as a forward proxy."""
    from opilio.core.errors import UsageError
    from opilio.core.files import report_write_errors
    from opilio.lab.server.server import LabServerConfig, serve_synthetic_web, serve_web
    from opilio.lab.synthetic.changing import HostFaults

    config = LabServerConfig(port=port, log_file=log)
    all_hosts = HostFaults(name="*", delay_s=delay, error_rate=errors, most_per_s=throttle)
    if web is not None and (shape or seed != 1):
        raise UsageError("--shape and --seed are for a synthetic web: leave out WEB")
    if log is not None:
        with report_write_errors(f"--log {log}"):
            # When the server stops it is too late to choose another file.
            log.open("ab").close()
    try:
        if web is None:
            answered = serve_synthetic_web(_shape(shape, seed), config, _announce, faults=faults, every=all_hosts)
        else:
            answered = serve_web(web, config, _announce, faults=faults, every=all_hosts)
    except OSError as error:
        # A file of the web.
        if error.filename is not None:
            raise
        raise UsageError(f"--port {port}: can't be used: {error.strerror or error}") from error
    print_message(f"{answered} requests answered")
    return 0


def run(
    experiment: Annotated[
        str,
        typer.Argument(
            help="Name of the experiment, or a TOML file.", show_default=False, autocompletion=complete_experiments
        ),
    ] = "",
    web: WebOption = [],  # noqa: B006 - typer copies it
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the results; default: lab-EXPERIMENT.")
    ] = None,
    topic: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this topic. Repeatable.")] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this strategy. Repeatable.", autocompletion=complete_strategies),
    ] = None,
    pages: Annotated[int, typer.Option(min=0, help="Fetches per run (0: as declared).")] = 0,
    seed_sets: Annotated[int, typer.Option(min=0, help="The first N seed sets of each kind (0: as declared).")] = 0,
    random_seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    random_seeds: Annotated[int, typer.Option(min=0, help="Repeat with N random seeds (0: as declared).")] = 0,
    processes: Annotated[int, typer.Option(min=0, help="Parallel runs (0: one per core).")] = 0,
    plots: Annotated[bool, typer.Option(help="Draw plots as SVG and PNG.")] = True,
    set_: SetOption = None,
    json: JsonOption = False,
) -> int:
    """Run an experiment over offline webs and write a report.

    Relevance is decided by the labels of the webs. Without an argument: list the experiments.
    """
    from opilio.core.errors import UsageError
    from opilio.lab.experiments.declarations import PAPER_SUITES, experiment_names

    if not experiment:
        raise UsageError(f"no experiment: give a TOML file or one of {', '.join([*experiment_names(), *PAPER_SUITES])}")
    from opilio.cli.lab_run import ExperimentOptions, run_experiments

    run_experiments(
        ExperimentOptions(
            experiment, web, out, topic or [], strategy or [], pages, seed_sets, random_seed, random_seeds,
            processes, plots, set_ or [], json,
        )
    )  # fmt: skip
    return 0


def _shape(given: list[str] | None, seed: int) -> "WebShape":
    import msgspec

    from opilio.core.errors import UsageError
    from opilio.core.settings import Tree, describe_validation_error, parse_assignment
    from opilio.lab.synthetic.plan import WebShape

    tree: Tree = {"seed": seed}
    for text in given or ():
        tree |= parse_assignment(text, "--shape", "pages=500")
    try:
        return msgspec.convert(tree, WebShape)
    except msgspec.ValidationError as error:
        known = ", ".join(f.name for f in msgspec.structs.fields(WebShape))
        raise UsageError(f"--shape {describe_validation_error(error)}; known: {known}") from error


def _announce(server: "LabWebServer") -> None:
    hosts = len(server.handler.source.hosts)
    print_text(server.proxy)
    sys.stdout.flush()
    print_message(f"serving {hosts} hosts; use {server.proxy} as the proxy of a crawler; Ctrl-C stops the server")


def _format_web(web: "WebSummary") -> str:
    links = f"{web.links:,} links ({web.links_between_hosts:,} between hosts), {web.dead_links:,} dead"
    lines = [
        f"{web.name}: {web.pages:,} pages on {web.hosts:,} hosts, {links}",
        f"{web.labels} labels on {web.judged:,} pages, {len(web.topics)} topics",
    ]
    for topic in web.topics:
        lines.append(f"  {topic.name}: {topic.relevant:,} relevant, {topic.labels:,} of the labels")
        for seeds in topic.seed_sets:
            depths = " ".join(map(str, seeds.at_depth))
            lost = f"; {seeds.missing_seeds} of {seeds.seeds} seeds not in the web" if seeds.missing_seeds else ""
            lines.append(f"    {seeds.name:14} reaches {seeds.relevant:,} of them; by depth: {depths or 'none'}{lost}")
    lines += [f"  skipped: {problem}" for problem in web.problems[:MAX_PROBLEMS_SHOWN]]
    if len(web.problems) > MAX_PROBLEMS_SHOWN:
        lines.append(f"  skipped: {len(web.problems) - MAX_PROBLEMS_SHOWN} more (--json lists all)")
    return "\n".join(lines)


def traps(
    kind: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this trap. Repeatable.")] = None,
    strategy: Annotated[str, typer.Option(help="The strategy.", autocompletion=complete_strategies)] = "opilio",
    fetches: Annotated[int, typer.Option(min=1, help="Fetches per run.")] = 2_000,
    hosts: Annotated[int, typer.Option(min=2, help="Honest hosts beside the traps.")] = 8,
    seed: Annotated[int, typer.Option(help="Seed of the synthetic web.")] = 1,
    json: JsonOption = False,
) -> int:
    """Measure how much of the budget spider traps take, without and with waste control."""
    from opilio.core.errors import UsageError
    from opilio.lab.experiments.traps import TrapOptions, format_trap_table, run_trap_case, trap_names

    known = trap_names()
    for name in kind or ():
        if name not in known:
            raise UsageError(f"--kind {name}: unknown; known: {', '.join(known)}")
    options = TrapOptions(strategy=strategy, budget=fetches, hosts=hosts, seed=seed)
    runs = []
    for name in kind or known:
        for control in (False, True):
            run = run_trap_case(name, options, control=control)
            print_message(f"{name}, {'with' if control else 'without'} control: {run.waste:.1%} wasted")
            runs.append(run)
    if json:
        print_json({"runs": runs})
    else:
        print_text(format_trap_table(runs))
    return 0


VARIANTS: dict[str, dict[str, Any]] = {
    "fixed": {"policy": "fixed"},
    "proportional": {"policy": "proportional"},
    "adaptive": {"policy": "adaptive"},
    "fixed, relevant only": {"policy": "fixed", "relevant_only": True},
    "proportional, relevant only": {"policy": "proportional", "relevant_only": True},
    "adaptive, relevant only": {"policy": "adaptive", "relevant_only": True},
}
REFERENCE = "adaptive"


def revisit(
    web: WebOption,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for results.json, report.md and the plot.")],
    topics: Annotated[int, typer.Option(min=1, help="The first N topics of each web.")] = 3,
    pages: Annotated[int, typer.Option(min=10, help="Pages of the collection.")] = 250,
    days: Annotated[float, typer.Option(min=1, help="Length of the experiment.")] = 24.0,
    interval: Annotated[float, typer.Option(min=0.1, help="Days between two visits to a page, on average.")] = 6.0,
    schedules: Annotated[int, typer.Option(min=1, help="Schedules of change for each topic.")] = 1,
    policy: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this policy. Repeatable.")] = None,
) -> int:
    """Compare revisit policies while a web changes.

    Pages change, move, disappear and appear on a known schedule, which gives the true freshness and age.
    """
    import msgspec

    from opilio.core.display import pluralize
    from opilio.core.errors import UsageError
    from opilio.core.files import make_writable_folder, report_write_errors
    from opilio.lab.experiments.revisits import draw_revisit_plot, format_revisit_report, revisit_cases
    from opilio.lab.experiments.runs import ExperimentRunner
    from opilio.lab.experiments.study import unique_web_names
    from opilio.lab.synthetic.changing import Churn

    chosen = policy or list(VARIANTS)
    unknown = [name for name in chosen if name not in VARIANTS]
    if unknown:
        raise UsageError(f"--policy {unknown[0]}: unknown; known: {', '.join(VARIANTS)}")
    churns = [Churn(seed=seed, days=days) for seed in range(1, schedules + 1)]
    runners = [(name, ExperimentRunner.open(folder)) for folder, name in unique_web_names(web)]
    cases = [(n, runner, k) for n, runner in runners for k in revisit_cases(runner, topics, pages, interval, churns)]
    make_writable_folder("--out", out)
    runs = [run for name, runner, case in cases for run in _run_policies(name, runner, case, chosen)]
    scope = f"{pluralize(len(cases), 'case')}, {days:g} days, {pages} pages, a visit every {interval:g} days"
    report = f"# Revisits\n\n{scope} on average.\n\n{format_revisit_report(runs, REFERENCE)}"
    with report_write_errors(f"--out {out}"):
        (out / "results.json").write_bytes(msgspec.json.encode({"schema": 1, "runs": runs}))
        (out / "report.md").write_text(report, encoding="utf-8")
        if importlib.util.find_spec("matplotlib") is None:
            print_message("no plot: matplotlib is missing (pip install 'opilio[lab]')")
        else:
            draw_revisit_plot(runs, out)
    print_message(f"report: {out / 'report.md'}")
    return 0


def _run_policies(
    name: str, runner: "ExperimentRunner", case: "RevisitCase", policies: list[str]
) -> "list[RevisitRun]":
    from opilio.lab.experiments.revisits import RevisitRun, RevisitStudy

    with tempfile.TemporaryDirectory() as folder:
        study = RevisitStudy(runner, case, Path(folder))
        study.build_collection()
        runs = []
        for policy in policies:
            truth = study.run_policy(policy, VARIANTS[policy])
            run = RevisitRun(web=name, topic=case.topic, schedule=case.churn.seed, policy=policy, truth=truth)
            print_message(f"{name} {case.topic}: {policy}: freshness {run.fresh:.3f}")
            runs.append(run)
        return runs
