"""The committee: one online model over every member's score, trained by what fetched pages turned out to be.

Hubs are found by sibling success: what the other links of the same page, and of the same list on that page, turned
out to be. How much that counts is learnt like everything else: much on a web with index pages, little on others.
Pure: no I/O, no clock, no chance: the same visits give the same scores.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.credit import Example
from opilio.learn.densefeatures import AT, FEATURES, NAMES, STATIC
from opilio.learn.learnt import Learnt
from opilio.learn.lessons import FoundPage, Lesson, Visit
from opilio.learn.linkfeatures import LinkFeatures, prefixes_of, unpacked
from opilio.learn.linkqueue import CONTEXTS, LinkQueue
from opilio.learn.rescoring import NO_ROWS, Rescoring, Rows, best
from opilio.learn.wordmodel import sigmoid
from opilio.text.counting import distinct

_ONE = np.zeros(1, dtype=np.uint32)
FIRMLY = 4  # times that a person's word is taught, against once for a judge's
ALIVE = 0.9  # links that lead to a page, before anything is known
NOTICEABLE = 2e-3  # a smaller change of score is not worth a write


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


class Found(NamedTuple):
    """The links of one page."""

    page: FoundPage
    hosts: Sequence[str]
    keys: NDArray[np.int64]
    features: LinkFeatures


class Committee(Learnt):
    """Scores links, learns from visits, says which queued links changed their place.

    For one batch: `learn` what was fetched, `discover` the links of the new pages, then ask for `changes`.
    """

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        super().__init__(FEATURES, ("tag path", "prefix", "page", "alive", "all"), self.options.credit)
        self.queue = LinkQueue(self.options.capacity, len(NAMES))
        self._left_out = [AT[name] for name in self.options.without]
        self._rescoring = Rescoring()
        self._promise = 0.0

    @property
    def fetched(self) -> int:
        """How many outcomes it has learnt from."""
        return int(self._tables["all"].seen(_ONE)[0])

    @property
    def base_rate(self) -> float:
        """The mean reward so far, with a cautious beginning."""
        return float(self._tables["all"].rate(_ONE, 0.2, 5.0)[0])

    def learn(self, visits: Sequence[Visit]) -> None:
        """What became of fetched links. Seeds were never queued here: they teach about their places only.

        Those of one batch are looked at as they stood before it: one look for all is many times as fast.
        """
        row_of = {visit.key: self.queue.row_of[visit.key] for visit in visits if visit.key in self.queue.row_of}
        dense = dict(zip(row_of, self._dense_of(np.array(list(row_of.values()), dtype=np.int64)), strict=True))
        for visit in visits:
            self._done.add(visit.key)
            row = row_of.pop(visit.key, None)
            if row is not None:
                self._learn_row(visit, row, dense[visit.key])
                self.queue.drop(visit.key)
            prefixes = np.array(prefixes_of(visit.url), dtype=np.uint32)
            self._tables["prefix"].add(prefixes, visit.reward)
            places = prefixes if row is None else np.append(prefixes, _place(self.queue.rows["path"][row]))
            self._tables["alive"].add(places, float(visit.page))
            self._tables["all"].add(_ONE, visit.reward)

    def _learn_row(self, visit: Visit, row: int, dense: NDArray[np.float64]) -> None:
        queue = self.queue.rows
        words = queue["words"][row].copy()
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
        said = self.words.logit(example.words) if self.options.words else 0.0
        if self.options.words:
            self.words.learn(example.words, example.label, float(self.dense.logits(example.dense)))
        self.dense.learn(example.dense, example.label, said)

    def lesson(self, visit: Visit) -> Lesson:
        """What is about to be learnt from a visit, for a journal."""
        row = self.queue.row_of.get(visit.key)
        said = -1.0 if row is None else float(self.queue.said[row])
        return Lesson(visit, self.queue.row_bytes(visit.key), said)

    def study(self, *lessons: Lesson) -> None:
        """Learn from the lessons of one batch: the first time, or again from a journal."""
        for lesson in lessons:
            if lesson.before >= 0.0:
                self._correct(lesson)
            elif lesson.row:
                self.queue.put(lesson.visit.key, "", lesson.row)
        self.learn([lesson.visit for lesson in lessons if lesson.before < 0.0])

    def _correct(self, lesson: Lesson) -> None:
        """A person knows better what a page was worth: its places get what is due, its features are taught firmly."""
        self._rescoring.begin_anew()  # a person's word moves links far down too
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
            where = self._rows_for([key], [host], found, page.tunnel)
            self._meet(where, page, found)
            self._weigh(where)
        return self.queue.row_of[key]

    def regard(self, page: int, relevant: bool) -> None:
        """See the links of a page in another light: a person said what it is worth."""
        live, rows = self.queue.live, self.queue.rows
        own = live[(rows["pages"][live] == np.uint32(_page_hash(page))).any(axis=1)]
        if not relevant:  # what other pages say of a link still counts
            own = own[rows["contexts"][own] == 1]
        rows["dense"][own, AT["parent"]] = float(relevant)
        rows["dense"][own, AT["relevant parents"]] = 0.25 * relevant

    def promise(self, *, anew: bool = False) -> float:
        """The sum of the chances of all links held, as of when all were scored last; or scored for this."""
        if anew or not self._rescoring.all_scored:
            self._promise = float(self._scores(self.queue.live).sum()) if len(self.queue) else 0.0
        return self._promise

    def discover(self, page: FoundPage, hosts: Sequence[str], keys: Sequence[int], found: LinkFeatures) -> list[float]:
        """The links of a fetched page: remembered, and scored."""
        (scores,) = self.discover_all([Found(page, hosts, np.array(keys, dtype=np.int64), found)])
        return list(map(float, scores))

    def discover_all(self, pages: Sequence[Found]) -> list[NDArray[np.float64]]:
        """The same for several pages: scored together, when all are known."""
        links, half = sum(len(page.keys) for page in pages), len(pages) // 2
        if not links:
            return [np.zeros(0) for _ in pages]
        if half and links > self.options.capacity // 4:
            return self.discover_all(pages[:half]) + self.discover_all(pages[half:])
        self.queue.make_room(links)
        ends = np.cumsum([len(page.keys) for page in pages])[:-1]
        fetched = np.split(self._done.among(np.concatenate([page.keys for page in pages])), ends)
        where = [self._met(page, done) for page, done in zip(pages, fetched, strict=True)]
        rows = distinct(np.concatenate(where))
        self._weigh(rows)
        chances, queue = self._scores(rows), self.queue
        new = queue.said[rows] == 0.0
        queue.said[rows[new]] = chances[new]
        self._rescoring.found(rows)
        scores = [np.zeros(len(page.keys)) for page in pages]
        for told, done, own in zip(scores, fetched, where, strict=True):
            told[~done] = chances[np.searchsorted(rows, own)]
        return scores

    def _met(self, page: Found, done: NDArray[np.bool_]) -> Rows:
        """The rows of those links of a page that are not fetched yet."""
        keys, hosts, found = page.keys.tolist(), page.hosts, page.features
        if done.any():
            places = np.flatnonzero(~done).tolist()
            keys, hosts, found = [keys[i] for i in places], [hosts[i] for i in places], found[places]
        if not keys:
            return NO_ROWS
        where = self._rows_for(keys, hosts, found, page.page.tunnel)
        self._meet(where, page.page, found)
        return where

    def _rows_for(self, keys: Sequence[int], hosts: Sequence[str], found: LinkFeatures, tunnel: int) -> Rows:
        """The rows of links; those met for the first time get one."""
        queue, rows = self.queue, self.queue.rows
        first: dict[int, int] = {}  # where each new link is mentioned first
        for place, key in enumerate(keys):
            if key not in queue.row_of:
                first.setdefault(key, place)
        if first:
            places = list(first.values())
            taken = queue.take(list(first), [hosts[place] for place in places])
            for name in ("words", "path", "prefixes"):
                rows[name][taken] = found[name][places]
            rows["dense"][taken, AT["bias"]] = 1.0
            rows["dense"][taken, AT["tunnel"]] = tunnel
        return np.array([queue.row_of[key] for key in keys], dtype=np.int64)

    def _meet(self, where: Rows, page: FoundPage, found: LinkFeatures) -> None:
        """Merge another context into each row: the best of every score, and one more group of siblings."""
        # A URL that stands twice on a page is one context: its first mention counts.
        where, first = np.unique(where, return_index=True)
        found, rows = found[first], self.queue.rows
        dense = rows["dense"].take(where, axis=0)
        values = found["dense"].astype(np.float32)
        dense[:, STATIC] = np.fmax(dense[:, STATIC], np.fmin(values, 1.0))  # what is no number counts for nothing
        dense[:, AT["tunnel"]] = np.minimum(dense[:, AT["tunnel"]], page.tunnel)
        dense[:, AT["relevant parents"]] = np.minimum(dense[:, AT["relevant parents"]] + 0.25 * page.relevant, 1.0)
        contexts = rows["contexts"][where]
        slot = np.minimum(contexts, CONTEXTS - 1)
        page_hash = np.uint32(_page_hash(page.key))
        rows["pages"][where, slot] = page_hash
        rows["groups"][where, slot] = ((found["path"] * np.uint32(0x9E3779B1)) ^ page_hash) | np.uint32(1)
        rows["contexts"][where] = np.minimum(contexts + 1, 32_000)
        dense[:, AT["found"]] = np.log1p(contexts + 1) * 0.5
        rows["dense"][where] = dense

    def _dense_of(self, where: Rows) -> NDArray[np.float64]:
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

    def _weigh(self, where: Rows) -> None:
        if self.options.words:
            self.queue.word_logits[where] = self.words.logits(self.queue.rows["words"].take(where, axis=0))

    def _scores(self, where: Rows) -> NDArray[np.float64]:
        """The chance that each link pays: the models', where there is a page at all, plus a bonus for the unknown."""
        rows, options = self.queue.rows, self.options
        chance = sigmoid(self.queue.word_logits[where] + self.dense.logits(self._dense_of(where)))
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
        by_place = self._tables["alive"].rate(_place(rows["path"].take(where, axis=0)), ALIVE, 2.0)
        return np.minimum(by_address, by_place)

    def changes(self) -> list[tuple[str, int, float]]:
        """Queued links whose place changed enough to matter, as (host, key, new score)."""
        rescoring, visits, queue = self._rescoring, self.fetched, self.queue
        if not self.options.rescore:
            return []
        if rescoring.all_due(visits, len(queue)):
            return self._moved(queue.live, *self._scored_all(visits))
        if not rescoring.front_due(visits):
            return []
        front = rescoring.front(queue.said)
        self._weigh(front)
        scores = self._scores(front)
        changes = self._moved(front, scores, best(scores, self.options.top))
        rescoring.scored_front(visits, front, queue.said)
        return changes

    def _scored_all(self, visits: int) -> tuple[NDArray[np.float64], Rows]:
        """The scores of all rows in use, and where among them the best are."""
        live = self.queue.live
        scores = self._scores(live)
        top = best(scores, self.options.top)
        self._weigh(live[top])
        scores[top] = self._scores(live[top])
        self._promise = float(scores.sum())
        self._rescoring.scored_all(visits, live, scores)
        return scores, top

    def _moved(self, live: Rows, scores: NDArray[np.float64], top: Rows) -> list[tuple[str, int, float]]:
        if not len(live):
            return []
        queue = self.queue
        said = queue.said[live]
        moved = (np.abs(scores - said) > NOTICEABLE) & (np.maximum(scores, said) >= scores[top].min())
        rows = live[moved]
        queue.said[rows] = scores[moved]
        keys = queue.rows["key"][rows].tolist()
        hosts = [queue.hosts[row] for row in rows.tolist()]
        return list(zip(hosts, keys, scores[moved].tolist(), strict=True))


def _place(path: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The hash of a tag path in a table that addresses share."""
    return path ^ np.uint32(0x5BD1E995)


def _page_hash(key: int) -> int:
    return (key & 0xFFFFFFFF) | 1
