"""The committee: one online model over every member's score, trained by what fetched pages turned out to be.

Hubs are found by sibling success: what the other links of the same page, and of the same place on that page, turned
out to be. Pure: no I/O, no clock, no chance: the same visits give the same scores.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.credit import Example
from opilio.learn.learnt import Learnt
from opilio.learn.lessons import FoundPage, Lesson, Visit
from opilio.learn.linkfeatures import DENSE, LinkFeatures, prefixes_of, unpacked
from opilio.learn.linkqueue import CONTEXTS, LinkQueue
from opilio.learn.success import Success
from opilio.learn.wordmodel import sigmoid

Rows = NDArray[np.int64]

# Dense features with the weights they begin with: the papers' scores, before anything is learnt (cold start).
FEATURES = {
    "bias": -2.2,
    "parent": 2.0,  # γ of the best page that links to it
    "anchor": 2.5,  # β
    "around": 1.4,  # ω
    "url": 1.6,  # α
    "same host": 0.0,
    "textless": -0.3,
    "path depth": -0.3,
    "query": -0.2,
    "found": 0.5,  # how many pages link to it
    "relevant parents": 0.5,
    "tunnel": -0.3,
    "tag path": 1.5,  # success of links at the same place of other pages
    "directory": 1.5,
    "host": 1.0,
    "page": 1.0,  # success of the other links of the same page
}
NAMES = tuple(FEATURES)
_AT = {name: place for place, name in enumerate(NAMES)}
# Features that come with the link itself; of several contexts the best counts.
_STATIC = {
    "parent": "parent",
    "anchor": "anchor",
    "around": "around",
    "url": "url",
    "same host": "same_host",
    "textless": "textless",
    "path depth": "path_depth",
    "query": "query",
}
_ONE = np.zeros(1, dtype=np.uint32)
FIRMLY = 4  # times that a person's word is taught, against once for a judge's
ALIVE = 0.9  # links that lead to a page, before anything is known
LONG_AGO = -(1 << 40)
ALL_EVERY = 8  # visits after which all links are scored again; more where there are many
FRONT = 512  # best links, scored again at every visit
NOTICEABLE = 1e-3  # a smaller change of score is not worth a write


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What can be tuned, and what ablations switch off."""

    capacity: int = 100_000  # links kept in memory for rescoring
    shrinkage: float = 3.0  # tries that sibling evidence must outweigh
    credit: float = 0.4  # γ of delayed credit; 0: off
    explore: float = 0.0  # how much an unknown place is worth at first; 0: off
    explore_for: float = 500.0  # fetches after which that has halved
    siblings: bool = True
    words: bool = True  # hashed words
    statistics: bool = True  # success of tag paths, directories and hosts
    learning: bool = True  # weights of the dense features
    rescore: bool = True
    top: int = 128  # best links that are scored to the digit at every turn


class Committee(Learnt):
    """Scores links, learns from visits, says which queued links changed their place.

    For one batch: `learn` what was fetched, `discover` the links of the new pages, then ask for `changes`.
    """

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        super().__init__(FEATURES, ("tag path", "prefix", "page", "alive", "all"), self.options.credit)
        self.queue = LinkQueue(self.options.capacity, len(NAMES))
        self._front: Rows = np.zeros(0, dtype=np.int64)  # rows that are scored again at every visit
        self._scored_at = LONG_AGO

    @property
    def fetched(self) -> int:
        """How many outcomes it has learnt from."""
        return int(self._tables["all"].tries[0])

    @property
    def base_rate(self) -> float:
        """The mean reward so far, with a cautious beginning."""
        return float(self._tables["all"].rate(_ONE, 0.2, 5.0)[0])

    def learn(self, visits: Iterable[Visit]) -> None:
        """What became of fetched links. Seeds were never queued here: they teach about their places only."""
        for visit in visits:
            self._done.add(visit.key)
            row = self.queue.row_of.get(visit.key)
            if row is not None:
                self._learn_row(visit, row)
                self.queue.drop(visit.key)
            prefixes = np.array(prefixes_of(visit.url), dtype=np.uint32)
            self._tables["prefix"].add(prefixes, visit.reward)
            places = prefixes if row is None else np.append(prefixes, _place(self.queue.rows["path"][row]))
            self._tables["alive"].add(places, float(visit.page))
            self._tables["all"].add(_ONE, visit.reward)

    def _learn_row(self, visit: Visit, row: int) -> None:
        queue = self.queue.rows
        dense, words = self._dense_of(np.array([row]))[0], queue["words"][row].copy()
        used = int(min(queue["contexts"][row], CONTEXTS))
        pages = queue["pages"][row, :used]
        self._teach(Example(words, dense, visit.reward))
        self._groups.add(queue["groups"][row, :used], visit.reward)
        self._tables["page"].add(pages, visit.reward)
        self._tables["tag path"].add(queue["path"][row : row + 1], visit.reward)
        for lesson in self._credit.paid(pages.tolist(), visit.reward):
            self._teach(lesson)
        if visit.page:
            self._credit.remember(_page_hash(visit.key), Example(words, dense, visit.reward))

    def _teach(self, example: Example) -> None:
        said = float(self.words.logits(example.words[None])[0]) if self.options.words else 0.0
        if self.options.words:
            self.words.learn(example.words, example.label, float(self.dense.logits(example.dense)))
        if self.options.learning:
            self.dense.learn(example.dense, example.label, said)

    def lesson(self, visit: Visit) -> Lesson:
        """What is about to be learnt from a visit, for a journal."""
        row = self.queue.row_of.get(visit.key)
        said = -1.0 if row is None else float(self.queue.said[row])
        return Lesson(visit, self.queue.row_bytes(visit.key), said)

    def study(self, lesson: Lesson) -> None:
        """Learn from a lesson: the first time, or again from a journal."""
        visit = lesson.visit
        if lesson.before >= 0.0:
            self._correct(lesson)
            return
        if lesson.row:
            self.queue.put(visit.key, "", lesson.row)
        self.learn([visit])

    def _correct(self, lesson: Lesson) -> None:
        """A person knows better what a page was worth: its places get what is due, its features are taught firmly."""
        self._scored_at = LONG_AGO  # a person's word moves links far down too
        visit, change = lesson.visit, lesson.visit.reward - lesson.before
        prefixes = np.array(prefixes_of(visit.url), dtype=np.uint32)
        self._tables["prefix"].correct(prefixes, change)
        self._tables["all"].correct(_ONE, change)
        self.queue.put(visit.key, "", lesson.row)
        row = self.queue.row_of.get(visit.key)
        if row is None:
            return
        queue = self.queue.rows
        used = int(min(queue["contexts"][row], CONTEXTS))
        self._groups.correct(queue["groups"][row, :used], change)
        self._tables["page"].correct(queue["pages"][row, :used], change)
        self._tables["tag path"].correct(queue["path"][row : row + 1], change)
        example = Example(queue["words"][row].copy(), self._dense_of(np.array([row]))[0], visit.reward)
        self.queue.drop(visit.key)
        for _ in range(FIRMLY):
            self._teach(example)

    def recall(self, key: int, host: str, features: bytes, pages: Sequence[FoundPage]) -> int:
        """The row of a link from what the frontier kept of it: held as if it had just been found on these pages."""
        found = unpacked([features])
        for page in pages:
            where = np.array([self._row_for(key, host, found, 0, page.tunnel)])
            self._meet(where, page, found)
            self._weigh(where)
        return self.queue.row_of[key]

    def regard(self, page: int, relevant: bool) -> None:
        """See the links of a page in another light: a person said what it is worth."""
        live, rows = self.queue.live, self.queue.rows
        own = live[(rows["pages"][live] == np.uint32(_page_hash(page))).any(axis=1)]
        if not relevant:  # what other pages say of a link still counts
            own = own[rows["contexts"][own] == 1]
        rows["dense"][own, _AT["parent"]] = float(relevant)
        rows["dense"][own, _AT["relevant parents"]] = 0.25 * relevant

    def promise(self) -> float:
        """The sum of the chances of all links held."""
        return float(self._scores(self.queue.live).sum()) if len(self.queue) else 0.0

    def discover(self, page: FoundPage, hosts: Sequence[str], keys: Sequence[int], found: LinkFeatures) -> list[float]:
        """The links of a fetched page: remembered, and scored."""
        queue = self.queue
        queue.make_room(len(keys))
        scores = [0.0] * len(keys)
        open_ = [place for place, key in enumerate(keys) if key not in self._done]
        if not open_:
            return scores
        where = np.array([self._row_for(keys[i], hosts[i], found, i, page.tunnel) for i in open_], dtype=np.int64)
        self._meet(where, page, found[open_])
        self._weigh(where)
        chances = self._scores(where)
        new = queue.said[where] == 0.0
        queue.said[where[new]] = chances[new]
        self._front = np.concatenate((self._front, where))
        for place, score in zip(open_, chances.tolist(), strict=True):
            scores[place] = score
        return scores

    def _row_for(self, key: int, host: str, found: LinkFeatures, place: int, tunnel: int) -> int:
        row = self.queue.row_of.get(key)
        if row is None:
            row = self.queue.take(key, host)
            rows = self.queue.rows
            for name in ("words", "path", "prefixes"):
                rows[name][row] = found[name][place]
            rows["dense"][row, _AT["bias"]] = 1.0
            rows["dense"][row, _AT["tunnel"]] = tunnel
        return row

    def _meet(self, where: Rows, page: FoundPage, found: LinkFeatures) -> None:
        """Merge another context into each row: the best of every score, and one more group of siblings."""
        # A URL that stands twice on a page is one context: its first mention counts.
        where, first = np.unique(where, return_index=True)
        found, rows = found[first], self.queue.rows
        dense = rows["dense"][where]
        values = np.nan_to_num(found["dense"].astype(np.float32), posinf=1.0, neginf=0.0)
        for name, source in _STATIC.items():
            dense[:, _AT[name]] = np.maximum(dense[:, _AT[name]], values[:, DENSE.index(source)])
        dense[:, _AT["tunnel"]] = np.minimum(dense[:, _AT["tunnel"]], page.tunnel)
        dense[:, _AT["relevant parents"]] = np.minimum(dense[:, _AT["relevant parents"]] + 0.25 * page.relevant, 1.0)
        contexts = rows["contexts"][where]
        slot = np.minimum(contexts, CONTEXTS - 1)
        page_hash = np.uint32(_page_hash(page.key))
        rows["pages"][where, slot] = page_hash
        rows["groups"][where, slot] = ((found["path"] * np.uint32(0x9E3779B1)) ^ page_hash) | np.uint32(1)
        rows["contexts"][where] = np.minimum(contexts + 1, 32_000)
        dense[:, _AT["found"]] = np.log1p(contexts + 1) * 0.5
        rows["dense"][where] = dense

    def _dense_of(self, where: Rows) -> NDArray[np.float64]:
        """The dense features with what the success tables say now."""
        rows = self.queue.rows
        dense = rows["dense"][where].astype(np.float64)
        dense[:, _AT["tunnel"]] = np.minimum(dense[:, _AT["tunnel"]], 4.0) * 0.25
        if not self.options.statistics:
            return dense
        base, tables = self.base_rate, self._tables
        prefixes, pages = rows["prefixes"][where], rows["pages"][where]
        dense[:, _AT["tag path"]] = tables["tag path"].rate(rows["path"][where], base, 1.0) - base
        dense[:, _AT["host"]] = tables["prefix"].rate(prefixes[:, 0], base, 3.0) - base
        dense[:, _AT["directory"]] = _down_the_path(tables["prefix"], prefixes, base) - base
        siblings = tables["page"].rate(pages, base, 3.0)
        dense[:, _AT["page"]] = np.where(pages > 0, siblings, 0.0).max(axis=1) - base
        return dense

    def _weigh(self, where: Rows) -> None:
        if self.options.words:
            self.queue.word_logits[where] = self.words.logits(self.queue.rows["words"][where])

    def _scores(self, where: Rows) -> NDArray[np.float64]:
        """The chance that each link pays: the models', moved by what its siblings did, plus a bonus for the unknown."""
        rows, options = self.queue.rows, self.options
        chance = sigmoid(self.queue.word_logits[where] + self.dense.logits(self._dense_of(where)))
        if options.siblings:
            groups = rows["groups"][where]
            moved = self._groups.rate(groups, chance[:, None], options.shrinkage)
            chance = np.where(groups > 0, moved, 0.0).max(axis=1)
        if options.statistics:
            chance = chance * self._alive(where)
        if options.explore:
            prefixes = self._tables["prefix"].seen(rows["prefixes"][where])
            unknown = 1.0 / np.sqrt(1.0 + prefixes[:, 0]) + 1.0 / np.sqrt(1.0 + prefixes[:, -1])
            chance = chance * (1.0 + options.explore * 0.5 ** (self.fetched / options.explore_for) * unknown)
        return chance

    def _alive(self, where: Rows) -> NDArray[np.float64]:
        """The chance that there is a page at all, by its address and by its place on the page that links to it."""
        rows = self.queue.rows
        by_address = _down_the_path(self._tables["alive"], rows["prefixes"][where], ALIVE)
        by_place = self._tables["alive"].rate(_place(rows["path"][where]), ALIVE, 2.0)
        return np.minimum(by_address, by_place)

    def changes(self) -> list[tuple[str, int, float]]:
        """Queued links whose place changed enough to matter, as (host, key, new score).

        All are scored again only now and then, in between those that stood best then and those found since: one
        visit changes little for links far down, and scoring all every time cost a sixth of a replay.
        """
        queue, live = self.queue, self.queue.live
        all_of_them = self.fetched >= self._scored_at + max(ALL_EVERY, len(live) // 1_000)
        if not all_of_them:
            live = np.unique(self._front[queue.said[self._front] >= 0.0])
        if not self.options.rescore or not len(live):
            return []
        scores = self._scores(live)
        if all_of_them:
            self._scored_at = self.fetched
            self._front = live[np.argpartition(-scores, FRONT - 1)[:FRONT]] if len(live) > FRONT else live
        top = min(self.options.top, len(live))
        best = np.argpartition(-scores, top - 1)[:top]
        self._weigh(live[best])
        scores[best] = self._scores(live[best])
        said = queue.said[live]
        moved = (np.abs(scores - said) > NOTICEABLE) & (np.maximum(scores, said) >= scores[best].min())
        rows = live[moved]
        queue.said[rows] = scores[moved]
        keys = queue.rows["key"][rows].tolist()
        hosts = [queue.hosts[row] for row in rows.tolist()]
        return list(zip(hosts, keys, scores[moved].tolist(), strict=True))


def _down_the_path(table: Success, prefixes: NDArray[np.uint32], prior: float) -> NDArray[np.float64]:
    """The rate of the deepest directory, shrunk towards that of the one above it, and so on up to the host."""
    rate = table.rate(prefixes[:, 0], prior, 2.0)
    for level in range(1, prefixes.shape[1]):
        deeper = prefixes[:, level] != prefixes[:, level - 1]
        rate = np.where(deeper, table.rate(prefixes[:, level], rate, 2.0), rate)
    return rate


def _place(path: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The hash of a tag path in a table that addresses share."""
    return path ^ np.uint32(0x5BD1E995)


def _page_hash(key: int) -> int:
    return (key & 0xFFFFFFFF) | 1
