"""A second opinion on links that also knows what they mean, mixed with the first as far as crawls need it.

Meaning generalises where words do not: after links to "Heron" and "Kingfisher" were worth a visit, "Egret" is too. One
logistic regression has the features of the dense model, the vector of the link, its similarity to the topic and the
value of its meaning: what words of this meaning are worth on fetched pages. All weights are learned together, so what
the other features explain is not counted again.

Meaning helps on one web and misleads on another, and nothing in a crawl says which: predictions of the judge's scores
improve on both. So the second opinion counts less where the first one hardly fails, and where the crawl has fetched
many pages without finding its topic: then it only distinguishes degrees of irrelevance.
"""

from collections import deque
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.logistic import MEANING_FEATURES, PRIOR_WEIGHTS, TRIAL_FEATURES, DenseModel
from opilio.text.word_vectors import BYTE_SCALE, DIMENSIONS

# Chosen on the development topics of six webs (docs/lab/meaning.md).
SIMILARITY_WEIGHT, VALUE_WEIGHT = 1.3, 0.5  # prior weights
# Of the prior of a component, in examples; 1 for the other features.
VECTOR_STRENGTH = 2.0
FIT_EVERY = 4  # examples
# Links with a similarity and value of 0 in the means.
MEAN_PRIOR = 3.0
MAX_CORRECTION = 4.0
# Whose mean reward says how often the first opinion fails.
RECENT_LINKS = 30
PRIOR_REWARD, PRIOR_LINKS = 0.3, 5.0  # of that mean
# The weight falls below 1 where more than half of the recent links paid, …
WEIGHT_PER_FAILURE = 2.0
# … and by half after ten fetches without a relevant page for each one with.
PRIOR_HITS, MISS_WEIGHT = 2.0, 0.1
MIN_HIT_REWARD = 0.5
# Features on trial have no weight until the crawl gives them one; those of meanings are inputs of their own.
_OTHER_PRIORS = [0.0 if name in (*MEANING_FEATURES, *TRIAL_FEATURES) else at for name, at in PRIOR_WEIGHTS.items()]
Column = NDArray[np.float64]


class MeaningRows(NamedTuple):
    """Links with their features and meanings, one row each. A link without a known word has a vector of zeros."""

    dense: NDArray[np.float64]
    vectors: NDArray[np.int8]
    similarities: NDArray[np.floating]
    values: NDArray[np.floating]


class _MeaningState(msgspec.Struct, array_like=True):
    columns: int
    model: bytes
    totals: tuple[float, float]
    known: int
    hits: int
    misses: int
    recent: list[float]


class MeaningModel:
    """Predicts what to add to the log-odds of links. `words` are always the log-odds by the model of words."""

    def __init__(self) -> None:
        prior = np.array([*_OTHER_PRIORS, *[0.0] * DIMENSIONS, SIMILARITY_WEIGHT, VALUE_WEIGHT])
        strengths = np.ones(len(prior))
        strengths[len(_OTHER_PRIORS) : -2] = VECTOR_STRENGTH
        self._model = DenseModel(prior, strengths, FIT_EVERY)
        # Did any link have a vector? Otherwise there is nothing to add.
        self.active = False
        self._totals = np.zeros(2)
        self._known = 0
        self._hits = 0
        self._misses = 0
        self._recent: deque[float] = deque(maxlen=RECENT_LINKS)

    @property
    def trust(self) -> float:
        """The weight of this opinion, from 0 to 1."""
        reward = (sum(self._recent) + PRIOR_REWARD * PRIOR_LINKS) / (len(self._recent) + PRIOR_LINKS)
        found = self._hits + PRIOR_HITS
        return min(1.0, WEIGHT_PER_FAILURE * (1.0 - reward)) * found / (found + MISS_WEIGHT * self._misses)

    @property
    def hits(self) -> int:
        """How many links led to a relevant page."""
        return self._hits

    @property
    def recent_hits(self) -> list[bool]:
        """Which of the recent links led to a relevant page."""
        return [reward >= MIN_HIT_REWARD for reward in self._recent]

    def predict(self, links: MeaningRows, words: Column, without: Column) -> Column:
        """The log-odds to add for each link. `without` are the log-odds by the first opinion."""
        difference = words + self._logits(links) - without
        result: Column = self.trust * np.clip(difference, -MAX_CORRECTION, MAX_CORRECTION)
        return result

    def similarity_part(self, links: MeaningRows) -> Column:
        """What the similarity to the topic contributes to the prediction."""
        result: Column = self.trust * self._model.weights[-2] * self._compared(links)[:, 0]
        return result

    def learn(self, links: MeaningRows, words: Column, rewards: Column) -> None:
        """Learn the rewards of links."""
        known = links.vectors.any(axis=1)
        if known.any():
            self.active = True
            self._known += int(known.sum())
            self._totals += (links.similarities[known].sum(), links.values[known].sum())
        self._model.learn(self._columns(links), rewards, words)
        hits = int((rewards >= MIN_HIT_REWARD).sum())
        self._hits += hits
        self._misses += len(rewards) - hits
        self._recent.extend(np.clip(rewards, 0.0, 1.0).tolist())

    def _logits(self, links: MeaningRows) -> Column:
        """The log-odds by this model. The inputs stay apart: side by side, those of a full queue would take 75 MB."""
        other, vector, compared = np.split(self._model.weights, [len(_OTHER_PRIORS), len(_OTHER_PRIORS) + DIMENSIONS])
        by_vector = links.vectors.astype(np.float32) @ (vector / BYTE_SCALE).astype(np.float32)
        result: Column = links.dense @ other + by_vector + self._compared(links) @ compared
        return result

    def _columns(self, links: MeaningRows) -> NDArray[np.float64]:
        """All inputs of the model."""
        return np.column_stack((links.dense, links.vectors / BYTE_SCALE, self._compared(links)))

    def _compared(self, links: MeaningRows) -> NDArray[np.float64]:
        """Similarities and values without their means: they say something only in comparison."""
        both = np.column_stack((links.similarities, links.values)) - self._totals / (self._known + MEAN_PRIOR)
        result: NDArray[np.float64] = both * links.vectors.any(axis=1, keepdims=True)
        return result

    def snapshot(self) -> bytes:
        similarity, value = self._totals.tolist()
        return msgspec.msgpack.encode(
            _MeaningState(
                len(self._model.prior),
                self._model.snapshot(),
                (similarity, value),
                self._known,
                self._hits,
                self._misses,
                list(self._recent),
            )
        )

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot; one of another version, or with other features, is ignored."""
        try:
            kept = msgspec.msgpack.decode(state, type=_MeaningState)
        except msgspec.ValidationError:
            return
        if kept.columns == len(self._model.prior):
            self._model.restore(kept.model)
            self._totals = np.array(kept.totals)
            self._known, self._hits, self._misses = kept.known, kept.hits, kept.misses
            self._recent = deque(kept.recent, RECENT_LINKS)
            self.active = self.active or self._known > 0
