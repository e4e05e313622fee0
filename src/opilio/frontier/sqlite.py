"""The frontier on SQLite: the one a crawl uses. Everything is found by an index; nothing is ever scanned.

It executes statements on a connection it is given and never begins or commits: the store does, so that one visit is
one transaction. If that is rolled back, the frontier notices at its next call and forgets what it had in memory.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from opilio.frontier.front import Front
from opilio.frontier.hosts import Hosts
from opilio.frontier.intake import Intake, Tables
from opilio.frontier.leases import Leases
from opilio.frontier.ledger import Ledger
from opilio.frontier.order import AGAIN, CHOSEN, Moment, Place, sane
from opilio.frontier.policy import EXPIRED, Policy
from opilio.frontier.queue import Queue
from opilio.frontier.schema import DONE, FAILED, QUEUED, SETTLED, WAITING
from opilio.frontier.urls import Urls
from opilio.model.protocols import Added, Entry, FrontierStats
from opilio.model.records import HostLease, Landing, Lead, State

LOWEST = float("-inf")


class SqliteFrontier:
    """Invariants of the protocol, kept on disk. The tables must exist (`schema.create_tables`).

    `front_size` bounds the URLs remembered in memory (about 400 bytes each), `host_cache` the hosts.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        policy: Policy | None = None,
        *,
        front_size: int = 200_000,
        host_cache: int = 200_000,
    ) -> None:
        self._policy = policy or Policy()
        self._order = self._policy.order
        self._tables = Tables(
            Urls(connection),
            Queue(connection),
            Hosts(connection, host_cache),
            Leases(connection),
            Front(front_size),
            Ledger(connection),
        )

    def add(self, leads: Sequence[Lead], now: float) -> Added:
        """Offer links. Known ones are merged, new ones queued, refused ones recorded with the reason."""
        tables = self._open()
        again = [lead for lead in leads if lead.again]
        if again:
            leads = [lead for lead in leads if not lead.again]
        added = Intake(tables, self._policy, now).take(leads)
        if again:
            revived = self._revive(again)
            added = msgspec.structs.replace(
                added, raised=added.raised + revived, known=added.known + len(again) - revived
            )
        tables.urls.note(tables.front.turn())
        tables.ledger.write()
        return added

    def lease(
        self, now: float, max_hosts: int, per_host: int, ttl_s: float, *, above: float = LOWEST
    ) -> list[HostLease]:
        """The hosts that may be asked now, the one with the best URL first, each with its best URLs."""
        tables = self._open()
        self._catch_up(now)
        floor = max(above, self._floor())
        room = self._order.top or max_hosts * per_host
        token = tables.ledger.generation + 1  # grows with every change, so no token is given twice
        leases: list[HostLease] = []
        grants = []
        for id_, name, delay_s, lowest in self._ready(now, max_hosts + len(tables.leases.by_host), above, floor):
            if tables.leases.busy(id_, now):
                continue
            leads = tables.queue.top(id_, name, min(per_host, room), lowest)
            room -= len(leads)
            tables.ledger.lease(len(leads) - len(tables.leases.keys(id_)))
            grants.append((id_, token, now + ttl_s, [lead.key for lead in leads]))
            pause_s = self._policy.delay_s if delay_s is None else delay_s
            leases.append(
                HostLease(host=name, token=token, expires_at=now + ttl_s, leads=tuple(leads), delay_s=pause_s)
            )
            if room <= 0 or len(leases) == max_hosts:
                break
        tables.leases.lend(grants)
        tables.ledger.write()
        return leases

    def _ready(
        self, now: float, limit: int, above: float, floor: float
    ) -> Iterator[tuple[int, str, float | None, float]]:
        """Hosts that may be asked now, each with the lowest sort key that may be; boosted ones first, in any batch."""
        ready, boosted = self._tables.hosts.ready, self._policy.boosted
        if boosted:
            yield from ((*host, above) for host in ready(now, limit, above, tuple(boosted)))
        for host in ready(now, limit + len(boosted), floor):
            if host[1] not in boosted:
                yield (*host, floor)

    def renew(self, leases: Sequence[HostLease], now: float, ttl_s: float) -> set[str]:
        """Hold hosts longer; returns those that are still the caller's."""
        tables = self._open()
        kept = set()
        for lease in leases:
            id_ = self._held(lease)
            if id_ is not None and tables.leases.busy(id_, now):
                tables.leases.renew(id_, now + ttl_s)
                kept.add(lease.host)
        tables.ledger.write()
        return kept

    def _held(self, lease: HostLease) -> int | None:
        """The id of the leased host if the lease is still the last one."""
        host = self._tables.hosts.find(lease.host)
        held = None if host is None else self._tables.leases.by_host.get(host.id)
        return host.id if host is not None and held is not None and held.token == lease.token else None

    def complete(self, lease: HostLease, landings: Sequence[Landing], wake_at: float) -> bool:
        """End a lease. URLs of it that have not landed are queued as before. False: it was no longer held."""
        tables = self._open()
        id_ = self._held(lease)
        if id_ is None:
            return False
        flying = tables.leases.keys(id_)
        landed = {landing.key: landing for landing in reversed(landings) if landing.key in flying}
        settled = [landing for landing in landed.values() if landing.state in SETTLED]
        again = [landing for landing in landed.values() if landing.state is State.QUEUED]
        self._settle(id_, settled)
        if again:
            self._retry(id_, again, wake_at)
        tables.hosts.rest(id_, len(settled), wake_at)
        tables.leases.end(id_)
        tables.ledger.lease(-len(flying))
        tables.ledger.queued -= len(settled)
        tables.ledger.write()
        return True

    def _settle(self, host_id: int, landings: list[Landing]) -> None:
        tables, ledger = self._tables, self._tables.ledger
        tables.urls.settle(
            [(SETTLED[x.state], x.reason or None, *tables.front.forget(x.key), host_id, x.key) for x in landings]
        )
        tables.front.settle(x.key for x in landings)
        for landing in landings:
            name = landing.state.value
            setattr(ledger, name, getattr(ledger, name) + 1)

    def _retry(self, host_id: int, landings: list[Landing], wake_at: float) -> None:
        """A retry that is due before the host wakes needs no timer of its own."""
        tables = self._tables
        rows = []
        for x in landings:
            later = x.retry_at > wake_at
            state, not_before = (WAITING, x.retry_at) if later else (QUEUED, None)
            rows.append((state, x.reason or None, not_before, *tables.front.forget(x.key), host_id, x.key))
        tables.urls.retry(rows)

    def set_delay(self, host: str, delay_s: float) -> None:
        """The pause a host asks for (Crawl-delay, back-off): handed out with its leases, used by `recover`."""
        tables = self._open()
        row = tables.hosts.find(host)
        if row is None:
            row = tables.hosts.make(host)
            tables.ledger.hosts += 1
        tables.hosts.set_delay(row.id, delay_s)
        tables.ledger.write()

    def drop_host(self, host: str, reason: str, pattern: str = "*") -> int:
        """Drop what is queued at a host with an address like `pattern`, but for what is in flight."""
        tables = self._open()
        row = tables.hosts.find(host)
        if row is None:
            return 0
        dropped = tables.drop(tables.urls.unsettled(row.id, pattern), reason)
        tables.ledger.write()
        return dropped

    def rescore(self, scores: Iterable[tuple[str, int, float]]) -> int:
        """New scores, higher or lower, for URLs that are queued and not in flight; how many changed."""
        tables = self._open()
        moment = Moment(tables.ledger.inserted)
        wanted = {}
        for name, key, score in scores:
            host = tables.hosts.find(name)
            if host is not None and key not in tables.leases.keys(host.id):
                wanted[host.id, key] = sane(score)
        held = [(key, tables.front.find(key)) for _, key in wanted]
        missing = [pair for pair, (_, known) in zip(wanted, held, strict=True) if known is None]
        rows = []
        for key, known in (*held, *tables.urls.load(missing)):
            if known is not None and known.score != wanted[known.host_id, key]:
                score = wanted[known.host_id, key]
                place = self._order.place(score, known.seq, moment, Place(known.priority, known.timer))
                rows.append((score, place.priority, place.timer, known.host_id, key))
        self._move(rows)
        return len(rows)

    def _revive(self, leads: Sequence[Lead]) -> int:
        """Have URLs wait in front of all others, those that are done or failed once more; how many do."""
        tables = self._tables
        found = [
            (host.id, x.key, AGAIN + x.again)
            for x in leads
            if (host := tables.hosts.find(x.host)) is not None and x.key not in tables.leases.keys(host.id)
        ]
        revived = tables.urls.revive(found)
        for _, key, _ in revived:
            tables.front.forget(key)
        was = Counter(state for *_, state in revived)
        came = Counter({id_: 0 for id_, *_ in revived})
        came.update(id_ for id_, _, state in revived if state != QUEUED)
        tables.hosts.refresh((id_, -count) for id_, count in came.items())
        tables.ledger.done -= was[DONE]
        tables.ledger.failed -= was[FAILED]
        tables.ledger.queued += was[DONE] + was[FAILED]
        return len(revived)

    def _move(self, rows: list[tuple[float, float, float | None, int, int]]) -> None:
        """Write new places of entries, and what follows for their hosts."""
        tables = self._tables
        if not rows:
            return
        for score, priority, timer, _, key in rows:
            if (known := tables.front.find(key)) is not None:
                known.score, known.priority, known.timer = score, priority, timer
        tables.urls.place(rows)
        tables.hosts.refresh((id_, 0) for id_ in {row[3] for row in rows})
        tables.ledger.write()

    def best(self, limit: int) -> list[Entry]:
        """The best queued URLs that may be asked for as soon as their hosts may."""
        self._open()
        return [self._shown(entry) for _, entry in self._best(limit)]

    def wakes_at(self) -> float | None:
        """When `lease` may give something again: 0 for now, None when nothing is queued."""
        tables = self._open()
        now = tables.hosts.sleepers.clock
        if self._order.batch and (chosen := tables.hosts.chosen(CHOSEN / 2)):
            asleep = min((at for id_, at in chosen if not tables.leases.busy(id_, now)), default=None)
        elif any(not tables.leases.busy(x[0], now) for x in tables.hosts.ready(now, 1 + tables.ledger.leased, LOWEST)):
            asleep = 0.0
        else:
            asleep = tables.hosts.sleepers.first(tables.leases.by_host)
        times = (asleep, tables.leases.first_lapse, tables.queue.first_retry())
        return min((t for t in times if t is not None), default=None)

    def entry(self, host: str, key: int) -> Entry | None:
        """Everything known of one URL."""
        tables = self._open()
        row = tables.hosts.find(host)
        if row is None:
            return None
        found = tables.queue.entry(row.id, host, key, tables.leases.keys(row.id))
        return None if found is None else self._shown(found)

    def stats(self) -> FrontierStats:
        """Counters; nothing is counted for it."""
        tables = self._open()
        n = tables.ledger
        return FrontierStats(
            queued=n.queued,
            leased=n.leased,
            done=n.done,
            failed=n.failed,
            dropped=n.dropped,
            hosts=n.hosts,
            front_hit_rate=tables.front.hit_rate,
        )

    def recover(self, now: float) -> int:
        """On start and at a clean end: what was in flight is queued again, and its hosts rest as if just asked.

        It also writes what the front alone knew: parents after the first, and how often a link was found.
        """
        tables = self._open()
        tables.urls.note(tables.front.news())
        returned = tables.ledger.leased
        tables.hosts.rest_all(tables.leases.end_all(), now, self._policy.delay_s)
        tables.ledger.lease(-returned)
        tables.ledger.write()
        return returned

    def _open(self) -> Tables:
        """The tables, with nothing remembered that is not on disk."""
        if self._tables.ledger.read():
            self._tables.front.clear()
            self._tables.hosts.reset()
            self._tables.leases.reset()
        return self._tables

    def _shown(self, entry: Entry) -> Entry:
        """An entry as it is now: the priority of this moment, and what the front knows beyond the row."""
        known = self._tables.front.find(entry.lead.key)
        return msgspec.structs.replace(
            entry,
            priority=self._order.shown(entry.priority, self._tables.ledger.inserted),
            found=entry.found + (known.pending if known else 0),
            parents=known.parents if known else entry.parents,
        )

    def _catch_up(self, now: float) -> None:
        """Do what time has made due: retries, the order's timers, sleeping hosts."""
        tables = self._tables
        due = tables.urls.wake_retries(now)
        if due:
            tables.urls.note([(*tables.front.forget(key), id_, key) for id_, key in due if tables.front.find(key)])
            tables.hosts.refresh((id_, 0) for id_ in {id_ for id_, _ in due})
        tick = self._order.tick(Moment(tables.ledger.inserted, now))
        if tick is not None:
            self._run_timers(tick)
        tables.hosts.wake(now)

    def _run_timers(self, tick: float) -> None:
        """Delete what has expired (S3-28), or move what has aged enough (S2-E5)."""
        due = self._tables.urls.due(tick)
        if self._order.drops:
            self._tables.drop([(id_, key) for id_, key, *_ in due], EXPIRED)
            return
        moment = Moment(self._tables.ledger.inserted)
        rows = []
        for id_, key, seq, score, place in due:
            priority, timer = self._order.place(score, seq, moment, place)
            rows.append((score, priority, timer, id_, key))
        self._move(rows)

    def _best(self, limit: int) -> list[tuple[int, Entry]]:
        tables = self._tables
        hosts = tables.hosts.best(limit + len(tables.leases.by_host))
        return list(tables.queue.best(hosts, limit, tables.leases.keys))

    def _floor(self) -> float:
        """The lowest sort key that may be leased: an N-best batch is finished before the next is chosen."""
        if not self._order.batch:
            return LOWEST
        if not self._tables.hosts.chosen(CHOSEN / 2):
            self._move(
                [(e.lead.score, e.priority + CHOSEN, None, id_, e.lead.key) for id_, e in self._best(self._order.batch)]
            )
        return CHOSEN / 2
