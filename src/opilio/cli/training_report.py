"""The report of `opilio lab train` in the layout of the paper (S1-30…S1-33)."""

from collections.abc import Iterator, Sequence

from opilio.manage.train_attributes import TrainingResult
from opilio.methods.attributes.training import PAPER_PRECISION, LearnerResult, MeanInterval

# S1-32, S1-33: the paper gives time and complexity only as an order, highest first.
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
            "Relevant means the crawl's own verdict, or the user's label where there is one. These figures show how "
            "well a link predicts that verdict, which shares words with the attributes, not whether it is right."
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
    given = "attributes as given: it is unknown whether their table included the tested pages (S1-E7)"
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
        # For example a precision where nothing was called relevant.
        return "–"
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
