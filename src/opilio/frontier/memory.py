"""The frontier in memory, for unit tests and the lab. It behaves like the one on SQLite, but ignores boosted hosts:
no user watches a replay. Nothing survives the process.

Heaps are cleaned lazily: an entry counts only while it agrees with its host or URL.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from msgspec.structs import replace

from opilio.core.protocols import AddResult, FrontierEntry, FrontierStats
from opilio.core.records import HostLease, Lead, Tier, UrlResult, UrlState
from opilio.frontier.memory_tables import HostQueue, MemoryTables, UrlEntry
from opilio.frontier.policy import (
    EXPIRED,
    FRONTIER_FULL,
    HOST_TOTAL_REACHED,
    MAX_PATIENCE_S,
    FrontierPolicy,
    MergeState,
    Patience,
    QueuePosition,
    QueueTime,
    any_url,
    finite_or_zero,
    first_position,
    merge_link,
    merged_position,
    reposition,
)

OPEN_STATES = (UrlState.QUEUED, UrlState.LEASED)


class MemoryFrontier:
    """Keeps the invariants of the `Frontier` protocol with dicts and heaps."""

    def __init__(self, policy: FrontierPolicy | None = None) -> None:
        self._policy = policy or FrontierPolicy()
        self._tables = MemoryTables(bounded=self._policy.limits.queued > 0)
        self._patience = Patience(self._policy.patience)

    def add(self, leads: Sequence[Lead], now: float) -> AddResult:
        """Offer links. Known ones are merged, new ones queued, refused ones recorded with the reason."""
        result: Counter[str] = Counter()
        refused: list[int] = []
        touched: dict[str, HostQueue] = {}
        for lead in leads:
            host = self._tables.host(lead.host)
            touched[lead.host] = host
            url = host.urls.get(lead.key)
            if url is None:
                admitted = self._admit(host, lead, now)
                result["new" if admitted else "dropped"] += 1
                if not admitted:
                    refused.append(lead.key)
            elif url.state is UrlState.QUEUED and self._merge(host, url, lead, now):
                result["promoted"] += 1
            else:
                result["known"] += 1
        for host in touched.values():
            self._tables.reschedule(host, now)
        result["dropped"] += self._enforce_limits()
        return AddResult(**result, refused=tuple(refused))

    def _admit(self, host: HostQueue, lead: Lead, now: float) -> bool:
        limit = self._policy.limits.host_total
        reason = self._policy.refusal_reason(lead) or (HOST_TOTAL_REACHED if limit and host.total >= limit else "")
        lead = replace(lead, score=finite_or_zero(lead.score))
        if reason:
            host.urls[lead.key] = url = UrlEntry(lead, 0, QueuePosition(0.0))
            url.state, url.reason = UrlState.DROPPED, reason
            self._tables.count["dropped"] += 1
            return False
        self._tables.count["inserted"] += 1
        self._tables.count["queued"] += 1
        seq = self._tables.count["inserted"]
        place = first_position(self._policy.order, lead, seq, QueueTime(seq, now))
        host.urls[lead.key] = url = UrlEntry(lead, seq, place)
        host.total += 1
        self._tables.enqueue(host, url)
        return True

    def _merge(self, host: HostQueue, url: UrlEntry, lead: Lead, now: float) -> bool:
        """Merge what another link adds; returns whether the URL's priority rose."""
        old = url.lead
        known = MergeState(old.score, old.depth, old.tunnel, old.parent, url.parents)
        after = merge_link(self._policy.merge, known, lead)
        url.times_found += 1
        url.parents = after.parents
        better = lead if after.better and (lead.features or lead.agent) else old
        merged = replace(old, score=after.score, depth=after.depth, tunnel=after.tunnel, parent=after.parent)
        url.lead = replace(merged, features=better.features, agent=better.agent)
        before = url.position
        if after.score != old.score or lead.tier > before.tier:
            moment = QueueTime(self._tables.count["inserted"], now)
            place = merged_position(self._policy.order, lead, after.score, url.seq, moment, before)
            self._tables.move(host, url, place)
        return url.position.tier > before.tier or url.position.priority > before.priority

    def _enforce_limits(self) -> int:
        limits = self._policy.limits
        excess = self._tables.count["queued"] - limits.queued
        if not limits.queued or excess <= limits.slack:
            return 0
        every = (self._tables.hosts[name].urls[key] for *_, name, key in self._tables.worst_first or ())
        queued = (url for url in every if url.state is UrlState.QUEUED)
        return self._tables.drop(list(islice(queued, excess)), FRONTIER_FULL)

    def lease(
        self, now: float, max_hosts: int, per_host: int, ttl_s: float, *, min_tier: int = Tier.LINK
    ) -> list[HostLease]:
        """The hosts that may be fetched from now, the one with the best URL first, each with its best URLs."""
        self._advance_time(now)
        floor = max(min_tier, self._min_tier(choose=True))
        room = self._policy.order.max_per_lease or max_hosts * per_host
        leases: list[HostLease] = []
        self._patience.begin(lambda: self._tables.best_waiting(now + MAX_PATIENCE_S, now + ttl_s - MAX_PATIENCE_S))
        while room > 0 and len(leases) < max_hosts and (host := self._tables.next_ready(floor)) is not None:
            if self._patience.holds_up(-host.queue[0][0], -host.queue[0][1], now):
                break
            heapq.heappop(self._tables.ready)
            leads = self._tables.lease(host, min(per_host, room), floor)
            host.ready, host.wake_at, host.token = False, now + ttl_s, host.token + 1
            self._tables.reschedule(host)
            room -= len(leads)
            delay_s = self._policy.delay_s if host.delay_s is None else host.delay_s
            leases.append(
                HostLease(host=host.name, token=host.token, expires_at=now + ttl_s, leads=leads, delay_s=delay_s)
            )
        return leases

    def renew(self, leases: Sequence[HostLease], now: float, ttl_s: float) -> set[str]:
        """Hold hosts longer, also after expiry if they were not leased again; returns those that are still held."""
        kept = set()
        for lease in leases:
            host = self._tables.hosts.get(lease.host)
            if host and host.token == lease.token and host.leased:
                host.wake_at, host.ready = now + ttl_s, False
                self._tables.reschedule(host)
                kept.add(lease.host)
        return kept

    def complete(self, lease: HostLease, results: Sequence[UrlResult], wake_at: float) -> bool:
        """End a lease. Its URLs without a result are queued as before. False: the lease was no longer held."""
        host = self._tables.hosts.get(lease.host)
        if host is None or host.token != lease.token or not host.leased:
            return False
        for result in results:
            url = host.urls.get(result.key)
            if url is None or url.state is not UrlState.LEASED:
                continue
            if result.state is UrlState.QUEUED:
                self._retry(host, url, result, wake_at)
            elif result.state is not UrlState.LEASED:
                self._tables.finish(host, url, result.state, result.reason)
        self._tables.release(host)
        host.ready, host.wake_at = False, wake_at
        self._tables.reschedule(host)
        return True

    def _retry(self, host: HostQueue, url: UrlEntry, result: UrlResult, wake_at: float) -> None:
        """Queue a retry. One that is due before the host wakes needs no timer of its own."""
        url.lead = replace(url.lead, retries=url.lead.retries + 1)
        url.state, url.reason = UrlState.QUEUED, result.reason
        self._tables.count["leased"] -= 1
        self._tables.count["queued"] += 1
        if result.retry_at > wake_at:
            self._tables.dequeue(host, url)
            url.retry_at = result.retry_at
            host.waiting += 1
            heapq.heappush(self._tables.retries, (result.retry_at, host.name, url.lead.key))

    def set_delay(self, host: str, delay_s: float) -> None:
        """Set the delay of a host (Crawl-delay, back-off): returned with its leases, used by `recover`."""
        self._tables.host(host).delay_s = delay_s

    def drop_host(self, host: str, reason: str, matches: Callable[[str], bool] = any_url) -> int:
        """Drop URLs queued at a host that match, except those in flight."""
        known = self._tables.hosts.get(host)
        if known is None:
            return 0
        return self._tables.drop([url for url in known.urls.values() if matches(url.lead.url)], reason)

    def drop_refused(self, refusal_reason: Callable[[str], str]) -> int:
        """Drop queued URLs for which there is a reason; how many."""
        urls = [url for host in self._tables.hosts.values() for url in host.urls.values()]
        return sum(self._tables.drop([url], reason) for url in urls if (reason := refusal_reason(url.lead.url)))

    def reopen_host(self, host: str, reason: str, now: float) -> int:
        """Wake a host that can be reached again, and queue its URLs that were dropped for this reason; how many."""
        known = self._tables.hosts.get(host)
        if known is None:
            return 0
        dropped = known.find_dropped(reason)
        for url in dropped:
            self._tables.requeue(known, url, url.position)
        if not known.leased:
            known.wake_at = now
        self._tables.reschedule(known, now)
        return len(dropped)

    def readmit(self, host: str, reason: str, limit: int, now: float) -> list[int]:
        """Queue the best URLs again that were dropped at a host for this reason; returns their keys."""
        known = self._tables.hosts.get(host)
        if known is None:
            return []
        dropped = known.find_dropped(reason)[:limit]
        for url in dropped:
            self._tables.count["inserted"] += not url.seq
            url.seq = url.seq or self._tables.count["inserted"]
            moment = QueueTime(self._tables.count["inserted"], now)
            self._tables.requeue(known, url, self._policy.order.position(url.lead.score, url.seq, moment))
        self._tables.reschedule(known, now)
        return [url.lead.key for url in dropped]

    def rescore(self, scores: Iterable[tuple[str, int, float]]) -> int:
        """New scores, higher or lower, for URLs that are queued and not in flight; how many changed."""
        moment = QueueTime(self._tables.count["inserted"])
        changed = set()
        for name, key, score in {(n, k): (n, k, finite_or_zero(s)) for n, k, s in scores}.values():
            host = self._tables.hosts.get(name)
            url = None if host is None else host.urls.get(key)
            if host is None or url is None or url.state is not UrlState.QUEUED or url.lead.score == score:
                continue
            url.lead = replace(url.lead, score=score)
            self._tables.move(host, url, reposition(self._policy.order, score, url.seq, moment, url.position))
            self._tables.reschedule(host)
            changed.add((name, key))
        return len(changed)

    def revive(self, urls: Sequence[tuple[str, int]], urgency: float = 1.0) -> int:
        """Queue known (host, key) URLs in front of all others, done and failed ones once more; how many are queued."""
        revived = 0
        for name, key in urls:
            host = self._tables.hosts.get(name)
            url = None if host is None else host.urls.get(key)
            if host is not None and url is not None and self._requeue(host, url, urgency):
                self._tables.reschedule(host)
                revived += 1
        return revived

    def _requeue(self, host: HostQueue, url: UrlEntry, urgency: float) -> bool:
        place = QueuePosition(urgency, tier=Tier.REVISIT)
        if url.state is UrlState.QUEUED and url.retry_at is None:
            self._tables.move(host, url, place)
            return True
        if url.state not in (UrlState.DONE, UrlState.FAILED):
            return False
        url.lead = replace(url.lead, retries=0)
        self._tables.requeue(host, url, place)
        return True

    def boost(self, urls: Sequence[tuple[str, int]]) -> int:
        """Move queued (host, key) URLs in front of all but revisits; how many moved."""
        boosted = 0
        for name, key in urls:
            host = self._tables.hosts.get(name)
            url = None if host is None else host.urls.get(key)
            if host is None or url is None or url.state is not UrlState.QUEUED or url.position.tier >= Tier.BOOSTED:
                continue
            timer = url.position.timer if self._policy.order.drops_expired else None
            self._tables.move(host, url, QueuePosition(url.lead.score, timer, Tier.BOOSTED))
            self._tables.reschedule(host)
            boosted += 1
        return boosted

    def best(self, limit: int) -> list[FrontierEntry]:
        """The best queued URLs that may be fetched as soon as their hosts may."""
        return [self._to_entry(url) for url in islice(self._tables.iter_best_first(), limit)]

    def wakes_at(self) -> float | None:
        """When `lease` may return something again: 0 for now, None when nothing is queued."""
        tables, floor = self._tables, self._min_tier(choose=False)
        if floor == Tier.LINK:
            asleep = self._patience.held_until if tables.next_ready(floor) else tables.next_wake()
        else:
            # An N-best batch: only hosts that have something of it count.
            chosen = [host for host in tables.hosts.values() if host.queue and -host.queue[0][0] >= floor]
            asleep = min((0.0 if host.ready else host.wake_at for host in chosen), default=None)
        return min((t for t in (asleep, tables.next_retry()) if t is not None), default=None)

    def entry(self, host: str, key: int) -> FrontierEntry | None:
        """Everything known about one URL."""
        known = self._tables.hosts.get(host)
        url = None if known is None else known.urls.get(key)
        return None if url is None else self._to_entry(url)

    def _to_entry(self, url: UrlEntry) -> FrontierEntry:
        return FrontierEntry(
            lead=replace(url.lead, tier=url.position.tier),
            state=url.state,
            priority=self._policy.order.display_priority(url.position.priority, self._tables.count["inserted"]),
            reason=url.reason,
            parents=url.parents,
            times_found=url.times_found,
            seq=url.seq,
        )

    def stats(self) -> FrontierStats:
        """The counters."""
        states = {state.value: self._tables.count[state.value] for state in UrlState}
        return FrontierStats(**states, hosts=len(self._tables.hosts), cache_hit_rate=1.0)

    def recover(self, now: float) -> int:
        """On start: requeue URLs that were in flight, and delay their hosts as if just fetched from."""
        returned = self._tables.count["leased"]
        for host in self._tables.hosts.values():
            if host.leased:
                self._tables.release(host)
                delay_s = self._policy.delay_s if host.delay_s is None else host.delay_s
                host.ready, host.wake_at, host.token = False, now + delay_s, host.token + 1
                self._tables.reschedule(host)
        return returned

    def _advance_time(self, now: float) -> None:
        """Process what is due: retries, the order's timers, sleeping hosts."""
        while (at := self._tables.next_retry()) is not None and at <= now:
            _, name, key = heapq.heappop(self._tables.retries)
            host = self._tables.hosts[name]
            host.urls[key].retry_at = None
            host.waiting -= 1
            self._tables.enqueue(host, host.urls[key])
            self._tables.reschedule(host)
        tick = self._policy.order.due_before(QueueTime(self._tables.count["inserted"], now))
        if tick is not None:
            self._run_timers(tick)
        while (at := self._tables.next_wake()) is not None and at <= now:
            _, name = heapq.heappop(self._tables.sleeping)
            self._tables.reschedule(self._tables.hosts[name], now)

    def _run_timers(self, tick: float) -> None:
        """Delete what has expired (S3-28), or move what has aged enough (S2-E5)."""
        flying = []
        moment = QueueTime(self._tables.count["inserted"])
        while self._tables.timers and self._tables.timers[0][0] <= tick:
            timer, seq, name, key = heapq.heappop(self._tables.timers)
            host = self._tables.hosts[name]
            url = host.urls[key]
            if url.position.timer != timer or url.state not in OPEN_STATES:
                continue
            if not self._policy.order.drops_expired:
                place = reposition(self._policy.order, url.lead.score, url.seq, moment, url.position)
                self._tables.move(host, url, place)
                self._tables.reschedule(host)
            elif url.state is UrlState.LEASED:
                flying.append((timer, seq, name, key))
            else:
                self._tables.drop([url], EXPIRED)
        for entry in flying:
            heapq.heappush(self._tables.timers, entry)

    def _min_tier(self, *, choose: bool) -> int:
        """The lowest tier that may be leased: an N-best batch is finished before the next is chosen."""
        batch = self._policy.order.batch_size
        if not batch:
            return Tier.LINK
        if any(host.queue and -host.queue[0][0] >= Tier.FIRST for host in self._tables.hosts.values()):
            return Tier.FIRST
        if not choose:
            return Tier.LINK
        for url in list(islice(self._tables.iter_best_first(), batch)):
            host = self._tables.hosts[url.lead.host]
            self._tables.move(host, url, QueuePosition(url.position.priority, tier=Tier.FIRST))
            self._tables.reschedule(host)
        return Tier.FIRST
