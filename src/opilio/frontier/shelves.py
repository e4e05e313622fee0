"""The shelves of the in-memory frontier: URLs, hosts, queues and heaps, and the moves between them. No policy.

Heaps are cleaned lazily: an entry counts only while it says what its host or URL says.
"""

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from opilio.frontier.order import Place
from opilio.model.records import Lead, State

Rank = tuple[float, int, int]  # (-priority, seq, key): ascending is best first


class Url:
    """One URL. It stays in its host's queue while it is leased; a retry that waits is not in it."""

    __slots__ = ("found", "lead", "parents", "place", "reason", "retry_at", "seq", "state")

    def __init__(self, lead: Lead, seq: int, place: Place) -> None:
        self.lead = lead
        self.seq = seq
        self.place = place
        self.state = State.QUEUED
        self.reason = ""
        self.parents: tuple[int, ...] = (lead.parent,) if lead.parent else ()
        self.found = 1
        self.retry_at: float | None = None

    @property
    def rank(self) -> Rank:
        return (-self.place.priority, self.seq, self.lead.key)


class Host(msgspec.Struct):
    """One host: its URLs, its queue and its timer."""

    name: str
    urls: dict[int, Url] = {}
    queue: list[Rank] = []
    waiting: int = 0
    total: int = 0
    wake_at: float = 0.0
    ready: bool = False
    token: int = 0
    leased: frozenset[int] = frozenset()
    delay_s: float | None = None

    def ranked(self) -> Iterator[tuple[Rank, Url]]:
        """Its queue, best first."""
        return ((rank, self.urls[rank[2]]) for rank in self.queue)


class Shelves:
    """Every host and URL, and where they stand."""

    def __init__(self, *, bounded: bool) -> None:
        self.hosts: dict[str, Host] = {}
        self.ready: list[tuple[float, int, str]] = []
        self.sleeping: list[tuple[float, str]] = []
        self.retries: list[tuple[float, str, int]] = []
        self.timers: list[tuple[float, int, str, int]] = []
        self.tail: list[tuple[float, int, str, int]] | None = [] if bounded else None  # queued URLs, worst first
        self.count: Counter[str] = Counter()

    def host(self, name: str) -> Host:
        """The host of that name, made when it is new."""
        host = self.hosts.get(name)
        if host is None:
            host = self.hosts[name] = Host(name)
        return host

    def enqueue(self, host: Host, url: Url) -> None:
        """Into the queue of its host."""
        self._arm(url)
        insort(host.queue, url.rank)
        if self.tail is not None:
            insort(self.tail, (url.place.priority, -url.seq, host.name, url.lead.key))

    def dequeue(self, host: Host, url: Url) -> None:
        """Out of the queue of its host."""
        del host.queue[bisect_left(host.queue, url.rank)]
        if self.tail is not None:
            del self.tail[bisect_left(self.tail, (url.place.priority, -url.seq, host.name, url.lead.key))]

    def move(self, host: Host, url: Url, place: Place) -> None:
        """Another place in the queue."""
        queued = url.retry_at is None
        if queued:
            self.dequeue(host, url)
        url.place = place
        if queued:
            self.enqueue(host, url)
        else:
            self._arm(url)

    def _arm(self, url: Url) -> None:
        """Set the timer its order wants."""
        if url.place.timer is not None:
            heapq.heappush(self.timers, (url.place.timer, url.seq, url.lead.host, url.lead.key))

    def stir(self, host: Host, now: float | None = None) -> None:
        """The host's queue or timer changed: put it where it belongs."""
        if not host.queue:
            host.ready = False
            return
        host.ready = host.ready or (now is not None and host.wake_at <= now)
        if host.ready:
            heapq.heappush(self.ready, (*host.queue[0][:2], host.name))
        else:
            heapq.heappush(self.sleeping, (host.wake_at, host.name))

    def next_ready(self, floor: float) -> Host | None:
        """The ready host with the best URL, if that is above the floor; it stays on top of the heap."""
        while self.ready:
            best, seq, name = self.ready[0]
            host = self.hosts[name]
            if host.ready and host.queue and host.queue[0][:2] == (best, seq):
                return host if -best >= floor else None
            heapq.heappop(self.ready)
        return None

    def unlease(self, host: Host) -> None:
        """Whatever is still leased at a host is queued."""
        for key in host.leased:
            url = host.urls[key]
            if url.state is State.LEASED:
                url.state = State.QUEUED
                self.count["leased"] -= 1
                self.count["queued"] += 1
        host.leased = frozenset()

    def leave(self, host: Host, url: Url, state: State, reason: str) -> None:
        """A URL that was queued or leased is settled."""
        if url.retry_at is None:
            self.dequeue(host, url)
        else:
            host.waiting -= 1
        self.count[url.state.value] -= 1
        self.count[state.value] += 1
        url.state, url.reason, url.retry_at = state, reason, None

    def drop(self, urls: Iterable[Url], reason: str) -> int:
        """Drop queued URLs, but for those in flight."""
        dropped = [url for url in urls if url.state is State.QUEUED]
        for url in dropped:
            self.leave(self.hosts[url.lead.host], url, State.DROPPED, reason)
        for name in {url.lead.host for url in dropped}:
            self.stir(self.hosts[name])
        return len(dropped)

    def in_order(self) -> Iterator[Url]:
        """Every queued URL that does not wait, best first."""
        # Ranks differ in `seq`, so the URLs beside them are never compared.
        ranked = heapq.merge(*(host.ranked() for host in self.hosts.values()))
        return (url for _, url in ranked if url.state is State.QUEUED)

    def first_retry(self) -> float | None:
        """When the first retry is due."""
        while self.retries:
            at, name, key = self.retries[0]
            if self.hosts[name].urls[key].retry_at == at:
                return at
            heapq.heappop(self.retries)
        return None

    def first_wake(self) -> float | None:
        """When the first sleeping host that has something queued wakes."""
        while self.sleeping:
            at, name = self.sleeping[0]
            host = self.hosts[name]
            if not host.ready and host.queue and host.wake_at == at:
                return at
            heapq.heappop(self.sleeping)
        return None
