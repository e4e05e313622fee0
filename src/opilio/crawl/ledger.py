"""The unit of work is one commit: what a batch of served leases changed, written in one transaction.

What is in the database has happened; what is not has not: a kill at any moment loses no URL, stores no page twice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from opilio.crawl.chooser import Chooser
from opilio.crawl.trapwatch import TrapWatch
from opilio.crawl.visit import Bounds, Served
from opilio.fetch.robots import Rules
from opilio.model.events import BatchCommitted, CrawlStopped, Event, HostBackedOff, RobotsRead, TopicChanged
from opilio.model.protocols import ContentSeen, Frontier, Learns
from opilio.model.records import HostLease, Lead, Outcome, key_of
from opilio.model.urls import host_of
from opilio.store.collection import Collection
from opilio.store.keeper import Keeper
from opilio.topic.living import LivingTopic

SAVE_EVERY_S = 10.0  # what is learnt between two versions (words counted for the next growth) is kept so often


@dataclass(frozen=True, slots=True)
class Books:
    """What a commit writes to."""

    collection: Collection
    keeper: Keeper
    frontier: Frontier
    seen: ContentSeen | None
    traps: TrapWatch


class Ledger:
    """Commits served leases and tells what happened."""

    def __init__(
        self,
        books: Books,
        learners: Mapping[str, Learns],
        chooser: Chooser,
        bounds: Bounds,
        publish: Callable[[str, bytes], None],
    ) -> None:
        self._books = books
        self._learners = learners
        self._chooser = chooser
        self._bounds = bounds
        self._publish = publish
        self._untold: list[Event] = []  # kept already, told with the next batch
        self._saved_at = 0.0

    def commit(self, batch: Sequence[Served], now: float) -> list[Event]:
        """Write everything these visits changed, or nothing. A visit that lost its lease has not happened."""
        books, events = self._books, list[Event]()
        with books.collection.unit_of_work():
            held = [served for served in batch if self._close(served, now, events)]
            outcomes = [self._tested(o) for served in held for o in served.outcomes]
            books.keeper.keep(outcomes)
            self._chooser.watch(outcomes)
            books.frontier.add([lead for outcome in outcomes for lead in self._leads(outcome)], now)
            books.frontier.rescore(self._chooser.changes())
            changed = self._learn(outcomes, now, events)
            events += books.traps.news(now)
            books.keeper.keep_events(events)
        for name, state in changed.items():
            self._publish(name, state)
        told, self._untold = [*self._untold, *events], []
        return [*told, BatchCommitted(at=now, outcomes=tuple(outcomes), queued=books.frontier.stats().queued)]

    def lease(self, now: float, hosts: int, per_host: int, ttl_s: float) -> list[HostLease]:
        """Take the best hosts that may be asked now; on disk before anybody asks them."""
        with self._books.collection.unit_of_work():
            return self._books.frontier.lease(now, hosts, per_host, ttl_s)

    def renew(self, leases: Sequence[HostLease], now: float, ttl_s: float) -> None:
        """Hold hosts longer."""
        with self._books.collection.unit_of_work():
            self._books.frontier.renew(leases, now, ttl_s)

    def keep_rules(self, origin: str, rules: Rules, delay_s: float, now: float) -> None:
        """Write down what a robots.txt says, before any page is asked for by it."""
        host = host_of(origin)
        event = RobotsRead(at=now, host=host, delay_s=rules.delay_s, allowed=not rules.unreachable)
        with self._books.collection.unit_of_work():
            self._books.keeper.keep_robots(origin, rules.expires_at, msgspec.msgpack.encode(rules))
            if rules.delay_s > 0:
                self._books.frontier.set_delay(host, delay_s)
            self._books.keeper.keep_events([event])
        self._untold.append(event)

    def end(self, stopped: CrawlStopped) -> None:
        """Write down why the crawl stopped, and everything learnt so far."""
        with self._books.collection.unit_of_work():
            self._save(stopped.at)
            self._books.frontier.recover(stopped.at)
            self._books.collection.set_meta(state="stopped", stop_reason=stopped.reason, stopped_at=stopped.at)
            self._books.keeper.keep_events([stopped])

    def _save(self, now: float) -> None:
        for name, learner in self._learners.items():
            self._books.keeper.keep_snapshot(name, learner.version, now, learner.snapshot())
        self._saved_at = now

    def _tested(self, outcome: Outcome) -> Outcome:
        """The content-seen test: after the fetch, before storing and before any link is followed (S0-E5)."""
        analysis, seen = outcome.analysis, self._books.seen
        if seen is None or analysis is None or not analysis.fingerprint:
            return outcome
        original = seen.original_of(outcome.lead.key, analysis.fingerprint, analysis.simhash)
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

    def _close(self, served: Served, now: float, events: list[Event]) -> bool:
        """End the lease; False: somebody else holds the host by now."""
        lease, frontier = served.lease, self._books.frontier
        if not frontier.complete(lease, served.landings, served.wake_at):
            return False
        if served.delay_s != lease.delay_s:
            frontier.set_delay(lease.host, served.delay_s)
        if served.note:
            events.append(HostBackedOff(at=now, host=lease.host, until=served.wake_at, reason=served.note))
        events += served.errors
        return True

    def _learn(self, outcomes: Sequence[Outcome], now: float, events: list[Event]) -> dict[str, bytes]:
        """Let every learner see what happened; returns the new state of those that changed."""
        changed: dict[str, bytes] = {}
        for name, learner in self._learners.items():
            before = learner.version
            if isinstance(learner, LivingTopic):
                self._grow(name, learner, outcomes, now, events)
            else:
                learner.learn(outcomes)
            if learner.version != before:
                changed[name] = learner.snapshot()
                self._books.keeper.keep_snapshot(name, learner.version, now, changed[name])
        if now - self._saved_at >= SAVE_EVERY_S:
            self._save(now)
        return changed

    def _grow(
        self, name: str, topic: LivingTopic, outcomes: Sequence[Outcome], now: float, events: list[Event]
    ) -> None:
        """Let the topic learn visit by visit, so that every version of its table is kept and told of."""
        for outcome in outcomes:
            before = topic.table
            topic.learn([outcome])
            if topic.table is before:
                continue
            # Of a version that is past only the table matters: what was counted for the next one is large.
            self._books.keeper.shrink_snapshot(name, before.version, LivingTopic(before).snapshot())
            self._books.keeper.keep_snapshot(name, topic.version, now, LivingTopic(topic.table).snapshot())
            known = {keyword.stem for keyword in before.keywords}
            added = tuple(sorted(k.label for k in topic.table.keywords if k.stem not in known))
            events.append(TopicChanged(at=now, version=topic.version, added=added, size=len(topic.table)))


def _redirected(page: Lead, target: str) -> Lead:
    """Where a redirect points, as promising as the URL it answers for."""
    return msgspec.structs.replace(
        page, url=target, key=key_of(target), host=host_of(target), hops=page.hops + 1, retries=0
    )
