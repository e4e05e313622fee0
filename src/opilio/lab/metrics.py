"""What a crawl was worth, from the order of its fetches and the truth about them. Pure.

Every measure counts *fetch attempts*: a 404, a redirect and a duplicate cost one like any page, for every
crawler and for the oracle (literature.md §4, fairness rule 1). Only robots.txt is free, for all. A crawl that
stops early keeps what it has: its curve is flat up to the budget.
"""

from collections.abc import Collection, Iterable, Sequence
from math import log2

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

Counts = NDArray[np.int64]
Rates = NDArray[np.float64]


def found_curve(hits: ArrayLike, budget: int | None = None) -> Counts:
    """Relevant pages found after 1, 2, … fetches, cut or held flat at the budget.

    >>> found_curve([True, False, True], budget=5).tolist()
    [1, 1, 2, 2, 2]
    """
    curve = np.cumsum(np.asarray(hits, dtype=bool), dtype=np.int64)
    if budget is None:
        return curve
    if len(curve) >= budget:
        return curve[:budget]
    last = int(curve[-1]) if len(curve) else 0
    return np.concatenate([curve, np.full(budget - len(curve), last, dtype=np.int64)])


def area(hits: ArrayLike, budget: int) -> int:
    """Area under relevant-found over fetches 1..budget."""
    return int(found_curve(hits, budget).sum())


def auc_vs_oracle(hits: ArrayLike, oracle_hits: ArrayLike, budget: int) -> float:
    """Area of the crawl divided by the oracle's with the same budget; 0 when the oracle finds nothing."""
    best = area(oracle_hits, budget)
    return area(hits, budget) / best if best else 0.0


def harvest_curve(hits: ArrayLike) -> Rates:
    """Relevant share of the first n fetches, for each n (precision rate of S0-30)."""
    curve = found_curve(hits)
    return curve / np.arange(1, len(curve) + 1, dtype=np.float64)


def harvest(hits: ArrayLike, after: int | None = None) -> float:
    """Relevant share of the first `after` fetches (all when not given); 0 for none."""
    cut = np.asarray(hits, dtype=bool)[:after]
    return float(cut.mean()) if len(cut) else 0.0


def windowed_harvest(hits: ArrayLike, window: int) -> Rates:
    """Relevant share of each block of `window` fetches (S2-43); the last block may be shorter."""
    if window < 1:
        raise ValueError("window must be at least 1")
    flags = np.asarray(hits, dtype=np.float64)
    blocks = range(0, len(flags), window)
    return np.array([flags[start : start + window].mean() for start in blocks], dtype=np.float64)


def recall(hits: ArrayLike, relevant: int) -> float:
    """Share found of all relevant pages that can be reached."""
    return float(np.count_nonzero(hits)) / relevant if relevant else 0.0


def bounded_recall(hits: ArrayLike, relevant: int) -> float:
    """Recall against what the number of fetches allows at most: min(fetches, relevant)."""
    most = min(len(np.asarray(hits)), relevant)
    return float(np.count_nonzero(hits)) / most if most else 0.0


def target_recall(fetched: Iterable[object], targets: Collection[object]) -> float:
    """Share of a fixed set of target pages among what was fetched."""
    return len(set(targets) & set(fetched)) / len(set(targets)) if targets else 0.0


def fetches_to(hits: ArrayLike, share: float, relevant: int) -> int | None:
    """Fetches until `share` of the relevant pages are found; None when that never happens.

    >>> fetches_to([True, False, True, True], 0.5, relevant=4)
    3
    """
    wanted = int(np.ceil(share * relevant - 1e-9))
    if wanted <= 0:
        return 0
    place = int(np.searchsorted(found_curve(hits), wanted))
    return place + 1 if place < len(np.asarray(hits)) else None


class Spread(msgspec.Struct, frozen=True):
    """Over how many hosts the relevant pages lie, and how evenly (entropy in bits)."""

    hosts: int
    entropy: float


def host_spread(hosts: Sequence[str]) -> Spread:
    """The spread of relevant pages, given the host of each.

    >>> host_spread(["a", "a", "b", "b"])
    Spread(hosts=2, entropy=1.0)
    """
    if not hosts:
        return Spread(0, 0.0)
    counts: dict[str, int] = {}
    for host in hosts:
        counts[host] = counts.get(host, 0) + 1
    shares = [n / len(hosts) for n in counts.values()]
    return Spread(len(counts), -sum(p * log2(p) for p in shares) + 0.0)


def checkpoints(hits: ArrayLike, at: Sequence[int]) -> list[tuple[int, float]]:
    """Harvest after given numbers of fetches, those the crawl reached (tables of S0-32 and S4-24)."""
    rates = harvest_curve(hits)
    return [(n, float(rates[n - 1])) for n in at if 0 < n <= len(rates)]


def curve_points(hits: ArrayLike, most: int = 1000) -> list[tuple[int, int]]:
    """The found curve as (fetched, found) pairs for a file: every step, or evenly thinned to `most` and the last."""
    curve = found_curve(hits)
    step = max(1, -(-len(curve) // most))
    picked = list(range(step - 1, len(curve), step))
    if len(curve) and (not picked or picked[-1] != len(curve) - 1):
        picked.append(len(curve) - 1)
    return [(i + 1, int(curve[i])) for i in picked]
