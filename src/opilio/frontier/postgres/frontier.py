"""The frontier on PostgreSQL, shared by any number of workers. It keeps nothing in memory but the latest time.

A lease is one update of a host's row: SKIP LOCKED lets workers pass each other, the host with the best URL comes first,
and the token fences a holder whose lease went to another. It executes statements on the connection it is given and
never begins or commits: the caller does.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from opilio.core.protocols import AddResult, Database, Frontier, FrontierEntry, FrontierStats
from opilio.core.records import HostLease, Lead, Tier, UrlResult, UrlState
from opilio.frontier.link_batch import CachedUrl
from opilio.frontier.policy import (
    EXPIRED,
    FRONTIER_FULL,
    MAX_PATIENCE_S,
    FrontierPolicy,
    Patience,
    QueueTime,
    any_url,
    finite_or_zero,
    reposition,
)
from opilio.frontier.postgres.queue import FrontierRows, PostgresAdder, PostgresQueue
from opilio.frontier.postgres.tables import Grant, LockedHost, UrlChange
from opilio.frontier.schema import (
    DONE,
    DROPPED,
    FAILED,
    FINAL_STATE_CODES,
    QUEUED,
    WAITING,
    rebuild_postgres_counters,
    unpack_keys,
)
from opilio.frontier.sqlite.claims import ClaimableFrontier
from opilio.frontier.sqlite.hosts import MIN_PARK_S
from opilio.frontier.sqlite.queries import rebuild_sqlite_counters, refused_urls, requeue_dropped
from opilio.frontier.sqlite.urls import UrlTable

# A lease, its results, when the host wakes.
_Completed = tuple[HostLease, Sequence[UrlResult], float]


class PostgresFrontier:
    """Keeps the invariants of the `Frontier` protocol. The tables must exist (`create_postgres_frontier`)."""

    def __init__(self, db: Database, policy: FrontierPolicy | None = None) -> None:
        self._policy = policy or FrontierPolicy()
        self._order = self._policy.order
        self._db = db
        self._rows = FrontierRows.of(db)
        self._queue = PostgresQueue(db)
        self._dropped = UrlTable(db)
        self._latest_time = 0.0
        self._patience = Patience(self._policy.patience)

    def set_time(self, now: float) -> None:
        """Say what time it is, where no lease did: `complete` parks hosts that sleep long."""
        self._latest_time = max(self._latest_time, now)

    def add(self, leads: Sequence[Lead], now: float) -> AddResult:
        """Offer links. Known ones are merged, new ones queued, refused ones recorded with the reason."""
        if not leads:
            return AddResult()
        added = PostgresAdder(self._rows, self._policy, now).add(leads)
        dropped = self._enforce_limits()
        return msgspec.structs.replace(added, dropped=added.dropped + dropped) if dropped else added

    def lease(
        self, now: float, max_hosts: int, per_host: int, ttl_s: float, *, min_tier: int = Tier.LINK
    ) -> list[HostLease]:
        """The hosts that may be fetched from now, the one with the best URL first, each with its best URLs."""
        self._latest_time = max(self._latest_time, now)
        self._advance_time(now)
        batch_tier = max(min_tier, self._min_tier())
        room = self._order.max_per_lease or max_hosts * per_host
        leases, grants, formerly = list[HostLease](), list[Grant](), 0
        waiting = self._rows.hosts.best_waiting
        self._patience.begin(lambda: waiting(now, now + MAX_PATIENCE_S, now + ttl_s - MAX_PATIENCE_S))
        for (id_, name, delay_s, token, keys, tier, best), leads in self._ready_hosts(
            now, max_hosts, per_host, min_tier, batch_tier
        ):
            if room <= 0 or len(leases) == max_hosts:
                break
            if name not in self._policy.boosted and self._patience.holds_up(tier, best, now):
                break
            leads = leads[:room]
            room -= len(leads)
            formerly += len(unpack_keys(keys))
            grants.append(Grant(id_, token + 1, now + ttl_s, [lead.key for lead in leads]))
            pause_s = self._policy.delay_s if delay_s is None else delay_s
            leases.append(
                HostLease(host=name, token=token + 1, expires_at=now + ttl_s, leads=tuple(leads), delay_s=pause_s)
            )
        if grants:
            self._rows.hosts.grant(grants)
            change = sum(len(grant.keys) for grant in grants) - formerly
            self._rows.counts.add(leased=change, queued=-change)
        return leases

    def _ready_hosts(
        self, now: float, limit: int, per_host: int, min_tier: int, batch_tier: int
    ) -> Iterator[tuple[tuple[int, str, float | None, int, bytes | None, int, float], list[Lead]]]:
        """Awake hosts with their best URLs; boosted hosts first, whatever batch is open."""
        ready, boosted = self._rows.hosts.ready, tuple(self._policy.boosted)
        if boosted:
            hosts = ready(now, limit, min_tier, boosted)
            yield from zip(hosts, self._queue.best_of_hosts(hosts, per_host, min_tier), strict=True)
        hosts = [host for host in ready(now, limit + len(boosted), batch_tier) if host[1] not in boosted]
        yield from zip(hosts, self._queue.best_of_hosts(hosts, per_host, batch_tier), strict=True)

    def renew(self, leases: Sequence[HostLease], now: float, ttl_s: float) -> set[str]:
        """Hold hosts longer, also after expiry if they were not leased again; returns those that are still held."""
        if not leases:
            return set()
        self._rows.hosts.lock([lease.host for lease in leases])
        names, tokens = [lease.host for lease in leases], [lease.token for lease in leases]
        return self._rows.hosts.renew(names, tokens, now + ttl_s)

    def complete(self, lease: HostLease, results: Sequence[UrlResult], wake_at: float) -> bool:
        """End a lease. Its URLs without a result are queued as before. False: the lease was no longer held."""
        return bool(self.complete_all([(lease, results, wake_at)]))

    def complete_all(self, completed: Sequence[_Completed]) -> set[str]:
        """End several leases at once; returns the hosts whose leases were still held."""
        hosts = self._rows.hosts.lock(lease.host for lease, *_ in completed)
        changes, ended, counts = list[UrlChange](), list[tuple[int, int, float, bool]](), Counter[str]()
        kept = set()
        for lease, results, wake_at in completed:
            host = hosts.get(lease.host)
            if host is None or not host.leased or host.token != lease.token:
                continue
            kept.add(lease.host)
            own = [_change(host, result, wake_at) for result in _landed(host, results)]
            settled = Counter(change.state for change in own if change.state > WAITING)
            changes += own
            ended.append((host.id, settled.total(), wake_at, wake_at > self._latest_time + MIN_PARK_S))
            counts.update(done=settled[DONE], failed=settled[FAILED], dropped=settled[DROPPED])
            counts.update(leased=-len(host.keys), queued=len(host.keys) - settled.total())
        if kept:
            self._rows.urls.change(changes)
            self._rows.hosts.release(ended)
            self._rows.counts.add(**counts)
        return kept

    def set_delay(self, host: str, delay_s: float) -> None:
        """The pause a host asks for (Crawl-delay, back-off): handed out with its leases, used by `recover`."""
        self._rows.counts.add(hosts=len(self._rows.hosts.insert([host])))
        self._queue.set_delay(host, delay_s)

    def drop_host(self, host: str, reason: str, matches: Callable[[str], bool] = any_url) -> int:
        """Drop what is queued at a host with an address that `matches`, but for what is in flight."""
        locked = self._rows.hosts.lock([host]).get(host)
        if locked is None:
            return 0
        return self._drop([(locked.id, key) for key, url in self._queue.unfinished(locked.id) if matches(url)], reason)

    def drop_refused(self, refusal_reason: Callable[[str], str]) -> int:
        """Drop queued URLs for which there is a reason; how many."""
        refused = refused_urls(self._db, refusal_reason)
        return sum(self._drop(pairs, reason) for reason, pairs in refused.items())

    def reopen_host(self, host: str, reason: str, now: float) -> int:
        """Wake a host that can be reached again, and queue its URLs that were dropped for this reason; how many."""
        locked = self._rows.hosts.lock([host]).get(host)
        if locked is None:
            return 0
        back = len(requeue_dropped(self._db, locked.id, reason))
        if locked.leased:
            self._rows.hosts.refresh([(locked.id, -back, 0)])
        else:
            self._rows.hosts.release([(locked.id, -back, now, False)])
        self._rows.counts.add(queued=back, dropped=-back)
        return back

    def readmit(self, host: str, reason: str, limit: int, now: float) -> list[int]:
        """Queue the best URLs again that were dropped at a host for this reason; returns their keys."""
        locked = self._rows.hosts.lock([host]).get(host)
        found = self._dropped.dropped(locked.id, reason, limit) if locked is not None else []
        if locked is None or not found:
            return []
        inserted = self._rows.counts.inserted(lock=True)
        for key, seq, score in found:
            inserted += not seq
            seq = seq or inserted
            self._dropped.readmit(seq, self._order.position(score, seq, QueueTime(inserted, now)), locked.id, key)
        self._rows.counts.set_inserted(inserted)
        self._rows.hosts.refresh([(locked.id, -len(found), 0)])
        self._rows.counts.add(queued=len(found), dropped=-len(found))
        return [key for key, *_ in found]

    def rescore(self, scores: Iterable[tuple[str, int, float]]) -> int:
        """New scores, higher or lower, for URLs that are queued and not in flight; how many changed."""
        wanted = {(name, key): finite_or_zero(score) for name, key, score in scores}
        if not wanted:
            return 0
        moment = QueueTime(self._rows.counts.inserted())
        rows = []
        for (name, key), known in self._load_unleased(wanted):
            score = wanted[name, key]
            if known.score != score:
                place = reposition(self._order, score, known.seq, moment, known.position)
                rows.append((score, *place, known.host_id, key))
        self._move(rows)
        return len(rows)

    def _load_unleased(self, urls: Iterable[tuple[str, int]]) -> Iterator[tuple[tuple[str, int], CachedUrl]]:
        """Those (host, key) URLs that are queued and not in flight; their hosts are locked."""
        wanted = list(urls)
        hosts = self._rows.hosts.lock(name for name, _ in wanted)
        pairs = {(hosts[name].id, key): name for name, key in wanted if name in hosts and key not in hosts[name].keys}
        for key, known in self._rows.urls.load(sorted(pairs)).items():
            if known is not None:
                yield (pairs[known.host_id, key], key), known

    def revive(self, urls: Sequence[tuple[str, int]], urgency: float = 1.0) -> int:
        """Queue known (host, key) URLs in front of all others, done and failed ones once more; how many are queued."""
        hosts = self._rows.hosts.lock(name for name, _ in urls)
        pairs = [(hosts[name].id, key) for name, key in urls if name in hosts and key not in hosts[name].keys]
        if not pairs:
            return 0
        revived = self._rows.urls.revive(pairs, urgency, Tier.REVISIT)
        was = Counter(state for *_, state in revived)
        came = Counter({id_: 0 for id_, *_ in revived})
        came.update(id_ for id_, _, state in revived if state != QUEUED)
        self._rows.hosts.refresh((id_, -count, 0) for id_, count in came.items())
        self._rows.counts.add(done=-was[DONE], failed=-was[FAILED], queued=was[DONE] + was[FAILED])
        return len(revived)

    def boost(self, urls: Sequence[tuple[str, int]]) -> int:
        """Move queued (host, key) URLs in front of all but revisits; how many moved."""
        rows: list[tuple[float, float, float | None, int, int, int]] = []
        for (_, key), known in self._load_unleased(urls):
            if known.tier < Tier.BOOSTED:
                timer = known.timer if self._order.drops_expired else None
                rows.append((known.score, known.score, timer, Tier.BOOSTED, known.host_id, key))
        self._move(rows)
        return len(rows)

    def best(self, limit: int) -> list[FrontierEntry]:
        """The best queued URLs that may be fetched as soon as their hosts may."""
        inserted = self._rows.counts.inserted()
        return [self._displayed(entry, inserted) for _, entry in self._queue.best(limit)]

    def wakes_at(self) -> float | None:
        """When `lease` may return something again: 0 for now, None when nothing is queued."""
        at = self._queue.wakes_at(self._latest_time, batch=self._order.batch_size > 0)
        return self._patience.held_until if at == 0.0 else at

    def entry(self, host: str, key: int) -> FrontierEntry | None:
        """Everything known about one URL."""
        found = self._queue.entry(host, key)
        return None if found is None else self._displayed(found, self._rows.counts.inserted())

    def stats(self) -> FrontierStats:
        """The counters; no URL rows are counted."""
        return FrontierStats(**self._rows.counts.read())

    def recover(self, now: float) -> int:
        """Requeue all URLs in flight, and delay their hosts as if just fetched from. For a crawl without workers."""
        returned = self._rows.counts.read()["leased"]
        self._rows.hosts.release_all(now, self._policy.delay_s)
        self._rows.counts.add(leased=-returned, queued=returned)
        return returned

    def _displayed(self, entry: FrontierEntry, inserted: int) -> FrontierEntry:
        return msgspec.structs.replace(entry, priority=self._order.display_priority(entry.priority, inserted))

    def _advance_time(self, now: float) -> None:
        """Process what is due: retries, the order's timers, sleeping hosts."""
        rows = self._rows
        due = rows.urls.due_retries(now)
        if due:
            free = rows.hosts.lock_ids((id_ for id_, _ in due), skip=True)
            rows.urls.wake([pair for pair in due if pair[0] in free])
            rows.hosts.refresh((id_, 0, 0) for id_ in free)
        if self._order.due_before(QueueTime(0, now)) is not None:
            self._run_timers(now)
        rows.hosts.unpark(now)

    def _run_timers(self, now: float) -> None:
        """Delete what has expired (S3-28), or move what has aged enough (S2-E5)."""
        inserted = self._rows.counts.inserted()
        tick = self._order.due_before(QueueTime(inserted, now))
        due = [] if tick is None else self._queue.timers_due(tick)
        if self._order.drops_expired:
            self._drop([(id_, key) for id_, key, *_ in due], EXPIRED)
            return
        self._rows.hosts.lock_ids(id_ for id_, *_ in due)
        moment = QueueTime(inserted)
        self._move(
            [
                (score, *reposition(self._order, score, seq, moment, place), id_, key)
                for id_, key, seq, score, place in due
            ]
        )

    def _min_tier(self) -> int:
        """The lowest tier that may be leased: an N-best batch is finished before the next is chosen."""
        if not self._order.batch_size:
            return Tier.LINK
        if not self._queue.has_tier(Tier.FIRST):
            best = list(self._queue.best(self._order.batch_size))
            self._rows.hosts.lock_ids(id_ for id_, _ in best)
            self._move([(e.lead.score, e.priority, None, Tier.FIRST, id_, e.lead.key) for id_, e in best])
        return Tier.FIRST

    def _move(self, rows: list[tuple[float, float, float | None, int, int, int]]) -> None:
        """Write new positions (score, priority, timer, tier, host id, key) of locked hosts."""
        if rows:
            self._rows.urls.reposition(rows)
            self._rows.hosts.refresh((id_, 0, 0) for id_ in {row[4] for row in rows})

    def _enforce_limits(self) -> int:
        """Drop the lowest entries that are over the limit; returns the number of URLs."""
        limits = self._policy.limits
        if not limits.queued:
            return 0
        counts = self._rows.counts.read()
        excess = counts["queued"] - limits.queued
        if excess <= limits.slack:
            return 0
        return self._drop(self._queue.worst(excess + counts["leased"]), FRONTIER_FULL, excess)

    def _drop(self, pairs: Sequence[tuple[int, int]], reason: str, most: int | None = None) -> int:
        """Drop queued (host id, key) URLs, but for those in flight; `most`: no more than this."""
        hosts = self._rows.hosts.lock_ids(id_ for id_, _ in pairs)
        free = [(id_, key) for id_, key in pairs if key not in hosts[id_].keys][:most]
        self._rows.urls.change([UrlChange(id_, key, DROPPED, reason) for id_, key in free])
        self._rows.hosts.refresh((id_, count, 0) for id_, count in Counter(id_ for id_, _ in free).items())
        self._rows.counts.add(queued=-len(free), dropped=len(free))
        return len(free)


def _landed(host: LockedHost, results: Sequence[UrlResult]) -> Iterable[UrlResult]:
    """The results of URLs that the lease handed out, the first of each."""
    return {result.key: result for result in reversed(results) if _counts(host, result)}.values()


def _counts(host: LockedHost, result: UrlResult) -> bool:
    return result.key in host.keys and (result.state in FINAL_STATE_CODES or result.state is UrlState.QUEUED)


def _change(host: LockedHost, result: UrlResult, wake_at: float) -> UrlChange:
    """The new state of a URL. A retry that is due before the host wakes needs no timer of its own."""
    state, reason = FINAL_STATE_CODES.get(result.state), result.reason or None
    if state is not None:
        return UrlChange(host.id, result.key, state, reason)
    later = result.retry_at > wake_at
    retry_at = result.retry_at if later else None
    return UrlChange(host.id, result.key, WAITING if later else QUEUED, reason, retry_at, tried=1)


def open_frontier(db: Database, policy: FrontierPolicy | None = None) -> Frontier:
    """The frontier of a collection; the default policy is for readers, and for commands that queue URLs."""
    return ClaimableFrontier(db, policy) if isinstance(db, sqlite3.Connection) else PostgresFrontier(db, policy)


def rebuild_counters(db: Database) -> None:
    """Compute counters and the best URL of each host from the rows, and end all leases."""
    (rebuild_sqlite_counters if isinstance(db, sqlite3.Connection) else rebuild_postgres_counters)(db)
