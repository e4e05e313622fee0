"""Visits of pages that are stored already: classifies and records each, inside the transaction of a commit.

Also without a revisit policy: a resumed crawl may have revisits in its queue.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from opilio.core.errors import CollectionError
from opilio.core.events import Event, PageRemoved
from opilio.core.protocols import DuplicateDetector, Frontier
from opilio.core.records import SOFT_404, Failure, Lead, Outcome, PageChange, UrlResult, UrlState, url_key
from opilio.engine.revisit.candidates import MAX_MISSING_CHECKS, RevisitTable
from opilio.engine.revisit.change_rate import RATE_COUNT, visit_log_likelihood
from opilio.engine.revisit.classify import classify_change, revisited_url_result
from opilio.engine.revisit.sitemaps import is_probe
from opilio.engine.visit import LeaseResult
from opilio.parse.page_state import stable_words
from opilio.store.collection import Collection
from opilio.store.revisits import PageFacts, RevisitRecord, RevisitStore, Soft404Texts, StoredPageInfo
from opilio.store.versions import page_keys
from opilio.store.warc import parse_response, read_record

REACHED_CHANGES = frozenset({PageChange.UNCHANGED, PageChange.CHANGED})
REMOVAL_CHANGES = frozenset({PageChange.GONE, PageChange.MOVED})
StoredPages = dict[int, StoredPageInfo]


class RevisitOutcomes:
    """Classifies visits to stored pages. `table` is set only while revisits are scheduled."""

    def __init__(
        self, collection: Collection, frontier: Frontier, seen: DuplicateDetector | None, second_look_s: float
    ) -> None:
        self.store = RevisitStore(collection.connection)
        self.soft_404_texts = Soft404Texts(collection.connection)
        self.table: RevisitTable | None = None
        self._collection = collection
        self._frontier = frontier
        self._duplicate_detector = seen
        self._confirm_after_s = second_look_s
        self._changed_in_batch: set[int] = set()  # of this batch

    def match(self, batch: Sequence[LeaseResult], now: float) -> StoredPages:
        """Find out which visits are of stored pages, and put their landings right; before the leases end."""
        self._changed_in_batch.clear()
        known = self.store.stored_pages([landing.key for served in batch for landing in served.url_results])
        for served in batch:
            soft = [self._classify_soft_404(outcome) for outcome in served.outcomes]
            if known or any(a is not b for a, b in zip(soft, served.outcomes, strict=True)):
                served.outcomes = soft
                served.url_results = self._updated_results(served, known, now)
        return known

    def _classify_soft_404(self, outcome: Outcome) -> Outcome:
        """A page with the text that its host shows for unknown URLs is a soft 404."""
        analysis = outcome.analysis
        if analysis is None or analysis.failure is not None or analysis.sitemap_entries:
            return outcome
        if is_probe(outcome.lead.url):
            self.soft_404_texts.add(outcome.lead.host, analysis.fingerprint, outcome.fetched.started_at)
        elif (outcome.lead.host, analysis.fingerprint) not in self.soft_404_texts:
            return outcome
        return _as_soft_404(outcome)

    def _updated_results(self, served: LeaseResult, known: StoredPages, now: float) -> list[UrlResult]:
        came = {outcome.lead.key: outcome for outcome in served.outcomes}
        found = []
        for landing in served.url_results:
            outcome = came.get(landing.key)
            soft = outcome is not None and outcome.analysis is not None and outcome.analysis.failure is not None
            if landing.key in known and known[landing.key].is_current:
                fate = PageChange.UNKNOWN if outcome is None else self._page_change(known[landing.key], outcome, now)
                landing = revisited_url_result(landing, fate)
            elif soft and landing.state is UrlState.DONE:
                landing = msgspec.structs.replace(landing, state=UrlState.FAILED, reason=SOFT_404)
            found.append(landing)
        return found

    def _page_change(self, known: StoredPageInfo, outcome: Outcome, now: float) -> PageChange:
        return classify_change(known, self.store.record(known.key), outcome, now, self._confirm_after_s)

    def classify(self, outcome: Outcome, known: StoredPages, now: float) -> Outcome:
        """The outcome with what it means for the page."""
        stored = known.get(outcome.lead.key)
        if stored is None:
            return outcome
        fate = self._page_change(stored, outcome, now)
        if not stored.is_current:
            fate = PageChange.NEW if fate in REACHED_CHANGES and outcome.analysis is not None else fate
            if fate is PageChange.MOVED and len(page_keys(self._collection, stored.key)) == 1:  # it left
                fate = PageChange.GONE
        if fate is PageChange.CHANGED and self._only_noise(stored, outcome):
            fate = PageChange.UNCHANGED
            if self._duplicate_detector is not None and outcome.analysis is not None:
                self._duplicate_detector.forget(stored.key, outcome.analysis.fingerprint)
        if fate is PageChange.CHANGED and self._became_soft_404(stored, outcome, now):
            looks = self.store.record(stored.key)
            late = looks.strikes >= 1 and now - looks.struck_at >= self._confirm_after_s
            fate, outcome = PageChange.GONE if late else PageChange.MISSING_ONCE, _as_soft_404(outcome)
        if fate is PageChange.CHANGED:
            self._changed_in_batch.add(stored.key)
        return msgspec.structs.replace(outcome, change=fate)

    def _only_noise(self, stored: StoredPageInfo, outcome: Outcome) -> bool:
        """Is all that changed an advert, a clock, a date, a counter?"""
        analysis = outcome.analysis
        if analysis is None or not analysis.warc_record or not stored.warc_location[2] or outcome.duplicate_of:
            return False
        try:
            before = stable_words(read_record(self._collection.folder, *stored.warc_location))
            return before is not None and before == stable_words(parse_response(analysis.warc_record))
        except (CollectionError, ValueError):  # what was there can't be read any more: it is replaced
            return False

    def _became_soft_404(self, stored: StoredPageInfo, outcome: Outcome, now: float) -> bool:
        """Two pages of a host that differed and now show the same: that is what it shows where it has nothing."""
        other = (
            self.store.stored_pages([outcome.duplicate_of]).get(outcome.duplicate_of) if outcome.duplicate_of else None
        )
        if other is None or other.host != stored.host or outcome.near_duplicate:
            return False
        changed = other.key in self._changed_in_batch or self.store.record(other.key).changes
        if not changed or stored.duplicate_of == other.key:
            return False
        assert outcome.analysis is not None
        self.soft_404_texts.add(stored.host, outcome.analysis.fingerprint, now)
        self._mark_probably_changed(other.key, now)
        return True

    def record(
        self,
        outcomes: Sequence[Outcome],
        offers: Sequence[Sequence[Lead]],
        known: StoredPages,
        batch: Sequence[LeaseResult],
        now: float,
    ) -> list[Event]:
        """Keep what these visits have shown, before their links are offered; returns which pages left."""
        waits = {x.key for served in batch for x in served.url_results if x.state is UrlState.QUEUED}
        events: list[Event] = []
        came = {outcome.lead.key for outcome in outcomes}
        for outcome, leads in zip(outcomes, offers, strict=True):
            stored = known.get(outcome.lead.key)
            if stored is not None:
                new = self._record_new_links(outcome, leads)
                waiting = outcome.lead.key in waits
                self._record_visit(stored, outcome, new, waiting, now)
                if outcome.change is PageChange.MOVED:
                    self._record_move(stored, url_key(outcome.fetched.location), now)
                elif not stored.is_current and not waiting and not _is_page(outcome):
                    self._restore_moved_pages(stored.key)
                events += self._page_left_events(stored, outcome, now)
        for key in known.keys() - came:  # not even asked: robots.txt, or a visit cut short
            self._record_unvisited(known[key], key in waits or not _has_result(batch, key), now)
        self._credit_link_sources(outcomes)
        fresh = [o for o in outcomes if o.change in (PageChange.NEW, PageChange.CHANGED) and _is_page(o)]
        if fresh:
            self.store.mark_present([o.lead.key for o in fresh])
        if self.table is not None:
            for outcome in fresh:
                looks = self.store.record(outcome.lead.key)
                self.table.put(_page_facts(outcome), looks if looks.tried_at else None)
        return events

    def _record_visit(self, stored: StoredPageInfo, outcome: Outcome, new: int, waits: bool, now: float) -> None:
        looks, fate, at = self.store.record(stored.key), outcome.change, outcome.fetched.started_at or now
        looks.tried_at, looks.queued = at, int(waits)
        if fate in REACHED_CHANGES:
            looks.found += new
            self._update_rate(looks, stored, at, fate is PageChange.CHANGED or new > 0)
        if fate in REACHED_CHANGES or fate in (PageChange.MOVED, PageChange.NEW):
            looks.strikes, looks.struck_at = 0, 0.0
        elif fate is PageChange.MISSING_ONCE and not looks.strikes:
            looks.strikes, looks.struck_at = 1, at
        elif fate is PageChange.GONE:
            looks.strikes += 1
        self._save(looks, left=fate is PageChange.GONE)
        if fate is PageChange.CHANGED or fate in REMOVAL_CHANGES:
            if self._duplicate_detector is not None and stored.fingerprint:
                self._duplicate_detector.forget(stored.key, stored.fingerprint, gone=fate in REMOVAL_CHANGES)
            for copy, _ in self.store.duplicates_of(stored.key):
                self._mark_probably_changed(copy, now)

    def _update_rate(self, looks: RevisitRecord, stored: StoredPageInfo, at: float, changed: bool) -> None:
        """One look more. A clock that was set back says nothing about the time between two of them."""
        rates = np.zeros(RATE_COUNT) if self.table is None else self.table.rate_evidence(looks.key).astype(np.float64)
        if looks.rates:
            rates = np.frombuffer(looks.rates, dtype=np.float32).astype(np.float64)
        waited_s = at - max(looks.checked_at, stored.fetched_at)
        if waited_s > 0:
            rates = rates + visit_log_likelihood(waited_s, changed)
        looks.rates = rates.astype(np.float32).tobytes()
        looks.checks += 1
        looks.changes += changed
        looks.checked_at = at
        looks.changed_at = at if changed else looks.changed_at

    def _page_left_events(self, stored: StoredPageInfo, outcome: Outcome, now: float) -> list[Event]:
        if outcome.change not in REMOVAL_CHANGES or not stored.is_current:
            return []
        target = outcome.fetched.location if outcome.change is PageChange.MOVED else ""
        return [PageRemoved(at=now, url=stored.url, cause=outcome.change.value, target=target)]

    def _record_move(self, stored: StoredPageInfo, target: int, now: float) -> None:
        """Follow a page to where it is now, also by an address that it only passes; in a circle it is nowhere."""
        if not stored.is_current and target in page_keys(self._collection, stored.key):
            self._restore_moved_pages(stored.key)
            return
        self.store.record_move(stored.key, target, now)
        there = self.store.record(target)
        there.queued = 1  # the run is not over before that is fetched
        self.store.save([there])
        if self.table is not None:
            self.table.drop(stored.key)

    def _restore_moved_pages(self, key: int) -> None:
        """There is no page here. Those that were to have moved here have left, and are looked for where they were."""
        stranded = page_keys(self._collection, key)
        self.store.mark_present(stranded)
        for one in stranded:
            looks = self.store.record(one)
            looks.strikes = max(2, looks.strikes)
            self.store.save([looks])
            if self.table is not None:
                for facts, _ in self.store.gone_pages(MAX_MISSING_CHECKS, one):
                    self.table.put(facts, looks, left=True)

    def _record_unvisited(self, stored: StoredPageInfo, waits: bool, now: float) -> None:
        looks = self.store.record(stored.key)
        if looks.queued and not waits:
            looks.tried_at, looks.queued = now, 0
            self._save(looks)
            if not stored.is_current:
                self._restore_moved_pages(stored.key)

    def _mark_probably_changed(self, key: int, now: float) -> None:
        """There is reason to look at this page soon."""
        looks = self.store.record(key)
        looks.hinted_at = now
        self._save(looks)

    def _save(self, looks: RevisitRecord, left: bool = False) -> None:
        self.store.save([looks])
        if self.table is not None:
            self.table.update(looks, left)

    def _record_new_links(self, outcome: Outcome, leads: Sequence[Lead]) -> int:
        """How many links of a page looked at again were never seen anywhere: a list has changed, if not its text."""
        if outcome.change not in REACHED_CHANGES:
            return 0
        new = [lead.key for lead in leads if self._frontier.entry(lead.host, lead.key) is None]
        self.store.record_new_links(outcome.lead.key, new)
        return len(new)

    def _credit_link_sources(self, outcomes: Sequence[Outcome]) -> None:
        """Relevant pages count for the page that linked to them."""
        paid = {o.lead.key: o.relevant for o in outcomes if o.change is PageChange.NEW}
        for key, page in (self.store.take_link_sources(list(paid)) if paid else {}).items():
            if paid[key]:
                looks = self.store.record(page)
                looks.brought += 1
                self._save(looks)


def _as_soft_404(outcome: Outcome) -> Outcome:
    """The outcome of a visit that brought the text of no page."""
    assert outcome.analysis is not None
    failure = Failure(SOFT_404, "the text this host shows for unknown addresses")
    analysis = msgspec.structs.replace(outcome.analysis, failure=failure)
    return msgspec.structs.replace(outcome, analysis=analysis, duplicate_of=0)


def _has_result(batch: Sequence[LeaseResult], key: int) -> bool:
    return any(landing.key == key for served in batch for landing in served.url_results)


def _is_page(outcome: Outcome) -> bool:
    analysis = outcome.analysis
    return analysis is not None and analysis.failure is None and not analysis.sitemap_entries


def _page_facts(outcome: Outcome) -> PageFacts:
    """The facts of a page that was just stored."""
    lead, analysis, fetched = outcome.lead, outcome.analysis, outcome.fetched
    assert analysis is not None
    return PageFacts(
        key=lead.key,
        url=lead.url,
        host=lead.host,
        genre=analysis.genre,
        score=analysis.verdict.score if analysis.verdict else 0.0,
        relevant=outcome.relevant,
        duplicate_of=outcome.duplicate_of,
        fetched_at=fetched.started_at,
        last_modified=fetched.header("last-modified"),
    )
