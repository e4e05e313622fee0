"""Logistic models: the logistic function, the area under the ROC curve, and a Bayesian regression over a few features.

The regression is refitted to the latest examples. Weights start at the papers' scores with a prior strength and move as
far as the evidence requires. Newton's method on at most `MAX_EXAMPLES` examples is cheap for a dozen features.

`TrialModel` tests features that help on one web and mislead on another: two models learn side by side, one without
these features. Both predict each example before learning it, and the full model is used only while it predicts gain.
So a useless feature changes no score, and a useful one is used after some dozens of visits.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

# Logits beyond this bound have a probability of 0 or 1 for every purpose here; clipping avoids overflow.
MAX_LOGIT = 12.0


def sigmoid(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """The logistic function of each logit, clipped to ±`MAX_LOGIT`."""
    result: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-np.clip(logits, -MAX_LOGIT, MAX_LOGIT)))
    return result


def logistic(logit: float) -> float:
    """The logistic function of one number.

    >>> logistic(0.0), logistic(-1e9) < 1e-300
    (0.5, True)
    """
    # Above about 709 the exponential overflows.
    return 1.0 / (1.0 + math.exp(min(-logit, 700.0)))


def roc_auc(positive: ArrayLike, negative: ArrayLike) -> float | None:
    """The probability that a positive example scores above a negative one, ties counting half; None without both.

    >>> roc_auc([0.9, 0.5], [0.5, 0.1]), roc_auc([0.9], [])
    (0.875, None)
    """
    above, below = np.asarray(positive, dtype=np.float64), np.sort(np.asarray(negative, dtype=np.float64))
    if not len(above) or not len(below):
        return None
    lower, upper = np.searchsorted(below, above, "left"), np.searchsorted(below, above, "right")
    return float((lower + upper).sum() / (2.0 * len(above) * len(below)))


Matrix = NDArray[np.float64]
MAX_EXAMPLES = 1_024
NEWTON_STEPS = 4
# A smaller step ends the fit, mostly the second one.
CONVERGENCE_TOLERANCE = 1e-3
# Maximum number of examples between two fits.
MAX_FIT_INTERVAL = 32


class _DenseModelState(msgspec.Struct, array_like=True):
    rows: bytes
    labels: bytes
    offsets: bytes
    weights: bytes
    seen: int


class DenseModel:
    """P(relevant) = σ(offset + x·w), w ~ Normal(prior, 1/strength); one strength, or one per weight.

    A fit takes at most `steps` steps of Newton's method from the weights before.
    """

    def __init__(
        self,
        prior: NDArray[np.floating],
        strength: float | Matrix = 1.0,
        fit_every: int = 8,
        steps: int = NEWTON_STEPS,
    ) -> None:
        self.prior: Matrix = np.array(prior, dtype=np.float64)
        self.weights = self.prior.copy()
        self.strength = strength
        self.fit_every = fit_every
        self.steps = steps
        self.seen = 0
        self._rows: Matrix = np.zeros((MAX_EXAMPLES, len(self.prior)))
        self._labels: Matrix = np.zeros(MAX_EXAMPLES)
        self._offsets: Matrix = np.zeros(MAX_EXAMPLES)

    def logits(self, rows: NDArray[np.floating]) -> Matrix:
        result: Matrix = rows @ self.weights
        return result

    def learn(self, rows: Matrix, labels: Matrix, offsets: Matrix) -> None:
        """Add examples; `offsets` are the logits of another model. Refits when enough were added."""
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
        for _ in range(self.steps):
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
        """Continue from a snapshot; `places` are the current indices of its features, -1 for removed ones."""
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
        """Reset features to their prior."""
        self._rows[:, places] = 0.0
        self.weights[places] = self.prior[places]


# Nats by which the full model must have predicted gain.
MIN_LEAD = 1.0
# Per example: about the last hundred count.
LEAD_DECAY = 0.99
_TRIAL_PREFIX = b"on trial\x00"


class _TrialModelState(msgspec.Struct, array_like=True):
    core: bytes
    whole: bytes
    lead: float


class TrialModel:
    """A `DenseModel` with features on trial, given by index. While all of these are 0 there is only one model."""

    def __init__(self, prior: Matrix, strength: float | Matrix = 1.0, on_trial: Sequence[int] = ()) -> None:
        self._trial_features = np.array(on_trial, dtype=np.int64)
        self.base = DenseModel(_zero_features(prior, self._trial_features), strength)
        self.full = DenseModel(prior, strength)
        self.lead = 0.0
        self._trial_active = False

    @property
    def weights(self) -> Matrix:
        """The weights of the model in use."""
        return self.full.weights if self.lead > MIN_LEAD else self.base.weights

    def logits(self, rows: NDArray[np.floating]) -> Matrix:
        """The logits of one or many examples."""
        result: Matrix = rows @ self.weights
        return result

    def learn(self, rows: Matrix, labels: Matrix, offsets: Matrix) -> None:
        """Learn examples; `offsets` are the logits of another model."""
        if not self._trial_active and rows[:, self._trial_features].any():
            self._trial_active = True
            self.full.restore(self.base.snapshot())
            self.full.weights[self._trial_features] = self.full.prior[self._trial_features]
        if self._trial_active:
            lost, kept = (log_losses(rows @ m.weights + offsets, labels) for m in (self.base, self.full))
            for gain in (lost - kept).tolist():
                self.lead = LEAD_DECAY * self.lead + gain
            self.full.learn(rows, labels, offsets)
        self.base.learn(_zero_features(rows, self._trial_features), labels, offsets)

    def snapshot(self) -> bytes:
        """Everything learned; the state of the base model alone if there is no trial."""
        core = self.base.snapshot()
        if not self._trial_active:
            return core
        return _TRIAL_PREFIX + msgspec.msgpack.encode(_TrialModelState(core, self.full.snapshot(), self.lead))

    def restore(self, state: bytes, places: Sequence[int] | None = None) -> None:
        """Continue from a snapshot; `places` are the current indices of its features, -1 for removed ones."""
        self._trial_active = state.startswith(_TRIAL_PREFIX)
        kept = (
            msgspec.msgpack.decode(state[len(_TRIAL_PREFIX) :], type=_TrialModelState)
            if self._trial_active
            else _TrialModelState(state, b"", 0.0)
        )
        self.base.restore(kept.core, places)
        # An older version trained the base model with these features.
        self.base.reset_features(self._trial_features)
        if self._trial_active:
            self.full.restore(kept.whole, places)
        self.lead = kept.lead


def _zero_features(rows: Matrix, places: NDArray[np.int64]) -> Matrix:
    kept = rows.copy()
    kept[..., places] = 0.0
    return kept


def log_losses(logits: Matrix, labels: Matrix) -> Matrix:
    """The log loss of each example."""
    bounded = np.clip(logits, -MAX_LOGIT, MAX_LOGIT)
    losses: Matrix = np.logaddexp(0.0, bounded) - np.clip(labels, 0.0, 1.0) * bounded
    return losses


# Features of the link itself, in the order of `word_model.DENSE_FIELDS`; the maximum over several contexts counts.
_LINK_PRIORS = {
    "url": 1.6,  # α
    "anchor": 2.5,  # β
    # γ: score of the best page that links to it.
    "parent": 2.0,
    "around": 1.4,  # ω
    "same host": 0.0,
    "textless": -0.3,
    "path depth": -0.3,
    "query": -0.2,
    # Similarity of the link's words to the topic's Dewey classes; 0 if not computed.
    "galaxy": 1.0,
    # Closeness to a target in the T-Graph (S2-32); 0 without one.
    "T-Graph": 0.5,
    "similarity": 0.5,  # to the matching node (OSM)
    # Closeness of its page to a target in the context graph.
    "layer": 0.5,
    # The topic score of S3-17 without the parents; 0 if not computed.
    "S3": 0.0,
    # Genre words at the link (S3-23); 0 if no genre is wanted.
    "genre": 0.5,
    # The probability from a trained S1 learner; 0 without one.
    "S1": 1.0,
    # Similarity of its meaning to the topic; for the model of meanings.
    "meaning": 0.0,
}
# Features that the crawl learns.
_CRAWL_PRIORS = {
    "words at it": 0.5,  # word values of URL and anchor
    # Word values of the context and the heading above.
    "words around": 0.0,
    # What words of its meaning are worth; for the model of meanings.
    "meaning learned": 0.0,
    "found": 0.5,  # how many pages link to it
    "relevant parents": 0.5,
    "tunnel": -0.3,
    # Success of links with the same tag path.
    "tag path": 1.5,
    "directory": 1.5,
    "host": 1.0,
    # Success of the other links of the same list.
    "list": 2.5,
    # Success of the other links of the same page.
    "page": 1.0,
}
# The prior weights are the papers' scores, used before anything is learned (cold start).
PRIOR_WEIGHTS = {"bias": -2.2, **_LINK_PRIORS, **_CRAWL_PRIORS}
# The strength of a prior in examples; 1 by default. Features of a graph of few pages are similar for
# all links; with strength 1 they gained nothing or did harm (docs/lab/s2.md).
PRIOR_STRENGTHS = {"T-Graph": 10.0, "similarity": 10.0, "layer": 10.0}
# These help on one web and mislead on another: see `TrialModel`.
TRIAL_FEATURES = ("galaxy", "T-Graph", "similarity", "layer")
# These are not features of the dense model, but of `MeaningModel`.
MEANING_FEATURES = ("meaning", "meaning learned")
FEATURE_NAMES = tuple(PRIOR_WEIGHTS)
FEATURE_INDEX = {name: place for place, name in enumerate(FEATURE_NAMES)}
LINK_FEATURE_SLICE = slice(1, 1 + len(_LINK_PRIORS))
