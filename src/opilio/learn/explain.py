"""Why a committee holds a link as promising as it does: what every feature and word adds, and what siblings did.

How many relevant pages wait in the queue? The sum of the chances, corrected by how such chances came true of late.

A ranker's scores order links well before they are good probabilities, so they are compared with what became of the
last few hundred links. What is asked first is what looks best: the correction says most about links like those.
"""

from collections import deque

import msgspec
import numpy as np

from opilio.learn.committee import Committee
from opilio.learn.dense_model import FEATURE_NAMES
from opilio.learn.link_pool import MAX_CONTEXTS


class FeatureEffect(msgspec.Struct, frozen=True):
    """One feature: its value, the weight it has now, and their product, which is added to the logit."""

    name: str
    value: float
    weight: float
    effect: float


class SiblingSuccess(msgspec.Struct, frozen=True):
    """How the other links of one list on one page turned out; `page` is the number of that page among the contexts."""

    context: int
    fetched: int
    mean_reward: float


class LinkExplanation(msgspec.Struct, frozen=True):
    score: float  # what the committee gives the link now
    parts: list[FeatureEffect]
    words: list[tuple[int, float]]  # index of a hashed word, and what it adds
    siblings: list[SiblingSuccess]
    fetched: int  # outcomes that the committee had learnt from


def explain_link(committee: Committee, row: int) -> LinkExplanation:
    """Everything that makes the score of a held link."""
    where = np.array([row])
    rows, weights = committee.pool.rows, committee.dense.weights
    dense = committee.dense_features(where)[0]
    parts = [
        FeatureEffect(name, value, weight, value * weight)
        for name, value, weight in zip(FEATURE_NAMES, dense.tolist(), weights.tolist(), strict=True)
    ]
    words = rows["words"][row][rows["words"][row] > 0]
    effects = committee.words.weights[words] / np.sqrt(max(1, len(words)))
    score = float(committee.scores(where)[0])
    return LinkExplanation(
        score,
        parts,
        list(zip(words.tolist(), effects.tolist(), strict=True)),
        _siblings(committee, row),
        committee.visits_learned,
    )


def _siblings(committee: Committee, row: int) -> list[SiblingSuccess]:
    rows = committee.pool.rows
    used = int(min(rows["contexts"][row], MAX_CONTEXTS))
    groups = rows["groups"][row, :used]
    tries = committee._sibling_groups.tries(groups)
    means = committee._sibling_groups.rate(groups, 0.0, 1e-9)
    told = zip(tries.tolist(), means.tolist(), strict=True)
    return [SiblingSuccess(at, int(tried), mean) for at, (tried, mean) in enumerate(told) if tried]


CALIBRATION_WINDOW = 300
MIN_CALIBRATION_OUTCOMES = 30  # outcomes before anything is said
CALIBRATION_PRIOR = 0.5  # relevant pages, promised and come, that are imagined beside the seen ones


class _YieldState(msgspec.Struct, array_like=True):
    recent: list[tuple[float, bool]]
    predicted: float


class YieldEstimate:
    """`promise` is the sum of the chances of what is queued, as the ranker last told it."""

    def __init__(self) -> None:
        self.predicted = 0.0
        self._recent: deque[tuple[float, bool]] = deque(maxlen=CALIBRATION_WINDOW)

    def record(self, predicted: float, relevant: bool) -> None:
        """A link that was held this promising turned out to be relevant, or not."""
        self._recent.append((min(1.0, max(0.0, predicted)), relevant))

    @property
    def calibration(self) -> float:
        """How many relevant pages came for each one promised."""
        promised = sum(predicted for predicted, _ in self._recent)
        came = sum(relevant for _, relevant in self._recent)
        return (came + CALIBRATION_PRIOR) / (promised + CALIBRATION_PRIOR)

    @property
    def expected(self) -> float | None:
        """Relevant pages still to be found in the queue; None while too little was seen to say."""
        if len(self._recent) < MIN_CALIBRATION_OUTCOMES:
            return None
        return self.predicted * self.calibration

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(_YieldState(list(self._recent), self.predicted))

    def restore(self, state: bytes) -> None:
        kept = msgspec.msgpack.decode(state, type=_YieldState)
        self.predicted = kept.predicted
        self._recent = deque(kept.recent, CALIBRATION_WINDOW)
