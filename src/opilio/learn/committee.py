"""The committee: one online model over every member's score, trained by what fetched pages turned out to be.

Hubs are found by sibling success: what the other links of the same page, and of the same list on that page, turned
out to be. How much that counts is learnt like everything else: much on a web with index pages, little on others.
Pure: no I/O, no clock, no chance: the same visits give the same scores.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opilio.learn.dense_model import FEATURE_INDEX, LINK_FEATURE_SLICE
from opilio.learn.link_pool import MAX_CONTEXTS, RescoreSchedule, RowIndices, top_indices
from opilio.learn.scoring import (
    GLOBAL_BUCKET,
    CommitteeOptions,
    CommitteeScoring,
    LinkLesson,
    LinkVisit,
    SourcePage,
    path_bucket,
)
from opilio.learn.success_rates import LinkExample
from opilio.learn.word_model import LinkFeatures, unpack_features, url_prefixes
from opilio.text.term_arrays import distinct

LABEL_REPEATS = 4  # times that a person's word is taught, against once for a judge's
MAX_COUNTED_PARENTS = 32_000  # pages that link to one address: more are not counted
MIN_SCORE_CHANGE = 4e-3  # a smaller change of score is not worth a write


class FoundLinks(NamedTuple):
    """The links of one page."""

    page: SourcePage
    hosts: Sequence[str]
    keys: NDArray[np.int64]
    features: LinkFeatures


class LinkContexts(NamedTuple):
    """Links of several pages with where each stands, one row per link."""

    page_numbers: RowIndices  # of its page among these
    pages: NDArray[np.uint32]  # that page's hash
    tunnel_depths: NDArray[np.int64]
    relevant: NDArray[np.int64]
    features: LinkFeatures

    @classmethod
    def from_pages(cls, found: Sequence[FoundLinks]) -> "LinkContexts":
        of_page = np.repeat(np.arange(len(found)), [len(page.keys) for page in found])
        pages = np.array([_page_hash(page.page.key) for page in found], dtype=np.uint32)
        tunnels = np.array([page.page.tunnel_depth for page in found])
        relevant = np.array([page.page.relevant for page in found], dtype=np.int64)
        features = np.concatenate([page.features for page in found])
        return cls(of_page, pages[of_page], tunnels[of_page], relevant[of_page], features)

    def select(self, places: NDArray[np.integer | np.bool_]) -> "LinkContexts":
        return LinkContexts(*(column[places] for column in self))


class Committee(CommitteeScoring):
    """Scores links, learns from visits, says which queued links changed their place.

    For one batch: `learn` what was fetched, `discover` the links of the new pages, then ask for `changes`.
    """

    def __init__(self, options: CommitteeOptions | None = None) -> None:
        super().__init__(options or CommitteeOptions())
        self._rescoring = RescoreSchedule()
        self._expected_relevant = 0.0

    def learn(self, visits: Sequence[LinkVisit]) -> None:
        """What became of fetched links. Seeds were never queued here: they teach about their places only.

        Those of one batch are looked at as they stood before it: one look for all is many times as fast.
        """
        ended = [visit for visit in visits if not visit.discarded]
        held = self.pool.row_of
        links: dict[int, LinkVisit] = {}
        for visit in ended:
            if visit.key in held:
                links.setdefault(visit.key, visit)
        rows = np.array([held[key] for key in links], dtype=np.int64)
        if links:
            self._learn_links(list(links.values()), rows)
        if ended:
            self._learn_locations(ended)
        for visit in visits:
            self._fetched.add(visit.key)
            self.pool.drop(visit.key)

    def _learn_locations(self, visits: Sequence[LinkVisit]) -> None:
        """What visits say of hosts, directories and places on pages."""
        prefixes = np.array([url_prefixes(visit.url) for visit in visits], dtype=np.uint32)
        rewards = np.array([visit.reward for visit in visits])
        self._tables["prefix"].add(prefixes, rewards)
        self._tables["all"].add(GLOBAL_BUCKET.repeat(len(visits))[:, None], rewards)
        # Once more: counted once
        places = prefixes[:, :1].copy()
        held = {at: row for at, visit in enumerate(visits) if (row := self.pool.row_of.get(visit.key)) is not None}
        if held:
            places[list(held), 0] = path_bucket(self.pool.rows["path"][list(held.values())])
        alive = np.array([visit.is_page for visit in visits], dtype=np.float32)
        self._tables["alive"].add(np.hstack((prefixes, places)), alive)

    def _learn_links(self, visits: Sequence[LinkVisit], rows: RowIndices) -> None:
        """What visits say of links as they stood in the queue."""
        queue = self.pool.rows
        words, dense = queue["words"].take(rows, axis=0), self.dense_features(rows)
        pages = queue["pages"].take(rows, axis=0)
        rewards = np.array([visit.reward for visit in visits])
        examples = []
        for at, visit in enumerate(visits):
            example = LinkExample(words[at], dense[at], visit.reward)
            examples.append(example)
            examples += self._credit.credit_parents([page for page in pages[at].tolist() if page], visit.reward)
            if visit.is_page:
                self._credit.add_visit(_page_hash(visit.key), example)
        self._train(examples)
        self._sibling_groups.add(queue["groups"].take(rows, axis=0), rewards)
        self._tables["page"].add(pages, rewards)
        self._tables["tag path"].add(queue["path"].take(rows)[:, None], rewards)

    def _train(self, examples: Sequence[LinkExample]) -> None:
        words = np.array([example.words for example in examples])
        dense = np.array([example.dense for example in examples])
        labels = np.array([example.label for example in examples])
        said = np.zeros(len(examples))
        if self.options.words:
            said = self.words.logits(words)
            self.words.learn(words, labels, self.dense.logits(dense))
        self.dense.learn(dense, labels, said)

    def redirect(self, key: int, new: int, host: str) -> None:
        """A link turned out to lead to another address, and is held under that, unless it was fetched already."""
        if new not in self._fetched:
            self.pool.change_key(key, new, host)

    def make_lesson(self, visit: LinkVisit) -> LinkLesson:
        """What is about to be learnt from a visit, for a journal."""
        if visit.discarded:
            return LinkLesson(visit)
        row = self.pool.row_of.get(visit.key)
        said = -1.0 if row is None else float(self.pool.scores[row])
        return LinkLesson(visit, self.pool.row_bytes(visit.key), said)

    def apply_lessons(self, *lessons: LinkLesson) -> None:
        """Learn from the lessons of one batch: the first time, or again from a journal."""
        for lesson in lessons:
            if lesson.old_reward >= 0.0:
                self._apply_correction(lesson)
            elif lesson.row:
                self.pool.load_row(lesson.visit.key, "", lesson.row)
        self.learn([lesson.visit for lesson in lessons if lesson.old_reward < 0.0])

    def _apply_correction(self, lesson: LinkLesson) -> None:
        """A person knows better what a page was worth: its places get what is due, its features are taught firmly."""
        # A person's word moves links far down too
        self._rescoring.reset()
        visit, change = lesson.visit, lesson.visit.reward - lesson.old_reward
        prefixes = np.array(url_prefixes(visit.url), dtype=np.uint32)
        self._tables["prefix"].correct(prefixes, change)
        self._tables["all"].correct(GLOBAL_BUCKET, change)
        self.pool.load_row(visit.key, "", lesson.row)
        row = self.pool.row_of.get(visit.key)
        if row is None:
            return
        queue = self.pool.rows
        used = int(min(queue["contexts"][row], MAX_CONTEXTS))
        self._sibling_groups.correct(queue["groups"][row, :used], change)
        self._tables["page"].correct(queue["pages"][row, :used], change)
        self._tables["tag path"].correct(queue["path"][row : row + 1], change)
        example = LinkExample(queue["words"][row].copy(), self.dense_features(np.array([row]))[0], visit.reward)
        self.pool.drop(visit.key)
        for _ in range(LABEL_REPEATS):
            self._train([example])

    def load_link(self, key: int, host: str, features: bytes, pages: Sequence[SourcePage]) -> int:
        """The row of a link from what the frontier kept of it: held as if it had just been found on these pages."""
        found = unpack_features([features])
        for page in pages:
            met = LinkContexts.from_pages([FoundLinks(page, [host], np.array([key]), found)])
            where = self._rows_for([key], [host], met)
            self._merge_contexts(where, met)
            self.refresh_word_logits(where)
        return self.pool.row_of[key]

    def restore_counts(self, times: Mapping[int, int]) -> None:
        """Links that were found so many times, of which a few are remembered."""
        rows = np.array([self.pool.row_of[key] for key in times], dtype=np.int64)
        contexts = np.maximum(self.pool.rows["contexts"][rows], np.minimum(list(times.values()), MAX_COUNTED_PARENTS))
        self.pool.rows["contexts"][rows] = contexts
        self.pool.rows["dense"][rows, FEATURE_INDEX["found"]] = _parent_count_feature(contexts)

    def relabel_page(self, page: int, relevant: bool) -> None:
        """See the links of a page in another light: a person said what it is worth."""
        live, rows = self.pool.used_rows, self.pool.rows
        own = live[(rows["pages"][live] == np.uint32(_page_hash(page))).any(axis=1)]
        # What other pages say of a link still counts
        if not relevant:
            own = own[rows["contexts"][own] == 1]
        rows["dense"][own, FEATURE_INDEX["parent"]] = float(relevant)
        rows["dense"][own, FEATURE_INDEX["relevant parents"]] = 0.25 * relevant

    def expected_relevant(self, *, anew: bool = False) -> float:
        """The sum of the chances of all links held, as of when all were scored last; or scored for this."""
        if anew or not self._rescoring.all_scored:
            self._expected_relevant = float(self.scores(self.pool.used_rows).sum()) if len(self.pool) else 0.0
        return self._expected_relevant

    def add_links(
        self, page: SourcePage, hosts: Sequence[str], keys: Sequence[int], found: LinkFeatures
    ) -> list[float]:
        """The links of a fetched page: remembered, and scored."""
        (scores,) = self.add_pages([FoundLinks(page, hosts, np.array(keys, dtype=np.int64), found)])
        return list(map(float, scores))

    def add_pages(self, pages: Sequence[FoundLinks]) -> list[NDArray[np.float64]]:
        """The same for several pages: scored together, when all are known."""
        links, half = sum(len(page.keys) for page in pages), len(pages) // 2
        if not links:
            return [np.zeros(0) for _ in pages]
        if half and links > self.options.capacity // 4:
            return self.add_pages(pages[:half]) + self.add_pages(pages[half:])
        self.pool.make_room(links)
        keys = np.concatenate([page.keys for page in pages])
        waiting = np.flatnonzero(~self._fetched.fetched_mask(keys))
        met = LinkContexts.from_pages(pages).select(waiting)
        hosts = [host for page in pages for host in page.hosts]
        where = self._rows_for(keys[waiting].tolist(), [hosts[at] for at in waiting.tolist()], met)
        self._merge_contexts(where, met)
        rows = distinct(where)
        self.refresh_word_logits(rows)
        chances, queue = self.scores(rows), self.pool
        new = queue.scores[rows] == 0.0
        queue.scores[rows[new]] = chances[new]
        self._rescoring.add_found(rows)
        scores = np.zeros(links)
        scores[waiting] = chances[np.searchsorted(rows, where)]
        return np.split(scores, np.cumsum([len(page.keys) for page in pages])[:-1])

    def _rows_for(self, keys: Sequence[int], hosts: Sequence[str], met: LinkContexts) -> RowIndices:
        """The rows of links; those met for the first time get one."""
        queue, rows = self.pool, self.pool.rows
        # Where each new link is mentioned first
        first: dict[int, int] = {}
        for place, key in enumerate(keys):
            if key not in queue.row_of:
                first.setdefault(key, place)
        if first:
            places = list(first.values())
            taken = queue.allocate(list(first), [hosts[place] for place in places])
            for name in ("words", "path", "prefixes"):
                rows[name][taken] = met.features[name][places]
            rows["dense"][taken, FEATURE_INDEX["bias"]] = 1.0
            rows["dense"][taken, FEATURE_INDEX["tunnel"]] = met.tunnel_depths[places]
            self.refresh_word_values(np.array(taken))
        return np.array([queue.row_of[key] for key in keys], dtype=np.int64)

    def _merge_contexts(self, where: RowIndices, met: LinkContexts) -> None:
        """Merge new contexts into their rows: the best of every score, and one more group of siblings for each."""
        if not len(where):
            return
        # In the order of rows, and of pages for each. A URL that stands twice on a page is one context: its first
        # mention counts.
        order = np.lexsort((met.page_numbers, where))
        where, met = where[order], met.select(order)
        new = np.diff(where, prepend=-1) > 0
        once = new | (np.diff(met.page_numbers, prepend=-1) != 0)
        where, met, new = where[once], met.select(once), new[once]
        first = np.flatnonzero(new)
        each, rows = where[first], self.pool.rows
        dense = rows["dense"].take(each, axis=0)
        highest = np.fmax.reduceat(np.fmin(met.features["dense"].astype(np.float32), 1.0), first)
        # What is no number counts for nothing
        dense[:, LINK_FEATURE_SLICE] = np.fmax(dense[:, LINK_FEATURE_SLICE], highest)
        dense[:, FEATURE_INDEX["tunnel"]] = np.minimum(
            dense[:, FEATURE_INDEX["tunnel"]], np.minimum.reduceat(met.tunnel_depths, first)
        )
        parents = dense[:, FEATURE_INDEX["relevant parents"]] + 0.25 * np.add.reduceat(met.relevant, first)
        dense[:, FEATURE_INDEX["relevant parents"]] = np.minimum(parents, 1.0)
        times = np.diff(first, append=len(where))
        before = rows["contexts"].take(each)
        # How many each has before
        contexts = np.arange(len(where)) + np.repeat(before - first, times)
        # The latest page takes the last one
        slot = np.minimum(contexts, MAX_CONTEXTS - 1)
        rows["pages"][where, slot] = met.pages
        rows["groups"][where, slot] = ((met.features["path"] * np.uint32(0x9E3779B1)) ^ met.pages) | np.uint32(1)
        after = np.minimum(before + times, MAX_COUNTED_PARENTS)
        rows["contexts"][each] = after
        dense[:, FEATURE_INDEX["found"]] = _parent_count_feature(after)
        rows["dense"][each] = dense

    def rescored(self) -> list[tuple[str, int, float]]:
        """Queued links whose place changed enough to matter, as (host, key, new score)."""
        rescoring, visits, queue = self._rescoring, self.visits_learned, self.pool
        if not self.options.rescore:
            return []
        if rescoring.all_due(visits, len(queue)):
            return self._apply_scores(queue.used_rows, *self._rescore_all(visits))
        if not rescoring.front_due(visits):
            return []
        front = rescoring.front(queue.scores)
        self.refresh_word_logits(front)
        scores = self.scores(front)
        changes = self._apply_scores(front, scores, top_indices(scores, self.options.top))
        rescoring.mark_front_scored(visits, front, queue.scores)
        return changes

    def _rescore_all(self, visits: int) -> tuple[NDArray[np.float64], RowIndices]:
        """The scores of all rows in use, and where among them the best are."""
        live = self.pool.used_rows
        scores = self.scores(live)
        top = top_indices(scores, self.options.top)
        self.refresh_word_logits(live[top])
        scores[top] = self.scores(live[top])
        self._expected_relevant = float(scores.sum())
        self._rescoring.mark_all_scored(visits, live, scores)
        return scores, top

    def _apply_scores(
        self, live: RowIndices, scores: NDArray[np.float64], top: RowIndices
    ) -> list[tuple[str, int, float]]:
        if not len(live):
            return []
        queue = self.pool
        said = queue.scores[live]
        moved = (np.abs(scores - said) > MIN_SCORE_CHANGE) & (np.maximum(scores, said) >= scores[top].min())
        rows = live[moved]
        queue.scores[rows] = scores[moved]
        keys = queue.rows["key"][rows].tolist()
        hosts = [queue.hosts[row] for row in rows.tolist()]
        return list(zip(hosts, keys, scores[moved].tolist(), strict=True))


def _parent_count_feature(contexts: NDArray[np.int16]) -> NDArray[np.float64]:
    often: NDArray[np.float64] = np.log1p(contexts) * 0.5
    return often


def _page_hash(key: int) -> int:
    return (key & 0xFFFFFFFF) | 1
