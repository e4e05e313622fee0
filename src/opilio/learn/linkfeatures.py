"""The features of one link as a packed row: made by the ranker, kept by the frontier, scored by the committee."""

import zlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from opilio.learn.wordmodel import BUCKETS

URL, ANCHOR, AROUND, HEADING = 1, 2, 3, 4
SLOTS = {URL: 8, ANCHOR: 6, AROUND: 10, HEADING: 4}  # the first so many words of each kind of text, in this order
AT_IT = slice(0, SLOTS[URL] + SLOTS[ANCHOR])
AROUND_IT = slice(AT_IT.stop, AT_IT.stop + SLOTS[AROUND] + SLOTS[HEADING])
WORDS = AROUND_IT.stop + 2  # tag path and directory count as words
PREFIXES = 4  # host and up to three directories
DENSE = (
    *("url", "anchor", "parent", "around", "same_host", "textless", "path_depth", "query", "galaxy"),
    *("tgraph", "osm", "layer", "tswt", "genre", "s1"),
)
PACKED = np.dtype(
    [
        ("words", np.uint32, (WORDS,)),  # hashed words of URL, anchor, surroundings, heading; tag path; directory
        ("path", np.uint32),  # tag path: where on its page the link stands
        ("prefixes", np.uint32, (PREFIXES,)),  # host first; the last one is repeated
        ("dense", np.float16, (len(DENSE),)),
    ]
)

LinkFeatures = NDArray[np.void]
_MIX, _64_BITS = 0x9E3779B97F4A7C15, (1 << 64) - 1


def hashed(kinds: NDArray[np.uint64], terms: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Terms as indices of the model, 0 for none; `kinds` says for each column which kind of text it is from: the same
    word elsewhere is another feature."""
    salted = (terms.astype(np.uint64) + (kinds << np.uint64(33))) * np.uint64(_MIX)
    mixed = salted >> np.uint64(40)
    return np.where(terms > 0, mixed % np.uint64(BUCKETS - 1) + np.uint64(1), 0).astype(np.uint32)


def hashed_few(kind: int, terms: Sequence[int], slots: int) -> list[int]:
    """The same for the first terms of one text, filled up with 0: for a handful this is ten times as fast.

    >>> kinds, terms = np.full(3, URL, dtype=np.uint64), [7, 4_000_000_000]
    >>> hashed(kinds, np.array([*terms, 0])).tolist() == hashed_few(URL, terms, 3)
    True
    """
    salt = kind << 33
    found = [(((t + salt) * _MIX & _64_BITS) >> 40) % (BUCKETS - 1) + 1 if t > 0 else 0 for t in terms[:slots]]
    return found + [0] * (slots - len(found))


def as_word(hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Where on a page a link stands and where on its host it leads, as indices of the model like words."""
    result: NDArray[np.uint32] = hashes % np.uint32(BUCKETS - 1) + np.uint32(1)
    return result


@lru_cache(maxsize=1 << 16)  # links of one list share their tag path
def text_hash(text: str) -> int:
    """32 bits of a text, the same everywhere."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def prefixes_of(url: str) -> tuple[int, ...]:
    """Hashes of a URL's host and first directories, the deepest repeated to the end.

    >>> a, b = prefixes_of("http://example.org/x/1.html"), prefixes_of("http://example.org/x/2.html")
    >>> a == b, len(set(a)), len(set(prefixes_of("http://example.org/")))
    (True, 2, 1)
    """
    return _prefixes(url.partition("://")[2].partition("?")[0].rpartition("/")[0])


@lru_cache(maxsize=1 << 16)  # links share their directories
def _prefixes(directory: str) -> tuple[int, ...]:
    parts = directory.split("/")
    hashes = [text_hash("/".join(parts[: n + 1])) for n in range(min(len(parts), PREFIXES))]
    return tuple(hashes + hashes[-1:] * (PREFIXES - len(hashes)))


def unpacked(rows: list[bytes]) -> LinkFeatures:
    """Packed rows as one array."""
    result: LinkFeatures = np.frombuffer(b"".join(rows), dtype=PACKED)
    return result
