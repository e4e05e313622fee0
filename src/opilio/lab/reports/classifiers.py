"""S1's classifiers in a report: a table with the paper's precision, and Figs 6 to 8 as bar charts (S1-30 … S1-33)."""

from collections.abc import Mapping
from pathlib import Path

from opilio.core.figures import GRID_COLOR, PALETTE, new_figure, save_figure
from opilio.lab.reports.tables import markdown_table
from opilio.methods.attributes.evaluation import PAPER_PRECISION, LearnerComparison, LearnerResult

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
