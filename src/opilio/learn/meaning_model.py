"""Which meanings lead to relevant pages: a correction of the other features' log-odds, used as far as it predicts well.

It generalises where words do not: after links to "Heron" and "Kingfisher" were worth a visit, "Egret" is too. An online
logistic regression learns from the vectors of fetched links, and from one value per link: how near it is to the topic
at first, and what words of its meaning are worth on fetched pages once the judge knows words.

Meaning helps on one web and misleads on another. So two experts are compared on every fetched link before it is
learned: the other features alone, and the same with the correction. Only the weight of the second one is added; it is
its probability of being the better one, given how well both have predicted.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.dense_model import DenseModel, log_losses
from opilio.learn.logistic import logistic, sigmoid
from opilio.text.word_vectors import BYTE_SCALE, DIMENSIONS

# Chosen on the development topics of one web (docs/lab/meaning.md).
VECTOR_STRENGTH, VALUE_STRENGTH, BIAS_STRENGTH = 2.0, 1.0, 0.3  # of the priors, in examples
VALUE_WEIGHT = 1.0  # prior weight of the value
MAX_CORRECTION = 4.0
# Log-odds that the correction is better, before anything was predicted and per nat of a better prediction. Rewards are
# probabilities, so a prediction gains less than it would with certain labels.
PRIOR_TRUST, TRUST_PER_NAT = -3.0, 4.0
# Learned links to relevant pages at which half of that weight counts. Before a crawl has found its topic, meanings can
# only distinguish irrelevant pages, and would keep it among those that the judge finds a little less so.
HALF_HITS = 3.0
MAX_LEAD = 2.0  # nats: an expert that was better for long can still be overtaken
MEAN_PRIOR = 3.0  # links with a value of 0 in the mean value
Bytes = NDArray[np.int8]
Column = NDArray[np.float64]
Values = NDArray[np.floating]


class _MeaningState(msgspec.Struct, array_like=True):
    dimensions: int
    model: bytes
    lead: float
    total: float
    links: int
    hits: int = 0


class MeaningModel:
    """Predicts by how many log-odds a link is better than its other features say; 0 for a link without a known word.

    `offsets` are always the log-odds by the other features.
    """

    def __init__(self) -> None:
        prior = np.concatenate((np.zeros(DIMENSIONS), [VALUE_WEIGHT, 0.0]))
        strengths = np.concatenate((np.full(DIMENSIONS, VECTOR_STRENGTH), [VALUE_STRENGTH, BIAS_STRENGTH]))
        # Weights move little from one fit to the next, so one step of Newton's method is enough.
        self._model = DenseModel(prior, strengths, steps=1)
        self._lead = 0.0
        self._total = 0.0
        self._links = 0
        self._hits = 0

    @property
    def trust(self) -> float:
        """The weight of the correction, from 0 to 1."""
        found = self._hits / (self._hits + HALF_HITS)
        return found * logistic(PRIOR_TRUST + TRUST_PER_NAT * self._lead)

    def predict(self, vectors: Bytes, values: Values, offsets: Column) -> Column:
        """The log-odds to add for each link."""
        return self.trust * self._corrections(vectors, values, offsets)

    def parts(self, vector: Bytes, value: Values, offset: Column) -> tuple[float, float]:
        """What vector and value contribute to the prediction of one link."""
        (by_vector,), (by_value,) = self._parts(vector, value)
        total = float(by_vector + by_value)
        scale = float(self.predict(vector, value, offset)[0]) / total if total else 0.0
        return scale * float(by_vector), scale * float(by_value)

    def compare(self, vectors: Bytes, values: Values, rewards: Column, offsets: Column) -> None:
        """Compare both experts on links that were not learned yet. Both have the bias, which is no merit of meaning."""
        corrections = self._corrections(vectors, values, offsets)
        without = offsets + self._model.weights[-1]
        gain = log_losses(without, rewards) - log_losses(without + corrections, rewards)
        self._lead = float(np.clip(self._lead + gain.sum(), -MAX_LEAD, MAX_LEAD))

    def learn(self, vectors: Bytes, values: Values, rewards: Column, offsets: Column) -> None:
        """Learn the rewards of links."""
        known = vectors.any(axis=1)
        if known.any():
            rows = np.column_stack((vectors[known] / BYTE_SCALE, values[known] - self._mean, np.ones(known.sum())))
            self._model.learn(rows, rewards[known], offsets[known])
            self._total += float(values[known].sum())
            self._links += int(known.sum())
            self._hits += int((rewards[known] >= 0.5).sum())

    @property
    def _mean(self) -> float:
        """The mean value of learned links: a value says something only in comparison with it."""
        return self._total / (self._links + MEAN_PRIOR)

    def _corrections(self, vectors: Bytes, values: Values, offsets: Column) -> Column:
        by_vector, by_value = self._parts(vectors, values)
        bounded: Column = np.clip(by_vector + by_value, -MAX_CORRECTION, MAX_CORRECTION)
        # If the other features are sure of a link, its meaning counts less.
        return bounded * np.minimum(1.0, 2.0 * sigmoid(-offsets))

    def _parts(self, vectors: Bytes, values: Values) -> tuple[Column, Column]:
        weights = self._model.weights
        by_vector = vectors.astype(np.float32) @ (weights[:DIMENSIONS] / BYTE_SCALE).astype(np.float32)
        by_value = (values - self._mean) * weights[DIMENSIONS] * vectors.any(axis=1)
        return by_vector.astype(np.float64), by_value.astype(np.float64)

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(
            _MeaningState(DIMENSIONS, self._model.snapshot(), self._lead, self._total, self._links, self._hits)
        )

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot; one of another version, or of a table with other dimensions, is ignored."""
        try:
            kept = msgspec.msgpack.decode(state, type=_MeaningState)
        except msgspec.ValidationError:
            return
        if kept.dimensions == DIMENSIONS:
            self._model.restore(kept.model)
            self._lead, self._total, self._links = kept.lead, kept.total, kept.links
            self._hits = kept.hits
