"""Search by meaning: short vectors of pages and queries, from the shipped table of words (`text.word_vectors`).

A page has two vectors of 64 bytes: of its title, and of the beginning of its text. A query is compared with all of
them, by one matrix product: 100,000 pages take about 3 ms. The table has words of 16 languages, so a query also finds
pages in other languages.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from opilio.search.results import LEAD_CHARACTERS, IndexDocument
from opilio.text.languages import stop_words
from opilio.text.tokens import tokenize
from opilio.text.vocabulary import term_id
from opilio.text.word_vectors import (
    BYTE_SCALE,
    DIMENSIONS,
    Vectors,
    WordVectors,
    load_surface_vectors,
    one_blas_thread,
    text_vector,
    to_bytes,
)

VECTOR_BYTES = 2 * DIMENSIONS
# Letters of a word that must remain when endings are removed.
MIN_STEM = 5
MAX_ENDING = 3
MIN_COMPOUND_PART = 4
# Of the table, which also has some frequent misspellings further down.
COMMON_WORDS = 25_000
# Of the table of words, which are in every text.
FREQUENT_PLACES = 500
KeyArray = np.ndarray[Any, np.dtype[np.int64]]
Matrix = np.ndarray[Any, np.dtype[np.float32]]
MEANING_ROW = np.dtype([("key", "<i8"), ("vectors", "i1", (VECTOR_BYTES,))])  # of the stored file
MeaningRows = np.ndarray[Any, np.dtype[np.void]]


def page_vectors(page: IndexDocument) -> bytes:
    """The vectors of a page's title and of the beginning of its text; zeros if no word is known."""
    words, ignored = load_surface_vectors(), stop_words(page.language)
    title = text_vector(words, page.title, ignored)
    lead = text_vector(words, f"{page.description}\n{page.body[:LEAD_CHARACTERS]}", ignored)
    # A page without a title is as similar as its text. (Not one whose title has only unknown words: such pages would
    # gain over those with a title that says less than the text.)
    return to_bytes(np.stack((title if page.title.strip() else lead, lead))).tobytes()


def query_vector(weights: Mapping[str, float]) -> Vectors | None:
    """The direction of a query from its words with their weights; None if no word is known."""
    words = load_surface_vectors()
    parts = [(part, weight) for word, weight in weights.items() for part in _known_parts(words, word)]
    if not parts:
        return None
    terms = np.array([term_id(part) for part, _ in parts], dtype=np.uint32)
    return words.mean(terms, np.array([weight for _, weight in parts]))


def word_rarity(word: str) -> float:
    """The weight of a word that pages do not contain, because it is of another language: by its place in the table,
    whose words are in the order of their frequency. So a noun counts more than the verb that asks about it."""
    words = load_surface_vectors()
    terms = np.array([term_id(part) for part in _known_parts(words, word)], dtype=np.uint32)
    place = int(words.rows(terms).max()) if len(terms) else 0
    return math.log1p(place / FREQUENT_PLACES) ** 2


def is_common_word(word: str) -> bool:
    """Whether this is a frequent word of some language: pages may lack it, but it is no misspelling."""
    row = int(load_surface_vectors().rows(np.array([term_id(word)], dtype=np.uint32))[0])
    return 0 <= row < COMMON_WORDS


def _known_parts(words: WordVectors, text: str) -> Sequence[str]:
    """The words of the table that stand for a word: itself, its beginning without an ending, or two that it joins."""
    found: list[str] = []
    for word in tokenize(text):
        shorter = (word[: len(word) - cut] for cut in range(MAX_ENDING + 1) if not cut or len(word) - cut >= MIN_STEM)
        single = next((form for form in shorter if _is_known(words, form)), "")
        found += [single] if single else _compound_parts(words, word)
    return found


def _compound_parts(words: WordVectors, word: str) -> Sequence[str]:
    """The two words that a word joins, the first one as long as possible: eisenbahn, museum."""
    for at in range(len(word) - MIN_COMPOUND_PART, MIN_COMPOUND_PART - 1, -1):
        if _is_known(words, word[:at]) and _is_known(words, word[at:]):
            return word[:at], word[at:]
    return ()


def _is_known(words: WordVectors, word: str) -> bool:
    return bool(words.rows(np.array([term_id(word)], dtype=np.uint32))[0] >= 0)


class PageMeanings(msgspec.Struct, frozen=True, kw_only=True):
    """The vectors of the pages of one index, in memory. Rows follow the order of `keys`, which are sorted."""

    keys: KeyArray
    # Title and text side by side, from -127 to 127.
    vectors: Matrix
    origin: int = 0  # of the database
    # Number of the last row that was read from it.
    last_id: int = 0

    @staticmethod
    def empty(origin: int = 0) -> "PageMeanings":
        vectors: Matrix = np.zeros((0, VECTOR_BYTES), dtype=np.float32)
        return PageMeanings(keys=np.zeros(0, dtype=np.int64), vectors=vectors, origin=origin)

    @staticmethod
    def from_rows(rows: MeaningRows, origin: int, last_id: int) -> "PageMeanings":
        """Of the stored file, whose rows are sorted by key."""
        keys, vectors = rows["key"].astype(np.int64), rows["vectors"].astype(np.float32)
        return PageMeanings(keys=keys, vectors=vectors, origin=origin, last_id=last_id)

    def updated(self, origin: int, rows_after: Callable[[int], Sequence[tuple[int, int, bytes]]]) -> "PageMeanings":
        """With the rows (number, key, vectors) that were written since; all of them if the index was rebuilt."""
        known = self if origin == self.origin else PageMeanings.empty(origin)
        rows = rows_after(known.last_id)
        return known._extended(rows) if rows else known

    def _extended(self, rows: Sequence[tuple[int, int, bytes]]) -> "PageMeanings":
        """With newer rows, which replace those of the same pages."""
        numbers, keys, blobs = zip(*rows, strict=True)
        new_keys = np.array(keys, dtype=np.int64)
        packed = np.frombuffer(b"".join(blobs), dtype=np.int8).reshape(-1, VECTOR_BYTES)
        new_vectors: Matrix = packed.astype(np.float32)
        kept = ~np.isin(self.keys, new_keys)
        all_keys = np.concatenate((self.keys[kept], new_keys))
        order = np.argsort(all_keys)
        vectors = np.concatenate((self.vectors[kept], new_vectors))[order]
        return PageMeanings(keys=all_keys[order], vectors=vectors, origin=self.origin, last_id=max(numbers))

    def similarities(self, direction: Vectors) -> Matrix:
        """The similarity of each page to a query: the mean of the cosines of title and text."""
        both = np.concatenate((direction, direction)) / np.float32(2.0 * BYTE_SCALE)
        with one_blas_thread():
            result: Matrix = self.vectors @ both
        return result

    def nearest(self, similarities: Matrix, limit: int, least: float) -> KeyArray:
        """The keys of the most similar pages."""
        if not len(self.keys):
            return self.keys
        limit = min(limit, len(self.keys))
        best = np.argpartition(-similarities, limit - 1)[:limit]
        return self.keys[best[similarities[best] >= least]]

    def select(self, similarities: Matrix, keys: KeyArray) -> Matrix:
        """The similarities of these pages; 0 for an unknown one."""
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.float32)
        at = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[at] == keys, similarities[at], np.float32(0.0)).astype(np.float32)
