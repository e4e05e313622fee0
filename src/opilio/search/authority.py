"""The authority of pages: PageRank over the links between the pages of a collection.

Links within a host count less: that a site links its own pages to each other is no recommendation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from opilio.rank.link_graph import LinkEdges, pagerank
from opilio.search.candidates import Float32Array, KeyArray, ScoreArray

IntArray = np.ndarray[Any, np.dtype[np.int64]]

DAMPING = 0.85
MAX_ITERATIONS = 40
CONVERGENCE_TOLERANCE = 1e-6
SAME_HOST_WEIGHT = 0.3


def compute_authority(keys: KeyArray, hosts: IntArray, targets: Sequence[bytes]) -> Float32Array:
    """The authority of pages in 0..1, on a logarithmic scale: 0 for the least linked pages.

    `keys` are sorted; `hosts` is the number of each page's host; `targets` are the keys each page links to, as int64.
    """
    count = len(keys)
    if not count:
        return np.zeros(0, dtype=np.float32)
    sources, ends = _edges(keys, targets)
    weights = np.where(hosts[sources] == hosts[ends], SAME_HOST_WEIGHT, 1.0)
    rank = pagerank(
        LinkEdges(sources, ends, weights),
        np.full(count, 1.0 / count),
        damping=DAMPING,
        iterations=MAX_ITERATIONS,
        tolerance=CONVERGENCE_TOLERANCE,
    )
    return _scaled(rank, count)


def _edges(keys: KeyArray, targets: Sequence[bytes]) -> tuple[IntArray, IntArray]:
    """Links between pages, as indices into `keys`, without links to other pages and to the page itself."""
    sizes = np.array([len(blob) // 8 for blob in targets], dtype=np.int64)
    named = np.frombuffer(b"".join(targets), dtype=np.int64)
    sources = np.repeat(np.arange(len(keys)), sizes)
    ends = np.searchsorted(keys, named).clip(max=len(keys) - 1)
    known = (keys[ends] == named) & (ends != sources)
    return sources[known], ends[known]


def _scaled(rank: ScoreArray, count: int) -> Float32Array:
    least, most = float(rank.min()), float(rank.max())
    if most <= least * (1 + 1e-9) or count == 1:
        return np.zeros(count, dtype=np.float32)
    scaled: Float32Array = (np.log(rank / least) / np.log(most / least)).astype(np.float32)
    return scaled
