"""How promising queued links are, by everything learnt so far. Learning itself is the committee's part."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.densefeatures import AT, FEATURES, NAMES
from opilio.learn.learnt import Learnt
from opilio.learn.linkfeatures import AROUND_IT, AT_IT
from opilio.learn.linkqueue import LinkQueue
from opilio.learn.rescoring import Rows
from opilio.learn.wordmodel import sigmoid
from opilio.learn.wordvalues import WordValues

EVERYWHERE = np.full(1, 1 << 31, dtype=np.uint32)  # the one place of the table "all"
ALIVE = 0.9  # links that lead to a page, before anything is known


class Options(msgspec.Struct, frozen=True, kw_only=True):
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


class Scoring(Learnt):
    """Holds links and scores them. Their rows are filled by whoever finds them."""

    def __init__(self, options: Options) -> None:
        self.options = options
        super().__init__(FEATURES, ("tag path", "prefix", "page", "alive", "all"), options.credit)
        self.queue = LinkQueue(options.capacity, len(NAMES))
        self._left_out = [AT[name] for name in options.without]
        self._values = WordValues()

    @property
    def fetched(self) -> int:
        """How many outcomes it has learnt from."""
        return int(self._tables["all"].seen(EVERYWHERE)[0])

    @property
    def base_rate(self) -> float:
        """The mean reward so far, with a cautious beginning."""
        return float(self._tables["all"].rate(EVERYWHERE, 0.2, 5.0)[0])

    def dense_of(self, where: Rows) -> NDArray[np.float64]:
        """The dense features with what the success tables say now."""
        dense = self._all_dense_of(where)
        if self._left_out:
            dense[:, self._left_out] = 0.0
        return dense

    def _all_dense_of(self, where: Rows) -> NDArray[np.float64]:
        rows = self.queue.rows
        dense = rows["dense"].take(where, axis=0).astype(np.float64)
        dense[:, AT["tunnel"]] = np.minimum(dense[:, AT["tunnel"]], 4.0) * 0.25
        if not self.options.statistics:
            return dense
        base, tables = self.base_rate, self._tables
        prefixes, pages = rows["prefixes"].take(where, axis=0), rows["pages"].take(where, axis=0)
        dense[:, AT["tag path"]] = tables["tag path"].rate(rows["path"].take(where, axis=0), base, 1.0) - base
        dense[:, AT["host"]] = tables["prefix"].rate(prefixes[:, 0], base, 3.0) - base
        dense[:, AT["directory"]] = tables["prefix"].rate_inwards(prefixes, base, 2.0) - base
        pays = tables["page"].rate(pages, base, 3.0)
        dense[:, AT["page"]] = np.where(pages > 0, pays, 0.0).max(axis=1) - base
        if self.options.siblings:
            groups = rows["groups"].take(where, axis=0)
            dense[:, AT["list"]] = self._groups.pooled(groups, base, self.options.shrinkage) - base
        return dense

    def hear(self, terms: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """What words are worth on pages, by all that is known now."""
        self._values.hear(terms, values)
        self.value(self.queue.live)

    def value(self, where: Rows) -> None:
        """A row keeps these values, so that a lesson from a journal is the lesson that was learnt."""
        words, dense = self.queue.rows["words"].take(where, axis=0), self.queue.rows["dense"]
        dense[where, AT["words at it"]] = self._values.of(words[:, AT_IT])
        dense[where, AT["words around"]] = self._values.of(words[:, AROUND_IT])

    def weigh(self, where: Rows) -> None:
        if self.options.words:
            self.queue.word_logits[where] = self.words.logits(self.queue.rows["words"].take(where, axis=0))

    def scores(self, where: Rows) -> NDArray[np.float64]:
        """The chance that each link pays: the models', where there is a page at all, plus a bonus for the unknown."""
        rows, options = self.queue.rows, self.options
        chance = sigmoid(self.queue.word_logits[where] + self.dense.logits(self.dense_of(where)))
        if options.statistics:
            chance = chance * self._alive(where)
        if options.explore:
            prefixes = self._tables["prefix"].seen(rows["prefixes"].take(where, axis=0))
            unknown = 1.0 / np.sqrt(1.0 + prefixes[:, 0]) + 1.0 / np.sqrt(1.0 + prefixes[:, -1])
            chance = chance * (1.0 + options.explore * 0.5 ** (self.fetched / options.explore_for) * unknown)
        return chance

    def _alive(self, where: Rows) -> NDArray[np.float64]:
        """The chance that there is a page at all, by its address and by its place on the page that links to it."""
        rows = self.queue.rows
        by_address = self._tables["alive"].rate_inwards(rows["prefixes"].take(where, axis=0), ALIVE, 2.0)
        by_place = self._tables["alive"].rate(place_of(rows["path"].take(where, axis=0)), ALIVE, 2.0)
        return np.minimum(by_address, by_place)


def place_of(path: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The hash of a tag path in a table that addresses share."""
    return path ^ np.uint32(0x5BD1E995)
