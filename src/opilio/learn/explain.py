"""Explains a committee's score of a link, and estimates how many relevant pages are left in the queue.

The estimate is the sum of the probabilities of the queued links, calibrated by the outcomes of the last few hundred
links: scores order links well before they are good probabilities. The best links are fetched first, so the calibration
is most accurate for links like those.
"""

from collections import deque
from collections.abc import Mapping

import msgspec
import numpy as np

from opilio.core.protocols import FeatureEffect, LinkExplanation, SiblingSuccess
from opilio.learn.committee import Committee
from opilio.learn.link_pool import MAX_CONTEXTS
from opilio.learn.logistic import FEATURE_NAMES, MEANING_FEATURES

UNKNOWN_WORDS = "words that can't be read back"


def explain_link(committee: Committee, row: int, names: Mapping[int, str]) -> LinkExplanation:
    """All contributions to the score of a link in the pool. The pool has hashed words; `names` are their labels."""
    where = np.array([row])
    rows, weights = committee.pool.rows, committee.dense.weights
    dense = committee.dense_features(where)[0]
    parts = [
        FeatureEffect(name, value, weight, value * weight)
        for name, value, weight in zip(FEATURE_NAMES, dense.tolist(), weights.tolist(), strict=True)
        if name not in MEANING_FEATURES
    ]
    parts += committee.meaning_effects(row)
    words = rows["words"][row][rows["words"][row] > 0]
    effects = committee.words.weights[words] / np.sqrt(max(1, len(words)))
    by_name: dict[str, float] = {}
    for word, effect in zip(words.tolist(), effects.tolist(), strict=True):
        name = names.get(word, UNKNOWN_WORDS)
        by_name[name] = by_name.get(name, 0.0) + effect
    score = float(committee.scores(where)[0])
    return LinkExplanation(
        score,
        parts,
        list(by_name.items()),
        _siblings(committee, row),
        committee.visits_learned,
    )


def _siblings(committee: Committee, row: int) -> list[SiblingSuccess]:
    rows = committee.pool.rows
    used = int(min(rows["contexts"][row], MAX_CONTEXTS))
    groups = rows["groups"][row, :used]
    tries = committee._sibling_groups.tries(groups)
    means = committee._sibling_groups.rate(groups, 0.0, 1e-9)
    outcomes = zip(tries.tolist(), means.tolist(), strict=True)
    return [SiblingSuccess(at, int(tried), mean) for at, (tried, mean) in enumerate(outcomes) if tried]


CALIBRATION_WINDOW = 300
MIN_CALIBRATION_OUTCOMES = 30  # outcomes before an estimate is given
CALIBRATION_PRIOR = 0.5  # pseudo-count of predicted and of actual relevant pages


class _YieldState(msgspec.Struct, array_like=True):
    recent: list[tuple[float, bool]]
    predicted: float


class YieldEstimate:
    """Estimates the relevant pages in the queue. `predicted` is the ranker's sum of the queued links' probabilities."""

    def __init__(self) -> None:
        self.predicted = 0.0
        self._recent: deque[tuple[float, bool]] = deque(maxlen=CALIBRATION_WINDOW)

    def record(self, predicted: float, relevant: bool) -> None:
        """Add the outcome of a link with its predicted probability."""
        self._recent.append((min(1.0, max(0.0, predicted)), relevant))

    @property
    def calibration(self) -> float:
        """The ratio of actual to predicted relevant pages."""
        predicted_sum = sum(predicted for predicted, _ in self._recent)
        actual = sum(relevant for _, relevant in self._recent)
        return (actual + CALIBRATION_PRIOR) / (predicted_sum + CALIBRATION_PRIOR)

    @property
    def expected(self) -> float | None:
        """The estimated number of relevant pages in the queue; None while there are too few outcomes."""
        if len(self._recent) < MIN_CALIBRATION_OUTCOMES:
            return None
        return self.predicted * self.calibration

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(_YieldState(list(self._recent), self.predicted))

    def restore(self, state: bytes) -> None:
        kept = msgspec.msgpack.decode(state, type=_YieldState)
        self.predicted = kept.predicted
        self._recent = deque(kept.recent, CALIBRATION_WINDOW)
