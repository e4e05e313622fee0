"""`report.md`: the sections that an experiment declares, in its order, and what papers report beside our runs.

Of papers: claims in numbers, S1's classifiers, S2's table of other crawlers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from opilio.core.display import GRID_COLOR, PALETTE, new_figure, pluralize, save_figure
from opilio.core.errors import ConfigError
from opilio.lab.experiments.declarations import (
    Claim,
    ClaimMeasure,
    Experiment,
    PaperTable,
    paper_table,
    reported_crawlers,
)
from opilio.lab.experiments.results import RunResult, found_at
from opilio.lab.reports.tables import (
    comparison_table,
    diversity_table,
    format_interval,
    group_by_strategy,
    halves_table,
    markdown_table,
    mean_over_cases,
    paired_comparisons,
    parts_table,
    reliability_table,
    run_indices_by_case,
    saved_table,
    search_comparison_table,
    seed_table,
    self_judged_table,
    strategy_table,
    time_table,
    topic_table,
)
from opilio.lab.webs.web import LabProblem
from opilio.methods.attributes.training import PAPER_PRECISION, LearnerComparison, LearnerResult


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


DATA_DIFFER_NOTICE = "The data differ: compare the shape of the columns, not their values."
MAX_SHOWN_PROBLEMS = 12


@dataclass(frozen=True, slots=True)
class ReportInput:
    """The input of a report."""

    experiment: Experiment
    runs: Sequence[RunResult]
    bounds: Sequence[RunResult] = ()
    problems: Sequence[LabProblem] = ()
    # Variant -> its column in the paper's table.
    columns: Mapping[str, str] | None = None
    classifiers: Mapping[str, LearnerComparison] = field(default_factory=dict)  # topic -> S1's classifiers

    @property
    def reference(self) -> str:
        """The declared reference, or the last variant if that was not run."""
        ran = group_by_strategy(self.runs)
        return self.experiment.reference if self.experiment.reference in ran else next(reversed(ran))

    @property
    def paper(self) -> PaperTable | None:
        return paper_table(self.experiment.paper) if self.experiment.paper else None

    @property
    def checkpoints(self) -> tuple[int, ...]:
        budget = min(r.budget for r in self.runs)
        wanted = self.experiment.checkpoints or (self.paper.at if self.paper else ())
        return tuple(n for n in wanted if n <= budget)


def write_report(material: ReportInput, plots: Sequence[str] = ()) -> str:
    """The whole report as Markdown."""
    experiment, runs = material.experiment, material.runs
    parts = [f"# {experiment.title}", *([experiment.about.strip()] if experiment.about else []), _scope(runs)]
    for name in experiment.sections:
        heading, write = find_section(name)
        text = write(material)
        if text:
            parts += [f"## {heading}", text]
    if plots:
        parts += ["## Plots", *(f"![{name}]({name}.svg)" for name in plots)]
    if material.problems:
        parts += ["## What was skipped", format_problems(material.problems)]
    parts += ["## How it was measured", _METHOD]
    return "\n\n".join(parts) + "\n"


def find_section(name: str) -> tuple[str, Callable[[ReportInput], str]]:
    if name not in SECTIONS:
        raise ConfigError(f"section {name}: unknown; known: {', '.join(SECTIONS)}")
    return SECTIONS[name]


def _scope(runs: Sequence[RunResult]) -> str:
    webs = ", ".join(dict.fromkeys(r.web for r in runs))
    topics = len({(r.web, r.topic) for r in runs})
    cases = run_indices_by_case(runs)
    draws = max(len({runs[at].random_seed for at in places}) for places in cases.values())
    budgets = ", ".join(dict.fromkeys(f"{r.budget:,}" for r in runs))
    scope = f"{pluralize(topics, 'topic')}, {pluralize(len(cases), 'case')} (topic × seed set)" + (
        f", {draws} random seeds each" if draws > 1 else ""
    )
    registered = "".join(f" Registration: `{r}`." for r in dict.fromkeys(r.registration for r in runs) if r)
    return f"Web: {webs}. {scope}, {len(runs)} runs of {budgets} fetches.{registered}"


def _strategies(material: ReportInput) -> str:
    table = strategy_table([*material.runs, *material.bounds])
    named = ", ".join(f"`{name}`" for name in group_by_strategy(material.bounds))
    return table + (f"\n\nBounds, not crawlers: {named}; the oracle is 1 by definition." if named else "")


def _pairs(material: ReportInput) -> str:
    tables = [paired_comparisons(material.runs, name) for name in (material.reference, *material.experiment.also)]
    return "\n\n".join(comparison_table(found) for found in tables if found)


def _self_judged(material: ReportInput) -> str:
    return self_judged_table(material.runs) if any(r.self_judged for r in material.runs) else ""


def _paper(material: ReportInput) -> str:
    """The paper's layout: harvest after n fetches, by label, self-judged, and the paper's own number."""
    paper = material.paper
    return (
        f"{paper.id}: {paper.caption}. {DATA_DIFFER_NOTICE}\n\n{paper_comparison_table(material, material.runs)}"
        if paper
        else ""
    )


def _paper_by_topic(material: ReportInput) -> str:
    topics = dict.fromkeys((r.web, r.topic) for r in material.runs)
    parts = []
    for web, topic in topics:
        mine = [r for r in material.runs if (r.web, r.topic) == (web, topic)]
        parts += [f"### {topic}", paper_comparison_table(material, mine)]
    return "\n\n".join(parts)


def paper_comparison_table(material: ReportInput, runs: Sequence[RunResult]) -> str:
    """One row per checkpoint; for each variant: by label, by its own judge, and the paper's number if there is one.

    Harvest is relevant over downloaded pages (Eq. 7 of S0). A crawl that ended before a checkpoint counts with what it
    downloaded, and the cell is marked. The ceiling is the harvest of a crawl that fetches only relevant pages.
    """
    paper, columns = material.paper, material.columns or {}
    head, rows = ["pages"], [[f"{n:,}"] for n in material.checkpoints]
    for name, mine in group_by_strategy(runs).items():
        theirs = dict(zip(paper.at, paper.values.get(columns.get(name, name), ()), strict=False)) if paper else {}
        judged = [r.self_judged for r in mine if r.self_judged is not None]
        head += [f"{name}: label", *(["self"] if judged else []), *(["paper"] if theirs else [])]
        for row, n in zip(rows, material.checkpoints, strict=True):
            ended = END_MARK if any(r.fetched < n for r in mine) else ""
            row.append(f"{np.mean([harvest_at(r, r.curve, n) for r in mine]):.2f}{ended}")
            if judged:
                own = [harvest_at(r, r.self_judged.curve, n) for r in mine if r.self_judged is not None]
                row.append(f"{np.mean(own):.2f}{ended}")
            if theirs:
                row.append(f"{theirs[n]:.2f}" if n in theirs else "–")
    for row, n in zip(rows, material.checkpoints, strict=True):
        row.append(f"{np.mean([min(n, r.relevant_reachable) / n for r in runs]):.2f}")
    table = markdown_table([*head, "ceiling"], rows)
    return f"{table}\n\n{END_NOTE}" if END_MARK in table else table


END_MARK = "†"
END_NOTE = f"{END_MARK} A crawl had ended before: its harvest is that of all pages it downloaded."


def harvest_at(run: RunResult, curve: Sequence[tuple[int, int]], fetches: int) -> float:
    """Relevant over downloaded pages after this number of fetches, or at the end of a shorter crawl (S0-30)."""
    downloaded = min(fetches, run.fetched)
    return found_at(curve, downloaded) / downloaded if downloaded else 0.0


def _windows(material: ReportInput) -> str:
    """Relevant pages in each block of `window` fetches (S2-43)."""
    size = material.experiment.window
    budget = min(r.budget for r in material.runs)
    blocks = range(size, budget + 1, size) if size else range(0)
    groups = group_by_strategy(material.runs)
    rows = [
        [f"{end - size + 1:,}–{end:,}", *(_block(mine, end - size, end) for mine in groups.values())] for end in blocks
    ]
    return markdown_table(["fetches", *groups], rows) if rows else ""


def _block(runs: Sequence[RunResult], begin: int, end: int) -> str:
    return f"{np.mean([found_at(r.curve, end) - found_at(r.curve, begin) for r in runs]):.1f}"


def format_problems(problems: Sequence[LabProblem]) -> str:
    """The first few, and the number of further ones of each kind."""
    shown = [f"- {problem}" for problem in problems[:MAX_SHOWN_PROBLEMS]]
    rest = problems[MAX_SHOWN_PROBLEMS:]
    kinds = {p.kind: sum(q.kind == p.kind for q in rest) for p in rest}
    return "\n".join([*shown, *(f"- and {n} more ({kind})" for kind, n in kinds.items())])


SECTIONS: dict[str, tuple[str, Callable[[ReportInput], str]]] = {
    "strategies": ("Strategies", _strategies),
    "pairs": ("Paired comparison", _pairs),
    "topics": ("Topics: auc_vs_oracle", lambda m: topic_table(m.runs)),
    "seeds": ("Kinds of seeds: auc_vs_oracle", lambda m: seed_table(m.runs)),
    "self-judged": ("By the crawler's own judge", _self_judged),
    "parts": ("Ranker and costs", lambda m: parts_table(m.runs)),
    "paper": ("The paper's table", _paper),
    "paper-by-topic": ("The paper's table, by topic", _paper_by_topic),
    "claims": ("The paper and this run", lambda m: table_of_claims(m.experiment.claim, m.runs)),
    "table-7": ("Table 7: other crawlers", lambda m: comparison_with_crawlers(m.runs)),
    "time": ("Time and precision", lambda m: time_table(m.runs)),
    "saved": ("Fetches and time", lambda m: saved_table(m.runs, m.reference)),
    "classifiers": ("Precision, time and complexity", lambda m: classifier_table(m.classifiers)),
    "diversity": ("Diversity and time", lambda m: diversity_table(m.runs)),
    "beyond": ("Beyond the search engine", lambda m: search_comparison_table(m.runs)),
    "windows": ("Relevant pages by block", _windows),
    "halves": ("Development and held-out topics", lambda m: halves_table([*m.runs, *m.bounds], m.reference)),
    "reliability": ("Reliability of the judges' scores", lambda m: reliability_table(m.runs)),
}

_METHOD = (
    "Crawls are scored by the labels of the web, which no crawler sees. Every fetch costs one, for all crawlers (404s "
    "and redirects too; robots.txt is free). `auc_vs_oracle` is the area under the curve of relevant pages over "
    "fetches, divided by that of a greedy oracle that knows every label and link, with the same budget. Intervals are "
    "95 % percentile bootstrap over topics, then cases within them; the paired test is Wilcoxon's signed-rank over the "
    "same cases, with Holm's correction. Repetitions of a case with other random seeds are averaged first. Self-judged "
    "are the verdicts of a crawler's own judge on all pages it fetched; its precision and recall cover the labelled "
    "pages. Link AUC is the probability that, of two fetched links, the one to a relevant page had the higher score; "
    "calibration is given if scores are probabilities. Link precision is given if the ranker predicts links off topic: "
    "the relevant share of the other fetched links. Target recall is the share of the relevant seeds of the topic's "
    "other seed sets that were found."
)
