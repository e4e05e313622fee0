"""The meaning of words: a short vector per term.

The table of vectors was made once from a multilingual sentence encoder (scripts/make_word_vectors.py), so words of one
meaning have similar vectors in 16 languages, and a look-up takes the place of the encoder. A text is the mean of its
words.
"""

import ctypes
import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opilio.core.settings import Normalizer
from opilio.text.languages import make_normalizer, stop_words
from opilio.text.term_arrays import Terms
from opilio.text.tokens import tokenize
from opilio.text.vocabulary import Vocabulary, term_id

Vectors = NDArray[np.float32]
# Language and normalizer of a vocabulary -> the terms of the table, sorted, and the row of each.
TermRows = dict[tuple[str, Normalizer], tuple[Terms, NDArray[np.int64]]]
DIMENSIONS = 64
BYTE_SCALE = 127.0
# Compared at a time, which bounds the memory.
_BLOCK_ROWS = 1 << 14
_DATA_FILE = "data/word_vectors.npz"
# Less frequent words of eight languages: for questions in another language than the pages.
_MORE_FILE = "data/more_word_vectors.npz"


class WordVectors:
    """term -> unit vector. Vectors are stored as bytes; a term outside the table has none."""

    def __init__(self, terms: Terms, vectors: NDArray[np.int8], rows: NDArray[np.int64] | None = None) -> None:
        # The vectors stay where they are: the table is loaded when the first question is asked. Of words with one term
        # the first counts: sorting term and row together is five times as fast as a stable sort.
        numbers = np.arange(len(terms)) if rows is None else rows
        order = np.sort((terms.astype(np.uint64) << 32) | numbers.astype(np.uint64))
        first = np.concatenate(([True], np.diff(order >> 32) > 0)) if len(order) else np.zeros(0, dtype=np.bool_)
        self._rows = (order[first] & 0xFFFFFFFF).astype(np.int64)
        self._terms = (order[first] >> 32).astype(np.uint32)
        self._vectors = vectors
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.int32))
        self._scales: NDArray[np.float32] = (1.0 / np.maximum(lengths, 1.0)).astype(np.float32)

    def __len__(self) -> int:
        return len(self._terms)

    def rows(self, terms: Terms) -> NDArray[np.int64]:
        """The row of each term in the table; -1 for an unknown term."""
        at = np.minimum(self._terms.searchsorted(terms), len(self._terms) - 1)
        return np.where(self._terms[at] == terms, self._rows[at], -1)

    def vectors(self, rows: NDArray[np.int64], weights: NDArray[np.floating]) -> Vectors:
        """The unit vectors of rows, times their weights."""
        result: Vectors = self._vectors[rows] * (self._scales[rows] * weights.astype(np.float32))[:, None]
        return result

    def nearest_terms(self, terms: Terms, min_similarity: float) -> tuple[Terms, Terms]:
        """Sorted other terms whose cosine with one of these is at least this, and for each the nearest of these."""
        rows = self.rows(terms)
        known = np.flatnonzero(rows >= 0)
        if not known.size:
            return terms[:0], terms[:0]
        targets = self.vectors(rows[known], np.ones(len(known))).T
        best, nearest = [], []
        for start in range(0, len(self._rows), _BLOCK_ROWS):
            block = self._rows[start : start + _BLOCK_ROWS]
            cosines = self.vectors(block, np.ones(len(block))) @ targets
            best.append(cosines.max(axis=1))
            nearest.append(cosines.argmax(axis=1))
        found = np.flatnonzero((np.concatenate(best) >= min_similarity) & ~np.isin(self._terms, terms))
        return self._terms[found], terms[known[np.concatenate(nearest)[found]]]

    def mean(self, terms: Terms, weights: NDArray[np.floating] | None = None) -> Vectors:
        """The direction of a text: the weighted sum of its words' vectors as a unit vector, or zeros."""
        rows = self.rows(terms)
        known = np.flatnonzero(rows >= 0)
        counted = np.ones(len(known)) if weights is None else weights[known]
        direction: Vectors = unit_vectors(self.vectors(rows[known], counted).sum(axis=0, keepdims=True))[0]
        return direction


def text_vector(words: WordVectors, text: str, ignored: frozenset[str]) -> Vectors:
    """The mean direction of a text's words; repeated words count by the logarithm of their number."""
    terms, counts = np.unique(
        np.array([term_id(word) for word in tokenize(text) if word not in ignored], dtype=np.uint32),
        return_counts=True,
    )
    return words.mean(terms, 1.0 + np.log(counts))


def unit_vectors(sums: Vectors) -> Vectors:
    """Each row scaled to length 1; a row of zeros stays."""
    lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums))
    result: Vectors = sums / np.maximum(lengths, 1e-6)[:, None]
    return result


def to_bytes(vectors: Vectors) -> NDArray[np.int8]:
    """Unit vectors as bytes, for storage."""
    rounded: NDArray[np.int8] = np.rint(vectors * BYTE_SCALE).astype(np.int8)
    return rounded


def load_word_vectors(vocabulary: Vocabulary) -> WordVectors:
    """The shipped table, by the terms of a vocabulary."""
    key = vocabulary.language, vocabulary.normalizer
    if key not in _tables:
        terms, rows = _term_rows(*key)
        _tables[key] = WordVectors(terms, _map_vectors(_DATA_FILE), rows)
    return _tables[key]


def loaded_term_rows() -> TermRows:
    """What this process computed to load its tables, for `add_term_rows` in its worker processes."""
    return {key: (table._terms, table._rows) for key, table in _tables.items()}


def add_term_rows(found: TermRows) -> None:
    """Load tables by the rows of another process: to stem all words takes 0.13 s of CPU time."""
    vectors = _map_vectors(_DATA_FILE)
    _tables.update({key: WordVectors(terms, vectors, rows) for key, (terms, rows) in found.items()})


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """While this is entered, matrix products use one thread.

    Those of a page or a question are small, and more threads wait for each other: that took a quarter of the CPU time
    of a crawled page (strategy `opilio`, two busy cores), and half of that of the first question of a process.
    """
    before = set_blas_threads(1)
    try:
        yield
    finally:
        set_blas_threads(before)


def set_blas_threads(count: int) -> int:
    """Set the number of threads of numpy's OpenBLAS; returns the number before, 0 if it is another library.

    The environment variable for this is only read when numpy is imported.
    """
    library = _openblas()
    if library is None:
        return 0
    for name in ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads"):
        with suppress(AttributeError):
            before = int(library[name.format("get")]())
            library[name.format("set")](max(1, count))
            return before
    return 0


@lru_cache(maxsize=1)
def _openblas() -> ctypes.CDLL | None:
    """The library that numpy loaded."""
    with suppress(OSError, StopIteration):
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        return ctypes.CDLL(next(line.split(maxsplit=5)[5] for line in maps if "openblas" in line))
    return None


@lru_cache(maxsize=1)
def load_surface_vectors() -> WordVectors:
    """Both shipped tables by the words themselves, for texts of any language."""
    tables = [_read(name, "terms", "vectors") for name in (_DATA_FILE, _MORE_FILE)]
    return WordVectors(*map(np.concatenate, zip(*tables, strict=True)))


def _read(name: str, *columns: str) -> list[NDArray[Any]]:
    with np.load(io.BytesIO(files("opilio.text").joinpath(name).read_bytes())) as data:
        return [data[column] for column in columns]


def _map_vectors(name: str) -> NDArray[np.int8]:
    """The vectors of a table, mapped into memory: all processes of a crawl share them."""
    path = files("opilio.text").joinpath(name)
    if isinstance(path, Path):
        with zipfile.ZipFile(path) as archive, archive.open("vectors.npy") as member, path.open("rb") as file:
            info = archive.getinfo("vectors.npy")
            _, header = np.lib.format.read_magic(member), np.lib.format.read_array_header_1_0(member)
            if info.compress_type == zipfile.ZIP_STORED:
                # Behind the header of the entry, whose length is in its bytes 26 to 29, and the header of the array.
                file.seek(info.header_offset + 26)
                lengths = [int.from_bytes(file.read(2), "little") for _ in range(2)]
                start = info.header_offset + 30 + sum(lengths) + member.tell()
                return np.memmap(file, header[2], "r", start, header[0]).view(np.ndarray)
    (vectors,) = _read(name, "vectors")
    return vectors


# The tables of this process by language and normalizer.
_tables: dict[tuple[str, Normalizer], WordVectors] = {}


def _term_rows(language: str, normalizer: Normalizer) -> tuple[Terms, NDArray[np.int64]]:
    """The term of each row; rows of stop words are left out."""
    (packed,) = _read(_DATA_FILE, "words")
    stem, ignored = make_normalizer(language, normalizer), stop_words(language)
    text = zlib.decompress(packed.tobytes()).decode()
    terms = np.zeros(text.count("\n") + 1, dtype=np.uint32)
    # Line by line: a list of all words would leave gaps in the memory of each process.
    for row, line in enumerate(io.StringIO(text, newline="\n")):
        word = line.rstrip("\n")
        if word not in ignored:
            terms[row] = term_id(stem(word))
    # Several words may have one stem. The first is the most frequent one.
    rows = np.flatnonzero(terms)
    return terms[rows], rows
