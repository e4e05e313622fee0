"""`opilio lab revisit`: compare revisit policies while a web changes."""

import importlib.util
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opilio.cli.lab import WebOption
from opilio.cli.options import print_message

if TYPE_CHECKING:
    from opilio.lab.experiments.revisits import RevisitCase
    from opilio.lab.experiments.runs import ExperimentRunner
    from opilio.lab.reports.revisits import RevisitRun

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

    from opilio.core.errors import UsageError
    from opilio.core.files import make_writable_folder, pluralize, report_write_errors
    from opilio.lab.experiments.revisits import revisit_cases
    from opilio.lab.experiments.runs import ExperimentRunner
    from opilio.lab.experiments.study import unique_web_names
    from opilio.lab.reports.revisits import draw_revisit_plot, format_revisit_report
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
    from opilio.lab.experiments.revisits import RevisitStudy
    from opilio.lab.reports.revisits import RevisitRun

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
