"""Terms of texts as arrays, their counts, and their inverse document frequencies.

Words are found, hashed and looked up as whole arrays; only words that are not in the table are cut out of the text and
passed to the vocabulary. This is faster than `split` and a dictionary lookup per word (benchmarks/text).

Among pages that are all on topic, the topic's own words would have an idf of 0. So document frequencies come from a
background table of general English that is shipped with the package and made by scripts/make_background.py (X-14,
S0-E10).
"""

import io
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from math import log
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from opilio.text.tokens import tokenize_bytes, tokenize_marked_bytes
from opilio.text.vocabulary import Vocabulary

IntegerT = TypeVar("IntegerT", bound=np.integer)
# Terms are 32-bit hashes; they sort twice as fast as 64-bit numbers (measured).
Terms = NDArray[np.uint32]
Counts = NDArray[np.intp]


class TermList(Sequence[int]):
    """The terms of an array as a sequence. They become Python numbers only where they are read as such."""

    __slots__ = ("_values", "array")

    def __init__(self, terms: Terms) -> None:
        self.array = terms
        self._values: list[int] | None = None

    @property
    def values(self) -> list[int]:
        """The terms as a list, made once."""
        if self._values is None:
            self._values = self.array.tolist()
        return self._values

    def __len__(self) -> int:
        return self.array.size

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        return self.values[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self.values)

    def __eq__(self, other: object) -> bool:
        """Equal to a list or another sequence of the same terms."""
        return isinstance(other, Sequence) and self.values == list(other)

    __hash__ = None  # type: ignore[assignment]  # like a list

    def __repr__(self) -> str:
        return f"TermList({self.values})"


def term_array(terms: Sequence[int]) -> Terms:
    """Terms as an array. A typed Python array takes half the time of NumPy's own conversion (measured)."""
    return terms.array if isinstance(terms, TermList) else np.frombuffer(array("I", terms), dtype=np.uint32)


def count_distinct(numbers: NDArray[IntegerT]) -> tuple[NDArray[IntegerT], Counts]:
    """The distinct numbers in ascending order, and the count of each."""
    ordered, new = _sort_and_flag(numbers)
    first = np.flatnonzero(new)
    counts = np.empty_like(first)
    np.subtract(first[1:], first[:-1], out=counts[:-1])
    counts[-1:] = ordered.size - first[-1:]
    return ordered[first], counts


def distinct(numbers: NDArray[IntegerT]) -> NDArray[IntegerT]:
    """The distinct numbers in ascending order, in a third of the time of NumPy's own function, which hashes first."""
    ordered, new = _sort_and_flag(numbers)
    return ordered[new]


def zero_repeats(rows: NDArray[IntegerT]) -> tuple[NDArray[IntegerT], NDArray[np.intp]]:
    """The numbers of each row in ascending order, repetitions as 0, and the count of nonzero numbers per row."""
    ordered = np.sort(rows, axis=1)
    ordered[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = 0
    return ordered, (ordered > 0).sum(axis=1)


def _sort_and_flag(numbers: NDArray[IntegerT]) -> tuple[NDArray[IntegerT], NDArray[np.bool_]]:
    """The sorted numbers, and a flag for the first of each value."""
    ordered = np.sort(numbers)
    new = np.empty(ordered.size, dtype=np.bool_)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered, new


Codes = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Offsets = NDArray[np.intp]

# Ten slots for each word: with fewer, words would displace each other. A table for all words of a large crawl takes
# 8 MB, so it starts small.
_SLOTS_PER_WORD = 10
_FIRST_SLOT_BITS, _MAX_SLOT_BITS = 13, 19
# Bytes processed at once: bounds the tables of powers and keeps the arrays in the CPU cache.
_CHUNK_BYTES = 1 << 16
# Odd, so that it has an inverse modulo 2^64.
_HASH_BASE = 0x9E3779B97F4A7C15
_HASH_MULTIPLIER = np.uint64(0xC2B2AE3D27D4EB4F)
_SPACE = 32


@cache
def _powers(base: int) -> Hashes:
    """base^0, base^1, … modulo 2^64."""
    factors = np.full(_CHUNK_BYTES, base, dtype=np.uint64)
    factors[0] = 1
    return np.multiply.accumulate(factors)


class TermEncoder:
    """Encodes words with a direct-mapped hash table in front of a vocabulary.

    A word's hash is Σ byte·base^position, so that one cumulative sum gives the hashes of all words. Two words with the
    same 64-bit hash would be confused; this does not happen by chance.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._vocabulary_size = len(vocabulary)
        self._make_slots(_FIRST_SLOT_BITS)
        self._powers = _powers(_HASH_BASE)
        self._inverses = _powers(pow(_HASH_BASE, -1, 1 << 64))

    def _make_slots(self, bits: int) -> None:
        self._slot_bits = bits
        self._shift = np.uint64(64 - bits)
        self._hashes = np.zeros(1 << bits, dtype=np.uint64)
        self._codes = np.zeros(1 << bits, dtype=np.int64)

    def encode(self, flow: str) -> Codes:
        """The codes of a flow's words and marks, in order."""
        codes = self._encode_bytes(tokenize_marked_bytes(flow))
        return self._join_phrases(codes) if self.vocabulary.phrases else codes

    def count_terms(self, text: str) -> tuple[Terms, Counts]:
        """The distinct terms of a text, without stop words and noise, and the count of each."""
        codes = self._encode_bytes(tokenize_bytes(text))
        if self.vocabulary.phrases:
            codes = self._join_phrases(codes)
        return count_distinct(codes[codes > 0].astype(np.uint32))

    def _join_phrases(self, codes: Codes) -> Codes:
        return np.array(self.vocabulary.join_phrases(codes[codes != 0].tolist()), dtype=np.int64)

    def _encode_bytes(self, data: bytes) -> Codes:
        # The vocabulary evicted words, so their stems must be added again.
        if len(self.vocabulary) < self._vocabulary_size:
            self._hashes.fill(0)
        while len(self.vocabulary) * _SLOTS_PER_WORD > 1 << self._slot_bits < 1 << _MAX_SLOT_BITS:
            self._make_slots(self._slot_bits + 2)
        chunks = [self._encode_chunk(chunk) for chunk in _split_chunks(data)]
        self._vocabulary_size = len(self.vocabulary)
        return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)

    def _encode_chunk(self, chunk: bytes) -> Codes:
        # A single word that is longer than a chunk.
        if len(chunk) > _CHUNK_BYTES:
            return np.array([self.vocabulary[word] for word in chunk.decode().split()], dtype=np.int64)
        letters = np.frombuffer(chunk, dtype=np.uint8)
        inside = letters != _SPACE
        # The first and the last byte are spaces.
        edges = (inside[1:] != inside[:-1]).nonzero()[0]
        before, last = edges[::2], edges[1::2]
        sums = (letters * self._powers[: letters.size]).cumsum()
        hashes = (sums.take(last) - sums.take(before)) * self._inverses.take(before)
        self._count_surfaces(chunk, before + 1, last + 1)
        return self._look_up(chunk, hashes, before, last)

    def _look_up(self, chunk: bytes, hashes: Hashes, before: Offsets, last: Offsets) -> Codes:
        slots = ((hashes * _HASH_MULTIPLIER) >> self._shift).view(np.intp)
        # Half the time of indexing with unsigned numbers (measured).
        codes: Codes = self._codes.take(slots)
        missed = (self._hashes.take(slots) != hashes).nonzero()[0]
        if missed.size:
            found = _cut_words(chunk, before[missed] + 1, last[missed] + 1)
            codes[missed] = list(map(self.vocabulary.__getitem__, found))
            self._hashes[slots[missed]] = hashes[missed]
            self._codes[slots[missed]] = codes[missed]
        return codes

    def _count_surfaces(self, chunk: bytes, starts: Offsets, ends: Offsets) -> None:
        """Count a sample of the words as surface forms."""
        wanted = self.vocabulary.sample(starts.size)
        self.vocabulary.count(_cut_words(chunk, starts[wanted], ends[wanted]))


def _cut_words(chunk: bytes, starts: Offsets, ends: Offsets) -> list[str]:
    """The words of a chunk at these positions. One decoding of a text in ASCII is faster than one for each word."""
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    if chunk.isascii():
        text = chunk.decode("ascii")
        return [text[start:end] for start, end in spans]
    return [chunk[start:end].decode() for start, end in spans]


def _split_chunks(data: bytes) -> list[bytes]:
    """Chunks that begin and end with a space, split between words; longer than a chunk only for a longer word."""
    if len(data) + 2 <= _CHUNK_BYTES:
        return [b" %b " % data]
    chunks: list[bytes] = []
    start = 0
    while start < len(data):
        end = start + _CHUNK_BYTES - 2
        if end < len(data):
            cut = data.rfind(b" ", start, end)
            end = cut if cut > start else data.find(b" ", end)
            end = len(data) if end < 0 else end
        chunks.append(b" %b " % data[start:end])
        start = end
    return chunks


_DATA_FILE = "data/background.npz"
_CACHE_SIZE = 200_000


class BackgroundIdf(dict[int, float]):
    """term -> idf, computed on first use; a term outside the table has a frequency of 0.

    idf = ln(1 + documents / (frequency + 1)): positive for every term once there is a document.
    """

    def __init__(self, documents: int, terms: NDArray[np.uint32], frequencies: NDArray[np.uint32]) -> None:
        order = np.argsort(terms)
        self.documents = documents
        self._terms = terms[order]
        self._frequencies = frequencies[order]
        super().__init__()

    def __missing__(self, term: int) -> float:
        if len(self) >= _CACHE_SIZE:
            self.clear()
        self[term] = idf = log(1.0 + self.documents / (self.frequency(term) + 1.0))
        return idf

    def __reduce__(self) -> tuple[type["BackgroundIdf"], tuple[int, NDArray[np.uint32], NDArray[np.uint32]]]:
        return BackgroundIdf, (self.documents, self._terms, self._frequencies)

    def frequency(self, term: int) -> int:
        """The number of documents that contain the term; 0 for a term outside the table."""
        if not 0 <= term < 1 << 32:
            return 0
        at = int(self._terms.searchsorted(np.uint32(term)))
        return int(self._frequencies[at]) if at < len(self._terms) and self._terms[at] == term else 0

    def idf(self, term: int) -> float:
        """The smoothed inverse document frequency."""
        return self[term]

    def weigh(self, frequencies: Mapping[int, float]) -> dict[int, float]:
        """Counts or term frequencies times idf."""
        return {term: value * self[term] for term, value in frequencies.items()}


def load_default_idf() -> BackgroundIdf:
    """The table shipped with the package: the most common stems and words of general English."""
    return idf_from_bytes(files("opilio.text").joinpath(_DATA_FILE).read_bytes())


def build_idf(documents: Iterable[Iterable[int]], limit: int | None = None) -> BackgroundIdf:
    """A table of documents given as terms, with the `limit` most common terms."""
    frequencies: Counter[int] = Counter()
    total = 0
    for document in documents:
        frequencies.update(set(document))
        total += 1
    most_common = frequencies.most_common(limit)
    terms = np.array([term for term, _ in most_common], dtype=np.uint32)
    return BackgroundIdf(total, terms, np.array([n for _, n in most_common], dtype=np.uint32))


def idf_to_bytes(background: BackgroundIdf) -> bytes:
    """The table as a compressed NumPy archive."""
    _, (documents, terms, frequencies) = background.__reduce__()
    target = io.BytesIO()
    np.savez_compressed(target, documents=np.array(documents), terms=terms, frequencies=frequencies)
    return target.getvalue()


def idf_from_bytes(data: bytes) -> BackgroundIdf:
    """The table from the bytes that `idf_to_bytes` returned."""
    with np.load(io.BytesIO(data), allow_pickle=False) as table:
        return BackgroundIdf(int(table["documents"]), table["terms"], table["frequencies"])
