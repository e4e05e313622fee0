"""What links mean: a vector per link, from its anchor or the last part of its URL, and its similarity to the topic.

Words are looked up in the shipped table (`text.word_vectors`); rare words count more. The vectors are packed with the
other features of a link, so that the committee learns which meanings lead to relevant pages.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from opilio.core.caches import evict_oldest
from opilio.core.page import Link
from opilio.rank.link_scores import LinkTexts
from opilio.text.term_arrays import distinct, term_array
from opilio.text.tokens import UrlTerms
from opilio.text.word_vectors import DIMENSIONS, Vectors, WordVectors, to_bytes, unit_vectors
from opilio.topic.evolving import CompiledTable, EvolvingTopic
from opilio.topic.page_terms import Idf

_URL_CACHE_SIZE = 1 << 14
_ANCHOR_CACHE_SIZE = 1 << 14  # anchors of the last few hundred pages, about 200 bytes each
MAX_ANCHOR_TERMS = 32  # the rest of a longer anchor does not count
MIN_DIRECTION_TERMS = 50
DIRECTION_RIDGE = 30.0  # words
_NOTHING = bytes(DIMENSIONS)


class LinkMeanings:
    """The vectors of links and their similarities to the topic."""

    def __init__(self, words: WordVectors, topic: EvolvingTopic, idf: Idf, url_terms: UrlTerms) -> None:
        self._words = words
        self._topic = topic
        self._idf = idf
        self._url_terms = url_terms
        self._url_vector = lru_cache(_URL_CACHE_SIZE)(self._last_part_vector)
        # Terms of an anchor -> its vector: most links of a site have an anchor that earlier pages had.
        self._anchor_vectors: dict[bytes, bytes] = {}
        self._direction: tuple[CompiledTable, Vectors] | None = None

    def vectors(self, links: Sequence[Link], texts: LinkTexts) -> NDArray[np.int8]:
        """One vector per link as bytes; zeros if no word is known."""
        terms, size = texts.page_terms.tobytes(), texts.page_terms.itemsize
        starts, ends = texts.anchors.T
        spans = zip(
            (starts * size).tolist(), (np.minimum(ends, starts + MAX_ANCHOR_TERMS) * size).tolist(), strict=True
        )
        anchors = [terms[start:end] for start, end in spans]
        known = self._anchor_vectors
        if unknown := [anchor for anchor in dict.fromkeys(anchors) if anchor not in known]:
            self._add_anchors(unknown, texts.page_terms.dtype)
        found = [known[anchor] for anchor in anchors]
        evict_oldest(known, _ANCHOR_CACHE_SIZE)
        for at, vector in enumerate(found):
            if vector == _NOTHING:
                found[at] = self._url_vector(links[at].url)
        return np.frombuffer(b"".join(found), dtype=np.int8).reshape(-1, DIMENSIONS)

    def similarities(self, vectors: NDArray[np.int8]) -> NDArray[np.float64]:
        """The similarity of each vector to the topic, from 0 to 1."""
        products = vectors.astype(np.float32) @ (self.direction / 127.0)
        return np.clip(products, 0.0, 1.0).astype(np.float64)

    @property
    def direction(self) -> Vectors:
        """The vector of the topic's current table."""
        table = self._topic.compiled
        if self._direction is None or self._direction[0] is not table:
            self._direction = table, self._words.mean(table.terms, table.weights)
        return self._direction[1]

    def word_direction(self, terms: NDArray[np.int64], values: NDArray[np.float64]) -> Vectors | None:
        """The direction along which words gain value: a ridge regression of the values of terms on their vectors.

        A word that no page had so far is worth what words of a similar meaning are worth. None for too few terms.
        """
        rows = self._words.rows(terms.astype(np.uint32))
        known = np.flatnonzero(rows >= 0)
        if len(known) < MIN_DIRECTION_TERMS:
            return None
        vectors = self._words.vectors(rows[known], np.ones(len(known))).astype(np.float64)
        centered = values[known] - values[known].mean()
        gram = vectors.T @ vectors + DIRECTION_RIDGE * np.eye(DIMENSIONS)
        return np.linalg.solve(gram, vectors.T @ centered).astype(np.float32)

    def _add_anchors(self, anchors: Sequence[bytes], dtype: np.dtype[np.generic]) -> None:
        """Add the vectors of anchors: the sum of their distinct words, rare ones counting more, as a unit vector."""
        lengths = [len(anchor) // dtype.itemsize for anchor in anchors]
        owners = np.repeat(np.arange(len(anchors), dtype=np.int64), lengths)
        pairs = distinct((owners << 32) | np.frombuffer(b"".join(anchors), dtype=dtype).astype(np.int64))
        terms, owners = pairs.astype(np.uint32), pairs >> 32
        rows = self._words.rows(terms)
        known = np.flatnonzero(rows >= 0)
        sums = np.zeros((len(anchors), DIMENSIONS), dtype=np.float32)
        if known.size:
            rows, terms, owners = rows[known], terms[known], owners[known]
            starts = np.flatnonzero(np.diff(owners, prepend=-1))
            sums[owners[starts]] = np.add.reduceat(self._words.vectors(rows, self._idf(terms)), starts)
        data = to_bytes(unit_vectors(sums)).tobytes()
        for at, anchor in enumerate(anchors):
            self._anchor_vectors[anchor] = data[at * DIMENSIONS : (at + 1) * DIMENSIONS]

    def _last_part_vector(self, url: str) -> bytes:
        terms = self._url_terms.terms(url.rstrip("/").rpartition("/")[2])
        return to_bytes(self._words.mean(term_array(terms))).tobytes() if terms else _NOTHING
