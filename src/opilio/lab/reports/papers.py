"""What papers report, beside our runs: claims in numbers, S1's classifiers, S2's table of other crawlers."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from opilio.core.display import GRID_COLOR, PALETTE, new_figure, save_figure
from opilio.lab.experiments.declarations import Claim, ClaimMeasure, reported_crawlers
from opilio.lab.experiments.results import RunResult
from opilio.lab.reports.tables import format_interval, group_by_strategy, markdown_table, mean_over_cases
from opilio.methods.attributes.evaluation import PAPER_PRECISION, LearnerComparison, LearnerResult


def _deeper(run: RunResult) -> float:
    return run.beyond.deeper[-1] if run.beyond is not None else 0.0


def _judge_precision(run: RunResult) -> float:
    return (run.self_judged.precision or 0.0) if run.self_judged is not None else 0.0


def _accepted_by_mistake(run: RunResult) -> float:
    return run.self_judged.relevant * (1 - _judge_precision(run)) if run.self_judged is not None else 0.0


# Measure of a claim -> its name in the table, its value for a run, its digits.
_CLAIM_MEASURES: dict[ClaimMeasure, tuple[str, Callable[[RunResult], float], int]] = {
    "precision": ("precision by label", lambda run: run.harvest, 3),
    "containing": ("precision: contains the query", lambda run: run.containing, 3),
    "time": ("time, s", lambda run: run.virtual_s, 0),
    "cpu": ("CPU time, s", lambda run: run.cpu_s, 1),
    "entropy": ("entropy over hosts, bits", lambda run: run.host_entropy, 2),
    "deeper": ("share of the common hosts explored deeper", _deeper, 2),
    "judge-precision": ("judge's precision", _judge_precision, 2),
    "mistakes": ("irrelevant pages accepted", _accepted_by_mistake, 0),
    "retrieved": ("relevant pages retrieved", lambda run: run.relevant_found, 0),
    "auc": ("auc_vs_oracle", lambda run: run.auc_vs_oracle, 3),
}


def table_of_claims(claims: Sequence[Claim], runs: Sequence[RunResult], seed: int = 0) -> str:
    """One row per claim: what the paper reports, and the measure of the variants it is about."""
    groups, rows = group_by_strategy(runs), []
    for claim in claims:
        name, value, digits = _CLAIM_MEASURES[claim.measure]
        cells = []
        for variant in claim.variants:
            if mine := groups.get(variant):
                mean = mean_over_cases(mine, [value(run) for run in mine], np.random.default_rng(seed))
                cells.append(f"{variant}: {format_interval(mean, digits)}")
        if cells:
            rows.append([claim.text, name, "; ".join(cells)])
    return markdown_table(["the paper", "measure", "here"], rows) if rows else ""


def comparison_with_crawlers(runs: Sequence[RunResult]) -> str:
    """S2's Table 7 (S2-47, S2-48): numbers that papers report about their own webs, and ours below them.

    The recall of ours is the paper's approximation (S2-42): of the fetched pages with a known label, the relevant ones
    that the judge accepts.
    """
    rows = [[row.name, row.recall or "–", row.precision or "–", row.harvest or "–"] for row in reported_crawlers()]
    for name, mine in group_by_strategy(runs).items():
        judged = [run.self_judged for run in mine if run.self_judged is not None]
        verdicts = [_percent([j.recall for j in judged]), _percent([j.precision for j in judged])]
        rows.append([f"ours: {name}", *verdicts, _percent([run.harvest for run in mine])])
    notice = "The rows have different webs and topics and can't be compared; the columns of some are uncertain."
    return f"{notice}\n\n{markdown_table(['crawler', 'recall', 'precision', 'harvest'], rows)}"


def _percent(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{100 * np.mean(known):.0f} %" if known else "–"


# The paper's order: neural network, decision tree, naive Bayes.
NAMES = {"neural": "neural network", "tree": "decision tree", "bayes": "naive Bayes"}
FIGURES = (
    ("figure-6-precision", "precision", "Precision (Fig. 6)"),
    ("figure-7-time", "training time, ms", "Time (Fig. 7); less is better"),
    ("figure-8-complexity", "parameters", "Complexity (Fig. 8); less is better"),
)


def classifier_table(compared: Mapping[str, LearnerComparison]) -> str:
    """One row per topic and classifier; empty without any."""
    rows = []
    for topic, found in compared.items():
        for name, shown in NAMES.items():
            result = found.results[name]
            rows.append(
                [
                    f"{topic} ({found.rows} rows, {found.prior:.0%} relevant, {found.folds} folds)",
                    shown,
                    f"{result.precision.mean:.3f} [{result.precision.low:.3f}, {result.precision.high:.3f}]",
                    f"{PAPER_PRECISION[name]:.3f}",
                    f"{result.recall.mean:.3f}",
                    f"{result.auc.mean:.3f}",
                    f"{1000 * result.fit_s:.1f}",
                    f"{result.predict_us:.1f}",
                    str(result.parameters),
                ]
            )
    head = [
        "topic",
        "classifier",
        "precision",
        "paper",
        "recall",
        "AUC",
        "training, ms",
        "prediction, µs",
        "parameters",
    ]
    return markdown_table(head, rows) if rows else ""


def draw_classifiers(compared: Mapping[str, LearnerComparison], folder: Path) -> list[str]:
    """Figs 6 to 8 for the first topic, as SVG; returns their names."""
    if not compared:
        return []
    topic, found = next(iter(compared.items()))
    for number, (file, label, title) in enumerate(FIGURES):
        with new_figure(6.4, 3.6) as figure:
            axes = figure.add_subplot()
            for place, name in enumerate(NAMES):
                value = _measures(found.results[name])[number]
                axes.bar(place, value, 0.6, color=PALETTE[place], alpha=0.7)
                axes.text(place, value, f"{value:.3g}", ha="center", va="bottom")
                if number == 0:
                    axes.hlines(PAPER_PRECISION[name], place - 0.3, place + 0.3, color="#222222", linestyle=":")
            axes.grid(axis="y", color=GRID_COLOR, linewidth=0.6)
            axes.set_xticks(range(len(NAMES)), list(NAMES.values()))
            axes.set(xlabel="dotted: the paper" if number == 0 else "", ylabel=label, title=f"{title} · {topic}")
            save_figure(figure, folder / f"{file}.svg", "svg")
    return [file for file, _, _ in FIGURES]


def _measures(result: LearnerResult) -> tuple[float, float, float]:
    return result.precision.mean, 1000 * result.fit_s, float(result.parameters)
