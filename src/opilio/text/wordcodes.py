"""A page's flow to codes (terms, marks, 0 for what does not count) without a Python object per word.

Words are found, hashed and looked up in whole arrays; only words whose slot holds another one are cut out of the text
and asked of the vocabulary, whose answers these are. Cheaper than split and one dictionary lookup per word
(benchmarks/text). Must not: decide what a word is (the tokeniser does) or what it means (the vocabulary does).
"""

import numpy as np
from numpy.typing import NDArray

from opilio.text.counting import Counts, Terms, counted
from opilio.text.tokens import marked_bytes, word_bytes
from opilio.text.vocabulary import Vocabulary

Codes = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Offsets = NDArray[np.intp]

_SLOT_BITS = 19  # some ten times the words of a crawl: fewer would share slots and be asked for again and again
_CHUNK = 1 << 16  # bytes worked on at once: bounds the tables of powers, and the arrays stay in the cache
_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64
_MIX = np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(64 - _SLOT_BITS)
_BLANK = 32


def _powers(base: int) -> Hashes:
    """base^0, base^1, … modulo 2^64."""
    factors = np.full(_CHUNK, base, dtype=np.uint64)
    factors[0] = 1
    return np.multiply.accumulate(factors)


class WordCodes:
    """Looks words up in a table with one place per slot, in front of a vocabulary.

    A word's hash is Σ byte·base^position, so that the hashes of all words come out of one running sum. Two words of
    one page that share all 64 bits would be taken for each other: never by chance.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._known = len(vocabulary)
        self._hashes = np.zeros(1 << _SLOT_BITS, dtype=np.uint64)
        self._codes = np.zeros(1 << _SLOT_BITS, dtype=np.int64)
        self._powers = _powers(_BASE)
        self._inverses = _powers(pow(_BASE, -1, 1 << 64))

    def of(self, flow: str) -> Codes:
        """The codes of a flow's words and marks, in order."""
        return self._of(marked_bytes(flow))

    def counts(self, text: str) -> tuple[Terms, Counts]:
        """The distinct terms of a text, without stop words and noise, and how often each stands there."""
        codes = self._of(word_bytes(text))
        return counted(codes[codes > 0].astype(np.uint32))

    def _of(self, data: bytes) -> Codes:
        if len(self.vocabulary) < self._known:  # it has forgotten words, so their stems must be learnt again
            self._hashes.fill(0)
        chunks = [self._coded(chunk) for chunk in _chunks(data)]
        self._known = len(self.vocabulary)
        return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)

    def _coded(self, chunk: bytes) -> Codes:
        if len(chunk) > _CHUNK:  # one endless word
            return np.array([self.vocabulary[word] for word in chunk.decode().split()], dtype=np.int64)
        letters = np.frombuffer(chunk, dtype=np.uint8)
        inside = letters != _BLANK
        edges = (inside[1:] != inside[:-1]).nonzero()[0]  # the first and the last byte are blank
        before, last = edges[::2], edges[1::2]
        sums = (letters * self._powers[: letters.size]).cumsum()
        hashes = (sums.take(last) - sums.take(before)) * self._inverses.take(before)
        self._count(chunk, before + 1, last + 1)
        return self._looked_up(chunk, hashes, before, last)

    def _looked_up(self, chunk: bytes, hashes: Hashes, before: Offsets, last: Offsets) -> Codes:
        slots = ((hashes * _MIX) >> _SHIFT).view(np.intp)
        codes: Codes = self._codes.take(slots)  # half the time of indexing with unsigned numbers (measured)
        missed = (self._hashes.take(slots) != hashes).nonzero()[0]
        if missed.size:
            spans = zip((before[missed] + 1).tolist(), (last[missed] + 1).tolist(), strict=True)
            codes[missed] = [self.vocabulary[chunk[start:end].decode()] for start, end in spans]
            self._hashes[slots[missed]] = hashes[missed]
            self._codes[slots[missed]] = codes[missed]
        return codes

    def _count(self, chunk: bytes, starts: Offsets, ends: Offsets) -> None:
        """Have some words counted as surface forms."""
        wanted = self.vocabulary.wanted(starts.size)
        spans = zip(starts[wanted].tolist(), ends[wanted].tolist(), strict=True)
        self.vocabulary.count([chunk[start:end].decode() for start, end in spans])


def _chunks(data: bytes) -> list[bytes]:
    """Pieces that begin and end with a blank, cut between words; longer than a chunk only where one word is."""
    if len(data) + 2 <= _CHUNK:
        return [b" %b " % data]
    chunks: list[bytes] = []
    start = 0
    while start < len(data):
        end = start + _CHUNK - 2
        if end < len(data):
            cut = data.rfind(b" ", start, end)
            end = cut if cut > start else data.find(b" ", end)
            end = len(data) if end < 0 else end
        chunks.append(b" %b " % data[start:end])
        start = end
    return chunks
