"""Topic tables of weighted stems: tf·idf (S0, S1, S3), tf·df (S4), and frequencies of a query log (S4-03…S4-11).

A table holds stems with weights in (0, 1], heaviest first (S0-18, S0-19, S4-01). It is immutable: a change makes a new
table with the next version. Every table is a pure function of its documents, which are mappings of stems to counts.
The papers' differences are options; X-03, X-10 and X-14 list which paper uses what.

The smoothing constant is called `memory`, because the paper's α is also its URL score (S4-E5). Queries are given as
stems; the caller reads the log.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Literal

import msgspec

from opilio.core.errors import TopicError
from opilio.text.tokens import FIRST_UNSPACED, tokenize
from opilio.text.vocabulary import PhraseMatcher, term_id


class Keyword(msgspec.Struct, frozen=True):
    """One row: the stem, its weight, and the displayed word (S0-E4, S4-E2)."""

    stem: str
    weight: float
    shown: str = ""

    @property
    def label(self) -> str:
        """The displayed word."""
        return self.shown or self.stem


class WeightTable(msgspec.Struct, frozen=True):
    """Keywords by falling weight. Invariant: empty, or the first weight is exactly 1.0 (S0-19)."""

    keywords: tuple[Keyword, ...] = ()
    version: int = 0
    # Stems that the previous version did not have.
    added: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.keywords)

    @property
    def weights(self) -> dict[str, float]:
        """Stem -> weight."""
        return {k.stem: k.weight for k in self.keywords}

    @property
    def vector(self) -> dict[int, float]:
        """Term -> weight. A phrase is one term, in tables and on pages (S4-E1)."""
        return {term_id(k.stem): k.weight for k in self.keywords}

    @property
    def labels(self) -> dict[int, str]:
        """Term -> displayed word."""
        return {term_id(k.stem): k.label for k in self.keywords}

    @property
    def norm(self) -> float:
        """Euclidean length."""
        return math.sqrt(math.fsum(k.weight * k.weight for k in self.keywords))

    def top(self, size: int) -> "WeightTable":
        """A table of the heaviest `size` keywords."""
        return msgspec.structs.replace(self, keywords=self.keywords[:size])

    def next_version(self, other: "WeightTable") -> "WeightTable":
        """`other` as the next version of this table; this table itself if no stem and no weight differs."""
        if other.keywords == self.keywords:
            return self
        known = self.weights.keys()
        added = tuple(k.stem for k in other.keywords if k.stem not in known)
        return WeightTable(other.keywords, self.version + 1, added)


def table_from_weights(
    weights: Mapping[str, float], size: int | None = None, shown: Mapping[str, str] | None = None
) -> WeightTable:
    """Sort, cut and normalize W = W_i / W_max (S0-18, S0-19, S4-02); weights of zero and less are dropped.

    >>> [(k.stem, k.weight) for k in table_from_weights({"wing": 1, "wren": 4, "the": 0}).keywords]
    [('wren', 1.0), ('wing', 0.25)]
    """
    shown = shown or {}
    return WeightTable(tuple([Keyword(s, w, shown.get(s, "")) for s, w in normalize_weights(weights, size).items()]))


def normalize_weights(weights: Mapping[str, float], size: int | None = None) -> dict[str, float]:
    """The normalized weights as a mapping, heaviest first, without a record per stem.

    Ties are sorted by name, so that a table depends only on its documents. Two sorts with C keys are faster than one
    with a Python key.
    """
    kept = sorted([row for row in weights.items() if row[1] > 0.0], key=itemgetter(0))
    kept.sort(key=itemgetter(1), reverse=True)
    largest = kept[0][1] if kept else 1.0
    # A tiny weight divided by a huge one may be zero.
    return {stem: weight / largest for stem, weight in kept[:size] if weight / largest > 0.0}


Counts = Mapping[str, int]
Idf = Callable[[str], float]
IdfSource = Literal["background", "smooth", "corpus"]


def corpus_idf(documents: int, containing: int, log_base: float = math.e) -> float:
    """IDF (S0-16, S1-18). The base is a constant factor, which normalizing cancels (S0-E2).

    >>> round(corpus_idf(1000, 100, 10), 6)
    1.0
    """
    return math.log(documents / containing) / _log(log_base)


def smooth_idf(documents: int, containing: int, log_base: float = math.e) -> float:
    """IDF that is above zero for words of every document (X-14), for S0-E10 and S3-E8."""
    return math.log(1.0 + documents / containing) / _log(log_base)


def _log(base: float) -> float:
    if base <= 1.0:
        raise TopicError(f"log_base must be greater than 1, not {base}")
    return math.log(base)


class NoiseFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which stems may be keywords (S0-E11, S3-E8). `NoiseFilter(min_documents=1, min_letters=1)` disables it.

    `min_idf` excludes filler: words with a lower idf in the background corpus, which are common in any text.
    """

    min_documents: int = 2
    min_letters: int = 3
    numbers: bool = True
    min_idf: float = 0.0

    def allowed(self, statistics: "TermStatistics", background: Idf | None) -> list[str]:
        """The stems of the statistics that may be keywords."""
        containing, total = statistics.containing, statistics.documents or 1
        rare = background if self.min_idf else None
        return [
            stem
            for stem in statistics.shares
            if self.allows(stem, containing[stem], total) and (rare is None or rare(stem) >= self.min_idf)
        ]

    def allows(self, stem: str, containing: int, documents: int) -> bool:
        """True for a stem that looks like a word and is in enough documents (all of them if there are fewer)."""
        if containing < min(self.min_documents, documents):
            return False
        letters = _count_letters(stem)
        if letters < 0:
            return self.numbers
        # In scripts without spaces, pairs of characters are words.
        return letters >= self.min_letters or (letters > 0 and stem >= FIRST_UNSPACED)


# Every stem is checked again whenever a table is recomputed.
@lru_cache(maxsize=1 << 16)
def _count_letters(stem: str) -> int:
    """The number of letters of a stem; -1 for a number."""
    return -1 if stem.isdecimal() else sum(map(str.isalpha, stem))


class TermStatistics(msgspec.Struct):
    """The document statistics that a table needs (S3-11): documents, document frequencies and Σ TF of each stem.

    Documents may be added one by one. `limit` bounds memory: at twice as many stems, the rarest are evicted.
    """

    documents: int = 0
    containing: dict[str, int] = {}
    shares: dict[str, float] = {}
    limit: int = 20_000

    def add(self, counts: Counts) -> None:
        """Add a document."""
        words = sum(counts.values())
        self.documents += 1
        containing, shares = self.containing, self.shares
        for stem, occurrences in counts.items():
            if occurrences > 0:
                containing[stem] = containing.get(stem, 0) + 1
                shares[stem] = shares.get(stem, 0.0) + occurrences / words
        if len(self.containing) > 2 * self.limit:
            self._evict_rarest()

    def forget(self, stems: Iterable[str]) -> None:
        """Remove stems from the statistics."""
        for stem in stems:
            self.containing.pop(stem, None)
            self.shares.pop(stem, None)

    def _evict_rarest(self) -> None:
        kept = sorted(self.containing, key=lambda s: (-self.containing[s], -self.shares[s], s))[: self.limit]
        self.containing = {s: self.containing[s] for s in kept}
        self.shares = {s: self.shares[s] for s in kept}


def collect_statistics(documents: Iterable[Counts]) -> TermStatistics:
    """The statistics of a set of documents."""
    statistics = TermStatistics()
    for counts in documents:
        statistics.add(counts)
    return statistics


class TfIdf(msgspec.Struct, frozen=True, kw_only=True, tag="tf-idf"):
    """w = mean TF · IDF (S0-17, S1-17, S3-10). "corpus" is the papers' own idf, wrong for small corpora (X-14)."""

    idf_source: IdfSource = "background"
    log_base: float = math.e
    noise: NoiseFilter = NoiseFilter()

    def weigh(self, statistics: TermStatistics, background: Idf | None = None) -> dict[str, float]:
        """Stem -> weight, not yet normalized."""
        idf = self._idf(statistics, background)
        total = statistics.documents or 1
        shares = statistics.shares
        return {stem: shares[stem] / total * idf(stem) for stem in self.noise.allowed(statistics, background)}

    def _idf(self, statistics: TermStatistics, background: Idf | None) -> Idf:
        if self.idf_source == "background" and background is not None:
            return background
        formula = corpus_idf if self.idf_source == "corpus" else smooth_idf
        return lambda stem: formula(statistics.documents, statistics.containing[stem], self.log_base)


class TfDf(msgspec.Struct, frozen=True, kw_only=True, tag="tf-df"):
    """w = TF · DF (S4-02, Pal et al.): words that are frequent in many of the first results."""

    noise: NoiseFilter = NoiseFilter()

    def weigh(self, statistics: TermStatistics, background: Idf | None = None) -> dict[str, float]:
        """Stem -> weight, not yet normalized."""
        shares, containing = statistics.shares, statistics.containing
        return {stem: shares[stem] * containing[stem] for stem in self.noise.allowed(statistics, background)}


WeightScheme = TfIdf | TfDf


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
