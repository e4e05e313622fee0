"""How links enter the SQLite frontier: the seen test, merging, admission, limits.

A page brings about a hundred links, most of them known. Those cost a dict look-up in the cache of the URL-seen test
(S4-21); only new URLs, better scores and new parents reach the database, each kind in one batch. The cache has two
generations instead of a linked list: a hit in the old generation moves to the young one, and when the young one is full
the old one is dropped as a whole. Every step is one dict operation.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from opilio.core.protocols import AddResult
from opilio.core.records import Lead, UrlResult
from opilio.frontier.link_batch import NO_UPDATE, CachedUrl, LinkBatch, PendingUpdate
from opilio.frontier.policy import AGGREGATING_POLICIES, FRONTIER_FULL, MAX_PARENTS, FrontierPolicy
from opilio.frontier.schema import DROPPED, FINAL_STATE_CODES, QUEUED, WAITING
from opilio.frontier.sqlite.hosts import FrontierCounters, HostRow, HostTable, LeaseTable
from opilio.frontier.sqlite.urls import QueueReader, UrlTable


class UrlCache:
    """Keys of recently seen URLs; None stands for a finished URL (done, failed, dropped).

    Invariant: a cached value equals its row, except for `pending`. Code that changes a row in another way calls
    `mark_finished` or `evict`.
    """

    def __init__(self, size: int) -> None:
        self._half = max(1, size // 2)
        self._young: dict[int, CachedUrl | None] = {}
        self._old: dict[int, CachedUrl | None] = {}
        self._hits = 0
        self._misses = 0

    def lookup(self, keys: set[int]) -> dict[int, CachedUrl | None]:
        """The young generation, after moving the known ones of these keys into it."""
        young, old = self._young, self._old
        # Not a set difference: that would walk the whole dict.
        missing = [key for key in keys if key not in young]
        moved = [key for key in missing if key in old]
        for key in moved:
            young[key] = old.pop(key)
        self._misses += len(missing) - len(moved)
        self._hits += len(keys) - len(missing) + len(moved)
        return young

    def find(self, key: int) -> CachedUrl | None:
        """The cached queued URL with this key, or None."""
        known = self._young.get(key)
        return known if known is not None else self._old.get(key)

    def mark_finished(self, keys: Iterator[int]) -> None:
        """Record that these URLs are no longer queued."""
        for key in keys:
            self._old.pop(key, None)
            self._young[key] = None

    def evict(self, key: int) -> PendingUpdate:
        """Remove a URL whose row changes in another way; returns its pending changes."""
        known = self.find(key)
        self._young.pop(key, None)
        self._old.pop(key, None)
        return known.take_pending() if known else NO_UPDATE

    def rotate(self) -> list[tuple[int, bytes | None, int, int]]:
        """Drop the old generation if the young one is full; returns the pending changes with host id and key."""
        if len(self._young) < self._half:
            return []
        gone, self._old, self._young = self._old, self._young, {}
        return _pending_rows(gone.items())

    def pending_updates(self) -> list[tuple[int, bytes | None, int, int]]:
        """All pending changes, with host id and key."""
        return _pending_rows(self._old.items()) + _pending_rows(self._young.items())

    def clear(self) -> None:
        """Drop everything (the rows may have changed in another process)."""
        self._young.clear()
        self._old.clear()

    @property
    def hit_rate(self) -> float:
        """Share of URL-seen tests answered from memory."""
        return self._hits / max(1, self._hits + self._misses)


def _pending_rows(items: Iterable[tuple[int, CachedUrl | None]]) -> list[tuple[int, bytes | None, int, int]]:
    # Sorted by host, so that each page of the table is written once.
    rows = [(*known.take_pending(), known.host_id, key) for key, known in items if known is not None and known.pending]
    return sorted(rows, key=itemgetter(2, 3))


class FrontierTables(NamedTuple):
    """The frontier's tables on disk, with their caches in memory."""

    urls: UrlTable
    queue: QueueReader
    hosts: HostTable
    leases: LeaseTable
    cache: UrlCache
    counters: FrontierCounters

    def best_waiting(self, until: float, expiry: float) -> float | None:
        """The highest sort key of a link at hosts that wake until then, or whose leases expire later than this."""
        return self.hosts.best_waiting(until, self.leases.since(expiry))

    def drop(self, pairs: Iterable[tuple[int, int]], reason: str) -> int:
        """Drop queued (host id, key) pairs, but for those in flight."""
        rows = [
            (DROPPED, reason, *self.cache.evict(key), host_id, key)
            for host_id, key in pairs
            if key not in self.leases.leased_keys(host_id)
        ]
        self.urls.finish(rows)
        self.cache.mark_finished(row[5] for row in rows)
        self.hosts.refresh_best(Counter(row[4] for row in rows).items())
        self.counters.queued -= len(rows)
        self.counters.dropped += len(rows)
        return len(rows)

    def finish(self, host_id: int, results: Sequence[UrlResult]) -> None:
        """Write the final states of URLs that were leased."""
        self.urls.finish(
            [(FINAL_STATE_CODES[x.state], x.reason or None, *self.cache.evict(x.key), host_id, x.key) for x in results]
        )
        self.cache.mark_finished(x.key for x in results)
        for result in results:
            name = result.state.value
            setattr(self.counters, name, getattr(self.counters, name) + 1)

    def retry(self, host_id: int, results: Sequence[UrlResult], wake_at: float) -> None:
        """Queue retries. One that is due before the host wakes needs no timer of its own."""
        rows = []
        for x in results:
            later = x.retry_at > wake_at
            state, not_before = (WAITING, x.retry_at) if later else (QUEUED, None)
            rows.append((state, x.reason or None, not_before, *self.cache.evict(x.key), host_id, x.key))
        self.urls.retry(rows)

    def not_in_flight(self, urls: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
        """(host id, key) of those (host, key) URLs whose host is known and that are not leased."""
        found = [(self.hosts.find(name), key) for name, key in urls]
        return [(host.id, key) for host, key in found if host and key not in self.leases.leased_keys(host.id)]

    def move(self, rows: list[tuple[float, float, float | None, int, int, int]]) -> None:
        """Write new positions of entries (score, priority, timer, tier, host id, key) and their hosts."""
        if not rows:
            return
        for score, priority, timer, tier, _, key in rows:
            if (known := self.cache.find(key)) is not None:
                known.score, known.priority, known.timer, known.tier = score, priority, timer, tier
        self.urls.reposition(rows)
        self.hosts.refresh_best((id_, 0) for id_ in {row[4] for row in rows})
        self.counters.write()


class BatchAdder:
    """Adds one batch of links."""

    def __init__(self, tables: FrontierTables, policy: FrontierPolicy, now: float) -> None:
        self._tables = tables
        self._policy = policy
        self._aggregates = policy.merge in AGGREGATING_POLICIES
        self._batch = LinkBatch(policy, now)
        self._batch.inserted = tables.counters.inserted

    def add(self, leads: Sequence[Lead]) -> AddResult:
        """Add the links, write what changed, enforce the limits."""
        tables = self._tables
        hosts = {name: tables.hosts.find(name) for name in {lead.host for lead in leads}}
        seen = self._lookup(leads, hosts)
        leased = tables.leases.by_host
        new, raised = 0, 0
        for lead in leads:
            key = lead.key
            if key not in seen:
                seen[key] = known = self._admit(lead, self._get_or_create_host(lead.host, hosts))
                new += known is not None
                continue
            known = seen[key]
            # Settled, or in flight: neither queued nor scored again (S3-26).
            if known is None or (known.host_id in leased and key in leased[known.host_id].keys):
                continue
            known.pending += 1
            if (
                lead.score > known.score
                or lead.depth < known.depth
                or lead.tunnel < known.tunnel
                or lead.tier > known.tier
            ):
                raised += self._merge(lead, known, hosts)
            elif len(known.parents) < MAX_PARENTS and lead.parent not in known.parents and lead.parent:
                if self._aggregates:
                    raised += self._merge(lead, known, hosts)
                # By far the most frequent change: only another parent.
                else:
                    known.parents = (*known.parents, lead.parent)
        self._write(hosts)
        refused = self._batch.refused
        known_before = len(leads) - new - raised - len(refused)
        dropped = len(refused) + self._enforce_limits()
        return AddResult(new=new, promoted=raised, known=known_before, dropped=dropped, refused=refused)

    def _lookup(self, leads: Sequence[Lead], hosts: dict[str, HostRow | None]) -> dict[int, CachedUrl | None]:
        """The URL-seen test: the cache, then the rows of keys that it does not hold."""
        seen = self._tables.cache.lookup({lead.key for lead in leads})
        missing = [
            (host.id, lead.key) for lead in leads if lead.key not in seen and (host := hosts[lead.host]) is not None
        ]
        seen.update(self._tables.urls.load(missing))
        return seen

    def _admit(self, lead: Lead, host: HostRow) -> CachedUrl | None:
        """Queue a URL never seen before, or record why it is refused."""
        known = self._batch.admit(lead, host.id, host.total)
        if known is not None:
            host.queued += 1
            host.total += 1
            host.raise_best(known.tier, known.priority, known.seq)
        return known

    def _get_or_create_host(self, name: str, hosts: dict[str, HostRow | None]) -> HostRow:
        host = hosts[name]
        if host is None:
            host = hosts[name] = self._tables.hosts.insert(name)
            self._tables.counters.hosts += 1
        return host

    def _merge(self, lead: Lead, known: CachedUrl, hosts: dict[str, HostRow | None]) -> bool:
        raised = self._batch.merge(lead, known)
        if raised and not known.waiting and (host := hosts[lead.host]) is not None:
            host.raise_best(known.tier, known.priority, known.seq)
        return raised

    def _write(self, hosts: dict[str, HostRow | None]) -> None:
        """Write everything that changed, one batch per kind."""
        tables, batch = self._tables, self._batch
        tables.counters.inserted = batch.inserted
        tables.counters.queued += len(batch.new)
        tables.counters.dropped += len(batch.refused)
        tables.urls.insert(batch.inserts())
        tables.urls.promote(batch.promotions())
        touched = batch.host_ids
        tables.hosts.save([h for h in hosts.values() if h is not None and h.id in touched])

    def _enforce_limits(self) -> int:
        """Drop the lowest entries that are over the limit; returns the number of URLs."""
        tables, limits = self._tables, self._policy.limits
        excess = tables.counters.queued - limits.queued
        if not limits.queued or excess <= limits.slack:
            return 0
        tail = tables.queue.worst(excess + tables.counters.leased)
        tail = [(id_, key) for id_, key in tail if key not in tables.leases.leased_keys(id_)]
        return tables.drop(tail[:excess], FRONTIER_FULL)
