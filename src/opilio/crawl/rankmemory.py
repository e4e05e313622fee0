"""Keeps a committee in its collection: every lesson with the visit it came from, now and then everything learnt.

The links that the committee holds are not saved: on start they are read from the frontier's queue, best first.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import msgspec

from opilio.agents.tags import owner, untagged
from opilio.crawl.learning import named
from opilio.frontier.browse import best_first
from opilio.frontier.order import AGAIN
from opilio.learn.committee import Committee
from opilio.learn.lessons import FoundPage, Lesson, Visit
from opilio.learn.linkfeatures import PACKED, unpacked
from opilio.learn.linkqueue import CONTEXTS
from opilio.learn.outlook import Outlook
from opilio.model.protocols import Entry
from opilio.store.collection import Collection
from opilio.store.journal import Journal

COMMITTEE = "committee"  # its name among the snapshots
PORTION = 5_000  # queued links that are read at a time
LOOK_EVERY = 20  # visits between two sums over all links held; more where there are many
_decode = msgspec.msgpack.Decoder(list[Lesson]).decode


class Whose(NamedTuple):
    """An agent's, or the crawl's own."""

    agent: str = ""
    number: int = 0


NOBODYS = Whose()


class _State(msgspec.Struct, array_like=True):
    committee: bytes
    outlook: bytes = b""


class RankMemory:
    """A committee with its journal. Writes inside `collection.unit_of_work()`."""

    def __init__(self, committee: Committee, collection: Collection, whose: Whose = NOBODYS) -> None:
        self.committee = committee
        self.outlook = Outlook()
        self._collection = collection
        self._whose = whose
        self._journal = Journal(collection, named(whose.agent, COMMITTEE))
        self._expected: float | None = None  # as of the last look
        self._unlooked = 0
        self._is_relevant = lru_cache(maxsize=1 << 16)(self._look_up)

    def learn(self, visits: Iterable[Visit]) -> None:
        """What became of links, learnt and written down."""
        lessons = [self.committee.lesson(visit) for visit in visits]
        if lessons:
            self._study(*lessons)
            self._journal.add(msgspec.msgpack.encode(lessons), len(lessons))

    def correct(self, entry: Entry, before: float, after: float) -> None:
        """A person said that a page is worth `after`; its link was learnt with `before`."""
        lead = entry.lead
        row = b""
        if self.recall(entry) is not None:
            row = self.committee.queue.row_bytes(lead.key)
            self.committee.queue.drop(lead.key)
        lesson = Lesson(Visit(lead.key, lead.url, after, True, after > 0.5), row, before=before)
        self._study(lesson)
        self.committee.regard(lead.key, after > 0.5)
        self._journal.add(msgspec.msgpack.encode([lesson]))
        self._is_relevant.cache_clear()

    def _study(self, *lessons: Lesson) -> None:
        self.committee.study(*lessons)
        for lesson in lessons:
            if lesson.said >= 0.0:
                self.outlook.saw(lesson.said, lesson.visit.relevant)
        self._unlooked += len(lessons)

    @property
    def expected(self) -> float | None:
        """Relevant pages still to be found among the links held."""
        if self._unlooked >= max(LOOK_EVERY, len(self.committee.queue) // 200):
            self._look()
        return self._expected

    def _look(self, *, anew: bool = False) -> None:
        self.outlook.promise = self.committee.promise(anew=anew)
        self._expected = self.outlook.expected
        self._unlooked = 0

    def save(self, now: float, *, at_end: bool = False) -> None:
        """Save everything, where the journal has grown long or the crawl ends."""
        if at_end:
            self._look(anew=True)
        if at_end or self._journal.long:
            state = _State(self.committee.snapshot(), self.outlook.snapshot())
            self._journal.save(self.committee.fetched, now, msgspec.msgpack.encode(state))

    def resume(self) -> None:
        """Be what was committed: the saved state, the lessons behind it, and the links that wait."""
        self.relearn()
        self._requeue()

    def relearn(self) -> bool:
        """The saved state and the lessons behind it; False where there are none."""
        state = self._journal.state()
        if state is not None:
            kept = msgspec.msgpack.decode(state, type=_State)
            self.committee.restore(kept.committee)
            if kept.outlook:
                self.outlook.restore(kept.outlook)
                self._expected = self.outlook.expected
        for lessons in self._journal.lessons():
            self._study(*_decode(lessons))
        return state is not None or self._journal.waiting > 0

    def _requeue(self) -> None:
        # Room is left, so that none of the best has to go for another of them.
        entries = best_first(self._collection.connection, self.committee.options.capacity * 7 // 8)
        while portion := list(islice(entries, PORTION)):
            mine = portion if not self._whose.number else [_mine(e) for e in portion if _is_of(e, self._whose.number)]
            self._hold([entry for entry in mine if _has_features(entry)])

    def _hold(self, entries: Sequence[Entry]) -> None:
        """Discover links again, page by page; of their contexts only the best one's features are known."""
        pages: defaultdict[tuple[int, int], list[Entry]] = defaultdict(list)
        for entry in entries:
            for parent in entry.parents[:CONTEXTS]:
                pages[parent, entry.lead.tunnel].append(entry)
        for (parent, tunnel), links in pages.items():
            leads = [entry.lead for entry in links]
            page = FoundPage(parent, self._is_relevant(parent), tunnel)
            found = unpacked([lead.features for lead in leads])
            self.committee.discover(page, [lead.host for lead in leads], [lead.key for lead in leads], found)
        queue = self.committee.queue
        held = [entry for entry in entries if entry.lead.key in queue.row_of]
        self.committee.met_before({entry.lead.key: entry.found for entry in held})
        for entry in held:
            queue.said[queue.row_of[entry.lead.key]] = max(0.0, entry.lead.score)

    def recall(self, entry: Entry) -> int | None:
        """Hold the link of a frontier's entry; returns its row, or nothing where the committee never saw it."""
        if not _has_features(entry):
            return None
        pages = [FoundPage(p, self._is_relevant(p), entry.lead.tunnel) for p in entry.parents[:CONTEXTS]]
        row = self.committee.recall(entry.lead.key, entry.lead.host, entry.lead.features, pages)
        self.committee.met_before({entry.lead.key: entry.found})
        return row

    def _look_up(self, page: int) -> bool:
        row = self._collection.connection.execute("SELECT relevant FROM page WHERE key = ?", (page,)).fetchone()
        return bool(row and row[0])

    def essence(self) -> bytes:
        """What another crawl may begin with, in the form of a saved state."""
        return msgspec.msgpack.encode(_State(self.committee.essence()))


def _is_of(entry: Entry, number: int) -> bool:
    return owner(entry.lead) == number


def _mine(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, lead=untagged(entry.lead))


def _has_features(entry: Entry) -> bool:
    """The target of a redirect carries the features of the link that led there, and was never ranked itself."""
    again = entry.priority >= AGAIN  # fetched before, and learnt from then
    return not again and bool(entry.parents) and not entry.lead.hops and len(entry.lead.features) == PACKED.itemsize
