"""Why a committee holds a link as promising as it does: what every feature and word adds, and what siblings did."""

import msgspec
import numpy as np

from opilio.learn.committee import Committee
from opilio.learn.densefeatures import NAMES
from opilio.learn.linkqueue import CONTEXTS


class Part(msgspec.Struct, frozen=True):
    """One feature: its value, the weight it has now, and their product, which is added to the logit."""

    name: str
    value: float
    weight: float
    effect: float


class Siblings(msgspec.Struct, frozen=True):
    """How the other links of one list on one page turned out; `page` is the number of that page among the contexts."""

    context: int
    fetched: int
    mean_reward: float


class Explanation(msgspec.Struct, frozen=True):
    score: float  # what the committee gives the link now
    parts: list[Part]
    words: list[tuple[int, float]]  # index of a hashed word, and what it adds
    siblings: list[Siblings]
    fetched: int  # outcomes that the committee had learnt from


def explain(committee: Committee, row: int) -> Explanation:
    """Everything that makes the score of a held link."""
    where = np.array([row])
    rows, weights = committee.queue.rows, committee.dense.weights
    dense = committee.dense_of(where)[0]
    parts = [
        Part(name, value, weight, value * weight)
        for name, value, weight in zip(NAMES, dense.tolist(), weights.tolist(), strict=True)
    ]
    words = rows["words"][row][rows["words"][row] > 0]
    effects = committee.words.weights[words] / np.sqrt(max(1, len(words)))
    score = float(committee.scores(where)[0])
    return Explanation(
        score,
        parts,
        list(zip(words.tolist(), effects.tolist(), strict=True)),
        _siblings(committee, row),
        committee.fetched,
    )


def _siblings(committee: Committee, row: int) -> list[Siblings]:
    rows = committee.queue.rows
    used = int(min(rows["contexts"][row], CONTEXTS))
    groups = rows["groups"][row, :used]
    tries = committee._groups.seen(groups)
    means = committee._groups.rate(groups, 0.0, 1e-9)
    told = zip(tries.tolist(), means.tolist(), strict=True)
    return [Siblings(at, int(tried), mean) for at, (tried, mean) in enumerate(told) if tried]
