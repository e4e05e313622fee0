"""How much of a topic is in the URL, the anchor and the text around each link, for all links of a page at once.

One sort over (text, term) pairs counts every word of every link text; no Python loop runs per link or per
word. Words of link texts are weighed by their count alone: such texts are too short for more.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from opilio.model.records import Reading
from opilio.text.counting import counted
from opilio.topic.living import Sight, Terms, array_of

Form = Literal["page", "topic", "masked", "share", "mass"]
"""How a text is scored against the table (X-01, X-09), always within 0..1:

page    cosine, the text's norm over all its words (S4-17)
topic   cosine, the text's norm over the topic's words in it (S0-23 as printed)
masked  cosine of the table with its own masked copy, √(Σ matched w² / Σ w²) (S1-21)
share   Σ matched w / table size (S3-18…S3-20)
mass    Σ matched w / Σ w: the same without the dependence on size (S3-E3, Hati & Kumar)
"""


class LinkTexts:
    """The words of the links' URLs, anchors and surroundings as one bag of (text, term) pairs.

    Text number = kind · links + link, with kinds 0 URL, 1 anchor, 2 around. `said` are the words of the whole page,
    `anchors` and `arounds` the (start, end) of each link's in them.
    """

    __slots__ = ("_matched", "anchors", "arounds", "counts", "links", "said", "terms", "texts")

    def __init__(self, reading: Reading, url_words: Sequence[Sequence[int]]) -> None:
        self.links = len(reading.page.links)
        self.said = array_of(reading.terms)
        index = np.array([link.index for link in reading.page.links], dtype=np.int64)
        self.anchors, self.arounds = spans_of(reading.anchors, index), spans_of(reading.arounds, index)
        said, in_text = flat(self.said, np.concatenate((self.anchors, self.arounds)))
        lengths = list(map(len, url_words))
        urls = array_of([*chain.from_iterable(url_words)])
        in_url = np.repeat(np.arange(self.links), lengths)
        keys = np.concatenate((in_url, in_text + self.links)) << 32
        keys |= np.concatenate((urls, said))
        distinct, counts = counted(keys)
        self.counts: NDArray[np.float64] = counts.astype(np.float64)
        self.terms: Terms = distinct.astype(np.uint32)  # the low half
        self.texts: NDArray[np.int64] = distinct >> 32
        self._matched: tuple[Sight, NDArray[np.float64]] | None = None

    @property
    def lengths(self) -> NDArray[np.float64]:
        """Number of words; rows URL, anchor, around; one column per link."""
        return self._sum(self.texts, self.counts).reshape(3, self.links)

    def score(self, sight: Sight, form: Form) -> NDArray[np.float64]:
        """Rows URL, anchor, around; one column per link."""
        if self._matched is None or self._matched[0] is not sight:  # one table is asked in several forms
            self._matched = sight, sight.weigh(self.terms)
        weights = self._matched[1]
        if not sight.size or not sight.norm:
            return np.zeros((3, self.links))  # S3-E9: a table of size 0 scores 0
        hit = np.flatnonzero(weights)
        weights, texts, counts = weights[hit], self.texts[hit], self.counts[hit]
        if form == "share":
            scores = self._sum(texts, weights) / sight.size
        elif form == "mass":
            scores = self._sum(texts, weights) / sight.mass
        elif form == "masked":
            scores = np.sqrt(self._sum(texts, weights * weights)) / sight.norm
        else:
            own = self._sum(self.texts, self.counts**2) if form == "page" else self._sum(texts, counts**2)
            scores = self._sum(texts, weights * counts) / (np.sqrt(np.maximum(own, 1.0)) * sight.norm)
        bounded: NDArray[np.float64] = np.minimum(scores, 1.0).reshape(3, self.links)  # rounding may pass 1
        return bounded

    def matched(self, sight: Sight) -> list[tuple[int, int]]:
        """The (text, term) pairs that hit the table."""
        hit = np.flatnonzero(sight.weigh(self.terms))
        return list(zip(self.texts[hit].tolist(), self.terms[hit].tolist(), strict=True))

    def _sum(self, texts: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.bincount(texts, values, minlength=3 * self.links), dtype=np.float64)


def spans_of(spans: Sequence[tuple[int, int]], index: NDArray[np.int64]) -> NDArray[np.int64]:
    """The (start, end) of each link by its `Link.index`; an empty slice for a link that stands nowhere in the flow."""
    last = len(spans)
    bounds = np.fromiter(chain.from_iterable(spans), np.int64, 2 * last).reshape(-1, 2)
    bounds = np.concatenate((bounds, np.zeros((1, 2), dtype=np.int64)))
    return bounds[np.where((index < 0) | (index > last), last, index)]


def flat(words: Terms, bounds: NDArray[np.int64]) -> tuple[Terms, NDArray[np.int64]]:
    """The words of many slices one after the other, with the number of the slice each is in."""
    starts, lengths = bounds[:, 0], bounds[:, 1] - bounds[:, 0]
    ends = np.cumsum(lengths)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    at = np.arange(owners.size) + np.repeat(starts - ends + lengths, lengths)
    return words[at], owners
