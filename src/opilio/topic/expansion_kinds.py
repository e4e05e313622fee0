"""The kinds of expansions that a configuration can name for the topic's table, with their options."""

from typing import Literal

from opilio.core.settings import Amount, Count, Positive, Share
from opilio.topic.expansion import (
    Expansion,
    ExpansionStart,
    FrozenExpansion,
    PagewiseExpansion,
    PeriodicExpansion,
    QueryLogExpansion,
)
from opilio.topic.weights import NoiseFilter, QueryLogSmoothing, TfDf, TfIdf, WeightScheme


def no_expansion(_: ExpansionStart) -> Expansion:
    return FrozenExpansion()


def periodic_expansion(
    start: ExpansionStart, *, period: Positive = 50, added: Count = 10, size: Count = 100, trust: Share = 0.5
) -> Expansion:
    return PeriodicExpansion(base=dict(start.weights), period=period, added=added, size=size, trust=trust)


def pagewise_expansion(
    start: ExpansionStart,
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
    min_documents: Positive = 2,
    min_idf: Amount = 0.0,
    idf: Literal["background", "online"] = "background",
) -> Expansion:
    noise = NoiseFilter(min_documents=min_documents, min_idf=min_idf)
    tf_idf = TfIdf(noise=noise, idf_source="smooth" if idf == "online" else "background")
    by: WeightScheme = TfDf(noise=noise) if weighing == "tf-df" else tf_idf
    return PagewiseExpansion(
        base=dict(start.weights),
        threshold=threshold,
        share=share,
        keywords=keywords,
        size=size,
        period=period,
        awaited=start.seed_count if from_seeds else 0,
        searched=start.searched,
        built=built,
        trust=trust,
        weighing=by,
    )


_QUERY_LOG_DEFAULTS = QueryLogSmoothing()


def query_log_expansion(
    _: ExpansionStart,
    *,
    log: str = "",
    interval: Positive = 100,
    memory: float = _QUERY_LOG_DEFAULTS.memory,
    threshold: Amount = _QUERY_LOG_DEFAULTS.threshold,
    relative: bool = _QUERY_LOG_DEFAULTS.relative,
    size: Positive = 50,
    per_interval: Count = 0,
) -> Expansion:
    del log, per_interval  # the query log is read by engine.wiring.topic: an expansion touches no file
    return QueryLogExpansion(
        log=QueryLogSmoothing(memory=memory, threshold=threshold, relative=relative), interval=interval, size=size
    )
