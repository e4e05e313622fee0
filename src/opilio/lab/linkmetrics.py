"""How good the ranker's priorities and the judge's verdicts were, apart from the crawl they steered. Pure.

S2-49 asks that the relevance calculator and the prioritiser be compared separately: here are their measures.
"""

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray


def rank_auc(scores: ArrayLike, outcomes: ArrayLike) -> float | None:
    """Chance that a link which paid was scored above one that did not (ties half); None without both kinds.

    >>> rank_auc([0.9, 0.1, 0.5], [True, False, False])
    1.0
    """
    values, paid = _paired(scores, outcomes)
    positives = int(paid.sum())
    negatives = len(paid) - positives
    if not positives or not negatives:
        return None
    ranks = mid_ranks(values)
    return float((ranks[paid].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def mid_ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Ranks from 1, equal values sharing the middle of theirs.

    >>> mid_ranks([3, 1, 3]).tolist()
    [2.5, 1.0, 2.5]
    """
    _, group, sizes = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes)
    middles: NDArray[np.float64] = ends - (sizes - 1) / 2.0
    return middles[group]


def average_precision(scores: ArrayLike, outcomes: ArrayLike) -> float | None:
    """Mean precision at each paying link, best score first; links of one score count as one step."""
    values, paid = _paired(scores, outcomes)
    if not paid.any():
        return None
    order = np.argsort(-values, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(values[order]) != 0, True))
    gained = np.cumsum(paid[order])[ends]
    steps = np.diff(gained, prepend=0)
    return float((steps * gained / (ends + 1)).sum() / gained[-1])


class Bin(msgspec.Struct, frozen=True):
    """One bar of a reliability diagram: what was promised and what came."""

    promised: float
    paid: float
    links: int


def reliability(scores: ArrayLike, outcomes: ArrayLike, bins: int = 10) -> list[Bin]:
    """Links grouped by promised chance (scores in 0..1), empty groups left out."""
    values, paid = _paired(scores, outcomes)
    group = np.clip((values * bins).astype(np.int64), 0, bins - 1)
    members = [np.flatnonzero(group == b) for b in range(bins)]
    return [Bin(float(values[m].mean()), float(paid[m].mean()), len(m)) for m in members if len(m)]


def calibration_error(scores: ArrayLike, outcomes: ArrayLike, bins: int = 10) -> float:
    """Mean distance between promised and paid over the groups, weighted by their size."""
    table = reliability(scores, outcomes, bins)
    links = sum(b.links for b in table)
    return sum(b.links * abs(b.promised - b.paid) for b in table) / links if links else 0.0


class JudgeQuality(msgspec.Struct, frozen=True):
    """The page judge against the labels; pages that no label judges are left out before."""

    precision: float
    recall: float
    f1: float
    pages: int


def judge_quality(said: ArrayLike, truth: ArrayLike) -> JudgeQuality:
    """Precision, recall and F1 of verdicts (said relevant) against the truth."""
    claims, facts = np.asarray(said, dtype=bool), np.asarray(truth, dtype=bool)
    right = int((claims & facts).sum())
    precision = right / int(claims.sum()) if claims.any() else 0.0
    found = right / int(facts.sum()) if facts.any() else 0.0
    f1 = 2 * precision * found / (precision + found) if right else 0.0
    return JudgeQuality(precision, found, f1, len(facts))


def _paired(scores: ArrayLike, outcomes: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    values, paid = np.asarray(scores, dtype=np.float64), np.asarray(outcomes, dtype=bool)
    if values.shape != paid.shape:
        raise ValueError("scores and outcomes differ in length")
    return values, paid
