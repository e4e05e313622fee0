"""Results of the revisit experiment: the runs, a report and a plot. Only the plot writes files."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.display import GRID_COLOR, PALETTE, new_figure, save_figure
from opilio.lab.evaluation.statistics import ConfidenceInterval, bootstrap_mean
from opilio.lab.experiments.revisits import FreshnessMeasures
from opilio.lab.reports.plots import PLOT_FORMATS
from opilio.lab.reports.tables import markdown_table

Array = NDArray[np.float64]


class RevisitRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run: web, topic, change schedule and policy, with the measured freshness."""

    web: str
    topic: str
    schedule: int
    policy: str
    truth: FreshnessMeasures

    @property
    def fresh(self) -> float:
        return float(np.mean(self.truth.fresh))

    @property
    def age_days(self) -> float:
        return float(np.mean(self.truth.age_days))

    @property
    def case(self) -> tuple[str, str, int]:
        return self.web, self.topic, self.schedule

    @property
    def found_share(self) -> float:
        return self.truth.new_relevant / max(1, self.truth.born_relevant)

    @property
    def found_per_100_fetches(self) -> float:
        return 100.0 * self.truth.new_relevant / max(1, self.truth.fetches)


Measure = Callable[[RevisitRun], float]
MEASURES: dict[str, Measure] = {
    "freshness": lambda run: run.fresh,
    "age, days": lambda run: run.age_days,
    "new relevant pages found": lambda run: run.found_share,
    "new relevant pages per 100 fetches": lambda run: run.found_per_100_fetches,
}


def format_revisit_report(runs: Sequence[RevisitRun], reference: str, seed: int = 0) -> str:
    """The tables as Markdown. If the reference policy did not run, the last policy is the reference."""
    policies = list(dict.fromkeys(run.policy for run in runs))
    reference = reference if reference in policies else policies[-1]
    others = [name for name in policies if name != reference]
    measures = list(MEASURES.values())
    means = [
        [f"`{name}`", *(_format_interval(_mean_interval(runs, name, m, seed)) for m in measures)] for name in policies
    ]
    pairs = [
        [
            f"`{reference}` − `{name}`",
            *(_format_interval(_difference_interval(runs, (reference, name), m, seed)) for m in measures[:2]),
        ]
        for name in others
    ]
    by_web = [
        [web, *(f"{np.mean([r.fresh for r in runs if (r.web, r.policy) == (web, p)]):.3f}" for p in policies)]
        for web in dict.fromkeys(run.web for run in runs)
    ]
    spent = [[f"`{p}`", *_cost_cells([run.truth for run in runs if run.policy == p])] for p in policies]
    parts = ["## Means over cases", markdown_table(["policy", *MEASURES], means)]
    parts += ["## Paired differences", markdown_table(["pair", *list(MEASURES)[:2]], pairs)] if pairs else []
    parts += ["## Freshness by web", markdown_table(["web", *policies], by_web)]
    parts += ["## Budget used", markdown_table(["policy", "fetches per run", "revisits that got the page"], spent)]
    return "\n\n".join(parts) + "\n"


def _cost_cells(truths: Sequence[FreshnessMeasures]) -> list[str]:
    return [
        f"{np.mean([truth.fetches for truth in truths]):.0f}",
        f"{np.mean([truth.revisits for truth in truths]):.0f}",
    ]


def _mean_interval(runs: Sequence[RevisitRun], policy: str, measure: Measure, seed: int) -> ConfidenceInterval:
    mine = [run for run in runs if run.policy == policy]
    groups = [(run.web, run.topic) for run in mine]
    return bootstrap_mean([measure(run) for run in mine], np.random.default_rng(seed), groups)


def _difference_interval(
    runs: Sequence[RevisitRun], pair: tuple[str, str], measure: Measure, seed: int
) -> ConfidenceInterval:
    one, other = pair
    by_case = {(run.case, run.policy): measure(run) for run in runs}
    cases = [case for case, policy in by_case if policy == one and (case, other) in by_case]
    values = [by_case[case, one] - by_case[case, other] for case in cases]
    return bootstrap_mean(values, np.random.default_rng(seed), [case[:2] for case in cases])


def _format_interval(found: ConfidenceInterval) -> str:
    # The interval of a single case would have no width and say nothing about others.
    return f"{found.mean:.3f}" if found.n < 2 else f"{found.mean:.3f} ({found.low:.3f} … {found.high:.3f})"


def draw_revisit_plot(runs: Sequence[RevisitRun], folder: Path) -> list[Path]:
    """Plots freshness and age over time: one line per policy, the mean over cases."""
    folder.mkdir(parents=True, exist_ok=True)
    with new_figure(8.0, 3.4) as figure:
        for place, (field, label) in enumerate((("fresh", "freshness"), ("age_days", "age, days"))):
            axes = figure.add_subplot(1, 2, place + 1)
            for number, policy in enumerate(dict.fromkeys(run.policy for run in runs)):
                mine = [run.truth for run in runs if run.policy == policy]
                days = (np.array(mine[0].times) - mine[0].times[0]) / 86_400.0
                curve: Array = np.mean([getattr(truth, field) for truth in mine], axis=0)
                axes.plot(days, curve, color=PALETTE[number % len(PALETTE)], label=policy, linewidth=1.6)
            axes.set(xlabel="days", ylabel=label)
            axes.set_ylim(bottom=0)
            axes.grid(axis="y", color=GRID_COLOR, linewidth=0.6)
        figure.axes[0].legend(frameon=False, loc="lower left")
        written = [folder / f"freshness.{form}" for form in PLOT_FORMATS]
        for path, form in zip(written, PLOT_FORMATS, strict=True):
            save_figure(figure, path, form)
    return written
