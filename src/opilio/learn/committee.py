"""The committee: one online model over every member's score, trained by what fetched pages turned out to be.

Hubs are found by sibling success: what the other links of the same page, and of the same list on that page, turned
out to be. How much that counts is learnt like everything else: much on a web with index pages, little on others.
Pure: no I/O, no clock, no chance: the same visits give the same scores.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opilio.learn.credit import Example
from opilio.learn.densefeatures import AT, STATIC
from opilio.learn.lessons import FoundPage, Lesson, Visit
from opilio.learn.linkfeatures import LinkFeatures, prefixes_of, unpacked
from opilio.learn.linkqueue import CONTEXTS
from opilio.learn.rescoring import NO_ROWS, Rescoring, Rows, best
from opilio.learn.scoring import EVERYWHERE, Options, Scoring, place_of
from opilio.text.counting import distinct

FIRMLY = 4  # times that a person's word is taught, against once for a judge's
MANY = 32_000  # pages that link to one address: more are not counted
NOTICEABLE = 4e-3  # a smaller change of score is not worth a write


class Found(NamedTuple):
    """The links of one page."""

    page: FoundPage
    hosts: Sequence[str]
    keys: NDArray[np.int64]
    features: LinkFeatures


class Committee(Scoring):
    """Scores links, learns from visits, says which queued links changed their place.

    For one batch: `learn` what was fetched, `discover` the links of the new pages, then ask for `changes`.
    """

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options or Options())
        self._rescoring = Rescoring()
        self._promise = 0.0

    def learn(self, visits: Sequence[Visit]) -> None:
        """What became of fetched links. Seeds were never queued here: they teach about their places only.

        Those of one batch are looked at as they stood before it: one look for all is many times as fast.
        """
        held = self.queue.row_of
        row_of = {visit.key: held[visit.key] for visit in visits if visit.key in held and not visit.passed}
        dense = dict(zip(row_of, self.dense_of(np.array(list(row_of.values()), dtype=np.int64)), strict=True))
        for visit in visits:
            self._done.add(visit.key)
            if visit.passed:
                self.queue.drop(visit.key)
                continue
            row = row_of.pop(visit.key, None)
            if row is not None:
                self._learn_row(visit, row, dense[visit.key])
                self.queue.drop(visit.key)
            prefixes = np.array(prefixes_of(visit.url), dtype=np.uint32)
            self._tables["prefix"].add(prefixes, visit.reward)
            places = prefixes if row is None else np.append(prefixes, place_of(self.queue.rows["path"][row]))
            self._tables["alive"].add(places, float(visit.page))
            self._tables["all"].add(EVERYWHERE, visit.reward)

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

    def move(self, key: int, new: int, host: str) -> None:
        """A link turned out to lead to another address, and is held under that, unless it was fetched already."""
        if new not in self._done:
            self.queue.rename(key, new, host)

    def lesson(self, visit: Visit) -> Lesson:
        """What is about to be learnt from a visit, for a journal."""
        if visit.passed:
            return Lesson(visit)
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
        self._tables["all"].correct(EVERYWHERE, change)
        self.queue.put(visit.key, "", lesson.row)
        row = self.queue.row_of.get(visit.key)
        if row is None:
            return
        queue = self.queue.rows
        used = int(min(queue["contexts"][row], CONTEXTS))
        self._groups.correct(queue["groups"][row, :used], change)
        self._tables["page"].correct(queue["pages"][row, :used], change)
        self._tables["tag path"].correct(queue["path"][row : row + 1], change)
        example = Example(queue["words"][row].copy(), self.dense_of(np.array([row]))[0], visit.reward)
        self.queue.drop(visit.key)
        for _ in range(FIRMLY):
            self._teach(example)

    def recall(self, key: int, host: str, features: bytes, pages: Sequence[FoundPage]) -> int:
        """The row of a link from what the frontier kept of it: held as if it had just been found on these pages."""
        found = unpacked([features])
        for page in pages:
            where = self._rows_for([key], [host], found, page.tunnel)
            self._meet(where, page, found)
            self.weigh(where)
        return self.queue.row_of[key]

    def met_before(self, times: Mapping[int, int]) -> None:
        """Links that were found so many times, of which a few are remembered."""
        rows = np.array([self.queue.row_of[key] for key in times], dtype=np.int64)
        contexts = np.maximum(self.queue.rows["contexts"][rows], np.minimum(list(times.values()), MANY))
        self.queue.rows["contexts"][rows] = contexts
        self.queue.rows["dense"][rows, AT["found"]] = _often(contexts)

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
            self._promise = float(self.scores(self.queue.live).sum()) if len(self.queue) else 0.0
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
        self.weigh(rows)
        chances, queue = self.scores(rows), self.queue
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
            self.value(np.array(taken))
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
        rows["contexts"][where] = np.minimum(contexts + 1, MANY)
        dense[:, AT["found"]] = _often(contexts + 1)
        rows["dense"][where] = dense

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
        self.weigh(front)
        scores = self.scores(front)
        changes = self._moved(front, scores, best(scores, self.options.top))
        rescoring.scored_front(visits, front, queue.said)
        return changes

    def _scored_all(self, visits: int) -> tuple[NDArray[np.float64], Rows]:
        """The scores of all rows in use, and where among them the best are."""
        live = self.queue.live
        scores = self.scores(live)
        top = best(scores, self.options.top)
        self.weigh(live[top])
        scores[top] = self.scores(live[top])
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


def _often(contexts: NDArray[np.int16]) -> NDArray[np.float64]:
    often: NDArray[np.float64] = np.log1p(contexts) * 0.5
    return often


def _page_hash(key: int) -> int:
    return (key & 0xFFFFFFFF) | 1
