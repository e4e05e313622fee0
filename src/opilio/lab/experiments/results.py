"""The results of an experiment: `results.json`, whose schema is part of the command line's contract."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import OfflineWebError
from opilio.lab.evaluation.metrics import CalibrationBin, CrawlScore
from opilio.lab.experiments.search_engine import SearchComparison


class SelfJudged(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts of the crawler's own judge: reported beside the labels, never instead."""

    relevant: int
    harvest: float
    # Of the crawler's verdicts against the labels.
    precision: float | None = None
    recall: float | None = None
    auc: float | None = None  # of the judge's scores
    # Of the judge's scores, as probabilities.
    calibration_error: float | None = None
    reliability: tuple[CalibrationBin, ...] = ()  # of the judge's scores
    curve: tuple[tuple[int, int], ...] = ()


class LinkQuality(msgspec.Struct, frozen=True, kw_only=True):
    """The ranker without the crawl: its scores against the labels of the fetched links."""

    auc: float | None = None
    average_precision: float | None = None
    calibration_error: float | None = None
    # Of the links predicted on topic, the share that are; None: none is predicted.
    precision: float | None = None


class RunResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One crawl of an experiment. `curve` holds (fetched, relevant found) pairs."""

    experiment: str
    web: str
    topic: str
    strategy: str
    seed_set: str
    random_seed: int
    budget: int
    fetched: int
    relevant_found: int
    relevant_reachable: int
    harvest: float
    recall: float
    auc_vs_oracle: float
    curve: tuple[tuple[int, int], ...]
    cpu_s: float = 0.0
    wall_s: float = 0.0
    to_half: int | None = None
    to_ninety: int | None = None
    relevant_hosts: int = 0
    host_entropy: float = 0.0
    failures: int = 0
    repeats: int = 0
    duplicates: int = 0
    target_recall: float | None = None
    self_judged: SelfJudged | None = None
    links: LinkQuality | None = None
    # Hosts with a fetched page, relevant or not.
    hosts: int = 0
    places: int = 0  # directories with relevant pages
    virtual_s: float = 0.0  # time on the crawl's clock
    # Share of the fetched pages that contain the query (S3-30); counts every sense of its words (S3-E7).
    containing: float = 0.0
    # The number of visits that an error of Opilio ended, and the first of them: such a run found too little.
    error: str = ""
    # Compared with a search engine, if the crawl started at its results.
    beyond: SearchComparison | None = None
    # The digest of the registered experiment that this run belongs to; empty for others.
    registration: str = ""

    @property
    def relevant_per_hour(self) -> float:
        """Relevant pages per hour on the crawl's clock; 0 for a run without latency."""
        return 3600.0 * self.relevant_found / self.virtual_s if self.virtual_s else 0.0

    @property
    def found_curve(self) -> NDArray[np.float64]:
        """Relevant pages found after 1, 2, … budget fetches: exact at the points of the curve."""
        if not self.curve:
            return np.zeros(self.budget)
        x, y = zip(*self.curve, strict=True)
        return np.asarray(np.interp(np.arange(1, self.budget + 1), [0, *x], [0, *y]))


def found_at(curve: Sequence[tuple[int, int]], fetches: int) -> float:
    """How many were found after this number of fetches."""
    x, y = zip((0, 0), *curve, strict=True)
    return float(np.interp(fetches, x, y))


class ExperimentResults(msgspec.Struct, frozen=True, kw_only=True):
    schema: int = 1
    runs: tuple[RunResult, ...] = ()
    # Runs that are not crawlers: a random order, the oracle.
    bounds: tuple[RunResult, ...] = ()


class RunId(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies a run."""

    experiment: str
    web: str
    topic: str
    strategy: str
    seed_set: str
    random_seed: int = 0


def build_run_result(
    name: RunId,
    score: CrawlScore,
    cpu_s: float = 0.0,
    wall_s: float = 0.0,
    self_judged: SelfJudged | None = None,
    links: LinkQuality | None = None,
) -> RunResult:
    """A run from its id, the score by the labels and its cost."""
    facts = msgspec.structs.asdict(name) | msgspec.structs.asdict(score)
    return RunResult(**facts, cpu_s=cpu_s, wall_s=wall_s, self_judged=self_judged, links=links)


def write_results(runs: Sequence[RunResult], folder: Path, bounds: Sequence[RunResult] = ()) -> Path:
    """Write `results.json`; runs are ordered, so that equal experiments give equal files except for times."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.json"
    path.write_bytes(msgspec.json.encode(ExperimentResults(runs=_sort_runs(runs), bounds=_sort_runs(bounds))) + b"\n")
    return path


def _sort_runs(runs: Sequence[RunResult]) -> tuple[RunResult, ...]:
    return tuple(sorted(runs, key=lambda r: (r.experiment, r.web, r.topic, r.seed_set, r.random_seed, r.strategy)))


def read_results(path: Path) -> list[RunResult]:
    """The runs in a `results.json`."""
    try:
        return list(msgspec.json.decode(path.read_bytes(), type=ExperimentResults).runs)
    except (OSError, msgspec.DecodeError) as error:
        raise OfflineWebError(f"{path}: no results: {error}") from error
