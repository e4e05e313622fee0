"""Visits of pages that are stored already: classifies and records each, inside the transaction of a commit.

Also without a revisit policy: a resumed crawl may have revisits in its queue. Whether a page has changed: the
fingerprints of the texts are compared, of words and numbers without case and punctuation; if they differ,
`parse.page_state` leaves out noise such as clocks and counters.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec
import numpy as np
import xxhash

from opilio.core.errors import CollectionError
from opilio.core.events import Event, PageRemoved
from opilio.core.protocols import DuplicateDetector, Frontier
from opilio.core.records import SOFT_404, Failure, FetchResult, Lead, Outcome, PageChange, UrlResult, UrlState, url_key
from opilio.core.urls import origin_of
from opilio.engine.revisit.candidates import MAX_MISSING_CHECKS, RATE_COUNT, RevisitTable, visit_log_likelihood
from opilio.engine.visit import LeaseResult
from opilio.parse.page_state import stable_words
from opilio.store.collection import Collection
from opilio.store.revisits import PageFacts, RevisitRecord, RevisitStore, Soft404Texts, StoredPageInfo
from opilio.store.versions import page_keys
from opilio.store.warc import parse_response, read_record
from opilio.store.writer import ENDING_CHANGES

REACHED_CHANGES = frozenset({PageChange.UNCHANGED, PageChange.CHANGED})
StoredPages = dict[int, StoredPageInfo]


class RevisitOutcomes:
    """Classifies visits to stored pages. `table` is set only while revisits are scheduled."""

    def __init__(
        self, collection: Collection, frontier: Frontier, detector: DuplicateDetector | None, confirm_after_s: float
    ) -> None:
        self.store = RevisitStore(collection.connection)
        self.soft_404_texts = Soft404Texts(collection.connection)
        self.table: RevisitTable | None = None
        self._collection = collection
        self._frontier = frontier
        self._duplicate_detector = detector
        self._confirm_after_s = confirm_after_s
        self._changed_in_batch: set[int] = set()

    def match(self, batch: Sequence[LeaseResult], now: float) -> StoredPages:
        """Find the visits of stored pages and correct their URL results, before the leases end."""
        self._changed_in_batch.clear()
        known = self.store.stored_pages([result.key for lease_result in batch for result in lease_result.url_results])
        for lease_result in batch:
            outcomes = [self._classify_soft_404(outcome) for outcome in lease_result.outcomes]
            if known or any(a is not b for a, b in zip(outcomes, lease_result.outcomes, strict=True)):
                lease_result.outcomes = outcomes
                lease_result.url_results = self._updated_results(lease_result, known, now)
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

    def _updated_results(self, lease_result: LeaseResult, known: StoredPages, now: float) -> list[UrlResult]:
        by_key = {outcome.lead.key: outcome for outcome in lease_result.outcomes}
        found = []
        for result in lease_result.url_results:
            outcome = by_key.get(result.key)
            failed = outcome is not None and outcome.analysis is not None and outcome.analysis.failure is not None
            if result.key in known and known[result.key].is_current:
                change = PageChange.UNKNOWN if outcome is None else self._page_change(known[result.key], outcome, now)
                result = revisited_url_result(result, change)
            elif failed and result.state is UrlState.DONE:
                result = msgspec.structs.replace(result, state=UrlState.FAILED, reason=SOFT_404)
            found.append(result)
        return found

    def _page_change(self, known: StoredPageInfo, outcome: Outcome, now: float) -> PageChange:
        return classify_change(known, self.store.record(known.key), outcome, now, self._confirm_after_s)

    def classify(self, outcome: Outcome, known: StoredPages, now: float) -> Outcome:
        """The outcome with what it means for the page."""
        stored = known.get(outcome.lead.key)
        if stored is None:
            return outcome
        change = self._page_change(stored, outcome, now)
        if not stored.is_current:
            change = PageChange.NEW if change in REACHED_CHANGES and outcome.analysis is not None else change
            if change is PageChange.MOVED and len(page_keys(self._collection, stored.key)) == 1:
                change = PageChange.GONE
        if change is PageChange.CHANGED and self._only_noise(stored, outcome):
            change = PageChange.UNCHANGED
            if self._duplicate_detector is not None and outcome.analysis is not None:
                self._duplicate_detector.forget(stored.key, outcome.analysis.fingerprint)
        if change is PageChange.CHANGED and self._became_soft_404(stored, outcome, now):
            record = self.store.record(stored.key)
            late = record.strikes >= 1 and now - record.struck_at >= self._confirm_after_s
            change, outcome = PageChange.GONE if late else PageChange.MISSING_ONCE, _as_soft_404(outcome)
        if change is PageChange.CHANGED:
            self._changed_in_batch.add(stored.key)
        return msgspec.structs.replace(outcome, change=change)

    def _only_noise(self, stored: StoredPageInfo, outcome: Outcome) -> bool:
        """Whether only an advert, a clock, a date or a counter changed."""
        analysis = outcome.analysis
        if analysis is None or not analysis.warc_record or not stored.warc_location[2] or outcome.duplicate_of:
            return False
        try:
            before = stable_words(read_record(self._collection.folder, *stored.warc_location))
            return before is not None and before == stable_words(parse_response(analysis.warc_record))
        # The stored record is unreadable: replace it.
        except (CollectionError, ValueError):
            return False

    def _became_soft_404(self, stored: StoredPageInfo, outcome: Outcome, now: float) -> bool:
        """Whether two pages of a host that differed have the same text now: its text for missing pages."""
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
        found_links: Sequence[Sequence[Lead]],
        known: StoredPages,
        batch: Sequence[LeaseResult],
        now: float,
    ) -> list[Event]:
        """Store the results of these visits, before their links are queued; returns the pages that were removed."""
        waiting_keys = {x.key for lease_result in batch for x in lease_result.url_results if x.state is UrlState.QUEUED}
        events: list[Event] = []
        visited = {outcome.lead.key for outcome in outcomes}
        for outcome, leads in zip(outcomes, found_links, strict=True):
            stored = known.get(outcome.lead.key)
            if stored is not None:
                new = self._record_new_links(outcome, leads)
                waiting = outcome.lead.key in waiting_keys
                self._record_visit(stored, outcome, new, waiting, now)
                if outcome.change is PageChange.MOVED:
                    self._record_move(stored, url_key(outcome.fetched.location), now)
                elif not stored.is_current and not waiting and not _is_page(outcome):
                    self._restore_moved_pages(stored.key)
                events += self._removal_events(stored, outcome, now)
        # Not requested: refused by robots.txt, or the visit was interrupted.
        for key in known.keys() - visited:
            self._record_unvisited(known[key], key in waiting_keys or not _has_result(batch, key), now)
        self._credit_link_sources(outcomes)
        fresh = [o for o in outcomes if o.change in (PageChange.NEW, PageChange.CHANGED) and _is_page(o)]
        if fresh:
            self.store.mark_present([o.lead.key for o in fresh])
        if self.table is not None:
            for outcome in fresh:
                record = self.store.record(outcome.lead.key)
                self.table.put(_page_facts(outcome), record if record.tried_at else None)
        return events

    def _record_visit(self, stored: StoredPageInfo, outcome: Outcome, new: int, waiting: bool, now: float) -> None:
        record, change, at = self.store.record(stored.key), outcome.change, outcome.fetched.started_at or now
        record.tried_at, record.queued = at, int(waiting)
        if change in REACHED_CHANGES:
            record.found += new
            self._update_rate(record, stored, at, change is PageChange.CHANGED or new > 0)
        if change in REACHED_CHANGES or change in (PageChange.MOVED, PageChange.NEW):
            record.strikes, record.struck_at = 0, 0.0
        elif change is PageChange.MISSING_ONCE and not record.strikes:
            record.strikes, record.struck_at = 1, at
        elif change is PageChange.GONE:
            record.strikes += 1
        self._save(record, gone=change is PageChange.GONE)
        if change is PageChange.CHANGED or change in ENDING_CHANGES:
            if self._duplicate_detector is not None and stored.fingerprint:
                self._duplicate_detector.forget(stored.key, stored.fingerprint, gone=change in ENDING_CHANGES)
            for copy in self.store.copy_keys(stored.key):
                self._mark_probably_changed(copy, now)

    def _update_rate(self, record: RevisitRecord, stored: StoredPageInfo, at: float, changed: bool) -> None:
        """Add one observation. After a clock was set back the time between two visits is unknown."""
        rates = np.zeros(RATE_COUNT) if self.table is None else self.table.rate_evidence(record.key).astype(np.float64)
        if record.rates:
            rates = np.frombuffer(record.rates, dtype=np.float32).astype(np.float64)
        waited_s = at - max(record.checked_at, stored.fetched_at)
        if waited_s > 0:
            rates = rates + visit_log_likelihood(waited_s, changed)
        record.rates = rates.astype(np.float32).tobytes()
        record.checks += 1
        record.changes += changed
        record.checked_at = at
        record.changed_at = at if changed else record.changed_at

    def _removal_events(self, stored: StoredPageInfo, outcome: Outcome, now: float) -> list[Event]:
        if outcome.change not in ENDING_CHANGES or not stored.is_current:
            return []
        target = outcome.fetched.location if outcome.change is PageChange.MOVED else ""
        return [PageRemoved(at=now, url=stored.url, cause=outcome.change.value, target=target)]

    def _record_move(self, stored: StoredPageInfo, target: int, now: float) -> None:
        """Record the new address of a page, also through a chain of redirects; a redirect loop means it is missing."""
        if not stored.is_current and target in page_keys(self._collection, stored.key):
            self._restore_moved_pages(stored.key)
            return
        self.store.record_move(stored.key, target, now)
        there = self.store.record(target)
        # The run does not end before it is fetched.
        there.queued = 1
        self.store.save([there])
        if self.table is not None:
            self.table.drop(stored.key)

    def _restore_moved_pages(self, key: int) -> None:
        """No page is at this address: pages recorded as moved to it count as missing at their old address."""
        moved_here = page_keys(self._collection, key)
        self.store.mark_present(moved_here)
        for one in moved_here:
            record = self.store.record(one)
            record.strikes = max(2, record.strikes)
            self.store.save([record])
            if self.table is not None:
                for facts, _ in self.store.gone_pages(MAX_MISSING_CHECKS, one):
                    self.table.put(facts, record, gone=True)

    def _record_unvisited(self, stored: StoredPageInfo, waiting: bool, now: float) -> None:
        record = self.store.record(stored.key)
        if record.queued and not waiting:
            record.tried_at, record.queued = now, 0
            self._save(record)
            if not stored.is_current:
                self._restore_moved_pages(stored.key)

    def _mark_probably_changed(self, key: int, now: float) -> None:
        """Give a page a higher priority for its next revisit."""
        record = self.store.record(key)
        record.hinted_at = now
        self._save(record)

    def _save(self, record: RevisitRecord, gone: bool = False) -> None:
        self.store.save([record])
        if self.table is not None:
            self.table.update(record, gone)

    def _record_new_links(self, outcome: Outcome, leads: Sequence[Lead]) -> int:
        """The number of new URLs on a revisited page: a list may have changed although its text did not."""
        if outcome.change not in REACHED_CHANGES:
            return 0
        new = [lead.key for lead in leads if self._frontier.entry(lead.host, lead.key) is None]
        self.store.record_new_links(outcome.lead.key, new)
        return len(new)

    def _credit_link_sources(self, outcomes: Sequence[Outcome]) -> None:
        """Credit relevant pages to the page that linked to them."""
        relevant_by_key = {o.lead.key: o.relevant for o in outcomes if o.change is PageChange.NEW}
        for key, page in (self.store.take_link_sources(list(relevant_by_key)) if relevant_by_key else {}).items():
            if relevant_by_key[key]:
                record = self.store.record(page)
                record.brought += 1
                self._save(record)


def _as_soft_404(outcome: Outcome) -> Outcome:
    """The outcome of a visit whose text is not that of a page."""
    assert outcome.analysis is not None
    failure = Failure(SOFT_404, "the text this host shows for unknown addresses")
    analysis = msgspec.structs.replace(outcome.analysis, failure=failure)
    return msgspec.structs.replace(outcome, analysis=analysis, duplicate_of=0)


def _has_result(batch: Sequence[LeaseResult], key: int) -> bool:
    return any(result.key == key for lease_result in batch for result in lease_result.url_results)


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


MISSING_STATUSES = frozenset({404, 410})
PERMANENT_REDIRECTS = frozenset({301, 308})  # RFC 9110, 15.4.2 and 15.4.9
REDIRECT_LOOP = "redirect-loop"
# Declared in the header, or found when the body was read.
WRONG_CONTENT_TYPE = "content-type"
NOT_A_PAGE_KINDS = frozenset({SOFT_404, WRONG_CONTENT_TYPE, "parse", "html", "url"})  # a response, but not a page


def classify_change(
    known: StoredPageInfo, record: RevisitRecord, outcome: Outcome, now: float, confirm_after_s: float
) -> PageChange:
    """The change of a page. It is gone when it was missing twice, `confirm_after_s` apart (S1-06)."""
    fetched, analysis = outcome.fetched, outcome.analysis
    missing = _is_missing_failure(fetched)
    if fetched.failure is not None and not missing:
        return PageChange.UNKNOWN
    if fetched.location and fetched.status in PERMANENT_REDIRECTS and not _is_dead_redirect(known, fetched.location):
        return PageChange.MOVED
    missing |= fetched.status in MISSING_STATUSES or (fetched.status in PERMANENT_REDIRECTS and bool(fetched.location))
    if analysis is not None and analysis.failure is not None and analysis.failure.kind in NOT_A_PAGE_KINDS:
        missing = True
    if missing:
        return (
            PageChange.GONE
            if record.strikes >= 1 and now - record.struck_at >= confirm_after_s
            else PageChange.MISSING_ONCE
        )
    if fetched.status == 304:
        return PageChange.UNCHANGED
    if analysis is None or analysis.failure is not None:
        return PageChange.UNKNOWN
    return PageChange.UNCHANGED if _is_same_text(known, outcome) else PageChange.CHANGED


def _is_missing_failure(fetched: FetchResult) -> bool:
    """Whether a failure means that the page is missing: another content type, or a permanent redirect to itself."""
    kind = fetched.failure.kind if fetched.failure is not None else ""
    return kind == WRONG_CONTENT_TYPE or (kind == REDIRECT_LOOP and fetched.status in PERMANENT_REDIRECTS)


def _is_dead_redirect(known: StoredPageInfo, target: str) -> bool:
    """Whether a redirect leads to no other page: to the home page, or to itself as servers that want a cookie do."""
    return is_home_page(target) or url_key(target) == known.key


def is_home_page(url: str) -> bool:
    """Whether this is the home page of a site. Sites redirect removed pages to it, so such a page has not moved.

    >>> is_home_page("https://a.example/"), is_home_page("https://a.example/new.html"), is_home_page("https://a.example/?p=2")
    (True, False, False)
    """
    parts = urlsplit(url)
    return parts.path in ("", "/") and not parts.query


def _is_same_text(known: StoredPageInfo, outcome: Outcome) -> bool:
    analysis = outcome.analysis
    assert analysis is not None
    if known.duplicate_of and not outcome.duplicate_of:
        # The page it duplicated is gone.
        return False
    if known.fingerprint or analysis.fingerprint:
        return known.fingerprint == analysis.fingerprint
    # Too little text for a fingerprint.
    return (known.words, known.title) == (analysis.words, analysis.title)


def revisited_url_result(result: UrlResult, change: PageChange) -> UrlResult:
    """The state of a stored page's URL after a visit: done, or failed if the page is gone."""
    if result.state is UrlState.QUEUED:
        return result
    if change is PageChange.GONE:
        return _with_state(result, UrlState.FAILED, f"gone: {result.reason}")
    return _with_state(result, UrlState.DONE, result.reason)


def _with_state(result: UrlResult, state: UrlState, reason: str) -> UrlResult:
    return UrlResult(key=result.key, host=result.host, state=state, reason=reason)


# A URL that no server has: its page shows the text of a soft 404.
PROBE_PATH_PREFIX = "opilio-looks-for-no-page-"


def probe_url(url: str) -> str:
    """A URL of the same host that can't exist; always the same one.

    >>> is_probe(probe_url("http://a.example/wren.html")), is_probe("http://a.example/wren.html")
    (True, False)
    """
    origin = origin_of(url)
    return f"{origin}/{PROBE_PATH_PREFIX}{xxhash.xxh3_64_hexdigest(origin.encode())[:8]}.html"


def is_probe(url: str) -> bool:
    return f"/{PROBE_PATH_PREFIX}" in url
