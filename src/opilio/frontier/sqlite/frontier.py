"""The frontier on SQLite: the one a crawl uses. Everything is found by an index; nothing is ever scanned.

It executes statements on a connection it is given and never begins or commits: the store does, so that one visit is
one transaction. If that is rolled back, the frontier notices at its next call and forgets what it had in memory.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from opilio.core.protocols import AddResult, Database, FrontierEntry, FrontierStats
from opilio.core.records import HostLease, Lead, Tier, UrlResult, UrlState
from opilio.frontier.policy import (
    EXPIRED,
    MAX_PATIENCE_S,
    FrontierPolicy,
    Patience,
    QueueTime,
    any_url,
    finite_or_zero,
    reposition,
)
from opilio.frontier.schema import DONE, FAILED, FINAL_STATE_CODES, QUEUED
from opilio.frontier.sqlite.add import BatchAdder, FrontierTables, UrlCache
from opilio.frontier.sqlite.hosts import FrontierCounters, HostTable, LeaseTable
from opilio.frontier.sqlite.queries import refused_urls, requeue_dropped
from opilio.frontier.sqlite.urls import QueueReader, UrlTable


class SqliteFrontier:
    """Keeps the invariants of the `Frontier` protocol on disk. The tables must exist (`create_frontier_tables`).

    `front_size` bounds the URLs cached in memory (about 400 bytes each), `host_cache` the hosts.
    """

    def __init__(
        self,
        connection: Database,
        policy: FrontierPolicy | None = None,
        *,
        front_size: int = 100_000,
        host_cache: int = 50_000,
    ) -> None:
        self._policy = policy or FrontierPolicy()
        self._order = self._policy.order
        self._patience = Patience(self._policy.patience)
        self._tables = FrontierTables(
            UrlTable(connection),
            QueueReader(connection),
            HostTable(connection, host_cache),
            LeaseTable(connection),
            UrlCache(front_size),
            FrontierCounters(connection),
        )

    def add(self, leads: Sequence[Lead], now: float) -> AddResult:
        """Offer links. Known ones are merged, new ones queued, refused ones recorded with the reason."""
        if not leads:
            return AddResult()
        tables = self._current_tables()
        added = BatchAdder(tables, self._policy, now).add(leads)
        tables.urls.write_pending(tables.cache.rotate())
        tables.counters.write()
        return added

    def lease(
        self, now: float, max_hosts: int, per_host: int, ttl_s: float, *, min_tier: int = Tier.LINK
    ) -> list[HostLease]:
        """The hosts that may be fetched from now, the one with the best URL first, each with its best URLs."""
        tables = self._current_tables()
        changed = self._advance_time(now)
        batch_tier = max(min_tier, self._min_tier())
        room = self._order.max_per_lease or max_hosts * per_host
        # It grows with every change, so no token is given twice.
        token = tables.counters.generation + 1
        leases: list[HostLease] = []
        grants = []
        self._patience.begin(lambda: tables.best_waiting(now + MAX_PATIENCE_S, now + ttl_s - MAX_PATIENCE_S))
        for id_, name, delay_s, tier, best, lowest in self._ready_hosts(
            now, max_hosts + len(tables.leases.by_host), min_tier, batch_tier
        ):
            if tables.leases.is_leased(id_, now):
                continue
            if name not in self._policy.boosted and self._patience.holds_up(tier, best, now):
                break
            leads = tables.queue.best_of_host(id_, name, min(per_host, room), lowest)
            room -= len(leads)
            tables.counters.move_to_leased(len(leads) - len(tables.leases.leased_keys(id_)))
            grants.append((id_, token, now + ttl_s, [lead.key for lead in leads]))
            pause_s = self._policy.delay_s if delay_s is None else delay_s
            leases.append(
                HostLease(host=name, token=token, expires_at=now + ttl_s, leads=tuple(leads), delay_s=pause_s)
            )
            if room <= 0 or len(leases) == max_hosts:
                break
        # Most calls find every host asleep: they write nothing.
        if changed or grants:
            tables.leases.grant(grants)
            tables.counters.write()
        return leases

    def _ready_hosts(
        self, now: float, limit: int, min_tier: int, batch_tier: int
    ) -> Iterator[tuple[int, str, float | None, int, float, int]]:
        """Awake hosts, each with the lowest tier to lease; boosted hosts first, whatever batch is open."""
        ready, boosted = self._tables.hosts.ready, self._policy.boosted
        if boosted:
            yield from ((*host, min_tier) for host in ready(now, limit, min_tier, tuple(boosted)))
        for host in ready(now, limit + len(boosted), batch_tier):
            if host[1] not in boosted:
                yield (*host, batch_tier)

    def renew(self, leases: Sequence[HostLease], now: float, ttl_s: float) -> set[str]:
        """Hold hosts longer, also after expiry if they were not leased again; returns those that are still held."""
        tables = self._current_tables()
        kept = set()
        for lease in leases:
            id_ = self._held_host_id(lease)
            if id_ is not None:
                tables.leases.renew(id_, now + ttl_s)
                kept.add(lease.host)
        tables.counters.write()
        return kept

    def _held_host_id(self, lease: HostLease) -> int | None:
        """The id of the leased host if this lease is still the current one."""
        host = self._tables.hosts.find(lease.host)
        held = None if host is None else self._tables.leases.by_host.get(host.id)
        return host.id if host is not None and held is not None and held.token == lease.token else None

    def complete(self, lease: HostLease, results: Sequence[UrlResult], wake_at: float) -> bool:
        """End a lease. Its URLs without a result are queued as before. False: the lease was no longer held."""
        tables = self._current_tables()
        id_ = self._held_host_id(lease)
        if id_ is None:
            return False
        flying = tables.leases.leased_keys(id_)
        landed = {result.key: result for result in reversed(results) if result.key in flying}
        settled = [result for result in landed.values() if result.state in FINAL_STATE_CODES]
        again = [result for result in landed.values() if result.state is UrlState.QUEUED]
        tables.finish(id_, settled)
        if again:
            tables.retry(id_, again, wake_at)
        tables.hosts.sleep(id_, len(settled), wake_at)
        tables.leases.release(id_)
        tables.counters.move_to_leased(-len(flying))
        tables.counters.queued -= len(settled)
        tables.counters.write()
        return True

    def set_delay(self, host: str, delay_s: float) -> None:
        """The pause a host asks for (Crawl-delay, back-off): handed out with its leases, used by `recover`."""
        tables = self._current_tables()
        row = tables.hosts.find(host)
        if row is None:
            row = tables.hosts.insert(host)
            tables.counters.hosts += 1
        tables.hosts.set_delay(row.id, delay_s)
        tables.counters.write()

    def drop_host(self, host: str, reason: str, matches: Callable[[str], bool] = any_url) -> int:
        """Drop what is queued at a host with an address that `matches`, but for what is in flight."""
        tables = self._current_tables()
        row = tables.hosts.find(host)
        if row is None:
            return 0
        dropped = tables.drop(tables.urls.unfinished(row.id, matches), reason)
        tables.counters.write()
        return dropped

    def drop_refused(self, refusal_reason: Callable[[str], str]) -> int:
        """Drop queued URLs for which there is a reason; how many."""
        tables = self._current_tables()
        refused = refused_urls(tables.counters.connection, refusal_reason)
        dropped = sum(tables.drop(pairs, reason) for reason, pairs in refused.items())
        tables.counters.write()
        return dropped

    def reopen_host(self, host: str, reason: str, now: float) -> int:
        """Wake a host that can be reached again, and queue its URLs that were dropped for this reason; how many."""
        tables = self._current_tables()
        row = tables.hosts.find(host)
        if row is None:
            return 0
        keys = requeue_dropped(tables.counters.connection, row.id, reason)
        for key in keys:
            tables.cache.evict(key)
        back = len(keys)
        if row.id in tables.leases.by_host:
            tables.hosts.refresh_best([(row.id, -back)])
        else:
            tables.hosts.sleep(row.id, -back, now)
        tables.counters.dropped -= back
        tables.counters.queued += back
        tables.counters.write()
        return back

    def readmit(self, host: str, reason: str, limit: int, now: float) -> list[int]:
        """Queue the best URLs again that were dropped at a host for this reason; returns their keys."""
        tables = self._current_tables()
        row = tables.hosts.find(host)
        if row is None:
            return []
        found = tables.urls.dropped(row.id, reason, limit)
        for key, seq, score in found:
            tables.counters.inserted += not seq
            seq = seq or tables.counters.inserted
            place = self._order.position(score, seq, QueueTime(tables.counters.inserted, now))
            tables.cache.evict(key)
            tables.urls.readmit(seq, place, row.id, key)
        if found:
            tables.hosts.refresh_best([(row.id, -len(found))])
            tables.counters.queued += len(found)
            tables.counters.dropped -= len(found)
            tables.counters.write()
        return [key for key, *_ in found]

    def rescore(self, scores: Iterable[tuple[str, int, float]]) -> int:
        """New scores, higher or lower, for URLs that are queued and not in flight; how many changed."""
        tables = self._current_tables()
        moment = QueueTime(tables.counters.inserted)
        wanted = {}
        for name, key, score in scores:
            host = tables.hosts.find(name)
            if host is not None and key not in tables.leases.leased_keys(host.id):
                wanted[host.id, key] = finite_or_zero(score)
        held = [(key, tables.cache.find(key)) for _, key in wanted]
        missing = [pair for pair, (_, known) in zip(wanted, held, strict=True) if known is None]
        rows = []
        for key, known in (*held, *tables.urls.load(missing)):
            if known is not None and known.score != wanted[known.host_id, key]:
                score = wanted[known.host_id, key]
                place = reposition(self._order, score, known.seq, moment, known.position)
                rows.append((score, *place, known.host_id, key))
        self._tables.move(rows)
        return len(rows)

    def revive(self, urls: Sequence[tuple[str, int]], urgency: float = 1.0) -> int:
        """Queue known (host, key) URLs in front of all others, done and failed ones once more; how many are queued."""
        if not urls:
            return 0
        tables = self._current_tables()
        revived = tables.urls.requeue(tables.not_in_flight(urls), urgency, Tier.REVISIT)
        for _, key, _ in revived:
            tables.cache.evict(key)
        was = Counter(state for *_, state in revived)
        came = Counter({id_: 0 for id_, *_ in revived})
        came.update(id_ for id_, _, state in revived if state != QUEUED)
        tables.hosts.refresh_best((id_, -count) for id_, count in came.items())
        tables.counters.done -= was[DONE]
        tables.counters.failed -= was[FAILED]
        tables.counters.queued += was[DONE] + was[FAILED]
        tables.counters.write()
        return len(revived)

    def boost(self, urls: Sequence[tuple[str, int]]) -> int:
        """Move queued (host, key) URLs in front of all but revisits; how many moved."""
        return self.set_tier(urls, Tier.BOOSTED)

    def set_tier(self, urls: Sequence[tuple[str, int]], tier: int) -> int:
        """Move queued (host, key) URLs to a higher tier; how many moved."""
        if not urls:
            return 0
        tables = self._current_tables()
        rows: list[tuple[float, float, float | None, int, int, int]] = []
        for key, known in tables.urls.load(tables.not_in_flight(urls)):
            if known is not None and known.tier < tier:
                timer = known.timer if self._order.drops_expired else None
                rows.append((known.score, known.score, timer, tier, known.host_id, key))
        self._tables.move(rows)
        return len(rows)

    def best(self, limit: int) -> list[FrontierEntry]:
        """The best queued URLs that may be fetched as soon as their hosts may."""
        self._current_tables()
        return [self._with_current_values(entry) for _, entry in self._best(limit)]

    def wakes_at(self) -> float | None:
        """When `lease` may return something again: 0 for now, None when nothing is queued."""
        tables = self._current_tables()
        now = tables.hosts.sleeping.latest_time
        if self._order.batch_size and (chosen := tables.hosts.in_tier(Tier.FIRST)):
            asleep = min((at for id_, at in chosen if not tables.leases.is_leased(id_, now)), default=None)
        elif any(
            not tables.leases.is_leased(x[0], now)
            for x in tables.hosts.ready(now, 1 + tables.counters.leased, Tier.LINK)
        ):
            asleep = self._patience.held_until
        else:
            asleep = tables.hosts.sleeping.next_wake(tables.leases.by_host)
        times = (asleep, tables.leases.next_expiry, tables.queue.next_retry())
        return min((t for t in times if t is not None), default=None)

    def entry(self, host: str, key: int) -> FrontierEntry | None:
        """Everything known about one URL."""
        tables = self._current_tables()
        row = tables.hosts.find(host)
        if row is None:
            return None
        found = tables.queue.entry(row.id, host, key, tables.leases.leased_keys(row.id))
        return None if found is None else self._with_current_values(found)

    def stats(self) -> FrontierStats:
        """The counters; no rows are counted."""
        tables = self._current_tables()
        n = tables.counters
        return FrontierStats(
            queued=n.queued,
            leased=n.leased,
            done=n.done,
            failed=n.failed,
            dropped=n.dropped,
            hosts=n.hosts,
            cache_hit_rate=tables.cache.hit_rate,
        )

    def recover(self, now: float) -> int:
        """On start and at a clean end: requeue URLs that were in flight, and delay their hosts as if just fetched from.

        It also writes what only the cache knew: parents after the first, and how often a link was found.
        """
        tables = self._current_tables()
        tables.urls.write_pending(tables.cache.pending_updates())
        returned = tables.counters.leased
        tables.hosts.sleep_all(tables.leases.release_all(), now, self._policy.delay_s)
        tables.counters.move_to_leased(-returned)
        tables.counters.write()
        return returned

    def _current_tables(self) -> FrontierTables:
        """The tables, with caches dropped if they differ from the disk."""
        if self._tables.counters.reload():
            self._tables.cache.clear()
            self._tables.hosts.reset()
            self._tables.leases.reload()
        return self._tables

    def _with_current_values(self, entry: FrontierEntry) -> FrontierEntry:
        """An entry as it is now: its current priority, and what the cache knows beyond the row."""
        known = self._tables.cache.find(entry.lead.key)
        return msgspec.structs.replace(
            entry,
            priority=self._order.display_priority(entry.priority, self._tables.counters.inserted),
            times_found=entry.times_found + (known.pending if known else 0),
            parents=known.parents if known else entry.parents,
        )

    def _advance_time(self, now: float) -> bool:
        """Process what is due: retries, the order's timers, sleeping hosts; whether something was."""
        tables = self._tables
        due = tables.urls.wake_retries(now)
        if due:
            tables.urls.write_pending(
                [(*tables.cache.evict(key), id_, key) for id_, key in due if tables.cache.find(key)]
            )
            tables.hosts.refresh_best((id_, 0) for id_ in {id_ for id_, _ in due})
        tick = self._order.due_before(QueueTime(tables.counters.inserted, now))
        if tick is not None:
            self._run_timers(tick)
        woken = tables.hosts.sleeping.wake_due(now)
        return bool(due) or tick is not None or woken

    def _run_timers(self, tick: float) -> None:
        """Delete what has expired (S3-28), or move what has aged enough (S2-E5)."""
        due = self._tables.urls.timers_due(tick)
        if self._order.drops_expired:
            self._tables.drop([(id_, key) for id_, key, *_ in due], EXPIRED)
            return
        moment = QueueTime(self._tables.counters.inserted)
        rows = []
        for id_, key, seq, score, place in due:
            rows.append((score, *reposition(self._order, score, seq, moment, place), id_, key))
        self._tables.move(rows)

    def _best(self, limit: int) -> list[tuple[int, FrontierEntry]]:
        tables = self._tables
        hosts = tables.hosts.best(limit + len(tables.leases.by_host))
        return list(tables.queue.best(hosts, limit, tables.leases.leased_keys))

    def _min_tier(self) -> int:
        """The lowest tier that may be leased: an N-best batch is finished before the next is chosen."""
        if not self._order.batch_size:
            return Tier.LINK
        if not self._tables.hosts.in_tier(Tier.FIRST):
            best = self._best(self._order.batch_size)
            self._tables.move([(e.lead.score, e.priority, None, Tier.FIRST, id_, e.lead.key) for id_, e in best])
        return Tier.FIRST
