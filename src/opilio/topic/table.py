"""The topic keyword weight table: stems with weights in (0, 1], heaviest first (S0-18, S0-19, S4-01).

A table never changes; every change makes a new one with the next version and says what was added.
It knows nothing of how its weights were found: `tables.py` does.
"""

import math
from collections.abc import Mapping
from operator import itemgetter

import msgspec

from opilio.text.vocabulary import term_of


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
                term = term_of(word)
                vector[term] = max(keyword.weight, vector.get(term, 0.0))
        return vector

    @property
    def labels(self) -> dict[int, str]:
        """Term to the word that is shown."""
        return {term_of(w): k.label for k in reversed(self.keywords) for w in k.stem.split()}

    @property
    def norm(self) -> float:
        """Euclidean length."""
        return math.sqrt(math.fsum(k.weight * k.weight for k in self.keywords))

    def top(self, size: int) -> "WeightTable":
        """The heaviest `size` keywords as a table of their own."""
        return msgspec.structs.replace(self, keywords=self.keywords[:size])

    def becomes(self, other: "WeightTable") -> "WeightTable":
        """`other` as the successor of this table; this very table where no stem and no weight differs."""
        if other.keywords == self.keywords:
            return self
        known = self.weights.keys()
        added = tuple(k.stem for k in other.keywords if k.stem not in known)
        return WeightTable(other.keywords, self.version + 1, added)


def table_of(
    weights: Mapping[str, float], size: int | None = None, shown: Mapping[str, str] | None = None
) -> WeightTable:
    """Sort, cut and normalise W = W_i / W_max (S0-18, S0-19, S4-02); weights of zero and less are left out.

    >>> [(k.stem, k.weight) for k in table_of({"wing": 1, "wren": 4, "the": 0}).keywords]
    [('wren', 1.0), ('wing', 0.25)]
    """
    shown = shown or {}
    return WeightTable(tuple([Keyword(s, w, shown.get(s, "")) for s, w in normalised(weights, size).items()]))


def normalised(weights: Mapping[str, float], size: int | None = None) -> dict[str, float]:
    """The same as a mapping, heaviest first, without a record per stem: for weighing thousands of stems anew.

    Ties go by name, so that a table depends on nothing but its documents. Two sorts by C keys are faster than one by
    a pair made in Python.
    """
    kept = sorted([row for row in weights.items() if row[1] > 0.0], key=itemgetter(0))
    kept.sort(key=itemgetter(1), reverse=True)
    largest = kept[0][1] if kept else 1.0
    # A tiny weight over a huge one may come out as zero.
    return {stem: weight / largest for stem, weight in kept[:size] if weight / largest > 0.0}
