"""The ways a topic's table can grow, by name, with their options: part of `kinds.py`, which see."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from opilio.crawl.config import Amount, Count, Positive, Share
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


def _periodic(
    start: Start, *, period: Positive = 50, added: Count = 10, size: Count = 100, trust: Share = 0.5
) -> Expansion:
    return PeriodicExpansion(base=dict(start.weights), period=period, added=added, size=size, trust=trust)


def _pagewise(
    start: Start,
    *,
    threshold: Share = 0.6,
    share: Share = 0.5,
    keywords: Positive = 10,
    size: Count = 200,
    period: Positive = 10,
    from_seeds: bool = False,
    built: Count = 50,
    trust: Share = 0.5,
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
    interval: Positive = 100,
    memory: float = _LOG.memory,
    threshold: Amount = _LOG.threshold,
    relative: bool = _LOG.relative,
    size: Positive = 50,
    per_interval: Count = 0,
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
