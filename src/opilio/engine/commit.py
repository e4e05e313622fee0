"""One commit writes what a batch of served leases changed, in one transaction.

What is in the database has happened, the rest has not: a kill at any moment loses no URL and stores no page twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from opilio.core.events import BatchCommitted, CrawlStopped, Event, HostBackedOff, RobotsRead
from opilio.core.protocols import DuplicateDetector, Frontier, LinkScorer
from opilio.core.records import HostLease, Lead, Outcome, PageChange
from opilio.core.urls import host_of
from opilio.engine.discovered_urls import AliasFinder, OutgoingLeads, SiteDiscovery
from opilio.engine.labels import LabelInbox
from opilio.engine.learning import LearnerGroup
from opilio.engine.politeness.robots import RobotsRules
from opilio.engine.politeness.traps import UrlFilter, save_given_up
from opilio.engine.revisit.outcomes import RevisitOutcomes, StoredPages
from opilio.engine.revisit.scheduler import RevisitScheduler
from opilio.engine.visit import LeaseResult, VisitLimits
from opilio.store.collection import Collection
from opilio.store.writer import CollectionWriter


@dataclass(frozen=True, slots=True)
class CommitTargets:
    """What a commit writes to."""

    collection: Collection
    writer: CollectionWriter
    frontier: Frontier
    duplicate_detector: DuplicateDetector | None
    url_filter: UrlFilter
    revisit_outcomes: RevisitOutcomes
    revisit_scheduler: RevisitScheduler | None = None  # if pages are revisited
    discovery: SiteDiscovery | None = None


class _ReadRobots(NamedTuple):
    """The rules of a robots.txt that are not stored yet."""

    at: float
    origin: str
    rules: RobotsRules
    delay_s: float


@dataclass(slots=True)
class _Batch:
    """A batch of visited leases during the steps of a commit."""

    lease_results: Sequence[LeaseResult]
    now: float
    events: list[Event] = field(default_factory=list)
    # Pages of the batch that were stored before.
    stored_pages: StoredPages = field(default_factory=dict)
    completed: list[LeaseResult] = field(default_factory=list)  # whose lease was still valid
    outcomes: list[Outcome] = field(default_factory=list)
    leads: list[list[Lead]] = field(default_factory=list)  # of each outcome
    changed_states: dict[str, bytes] = field(default_factory=dict)  # of learners, for the workers
    expected_relevant: float | None = None

    @property
    def new_outcomes(self) -> list[Outcome]:
        """Those that are not revisits."""
        if not self.stored_pages:
            return self.outcomes
        return [outcome for outcome in self.outcomes if outcome.change is PageChange.NEW]


class BatchCommitter:
    """Commits served leases and returns the events."""

    def __init__(
        self,
        targets: CommitTargets,
        learning: LearnerGroup,
        link_scorer: LinkScorer,
        limits: VisitLimits,
        publish: Callable[[str, bytes], None],
    ) -> None:
        self._targets = targets
        self._learning = learning
        self._link_scorer = link_scorer
        self._labels = LabelInbox(targets.collection, targets.writer, targets.frontier, learning, link_scorer)
        self._outgoing = OutgoingLeads(targets.collection.connection, link_scorer, limits)
        self._aliases = AliasFinder(targets.collection.connection)
        self._publish_state = publish
        # Figures for observers, as last written.
        self._stored_figures: dict[str, float] = {}
        self._read_robots: list[_ReadRobots] = []
        # Already stored, returned with the next batch.
        self._pending_events: list[Event] = []
        # The order is the algorithm: every step uses what the steps before it wrote.
        self._steps = (
            self._write_robots,
            self._complete_leases,
            self._classify_outcomes,
            self._write_pages,
            self._control_waste,
            self._score_links,
            self._record_revisits,
            self._enqueue_leads,
            self._enqueue_announced,
            self._rescore_queue,
            self._learn,
            self._write_events,
        )

    def commit(self, lease_results: Sequence[LeaseResult], now: float) -> list[Event]:
        """Write everything these visits changed, or nothing. A visit that lost its lease has not happened."""
        batch = _Batch(lease_results, now)
        with self._targets.collection.unit_of_work():
            for step in self._steps:
                step(batch)
        for name, state in batch.changed_states.items():
            self._publish_state(name, state)
        events, self._pending_events = [*self._pending_events, *batch.events], []
        outcomes, queued = tuple(batch.outcomes), self._targets.frontier.stats().queued
        return [*events, BatchCommitted(at=now, outcomes=outcomes, queued=queued, expected=batch.expected_relevant)]

    def _write_robots(self, _: "_Batch | None" = None) -> None:
        """Store the rules that were read since the last commit."""
        read, self._read_robots = self._read_robots, []
        if not read:
            return
        targets = self._targets
        targets.writer.write_robots([(r.origin, r.rules.expires_at, msgspec.msgpack.encode(r.rules)) for r in read])
        events: list[Event] = []
        for at, origin, rules, delay_s in read:
            host = host_of(origin)
            if targets.revisit_scheduler is not None and targets.revisit_scheduler.sitemaps is not None:
                targets.revisit_scheduler.sitemaps.add(rules.sitemaps, host, "sitemap")
            if rules.delay_s > 0:
                targets.frontier.set_delay(host, delay_s)
            events.append(RobotsRead(at=at, host=host, delay_s=rules.delay_s, allowed=not rules.unreachable))
        targets.writer.write_events(events)
        self._pending_events += events

    def _complete_leases(self, batch: "_Batch") -> None:
        batch.stored_pages = self._targets.revisit_outcomes.match(batch.lease_results, batch.now)
        batch.completed = [r for r in batch.lease_results if self._complete_lease(r, batch.now, batch.events)]

    def _classify_outcomes(self, batch: "_Batch") -> None:
        """Mark duplicates and what changed since the last visit; labels of users override the judge."""
        revisits = self._targets.revisit_outcomes
        outcomes = [
            revisits.classify(self._mark_duplicate(outcome), batch.stored_pages, batch.now)
            for result in batch.completed
            for outcome in result.outcomes
        ]
        batch.outcomes = self._labels.override_verdicts(outcomes, batch.now)

    def _write_pages(self, batch: "_Batch") -> None:
        self._targets.writer.write_outcomes(batch.outcomes)

    def _control_waste(self, batch: "_Batch") -> None:
        """Before links are queued: those of a place that was just given up are refused."""
        url_filter = self._targets.url_filter
        url_filter.note_visits(batch.outcomes)
        if (yields := url_filter.yields) is not None:
            boosted = url_filter.host_rules.boosted_hosts
            found = yields.update(batch.new_outcomes, self._targets.frontier, boosted, batch.now)
            if found:
                save_given_up(self._targets.collection, yields.given_up)
                batch.events += found

    def _score_links(self, batch: "_Batch") -> None:
        """The link model learns from the batch first, so that its links are scored with the newest weights."""
        self._link_scorer.observe(batch.new_outcomes)
        batch.leads = self._outgoing.leads(batch.outcomes)

    def _record_revisits(self, batch: "_Batch") -> None:
        batch.events += self._targets.revisit_outcomes.record(
            batch.outcomes, batch.leads, batch.stored_pages, batch.completed, batch.now
        )

    def _enqueue_leads(self, batch: "_Batch") -> None:
        frontier = self._targets.frontier
        added = frontier.add([lead for leads in batch.leads for lead in leads], batch.now)
        frontier.revive(self._outgoing.refetches(batch.outcomes))
        if added.refused:
            self._link_scorer.discard(added.refused)

    def _enqueue_announced(self, batch: "_Batch") -> None:
        """URLs that sitemaps and feeds announce."""
        frontier, scheduler = self._targets.frontier, self._targets.revisit_scheduler
        if scheduler is not None:
            scheduler.record_fetches(len(batch.outcomes), len(batch.outcomes) - len(batch.new_outcomes))
            if scheduler.sitemaps is not None:
                frontier.add(scheduler.sitemaps.process(batch.outcomes, batch.now), batch.now)
        elif self._targets.discovery is not None:
            frontier.add(self._targets.discovery.leads(batch.outcomes), batch.now)

    def _rescore_queue(self, batch: "_Batch") -> None:
        self._targets.frontier.rescore(self._link_scorer.rescored())
        self._targets.frontier.boost(self._link_scorer.explored())
        self._link_scorer.save(batch.now)

    def _learn(self, batch: "_Batch") -> None:
        """Judge, topic and the models of the methods learn; the link scorer sees it with the next batch."""
        self._learning.learn(batch.new_outcomes, batch.now, batch.events)
        batch.changed_states = self._learning.save_changed(batch.now)
        batch.expected_relevant = self._estimate_remaining()

    def _write_events(self, batch: "_Batch") -> None:
        batch.events += self._targets.url_filter.take_events(batch.now)
        self._targets.writer.write_events(batch.events)
        self._targets.writer.sync(batch.now)

    def apply_labels(self, now: float) -> list[Event]:
        """Apply new labels: verdicts, learners and the queue follow at once. Inside the caller's unit of work."""
        events = self._labels.apply_new(now)
        if events:
            self._targets.frontier.rescore(self._link_scorer.rescored())
            for name, state in self._learning.save_changed(now).items():
                self._publish_state(name, state)
        return events

    def _estimate_remaining(self) -> float | None:
        """How many relevant pages the queue still holds, if the ranker can estimate it; never more than are queued.

        It is stored for observers, with the hit rate of the URL-seen cache (S4-21).
        """
        expected, stats = self._link_scorer.expected_relevant, self._targets.frontier.stats()
        figures = {"front_hit_rate": round(stats.cache_hit_rate, 2)}
        if expected is not None:
            expected = min(expected, float(stats.queued + stats.leased))
            figures["expected_relevant"] = round(expected, 2)
        if figures != self._stored_figures:
            self._targets.collection.set_meta(**figures)
            self._stored_figures = figures
        return expected

    def lease(self, now: float, hosts: int, per_host: int, ttl_s: float) -> list[HostLease]:
        """Take the best hosts that may be fetched from now; on disk before any request."""
        frontier, revisits = self._targets.frontier, self._targets.revisit_scheduler
        with self._targets.collection.unit_of_work():
            if revisits is None:
                return frontier.lease(now, hosts, per_host, ttl_s)
            revisits.enqueue_due(now, hosts * per_host)
            return frontier.lease(now, hosts, per_host, ttl_s, min_tier=revisits.min_tier)

    def enqueue_revisits(self, now: float, room: int) -> None:
        """Queue pages that are due, for workers that lease by themselves."""
        revisits = self._targets.revisit_scheduler
        if revisits is not None:
            with self._targets.collection.unit_of_work():
                revisits.enqueue_due(now, room)

    def wakes_at(self) -> float | None:
        """When a host may be leased again."""
        return self._targets.frontier.wakes_at()

    def next_due_at(self, now: float) -> float | None:
        """When there may be something to fetch: a host wakes, or a revisit is due."""
        revisits, wakes_at = self._targets.revisit_scheduler, self._targets.frontier.wakes_at()
        due_at = revisits.next_due_at(now) if revisits is not None and revisits.continuous else None
        if due_at is None:
            return wakes_at
        # Revisits that are due now were tried in this turn.
        due_at = max(due_at, now + 1.0)
        return due_at if wakes_at is None else min(wakes_at, due_at)

    @property
    def continuous(self) -> bool:
        """Whether the crawl runs until the user stops it."""
        return self._targets.revisit_scheduler is not None and self._targets.revisit_scheduler.continuous

    def stop_reason(self, now: float) -> str:
        """Why the crawl is finished: no agent is left, or everything due was revisited; empty while it continues."""
        revisits = self._targets.revisit_scheduler
        return self._learning.finish_reason or (revisits.stop_reason(now) if revisits is not None else "")

    def renew(self, leases: Sequence[HostLease], now: float, ttl_s: float) -> None:
        """Extend leases."""
        with self._targets.collection.unit_of_work():
            self._targets.frontier.renew(leases, now, ttl_s)

    def store_robots(self, origin: str, rules: RobotsRules, delay_s: float, now: float) -> None:
        """Store the rules of a robots.txt with the next commit, or at once if they ask for a delay.

        A delay must be known after a crash. Other rules are not worth a transaction for each host: they are read again.
        """
        self._read_robots.append(_ReadRobots(now, origin, rules, delay_s))
        if rules.delay_s > 0:
            with self._targets.collection.unit_of_work():
                self._write_robots()

    def finish(self, stopped: CrawlStopped) -> None:
        """Store why the crawl stopped, and everything learned so far."""
        with self._targets.collection.unit_of_work():
            self._write_robots()
            labelled = self._labels.apply_new(stopped.at)
            self._targets.frontier.rescore(self._link_scorer.rescored())
            self._learning.save_changed(stopped.at)
            self._learning.save_all(stopped.at)
            self._link_scorer.save(stopped.at, at_end=True)
            self._estimate_remaining()
            self._targets.frontier.recover(stopped.at)
            self._targets.collection.set_meta(state="stopped", stop_reason=stopped.reason, stopped_at=stopped.at)
            self._targets.writer.write_events([*labelled, stopped])
            self._targets.writer.sync(stopped.at, at_once=True)

    def _mark_duplicate(self, outcome: Outcome) -> Outcome:
        """The content-seen test: after the fetch, before storing and before any link is followed (S0-E5)."""
        analysis, seen = outcome.analysis, self._targets.duplicate_detector
        if seen is None or analysis is None or not analysis.fingerprint or analysis.failure is not None:
            return outcome
        original = seen.find_original(outcome.lead.key, analysis.fingerprint, analysis.simhash)
        if original is None and (alias_of := self._aliases.find_original(outcome)):
            original = (alias_of, True)
        if original is None:
            return outcome
        return msgspec.structs.replace(outcome, duplicate_of=original[0], near_duplicate=original[1])

    def _complete_lease(self, served: LeaseResult, now: float, events: list[Event]) -> bool:
        """End the lease; False: another holder has the host by now."""
        lease, frontier = served.lease, self._targets.frontier
        if not frontier.complete(lease, served.url_results, served.wake_at):
            return False
        if served.delay_s != lease.delay_s:
            frontier.set_delay(lease.host, served.delay_s)
        if served.wait_reason:
            events.append(HostBackedOff(at=now, host=lease.host, until=served.wake_at, reason=served.wait_reason))
        events += served.errors
        return True
