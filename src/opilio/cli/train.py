"""`opilio train`: make, test and store S1's learners, with a report in plain words."""

import io
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from opilio.cli.options import AsJson, print_json, print_text, writing
from opilio.cli.trainreport import PAPER_PRECISION, report
from opilio.crawl.s1kind import MODEL
from opilio.crawl.train import Trained
from opilio.crawl.train import train as train_learners
from opilio.learn.learners import LEARNERS
from opilio.learn.rowsfile import write_rows
from opilio.model.errors import UsageError

ALL = "all"


def train(
    source: Annotated[
        Path, typer.Argument(metavar="DIR|CSV", show_default=False, help="A collection, or a CSV file of rows.")
    ],
    learner: Annotated[str, typer.Option(help=f"One of {', '.join(LEARNERS)}, or {ALL}.")] = ALL,
    export: Annotated[Path | None, typer.Option(help="Write the training set to this CSV file.")] = None,
    out: Annotated[
        Path | None, typer.Option(help=f"Write the learners to this file; without it into the collection's {MODEL}.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Learn which links lead to relevant pages, test it, and keep what was learnt for other crawls."""
    if learner not in (*LEARNERS, ALL):
        raise UsageError(f"--learner {learner}: is unknown; known: {', '.join((*LEARNERS, ALL))}")
    for option, path in (("--export", export), ("--out", out)):
        if path is not None and path.exists():
            raise UsageError(f"{option} {path}: is there already; choose another name")
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"{option} {path}: can't be written: {path.parent} is no folder")
    if export is not None and out is not None and export.resolve() == out.resolve():
        raise UsageError(f"--export {export}: is the file of --out too; choose another name")
    trained = train_learners(source, LEARNERS if learner == ALL else (learner,))
    if export is not None:
        _write("--export", export, _rows(trained))
        _say(f"{len(trained.rows)} rows written to {export}")
    place = out or (source / MODEL if source.is_dir() else None)
    if place is not None:
        _write("--out", place, trained.file())
        _say(f"learners written to {place}; use: --strategy s1-{trained.learners[0].name} --set rank.model={place}")
    if json:
        print_json(_facts(trained, place))
    else:
        print_text(report(trained))
    return 0


def _rows(trained: Trained) -> bytes:
    text = io.StringIO(newline="")
    write_rows(trained.rows, text)
    return text.getvalue().encode("utf-8", "replace")


def _facts(trained: Trained, place: Path | None) -> dict[str, Any]:
    trial = trained.trial
    facts: dict[str, Any] = msgspec.to_builtins(trial)
    facts |= {
        "kept_rows": trained.learners[0].rows,
        "prior": trial.prior,
        "table": trained.table.weights,
        "model": str(place or ""),
    }
    facts["paper_precision"] = {name: PAPER_PRECISION[name] for name in trial.results}
    return facts


def _write(option: str, path: Path, data: bytes) -> None:
    """A name that appears stands for a whole file."""
    part = path.with_name(f"{path.name}.part")
    try:
        with writing(f"{option} {path}"):
            part.write_bytes(data)
            part.replace(path)
    finally:
        with suppress(OSError):  # what the writing met is told, not that nothing is there to clear away
            part.unlink()


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
