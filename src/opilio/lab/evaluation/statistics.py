"""Intervals and tests over topics × seed sets. Pure; the random generator is passed in.

Runs of one topic are not independent: the bootstrap draws whole topics first, then runs within them
(literature.md §4, rule 4). Nothing here decides what is significant: it only reports.
"""

from collections.abc import Hashable, Sequence
from math import erfc, sqrt

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.lab.evaluation.metrics import mid_ranks

# 2^25 sign patterns by dynamic programming take no time; above, the normal approximation is close enough.
MAX_EXACT_PAIRS = 25


class ConfidenceInterval(msgspec.Struct, frozen=True):
    mean: float
    low: float
    high: float
    n: int


def bootstrap_mean(
    values: Sequence[float],
    rng: np.random.Generator,
    groups: Sequence[Hashable] | None = None,
    level: float = 0.95,
    resamples: int = 2000,
) -> ConfidenceInterval:
    """Mean with a percentile bootstrap interval; `groups` (topics) are drawn first, then runs inside them."""
    data = np.asarray(values, dtype=np.float64)
    if not len(data):
        return ConfidenceInterval(0.0, 0.0, 0.0, 0)
    clusters = _clusters(data, groups)
    means = _flat_means(data, rng, resamples) if clusters is None else _nested_means(clusters, rng, resamples)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return ConfidenceInterval(float(data.mean()), float(low), float(high), len(data))


def _clusters(data: NDArray[np.float64], groups: Sequence[Hashable] | None) -> list[NDArray[np.float64]] | None:
    if groups is None:
        return None
    if len(groups) != len(data):
        raise ValueError("values and groups differ in length")
    members: dict[Hashable, list[float]] = {}
    for group, value in zip(groups, data.tolist(), strict=True):
        members.setdefault(group, []).append(value)
    return [np.array(m) for m in members.values()]


def _flat_means(data: NDArray[np.float64], rng: np.random.Generator, resamples: int) -> NDArray[np.float64]:
    means: NDArray[np.float64] = data[rng.integers(0, len(data), (resamples, len(data)))].mean(axis=1)
    return means


def _nested_means(clusters: list[NDArray[np.float64]], rng: np.random.Generator, resamples: int) -> NDArray[np.float64]:
    picks = rng.integers(0, len(clusters), (resamples, len(clusters)))
    totals = np.zeros(resamples)
    sizes = np.zeros(resamples)
    for number, members in enumerate(clusters):
        rows, _ = np.nonzero(picks == number)
        drawn = members[rng.integers(0, len(members), (len(rows), len(members)))].sum(axis=1)
        np.add.at(totals, rows, drawn)
        np.add.at(sizes, rows, len(members))
    return totals / sizes


class PairedTest(msgspec.Struct, frozen=True):
    """Is one side better? Wilcoxon signed-rank (two-sided), with two effect sizes.

    `rank_biserial` is in -1..1 (share of rank sum won minus lost), `dz` the mean difference in standard
    deviations of the differences (0 when they don't vary).
    """

    difference: float
    p_value: float
    rank_biserial: float
    dz: float
    wins: int
    losses: int
    n: int


def paired_test(ours: Sequence[float], theirs: Sequence[float]) -> PairedTest:
    """Compare two strategies over the same topics and seed sets; zero differences are left out of the ranks."""
    if len(ours) != len(theirs):
        raise ValueError("a paired test needs pairs")
    gaps = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    moved = gaps[gaps != 0]
    mean = float(gaps.mean()) if len(gaps) else 0.0
    if not len(moved):
        return PairedTest(mean, 1.0, 0.0, 0.0, 0, 0, len(gaps))
    ranks = mid_ranks(np.abs(moved))
    won, lost = float(ranks[moved > 0].sum()), float(ranks[moved < 0].sum())
    spread = float(gaps.std(ddof=1)) if len(gaps) > 1 else 0.0
    return PairedTest(
        difference=mean,
        p_value=_signed_rank_p(ranks, min(won, lost)),
        rank_biserial=(won - lost) / (won + lost),
        dz=mean / spread if spread else 0.0,
        wins=int((gaps > 0).sum()),
        losses=int((gaps < 0).sum()),
        n=len(gaps),
    )


def _signed_rank_p(ranks: NDArray[np.float64], smaller: float) -> float:
    if len(ranks) <= MAX_EXACT_PAIRS:
        return _exact_p(ranks, smaller)
    n = len(ranks)
    _, ties = np.unique(ranks, return_counts=True)
    variance = n * (n + 1) * (2 * n + 1) / 24 - float((ties**3 - ties).sum()) / 48
    return min(1.0, erfc(abs(smaller - n * (n + 1) / 4) / sqrt(2 * variance)))


def _exact_p(ranks: NDArray[np.float64], smaller: float) -> float:
    """Share of all sign patterns whose smaller rank sum is as small; doubled ranks make ties whole numbers."""
    doubled = np.rint(ranks * 2).astype(np.int64)
    ways = np.zeros(int(doubled.sum()) + 1)
    ways[0] = 1.0
    for rank in doubled:
        ways[rank:] = ways[rank:] + ways[: len(ways) - rank]
    tail = ways[: round(smaller * 2) + 1].sum()
    return min(1.0, float(2 * tail / ways.sum()))


def holm_correction(p_values: Sequence[float]) -> list[float]:
    """p values corrected for multiple tests (Holm's step-down)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected = [0.0] * len(p_values)
    floor = 0.0
    for step, i in enumerate(order):
        floor = max(floor, min(1.0, p_values[i] * (len(p_values) - step)))
        corrected[i] = floor
    return corrected
