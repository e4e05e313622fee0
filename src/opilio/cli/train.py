"""`opilio train`: make, test and store S1's learners, with a report in plain words.

What `opilio train` found, in plain words and in the layout of S1's comparison (S1-30…S1-33).
"""

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from opilio.cli.options import JsonOption, print_json, print_text, report_write_errors
from opilio.core.errors import UsageError
from opilio.manage.train_attributes import TrainingResult
from opilio.manage.train_attributes import train as train_learners
from opilio.methods.attributes.evaluation import LearnerResult, MeanInterval
from opilio.methods.attributes.models import LEARNER_NAMES
from opilio.methods.attributes.ranker import MODEL_FILE
from opilio.methods.attributes.rows import write_rows

# S1-31 … S1-33: precision as printed; time and complexity only as an order, highest first.
PAPER_PRECISION = {"neural": 0.50125, "tree": 0.30388, "bayes": 0.23325}
PAPER_ORDER = ("neural", "bayes", "tree")
TITLES = {"bayes": "naive Bayes", "tree": "decision tree", "neural": "neural network"}


def format_report(trained: TrainingResult) -> str:
    """The whole report."""
    return "\n".join(_lines(trained))


def _lines(trained: TrainingResult) -> Iterator[str]:
    trial = trained.trial
    yield f"{trial.rows:,} rows, {trial.relevant:,} of them relevant ({trial.prior:.1%}), from {_hosts(trial.groups)}."
    kept = trained.learners[0].row_count
    if kept < trial.rows:
        yield f"A learner learns from {kept:,} of them, the last ones; the larger kind gives way."
    if trained.table.keywords:
        yield "Words of the topic: " + ", ".join(f"{k.label} {k.weight:.2f}" for k in trained.table.keywords) + "."
    yield _describe_folds(trained)
    if trained.table.keywords:
        yield (
            "What is relevant is the crawl's own verdict, or a person's label where there is one: these figures tell "
            "how well a link foretells that verdict, which shares words with the attributes, not how true it is."
        )
    yield ""
    yield from _table(_quality(trial.results))
    yield ""
    yield from _table(_cost(trial.results))
    yield ""
    yield from _conclusion_lines(trained)


def _hosts(count: int) -> str:
    return "one host" if count == 1 else f"{count:,} hosts"


def _describe_folds(trained: TrainingResult) -> str:
    trial = trained.trial
    if trial.by_host:
        held = f"Tested on {trial.folds} folds; no host is in training and test of one fold (S1-E4)"
    else:
        held = f"Tested on {trial.folds} folds of one host's pages: expect less on hosts never seen (S1-E4)"
    table = "its table was built from its own training pages (S1-E7)"
    given = "attributes as given: whether their table knew the tested pages can't be told (S1-E7)"
    return f"{held}; {table if trained.table.keywords else given}."


def _quality(results: dict[str, LearnerResult]) -> list[Sequence[str]]:
    head = ("", "precision", "paper", "recall", "F1", "AUC", "accuracy")
    return [
        head,
        *(
            (
                TITLES[name],
                _format_measure(r.precision),
                f"{PAPER_PRECISION[name]:.3f}",
                _format_measure(r.recall),
                _format_measure(r.f1),
                _format_measure(r.auc),
                _format_measure(r.accuracy),
            )
            for name, r in results.items()
        ),
    ]


def _cost(results: dict[str, LearnerResult]) -> list[Sequence[str]]:
    head = ("", "training", "prediction", "parameters", "paper: time", "paper: complexity")
    words = dict(zip(PAPER_ORDER, ("highest", "middle", "lowest"), strict=True))
    return [
        head,
        *(
            (
                TITLES[name],
                f"{r.fit_s * 1000:,.1f} ms",
                f"{r.predict_us:,.1f} µs a link",
                f"{r.parameters:,}",
                words[name],
                words[name],
            )
            for name, r in results.items()
        ),
    ]


def _conclusion_lines(trained: TrainingResult) -> Iterator[str]:
    trial = trained.trial
    best = max(trial.results, key=lambda name: (trial.results[name].auc.mean, name))
    quality = trial.results[best].auc
    yield (
        f"Figures are means over folds ± half a 95 % interval. Guessing would have a precision of {trial.prior:.3f} "
        "and an AUC of 0.500."
    )
    if quality.low <= 0.5:
        yield "No learner orders these links surely better than chance (AUC)."
    elif len(trial.results) > 1:
        rivals = _format_rivals(trial.results, best)
        yield f"The best order comes from {_with_article(best)} (AUC {quality.mean:.3f}){rivals}."
    yield (
        "Less time and fewer parameters are better; the paper calls its network better in both although it had the "
        "highest values of both (S1-E3). Its precision comes from data it does not describe (S1-E4): no claim."
    )


def _with_article(name: str) -> str:
    return TITLES[name] if name == "bayes" else f"the {TITLES[name]}"


def _format_rivals(results: dict[str, LearnerResult], best: str) -> str:
    """Who is not surely worse: intervals that overlap."""
    close = [_with_article(name) for name, r in results.items() if name != best and r.auc.high >= results[best].auc.low]
    return f", not surely better than {' and '.join(close)}: the intervals overlap" if close else ""


def _format_measure(measure: MeanInterval) -> str:
    if not measure.folds:
        return "–"  # for example a precision where nothing was called relevant
    if measure.folds == 1:
        return f"{measure.mean:.3f} (1 fold)"
    return f"{measure.mean:.3f} ±{(measure.high - measure.low) / 2:.3f}"


def _table(rows: list[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (
            cell.ljust(w) if at == 0 else cell.rjust(w) for at, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join((first, *rest)).rstrip()


ALL_LEARNERS = "all"


def train(
    source: Annotated[
        Path, typer.Argument(metavar="DIR|CSV", show_default=False, help="A collection, or a CSV file of rows.")
    ],
    learner: Annotated[str, typer.Option(help=f"One of {', '.join(LEARNER_NAMES)}, or {ALL_LEARNERS}.")] = ALL_LEARNERS,
    export: Annotated[Path | None, typer.Option(help="Write the training set to this CSV file.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help=f"Write the learners to this file; without it into the collection's {MODEL_FILE}."),
    ] = None,
    json: JsonOption = False,
) -> int:
    """Learn which links lead to relevant pages, test it, and keep what was learnt for other crawls."""
    if learner not in (*LEARNER_NAMES, ALL_LEARNERS):
        raise UsageError(f"--learner {learner}: is unknown; known: {', '.join((*LEARNER_NAMES, ALL_LEARNERS))}")
    for option, path in (("--export", export), ("--out", out)):
        if path is not None and path.exists():
            raise UsageError(f"{option} {path}: is there already; choose another name")
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"{option} {path}: can't be written: {path.parent} is no folder")
    if export is not None and out is not None and export.resolve() == out.resolve():
        raise UsageError(f"--export {export}: is the file of --out too; choose another name")
    trained = train_learners(source, LEARNER_NAMES if learner == ALL_LEARNERS else (learner,))
    if export is not None:
        _write_atomically("--export", export, _rows(trained))
        _print_stderr(f"{len(trained.rows)} rows written to {export}")
    place = out or (source / MODEL_FILE if source.is_dir() else None)
    if place is not None:
        _write_atomically("--out", place, trained.to_model_file())
        _print_stderr(
            f"learners written to {place}; use: --strategy s1-{trained.learners[0].name} --set rank.model={place}"
        )
    if json:
        print_json(_report_data(trained, place))
    else:
        print_text(format_report(trained))
    return 0


def _rows(trained: TrainingResult) -> bytes:
    text = io.StringIO(newline="")
    write_rows(trained.rows, text)
    return text.getvalue().encode("utf-8", "replace")


def _report_data(trained: TrainingResult, place: Path | None) -> dict[str, Any]:
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


def _write_atomically(option: str, path: Path, data: bytes) -> None:
    """A name that appears stands for a whole file."""
    part = path.with_name(f"{path.name}.part")
    try:
        with report_write_errors(f"{option} {path}"):
            part.write_bytes(data)
            part.replace(path)
    finally:
        with suppress(OSError):  # what the writing met is told, not that nothing is there to clear away
            part.unlink()


def _print_stderr(text: str) -> None:
    sys.stderr.write(text + "\n")
