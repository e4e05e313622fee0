"""An agent's ordered stack of links (S3-05, S3-25; S3-E10: a priority queue). In memory; what counts is the frontier.

Links are kept by host, so that one that sleeps costs nothing however many of its links wait. The stack never decides
that a URL may be fetched: whoever takes one from it claims it at the frontier, which knows better.
"""

import heapq
from collections.abc import Iterable, Iterator
from itertools import count
from math import isfinite

import msgspec
from msgspec.structs import replace

from opilio.core.records import Lead
from opilio.frontier.policy import finite_or_zero, seed_score

TOP_SEED_SCORE = seed_score(1)
QueuedItem = tuple[Lead, int, float]  # a lead, its number in the order of coming, its time stamp


class AgentQueueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a stack is kept: as the frontier is told to keep its queue."""

    lifetime_s: float = 0.0  # > 0: whoever waits longer is forgotten (S3-27)
    breadth_first: bool = False  # in the order of their coming, whatever the score
    keep_first_score: bool = False  # a better score found later changes nothing
    capacity: int = 50_000


class AgentLinkQueue:
    """Leads, best first, ties by their coming.

    Heaps are cleaned lazily: an item counts while it says what `_leads` says. Of more than twice its capacity the
    best stay; the rest still wait in the frontier, and `spilled` tells so.
    """

    def __init__(self, habits: AgentQueueOptions | None = None) -> None:
        self._options = habits or AgentQueueOptions()
        self._leads: dict[int, QueuedItem] = {}  # by key, in the order of their time stamps
        self._hosts: dict[str, list[tuple[float, int, int]]] = {}
        self._ready: list[tuple[float, int, str]] = []
        self._blocked_until: dict[str, float] = {}
        self._unblock_heap: list[tuple[float, str]] = []
        self._retries: list[tuple[float, int, Lead]] = []
        self._order = count()
        self.evicted = False

    def __len__(self) -> int:
        return len(self._leads) + len(self._retries)

    def __contains__(self, key: int) -> bool:
        return key in self._leads

    def put(self, lead: Lead, now: float) -> None:
        """A link was found, or found again: the better score counts, and renews its time stamp."""
        lead = lead if isfinite(lead.score) else replace(lead, score=finite_or_zero(lead.score))
        known = self._leads.get(lead.key)
        if known is not None and (known[0].score >= lead.score or self._options.keep_first_score):
            return
        seq = next(self._order) if known is None else known[1]
        self._leads.pop(lead.key, None)
        self._insert(lead, seq, now)
        if len(self._leads) > 2 * self._options.capacity:
            self._evict()

    def rescore(self, key: int, score: float) -> None:
        """What was learnt moves a link; its time stamp stays."""
        known = self._leads.get(key)
        if known is not None:
            lead = replace(known[0], score=finite_or_zero(score))
            self._leads[key] = (lead, known[1], known[2])
            self._push(lead, known[1])

    def discard(self, key: int) -> None:
        """It is no longer waited for."""
        self._leads.pop(key, None)

    def block_host(self, host: str, until: float) -> None:
        """Leave a host out until then. Of a host without links nothing is noted: a claim will tell."""
        if host in self._hosts:
            self._blocked_until[host] = until
            heapq.heappush(self._unblock_heap, (until, host))

    def advance_time(self, now: float) -> None:
        """Take the time: hosts that have slept out are looked at again, links that waited too long are gone (S3-28)."""
        while self._retries and self._retries[0][0] <= now:
            self.put(heapq.heappop(self._retries)[2], now)
        while self._unblock_heap and self._unblock_heap[0][0] <= now:
            until, host = heapq.heappop(self._unblock_heap)
            if self._blocked_until.get(host) == until:
                del self._blocked_until[host]
                self._push_ready(host)
        if self._options.lifetime_s:
            for key in [key for key, _ in self._expired(now)]:
                del self._leads[key]

    def _expired(self, now: float) -> Iterator[tuple[int, QueuedItem]]:
        for item in self._leads.items():
            if item[1][2] + self._options.lifetime_s > now:
                return
            yield item

    def peek(self, hosts: Iterable[str] | None = None) -> Lead | None:
        """The best link of a host that is awake, of all or of these."""
        if hosts is not None:
            tops = [top for host in hosts if host not in self._blocked_until and (top := self._top(host)) is not None]
            return self._leads[min(tops)[2]][0] if tops else None
        while self._ready:
            rank, seq, host = self._ready[0]
            top = self._top(host)
            if host not in self._blocked_until and top is not None and top[:2] == (rank, seq):
                return self._leads[top[2]][0]
            heapq.heappop(self._ready)
            if top is not None and top[:2] != (rank, seq):
                self._push_ready(host)
        return None

    @property
    def best_blocked_score(self) -> float:
        """The score of the best link whose host can't be asked now; 0 where there is none."""
        tops = (self._top(host) for host in list(self._blocked_until))
        scores = [self._leads[top[2]][0].score for top in tops if top is not None]
        return max((score for score in scores if score <= TOP_SEED_SCORE), default=0.0)

    def pop_from_host(self, host: str, most: int) -> list[QueuedItem]:
        """The best links of one host, out of the stack."""
        taken: list[QueuedItem] = []
        while len(taken) < most and (top := self._top(host)) is not None:
            heapq.heappop(self._hosts[host])
            taken.append(self._leads.pop(top[2]))
        self._push_ready(host)
        return taken

    def put_back(self, items: Iterable[QueuedItem]) -> None:
        """What was taken in vain stands where it stood."""
        for lead, seq, at in items:
            self._insert(lead, seq, at)

    def put_retry(self, lead: Lead, due: float) -> None:
        """A retry that must wait."""
        heapq.heappush(self._retries, (due, next(self._order), lead))

    @property
    def next_due_at(self) -> float | None:
        """When the next host that sleeps and has links wakes, or the next retry is due."""
        while self._unblock_heap and not self._is_blocked_until(*self._unblock_heap[0]):
            heapq.heappop(self._unblock_heap)
        hosts, retries = [until for until, _ in self._unblock_heap[:1]], [due for due, _, _ in self._retries[:1]]
        return min(hosts + retries, default=None)

    def _is_blocked_until(self, until: float, host: str) -> bool:
        """Does this host sleep until then, and has it links?"""
        if self._blocked_until.get(host) != until:
            return False
        if self._top(host) is None:
            del self._blocked_until[host]
            return False
        return True

    def drain(self) -> list[Lead]:
        """Everything, best first; the stack is empty then."""
        waiting = [(lead, seq, due) for due, seq, lead in self._retries]
        ranked = sorted([*self._leads.values(), *waiting], key=lambda item: (self._sort_key(item[0]), item[1]))
        self._retries.clear()
        self._leads.clear()
        self._hosts.clear()
        self._ready.clear()
        return [lead for lead, _, _ in ranked]

    def _insert(self, lead: Lead, seq: int, at: float) -> None:
        self._leads[lead.key] = (lead, seq, at)
        self._push(lead, seq)

    def _push(self, lead: Lead, seq: int) -> None:
        heapq.heappush(self._hosts.setdefault(lead.host, []), (self._sort_key(lead), seq, lead.key))
        self._push_ready(lead.host)

    def _push_ready(self, host: str) -> None:
        top = self._top(host)
        if top is not None and host not in self._blocked_until:
            heapq.heappush(self._ready, (*top[:2], host))

    def _top(self, host: str) -> tuple[float, int, int] | None:
        """The best item of a host that still counts."""
        heap = self._hosts.get(host)
        while heap:
            if self._is_current(heap[0]):
                return heap[0]
            heapq.heappop(heap)
        self._hosts.pop(host, None)
        return None

    def _is_current(self, item: tuple[float, int, int]) -> bool:
        known = self._leads.get(item[2])
        return known is not None and (self._sort_key(known[0]), known[1]) == item[:2]

    def _sort_key(self, lead: Lead) -> float:
        """The lower the sooner. What is to be looked at again, and what a person lifted, comes first anyhow."""
        return 0.0 if self._options.breadth_first and lead.score <= TOP_SEED_SCORE else -lead.score

    def _evict(self) -> None:
        kept = heapq.nsmallest(
            self._options.capacity, self._leads.items(), key=lambda kv: (self._sort_key(kv[1][0]), kv[1][1])
        )
        best = {key for key, _ in kept}
        for key in [key for key in self._leads if key not in best]:
            del self._leads[key]
        self.evicted = True
