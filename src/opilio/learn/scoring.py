"""The committee's models and how they score queued links. `learn.committee` trains them.

All tables have a fixed size. This module also defines the committee's input: pages that links were found on, the
outcomes of links, and lessons, which a journal stores.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.protocols import FeatureEffect, SiblingSuccess
from opilio.learn.link_pool import FetchedFilter, LinkPool, RowIndices
from opilio.learn.logistic import (
    FEATURE_INDEX,
    FEATURE_NAMES,
    MEANING_FEATURES,
    PRIOR_STRENGTHS,
    PRIOR_WEIGHTS,
    TRIAL_FEATURES,
    TrialModel,
    sigmoid,
)
from opilio.learn.meaning_model import MeaningModel, MeaningRows
from opilio.learn.success_rates import DelayedCredit, SuccessRates
from opilio.learn.word_model import CONTEXT_WORDS, LINK_WORDS, WordModel, WordValues
from opilio.text.word_vectors import BYTE_SCALE

TABLE_BITS = 18
MAX_MEANING_VALUE = 2.0
_TOPIC_MEANING, _MEANING_VALUE = (FEATURE_INDEX[name] for name in MEANING_FEATURES)


class _CommitteeState(msgspec.Struct, array_like=True):
    names: tuple[str, ...]  # of the dense features
    dense: bytes
    words: bytes
    tables: dict[str, bytes] = {}
    groups: bytes = b""
    credit: bytes = b""
    done: bytes = b""
    meaning: bytes = b""


class CommitteeModels:
    """The models. `features` are the dense features with prior weights, `tables` the kinds of places with a rate."""

    def __init__(self, features: Mapping[str, float], tables: Sequence[str], credit: float) -> None:
        strengths = np.array([PRIOR_STRENGTHS.get(name, 1.0) for name in features])
        places = [at for at, name in enumerate(features) if name in TRIAL_FEATURES]
        self.dense = TrialModel(np.array(list(features.values())), strengths, places)
        self.words = WordModel()
        self._names = tuple(features)
        self._tables = {name: SuccessRates(TABLE_BITS) for name in tables}
        self._sibling_groups = SuccessRates(TABLE_BITS + 2)
        self._credit = DelayedCredit(credit)
        self._fetched = FetchedFilter()
        self.meaning = MeaningModel()

    def snapshot(self) -> bytes:
        """Everything learned, without the links in the pool: the frontier stores those."""
        tables = {name: table.snapshot() for name, table in self._tables.items()}
        rest = (part.snapshot() for part in (self._sibling_groups, self._credit, self._fetched, self.meaning))
        return msgspec.msgpack.encode(
            _CommitteeState(self._names, self.dense.snapshot(), self.words.snapshot(), tables, *rest)
        )

    def transferable_state(self) -> bytes:
        """The part that another crawl can start from: weights of features and words, nothing about hosts and pages."""
        models = self.dense.snapshot(), self.words.snapshot()
        return msgspec.msgpack.encode(_CommitteeState(self._names, *models, meaning=self.meaning.snapshot()))

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot or transferable state; new features start with their prior weights."""
        kept = msgspec.msgpack.decode(state, type=_CommitteeState)
        at = {name: place for place, name in enumerate(self._names)}
        self.dense.restore(kept.dense, [at.get(name, -1) for name in kept.names])
        self.words.restore(kept.words)
        for name in kept.tables.keys() & self._tables.keys():
            self._tables[name].restore(kept.tables[name])
        if kept.meaning:
            self.meaning.restore(kept.meaning)
        if kept.groups:
            self._sibling_groups.restore(kept.groups)
            self._fetched.restore(kept.done)
        if kept.credit and kept.names == self._names:
            self._credit.restore(kept.credit)

    def sibling_successes(self, groups: NDArray[np.uint32]) -> list[SiblingSuccess]:
        """The outcomes of the links of lists, by their hashes; lists without an outcome are left out."""
        tries, means = self._sibling_groups.tries(groups), self._sibling_groups.rate(groups, 0.0, 1e-9)
        outcomes = zip(tries.tolist(), means.tolist(), strict=True)
        return [SiblingSuccess(at, int(tried), mean) for at, (tried, mean) in enumerate(outcomes) if tried]


# The only bucket of the table "all".
GLOBAL_BUCKET = np.full(1, 1 << 31, dtype=np.uint32)
# The bucket of the table "alive" for the first fetches of hosts.
NEW_HOST_BUCKET = np.full(1, (1 << 31) + 1, dtype=np.uint32)
# Prior share of links that lead to a page.
PRIOR_ALIVE_RATE = 0.9
DEFAULT_EXPLORATION = 0.33


class CommitteeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for tuning and ablations."""

    capacity: int = 100_000  # links kept in memory for rescoring
    # Pseudo-tries of the base rate in the rate of a list.
    shrinkage: float = 2.0
    credit: float = 0.4  # γ of delayed credit; 0: off
    # Share of the links that go to hosts tried least, while hardly any pays.
    explore: float = DEFAULT_EXPLORATION
    siblings: bool = True
    words: bool = True  # hashed words
    without: tuple[str, ...] = ()  # names of dense features to disable
    # Success rates of tag paths, directories and hosts.
    statistics: bool = True
    learn: bool = True  # False: a link keeps its first score
    rescore: bool = True
    # Best links that are always scored exactly.
    top: int = 128


class CommitteeScoring(CommitteeModels):
    """Scores the links of a pool. The committee fills their rows."""

    def __init__(self, options: CommitteeOptions) -> None:
        self.options = options
        super().__init__(PRIOR_WEIGHTS, ("tag path", "prefix", "page", "alive", "all"), options.credit)
        self.pool = LinkPool(options.capacity, len(FEATURE_NAMES))
        self._disabled_features = [FEATURE_INDEX[name] for name in (*options.without, *MEANING_FEATURES)]
        self._word_values = WordValues()
        # Direction of the words that are worth much; None: not known yet.
        self._meaning_direction: NDArray[np.float32] | None = None

    @property
    def visits_learned(self) -> int:
        """The number of outcomes learned."""
        return int(self._tables["all"].tries(GLOBAL_BUCKET)[0])

    @property
    def base_rate(self) -> float:
        """The mean reward so far, with a prior of 0.2."""
        return float(self._tables["all"].rate(GLOBAL_BUCKET, 0.2, 5.0)[0])

    def dense_features(self, row_indices: RowIndices) -> NDArray[np.float64]:
        """The dense features, with the current success rates."""
        dense = self._all_dense_features(row_indices)
        dense[:, self._disabled_features] = 0.0
        return dense

    def _all_dense_features(self, row_indices: RowIndices) -> NDArray[np.float64]:
        rows = self.pool.rows
        dense = rows["dense"].take(row_indices, axis=0).astype(np.float64)
        dense[:, FEATURE_INDEX["tunnel"]] = np.minimum(dense[:, FEATURE_INDEX["tunnel"]], 4.0) * 0.25
        if not self.options.statistics:
            return dense
        base, tables = self.base_rate, self._tables
        prefixes, pages = rows["prefixes"].take(row_indices, axis=0), rows["pages"].take(row_indices, axis=0)
        dense[:, FEATURE_INDEX["tag path"]] = (
            tables["tag path"].rate(rows["path"].take(row_indices, axis=0), base, 1.0) - base
        )
        dense[:, FEATURE_INDEX["host"]] = tables["prefix"].rate(prefixes[:, 0], base, 3.0) - base
        dense[:, FEATURE_INDEX["directory"]] = tables["prefix"].nested_rate(prefixes, base, 2.0) - base
        pays = tables["page"].rate(pages, base, 3.0)
        dense[:, FEATURE_INDEX["page"]] = np.where(pages > 0, pays, 0.0).max(axis=1) - base
        if self.options.siblings:
            groups = rows["groups"].take(row_indices, axis=0)
            dense[:, FEATURE_INDEX["list"]] = (
                self._sibling_groups.pooled_rate(groups, base, self.options.shrinkage) - base
            )
        return dense

    def logits(self, row_indices: RowIndices) -> NDArray[np.float64]:
        """The log-odds of links, with their meanings."""
        dense, words = self.dense_features(row_indices), self.pool.word_logits[row_indices]
        without = words + self.dense.logits(dense)
        if not self.meaning.active:
            return without
        return without + self.meaning.predict(self._meaning_rows(row_indices, dense), words, without)

    def _meaning_rows(self, row_indices: RowIndices, dense: NDArray[np.float64]) -> MeaningRows:
        rows = self.pool.rows
        vectors, stored = rows["meaning"].take(row_indices, axis=0), rows["dense"]
        return MeaningRows(dense, vectors, stored[row_indices, _TOPIC_MEANING], stored[row_indices, _MEANING_VALUE])

    def meaning_effects(self, row: int) -> list[FeatureEffect]:
        """The contributions of a link's meaning: its similarity to the topic, and everything that was learned."""
        where = np.array([row])
        dense, words = self.dense_features(where), self.pool.word_logits[where]
        if not self.meaning.active:
            return [FeatureEffect(name, 0.0, 0.0, 0.0) for name in MEANING_FEATURES]
        links = self._meaning_rows(where, dense)
        total = float(self.meaning.predict(links, words, words + self.dense.logits(dense))[0])
        by_similarity, similarity = float(self.meaning.similarity_part(links)[0]), float(links.similarities[0])
        trust, learned = self.meaning.trust, total - by_similarity
        return [
            FeatureEffect("meaning", similarity, by_similarity / similarity if similarity else 0.0, by_similarity),
            FeatureEffect("meaning learned", learned / trust if trust else 0.0, trust, learned),
        ]

    def learn_meanings(
        self, row_indices: RowIndices, dense: NDArray[np.float64], rewards: NDArray[np.float64], repeats: int = 1
    ) -> None:
        """Train the model of meanings with the features that fetched links had in the queue."""
        links = self._meaning_rows(row_indices, dense)
        words = self.words.logits(self.pool.rows["words"].take(row_indices, axis=0))
        for _ in range(repeats):
            self.meaning.learn(links, words, rewards)

    def update_meaning_direction(self, direction: NDArray[np.float32]) -> None:
        """Update the direction of the words that are worth much on fetched pages."""
        self._meaning_direction = direction
        self.refresh_meaning_values(self.pool.used_rows)

    def refresh_meaning_values(self, row_indices: RowIndices) -> None:
        """Refresh the values of the meanings of rows. They are stored like the values of words."""
        rows, direction = self.pool.rows, self._meaning_direction
        if direction is None:
            return
        # In double precision: rounded to what is stored, it does not depend on which rows are refreshed together.
        values = rows["meaning"].take(row_indices, axis=0).astype(np.float64) @ (direction / BYTE_SCALE)
        rows["dense"][row_indices, _MEANING_VALUE] = np.clip(values, -MAX_MEANING_VALUE, MAX_MEANING_VALUE)

    def update_word_values(self, terms: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Update the values of words on pages."""
        self._word_values.update(terms, values)
        self.refresh_word_values(self.pool.used_rows)

    def refresh_word_values(self, row_indices: RowIndices) -> None:
        """Refresh the word values of rows. They are stored, so that a lesson from a journal is reproduced."""
        words, dense = self.pool.rows["words"].take(row_indices, axis=0), self.pool.rows["dense"]
        dense[row_indices, FEATURE_INDEX["words at it"]] = self._word_values.row_values(words[:, LINK_WORDS])
        dense[row_indices, FEATURE_INDEX["words around"]] = self._word_values.row_values(words[:, CONTEXT_WORDS])

    def refresh_word_logits(self, row_indices: RowIndices) -> None:
        if self.options.words:
            self.pool.word_logits[row_indices] = self.words.logits(self.pool.rows["words"].take(row_indices, axis=0))

    def scores(self, row_indices: RowIndices) -> NDArray[np.float64]:
        """The probability that each link leads to a relevant page."""
        chance = sigmoid(self.logits(row_indices))
        return chance * self._alive_probability(row_indices) if self.options.statistics else chance

    def _alive_probability(self, row_indices: RowIndices) -> NDArray[np.float64]:
        """The probability that a link leads to a page at all, by its URL and by its tag path."""
        rows = self.pool.rows
        by_address = self._tables["alive"].nested_rate(
            rows["prefixes"].take(row_indices, axis=0), PRIOR_ALIVE_RATE, 2.0
        )
        by_place = self._tables["alive"].rate(
            path_bucket(rows["path"].take(row_indices, axis=0)), PRIOR_ALIVE_RATE, 2.0
        )
        return np.minimum(by_address, by_place)


def path_bucket(path: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The hash of a tag path in a table that also contains URLs."""
    return path ^ np.uint32(0x5BD1E995)


class LinkVisit(msgspec.Struct, frozen=True, array_like=True):
    """The outcome of a fetched link: its reward (0..1), whether it is a page, and whether that is relevant."""

    key: int
    url: str
    reward: float
    is_page: bool
    relevant: bool = False
    # Nothing to learn: the URL was rejected, or redirected and stored under its target.
    discarded: bool = False


class LinkLesson(msgspec.Struct, frozen=True, array_like=True):
    """Everything that one learning step depends on besides the model, so that repeating it has the same result."""

    visit: LinkVisit
    row: bytes = b""  # the link as it was queued
    # Its score in the queue; -1: it was not queued.
    queued_score: float = -1.0
    # The reward learned before, if the user corrected it.
    old_reward: float = -1.0


class SourcePage(msgspec.Struct, frozen=True):
    """The page that links were found on."""

    key: int
    relevant: bool
    tunnel_depth: int
