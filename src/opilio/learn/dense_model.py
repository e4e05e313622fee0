"""A small Bayesian logistic regression over a few dense features, fitted again and again to the latest examples.

The prior is a guess with a strength: weights begin at the papers' scores and move only as far as the evidence
pushes them. Newton's method on at most `MAX_EXAMPLES` examples; a dozen features make that cheaper than thinking
about it.

A dense model whose newcomers have to earn their seat: features that may help on one web and mislead on another.

Two models learn side by side, one without the features on trial. Before an example is learnt both foretell it; the
whole one is asked only while it has been the better prophet. So a feature that tells nothing changes no score, and one
that tells is heard after some dozens of visits. Pure: the same examples give the same answer.

The dense features of a queued link: what they are called, where each stands, what it weighs at first.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.logistic import MAX_LOGIT, sigmoid

Matrix = NDArray[np.float64]
MAX_EXAMPLES = 1_024
NEWTON_STEPS = 4
# A step that moves no weight farther is the last one: mostly the second
CONVERGENCE_TOLERANCE = 1e-3
# Examples between two fits, when there are many: by then one more changes little
MAX_FIT_INTERVAL = 32


class _DenseModelState(msgspec.Struct, array_like=True):
    rows: bytes
    labels: bytes
    offsets: bytes
    weights: bytes
    seen: int


class DenseModel:
    """P(pays) = σ(offset + x·w), w ~ Normal(prior, 1/strength); one strength, or one for each weight."""

    def __init__(self, prior: NDArray[np.floating], strength: float | Matrix = 1.0, every: int = 8) -> None:
        self.prior: Matrix = np.array(prior, dtype=np.float64)
        self.weights = self.prior.copy()
        self.strength = strength
        self.fit_every = every
        self.seen = 0
        self._rows: Matrix = np.zeros((MAX_EXAMPLES, len(self.prior)))
        self._labels: Matrix = np.zeros(MAX_EXAMPLES)
        self._offsets: Matrix = np.zeros(MAX_EXAMPLES)

    def logits(self, rows: NDArray[np.floating]) -> Matrix:
        result: Matrix = rows @ self.weights
        return result

    def learn(self, rows: Matrix, labels: Matrix, offsets: Matrix) -> None:
        """Remember examples; `offsets` are what another model already says of them. Fits when enough have come."""
        before = self.seen
        self.seen += len(rows)
        at = np.arange(before, self.seen)[-MAX_EXAMPLES:] % MAX_EXAMPLES
        self._rows[at] = rows[-MAX_EXAMPLES:]
        self._labels[at] = np.clip(labels[-MAX_EXAMPLES:], 0.0, 1.0)
        self._offsets[at] = np.clip(offsets[-MAX_EXAMPLES:], -MAX_LOGIT, MAX_LOGIT)
        apart = max(self.fit_every, min(MAX_FIT_INTERVAL, self.seen // MAX_FIT_INTERVAL))
        if self.seen < self.fit_every or self.seen // apart > before // apart:
            self._fit()

    def _fit(self) -> None:
        used = min(self.seen, MAX_EXAMPLES)
        rows, labels, offsets = self._rows[:used], self._labels[:used], self._offsets[:used]
        weights = self.weights
        for _ in range(NEWTON_STEPS):
            chance = sigmoid(rows @ weights + offsets)
            slope = rows.T @ (labels - chance) - self.strength * (weights - self.prior)
            curve = (rows * (chance * (1.0 - chance))[:, None]).T @ rows + self.strength * np.eye(len(weights))
            step = np.clip(np.linalg.solve(curve, slope), -1.0, 1.0)
            weights = weights + step
            if np.abs(step).max() < CONVERGENCE_TOLERANCE:
                break
        self.weights = np.clip(weights, -MAX_LOGIT, MAX_LOGIT)

    def snapshot(self) -> bytes:
        used = min(self.seen, MAX_EXAMPLES)
        rows, labels, offsets = (part[:used].tobytes() for part in (self._rows, self._labels, self._offsets))
        return msgspec.msgpack.encode(_DenseModelState(rows, labels, offsets, self.weights.tobytes(), self.seen))

    def restore(self, state: bytes, places: Sequence[int] | None = None) -> None:
        """Go on from a snapshot; `places` tells where each of its features stands now, -1: it is gone."""
        kept = msgspec.msgpack.decode(state, type=_DenseModelState)
        labels, weights = np.frombuffer(kept.labels), np.frombuffer(kept.weights)
        now = np.arange(len(weights)) if places is None else np.array(places, dtype=np.int64)
        was = np.flatnonzero(now >= 0)
        self._rows[:] = 0.0
        self._rows[: len(labels), now[was]] = np.frombuffer(kept.rows).reshape(-1, len(weights))[:, was]
        self._labels[: len(labels)] = labels
        self._offsets[: len(labels)] = np.frombuffer(kept.offsets)
        self.weights = self.prior.copy()
        self.weights[now[was]] = weights[was]
        self.seen = kept.seen

    def reset_features(self, places: NDArray[np.int64]) -> None:
        """As if these features had never spoken."""
        self._rows[:, places] = 0.0
        self.weights[places] = self.prior[places]


MIN_LEAD = 1.0  # nats by which the whole model must have foretold better
LEAD_DECAY = 0.99  # of that lead at every example: about the last hundred count
_TRIAL_PREFIX = b"on trial\x00"


class _TrialModelState(msgspec.Struct, array_like=True):
    core: bytes
    whole: bytes
    lead: float


class TrialModel:
    """As `DenseModel`; `on_trial` are places of features. While none of them ever spoke there is one model only."""

    def __init__(self, prior: Matrix, strength: float | Matrix = 1.0, on_trial: Sequence[int] = ()) -> None:
        self._trial_features = np.array(on_trial, dtype=np.int64)
        self.base = DenseModel(_zero_features(prior, self._trial_features), strength)
        self.full = DenseModel(prior, strength)
        self.lead = 0.0
        self._trial_active = False

    @property
    def weights(self) -> Matrix:
        """Of the model that is asked."""
        return self.full.weights if self.lead > MIN_LEAD else self.base.weights

    def logits(self, rows: NDArray[np.floating]) -> Matrix:
        """Of one example or of many."""
        result: Matrix = rows @ self.weights
        return result

    def learn(self, rows: Matrix, labels: Matrix, offsets: Matrix) -> None:
        """Examples; `offsets` are what another model already says of them."""
        if not self._trial_active and rows[:, self._trial_features].any():
            self._trial_active = True
            self.full.restore(self.base.snapshot())
            self.full.weights[self._trial_features] = self.full.prior[self._trial_features]
        if self._trial_active:
            lost, kept = (_log_losses(rows @ m.weights + offsets, labels) for m in (self.base, self.full))
            for better in (lost - kept).tolist():
                self.lead = LEAD_DECAY * self.lead + better
            self.full.learn(rows, labels, offsets)
        self.base.learn(_zero_features(rows, self._trial_features), labels, offsets)

    def snapshot(self) -> bytes:
        """Everything learnt; that of the one model where there is one."""
        core = self.base.snapshot()
        if not self._trial_active:
            return core
        return _TRIAL_PREFIX + msgspec.msgpack.encode(_TrialModelState(core, self.full.snapshot(), self.lead))

    def restore(self, state: bytes, places: Sequence[int] | None = None) -> None:
        """Go on from a snapshot; `places` tells where each of its features stands now, -1: it is gone."""
        self._trial_active = state.startswith(_TRIAL_PREFIX)
        kept = (
            msgspec.msgpack.decode(state[len(_TRIAL_PREFIX) :], type=_TrialModelState)
            if self._trial_active
            else _TrialModelState(state, b"", 0.0)
        )
        self.base.restore(kept.core, places)
        # An older version had them there
        self.base.reset_features(self._trial_features)
        if self._trial_active:
            self.full.restore(kept.whole, places)
        self.lead = kept.lead


def _zero_features(rows: Matrix, places: NDArray[np.int64]) -> Matrix:
    kept = rows.copy()
    kept[..., places] = 0.0
    return kept


def _log_losses(logits: Matrix, labels: Matrix) -> Matrix:
    """−log of the chances that were given to what came."""
    bounded = np.clip(logits, -MAX_LOGIT, MAX_LOGIT)
    losses: Matrix = np.logaddexp(0.0, bounded) - np.clip(labels, 0.0, 1.0) * bounded
    return losses


# What comes with the link itself, in the order of `linkfeatures.DENSE`; of several contexts the best counts.
_LINK_PRIORS = {
    "url": 1.6,  # α
    "anchor": 2.5,  # β
    "parent": 2.0,  # γ of the best page that links to it
    "around": 1.4,  # ω
    "same host": 0.0,
    "textless": -0.3,
    "path depth": -0.3,
    "query": -0.2,
    # How near the words at the link are to the topic's Dewey classes; 0 where nobody looks
    "galaxy": 1.0,
    "T-Graph": 0.5,  # how near to a target the T-Graph holds it (S2-32); 0 where there is none
    "similarity": 0.5,  # to the node it matches (OSM)
    "layer": 0.5,  # how near to a target a context graph holds its page
    "S3": 0.0,  # the topic score of S3-17 without the parents; 0 where nobody looks
    "genre": 0.5,  # how much of a wanted genre is at the link (S3-23); 0 where none is wanted
    "S1": 1.0,  # the probability by a learner that was trained before; 0 where there is none
}
# What the crawl knows of it, and learns.
_CRAWL_PRIORS = {
    "words at it": 0.5,  # what they are worth on pages: of its URL and anchor
    "words around": 0.0,  # around it and in the heading above
    "found": 0.5,  # how many pages link to it
    "relevant parents": 0.5,
    "tunnel": -0.3,
    "tag path": 1.5,  # success of links at the same place of other pages
    "directory": 1.5,
    "host": 1.0,
    "list": 2.5,  # success of the other links of the same list, wherever it was found
    "page": 1.0,  # success of the other links of the same page
}
# With the weights they begin with: the papers' scores, before anything is learnt (cold start).
PRIOR_WEIGHTS = {"bias": -2.2, **_LINK_PRIORS, **_CRAWL_PRIORS}
# How many examples' worth of evidence it takes to move a weight; 1 where nothing is said. What a graph of few pages
# says is much alike for all links: followed as freely as the rest it brought nothing, or harm (docs/lab/s2.md).
PRIOR_STRENGTHS = {"T-Graph": 10.0, "similarity": 10.0, "layer": 10.0}
# What helps on one web and misleads on another is heard once it has foretold better (`ontrial`).
TRIAL_FEATURES = ("galaxy", "T-Graph", "similarity", "layer")
FEATURE_NAMES = tuple(PRIOR_WEIGHTS)
FEATURE_INDEX = {name: place for place, name in enumerate(FEATURE_NAMES)}
LINK_FEATURE_SLICE = slice(1, 1 + len(_LINK_PRIORS))
