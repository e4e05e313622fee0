"""Weight tables of documents, built from the parts that a crawl uses one after the other."""

from collections.abc import Iterable

from opilio.topic.weights import (
    Counts,
    Idf,
    NoiseFilter,
    TfIdf,
    WeightScheme,
    WeightTable,
    collect_statistics,
    table_from_weights,
)

NO_NOISE_FILTER = NoiseFilter(min_documents=1, min_letters=0)


def table_from_documents(
    documents: Iterable[Counts],
    size: int | None = 50,
    weighing: WeightScheme | None = None,
    background: Idf | None = None,
) -> WeightTable:
    """The table of some documents (S0-14 to S0-19, S1-17 with size 7, S4-02)."""
    weighing = weighing or TfIdf()
    return table_from_weights(weighing.weigh(collect_statistics(documents), background), size)
