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
from opilio.learn.rescoring import Rescoring, Rows, best
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


class Met(NamedTuple):
    """Links of several pages with where each stands, one row per link."""

    numbers: Rows  # of its page among these
    pages: NDArray[np.uint32]  # that page's hash
    tunnels: NDArray[np.int64]
    relevant: NDArray[np.int64]
    features: LinkFeatures

    @classmethod
    def of(cls, found: Sequence[Found]) -> "Met":
        of_page = np.repeat(np.arange(len(found)), [len(page.keys) for page in found])
        pages = np.array([_page_hash(page.page.key) for page in found], dtype=np.uint32)
        tunnels = np.array([page.page.tunnel for page in found])
        relevant = np.array([page.page.relevant for page in found], dtype=np.int64)
        features = np.concatenate([page.features for page in found])
        return cls(of_page, pages[of_page], tunnels[of_page], relevant[of_page], features)

    def among(self, places: NDArray[np.integer | np.bool_]) -> "Met":
        return Met(*(column[places] for column in self))


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
        ended = [visit for visit in visits if not visit.passed]
        held = self.queue.row_of
        links: dict[int, Visit] = {}
        for visit in ended:
            if visit.key in held:
                links.setdefault(visit.key, visit)
        rows = np.array([held[key] for key in links], dtype=np.int64)
        if links:
            self._learn_links(list(links.values()), rows)
        if ended:
            self._learn_places(ended)
        for visit in visits:
            self._done.add(visit.key)
            self.queue.drop(visit.key)

    def _learn_places(self, visits: Sequence[Visit]) -> None:
        """What visits say of hosts, directories and places on pages."""
        prefixes = np.array([prefixes_of(visit.url) for visit in visits], dtype=np.uint32)
        rewards = np.array([visit.reward for visit in visits])
        self._tables["prefix"].add(prefixes, rewards)
        self._tables["all"].add(EVERYWHERE.repeat(len(visits))[:, None], rewards)
        places = prefixes[:, :1].copy()  # once more: counted once
        held = {at: row for at, visit in enumerate(visits) if (row := self.queue.row_of.get(visit.key)) is not None}
        if held:
            places[list(held), 0] = place_of(self.queue.rows["path"][list(held.values())])
        alive = np.array([visit.page for visit in visits], dtype=np.float32)
        self._tables["alive"].add(np.hstack((prefixes, places)), alive)

    def _learn_links(self, visits: Sequence[Visit], rows: Rows) -> None:
        """What visits say of links as they stood in the queue."""
        queue = self.queue.rows
        words, dense = queue["words"].take(rows, axis=0), self.dense_of(rows)
        pages = queue["pages"].take(rows, axis=0)
        rewards = np.array([visit.reward for visit in visits])
        examples = []
        for at, visit in enumerate(visits):
            example = Example(words[at], dense[at], visit.reward)
            examples.append(example)
            examples += self._credit.paid([page for page in pages[at].tolist() if page], visit.reward)
            if visit.page:
                self._credit.remember(_page_hash(visit.key), example)
        self._teach(examples)
        self._groups.add(queue["groups"].take(rows, axis=0), rewards)
        self._tables["page"].add(pages, rewards)
        self._tables["tag path"].add(queue["path"].take(rows)[:, None], rewards)

    def _teach(self, examples: Sequence[Example]) -> None:
        words = np.array([example.words for example in examples])
        dense = np.array([example.dense for example in examples])
        labels = np.array([example.label for example in examples])
        said = np.zeros(len(examples))
        if self.options.words:
            said = self.words.logits(words)
            self.words.learn(words, labels, self.dense.logits(dense))
        self.dense.learn(dense, labels, said)

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
            self._teach([example])

    def recall(self, key: int, host: str, features: bytes, pages: Sequence[FoundPage]) -> int:
        """The row of a link from what the frontier kept of it: held as if it had just been found on these pages."""
        found = unpacked([features])
        for page in pages:
            met = Met.of([Found(page, [host], np.array([key]), found)])
            where = self._rows_for([key], [host], met)
            self._meet(where, met)
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
        keys = np.concatenate([page.keys for page in pages])
        waiting = np.flatnonzero(~self._done.among(keys))
        met = Met.of(pages).among(waiting)
        hosts = [host for page in pages for host in page.hosts]
        where = self._rows_for(keys[waiting].tolist(), [hosts[at] for at in waiting.tolist()], met)
        self._meet(where, met)
        rows = distinct(where)
        self.weigh(rows)
        chances, queue = self.scores(rows), self.queue
        new = queue.said[rows] == 0.0
        queue.said[rows[new]] = chances[new]
        self._rescoring.found(rows)
        scores = np.zeros(links)
        scores[waiting] = chances[np.searchsorted(rows, where)]
        return np.split(scores, np.cumsum([len(page.keys) for page in pages])[:-1])

    def _rows_for(self, keys: Sequence[int], hosts: Sequence[str], met: Met) -> Rows:
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
                rows[name][taken] = met.features[name][places]
            rows["dense"][taken, AT["bias"]] = 1.0
            rows["dense"][taken, AT["tunnel"]] = met.tunnels[places]
            self.value(np.array(taken))
        return np.array([queue.row_of[key] for key in keys], dtype=np.int64)

    def _meet(self, where: Rows, met: Met) -> None:
        """Merge new contexts into their rows: the best of every score, and one more group of siblings for each."""
        if not len(where):
            return
        # In the order of rows, and of pages for each. A URL that stands twice on a page is one context: its first
        # mention counts.
        order = np.lexsort((met.numbers, where))
        where, met = where[order], met.among(order)
        new = np.diff(where, prepend=-1) > 0
        once = new | (np.diff(met.numbers, prepend=-1) != 0)
        where, met, new = where[once], met.among(once), new[once]
        first = np.flatnonzero(new)
        each, rows = where[first], self.queue.rows
        dense = rows["dense"].take(each, axis=0)
        highest = np.fmax.reduceat(np.fmin(met.features["dense"].astype(np.float32), 1.0), first)
        dense[:, STATIC] = np.fmax(dense[:, STATIC], highest)  # what is no number counts for nothing
        dense[:, AT["tunnel"]] = np.minimum(dense[:, AT["tunnel"]], np.minimum.reduceat(met.tunnels, first))
        parents = dense[:, AT["relevant parents"]] + 0.25 * np.add.reduceat(met.relevant, first)
        dense[:, AT["relevant parents"]] = np.minimum(parents, 1.0)
        times = np.diff(first, append=len(where))
        before = rows["contexts"].take(each)
        contexts = np.arange(len(where)) + np.repeat(before - first, times)  # how many each has before
        slot = np.minimum(contexts, CONTEXTS - 1)  # the latest page takes the last one
        rows["pages"][where, slot] = met.pages
        rows["groups"][where, slot] = ((met.features["path"] * np.uint32(0x9E3779B1)) ^ met.pages) | np.uint32(1)
        after = np.minimum(before + times, MANY)
        rows["contexts"][each] = after
        dense[:, AT["found"]] = _often(after)
        rows["dense"][each] = dense

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
