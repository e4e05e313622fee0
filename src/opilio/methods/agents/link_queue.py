"""An agent's queue of links (S3-05, S3-25; S3-E10: a priority queue), in memory, in the order that the crawl uses.

Links are kept by host, so that a sleeping host costs nothing however many links it has. The queue never decides that
a URL may be fetched: a link taken from it is claimed at the frontier, which holds the state on disk.
"""

import heapq
from collections.abc import Iterable
from math import isfinite
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from opilio.core.records import Lead, Tier
from opilio.frontier.policy import BestFirst, Order, QueuePosition, QueueTime, finite_or_zero, reposition

# (-tier, -priority, seq, key): ascending is best first.
SortKey = tuple[int, float, int, int]


class QueuedItem(NamedTuple):
    """A lead, its number in the order of arrival, and its place in the queue."""

    lead: Lead
    seq: int
    place: QueuePosition

    @property
    def sort_key(self) -> SortKey:
        return (-self.place.tier, -self.place.priority, self.seq, self.lead.key)


class AgentQueueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a queue is kept: as the frontier keeps its own."""

    order: Order = BestFirst()
    # A better score found later changes nothing.
    keep_first_score: bool = False
    capacity: int = 50_000


class AgentLinkQueue:
    """Leads, best first, ties by their arrival.

    Heaps are cleaned lazily: an entry counts while it agrees with `_items`. Above twice its capacity the best stay;
    the rest stays queued in the frontier, and `evicted` is set.
    """

    def __init__(self, options: AgentQueueOptions | None = None) -> None:
        self._options = options or AgentQueueOptions()
        self._items: dict[int, QueuedItem] = {}
        self._hosts: dict[str, list[SortKey]] = {}
        self._ready: list[tuple[int, float, int, str]] = []
        self._blocked_until: dict[str, float] = {}
        self._unblock_heap: list[tuple[float, str]] = []
        self._retries: list[tuple[float, int, Lead]] = []
        self._timers: list[tuple[float, int]] = []
        self._inserted = 0
        self.evicted = False

    def __len__(self) -> int:
        return len(self._items) + len(self._retries)

    def __contains__(self, key: int) -> bool:
        return key in self._items

    def put(self, lead: Lead, now: float, seq: int | None = None) -> None:
        """A link was found, or found again: the better score counts, and renews its time stamp.

        `seq` breaks ties in place of the order of arrival.
        """
        lead = lead if isfinite(lead.score) else replace(lead, score=finite_or_zero(lead.score))
        known = self._items.get(lead.key)
        if known is not None and not self._is_better(lead, known.lead):
            return
        if known is None:
            self._inserted += 1
        if seq is None:
            seq = self._inserted if known is None else known.seq
        self._insert(QueuedItem(lead, seq, self._position(lead, seq, now)))
        if len(self._items) > 2 * self._options.capacity:
            self._evict()

    def _is_better(self, lead: Lead, known: Lead) -> bool:
        if known.tier == Tier.FIRST and lead.tier == Tier.LINK:
            return False
        if lead.tier != known.tier:
            return lead.tier > known.tier
        if lead.tier == Tier.REVISIT:
            return True
        return lead.score > known.score and not self._options.keep_first_score

    def _position(self, lead: Lead, seq: int, now: float) -> QueuePosition:
        if lead.tier > Tier.FIRST:
            return QueuePosition(lead.score, tier=lead.tier)
        place = self._options.order.position(lead.score, seq, QueueTime(self._inserted, now))
        return place._replace(tier=lead.tier)

    def set_tier(self, key: int, tier: int) -> None:
        """Move a link to a higher tier."""
        known = self._items.get(key)
        if known is not None and known.lead.tier < tier:
            priority = known.place.priority if tier == Tier.FIRST else known.lead.score
            timer = known.place.timer if self._options.order.drops_expired else None
            place = QueuePosition(priority, timer, tier)
            self._insert(QueuedItem(replace(known.lead, tier=tier), known.seq, place))

    def rescore(self, key: int, score: float) -> None:
        """Move a link to a new score; its time stamp stays. A revisit keeps its urgency."""
        known = self._items.get(key)
        if known is not None and known.lead.tier != Tier.REVISIT:
            lead = replace(known.lead, score=finite_or_zero(score))
            place = reposition(self._options.order, lead.score, known.seq, QueueTime(self._inserted), known.place)
            self._insert(QueuedItem(lead, known.seq, place))

    def discard(self, key: int) -> None:
        """Remove a link that is no longer queued."""
        self._items.pop(key, None)

    def block_host(self, host: str, until: float) -> None:
        """Leave a host out until then. A host without links is not recorded: a claim will report its state."""
        if host in self._hosts:
            self._blocked_until[host] = until
            heapq.heappush(self._unblock_heap, (until, host))

    def advance_time(self, now: float) -> None:
        """Queue retries that are due, wake hosts, and run the order's timers (S3-28)."""
        while self._retries and self._retries[0][0] <= now:
            self.put(heapq.heappop(self._retries)[2], now)
        while self._unblock_heap and self._unblock_heap[0][0] <= now:
            until, host = heapq.heappop(self._unblock_heap)
            if self._blocked_until.get(host) == until:
                del self._blocked_until[host]
                self._push_ready(host)
        due = self._options.order.due_before(QueueTime(self._inserted, now))
        if due is not None:
            self._run_timers(due)

    def _run_timers(self, due: float) -> None:
        """Delete what has expired, or move what has aged enough."""
        order = self._options.order
        while self._timers and self._timers[0][0] <= due:
            timer, key = heapq.heappop(self._timers)
            item = self._items.get(key)
            if item is None or item.place.timer != timer:
                continue
            if order.drops_expired:
                del self._items[key]
            else:
                place = reposition(order, item.lead.score, item.seq, QueueTime(self._inserted), item.place)
                self._insert(item._replace(place=place))

    @property
    def has_batch(self) -> bool:
        """Is a link of the last N-best batch left, or one of a higher tier?"""
        return any(item.place.tier >= Tier.FIRST for item in self._items.values())

    def choose_batch(self) -> list[tuple[str, int]]:
        """N-best: move the N best links to the next batch (S1-11); their (host, key)."""
        best = heapq.nsmallest(self.batch_size, self._items.values(), key=lambda item: item.sort_key)
        for item in best:
            self.set_tier(item.lead.key, Tier.FIRST)
        return [(item.lead.host, item.lead.key) for item in best]

    @property
    def batch_size(self) -> int:
        return self._options.order.batch_size

    def peek(self, hosts: Iterable[str] | None = None) -> Lead | None:
        """The best link of an awake host; `hosts`: only of these."""
        if hosts is not None:
            tops = [top for host in hosts if host not in self._blocked_until and (top := self._top(host)) is not None]
            return self._items[min(tops)[3]].lead if tops else None
        while self._ready:
            *rank, host = self._ready[0]
            top = self._top(host)
            if host not in self._blocked_until and top is not None and [*top[:3]] == rank:
                return self._items[top[3]].lead
            heapq.heappop(self._ready)
            if top is not None and [*top[:3]] != rank:
                self._push_ready(host)
        return None

    @property
    def best_blocked_score(self) -> float:
        """The score of the best link whose host can't be fetched from now; 0 without one."""
        tops = (self._top(host) for host in list(self._blocked_until))
        leads = [self._items[top[3]].lead for top in tops if top is not None]
        return max((lead.score for lead in leads if lead.tier <= Tier.FIRST), default=0.0)

    def pop_from_host(self, host: str, most: int, min_tier: int = Tier.LINK) -> list[QueuedItem]:
        """Take the best links of one host out of the queue, none below a tier."""
        taken: list[QueuedItem] = []
        while len(taken) < most and (top := self._top(host)) is not None and -top[0] >= min_tier:
            heapq.heappop(self._hosts[host])
            taken.append(self._items.pop(top[3]))
        self._push_ready(host)
        return taken

    def put_back(self, items: Iterable[QueuedItem]) -> None:
        """Items that could not be claimed return to their places."""
        for item in items:
            self._insert(item)

    def put_retry(self, lead: Lead, due: float) -> None:
        """A retry that must wait."""
        self._inserted += 1
        heapq.heappush(self._retries, (due, self._inserted, lead))

    @property
    def next_due_at(self) -> float | None:
        """When the next blocked host that has links wakes, or the next retry is due."""
        while self._unblock_heap and not self._is_blocked_until(*self._unblock_heap[0]):
            heapq.heappop(self._unblock_heap)
        hosts, retries = [until for until, _ in self._unblock_heap[:1]], [due for due, _, _ in self._retries[:1]]
        return min(hosts + retries, default=None)

    def _is_blocked_until(self, until: float, host: str) -> bool:
        """Is this host blocked until then, and has it links?"""
        if self._blocked_until.get(host) != until:
            return False
        if self._top(host) is None:
            del self._blocked_until[host]
            return False
        return True

    def drain(self) -> list[Lead]:
        """Take out everything, best first."""
        waiting = [QueuedItem(lead, seq, self._position(lead, seq, due)) for due, seq, lead in self._retries]
        ranked = sorted([*self._items.values(), *waiting], key=lambda item: item.sort_key)
        self._retries.clear()
        self._items.clear()
        self._hosts.clear()
        self._ready.clear()
        return [item.lead for item in ranked]

    def _insert(self, item: QueuedItem) -> None:
        lead = item.lead
        self._items[lead.key] = item
        if item.place.timer is not None:
            heapq.heappush(self._timers, (item.place.timer, lead.key))
        heapq.heappush(self._hosts.setdefault(lead.host, []), item.sort_key)
        self._push_ready(lead.host)

    def _push_ready(self, host: str) -> None:
        top = self._top(host)
        if top is not None and host not in self._blocked_until:
            heapq.heappush(self._ready, (*top[:3], host))

    def _top(self, host: str) -> SortKey | None:
        """The best entry of a host that still counts."""
        heap = self._hosts.get(host)
        while heap:
            known = self._items.get(heap[0][3])
            if known is not None and known.sort_key == heap[0]:
                return heap[0]
            heapq.heappop(heap)
        self._hosts.pop(host, None)
        return None

    def _evict(self) -> None:
        kept = heapq.nsmallest(self._options.capacity, self._items.values(), key=lambda item: item.sort_key)
        best = {item.lead.key for item in kept}
        for key in [key for key in self._items if key not in best]:
            del self._items[key]
        self.evicted = True
