"""How promising queued links are, by everything learnt so far. Learning itself is the committee's part.

Everything a committee knows, in tables of fixed size, and how that is kept, restored and handed on.

It decides nothing: what is scored how, and what is learnt from what, is the committee's part.

What a committee is told: pages that links were found on, what became of links, and that as a lesson to keep.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.dense_model import (
    FEATURE_INDEX,
    FEATURE_NAMES,
    PRIOR_STRENGTHS,
    PRIOR_WEIGHTS,
    TRIAL_FEATURES,
    TrialModel,
)
from opilio.learn.link_pool import FetchedFilter, LinkPool, RowIndices
from opilio.learn.logistic import sigmoid
from opilio.learn.success_rates import DelayedCredit, SuccessRates
from opilio.learn.word_model import CONTEXT_WORDS, LINK_WORDS, WordModel, WordValues

TABLE_BITS = 18


class _CommitteeState(msgspec.Struct, array_like=True):
    names: tuple[str, ...]  # of the dense features
    dense: bytes
    words: bytes
    tables: dict[str, bytes] = {}
    groups: bytes = b""
    credit: bytes = b""
    done: bytes = b""


class CommitteeModels:
    """`features` are the dense ones with their first weights, `tables` the kinds of places whose success is counted."""

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

    def snapshot(self) -> bytes:
        """Everything learnt, without the links that are held: the frontier keeps those."""
        tables = {name: table.snapshot() for name, table in self._tables.items()}
        rest = (part.snapshot() for part in (self._sibling_groups, self._credit, self._fetched))
        return msgspec.msgpack.encode(
            _CommitteeState(self._names, self.dense.snapshot(), self.words.snapshot(), tables, *rest)
        )

    def transferable_state(self) -> bytes:
        """What another crawl can begin with: which features and words pay, and nothing of hosts and pages."""
        return msgspec.msgpack.encode(_CommitteeState(self._names, self.dense.snapshot(), self.words.snapshot()))

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot or an essence; features that it did not know begin at their first weights."""
        kept = msgspec.msgpack.decode(state, type=_CommitteeState)
        at = {name: place for place, name in enumerate(self._names)}
        self.dense.restore(kept.dense, [at.get(name, -1) for name in kept.names])
        self.words.restore(kept.words)
        for name in kept.tables.keys() & self._tables.keys():
            self._tables[name].restore(kept.tables[name])
        if kept.groups:
            self._sibling_groups.restore(kept.groups)
            self._fetched.restore(kept.done)
        if kept.credit and kept.names == self._names:
            self._credit.restore(kept.credit)


GLOBAL_BUCKET = np.full(1, 1 << 31, dtype=np.uint32)  # the one place of the table "all"
PRIOR_ALIVE_RATE = 0.9  # links that lead to a page, before anything is known


class CommitteeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What can be tuned, and what ablations switch off."""

    capacity: int = 100_000  # links kept in memory for rescoring
    shrinkage: float = 2.0  # tries that what the rest of a list did must outweigh
    credit: float = 0.4  # γ of delayed credit; 0: off
    explore: float = 0.0  # how much an unknown place is worth at first; 0: off
    explore_for: float = 500.0  # fetches after which that has halved
    siblings: bool = True
    words: bool = True  # hashed words
    without: tuple[str, ...] = ()  # dense features that are left out, by name
    statistics: bool = True  # success of tag paths, directories and hosts
    learn: bool = True  # false: a link keeps the score that its page's worker gave it
    rescore: bool = True
    top: int = 128  # best links that are scored to the digit at every turn


class CommitteeScoring(CommitteeModels):
    """Holds links and scores them. Their rows are filled by whoever finds them."""

    def __init__(self, options: CommitteeOptions) -> None:
        self.options = options
        super().__init__(PRIOR_WEIGHTS, ("tag path", "prefix", "page", "alive", "all"), options.credit)
        self.pool = LinkPool(options.capacity, len(FEATURE_NAMES))
        self._disabled_features = [FEATURE_INDEX[name] for name in options.without]
        self._word_values = WordValues()

    @property
    def visits_learned(self) -> int:
        """How many outcomes it has learnt from."""
        return int(self._tables["all"].tries(GLOBAL_BUCKET)[0])

    @property
    def base_rate(self) -> float:
        """The mean reward so far, with a cautious beginning."""
        return float(self._tables["all"].rate(GLOBAL_BUCKET, 0.2, 5.0)[0])

    def dense_features(self, where: RowIndices) -> NDArray[np.float64]:
        """The dense features with what the success tables say now."""
        dense = self._all_dense_features(where)
        if self._disabled_features:
            dense[:, self._disabled_features] = 0.0
        return dense

    def _all_dense_features(self, where: RowIndices) -> NDArray[np.float64]:
        rows = self.pool.rows
        dense = rows["dense"].take(where, axis=0).astype(np.float64)
        dense[:, FEATURE_INDEX["tunnel"]] = np.minimum(dense[:, FEATURE_INDEX["tunnel"]], 4.0) * 0.25
        if not self.options.statistics:
            return dense
        base, tables = self.base_rate, self._tables
        prefixes, pages = rows["prefixes"].take(where, axis=0), rows["pages"].take(where, axis=0)
        dense[:, FEATURE_INDEX["tag path"]] = (
            tables["tag path"].rate(rows["path"].take(where, axis=0), base, 1.0) - base
        )
        dense[:, FEATURE_INDEX["host"]] = tables["prefix"].rate(prefixes[:, 0], base, 3.0) - base
        dense[:, FEATURE_INDEX["directory"]] = tables["prefix"].nested_rate(prefixes, base, 2.0) - base
        pays = tables["page"].rate(pages, base, 3.0)
        dense[:, FEATURE_INDEX["page"]] = np.where(pages > 0, pays, 0.0).max(axis=1) - base
        if self.options.siblings:
            groups = rows["groups"].take(where, axis=0)
            dense[:, FEATURE_INDEX["list"]] = (
                self._sibling_groups.pooled_rate(groups, base, self.options.shrinkage) - base
            )
        return dense

    def update_word_values(self, terms: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """What words are worth on pages, by all that is known now."""
        self._word_values.update(terms, values)
        self.refresh_word_values(self.pool.used_rows)

    def refresh_word_values(self, where: RowIndices) -> None:
        """A row keeps these values, so that a lesson from a journal is the lesson that was learnt."""
        words, dense = self.pool.rows["words"].take(where, axis=0), self.pool.rows["dense"]
        dense[where, FEATURE_INDEX["words at it"]] = self._word_values.row_values(words[:, LINK_WORDS])
        dense[where, FEATURE_INDEX["words around"]] = self._word_values.row_values(words[:, CONTEXT_WORDS])

    def refresh_word_logits(self, where: RowIndices) -> None:
        if self.options.words:
            self.pool.word_logits[where] = self.words.logits(self.pool.rows["words"].take(where, axis=0))

    def scores(self, where: RowIndices) -> NDArray[np.float64]:
        """The chance that each link pays: the models', where there is a page at all, plus a bonus for the unknown."""
        rows, options = self.pool.rows, self.options
        chance = sigmoid(self.pool.word_logits[where] + self.dense.logits(self.dense_features(where)))
        if options.statistics:
            chance = chance * self._alive_probability(where)
        if options.explore:
            prefixes = self._tables["prefix"].tries(rows["prefixes"].take(where, axis=0))
            unknown = 1.0 / np.sqrt(1.0 + prefixes[:, 0]) + 1.0 / np.sqrt(1.0 + prefixes[:, -1])
            chance = chance * (1.0 + options.explore * 0.5 ** (self.visits_learned / options.explore_for) * unknown)
        return chance

    def _alive_probability(self, where: RowIndices) -> NDArray[np.float64]:
        """The chance that there is a page at all, by its address and by its place on the page that links to it."""
        rows = self.pool.rows
        by_address = self._tables["alive"].nested_rate(rows["prefixes"].take(where, axis=0), PRIOR_ALIVE_RATE, 2.0)
        by_place = self._tables["alive"].rate(path_bucket(rows["path"].take(where, axis=0)), PRIOR_ALIVE_RATE, 2.0)
        return np.minimum(by_address, by_place)


def path_bucket(path: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The hash of a tag path in a table that addresses share."""
    return path ^ np.uint32(0x5BD1E995)


class LinkVisit(msgspec.Struct, frozen=True, array_like=True):
    """What became of a fetched link: its reward (0..1), whether there was a page at all, and whether on the topic."""

    key: int
    url: str
    reward: float
    is_page: bool
    relevant: bool = False
    # Nothing was to be learnt: it was refused, or redirected and lives on under another address
    discarded: bool = False


class LinkLesson(msgspec.Struct, frozen=True, array_like=True):
    """Everything that one step of learning depends on beside the model: taught again, it does the same again."""

    visit: LinkVisit
    row: bytes = b""  # the link as it was queued
    queued_score: float = -1.0  # how promising it was held; -1: it was not held
    old_reward: float = -1.0  # the reward it was learnt with, where a person has corrected that


class SourcePage(msgspec.Struct, frozen=True):
    """The page that links were found on."""

    key: int
    relevant: bool
    tunnel_depth: int
