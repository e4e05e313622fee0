"""The unit of work is one commit: what a batch of served leases changed, written in one transaction.

What is in the database has happened; what is not has not: a kill at any moment loses no URL, stores no page twice.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from opilio.crawl.chooser import Chooser
from opilio.crawl.visit import Served
from opilio.model.events import BatchCommitted, Event, HostBackedOff, RobotsRead
from opilio.model.protocols import ContentSeen, Frontier, Learns
from opilio.model.records import HostLease, Lead, Outcome, key_of
from opilio.model.urls import host_of
from opilio.store.collection import Collection
from opilio.store.keeper import Keeper


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How far links are followed."""

    max_depth: int
    hops: int


class Ledger:
    """Commits served leases and tells what happened."""

    def __init__(
        self,
        collection: Collection,
        keeper: Keeper,
        frontier: Frontier,
        seen: ContentSeen | None,
        learners: Mapping[str, Learns],
        bounds: Bounds,
        publish: Callable[[str, bytes], None],
        chooser: Chooser,
    ) -> None:
        self._collection = collection
        self._keeper = keeper
        self._frontier = frontier
        self._seen = seen
        self._learners = learners
        self._bounds = bounds
        self._publish = publish
        self._chooser = chooser

    def commit(self, batch: Sequence[Served], robots: Mapping[str, msgspec.Struct], now: float) -> list[Event]:
        """Write everything these visits changed, or nothing."""
        events: list[Event] = []
        with self._collection.unit_of_work():
            outcomes = [self._tested(o) for served in batch for o in served.outcomes]
            self._keeper.keep(outcomes)
            self._chooser.watch(outcomes)
            leads = [lead for outcome in outcomes for lead in self._leads(outcome)]
            self._frontier.add(leads, now)
            for served in batch:
                self._close(served, now, events)
            self._frontier.rescore(self._chooser.changes())
            self._note_robots(robots, now, events)
            changed = self._learn(outcomes, now)
            self._keeper.keep_events(events)
        for name, state in changed.items():
            self._publish(name, state)
        queued = self._frontier.stats().queued
        events.append(BatchCommitted(at=now, outcomes=tuple(outcomes), queued=queued))
        return events

    def lease(self, now: float, hosts: int, per_host: int, ttl_s: float) -> list[HostLease]:
        """Take the best hosts that may be asked now; on disk before anybody asks them."""
        with self._collection.unit_of_work():
            return self._frontier.lease(now, hosts, per_host, ttl_s)

    def _tested(self, outcome: Outcome) -> Outcome:
        """The content-seen test: after the fetch, before storing and before any link is followed (S0-E5)."""
        analysis = outcome.analysis
        if self._seen is None or analysis is None or not analysis.fingerprint:
            return outcome
        original = self._seen.original_of(outcome.lead.key, analysis.fingerprint, analysis.simhash)
        if original is None:
            return outcome
        return msgspec.structs.replace(outcome, duplicate_of=original[0], near_duplicate=original[1])

    def _leads(self, outcome: Outcome) -> list[Lead]:
        page, bounds = outcome.lead, self._bounds
        target = outcome.fetched.location
        if target:
            return [_redirected(page, target)] if page.hops < bounds.hops else []
        if outcome.duplicate_of or (bounds.max_depth and page.depth >= bounds.max_depth):
            return []
        return self._chooser.leads(outcome)

    def _close(self, served: Served, now: float, events: list[Event]) -> None:
        lease = served.lease
        if served.delay_s != lease.delay_s:
            self._frontier.set_delay(lease.host, served.delay_s)
        self._frontier.complete(lease, served.landings, served.wake_at)
        if served.note:
            events.append(HostBackedOff(at=now, host=lease.host, until=served.wake_at, reason=served.note))

    def _note_robots(self, robots: Mapping[str, msgspec.Struct], now: float, events: list[Event]) -> None:
        for origin, rules in robots.items():
            expires_at = float(getattr(rules, "expires_at", 0.0))
            self._keeper.keep_robots(origin, expires_at, msgspec.msgpack.encode(rules))
            unreachable = bool(getattr(rules, "unreachable", False))
            delay_s = float(getattr(rules, "delay_s", 0.0) or 0.0)
            events.append(RobotsRead(at=now, host=host_of(origin), delay_s=delay_s, allowed=not unreachable))

    def _learn(self, outcomes: Sequence[Outcome], now: float) -> dict[str, bytes]:
        """Let every learner see what happened; returns the new state of those that changed."""
        changed: dict[str, bytes] = {}
        for name, learner in self._learners.items():
            before = learner.version
            learner.learn(outcomes)
            if learner.version != before:
                changed[name] = learner.snapshot()
                self._keeper.keep_snapshot(name, learner.version, now, changed[name])
        return changed


def _redirected(page: Lead, target: str) -> Lead:
    """Where a redirect points, as promising as the URL it answers for."""
    return msgspec.structs.replace(
        page, url=target, key=key_of(target), host=host_of(target), hops=page.hops + 1, retries=0
    )
