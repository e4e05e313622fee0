"""`report.md`: tables over topics × seed sets, with intervals, paired tests and the papers' numbers beside. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from opilio.lab.papers import PaperTable
from opilio.lab.results import Run
from opilio.lab.statistics import Interval, PairedTest, bootstrap_mean, holm, paired_test


class Pairing(NamedTuple):
    """Two strategies over the runs they share."""

    ours: str
    theirs: str
    test: PairedTest
    corrected_p: float


def by_strategy(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Runs grouped by strategy, strategies in the order they first appear."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.strategy, []).append(run)
    return groups


def interval(runs: Sequence[Run], measure: str, rng: np.random.Generator) -> Interval:
    """Mean of one measure with its interval, topics drawn first."""
    return bootstrap_mean([float(getattr(r, measure)) for r in runs], rng, groups=[(r.web, r.topic) for r in runs])


def pairings(runs: Sequence[Run], reference: str, measure: str = "auc_vs_oracle") -> list[Pairing]:
    """The reference strategy against every other, over the same topics, seed sets and random seeds."""
    groups = {name: {_case(r): float(getattr(r, measure)) for r in rs} for name, rs in by_strategy(runs).items()}
    mine = groups.get(reference, {})
    tests: list[tuple[str, PairedTest]] = []
    for other, theirs in groups.items():
        shared = sorted(mine.keys() & theirs.keys())
        if other != reference and shared:
            tests.append((other, paired_test([mine[c] for c in shared], [theirs[c] for c in shared])))
    corrected = holm([t.p_value for _, t in tests])
    return [Pairing(reference, other, t, p) for (other, t), p in zip(tests, corrected, strict=True)]


def _case(run: Run) -> tuple[str, str, str, int]:
    return run.web, run.topic, run.seed_set, run.random_seed


def strategy_table(runs: Sequence[Run], seed: int = 0) -> str:
    """One line a strategy: means with 95 % intervals."""
    rows = []
    for name, mine in by_strategy(runs).items():
        rng = np.random.default_rng(seed)
        cells = [_spread(interval(mine, m, rng)) for m in ("auc_vs_oracle", "harvest", "recall")]
        cost = sum(r.cpu_s for r in mine) / max(1, sum(r.fetched for r in mine))
        rows.append([name, str(len(mine)), *cells, _mean_of(mine, "to_half"), f"{1000 * cost:.1f}"])
    head = ["strategy", "runs", "auc_vs_oracle", "harvest", "recall", "fetches to 50 %", "CPU ms/page"]
    return markdown(head, rows)


def _mean_of(runs: Sequence[Run], measure: str) -> str:
    values = [getattr(r, measure) for r in runs]
    reached = [v for v in values if v is not None]
    if not reached:
        return "never"
    note = "" if len(reached) == len(values) else f" ({len(reached)} of {len(values)} runs)"
    return f"{sum(reached) / len(reached):.0f}{note}"


def pairing_table(found: Sequence[Pairing]) -> str:
    """Who wins against whom: mean difference, p (Wilcoxon, Holm-corrected), effect size."""
    rows = [
        [
            f"{p.ours} − {p.theirs}",
            f"{p.test.difference:+.3f}",
            f"{p.test.wins} : {p.test.losses}",
            f"{p.corrected_p:.2g}",
            f"{p.test.rank_biserial:+.2f}",
        ]
        for p in found
    ]
    return markdown(["difference in auc_vs_oracle", "mean", "wins : losses", "p", "rank-biserial"], rows)


def topic_table(runs: Sequence[Run], measure: str = "auc_vs_oracle") -> str:
    """One line a topic, one column a strategy."""
    groups = by_strategy(runs)
    topics = list(dict.fromkeys(r.topic for r in runs))
    rows = []
    for topic in topics:
        means = [[float(getattr(r, measure)) for r in mine if r.topic == topic] for mine in groups.values()]
        rows.append([topic, *(f"{np.mean(m):.3f}" if m else "–" for m in means)])
    return markdown(["topic", *groups], rows)


def paper_comparison(runs: Sequence[Run], paper: PaperTable, labels: Mapping[str, str] | None = None) -> str:
    """The paper's layout: harvest after n fetches, ours by the labels beside the paper's own number."""
    shown = labels or {}
    groups = {name: mine for name, mine in by_strategy(runs).items() if name in paper.values}
    head = ["pages", *(f"{shown.get(name, name)} {who}" for name in groups for who in ("ours", "paper"))]
    rows = []
    for place, pages in enumerate(paper.at):
        cells = [str(pages)]
        for name, mine in groups.items():
            reached = [r.found[pages - 1] / pages for r in mine if r.budget >= pages]
            cells += [f"{np.mean(reached):.2f}" if reached else "–", f"{paper.values[name][place]:.2f}"]
        rows.append(cells)
    note = f"{paper.id}: {paper.caption}. The data differ: compare the shape of the columns, not their values."
    return f"{note}\n\n{markdown(head, rows)}"


def self_judged_table(runs: Sequence[Run]) -> str:
    """Harvest by the crawler's own judge beside harvest by the labels, and how good that judge was."""
    rows = []
    for name, mine in by_strategy(runs).items():
        judged = [(r.harvest, r.self_judged) for r in mine if r.self_judged is not None]
        if judged:
            precision = [j.precision for _, j in judged if j.precision is not None]
            found = [j.recall for _, j in judged if j.recall is not None]
            means = [np.mean([h for h, _ in judged]), np.mean([j.harvest for _, j in judged])]
            cells = [f"{m:.2f}" for m in means] + [f"{np.mean(v):.2f}" if v else "–" for v in (precision, found)]
            rows.append([name, *cells])
    return markdown(["strategy", "harvest by label", "self-judged", "judge's precision", "judge's recall"], rows)


def report(runs: Sequence[Run], title: str, reference: str = "", sections: Sequence[tuple[str, str]] = ()) -> str:
    """The whole report. `sections` (heading, text) are put before the last part, which says how it was measured."""
    webs = ", ".join(dict.fromkeys(r.web for r in runs))
    budgets = ", ".join(dict.fromkeys(str(r.budget) for r in runs))
    parts = [f"# {title}", f"Web: {webs}. Budget: {budgets} fetches. {len(runs)} runs.", "## Strategies"]
    parts.append(strategy_table(runs))
    found = pairings(runs, reference) if reference else []
    if found:
        parts += ["## Paired comparison", pairing_table(found)]
    parts += ["## Topics: auc_vs_oracle", topic_table(runs)]
    if any(r.self_judged for r in runs):
        parts += ["## Self-judged, beside the labels", self_judged_table(runs)]
    for heading, text in sections:
        parts += [f"## {heading}", text]
    parts += ["## How it was measured", _METHOD]
    return "\n\n".join(parts) + "\n"


_METHOD = (
    "The labels of the web judge; no crawler sees them. Every fetch attempt costs one for everybody (404s and "
    "redirects too; robots.txt is free). `auc_vs_oracle` is the area under relevant-found over fetches, divided by "
    "that of a greedy oracle which knows every label and link, with the same budget. Intervals are 95 % percentile "
    "bootstrap over topics, then runs within them; the paired test is Wilcoxon's signed-rank over the same topics, "
    "seed sets and random seeds, corrected after Holm."
)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar inside a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def _spread(i: Interval) -> str:
    return f"{i.mean:.3f} [{i.low:.3f}, {i.high:.3f}]"
