"""The ways a topic's table can grow, by name, with their options: part of `kinds.py`, which see."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from opilio.topic.expansion import Expansion, Frozen, PagewiseExpansion, PeriodicExpansion, QueryLogExpansion
from opilio.topic.querylog import QueryLog
from opilio.topic.tables import NoiseFilter, TfDf, TfIdf, Weighing


@dataclass(frozen=True, slots=True)
class Start:
    """What an expansion begins from: the weights of the first table, and the number of seeds."""

    weights: Mapping[str, float]
    seeds: int = 0


def _none(_: Start) -> Expansion:
    return Frozen()


def _periodic(start: Start, *, period: int = 50, added: int = 10, size: int = 100, trust: float = 0.5) -> Expansion:
    return PeriodicExpansion(base=dict(start.weights), period=period, added=added, size=size, trust=trust)


def _pagewise(
    start: Start,
    *,
    threshold: float = 0.6,
    share: float = 0.5,
    keywords: int = 10,
    size: int = 200,
    period: int = 10,
    from_seeds: bool = False,
    built: int = 50,
    trust: float = 0.5,
    weighing: Literal["tf-idf", "tf-df"] = "tf-idf",
) -> Expansion:
    noise = NoiseFilter(min_documents=1)
    by: Weighing = TfDf(noise=noise) if weighing == "tf-df" else TfIdf(noise=noise)
    return PagewiseExpansion(
        base=dict(start.weights),
        threshold=threshold,
        share=share,
        keywords=keywords,
        size=size,
        period=period,
        awaited=start.seeds if from_seeds else 0,
        built=built,
        trust=trust,
        weighing=by,
    )


_LOG = QueryLog()


def _query_log(
    _: Start,
    *,
    log: str = "",
    interval: int = 100,
    memory: float = _LOG.memory,
    threshold: float = _LOG.threshold,
    relative: bool = _LOG.relative,
    size: int = 50,
    per_interval: int = 0,
) -> Expansion:
    del log, per_interval  # read by crawl.topics: an expansion touches no file
    return QueryLogExpansion(
        log=QueryLog(memory=memory, threshold=threshold, relative=relative), interval=interval, size=size
    )


EXPANSIONS: dict[str, Callable[..., Expansion]] = {
    "none": _none,
    "periodic": _periodic,
    "pagewise": _pagewise,
    "query-log": _query_log,
}
