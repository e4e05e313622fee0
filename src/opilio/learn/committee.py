"""The committee: an online model over the scores of all members, trained by the outcomes of fetched pages.

Hubs are found by sibling success: how the other links of the same page, and of the same list on it, turned out. How
much this counts is learned too: much on sites with index pages, little on others. No I/O, clock or randomness: the same
visits give the same scores.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opilio.learn.exploration import ENOUGH_HITS, Exploration
from opilio.learn.link_pool import MAX_CONTEXTS, RescoreSchedule, RowIndices, top_indices
from opilio.learn.logistic import FEATURE_INDEX, LINK_FEATURE_SLICE
from opilio.learn.scoring import (
    GLOBAL_BUCKET,
    NEW_HOST_BUCKET,
    PRIOR_ALIVE_RATE,
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

# A user's label is learned this many times, a judge's verdict once.
LABEL_REPEATS = 4
# More pages that link to one URL are not counted.
MAX_COUNTED_PARENTS = 32_000
# A smaller change of a score is not written to the frontier.
MIN_SCORE_CHANGE = 4e-3


class FoundLinks(NamedTuple):
    """The links of one page."""

    page: SourcePage
    hosts: Sequence[str]
    keys: NDArray[np.int64]
    features: LinkFeatures


class LinkContexts(NamedTuple):
    """The links of several pages with their source pages, one row per link."""

    page_numbers: RowIndices  # index of the link's page
    pages: NDArray[np.uint32]  # hash of the link's page
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
    """Scores links, learns from visits, and returns the queued links whose score changed.

    For each batch: `learn` from the visits, `add_pages` for the links of the new pages, then `rescored`.
    """

    def __init__(self, options: CommitteeOptions | None = None) -> None:
        super().__init__(options or CommitteeOptions())
        self._rescoring = RescoreSchedule()
        self._exploration = Exploration(self.options.explore)
        self._expected_relevant = 0.0

    def learn(self, visits: Sequence[LinkVisit]) -> None:
        """Learn from fetched links. Seeds are not in the pool: they only update the rates of hosts and directories.

        All visits of a batch are scored with the model before the batch, which is many times as fast as one by one.
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
        """Update the success rates of hosts, directories and tag paths."""
        prefixes = np.array([url_prefixes(visit.url) for visit in visits], dtype=np.uint32)
        rewards = np.array([visit.reward for visit in visits])
        # A visit without a queued link repeats the host's hash, which counts once.
        places = prefixes[:, :1].copy()
        held = {at: row for at, visit in enumerate(visits) if (row := self.pool.row_of.get(visit.key)) is not None}
        if held:
            places[list(held), 0] = path_bucket(self.pool.rows["path"][list(held.values())])
        alive = np.array([visit.is_page for visit in visits], dtype=np.float32)
        new = self._tables["prefix"].tries(prefixes[:, 0]) == 0.0
        self._tables["alive"].add(NEW_HOST_BUCKET.repeat(int(new.sum()))[:, None], alive[new])
        self._tables["alive"].add(np.hstack((prefixes, places)), alive)
        self._tables["prefix"].add(prefixes, rewards)
        self._tables["all"].add(GLOBAL_BUCKET.repeat(len(visits))[:, None], rewards)

    def _learn_links(self, visits: Sequence[LinkVisit], rows: RowIndices) -> None:
        """Train the models with the features that the links had in the queue."""
        columns = self.pool.rows
        words, dense = columns["words"].take(rows, axis=0), self.dense_features(rows)
        pages = columns["pages"].take(rows, axis=0)
        rewards = np.array([visit.reward for visit in visits])
        examples = []
        for at, visit in enumerate(visits):
            example = LinkExample(words[at], dense[at], visit.reward)
            examples.append(example)
            examples += self._credit.credit_parents([page for page in pages[at].tolist() if page], visit.reward)
            if visit.is_page:
                self._credit.add_visit(_page_hash(visit.key), example)
        self.learn_meanings(rows, dense, rewards)
        self._train(examples)
        self._sibling_groups.add(columns["groups"].take(rows, axis=0), rewards)
        self._tables["page"].add(pages, rewards)
        self._tables["tag path"].add(columns["path"].take(rows)[:, None], rewards)

    def _train(self, examples: Sequence[LinkExample]) -> None:
        words = np.array([example.words for example in examples])
        dense = np.array([example.dense for example in examples])
        labels = np.array([example.label for example in examples])
        offsets = np.zeros(len(examples))
        if self.options.words:
            offsets = self.words.logits(words)
            self.words.learn(words, labels, self.dense.logits(dense))
        self.dense.learn(dense, labels, offsets)

    def redirect(self, key: int, new: int, host: str) -> None:
        """Store a redirected link under its target, unless the target was fetched already."""
        if new not in self._fetched:
            self.pool.change_key(key, new, host)

    def make_lesson(self, visit: LinkVisit) -> LinkLesson:
        """The lesson of a visit, for a journal. Call it before `learn`."""
        if visit.discarded:
            return LinkLesson(visit)
        row = self.pool.row_of.get(visit.key)
        score = -1.0 if row is None else float(self.pool.scores[row])
        return LinkLesson(visit, self.pool.row_bytes(visit.key), score)

    def apply_lessons(self, *lessons: LinkLesson) -> None:
        """Learn from the lessons of one batch, new or from a journal."""
        for lesson in lessons:
            if lesson.old_reward >= 0.0:
                self._apply_correction(lesson)
            elif lesson.row:
                self.pool.load_row(lesson.visit.key, "", lesson.row)
        self.learn([lesson.visit for lesson in lessons if lesson.old_reward < 0.0])

    def _apply_correction(self, lesson: LinkLesson) -> None:
        """Apply a user's label: correct the rates of the link's places, and train its features several times."""
        # A label also changes the scores of links far down the queue.
        self._rescoring.reset()
        visit, change = lesson.visit, lesson.visit.reward - lesson.old_reward
        prefixes = np.array(url_prefixes(visit.url), dtype=np.uint32)
        self._tables["prefix"].correct(prefixes, change)
        self._tables["all"].correct(GLOBAL_BUCKET, change)
        self.pool.load_row(visit.key, "", lesson.row)
        row = self.pool.row_of.get(visit.key)
        if row is None:
            return
        columns = self.pool.rows
        used = self.pool.used_contexts(row)
        self._sibling_groups.correct(columns["groups"][row, :used], change)
        self._tables["page"].correct(columns["pages"][row, :used], change)
        self._tables["tag path"].correct(columns["path"][row : row + 1], change)
        where = np.array([row])
        example = LinkExample(columns["words"][row].copy(), self.dense_features(where)[0], visit.reward)
        self.learn_meanings(where, example.dense[None], np.array([visit.reward]), LABEL_REPEATS)
        self.pool.drop(visit.key)
        for _ in range(LABEL_REPEATS):
            self._train([example])

    def load_link(self, key: int, host: str, features: bytes, pages: Sequence[SourcePage]) -> int:
        """Load a link from its stored features, as if it had just been found on these pages; returns its row."""
        found = unpack_features([features])
        for page in pages:
            new_contexts = LinkContexts.from_pages([FoundLinks(page, [host], np.array([key]), found)])
            link_rows = self._rows_for([key], [host], new_contexts)
            self._merge_contexts(link_rows, new_contexts)
            self.refresh_word_logits(link_rows)
        return self.pool.row_of[key]

    def restore_counts(self, times: Mapping[int, int]) -> None:
        """Set the number of pages that link to each link, of which only a few are stored."""
        rows = np.array([self.pool.row_of[key] for key in times], dtype=np.int64)
        contexts = np.maximum(self.pool.rows["contexts"][rows], np.minimum(list(times.values()), MAX_COUNTED_PARENTS))
        self.pool.rows["contexts"][rows] = contexts
        self.pool.rows["dense"][rows, FEATURE_INDEX["found"]] = _parent_count_feature(contexts)

    def relabel_page(self, page: int, relevant: bool) -> None:
        """Update the features of a page's links after the user labelled the page."""
        live, rows = self.pool.used_rows, self.pool.rows
        own = live[(rows["pages"][live] == np.uint32(_page_hash(page))).any(axis=1)]
        # A link that relevant pages may also contain keeps its features.
        if not relevant:
            own = own[rows["contexts"][own] == 1]
        rows["dense"][own, FEATURE_INDEX["parent"]] = float(relevant)
        rows["dense"][own, FEATURE_INDEX["relevant parents"]] = 0.25 * relevant

    def expected_relevant(self, *, recompute: bool = False) -> float:
        """The sum of the probabilities of all links in the pool, as of the last full scoring unless `recompute`."""
        if recompute or not self._rescoring.all_scored:
            self._expected_relevant = float(self.scores(self.pool.used_rows).sum()) if len(self.pool) else 0.0
        return self._expected_relevant

    def add_links(
        self, page: SourcePage, hosts: Sequence[str], keys: Sequence[int], found: LinkFeatures
    ) -> list[float]:
        """Add and score the links of a fetched page."""
        (scores,) = self.add_pages([FoundLinks(page, hosts, np.array(keys, dtype=np.int64), found)])
        return list(map(float, scores))

    def add_pages(self, pages: Sequence[FoundLinks]) -> list[NDArray[np.float64]]:
        """Add and score the links of several pages. They are scored together after all were added."""
        links, half = sum(len(page.keys) for page in pages), len(pages) // 2
        if not links:
            return [np.zeros(0) for _ in pages]
        if half and links > self.options.capacity // 4:
            return self.add_pages(pages[:half]) + self.add_pages(pages[half:])
        self.pool.make_room(links)
        keys = np.concatenate([page.keys for page in pages])
        waiting = np.flatnonzero(~self._fetched.fetched_mask(keys))
        new_contexts = LinkContexts.from_pages(pages).select(waiting)
        hosts = [host for page in pages for host in page.hosts]
        link_rows = self._rows_for(keys[waiting].tolist(), [hosts[at] for at in waiting.tolist()], new_contexts)
        self._merge_contexts(link_rows, new_contexts)
        rows = distinct(link_rows)
        self.refresh_word_logits(rows)
        chances, pool = self.scores(rows), self.pool
        new = pool.scores[rows] == 0.0
        pool.scores[rows[new]] = chances[new]
        self._rescoring.add_found(rows)
        scores = np.zeros(links)
        scores[waiting] = chances[np.searchsorted(rows, link_rows)]
        return np.split(scores, np.cumsum([len(page.keys) for page in pages])[:-1])

    def _rows_for(self, keys: Sequence[int], hosts: Sequence[str], new_contexts: LinkContexts) -> RowIndices:
        """The rows of links; new links get one."""
        pool, columns = self.pool, self.pool.rows
        # New link -> index of its first occurrence.
        first: dict[int, int] = {}
        for place, key in enumerate(keys):
            if key not in pool.row_of:
                first.setdefault(key, place)
        if first:
            places = list(first.values())
            taken = pool.allocate(list(first), [hosts[place] for place in places])
            for name in ("words", "path", "prefixes", "meaning"):
                columns[name][taken] = new_contexts.features[name][places]
            self.meaning.active = self.meaning.active or bool(columns["meaning"][taken].any())
            columns["dense"][taken, FEATURE_INDEX["bias"]] = 1.0
            columns["dense"][taken, FEATURE_INDEX["tunnel"]] = new_contexts.tunnel_depths[places]
            self.refresh_word_values(np.array(taken))
        return np.array([pool.row_of[key] for key in keys], dtype=np.int64)

    def _merge_contexts(self, link_rows: RowIndices, new_contexts: LinkContexts) -> None:
        """Merge new contexts into their rows: the maximum of every score, and one sibling group per context."""
        if not len(link_rows):
            return
        # Sorted by row and page. A URL that occurs twice on a page is one context: its first occurrence counts.
        order = np.lexsort((new_contexts.page_numbers, link_rows))
        link_rows, new_contexts = link_rows[order], new_contexts.select(order)
        new = np.diff(link_rows, prepend=-1) > 0
        once = new | (np.diff(new_contexts.page_numbers, prepend=-1) != 0)
        link_rows, new_contexts, new = link_rows[once], new_contexts.select(once), new[once]
        first = np.flatnonzero(new)
        each, rows = link_rows[first], self.pool.rows
        dense = rows["dense"].take(each, axis=0)
        highest = np.fmax.reduceat(np.fmin(new_contexts.features["dense"].astype(np.float32), 1.0), first)
        # fmax ignores NaN.
        dense[:, LINK_FEATURE_SLICE] = np.fmax(dense[:, LINK_FEATURE_SLICE], highest)
        dense[:, FEATURE_INDEX["tunnel"]] = np.minimum(
            dense[:, FEATURE_INDEX["tunnel"]], np.minimum.reduceat(new_contexts.tunnel_depths, first)
        )
        parents = dense[:, FEATURE_INDEX["relevant parents"]] + 0.25 * np.add.reduceat(new_contexts.relevant, first)
        dense[:, FEATURE_INDEX["relevant parents"]] = np.minimum(parents, 1.0)
        times = np.diff(first, append=len(link_rows))
        before = rows["contexts"].take(each)
        contexts = np.arange(len(link_rows)) + np.repeat(before - first, times)
        # `contexts` is the number before this one. When all slots are used, the latest page takes the last one.
        slot = np.minimum(contexts, MAX_CONTEXTS - 1)
        rows["pages"][link_rows, slot] = new_contexts.pages
        rows["groups"][link_rows, slot] = (
            (new_contexts.features["path"] * np.uint32(0x9E3779B1)) ^ new_contexts.pages
        ) | np.uint32(1)
        after = np.minimum(before + times, MAX_COUNTED_PARENTS)
        rows["contexts"][each] = after
        dense[:, FEATURE_INDEX["found"]] = _parent_count_feature(after)
        rows["dense"][each] = dense
        self.refresh_meaning_values(each)

    def rescored(self) -> list[tuple[str, int, float]]:
        """Queued links whose score changed enough to matter, as (host, key, new score)."""
        if not self.options.rescore:
            return []
        rescoring, visits, pool = self._rescoring, self.visits_learned, self.pool
        if rescoring.all_due(visits, len(pool)):
            return self._apply_scores(pool.used_rows, *self._rescore_all(visits))
        if not rescoring.front_due(visits):
            return []
        front = rescoring.front(pool.scores)
        self.refresh_word_logits(front)
        scores = self.scores(front)
        changes = self._apply_scores(front, scores, top_indices(scores, self.options.top))
        rescoring.mark_front_scored(visits, front, pool.scores)
        return changes

    def explored(self) -> list[tuple[str, int]]:
        """Queued links that exploration fetches next, as (host, key). Call it after every batch."""
        pool = self.pool
        if self.meaning.hits >= ENOUGH_HITS or not len(pool):
            return []
        count = self._exploration.due(self.visits_learned, self.meaning.recent_hits, len(pool))
        if not count:
            return []
        new_host_rate = float(self._tables["alive"].rate(NEW_HOST_BUCKET, PRIOR_ALIVE_RATE, 2.0)[0])
        rows = self._exploration.choose(pool, count, self._tables["prefix"].tries, new_host_rate)
        return [(pool.hosts[row], int(pool.rows["key"][row])) for row in rows.tolist()]

    def _rescore_all(self, visits: int) -> tuple[NDArray[np.float64], RowIndices]:
        """The scores of all rows in use, and the indices of the best."""
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
        pool = self.pool
        old = pool.scores[live]
        moved = (np.abs(scores - old) > MIN_SCORE_CHANGE) & (np.maximum(scores, old) >= scores[top].min())
        rows = live[moved]
        pool.scores[rows] = scores[moved]
        keys = pool.rows["key"][rows].tolist()
        hosts = [pool.hosts[row] for row in rows.tolist()]
        return list(zip(hosts, keys, scores[moved].tolist(), strict=True))


def _parent_count_feature(contexts: NDArray[np.int16]) -> NDArray[np.float64]:
    return np.asarray(np.log1p(contexts) * 0.5, dtype=np.float64)


def _page_hash(key: int) -> int:
    return (key & 0xFFFFFFFF) | 1
