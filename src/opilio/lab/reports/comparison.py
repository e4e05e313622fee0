"""Strategies side by side: their means with intervals, as values, tables and data frames."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opilio.core.display import html_table, rich_table
from opilio.core.errors import MissingExtraError
from opilio.lab.evaluation.statistics import ConfidenceInterval
from opilio.lab.experiments.results import RunResult
from opilio.lab.reports.tables import format_interval, group_by_strategy, measure_interval, strategy_table

if TYPE_CHECKING:
    import pandas as pd

MEASURES = ("auc_vs_oracle", "harvest", "recall")


class StrategySummary(NamedTuple):
    """One strategy over all its runs: means with 95 % intervals."""

    strategy: str
    runs: int
    auc_vs_oracle: ConfidenceInterval
    harvest: ConfidenceInterval
    recall: ConfidenceInterval


def summarize_strategies(runs: Sequence[RunResult], seed: int = 0) -> list[StrategySummary]:
    """A summary for each strategy, in the order of the runs."""
    found = []
    for name, mine in group_by_strategy(runs).items():
        rng = np.random.default_rng(seed)
        found.append(StrategySummary(name, len(mine), *(measure_interval(mine, m, rng) for m in MEASURES)))
    return found


class Comparison:
    """What `opilio.compare()` measured. Iterate over it for one `StrategySummary` per strategy."""

    def __init__(self, runs: Sequence[RunResult], problems: Sequence[str] = ()) -> None:
        self.runs = tuple(runs)
        # Topics and seed sets that were skipped, and why.
        self.problems = tuple(problems)
        self.strategies = tuple(summarize_strategies(runs))

    def __getitem__(self, strategy: str) -> StrategySummary:
        for summary in self.strategies:
            if summary.strategy == strategy:
                return summary
        raise KeyError(strategy)

    def table(self) -> str:
        """A Markdown table, the same as `opilio lab run` prints."""
        return strategy_table(self.runs)

    def to_list(self) -> list[dict[str, Any]]:
        """One row per strategy with the mean, low and high end of every measure."""
        return [self._row(summary) for summary in self.strategies]

    def to_pandas(self) -> "pd.DataFrame":
        """The rows as a data frame with the strategies as its index; needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("to_pandas(): pandas is not installed; pip install 'opilio[pandas]'") from error
        return pd.DataFrame(self.to_list()).set_index("strategy")

    def __repr__(self) -> str:
        return self.table()

    def __rich__(self) -> Any:  # noqa: ANN401 - rich is imported where it is used
        return self._render(rich_table)

    def _repr_html_(self) -> str:
        return str(self._render(html_table))

    def _render(self, render: Callable[..., Any]) -> Any:  # noqa: ANN401
        rows = [
            [summary.strategy, summary.runs, *(format_interval(getattr(summary, name)) for name in MEASURES)]
            for summary in self.strategies
        ]
        return render(("strategy", "runs", *MEASURES), rows)

    @staticmethod
    def _row(summary: StrategySummary) -> dict[str, Any]:
        row: dict[str, Any] = {"strategy": summary.strategy, "runs": summary.runs}
        for name in MEASURES:
            interval: ConfidenceInterval = getattr(summary, name)
            row |= {name: interval.mean, f"{name}_low": interval.low, f"{name}_high": interval.high}
        return row
