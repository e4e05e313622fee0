"""The four relevance attributes of S1 for every link: URL words, anchor, parent page, surrounding text.

They are what S1's classifiers learn from. What is not known of a link (no anchor text, a seed without parents) is 0
with a flag that says so (S1-E6).
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.model.records import Reading
from opilio.rank.measure import LinkTexts
from opilio.topic.living import Sight

NAMES = ("url", "anchor", "parent", "around")
PARENTS = 5  # S1-22, S1-23: the first five parent pages
TOP = 7  # S1-17, S1-23: size of the topic's and the parent's table


def masked(present: Sequence[int] | set[int], sight: Sight) -> float:
    """Cosine of the table with its copy that keeps only the words present (S1-21): √(Σ matched w² / Σ w²)."""
    matched = sum(sight.vector[t] ** 2 for t in sight.vector.keys() & set(present))
    return float(np.sqrt(matched)) / sight.norm if sight.norm else 0.0


def adjusted(table: Mapping[int, float], sight: Sight) -> float:
    """Cosine of the topic's table with a table of the same keywords weighted by a text's own table (S1-23, S1-24)."""
    weights = {t: table[t] for t in sight.vector.keys() & table.keys()}
    length = float(np.sqrt(sum(w * w for w in weights.values()))) * sight.norm
    return min(1.0, sum(w * sight.vector[t] for t, w in weights.items()) / length) if length else 0.0


def top_table(counts: Mapping[int, float], size: int = TOP) -> dict[int, float]:
    """The heaviest terms of a text, normalised (S1-17 on one text); ties by term, to be the same everywhere."""
    best = sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:size]
    return {term: weight / best[0][1] for term, weight in best if weight > 0.0}


class KnownLink(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one URL: its words, and its anchors, parents and surroundings, first finder first."""

    url: Sequence[int] = ()
    anchors: Sequence[Sequence[int]] = ()
    parents: Sequence[Mapping[int, float]] = ()  # term weights (tf·idf) of the parent pages
    arounds: Sequence[Mapping[int, float]] = ()  # term weights of the words around the link


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """One link's attributes, each within 0..1, and which of them are missing."""

    url: float
    anchor: float
    parent: float
    around: float
    missing: tuple[bool, bool, bool, bool]

    @property
    def values(self) -> tuple[float, float, float, float]:
        """In the order of NAMES."""
        return self.url, self.anchor, self.parent, self.around


def attributes(link: KnownLink, sight: Sight) -> Attributes:
    """The attributes of one URL from its first five parents (S1-21…S1-24)."""
    anchors = {t for anchor in link.anchors[:PARENTS] for t in anchor}
    parent, around = (_summed(texts[:PARENTS]) for texts in (link.parents, link.arounds))
    return Attributes(
        url=masked(link.url, sight),
        anchor=masked(anchors, sight),
        parent=adjusted(top_table(parent), sight),
        around=adjusted(top_table(around), sight),
        missing=(not link.url, not anchors, not parent, not around),
    )


def page_attributes(
    reading: Reading, parent: Mapping[int, float], url_terms: Sequence[Sequence[int]], sight: Sight
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """(links × 4) attributes and missing flags of all links of one page, with this page as their only parent.

    `parent` are the page's term weights. The text around a link is weighed by its counts and not cut to seven words:
    so short a text has hardly more. `attributes` is the paper's procedure to the letter, link by link.
    """
    texts = LinkTexts(reading, url_terms)
    url, anchor, _ = texts.score(sight, "masked")
    around = texts.score(sight, "topic")[2]
    values = np.column_stack((url, anchor, np.full(texts.links, adjusted(top_table(parent), sight)), around))
    words = texts.lengths
    missing = np.column_stack((words[0] == 0, words[1] == 0, np.full(texts.links, not parent), words[2] == 0))
    return values, missing


def _summed(tables: Sequence[Mapping[int, float]]) -> dict[int, float]:
    summed: dict[int, float] = {}
    for table in tables:
        for term, weight in table.items():
            summed[term] = summed.get(term, 0.0) + weight
    return summed
