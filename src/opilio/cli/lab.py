"""`opilio lab`: summarize, make and serve offline webs; run experiments over them."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    from opilio.lab.server.server import LabWebServer
    from opilio.lab.synthetic.shape import WebShape
    from opilio.lab.webs.summary import WebSummary

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
    import msgspec

    from opilio.engine.workers import available_cpus
    from opilio.lab.webs.summary import summarize_web

    found = [summarize_web(folder, processes=available_cpus()) for folder in folders]
    if json:
        print_json({"webs": [msgspec.to_builtins(web) for web in found]})
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
    from opilio.engine.workers import available_cpus
    from opilio.lab.synthetic.web import write_synthetic_web
    from opilio.lab.webs.summary import summarize_web

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
    from opilio.lab.synthetic.faults import HostFaults

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
        if error.filename is not None:  # a file of the web
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
    random_seeds: Annotated[int, typer.Option(min=1, help="Repeat with N random seeds.")] = 1,
    processes: Annotated[int, typer.Option(min=0, help="Parallel runs (0: one per core).")] = 0,
    plots: Annotated[bool, typer.Option(help="Draw plots as SVG and PNG.")] = True,
    set_: SetOption = None,
    json: JsonOption = False,
) -> int:
    """Run an experiment over offline webs and write a report.

    Relevance is decided by the labels of the webs. Without an argument: list the experiments.
    """
    from opilio.core.errors import UsageError
    from opilio.lab.experiments.declarations import experiment_names

    if not experiment:
        raise UsageError(f"no experiment: give a TOML file or one of {', '.join(experiment_names())}")
    if not web:
        raise UsageError(f"no web: give at least one, for example: opilio lab run {experiment} --web DIR")
    from opilio.cli.lab_run import ExperimentOptions, run_experiment

    run_experiment(
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
    from opilio.lab.synthetic.shape import WebShape

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
        lines.append(f"  {topic.name}: {topic.relevant:,} relevant")
        for seeds in topic.seed_sets:
            depths = " ".join(map(str, seeds.at_depth))
            lost = f"; {seeds.missing_seeds} of {seeds.seeds} seeds not in the web" if seeds.missing_seeds else ""
            lines.append(f"    {seeds.name:14} reaches {seeds.relevant:,} of them; by depth: {depths or 'none'}{lost}")
    lines += [f"  skipped: {problem}" for problem in web.problems[:MAX_PROBLEMS_SHOWN]]
    if len(web.problems) > MAX_PROBLEMS_SHOWN:
        lines.append(f"  skipped: {len(web.problems) - MAX_PROBLEMS_SHOWN} more (--json lists all)")
    return "\n".join(lines)
