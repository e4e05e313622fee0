"""What the words of a link say about it: an online model, and the packed features of a link.

`WordModel` is logistic over hashed words, with AdaGrad steps and bounded weights, so that contradictory labels produce
neither NaN nor unbounded weights. `WordValues` adds what the judge learned about words on pages: a page has more words
than its link, so these are known long before links with such words were followed. Packed features are made by the
ranker, stored by the frontier and scored by the committee.
"""

import zlib
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.logistic import sigmoid
from opilio.text.term_arrays import zero_repeats
from opilio.text.word_vectors import DIMENSIONS

WordIndices = NDArray[np.uint32]

WORD_BUCKETS = 1 << 18
MAX_WORD_WEIGHT = 6.0
# Examples with a smaller error are skipped: most links of a long crawl are predicted this well.
MIN_TRAINING_ERROR = 0.01


class _WordModelState(msgspec.Struct, array_like=True):
    used: bytes  # indices of nonzero weights
    weights: bytes
    squares: bytes


class WordModel:
    """logit = Σ of the words' weights / √(number of words). Index 0 is an empty slot with weight 0."""

    def __init__(self, rate: float = 0.15) -> None:
        self.rate = np.float32(rate)
        self.weights: NDArray[np.float32] = np.zeros(WORD_BUCKETS, dtype=np.float32)
        self._squares: NDArray[np.float32] = np.full(WORD_BUCKETS, 1e-2, dtype=np.float32)

    def logits(self, indices: WordIndices) -> NDArray[np.float64]:
        """One value per row of indices."""
        total: NDArray[np.float64] = self.weights.take(indices).sum(axis=1, dtype=np.float64)
        words: NDArray[np.int64] = np.count_nonzero(indices, axis=1)
        result: NDArray[np.float64] = total / np.sqrt(np.maximum(words, 1))
        return result

    def learn(self, indices: WordIndices, labels: NDArray[np.floating], offsets: NDArray[np.floating]) -> None:
        """Learn examples, one per row: words, labels (0..1), and the logits of the other features.

        All are predicted before any is learned, so a batch costs little more than one example.
        """
        words, counts = zero_repeats(indices)
        scales = 1.0 / np.sqrt(np.maximum(counts, 1))
        logits = offsets + self.weights.take(words).sum(axis=1, dtype=np.float64) * scales
        errors = sigmoid(logits) - np.clip(labels, 0.0, 1.0)
        trained = np.flatnonzero(np.abs(errors) >= MIN_TRAINING_ERROR)
        words = words[trained]
        used = words > 0
        at = words[used]
        steps = np.repeat((errors * scales)[trained].astype(np.float32), counts[trained])
        np.add.at(self._squares, at, steps * steps)
        np.subtract.at(self.weights, at, self.rate * steps / np.sqrt(self._squares[at]))
        self.weights[at] = np.clip(self.weights[at], -MAX_WORD_WEIGHT, MAX_WORD_WEIGHT)

    def snapshot(self) -> bytes:
        """Everything learned; only used weights are stored."""
        # A tiny step changes a weight without changing its sum of squares.
        moved = (self._squares > np.float32(1e-2)) | (self.weights != 0.0)
        used = np.flatnonzero(moved).astype(np.uint32)
        parts = (used, self.weights[used], self._squares[used])
        return msgspec.msgpack.encode(_WordModelState(*(p.tobytes() for p in parts)))

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot."""
        kept = msgspec.msgpack.decode(state, type=_WordModelState)
        used = np.frombuffer(kept.used, dtype=np.uint32)
        self.weights = np.zeros(WORD_BUCKETS, dtype=np.float32)
        self._squares = np.full(WORD_BUCKETS, 1e-2, dtype=np.float32)
        self.weights[used] = np.frombuffer(kept.weights, dtype=np.float32)
        self._squares[used] = np.frombuffer(kept.squares, dtype=np.float32)


URL_TEXT, ANCHOR_TEXT, AROUND_TEXT, HEADING_TEXT = 1, 2, 3, 4
# The number of words used of each kind of text, in this order.
WORD_SLOTS = {
    URL_TEXT: 8,
    ANCHOR_TEXT: 6,
    AROUND_TEXT: 10,
    HEADING_TEXT: 4,
}
LINK_WORDS = slice(0, WORD_SLOTS[URL_TEXT] + WORD_SLOTS[ANCHOR_TEXT])
CONTEXT_WORDS = slice(LINK_WORDS.stop, LINK_WORDS.stop + WORD_SLOTS[AROUND_TEXT] + WORD_SLOTS[HEADING_TEXT])
WORD_COUNT = CONTEXT_WORDS.stop + 2  # with tag path and directory as words
PREFIX_COUNT = 4  # host and up to three directories
DENSE_FIELDS = (
    *("url", "anchor", "parent", "around", "same_host", "textless", "path_depth", "query", "galaxy"),
    *("tgraph", "osm", "layer", "tswt", "genre", "s1"),
    "meaning",
)
LINK_FEATURES_DTYPE = np.dtype(
    [
        # Hashed words of URL, anchor, context and heading, then tag path and directory.
        ("words", np.uint32, (WORD_COUNT,)),
        # Hash of the tag path.
        ("path", np.uint32),
        # Host first; the last one is repeated.
        ("prefixes", np.uint32, (PREFIX_COUNT,)),
        ("dense", np.float16, (len(DENSE_FIELDS),)),
        # Meaning of the anchor, or of the URL's last part; zeros if unknown.
        ("meaning", np.int8, (DIMENSIONS,)),
    ]
)

LinkFeatures = NDArray[np.void]
_HASH_MULTIPLIER, _MASK_64 = 0x9E3779B97F4A7C15, (1 << 64) - 1


def hash_terms(kinds: NDArray[np.uint64], terms: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Terms as indices of the model, 0 for no term.

    `kinds` is the kind of text of each column: the same word in another kind of text is another feature.
    """
    salted = (terms.astype(np.uint64) + (kinds << np.uint64(33))) * np.uint64(_HASH_MULTIPLIER)
    mixed = salted >> np.uint64(40)
    return np.where(terms > 0, mixed % np.uint64(WORD_BUCKETS - 1) + np.uint64(1), 0).astype(np.uint32)


def hash_first_terms(kind: int, terms: Sequence[int], slots: int) -> list[int]:
    """The indices of the first terms of one text, padded with 0. Ten times as fast for a few terms.

    >>> kinds, terms = np.full(3, URL_TEXT, dtype=np.uint64), [7, 4_000_000_000]
    >>> hash_terms(kinds, np.array([*terms, 0])).tolist() == hash_first_terms(URL_TEXT, terms, 3)
    True
    """
    salt = kind << 33
    found = [
        (((t + salt) * _HASH_MULTIPLIER & _MASK_64) >> 40) % (WORD_BUCKETS - 1) + 1 if t > 0 else 0
        for t in terms[:slots]
    ]
    return found + [0] * (slots - len(found))


def hash_to_word(hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Hashes of tag paths or directories as indices of the model, like words."""
    result: NDArray[np.uint32] = hashes % np.uint32(WORD_BUCKETS - 1) + np.uint32(1)
    return result


# Links of one list share their tag path
@lru_cache(maxsize=1 << 14)
def hash_text(text: str) -> int:
    """A stable 32-bit hash of a text."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def url_prefixes(url: str) -> tuple[int, ...]:
    """Hashes of a URL's host and first directories; the deepest is repeated up to `PREFIX_COUNT`.

    >>> a, b = url_prefixes("http://example.org/x/1.html"), url_prefixes("http://example.org/x/2.html")
    >>> a == b, len(set(a)), len(set(url_prefixes("http://example.org/")))
    (True, 2, 1)
    """
    return _directory_prefixes(url.partition("://")[2].partition("?")[0].rpartition("/")[0])


# Links share their directories
@lru_cache(maxsize=1 << 14)
def _directory_prefixes(directory: str) -> tuple[int, ...]:
    parts = directory.split("/")
    hashes = [hash_text("/".join(parts[: n + 1])) for n in range(min(len(parts), PREFIX_COUNT))]
    return tuple(hashes + hashes[-1:] * (PREFIX_COUNT - len(hashes)))


def unpack_features(rows: list[bytes]) -> LinkFeatures:
    """Packed rows as one array."""
    result: LinkFeatures = np.frombuffer(b"".join(rows), dtype=LINK_FEATURES_DTYPE)
    return result


_TEXT_KINDS = np.array([[URL_TEXT], [ANCHOR_TEXT], [AROUND_TEXT], [HEADING_TEXT]], dtype=np.uint64)
_VALUE_SCALE = 0.25  # log-odds of words exceed 4
_MAX_VALUE = 1.5


class WordValues:
    """Values of words by hashed index, for all kinds of text. All are 0 at first."""

    def __init__(self) -> None:
        self._values: NDArray[np.float32] = np.zeros(WORD_BUCKETS, dtype=np.float32)

    def update(self, terms: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Replace all values; words that are not given have the value 0."""
        self._values[:] = 0.0
        self._values[hash_terms(_TEXT_KINDS, terms[None, :])] = values
        self._values[0] = 0.0

    def row_values(self, indices: WordIndices) -> NDArray[np.float64]:
        """One value per row: the sum divided by √(number of words), bounded."""
        total: NDArray[np.float64] = self._values.take(indices).sum(axis=1, dtype=np.float64)
        words = np.sqrt(np.maximum(np.count_nonzero(indices, axis=1), 1))
        bounded: NDArray[np.float64] = np.clip(_VALUE_SCALE * total / words, -_MAX_VALUE, _MAX_VALUE)
        return bounded
