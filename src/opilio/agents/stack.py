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

from opilio.frontier.order import sane, seed_score
from opilio.model.records import Lead

ABOVE_SEEDS = seed_score(1)
Item = tuple[Lead, int, float]  # a lead, its number in the order of coming, its time stamp


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """How a stack is kept: as the frontier is told to keep its queue."""

    lifetime_s: float = 0.0  # > 0: whoever waits longer is forgotten (S3-27)
    breadth: bool = False  # in the order of their coming, whatever the score
    first_counts: bool = False  # a better score found later changes nothing
    capacity: int = 50_000


class Stack:
    """Leads, best first, ties by their coming.

    Heaps are cleaned lazily: an item counts while it says what `_leads` says. Of more than twice its capacity the
    best stay; the rest still wait in the frontier, and `spilled` tells so.
    """

    def __init__(self, habits: Habits | None = None) -> None:
        self._habits = habits or Habits()
        self._leads: dict[int, Item] = {}  # by key, in the order of their time stamps
        self._hosts: dict[str, list[tuple[float, int, int]]] = {}
        self._ready: list[tuple[float, int, str]] = []
        self._asleep: dict[str, float] = {}
        self._wakes: list[tuple[float, str]] = []
        self._later: list[tuple[float, int, Lead]] = []
        self._order = count()
        self.spilled = False

    def __len__(self) -> int:
        return len(self._leads) + len(self._later)

    def __contains__(self, key: int) -> bool:
        return key in self._leads

    def put(self, lead: Lead, now: float) -> None:
        """A link was found, or found again: the better score counts, and renews its time stamp."""
        lead = lead if isfinite(lead.score) else replace(lead, score=sane(lead.score))
        known = self._leads.get(lead.key)
        if known is not None and (known[0].score >= lead.score or self._habits.first_counts):
            return
        seq = next(self._order) if known is None else known[1]
        self._leads.pop(lead.key, None)
        self._place(lead, seq, now)
        if len(self._leads) > 2 * self._habits.capacity:
            self._spill()

    def rescore(self, key: int, score: float) -> None:
        """What was learnt moves a link; its time stamp stays."""
        known = self._leads.get(key)
        if known is not None:
            lead = replace(known[0], score=sane(score))
            self._leads[key] = (lead, known[1], known[2])
            self._push(lead, known[1])

    def discard(self, key: int) -> None:
        """It is no longer waited for."""
        self._leads.pop(key, None)

    def sleep(self, host: str, until: float) -> None:
        """Leave a host out until then. Of a host without links nothing is noted: a claim will tell."""
        if host in self._hosts:
            self._asleep[host] = until
            heapq.heappush(self._wakes, (until, host))

    def wake(self, now: float) -> None:
        """Take the time: hosts that have slept out are looked at again, links that waited too long are gone (S3-28)."""
        while self._later and self._later[0][0] <= now:
            self.put(heapq.heappop(self._later)[2], now)
        while self._wakes and self._wakes[0][0] <= now:
            until, host = heapq.heappop(self._wakes)
            if self._asleep.get(host) == until:
                del self._asleep[host]
                self._announce(host)
        if self._habits.lifetime_s:
            for key in [key for key, _ in self._oldest(now)]:
                del self._leads[key]

    def _oldest(self, now: float) -> Iterator[tuple[int, Item]]:
        for item in self._leads.items():
            if item[1][2] + self._habits.lifetime_s > now:
                return
            yield item

    def first(self, hosts: Iterable[str] | None = None) -> Lead | None:
        """The best link of a host that is awake, of all or of these."""
        if hosts is not None:
            tops = [top for host in hosts if host not in self._asleep and (top := self._top(host)) is not None]
            return self._leads[min(tops)[2]][0] if tops else None
        while self._ready:
            rank, seq, host = self._ready[0]
            top = self._top(host)
            if host not in self._asleep and top is not None and top[:2] == (rank, seq):
                return self._leads[top[2]][0]
            heapq.heappop(self._ready)
            if top is not None and top[:2] != (rank, seq):
                self._announce(host)
        return None

    @property
    def best_asleep(self) -> float:
        """The score of the best link whose host can't be asked now; 0 where there is none."""
        tops = (self._top(host) for host in list(self._asleep))
        scores = [self._leads[top[2]][0].score for top in tops if top is not None]
        return max((score for score in scores if score <= ABOVE_SEEDS), default=0.0)

    def take(self, host: str, most: int) -> list[Item]:
        """The best links of one host, out of the stack."""
        taken: list[Item] = []
        while len(taken) < most and (top := self._top(host)) is not None:
            heapq.heappop(self._hosts[host])
            taken.append(self._leads.pop(top[2]))
        self._announce(host)
        return taken

    def give_back(self, items: Iterable[Item]) -> None:
        """What was taken in vain stands where it stood."""
        for lead, seq, at in items:
            self._place(lead, seq, at)

    def put_later(self, lead: Lead, due: float) -> None:
        """A retry that must wait."""
        heapq.heappush(self._later, (due, next(self._order), lead))

    @property
    def wakes_at(self) -> float | None:
        """When the next host that sleeps and has links wakes, or the next retry is due."""
        while self._wakes and not self._sleeps(*self._wakes[0]):
            heapq.heappop(self._wakes)
        hosts, retries = [until for until, _ in self._wakes[:1]], [due for due, _, _ in self._later[:1]]
        return min(hosts + retries, default=None)

    def _sleeps(self, until: float, host: str) -> bool:
        """Does this host sleep until then, and has it links?"""
        if self._asleep.get(host) != until:
            return False
        if self._top(host) is None:
            del self._asleep[host]
            return False
        return True

    def drain(self) -> list[Lead]:
        """Everything, best first; the stack is empty then."""
        waiting = [(lead, seq, due) for due, seq, lead in self._later]
        ranked = sorted([*self._leads.values(), *waiting], key=lambda item: (self._rank(item[0]), item[1]))
        self._later.clear()
        self._leads.clear()
        self._hosts.clear()
        self._ready.clear()
        return [lead for lead, _, _ in ranked]

    def _place(self, lead: Lead, seq: int, at: float) -> None:
        self._leads[lead.key] = (lead, seq, at)
        self._push(lead, seq)

    def _push(self, lead: Lead, seq: int) -> None:
        heapq.heappush(self._hosts.setdefault(lead.host, []), (self._rank(lead), seq, lead.key))
        self._announce(lead.host)

    def _announce(self, host: str) -> None:
        top = self._top(host)
        if top is not None and host not in self._asleep:
            heapq.heappush(self._ready, (*top[:2], host))

    def _top(self, host: str) -> tuple[float, int, int] | None:
        """The best item of a host that still counts."""
        heap = self._hosts.get(host)
        while heap:
            if self._counts(heap[0]):
                return heap[0]
            heapq.heappop(heap)
        self._hosts.pop(host, None)
        return None

    def _counts(self, item: tuple[float, int, int]) -> bool:
        known = self._leads.get(item[2])
        return known is not None and (self._rank(known[0]), known[1]) == item[:2]

    def _rank(self, lead: Lead) -> float:
        """The lower the sooner. What is to be looked at again, and what a person lifted, comes first anyhow."""
        return 0.0 if self._habits.breadth and lead.score <= ABOVE_SEEDS else -lead.score

    def _spill(self) -> None:
        kept = heapq.nsmallest(
            self._habits.capacity, self._leads.items(), key=lambda kv: (self._rank(kv[1][0]), kv[1][1])
        )
        best = {key for key, _ in kept}
        for key in [key for key in self._leads if key not in best]:
            del self._leads[key]
        self.spilled = True
