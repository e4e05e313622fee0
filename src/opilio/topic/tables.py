"""How weights are found in documents: tf·idf (S0, S1, S3) and tf·df (S4-02), all at once or one by one.

Every table is a pure function of its documents. A document is a mapping of stems to counts; nothing here
reads text. What differs between the papers is an option; which paper wants what is in X-03, X-10 and X-14.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Literal

import msgspec

from opilio.model.errors import TopicError
from opilio.text.tokens import FIRST_UNSPACED
from opilio.topic.table import WeightTable, table_of

Counts = Mapping[str, int]
Idf = Callable[[str], float]
IdfSource = Literal["background", "smooth", "corpus"]


def frequency(occurrences: int, words: int) -> float:
    """TF (S0-15): the share of a document's words.

    >>> frequency(14, 100)
    0.14
    """
    return occurrences / words if words else 0.0


def inverse_frequency(documents: int, containing: int, log_base: float = math.e) -> float:
    """IDF (S0-16, S1-18). The base is free (S0-E2): it is a constant factor, which normalising cancels.

    >>> round(inverse_frequency(1000, 100, 10), 6)
    1.0
    """
    return math.log(documents / containing) / _log(log_base)


def smooth_inverse_frequency(documents: int, containing: int, log_base: float = math.e) -> float:
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
        letters = _letters(stem)
        if letters < 0:
            return self.numbers
        return letters >= self.min_letters or (letters > 0 and stem >= FIRST_UNSPACED)  # pairs of characters are words


@lru_cache(maxsize=1 << 16)  # every stem is asked for again whenever a table is weighed anew
def _letters(stem: str) -> int:
    """How many letters a stem has; -1 for a number."""
    return -1 if stem.isdecimal() else sum(map(str.isalpha, stem))


EVERYTHING = NoiseFilter(min_documents=1, min_letters=0)


class Statistics(msgspec.Struct):
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
            self._forget_rarest()

    def forget(self, stems: Iterable[str]) -> None:
        """These stems were never met."""
        for stem in stems:
            self.containing.pop(stem, None)
            self.shares.pop(stem, None)

    def _forget_rarest(self) -> None:
        kept = sorted(self.containing, key=lambda s: (-self.containing[s], -self.shares[s], s))[: self.limit]
        self.containing = {s: self.containing[s] for s in kept}
        self.shares = {s: self.shares[s] for s in kept}


def statistics_of(documents: Iterable[Counts]) -> Statistics:
    """The statistics of documents that are all there."""
    statistics = Statistics()
    for counts in documents:
        statistics.add(counts)
    return statistics


class TfIdf(msgspec.Struct, frozen=True, kw_only=True, tag="tf-idf"):
    """w = mean TF · IDF (S0-17, S1-17, S3-10). "corpus" is the papers' own idf, wrong for small corpora (X-14)."""

    idf_source: IdfSource = "background"
    log_base: float = math.e
    noise: NoiseFilter = NoiseFilter()

    def weigh(self, statistics: Statistics, background: Idf | None = None) -> dict[str, float]:
        """Stem to weight, not yet normalised."""
        idf = self._idf(statistics, background)
        total = statistics.documents or 1
        allows, containing = self.noise.allows, statistics.containing
        return {
            stem: share / total * idf(stem)
            for stem, share in statistics.shares.items()
            if allows(stem, containing[stem], total)
        }

    def _idf(self, statistics: Statistics, background: Idf | None) -> Idf:
        if self.idf_source == "background" and background is not None:
            return background
        formula = inverse_frequency if self.idf_source == "corpus" else smooth_inverse_frequency
        return lambda stem: formula(statistics.documents, statistics.containing[stem], self.log_base)


class TfDf(msgspec.Struct, frozen=True, kw_only=True, tag="tf-df"):
    """w = TF · DF (S4-02, Pal et al.): what many of the first results say often."""

    noise: NoiseFilter = NoiseFilter()

    def weigh(self, statistics: Statistics, background: Idf | None = None) -> dict[str, float]:
        """Stem to weight, not yet normalised."""
        del background
        allows, containing = self.noise.allows, statistics.containing
        return {
            stem: share * containing[stem]
            for stem, share in statistics.shares.items()
            if allows(stem, containing[stem], statistics.documents)
        }


Weighing = TfIdf | TfDf


def build_table(
    documents: Iterable[Counts], size: int | None = 50, weighing: Weighing | None = None, background: Idf | None = None
) -> WeightTable:
    """The table of some documents (S0-14…S0-19, S1-17 with size 7, S4-02)."""
    weighing = weighing or TfIdf()
    return table_of(weighing.weigh(statistics_of(documents), background), size)
