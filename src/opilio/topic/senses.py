"""Rules that detect pages about another sense of the topic's words (S3-09, S3-E12, S3-F2, S2-F4, S4-F1).

`ContextRule` counts words of irrelevant contexts (the paper's rule, with options). `SenseWeights` compares the words
near an ambiguous word: those of the topic against those of the other senses.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import TopicError
from opilio.core.records import Verdict

IdfArray = Callable[[NDArray[np.uint32]], NDArray[np.float64]]
OTHER_SENSE = "other sense"
WINDOW = 20  # words on each side


def is_other_sense(verdict: Verdict) -> bool:
    """True for a page that was rejected because of another sense: it is ignored together with its links (S3-09)."""
    return bool(verdict.reasons) and verdict.reasons[0].name == OTHER_SENSE


class ContextRule(msgspec.Struct, frozen=True, kw_only=True):
    """When words of irrelevant contexts make a page irrelevant (S3-E12). The default is the paper's: any hit.

    `ratio` requires more than that many context words per topic word, besides the minimum. `where` is the whole page,
    or only its title and anchors. With `whole_word` off, context words are also found inside other words.
    """

    minimum: int = 1
    ratio: float = 0.0
    where: Literal["page", "title"] = "page"
    whole_word: bool = True

    def __post_init__(self) -> None:
        if self.minimum < 1 or self.ratio < 0.0:
            raise TopicError(f"minimum must be at least 1 and ratio not below 0, not {self.minimum} and {self.ratio}")

    def rejects(self, hits: int, topic_words: int) -> bool:
        """True if there are enough context words, absolutely and relative to the topic's words."""
        return hits >= self.minimum and hits > self.ratio * topic_words


class SenseWeights(msgspec.Struct, frozen=True, kw_only=True):
    """The topic's words against the other senses' words, near the ambiguous words.

    `topic` and `others` are the weights of the words of both sides; `ambiguous` are the words that both share and that
    do not count. A page is about another sense if the others outweigh the topic by a factor of `margin`.
    """

    topic: dict[int, float]
    others: dict[int, float]
    ambiguous: frozenset[int] = frozenset()
    window: int = WINDOW
    margin: float = 1.0

    def weigh(self, terms: Sequence[int], idf: IdfArray) -> tuple[float, float]:
        """Evidence for the topic and for the others: Σ weight · idf over the distinct words nearby."""
        near = nearby_terms(terms, self.ambiguous, self.window) - self.ambiguous
        return _evidence(near, self.topic, idf), _evidence(near, self.others, idf)

    def rejects(self, topic: float, others: float) -> bool:
        """True if the other senses outweigh the topic."""
        return others > self.margin * topic


def nearby_terms(terms: Sequence[int], ambiguous: frozenset[int], window: int = WINDOW) -> set[int]:
    """The words within the window of an ambiguous word; all words if the page has no ambiguous word."""
    at = [i for i, t in enumerate(terms) if t in ambiguous]
    if not at:
        return set(terms)
    near: set[int] = set()
    for i in at:
        near.update(terms[max(0, i - window) : i + window + 1])
    return near


def _evidence(near: Collection[int], weights: Mapping[int, float], idf: IdfArray) -> float:
    found = sorted(weights.keys() & near)
    values = np.array([weights[t] for t in found])
    return float(values @ idf(np.array(found, dtype=np.uint32))) if found else 0.0
