"""The topic keyword weight table: stems with weights in (0, 1], heaviest first (S0-18, S0-19, S4-01).

A table never changes; every change makes a new one with the next version and says what was added.
It knows nothing of how its weights were found: `tables.py` does.

How weights are found in documents: tf·idf (S0, S1, S3) and tf·df (S4-02), all at once or one by one.

Every table is a pure function of its documents. A document is a mapping of stems to counts; nothing here
reads text. What differs between the papers is an option; which paper wants what is in X-03, X-10 and X-14.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Literal

import msgspec

from opilio.core.errors import TopicError
from opilio.text.tokens import FIRST_UNSPACED
from opilio.text.vocabulary import term_id


class Keyword(msgspec.Struct, frozen=True):
    """One row: the stem that is counted, its weight, and the word that is shown (S0-E4, S4-E2)."""

    stem: str
    weight: float
    shown: str = ""

    @property
    def label(self) -> str:
        """What a person reads."""
        return self.shown or self.stem


class WeightTable(msgspec.Struct, frozen=True):
    """Keywords by falling weight. Invariant: empty, or the first weight is exactly 1.0 (S0-19)."""

    keywords: tuple[Keyword, ...] = ()
    version: int = 0
    added: tuple[str, ...] = ()  # stems this version has and the one before had not

    def __len__(self) -> int:
        return len(self.keywords)

    @property
    def weights(self) -> dict[str, float]:
        """Stem to weight."""
        return {k.stem: k.weight for k in self.keywords}

    @property
    def vector(self) -> dict[int, float]:
        """Term to weight. A phrase lends its weight to each of its words: pages are counted word by word (S4-E1)."""
        vector: dict[int, float] = {}
        for keyword in self.keywords:
            for word in keyword.stem.split():
                term = term_id(word)
                vector[term] = max(keyword.weight, vector.get(term, 0.0))
        return vector

    @property
    def labels(self) -> dict[int, str]:
        """Term to the word that is shown."""
        return {term_id(w): k.label for k in reversed(self.keywords) for w in k.stem.split()}

    @property
    def norm(self) -> float:
        """Euclidean length."""
        return math.sqrt(math.fsum(k.weight * k.weight for k in self.keywords))

    def top(self, size: int) -> "WeightTable":
        """The heaviest `size` keywords as a table of their own."""
        return msgspec.structs.replace(self, keywords=self.keywords[:size])

    def next_version(self, other: "WeightTable") -> "WeightTable":
        """`other` as the successor of this table; this very table where no stem and no weight differs."""
        if other.keywords == self.keywords:
            return self
        known = self.weights.keys()
        added = tuple(k.stem for k in other.keywords if k.stem not in known)
        return WeightTable(other.keywords, self.version + 1, added)


def table_from_weights(
    weights: Mapping[str, float], size: int | None = None, shown: Mapping[str, str] | None = None
) -> WeightTable:
    """Sort, cut and normalise W = W_i / W_max (S0-18, S0-19, S4-02); weights of zero and less are left out.

    >>> [(k.stem, k.weight) for k in table_from_weights({"wing": 1, "wren": 4, "the": 0}).keywords]
    [('wren', 1.0), ('wing', 0.25)]
    """
    shown = shown or {}
    return WeightTable(tuple([Keyword(s, w, shown.get(s, "")) for s, w in normalize_weights(weights, size).items()]))


def normalize_weights(weights: Mapping[str, float], size: int | None = None) -> dict[str, float]:
    """The same as a mapping, heaviest first, without a record per stem: for weighing thousands of stems anew.

    Ties go by name, so that a table depends on nothing but its documents. Two sorts by C keys are faster than one by
    a pair made in Python.
    """
    kept = sorted([row for row in weights.items() if row[1] > 0.0], key=itemgetter(0))
    kept.sort(key=itemgetter(1), reverse=True)
    largest = kept[0][1] if kept else 1.0
    # A tiny weight over a huge one may come out as zero.
    return {stem: weight / largest for stem, weight in kept[:size] if weight / largest > 0.0}


Counts = Mapping[str, int]
Idf = Callable[[str], float]
IdfSource = Literal["background", "smooth", "corpus"]


def term_frequency(occurrences: int, words: int) -> float:
    """TF (S0-15): the share of a document's words.

    >>> term_frequency(14, 100)
    0.14
    """
    return occurrences / words if words else 0.0


def corpus_idf(documents: int, containing: int, log_base: float = math.e) -> float:
    """IDF (S0-16, S1-18). The base is free (S0-E2): it is a constant factor, which normalising cancels.

    >>> round(corpus_idf(1000, 100, 10), 6)
    1.0
    """
    return math.log(documents / containing) / _log(log_base)


def smooth_idf(documents: int, containing: int, log_base: float = math.e) -> float:
    """IDF that does not vanish for words of every document (X-14), for S0-E10 and S3-E8."""
    return math.log(1.0 + documents / containing) / _log(log_base)


def _log(base: float) -> float:
    if base <= 1.0:
        raise TopicError(f"log_base must be greater than 1, not {base}")
    return math.log(base)


class NoiseFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which stems may be keywords (S0-E11, S3-E8). Ours; `NoiseFilter(min_documents=1, min_letters=1)` is off."""

    min_documents: int = 2
    min_letters: int = 3
    numbers: bool = True

    def allows(self, stem: str, containing: int, documents: int) -> bool:
        """True for a stem of enough documents (all of them where there are fewer) that looks like a word."""
        if containing < min(self.min_documents, documents):
            return False
        letters = _count_letters(stem)
        if letters < 0:
            return self.numbers
        # Pairs of characters are words
        return letters >= self.min_letters or (letters > 0 and stem >= FIRST_UNSPACED)


# Every stem is asked for again whenever a table is weighed anew
@lru_cache(maxsize=1 << 16)
def _count_letters(stem: str) -> int:
    """How many letters a stem has; -1 for a number."""
    return -1 if stem.isdecimal() else sum(map(str.isalpha, stem))


class TermStatistics(msgspec.Struct):
    """All a table needs to know of its documents (S3-11): how many, in how many each stem is, and Σ of its TF.

    Documents may come one by one. `limit` bounds memory: when twice as many stems are known, the
    rarest are forgotten (they are far from any table).
    """

    documents: int = 0
    containing: dict[str, int] = {}
    shares: dict[str, float] = {}
    limit: int = 20_000

    def add(self, counts: Counts) -> None:
        """One more document."""
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
        """These stems were never met."""
        for stem in stems:
            self.containing.pop(stem, None)
            self.shares.pop(stem, None)

    def _evict_rarest(self) -> None:
        kept = sorted(self.containing, key=lambda s: (-self.containing[s], -self.shares[s], s))[: self.limit]
        self.containing = {s: self.containing[s] for s in kept}
        self.shares = {s: self.shares[s] for s in kept}


def collect_statistics(documents: Iterable[Counts]) -> TermStatistics:
    """The statistics of documents that are all there."""
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
        """Stem to weight, not yet normalised."""
        idf = self._idf(statistics, background)
        total = statistics.documents or 1
        allows, containing = self.noise.allows, statistics.containing
        return {
            stem: share / total * idf(stem)
            for stem, share in statistics.shares.items()
            if allows(stem, containing[stem], total)
        }

    def _idf(self, statistics: TermStatistics, background: Idf | None) -> Idf:
        if self.idf_source == "background" and background is not None:
            return background
        formula = corpus_idf if self.idf_source == "corpus" else smooth_idf
        return lambda stem: formula(statistics.documents, statistics.containing[stem], self.log_base)


class TfDf(msgspec.Struct, frozen=True, kw_only=True, tag="tf-df"):
    """w = TF · DF (S4-02, Pal et al.): what many of the first results say often."""

    noise: NoiseFilter = NoiseFilter()

    def weigh(self, statistics: TermStatistics, background: Idf | None = None) -> dict[str, float]:
        """Stem to weight, not yet normalised."""
        del background
        allows, containing = self.noise.allows, statistics.containing
        return {
            stem: share * containing[stem]
            for stem, share in statistics.shares.items()
            if allows(stem, containing[stem], statistics.documents)
        }


WeightScheme = TfIdf | TfDf
