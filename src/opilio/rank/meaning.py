"""What links mean: a vector per link, from its anchor or the last part of its URL, and its similarity to the topic.

Words are looked up in the shipped table (`text.word_vectors`); rare words count more. The vectors are packed with the
other features of a link, so that the committee learns which meanings lead to relevant pages.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from opilio.core.page import Link
from opilio.rank.link_scores import LinkTexts
from opilio.text.term_arrays import term_array
from opilio.text.url_words import UrlTerms
from opilio.text.word_vectors import DIMENSIONS, Vectors, WordVectors, to_bytes, unit_vectors
from opilio.topic.evolving import CompiledTable, EvolvingTopic
from opilio.topic.page_terms import Idf

_URL_CACHE_SIZE = 1 << 14
_NOTHING = bytes(DIMENSIONS)


class LinkMeanings:
    """The vectors of links and their similarities to the topic."""

    def __init__(self, words: WordVectors, topic: EvolvingTopic, idf: Idf, url_terms: UrlTerms) -> None:
        self._words = words
        self._topic = topic
        self._idf = idf
        self._url_terms = url_terms
        self._url_vector = lru_cache(_URL_CACHE_SIZE)(self._last_part_vector)
        self._direction: tuple[CompiledTable, Vectors] | None = None

    def vectors(self, links: Sequence[Link], texts: LinkTexts) -> NDArray[np.int8]:
        """One vector per link as bytes; zeros if no word is known."""
        found = to_bytes(unit_vectors(self._anchor_sums(texts)))
        unknown = np.flatnonzero(~found.any(axis=1))
        if unknown.size:
            parts = b"".join([self._url_vector(links[at].url) for at in unknown.tolist()])
            found[unknown] = np.frombuffer(parts, dtype=np.int8).reshape(-1, DIMENSIONS)
        return found

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

    def _anchor_sums(self, texts: LinkTexts) -> Vectors:
        """The weighted sum of the words of each anchor."""
        sums = np.zeros((texts.links, DIMENSIONS), dtype=np.float32)
        first, last = np.searchsorted(texts.texts, [texts.links, 2 * texts.links])
        terms, owners = texts.terms[first:last], texts.texts[first:last] - texts.links
        rows = self._words.rows(terms)
        known = np.flatnonzero(rows >= 0)
        if known.size:
            rows, terms, owners = rows[known], terms[known], owners[known]
            vectors = self._words.vectors(rows, self._idf(terms))
            starts = np.flatnonzero(np.diff(owners, prepend=-1))
            sums[owners[starts]] = np.add.reduceat(vectors, starts)
        return sums

    def _last_part_vector(self, url: str) -> bytes:
        terms = self._url_terms.terms(url.rstrip("/").rpartition("/")[2])
        return to_bytes(self._words.mean(term_array(terms))).tobytes() if terms else _NOTHING
