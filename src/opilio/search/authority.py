"""Authority in the link graph: PageRank over the pages of a collection. Pure; arrays in, arrays out.

Links between pages of one host count less: a site that links each of its pages from each other vouches for nothing.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from opilio.search.ranking import Float32Array, KeyArray, ScoreArray

IntArray = np.ndarray[Any, np.dtype[np.int64]]

DAMPING = 0.85
MAX_ITERATIONS = 40
CONVERGENCE_TOLERANCE = 1e-6  # the sum of all changes of one round
SAME_HOST_WEIGHT = 0.3  # weight of a link within a host


def compute_authority(keys: KeyArray, hosts: IntArray, targets: Sequence[bytes]) -> Float32Array:
    """The authority of pages in 0..1, on a logarithmic scale: 0 for a page that nobody links.

    `keys` are sorted; `hosts` number the host of each page; `targets` are the keys each page links to, as bytes.
    """
    count = len(keys)
    if not count:
        return np.zeros(0, dtype=np.float32)
    sources, ends = _edges(keys, targets)
    weights = np.where(hosts[sources] == hosts[ends], SAME_HOST_WEIGHT, 1.0)
    return _scaled(_ranks(count, sources, ends, weights), count)


def _edges(keys: KeyArray, targets: Sequence[bytes]) -> tuple[IntArray, IntArray]:
    """Links from page to page, as places in `keys`; links to pages outside and to oneself are left out."""
    sizes = np.array([len(blob) // 8 for blob in targets], dtype=np.int64)
    named = np.frombuffer(b"".join(targets), dtype=np.int64)
    sources = np.repeat(np.arange(len(keys)), sizes)
    ends = np.searchsorted(keys, named).clip(max=len(keys) - 1)
    known = (keys[ends] == named) & (ends != sources)
    return sources[known], ends[known]


def _ranks(count: int, sources: IntArray, ends: IntArray, weights: ScoreArray) -> ScoreArray:
    going_out = np.bincount(sources, weights, count)
    shares = weights / np.maximum(going_out[sources], 1e-12)
    # Pages without links pass their rank on to all
    without = going_out == 0
    rank = np.full(count, 1.0 / count)
    for _ in range(MAX_ITERATIONS):
        passed = np.bincount(ends, rank[sources] * shares, count) + rank[without].sum() / count
        after = (1.0 - DAMPING) / count + DAMPING * passed
        change = float(np.abs(after - rank).sum())
        rank = after
        if change < CONVERGENCE_TOLERANCE:
            break
    return rank


def _scaled(rank: ScoreArray, count: int) -> Float32Array:
    least, most = float(rank.min()), float(rank.max())
    if most <= least * (1 + 1e-9) or count == 1:
        return np.zeros(count, dtype=np.float32)
    scaled: Float32Array = (np.log(rank / least) / np.log(most / least)).astype(np.float32)
    return scaled
