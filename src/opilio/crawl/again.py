"""Visits of pages that are stored already: what each means, and what is kept of it. Inside the ledger's unit of work.

Also where no revisits are planned: a crawl that goes on may find some in its queue.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from opilio.crawl.announcements import is_probe
from opilio.crawl.fates import SOFT, fate_of, landed
from opilio.crawl.lookagain import MOST_STRIKES, Shelf
from opilio.crawl.visit import Served
from opilio.learn.changerate import COUNT, evidence
from opilio.model.errors import CollectionError
from opilio.model.events import Event, PageLeft
from opilio.model.protocols import ContentSeen, Frontier
from opilio.model.records import Failure, Fate, Landing, Lead, Outcome, State, key_of
from opilio.parse.stable import stable_words
from opilio.store.collection import Collection
from opilio.store.looks import EmptyTexts, Known, LookBook, Looks
from opilio.store.versions import addresses
from opilio.store.warc import answer_in, read_record

SEEN = frozenset({Fate.UNCHANGED, Fate.CHANGED})
LEAVES = frozenset({Fate.GONE, Fate.MOVED})
Stored = dict[int, Known]


class Again:
    """Judges such visits. `shelf` is there while revisits are planned, and follows what happens."""

    def __init__(
        self, collection: Collection, frontier: Frontier, seen: ContentSeen | None, second_look_s: float
    ) -> None:
        self.book = LookBook(collection.connection)
        self.empty = EmptyTexts(collection.connection)
        self.shelf: Shelf | None = None
        self._collection = collection
        self._frontier = frontier
        self._seen = seen
        self._second_look_s = second_look_s
        self._changed: set[int] = set()  # of this batch

    def sift(self, batch: Sequence[Served], now: float) -> Stored:
        """Find out which visits are of stored pages, and put their landings right; before the leases end."""
        self._changed.clear()
        known = self.book.known([landing.key for served in batch for landing in served.landings])
        for served in batch:
            soft = [self._softly(outcome) for outcome in served.outcomes]
            if known or any(a is not b for a, b in zip(soft, served.outcomes, strict=True)):
                served.outcomes = soft
                served.landings = self._landings(served, known, now)
        return known

    def _softly(self, outcome: Outcome) -> Outcome:
        """A page with the text that its host shows for any unknown address is none."""
        analysis = outcome.analysis
        if analysis is None or analysis.failure is not None or analysis.announced:
            return outcome
        if is_probe(outcome.lead.url):
            self.empty.add(outcome.lead.host, analysis.fingerprint, outcome.fetched.started_at)
        elif (outcome.lead.host, analysis.fingerprint) not in self.empty:
            return outcome
        return _as_none(outcome)

    def _landings(self, served: Served, known: Stored, now: float) -> list[Landing]:
        came = {outcome.lead.key: outcome for outcome in served.outcomes}
        found = []
        for landing in served.landings:
            outcome = came.get(landing.key)
            soft = outcome is not None and outcome.analysis is not None and outcome.analysis.failure is not None
            if landing.key in known and known[landing.key].page:
                fate = Fate.UNKNOWN if outcome is None else self._fate(known[landing.key], outcome, now)
                landing = landed(landing, fate)
            elif soft and landing.state is State.DONE:
                landing = msgspec.structs.replace(landing, state=State.FAILED, reason=SOFT)
            found.append(landing)
        return found

    def _fate(self, known: Known, outcome: Outcome, now: float) -> Fate:
        return fate_of(known, self.book.looks(known.key), outcome, now, self._second_look_s)

    def fated(self, outcome: Outcome, known: Stored, now: float) -> Outcome:
        """The outcome with what it means for the page."""
        stored = known.get(outcome.lead.key)
        if stored is None:
            return outcome
        fate = self._fate(stored, outcome, now)
        if not stored.page:
            fate = Fate.NEW if fate in SEEN and outcome.analysis is not None else fate
            if fate is Fate.MOVED and len(addresses(self._collection, stored.key)) == 1:  # it left
                fate = Fate.GONE
        if fate is Fate.CHANGED and self._only_noise(stored, outcome):
            fate = Fate.UNCHANGED
            if self._seen is not None and outcome.analysis is not None:
                self._seen.forget(stored.key, outcome.analysis.fingerprint)
        if fate is Fate.CHANGED and self._emptied(stored, outcome, now):
            looks = self.book.looks(stored.key)
            late = looks.strikes >= 1 and now - looks.struck_at >= self._second_look_s
            fate, outcome = Fate.GONE if late else Fate.STRUCK, _as_none(outcome)
        if fate is Fate.CHANGED:
            self._changed.add(stored.key)
        return msgspec.structs.replace(outcome, fate=fate)

    def _only_noise(self, stored: Known, outcome: Outcome) -> bool:
        """Is all that changed an advert, a clock, a date, a counter?"""
        analysis = outcome.analysis
        if analysis is None or not analysis.record or not stored.place[2] or outcome.duplicate_of:
            return False
        try:
            before = stable_words(read_record(self._collection.folder, *stored.place))
            return before is not None and before == stable_words(answer_in(analysis.record))
        except (CollectionError, ValueError):  # what was there can't be read any more: it is replaced
            return False

    def _emptied(self, stored: Known, outcome: Outcome, now: float) -> bool:
        """Two pages of a host that differed and now show the same: that is what it shows where it has nothing."""
        other = self.book.known([outcome.duplicate_of]).get(outcome.duplicate_of) if outcome.duplicate_of else None
        if other is None or other.host != stored.host or outcome.near_duplicate:
            return False
        changed = other.key in self._changed or self.book.looks(other.key).changes
        if not changed or stored.duplicate_of == other.key:
            return False
        assert outcome.analysis is not None
        self.empty.add(stored.host, outcome.analysis.fingerprint, now)
        self._hint(other.key, now)
        return True

    def note(
        self,
        outcomes: Sequence[Outcome],
        offers: Sequence[Sequence[Lead]],
        known: Stored,
        batch: Sequence[Served],
        now: float,
    ) -> list[Event]:
        """Keep what these visits have shown, before their links are offered; returns which pages left."""
        waits = {x.key for served in batch for x in served.landings if x.state is State.QUEUED}
        events: list[Event] = []
        came = {outcome.lead.key for outcome in outcomes}
        for outcome, leads in zip(outcomes, offers, strict=True):
            stored = known.get(outcome.lead.key)
            if stored is not None:
                new = self._tips(outcome, leads)
                waiting = outcome.lead.key in waits
                self._noted(stored, outcome, new, waiting, now)
                if outcome.fate is Fate.MOVED:
                    self._moved(stored, key_of(outcome.fetched.location), now)
                elif not stored.page and not waiting and not _is_page(outcome):
                    self._strand(stored.key)
                events += self._left(stored, outcome, now)
        for key in known.keys() - came:  # not even asked: robots.txt, or a visit cut short
            self._untried(known[key], key in waits or not _landed(batch, key), now)
        self._credit(outcomes)
        fresh = [o for o in outcomes if o.fate in (Fate.NEW, Fate.CHANGED) and _is_page(o)]
        if fresh:
            self.book.came_back([o.lead.key for o in fresh])
        if self.shelf is not None:
            for outcome in fresh:
                looks = self.book.looks(outcome.lead.key)
                self.shelf.put(_facts(outcome), looks if looks.tried_at else None)
        return events

    def _noted(self, stored: Known, outcome: Outcome, new: int, waits: bool, now: float) -> None:
        looks, fate, at = self.book.looks(stored.key), outcome.fate, outcome.fetched.started_at or now
        looks.tried_at, looks.queued = at, int(waits)
        if fate in SEEN:
            looks.found += new
            self._measure(looks, stored, at, fate is Fate.CHANGED or new > 0)
        if fate in SEEN or fate in (Fate.MOVED, Fate.NEW):
            looks.strikes, looks.struck_at = 0, 0.0
        elif fate is Fate.STRUCK and not looks.strikes:
            looks.strikes, looks.struck_at = 1, at
        elif fate is Fate.GONE:
            looks.strikes += 1
        self._save(looks, left=fate is Fate.GONE)
        if fate is Fate.CHANGED or fate in LEAVES:
            if self._seen is not None and stored.fingerprint:
                self._seen.forget(stored.key, stored.fingerprint, gone=fate in LEAVES)
            for copy, _ in self.book.copies(stored.key):
                self._hint(copy, now)

    def _measure(self, looks: Looks, stored: Known, at: float, changed: bool) -> None:
        """One look more. A clock that was set back says nothing about the time between two of them."""
        rates = np.zeros(COUNT) if self.shelf is None else self.shelf.rates_of(looks.key).astype(np.float64)
        if looks.rates:
            rates = np.frombuffer(looks.rates, dtype=np.float32).astype(np.float64)
        waited_s = at - max(looks.checked_at, stored.fetched_at)
        if waited_s > 0:
            rates = rates + evidence(waited_s, changed)
        looks.rates = rates.astype(np.float32).tobytes()
        looks.checks += 1
        looks.changes += changed
        looks.checked_at = at
        looks.changed_at = at if changed else looks.changed_at

    def _left(self, stored: Known, outcome: Outcome, now: float) -> list[Event]:
        if outcome.fate not in LEAVES or not stored.page:
            return []
        target = outcome.fetched.location if outcome.fate is Fate.MOVED else ""
        return [PageLeft(at=now, url=stored.url, cause=outcome.fate.value, target=target)]

    def _moved(self, stored: Known, target: int, now: float) -> None:
        """Follow a page to where it is now, also by an address that it only passes; in a circle it is nowhere."""
        if not stored.page and target in addresses(self._collection, stored.key):
            self._strand(stored.key)
            return
        self.book.move(stored.key, target, now)
        there = self.book.looks(target)
        there.queued = 1  # the run is not over before that is fetched
        self.book.save([there])
        if self.shelf is not None:
            self.shelf.drop(stored.key)

    def _strand(self, key: int) -> None:
        """There is no page here. Those that were to have moved here have left, and are looked for where they were."""
        stranded = addresses(self._collection, key)
        self.book.came_back(stranded)
        for one in stranded:
            looks = self.book.looks(one)
            looks.strikes = max(2, looks.strikes)
            self.book.save([looks])
            if self.shelf is not None:
                for facts, _ in self.book.gone_pages(MOST_STRIKES, one):
                    self.shelf.put(facts, looks, left=True)

    def _untried(self, stored: Known, waits: bool, now: float) -> None:
        looks = self.book.looks(stored.key)
        if looks.queued and not waits:
            looks.tried_at, looks.queued = now, 0
            self._save(looks)
            if not stored.page:
                self._strand(stored.key)

    def _hint(self, key: int, now: float) -> None:
        """There is reason to look at this page soon."""
        looks = self.book.looks(key)
        looks.hinted_at = now
        self._save(looks)

    def _save(self, looks: Looks, left: bool = False) -> None:
        self.book.save([looks])
        if self.shelf is not None:
            self.shelf.update(looks, left)

    def _tips(self, outcome: Outcome, leads: Sequence[Lead]) -> int:
        """How many links of a page looked at again were never seen anywhere: a list has changed, if not its text."""
        if outcome.fate not in SEEN:
            return 0
        new = [lead.key for lead in leads if self._frontier.entry(lead.host, lead.key) is None]
        self.book.note_tips(outcome.lead.key, new)
        return len(new)

    def _credit(self, outcomes: Sequence[Outcome]) -> None:
        """Relevant pages count for the page that told of them."""
        paid = {o.lead.key: _is_relevant(o) for o in outcomes if o.fate is Fate.NEW}
        for key, page in (self.book.take_tips(list(paid)) if paid else {}).items():
            if paid[key]:
                looks = self.book.looks(page)
                looks.brought += 1
                self._save(looks)


def _as_none(outcome: Outcome) -> Outcome:
    """The outcome of a visit that brought the text of no page."""
    assert outcome.analysis is not None
    failure = Failure(SOFT, "the text this host shows for unknown addresses")
    analysis = msgspec.structs.replace(outcome.analysis, failure=failure)
    return msgspec.structs.replace(outcome, analysis=analysis, duplicate_of=0)


def _landed(batch: Sequence[Served], key: int) -> bool:
    return any(landing.key == key for served in batch for landing in served.landings)


def _is_page(outcome: Outcome) -> bool:
    analysis = outcome.analysis
    return analysis is not None and analysis.failure is None and not analysis.announced


def _is_relevant(outcome: Outcome) -> bool:
    verdict = outcome.analysis.verdict if outcome.analysis else None
    return verdict is not None and verdict.relevant and not outcome.duplicate_of


def _facts(outcome: Outcome) -> tuple[object, ...]:
    """The columns that the shelf wants of a page, of one that was just stored."""
    lead, analysis, fetched = outcome.lead, outcome.analysis, outcome.fetched
    assert analysis is not None
    score = analysis.verdict.score if analysis.verdict else 0.0
    marks = (outcome.duplicate_of, fetched.started_at, fetched.header("last-modified"))
    return (lead.key, lead.url, lead.host, analysis.genre, score, _is_relevant(outcome), *marks)
