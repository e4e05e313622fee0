"""The features of one link as a packed row: made by the ranker, kept by the frontier, scored by the committee."""

import zlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from opilio.learn.wordmodel import BUCKETS

URL, ANCHOR, AROUND, HEADING = 1, 2, 3, 4
WORDS = 30
PREFIXES = 4  # host and up to three directories
DENSE = (
    *("url", "anchor", "parent", "around", "same_host", "textless", "path_depth", "query", "galaxy"),
    *("tgraph", "osm", "layer"),
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


def hashed(kinds: NDArray[np.uint64], terms: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Terms as indices of the model, 0 for none; `kinds` says for each column which kind of text it is from: the same
    word elsewhere is another feature."""
    salted = (terms.astype(np.uint64) + (kinds << np.uint64(33))) * np.uint64(0x9E3779B97F4A7C15)
    mixed = salted >> np.uint64(40)
    return np.where(terms > 0, mixed % np.uint64(BUCKETS - 1) + np.uint64(1), 0).astype(np.uint32)


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


@lru_cache(maxsize=1 << 16)  # the links of a page share their directories
def _prefixes(directory: str) -> tuple[int, ...]:
    parts = directory.split("/")
    hashes = [text_hash("/".join(parts[: n + 1])) for n in range(min(len(parts), PREFIXES))]
    return tuple(hashes + hashes[-1:] * (PREFIXES - len(hashes)))


def unpacked(rows: list[bytes]) -> LinkFeatures:
    """Packed rows as one array."""
    result: LinkFeatures = np.frombuffer(b"".join(rows), dtype=PACKED)
    return result
