"""The features of one link as a packed row: made by the ranker, kept by the frontier, scored by the committee."""

import numpy as np
from numpy.typing import NDArray

from opilio.learn.linkmodel import BUCKETS

URL, ANCHOR, AROUND, HEADING = 1, 2, 3, 4
WORDS = 30
DENSE = ("url", "anchor", "parent", "around", "same_host", "textless")
PACKED = np.dtype(
    [
        ("words", np.uint32, (WORDS,)),  # hashed words of URL, anchor, surroundings, heading; tag path; directory
        ("path", np.uint32),  # tag path: where on its page the link stands
        ("directory", np.uint32),
        ("host", np.uint32),
        ("dense", np.float16, (len(DENSE),)),
    ]
)

LinkFeatures = NDArray[np.void]


def hashed(kind: int, terms: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Terms of one kind of text as indices of the model, 0 for none; the same word elsewhere is another feature."""
    salted = terms.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(kind * 0x9E3779B9)
    mixed = salted >> np.uint64(40)
    return np.where(terms > 0, mixed % np.uint64(BUCKETS - 1) + np.uint64(1), 0).astype(np.uint32)


def unpacked(rows: list[bytes]) -> LinkFeatures:
    """Packed rows as one array."""
    result: LinkFeatures = np.frombuffer(b"".join(rows), dtype=PACKED)
    return result
