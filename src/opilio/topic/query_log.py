"""A topic table from a query log (S4-03…S4-11): query frequencies, smoothed from interval to interval.

The smoothing constant is called `memory`, because the paper's α is also its URL score (S4-E5). Queries are given as
stems; the caller reads the log.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from opilio.core.errors import TopicError
from opilio.text.phrases import PhraseMatcher
from opilio.text.tokens import tokenize
from opilio.topic.weights import WeightTable, table_from_weights

# ε of S4-E8: a decayed weight below it is removed.
MIN_WEIGHT = 1e-3


def stem_query(query: str, stem: Callable[[str], str], phrases: Iterable[str] = ()) -> list[str]:
    """Steps 2–4 of S4-06. `stem` returns "" for a stop word; `phrases` become one stem with spaces (S4-E1)."""

    def stems(text: str) -> list[str]:
        return [s for s in map(stem, tokenize(text)) if s]

    return PhraseMatcher({tuple(parts): " ".join(parts) for parts in map(stems, phrases)}).join(stems(query))


def query_frequencies(queries: Iterable[Sequence[str]]) -> dict[str, int]:
    """qf (S4-06): the number of queries that contain a term; twice in one query counts once (S4-07)."""
    frequencies: dict[str, int] = {}
    for query in queries:
        for stem in set(query):
            frequencies[stem] = frequencies.get(stem, 0) + 1
    return dict(sorted(frequencies.items()))


class QueryLogWeights(msgspec.Struct, frozen=True):
    """Weights after some intervals, in the log's scale (S4-10); those below the threshold decay (S4-E8)."""

    weights: dict[str, float] = {}
    intervals: int = 0


class QueryLogSmoothing(msgspec.Struct, frozen=True, kw_only=True):
    """W_new = (1 − memory)·qf + memory·W_old (S4-07). `relative` divides qf by the number of queries (S4-E9)."""

    memory: float = 0.5
    threshold: float = 1.0
    relative: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.memory <= 0.5:
            raise TopicError(f"memory (α of the query log) must be greater than 0 and at most 0.5, not {self.memory}")

    def update(self, old: QueryLogWeights, queries: Sequence[Sequence[str]]) -> QueryLogWeights:
        """Add one interval of queries; terms without a query decay (S4-E8)."""
        frequencies = query_frequencies(queries)
        scale = 1.0 / max(1, len(queries)) if self.relative else 1.0
        fresh = 1.0 - self.memory
        weights = {
            stem: fresh * scale * frequencies.get(stem, 0) + self.memory * old.weights.get(stem, 0.0)
            for stem in sorted(old.weights.keys() | frequencies.keys())
        }
        return QueryLogWeights({s: w for s, w in weights.items() if w >= MIN_WEIGHT}, old.intervals + 1)

    def keywords(self, state: QueryLogWeights) -> dict[str, float]:
        """The terms whose weight reaches the threshold (S4-08), in the log's scale."""
        return {s: w for s, w in state.weights.items() if w >= self.threshold}

    def table(self, state: QueryLogWeights, size: int | None = None) -> WeightTable:
        """The keywords as a table. Normalizing changes no score, because cosine is independent of the scale (S4-E9)."""
        return table_from_weights(self.keywords(state), size)
