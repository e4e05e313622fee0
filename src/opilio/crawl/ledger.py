"""The unit of work is one commit: what a batch of served leases changed, written in one transaction.

What is in the database has happened; what is not has not: a kill at any moment loses no URL, stores no page twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from opilio.crawl.again import Again
from opilio.crawl.chooser import Chooser
from opilio.crawl.labels import Labels
from opilio.crawl.learning import Learning
from opilio.crawl.revisits import Revisits
from opilio.crawl.trapwatch import TrapWatch
from opilio.crawl.visit import Bounds, Served
from opilio.fetch.robots import Rules
from opilio.frontier.order import seed_score
from opilio.model.events import BatchCommitted, CrawlStopped, Event, HostBackedOff, RobotsRead
from opilio.model.protocols import ContentSeen, Frontier
from opilio.model.records import Fate, HostLease, Lead, Outcome, key_of
from opilio.model.urls import host_of
from opilio.store.collection import Collection
from opilio.store.keeper import Keeper


@dataclass(frozen=True, slots=True)
class Books:
    """What a commit writes to."""

    collection: Collection
    keeper: Keeper
    frontier: Frontier
    seen: ContentSeen | None
    traps: TrapWatch
    again: Again
    revisits: Revisits | None = None  # where pages are to be looked at again


class Ledger:
    """Commits served leases and tells what happened."""

    def __init__(
        self,
        books: Books,
        learning: Learning,
        chooser: Chooser,
        bounds: Bounds,
        publish: Callable[[str, bytes], None],
    ) -> None:
        self._books = books
        self._learning = learning
        self._chooser = chooser
        self._labels = Labels(books.collection, books.keeper, books.frontier, learning, chooser)
        self._bounds = bounds
        self._publish = publish
        self._noted: dict[str, float] = {}  # figures for whoever looks on, as they were written last
        self._untold: list[Event] = []  # kept already, told with the next batch

    def commit(self, batch: Sequence[Served], now: float) -> list[Event]:
        """Write everything these visits changed, or nothing. A visit that lost its lease has not happened."""
        books, events = self._books, list[Event]()
        with books.collection.unit_of_work():
            known = books.again.sift(batch, now)
            held = [served for served in batch if self._close(served, now, events)]
            outcomes = [books.again.fated(self._tested(o), known, now) for served in held for o in served.outcomes]
            outcomes = self._labels.heed(outcomes, now)
            books.keeper.keep(outcomes)
            new = [outcome for outcome in outcomes if outcome.fate is Fate.NEW] if known else outcomes
            self._chooser.watch(new)
            offers = self._offers(outcomes)
            events += books.again.note(outcomes, offers, known, held, now)
            added = books.frontier.add([lead for leads in offers for lead in leads], now)
            if added.refused:
                self._chooser.pass_over(added.refused)
            if books.revisits is not None:
                books.revisits.count(len(outcomes), len(outcomes) - len(new))
                if books.revisits.announcements is not None:
                    books.frontier.add(books.revisits.announcements.take(outcomes, now), now)
            events += self._labels.take(now)
            books.frontier.rescore(self._chooser.changes())
            self._chooser.save(now)
            self._learning.learn(new, now, events)
            changed = self._learning.keep(now)
            expected = self._foresee()
            events += books.traps.news(now)
            books.keeper.keep_events(events)
            books.keeper.sync(now)
        for name, state in changed.items():
            self._publish(name, state)
        told, self._untold = [*self._untold, *events], []
        queued = books.frontier.stats().queued
        return [*told, BatchCommitted(at=now, outcomes=tuple(outcomes), queued=queued, expected=expected)]

    def _foresee(self) -> float | None:
        """How many relevant pages the queue still holds, where the ranker can tell: never more than wait, for it
        reckons anew only now and then.

        It is noted for whoever looks on, with how often the URL-seen test was spared the disk (S4-21).
        """
        expected, stats = self._chooser.expected, self._books.frontier.stats()
        figures = {"front_hit_rate": round(stats.front_hit_rate, 2)}
        if expected is not None:
            expected = min(expected, float(stats.queued + stats.leased))
            figures["expected_relevant"] = round(expected, 2)
        if figures != self._noted:
            self._books.collection.set_meta(**figures)
            self._noted = figures
        return expected

    def lease(self, now: float, hosts: int, per_host: int, ttl_s: float) -> list[HostLease]:
        """Take the best hosts that may be asked now; on disk before anybody asks them."""
        frontier, revisits = self._books.frontier, self._books.revisits
        with self._books.collection.unit_of_work():
            if revisits is None:
                return frontier.lease(now, hosts, per_host, ttl_s)
            revisits.feed(now, hosts * per_host)
            return frontier.lease(now, hosts, per_host, ttl_s, above=revisits.above)

    def wakes_at(self, now: float) -> float | None:
        """When there may be something to ask for again: a host wakes, or a page is due to be looked at."""
        revisits, wakes_at = self._books.revisits, self._books.frontier.wakes_at()
        due_at = revisits.wakes_at(now) if revisits is not None and revisits.continuous else None
        if due_at is None:
            return wakes_at
        due_at = max(due_at, now + 1.0)  # what was due this moment has just been tried
        return due_at if wakes_at is None else min(wakes_at, due_at)

    @property
    def continuous(self) -> bool:
        """Does the crawl go on until somebody stops it?"""
        return self._books.revisits is not None and self._books.revisits.continuous

    def over(self, now: float) -> str:
        """Why nobody will ask for more: no agent is left, or all that was due was looked at again; or nothing."""
        revisits = self._books.revisits
        return self._learning.finished or (revisits.over(now) if revisits is not None else "")

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
            if self._books.revisits is not None and self._books.revisits.announcements is not None:
                self._books.revisits.announcements.note(rules.sitemaps, host, "sitemap")
            if rules.delay_s > 0:
                self._books.frontier.set_delay(host, delay_s)
            self._books.keeper.keep_events([event])
        self._untold.append(event)

    def end(self, stopped: CrawlStopped) -> None:
        """Write down why the crawl stopped, and everything learnt so far."""
        with self._books.collection.unit_of_work():
            labelled = self._labels.take(stopped.at)
            self._books.frontier.rescore(self._chooser.changes())
            self._learning.keep(stopped.at)
            self._learning.save(stopped.at)
            self._chooser.save(stopped.at, at_end=True)
            self._foresee()
            self._books.frontier.recover(stopped.at)
            self._books.collection.set_meta(state="stopped", stop_reason=stopped.reason, stopped_at=stopped.at)
            self._books.keeper.keep_events([*labelled, stopped])
            self._books.keeper.sync(stopped.at, at_once=True)

    def _tested(self, outcome: Outcome) -> Outcome:
        """The content-seen test: after the fetch, before storing and before any link is followed (S0-E5)."""
        analysis, seen = outcome.analysis, self._books.seen
        if seen is None or analysis is None or not analysis.fingerprint or analysis.failure is not None:
            return outcome
        original = seen.original_of(outcome.lead.key, analysis.fingerprint, analysis.simhash)
        if original is None:
            return outcome
        return msgspec.structs.replace(outcome, duplicate_of=original[0], near_duplicate=original[1])

    def _offers(self, outcomes: Sequence[Outcome]) -> list[list[Lead]]:
        """What each outcome leads to: where it is now, or its links."""
        elsewhere = [self._elsewhere(outcome) for outcome in outcomes]
        pages = [o for o, leads in zip(outcomes, elsewhere, strict=True) if leads is None]
        found = iter(self._chooser.leads(pages))
        return [next(found) if leads is None else leads for leads in elsewhere]

    def _elsewhere(self, outcome: Outcome) -> list[Lead] | None:
        """Where an answer that is no page, or none whose links are followed, leads; None for all others."""
        page, bounds = outcome.lead, self._bounds
        target = outcome.fetched.location
        if outcome.fate is Fate.MOVED:  # where it is now is asked for soon, also where it was known before
            moved = msgspec.structs.replace(_redirected(page, target), hops=1, score=seed_score(3))
            return [moved, msgspec.structs.replace(moved, again=1.0)]
        if target:
            return [_redirected(page, target)] if page.hops < bounds.hops else []
        if outcome.duplicate_of or (bounds.max_depth and page.depth >= bounds.max_depth):
            return []
        return None

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


def _redirected(page: Lead, target: str) -> Lead:
    """Where a redirect points, as promising as the URL it answers for."""
    return msgspec.structs.replace(
        page, url=target, key=key_of(target), host=host_of(target), hops=page.hops + 1, retries=0
    )
