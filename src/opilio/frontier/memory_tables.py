"""The tables of the in-memory frontier: URLs, hosts, queues and heaps, and the moves between them. No policy.

Heaps are cleaned lazily: an entry counts only while it agrees with its host or URL.
"""

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from opilio.core.records import Lead, Tier, UrlState
from opilio.frontier.policy import QueuePosition

# (-tier, -priority, seq, key): ascending is best first.
SortKey = tuple[int, float, int, int]


class UrlEntry:
    """One URL. It stays in its host's queue while it is leased; a URL that waits for a retry is not in the queue."""

    __slots__ = ("lead", "parents", "position", "reason", "retry_at", "seq", "state", "times_found")

    def __init__(self, lead: Lead, seq: int, place: QueuePosition) -> None:
        self.lead = lead
        self.seq = seq
        self.position = place
        self.state = UrlState.QUEUED
        self.reason = ""
        self.parents: tuple[int, ...] = (lead.parent,) if lead.parent else ()
        self.times_found = 1
        self.retry_at: float | None = None

    @property
    def sort_key(self) -> SortKey:
        return (-self.position.tier, -self.position.priority, self.seq, self.lead.key)

    @property
    def worst_key(self) -> tuple[int, float, int, str, int]:
        """Ascending is worst first."""
        return (self.position.tier, self.position.priority, -self.seq, self.lead.host, self.lead.key)


class HostQueue(msgspec.Struct):
    """One host: its URLs, its queue and its timer."""

    name: str
    urls: dict[int, UrlEntry] = {}
    queue: list[SortKey] = []
    waiting: int = 0
    total: int = 0
    wake_at: float = 0.0
    ready: bool = False
    token: int = 0
    leased: frozenset[int] = frozenset()
    delay_s: float | None = None

    def iter_sorted(self) -> Iterator[tuple[SortKey, UrlEntry]]:
        """Its queue, best first."""
        return ((rank, self.urls[rank[3]]) for rank in self.queue)

    def find_dropped(self, reason: str) -> list[UrlEntry]:
        """URLs that were dropped for this reason, best first."""
        dropped = [url for url in self.urls.values() if url.state is UrlState.DROPPED and url.reason == reason]
        return sorted(dropped, key=lambda url: (-url.lead.score, url.lead.key))


class MemoryTables:
    """All hosts and URLs with their heaps."""

    def __init__(self, *, bounded: bool) -> None:
        self.hosts: dict[str, HostQueue] = {}
        self.ready: list[tuple[int, float, int, str]] = []
        self.sleeping: list[tuple[float, str]] = []
        self.retries: list[tuple[float, str, int]] = []
        self.timers: list[tuple[float, int, str, int]] = []
        self.worst_first: list[tuple[int, float, int, str, int]] | None = [] if bounded else None
        self.count: Counter[str] = Counter()

    def host(self, name: str) -> HostQueue:
        """The host with this name, created if new."""
        host = self.hosts.get(name)
        if host is None:
            host = self.hosts[name] = HostQueue(name)
        return host

    def enqueue(self, host: HostQueue, url: UrlEntry) -> None:
        """Add a URL to the queue of its host."""
        self._set_timer(url)
        insort(host.queue, url.sort_key)
        if self.worst_first is not None:
            insort(self.worst_first, url.worst_key)

    def dequeue(self, host: HostQueue, url: UrlEntry) -> None:
        """Remove a URL from the queue of its host."""
        del host.queue[bisect_left(host.queue, url.sort_key)]
        if self.worst_first is not None:
            del self.worst_first[bisect_left(self.worst_first, url.worst_key)]

    def move(self, host: HostQueue, url: UrlEntry, place: QueuePosition) -> None:
        """Move a URL to another position in the queue."""
        queued = url.retry_at is None
        if queued:
            self.dequeue(host, url)
        url.position = place
        if queued:
            self.enqueue(host, url)
        else:
            self._set_timer(url)

    def _set_timer(self, url: UrlEntry) -> None:
        """Set the timer that the order asks for."""
        if url.position.timer is not None:
            heapq.heappush(self.timers, (url.position.timer, url.seq, url.lead.host, url.lead.key))

    def reschedule(self, host: HostQueue, now: float | None = None) -> None:
        """Update the heaps after a host's queue or timer changed."""
        if not host.queue:
            host.ready = False
            return
        host.ready = host.ready or (now is not None and host.wake_at <= now)
        if host.ready:
            heapq.heappush(self.ready, (*host.queue[0][:3], host.name))
        else:
            heapq.heappush(self.sleeping, (host.wake_at, host.name))

    def next_ready(self, min_tier: int) -> HostQueue | None:
        """The ready host with the best URL, if that is in the tier or above; it stays on top of the heap."""
        while self.ready:
            tier, best, seq, name = self.ready[0]
            host = self.hosts[name]
            if host.ready and host.queue and host.queue[0][:3] == (tier, best, seq):
                return host if -tier >= min_tier else None
            heapq.heappop(self.ready)
        return None

    def lease(self, host: HostQueue, limit: int, floor: int) -> tuple[Lead, ...]:
        """Lease the best URLs of a host, those of this tier and above."""
        self.release(host)
        urls = [host.urls[key] for tier, _, _, key in host.queue[:limit] if -tier >= floor]
        for url in urls:
            url.state = UrlState.LEASED
        self.count["leased"] += len(urls)
        self.count["queued"] -= len(urls)
        host.leased = frozenset(url.lead.key for url in urls)
        return tuple(replace(url.lead, tier=url.position.tier) if url.position.tier else url.lead for url in urls)

    def release(self, host: HostQueue) -> None:
        """Requeue everything still leased at a host."""
        for key in host.leased:
            url = host.urls[key]
            if url.state is UrlState.LEASED:
                url.state = UrlState.QUEUED
                self.count["leased"] -= 1
                self.count["queued"] += 1
        host.leased = frozenset()

    def finish(self, host: HostQueue, url: UrlEntry, state: UrlState, reason: str) -> None:
        """Set the final state of a URL that was queued or leased."""
        if url.retry_at is None:
            self.dequeue(host, url)
        else:
            host.waiting -= 1
        self.count[url.state.value] -= 1
        self.count[state.value] += 1
        url.state, url.reason, url.retry_at = state, reason, None

    def requeue(self, host: HostQueue, url: UrlEntry, place: QueuePosition) -> None:
        """Queue a URL again that was done, failed or dropped."""
        self.count[url.state.value] -= 1
        self.count["queued"] += 1
        url.state, url.reason, url.position = UrlState.QUEUED, "", place
        self.enqueue(host, url)

    def drop(self, urls: Iterable[UrlEntry], reason: str) -> int:
        """Drop queued URLs, except those in flight."""
        dropped = [url for url in urls if url.state is UrlState.QUEUED]
        for url in dropped:
            self.finish(self.hosts[url.lead.host], url, UrlState.DROPPED, reason)
        for name in {url.lead.host for url in dropped}:
            self.reschedule(self.hosts[name])
        return len(dropped)

    def iter_best_first(self) -> Iterator[UrlEntry]:
        """Every queued URL that does not wait, best first."""
        # Sort keys differ in `seq`, so the URLs beside them are never compared.
        ranked = heapq.merge(*(host.iter_sorted() for host in self.hosts.values()))
        return (url for _, url in ranked if url.state is UrlState.QUEUED)

    def next_retry(self) -> float | None:
        """When the first retry is due."""
        while self.retries:
            at, name, key = self.retries[0]
            if self.hosts[name].urls[key].retry_at == at:
                return at
            heapq.heappop(self.retries)
        return None

    def best_waiting(self, until: float, expiry: float) -> float | None:
        """The highest sort key of a link at hosts that wake until then, or whose leases expire later than this."""
        waiting = (
            host
            for host in self.hosts.values()
            # A leased host wakes when its lease expires.
            if not host.ready and (host.wake_at > expiry if host.leased else host.wake_at <= until)
        )
        return max(
            (-host.queue[0][1] for host in waiting if host.queue and host.queue[0][0] == Tier.LINK), default=None
        )

    def next_wake(self) -> float | None:
        """When the first sleeping host that has something queued wakes."""
        while self.sleeping:
            at, name = self.sleeping[0]
            host = self.hosts[name]
            if not host.ready and host.queue and host.wake_at == at:
                return at
            heapq.heappop(self.sleeping)
        return None
