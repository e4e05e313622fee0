"""`opilio lab train`: train, test and store the learners of the s1 strategies."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opilio.cli.options import JsonOption, print_json, print_message, print_text
from opilio.core.errors import UsageError
from opilio.core.files import pluralize, require_new_file, write_output

if TYPE_CHECKING:
    from opilio.manage.train_attributes import TrainingResult

ALL_LEARNERS = "all"


def train(
    source: Annotated[
        Path, typer.Argument(metavar="DIR|CSV", show_default=False, help="A collection, or a CSV file of rows.")
    ],
    learner: Annotated[str, typer.Option(metavar="NAME", help="bayes, tree, neural or all.")] = ALL_LEARNERS,
    export: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the training set as CSV.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to store the learners; default: model.json in the collection."),
    ] = None,
    json: JsonOption = False,
) -> int:
    """Train and test the learners of the s1 strategies.

    They predict from a link whether it leads to a relevant page. Other crawls can start with them.
    """
    from opilio.cli.text_output import format_report
    from opilio.manage.train_attributes import train as train_learners
    from opilio.methods.attributes.models import LEARNER_NAMES
    from opilio.methods.attributes.ranker import MODEL_FILE

    if learner not in (*LEARNER_NAMES, ALL_LEARNERS):
        raise UsageError(f"--learner {learner}: unknown; known: {', '.join((*LEARNER_NAMES, ALL_LEARNERS))}")
    _check_outputs(export, out)
    trained = train_learners(source, LEARNER_NAMES if learner == ALL_LEARNERS else (learner,))
    if export is not None:
        write_output("--export", export, _rows(trained))
        print_message(f"{pluralize(len(trained.rows), 'row')} written to {export}")
    place = out or (source / MODEL_FILE if source.is_dir() else None)
    if place is not None:
        write_output("--out", place, trained.to_model_file())
        usage = f"--strategy s1-{trained.learners[0].name} --set rank.model={place}"
        print_message(f"learners written to {place}; use: {usage}")
    if json:
        print_json(_report_data(trained, place))
    else:
        print_text(format_report(trained))
    return 0


def _check_outputs(export: Path | None, out: Path | None) -> None:
    """Before the training: both files can be written and are different."""
    for option, path in (("--export", export), ("--out", out)):
        require_new_file(option, path)
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"{option} {path}: can't be written: {path.parent} is not a folder")
    if export is not None and out is not None and export.resolve() == out.resolve():
        raise UsageError(f"--export {export}: the same file as --out; choose another name")


def _rows(trained: "TrainingResult") -> bytes:
    from opilio.methods.attributes.rows import write_rows

    text = io.StringIO(newline="")
    write_rows(trained.rows, text)
    return text.getvalue().encode("utf-8", "replace")


def _report_data(trained: "TrainingResult", place: Path | None) -> dict[str, Any]:
    import msgspec

    from opilio.methods.attributes.evaluation import PAPER_PRECISION

    trial = trained.trial
    facts: dict[str, Any] = msgspec.to_builtins(trial)
    facts |= {
        "kept_rows": trained.learners[0].row_count,
        "prior": trial.prior,
        "table": trained.table.weights,
        "model": str(place or ""),
    }
    facts["paper_precision"] = {name: PAPER_PRECISION[name] for name in trial.results}
    return facts
