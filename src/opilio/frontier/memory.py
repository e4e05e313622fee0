"""The frontier in memory: what unit tests and the lab use. It behaves exactly like the one on SQLite, but for hosts
that a person wants first: nobody looks on here.

Heaps are cleaned lazily: an entry counts only while it says what its host or URL says. Nothing survives the process.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import islice

from msgspec.structs import replace

from opilio.frontier.merge import Context, merge
from opilio.frontier.order import AGAIN, CHOSEN, Moment, Place, sane
from opilio.frontier.policy import EXPIRED, HOST_TAIL, HOST_TOTAL, TAIL, Policy
from opilio.frontier.shelves import Host, Shelves, Url
from opilio.model.protocols import Added, Entry, FrontierStats
from opilio.model.records import HostLease, Landing, Lead, State

LOWEST = float("-inf")
OPEN = (State.QUEUED, State.LEASED)


class MemoryFrontier:
    """The protocol's invariants over dicts and heaps."""

    def __init__(self, policy: Policy | None = None) -> None:
        self._policy = policy or Policy()
        self._shelves = Shelves(bounded=self._policy.limits.queued > 0)

    def add(self, leads: Sequence[Lead], now: float) -> Added:
        """Offer links. Known ones are merged, new ones queued, refused ones recorded with the reason."""
        result: Counter[str] = Counter()
        refused: list[int] = []
        touched: dict[str, Host] = {}
        for lead in leads:
            host = self._shelves.host(lead.host)
            touched[lead.host] = host
            url = host.urls.get(lead.key)
            if lead.again:
                result["raised" if url is not None and self._revive(host, url, lead.again) else "known"] += 1
            elif url is None:
                admitted = self._admit(host, lead, now)
                result["new" if admitted else "dropped"] += 1
                if not admitted:
                    refused.append(lead.key)
            elif url.state is State.QUEUED and self._merge(host, url, lead, now):
                result["raised"] += 1
            else:
                result["known"] += 1
        for host in touched.values():
            self._shelves.stir(host, now)
        result["dropped"] += self._keep_limits(touched.values())
        return Added(**result, refused=tuple(refused))

    def _admit(self, host: Host, lead: Lead, now: float) -> bool:
        limit = self._policy.limits.host_total
        reason = self._policy.refuse(lead.url) or (HOST_TOTAL if limit and host.total >= limit else "")
        lead = replace(lead, score=sane(lead.score))
        if reason:
            host.urls[lead.key] = url = Url(lead, 0, Place(0.0))
            url.state, url.reason = State.DROPPED, reason
            self._shelves.count["dropped"] += 1
            return False
        self._shelves.count["inserted"] += 1
        self._shelves.count["queued"] += 1
        seq = self._shelves.count["inserted"]
        host.urls[lead.key] = url = Url(lead, seq, self._policy.order.place(lead.score, seq, Moment(seq, now)))
        host.total += 1
        self._shelves.enqueue(host, url)
        return True

    def _merge(self, host: Host, url: Url, lead: Lead, now: float) -> bool:
        """Take over what another link adds; has the URL risen?"""
        old = url.lead
        known = Context(old.score, old.depth, old.tunnel, old.parent, url.parents)
        after = merge(self._policy.merge, known, lead)
        url.found += 1
        url.parents = after.parents
        features = lead.features or old.features if after.better else old.features
        url.lead = replace(
            old,
            score=after.score,
            depth=after.depth,
            tunnel=after.tunnel,
            parent=after.parent,
            features=features,
        )
        before = url.place.priority
        if after.score != old.score:
            moment = Moment(self._shelves.count["inserted"], now)
            self._shelves.move(host, url, self._policy.order.place(after.score, url.seq, moment, url.place))
        return url.place.priority > before

    def _keep_limits(self, hosts: Iterable[Host]) -> int:
        limits = self._policy.limits
        dropped = 0
        if limits.host_queued:
            for host in hosts:
                excess = max(0, len(host.queue) + host.waiting - limits.host_queued)
                victims = (host.urls[rank[2]] for rank in reversed(host.queue) if rank[2] not in host.leased)
                dropped += self._shelves.drop(list(islice(victims, excess)), HOST_TAIL)
        excess = self._shelves.count["queued"] - limits.queued
        if limits.queued and excess > limits.slack:
            every = (self._shelves.hosts[name].urls[key] for _, _, name, key in self._shelves.tail or ())
            victims = (url for url in every if url.state is State.QUEUED)
            dropped += self._shelves.drop(list(islice(victims, excess)), TAIL)
        return dropped

    def lease(
        self, now: float, max_hosts: int, per_host: int, ttl_s: float, *, above: float = LOWEST
    ) -> list[HostLease]:
        """The hosts that may be asked now, the one with the best URL first, each with its best URLs."""
        self._catch_up(now)
        floor = max(above, self._floor(choose=True))
        room = self._policy.order.top or max_hosts * per_host
        leases: list[HostLease] = []
        while room > 0 and len(leases) < max_hosts and (host := self._shelves.next_ready(floor)) is not None:
            heapq.heappop(self._shelves.ready)
            leads = self._lend(host, min(per_host, room), floor)
            host.ready, host.wake_at, host.token = False, now + ttl_s, host.token + 1
            self._shelves.stir(host)
            room -= len(leads)
            delay_s = self._policy.delay_s if host.delay_s is None else host.delay_s
            leases.append(
                HostLease(host=host.name, token=host.token, expires_at=now + ttl_s, leads=leads, delay_s=delay_s)
            )
        return leases

    def _lend(self, host: Host, limit: int, floor: float) -> tuple[Lead, ...]:
        self._shelves.unlease(host)
        urls = [host.urls[key] for priority, _, key in host.queue[:limit] if -priority >= floor]
        for url in urls:
            url.state = State.LEASED
        self._shelves.count["leased"] += len(urls)
        self._shelves.count["queued"] -= len(urls)
        host.leased = frozenset(url.lead.key for url in urls)
        return tuple(url.lead for url in urls)

    def renew(self, leases: Sequence[HostLease], now: float, ttl_s: float) -> set[str]:
        """Hold hosts longer; returns those that are still the caller's."""
        kept = set()
        for lease in leases:
            host = self._shelves.hosts.get(lease.host)
            if host and host.token == lease.token and host.leased and host.wake_at > now:
                host.wake_at, host.ready = now + ttl_s, False
                self._shelves.stir(host)
                kept.add(lease.host)
        return kept

    def complete(self, lease: HostLease, landings: Sequence[Landing], wake_at: float) -> bool:
        """End a lease. URLs of it that have not landed are queued as before. False: it was no longer held."""
        host = self._shelves.hosts.get(lease.host)
        if host is None or host.token != lease.token or not host.leased:
            return False
        for landing in landings:
            url = host.urls.get(landing.key)
            if url is None or url.state is not State.LEASED:
                continue
            if landing.state is State.QUEUED:
                self._retry(host, url, landing, wake_at)
            elif landing.state is not State.LEASED:
                self._shelves.leave(host, url, landing.state, landing.reason)
        self._shelves.unlease(host)
        host.ready, host.wake_at = False, wake_at
        self._shelves.stir(host)
        return True

    def _retry(self, host: Host, url: Url, landing: Landing, wake_at: float) -> None:
        """A retry that is due before the host wakes needs no timer of its own."""
        url.lead = replace(url.lead, retries=url.lead.retries + 1)
        url.state, url.reason = State.QUEUED, landing.reason
        self._shelves.count["leased"] -= 1
        self._shelves.count["queued"] += 1
        if landing.retry_at > wake_at:
            self._shelves.dequeue(host, url)
            url.retry_at = landing.retry_at
            host.waiting += 1
            heapq.heappush(self._shelves.retries, (landing.retry_at, host.name, url.lead.key))

    def set_delay(self, host: str, delay_s: float) -> None:
        """The pause a host asks for (Crawl-delay, back-off): handed out with its leases, used by `recover`."""
        self._shelves.host(host).delay_s = delay_s

    def drop_host(self, host: str, reason: str, pattern: str = "*") -> int:
        """Drop what is queued at a host with an address like `pattern`, but for what is in flight."""
        known = self._shelves.hosts.get(host)
        if known is None:
            return 0
        return self._shelves.drop([url for url in known.urls.values() if fnmatchcase(url.lead.url, pattern)], reason)

    def rescore(self, scores: Iterable[tuple[str, int, float]]) -> int:
        """New scores, higher or lower, for URLs that are queued and not in flight; how many changed."""
        moment = Moment(self._shelves.count["inserted"])
        changed = set()
        for name, key, score in {(n, k): (n, k, sane(s)) for n, k, s in scores}.values():
            host = self._shelves.hosts.get(name)
            url = None if host is None else host.urls.get(key)
            if host is None or url is None or url.state is not State.QUEUED or url.lead.score == score:
                continue
            url.lead = replace(url.lead, score=score)
            self._shelves.move(host, url, self._policy.order.place(score, url.seq, moment, url.place))
            self._shelves.stir(host)
            changed.add((name, key))
        return len(changed)

    def _revive(self, host: Host, url: Url, urgency: float) -> bool:
        """Have a URL wait in front of all others, once more where it is done or failed."""
        if url.state is State.QUEUED and url.retry_at is None:
            self._shelves.move(host, url, Place(AGAIN + urgency))
            return True
        if url.state not in (State.DONE, State.FAILED):
            return False
        self._shelves.count[url.state.value] -= 1
        self._shelves.count["queued"] += 1
        url.state, url.reason, url.lead = State.QUEUED, "", replace(url.lead, retries=0)
        url.place = Place(AGAIN + urgency)
        self._shelves.enqueue(host, url)
        return True

    def best(self, limit: int) -> list[Entry]:
        """The best queued URLs that may be asked for as soon as their hosts may."""
        return [self._entry(url) for url in islice(self._shelves.in_order(), limit)]

    def wakes_at(self) -> float | None:
        """When `lease` may give something again: 0 for now, None when nothing is queued."""
        shelves, floor = self._shelves, self._floor(choose=False)
        if floor == LOWEST:
            asleep = 0.0 if shelves.next_ready(LOWEST) else shelves.first_wake()
        else:  # an N-best batch: only hosts that have something of it count
            chosen = [host for host in shelves.hosts.values() if host.queue and -host.queue[0][0] >= floor]
            asleep = min((0.0 if host.ready else host.wake_at for host in chosen), default=None)
        return min((t for t in (asleep, shelves.first_retry()) if t is not None), default=None)

    def entry(self, host: str, key: int) -> Entry | None:
        """Everything known of one URL."""
        known = self._shelves.hosts.get(host)
        url = None if known is None else known.urls.get(key)
        return None if url is None else self._entry(url)

    def _entry(self, url: Url) -> Entry:
        return Entry(
            lead=url.lead,
            state=url.state,
            priority=self._policy.order.shown(url.place.priority, self._shelves.count["inserted"]),
            reason=url.reason,
            parents=url.parents,
            found=url.found,
            seq=url.seq,
        )

    def stats(self) -> FrontierStats:
        """Counters."""
        states = {state.value: self._shelves.count[state.value] for state in State}
        return FrontierStats(**states, hosts=len(self._shelves.hosts), front_hit_rate=1.0)

    def recover(self, now: float) -> int:
        """On start: URLs that were in flight are queued again, and their hosts rest as if just asked."""
        returned = self._shelves.count["leased"]
        for host in self._shelves.hosts.values():
            if host.leased:
                self._shelves.unlease(host)
                delay_s = self._policy.delay_s if host.delay_s is None else host.delay_s
                host.ready, host.wake_at, host.token = False, now + delay_s, host.token + 1
                self._shelves.stir(host)
        return returned

    def _catch_up(self, now: float) -> None:
        """Do what time has made due: retries, the order's timers, sleeping hosts."""
        while (at := self._shelves.first_retry()) is not None and at <= now:
            _, name, key = heapq.heappop(self._shelves.retries)
            host = self._shelves.hosts[name]
            host.urls[key].retry_at = None
            host.waiting -= 1
            self._shelves.enqueue(host, host.urls[key])
            self._shelves.stir(host)
        tick = self._policy.order.tick(Moment(self._shelves.count["inserted"], now))
        if tick is not None:
            self._run_timers(tick)
        while (at := self._shelves.first_wake()) is not None and at <= now:
            _, name = heapq.heappop(self._shelves.sleeping)
            self._shelves.stir(self._shelves.hosts[name], now)

    def _run_timers(self, tick: float) -> None:
        """Delete what has expired (S3-28), or move what has aged enough (S2-E5)."""
        flying = []
        moment = Moment(self._shelves.count["inserted"])
        while self._shelves.timers and self._shelves.timers[0][0] <= tick:
            timer, seq, name, key = heapq.heappop(self._shelves.timers)
            host = self._shelves.hosts[name]
            url = host.urls[key]
            if url.place.timer != timer or url.state not in OPEN:
                continue
            if not self._policy.order.drops:
                self._shelves.move(host, url, self._policy.order.place(url.lead.score, url.seq, moment, url.place))
                self._shelves.stir(host)
            elif url.state is State.LEASED:
                flying.append((timer, seq, name, key))
            else:
                self._shelves.drop([url], EXPIRED)
        for entry in flying:
            heapq.heappush(self._shelves.timers, entry)

    def _floor(self, *, choose: bool) -> float:
        """The lowest sort key that may be leased: an N-best batch is finished before the next is chosen."""
        batch = self._policy.order.batch
        if not batch:
            return LOWEST
        if any(host.queue and -host.queue[0][0] >= CHOSEN / 2 for host in self._shelves.hosts.values()):
            return CHOSEN / 2
        if not choose:
            return LOWEST
        for url in list(islice(self._shelves.in_order(), batch)):
            host = self._shelves.hosts[url.lead.host]
            self._shelves.move(host, url, Place(url.place.priority + CHOSEN))
            self._shelves.stir(host)
        return CHOSEN / 2
