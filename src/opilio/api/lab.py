"""The lab in Python: `opilio.compare()` measures strategies, `opilio.demo_web()` serves a synthetic web on loopback."""

import multiprocessing
from collections.abc import Callable, Sequence
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from opilio.core.display import Displayable, html_table, rich_table
from opilio.core.errors import MissingExtraError, OfflineWebError
from opilio.core.settings import Tree
from opilio.engine.workers.pool import available_cpus
from opilio.engine.workers.process import without_main_module
from opilio.lab.evaluation.statistics import ConfidenceInterval
from opilio.lab.experiments.declarations import load_experiment, select_variants
from opilio.lab.experiments.results import RunResult
from opilio.lab.experiments.study import Study, StudyOptions, run_jobs
from opilio.lab.reports.tables import format_interval, group_by_strategy, measure_interval, strategy_table
from opilio.lab.server.server import LabServerConfig, LabWebServer, serve_synthetic_web
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import SyntheticWeb, topic_tables, write_synthetic_web

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


OnRun = Callable[[RunResult], None]


def compare(
    strategies: Sequence[str],
    *,
    web: str | Path | Sequence[str | Path],
    topics: Sequence[str] = (),
    fetches: int = 0,
    seed_sets: int = 0,
    random_seed: int = 0,
    processes: int = 0,
    on_run: OnRun | None = None,
) -> Comparison:
    """Crawl offline webs with every strategy, for every topic and seed set, and let the labels judge.

    `web` is a folder or several. `fetches` per run and `seed_sets` of each kind are those of the experiment "compare"
    when left out. `processes` is the number of runs at a time, by default one per core. The results do not depend on
    it. `on_run` is called with each finished run.
    """
    experiment = msgspec.structs.replace(load_experiment("compare"), bounds=())
    webs = [web] if isinstance(web, str | Path) else list(web)
    options = StudyOptions(
        webs=tuple(map(Path, webs)),
        topics=tuple(topics),
        variants=select_variants(experiment, list(strategies)),
        pages=fetches,
        seed_sets=seed_sets,
        random_seed=random_seed,
    )
    study = Study(experiment, options)
    jobs = study.jobs()

    def finished(_place: int, run: RunResult) -> None:
        if on_run is not None:
            on_run(run)

    runs = run_jobs(jobs, processes or available_cpus(), finished)
    return Comparison(runs, [str(problem) for problem in study.problems])


STOP_TIMEOUT_S = 20.0


class WebServerProcess:
    """A running server on a loopback port; `proxy` is its address. The access log is complete after `close()`."""

    def __init__(self, shape: WebShape, log_file: Path | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(shape, log_file, theirs), daemon=True)
        with without_main_module():
            self._process.start()
        theirs.close()
        try:
            self.proxy: str = ours.recv()
        except EOFError as error:
            raise OfflineWebError("the demo web's server process ended at its start") from error
        finally:
            ours.close()

    def close(self) -> None:
        """Stop the server; further calls do nothing."""
        self._process.terminate()
        self._process.join(timeout=STOP_TIMEOUT_S)


def _serve(shape: WebShape, log_file: Path | None, channel: Connection) -> None:
    def announce(server: LabWebServer) -> None:
        channel.send(server.proxy)

    serve_synthetic_web(shape, LabServerConfig(log_file=log_file), announce)


class DemoTopic(Displayable, msgspec.Struct, frozen=True, kw_only=True):
    """A topic of a synthetic web with seeds to start from."""

    name: str
    description: str
    keywords: tuple[str, ...]
    seeds: tuple[str, ...]


class DemoWeb:
    """A synthetic web and the process that serves it, until `close()` or the end of a `with` block."""

    def __init__(self, shape: WebShape) -> None:
        self._shape = shape
        self._server = WebServerProcess(shape)
        self.proxy = self._server.proxy

    @property
    def settings(self) -> Tree:
        """Settings of a crawl in this web: through its proxy, without delays between requests."""
        return {"fetch": {"proxy": self.proxy}, "politeness": {"delay_s": 0.0}}

    @cached_property
    def topics(self) -> tuple[DemoTopic, ...]:
        """The topics that the web has pages about."""
        return tuple(map(_to_topic, topic_tables(SyntheticWeb(self._shape).plan)))

    def save(self, folder: str | Path) -> Path:
        """Write the web as an offline web, with labels, for `opilio.compare()`."""
        return write_synthetic_web(self._shape, Path(folder))

    def close(self) -> None:
        """Stop the server."""
        self._server.close()

    def __enter__(self) -> "DemoWeb":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<DemoWeb of {self._shape.pages} articles on {self._shape.hosts} hosts at {self.proxy}>"


def demo_web(*, pages: int = 600, hosts: int = 20, topics: int = 2, seed: int = 7) -> DemoWeb:
    """Serve a synthetic web on this machine. The same arguments give the same web."""
    shape = WebShape(
        pages=pages, hosts=hosts, topics=topics, seed=seed, topical_share=0.3, slow_hosts=0, failing_hosts=0
    )
    return DemoWeb(shape)


def _to_topic(table: dict[str, Any]) -> DemoTopic:
    return DemoTopic(
        name=table["name"],
        description=table["description"],
        keywords=tuple(table["keywords"]),
        seeds=tuple(table["seeds"][0]["urls"]),
    )
