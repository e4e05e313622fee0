"""`opilio lab revisit`: policies of looking again, side by side, while a web moves."""

import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from opilio.cli.options import make_writable_folder, pluralize, report_write_errors
from opilio.core.errors import UsageError
from opilio.core.settings import Tree
from opilio.lab.experiments.revisits import RevisitCase, RevisitStudy, revisit_cases
from opilio.lab.experiments.runs import ExperimentRunner
from opilio.lab.experiments.study import unique_web_names
from opilio.lab.reports.revisits import RevisitRun, draw_revisit_plot, format_revisit_report
from opilio.lab.synthetic.changing import Churn

VARIANTS: dict[str, Tree] = {
    "fixed": {"policy": "fixed"},
    "proportional": {"policy": "proportional"},
    "adaptive": {"policy": "adaptive"},
    "fixed, relevant only": {"policy": "fixed", "relevant_only": True},
    "proportional, relevant only": {"policy": "proportional", "relevant_only": True},
    "adaptive, relevant only": {"policy": "adaptive", "relevant_only": True},
}
REFERENCE = "adaptive"


def revisit(
    web: Annotated[list[Path], typer.Option(metavar="DIR", help="A web; may be repeated.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for results.json, report.md and the plot.")],
    topics: Annotated[int, typer.Option(min=1, help="The first so many topics of each web.")] = 3,
    pages: Annotated[int, typer.Option(min=10, help="Pages of the collection that is kept.")] = 250,
    days: Annotated[float, typer.Option(min=1, help="How long it is kept.")] = 24.0,
    interval: Annotated[float, typer.Option(min=0.1, help="Days between two looks at a page, on average.")] = 6.0,
    schedules: Annotated[int, typer.Option(min=1, help="So many schedules of change for each topic.")] = 1,
    policy: Annotated[list[str] | None, typer.Option(help="Only this policy; may be repeated.")] = None,
) -> int:
    """Keep a collection while its web changes, moves, vanishes and appears; the schedule judges."""
    chosen = policy or list(VARIANTS)
    unknown = [name for name in chosen if name not in VARIANTS]
    if unknown:
        raise UsageError(f"--policy {unknown[0]}: is unknown; known: {', '.join(VARIANTS)}")
    churns = [Churn(seed=seed, days=days) for seed in range(1, schedules + 1)]
    arenas = [(name, ExperimentRunner.open(folder)) for folder, name in unique_web_names(web)]
    wanted = [(n, arena, k) for n, arena in arenas for k in revisit_cases(arena, topics, pages, interval, churns)]
    make_writable_folder(f"--out {out}", out)
    runs = [run for name, arena, keeping in wanted for run in _run_policies(name, arena, keeping, chosen)]
    scope = f"{pluralize(len(wanted), 'case')}, {days:g} days, {pages} pages, a look every {interval:g} days"
    report = f"# Revisits\n\n{scope} on average.\n\n{format_revisit_report(runs, REFERENCE)}"
    with report_write_errors(f"--out {out}"):
        (out / "results.json").write_bytes(msgspec.json.encode({"schema": 1, "runs": runs}))
        (out / "report.md").write_text(report, encoding="utf-8")
        if importlib.util.find_spec("matplotlib") is None:
            sys.stderr.write("no plot: matplotlib is missing (pip install 'opilio[lab]')\n")
        else:
            draw_revisit_plot(runs, out)
    sys.stderr.write(f"the report is in {out / 'report.md'}\n")
    return 0


def _run_policies(name: str, arena: ExperimentRunner, keeping: RevisitCase, policies: list[str]) -> list[RevisitRun]:
    with tempfile.TemporaryDirectory() as place:
        case = RevisitStudy(arena, keeping, Path(place))
        case.build_collection()
        runs = []
        for policy in policies:
            truth = case.run_policy(policy, VARIANTS[policy])
            run = RevisitRun(web=name, topic=keeping.topic, schedule=keeping.churn.seed, policy=policy, truth=truth)
            sys.stderr.write(f"{name} {keeping.topic}: {policy}: freshness {run.fresh:.3f}\n")
            runs.append(run)
        return runs
