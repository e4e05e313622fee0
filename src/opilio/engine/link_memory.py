"""Keeps a committee in its collection: every lesson with the visit it came from, now and then everything learnt.

The links that the committee holds are not saved: on start they are read from the frontier's queue, best first.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import msgspec

from opilio.core.protocols import FrontierEntry
from opilio.core.records import Tier
from opilio.engine.learning import state_name
from opilio.frontier.sqlite.urls import best_urls
from opilio.learn.committee import Committee
from opilio.learn.explain import YieldEstimate
from opilio.learn.link_pool import MAX_CONTEXTS
from opilio.learn.scoring import LinkLesson, LinkVisit, SourcePage
from opilio.learn.word_model import LINK_FEATURES_DTYPE, unpack_features
from opilio.store.collection import Collection
from opilio.store.journal import LearnerJournal
from opilio.store.pages import is_relevant

COMMITTEE = "committee"  # its name among the snapshots
QUEUE_READ_BATCH = 5_000  # queued links that are read at a time
ESTIMATE_EVERY_VISITS = 20  # visits between two sums over all links held; more where there are many
_decode_lessons = msgspec.msgpack.Decoder(list[LinkLesson]).decode


class Owner(NamedTuple):
    """An agent's, or the crawl's own."""

    agent: str = ""
    number: int = 0


NO_OWNER = Owner()


class _LinkModelState(msgspec.Struct, array_like=True):
    committee: bytes
    yield_estimate: bytes = b""


class LinkModelStore:
    """A committee with its journal. Writes inside `collection.unit_of_work()`."""

    def __init__(self, committee: Committee, collection: Collection, whose: Owner = NO_OWNER) -> None:
        self.committee = committee
        self.yield_estimate = YieldEstimate()
        self._collection = collection
        self._owner = whose
        self._journal = LearnerJournal(collection, state_name(whose.agent, COMMITTEE))
        self._expected_relevant: float | None = None  # as of the last look
        self._lessons_since_estimate = 0
        self._is_relevant = lru_cache(maxsize=1 << 16)(self._query_relevance)

    def learn(self, visits: Iterable[LinkVisit]) -> None:
        """What became of links, learnt and written down."""
        lessons = [self.committee.make_lesson(visit) for visit in visits]
        if lessons:
            self._apply_lessons(*lessons)
            self._journal.add(msgspec.msgpack.encode(lessons), len(lessons))

    def correct(self, entry: FrontierEntry, before: float, after: float) -> None:
        """Correct the model after a label: the page's value is `after`; its link was learned with `before`."""
        lead = entry.lead
        row = b""
        if self.load_link(entry) is not None:
            row = self.committee.pool.row_bytes(lead.key)
            self.committee.pool.drop(lead.key)
        lesson = LinkLesson(LinkVisit(lead.key, lead.url, after, True, after > 0.5), row, old_reward=before)
        self._apply_lessons(lesson)
        self.committee.relabel_page(lead.key, after > 0.5)
        self._journal.add(msgspec.msgpack.encode([lesson]))
        self._is_relevant.cache_clear()

    def _apply_lessons(self, *lessons: LinkLesson) -> None:
        self.committee.apply_lessons(*lessons)
        for lesson in lessons:
            if lesson.queued_score >= 0.0:
                self.yield_estimate.record(lesson.queued_score, lesson.visit.relevant)
        self._lessons_since_estimate += len(lessons)

    @property
    def expected_relevant(self) -> float | None:
        """Relevant pages still to be found among the links held."""
        if self._lessons_since_estimate >= max(ESTIMATE_EVERY_VISITS, len(self.committee.pool) // 200):
            self._update_estimate()
        return self._expected_relevant

    def _update_estimate(self, *, anew: bool = False) -> None:
        self.yield_estimate.predicted = self.committee.expected_relevant(recompute=anew)
        self._expected_relevant = self.yield_estimate.expected
        self._lessons_since_estimate = 0

    def save(self, now: float, *, at_end: bool = False) -> None:
        """Save everything, where the journal has grown long or the crawl ends."""
        if at_end:
            self._update_estimate(anew=True)
        if at_end or self._journal.snapshot_due:
            state = _LinkModelState(self.committee.snapshot(), self.yield_estimate.snapshot())
            self._journal.save_snapshot(self.committee.visits_learned, now, msgspec.msgpack.encode(state))

    def resume(self) -> None:
        """Be what was committed: the saved state, the lessons behind it, and the links that wait."""
        self.restore()
        self._load_queued_links()

    def restore(self) -> bool:
        """The saved state and the lessons behind it; False where there are none."""
        state = self._journal.load_snapshot()
        if state is not None:
            kept = msgspec.msgpack.decode(state, type=_LinkModelState)
            self.committee.restore(kept.committee)
            if kept.yield_estimate:
                self.yield_estimate.restore(kept.yield_estimate)
                self._expected_relevant = self.yield_estimate.expected
        for lessons in self._journal.lessons():
            self._apply_lessons(*_decode_lessons(lessons))
        return state is not None or self._journal.pending_lessons > 0

    def _load_queued_links(self) -> None:
        # Room is left, so that none of the best has to go for another of them.
        entries = best_urls(self._collection.connection, self.committee.options.capacity * 7 // 8)
        while portion := list(islice(entries, QUEUE_READ_BATCH)):
            mine = portion if not self._owner.number else [e for e in portion if e.lead.agent == self._owner.number]
            self._rediscover([entry for entry in mine if _has_features(entry)])

    def _rediscover(self, entries: Sequence[FrontierEntry]) -> None:
        """Discover links again, page by page; of their contexts only the best one's features are known."""
        pages: defaultdict[tuple[int, int], list[FrontierEntry]] = defaultdict(list)
        for entry in entries:
            for parent in entry.parents[:MAX_CONTEXTS]:
                pages[parent, entry.lead.tunnel].append(entry)
        for (parent, tunnel), links in pages.items():
            leads = [entry.lead for entry in links]
            page = SourcePage(parent, self._is_relevant(parent), tunnel)
            found = unpack_features([lead.features for lead in leads])
            self.committee.add_links(page, [lead.host for lead in leads], [lead.key for lead in leads], found)
        queue = self.committee.pool
        held = [entry for entry in entries if entry.lead.key in queue.row_of]
        self.committee.restore_counts({entry.lead.key: entry.times_found for entry in held})
        for entry in held:
            queue.scores[queue.row_of[entry.lead.key]] = max(0.0, entry.lead.score)

    def load_link(self, entry: FrontierEntry) -> int | None:
        """Hold the link of a frontier's entry; returns its row, or nothing where the committee never saw it."""
        if not _has_features(entry):
            return None
        pages = [SourcePage(p, self._is_relevant(p), entry.lead.tunnel) for p in entry.parents[:MAX_CONTEXTS]]
        row = self.committee.load_link(entry.lead.key, entry.lead.host, entry.lead.features, pages)
        self.committee.restore_counts({entry.lead.key: entry.times_found})
        return row

    def _query_relevance(self, page: int) -> bool:
        return is_relevant(self._collection.connection, page)

    def transferable_state(self) -> bytes:
        """What another crawl may begin with, in the form of a saved state."""
        return msgspec.msgpack.encode(_LinkModelState(self.committee.transferable_state()))


def _has_features(entry: FrontierEntry) -> bool:
    """The target of a redirect carries the features of the link that led there, and was never ranked itself."""
    # A revisit was fetched, and learnt from, before.
    return (
        entry.lead.tier != Tier.REVISIT
        and bool(entry.parents)
        and not entry.lead.hops
        and len(entry.lead.features) == LINK_FEATURES_DTYPE.itemsize
    )
