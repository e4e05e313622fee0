"""How links enter the SQLite frontier: the seen test, merging, admission, limits.

A page brings about a hundred links, most of them known. Those cost a dict look-up; only new URLs, better scores
and new parents reach the database, each kind in one batch.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from opilio.frontier.front import Front, Known
from opilio.frontier.hosts import HostRow, Hosts
from opilio.frontier.leases import Leases
from opilio.frontier.ledger import Ledger
from opilio.frontier.merge import AGGREGATES, MAX_PARENTS, Context, merge
from opilio.frontier.order import Moment, Place, sane
from opilio.frontier.policy import HOST_TAIL, HOST_TOTAL, TAIL, Policy
from opilio.frontier.queue import Queue
from opilio.frontier.schema import DROPPED, QUEUED, pack
from opilio.frontier.urls import InsertRow, Urls
from opilio.model.protocols import Added
from opilio.model.records import Lead


class Tables(NamedTuple):
    """What the frontier keeps on disk, and what it remembers of it."""

    urls: Urls
    queue: Queue
    hosts: Hosts
    leases: Leases
    front: Front
    ledger: Ledger

    def drop(self, pairs: Iterable[tuple[int, int]], reason: str) -> int:
        """Drop queued (host id, key) pairs, but for those in flight."""
        rows = [
            (DROPPED, reason, *self.front.forget(key), host_id, key)
            for host_id, key in pairs
            if key not in self.leases.keys(host_id)
        ]
        self.urls.settle(rows)
        self.front.settle(row[5] for row in rows)
        self.hosts.refresh(Counter(row[4] for row in rows).items())
        self.ledger.queued -= len(rows)
        self.ledger.dropped += len(rows)
        return len(rows)


class Intake:
    """One batch of links on its way in."""

    def __init__(self, tables: Tables, policy: Policy, now: float) -> None:
        self._tables = tables
        self._policy = policy
        self._now = now
        self._aggregates = policy.merge in AGGREGATES
        self._sources: dict[int, Lead] = {}  # the link whose features count
        self._new: dict[int, Known] = {}
        self._lifted: dict[int, Known] = {}
        self._refused: list[InsertRow] = []

    def take(self, leads: Sequence[Lead]) -> Added:
        """Let them in, write what changed, keep the limits."""
        tables = self._tables
        hosts = {name: tables.hosts.find(name) for name in {lead.host for lead in leads}}
        seen = self._seen(leads, hosts)
        leased = tables.leases.by_host
        new, raised = 0, 0
        for lead in leads:
            key = lead.key
            if key not in seen:
                seen[key] = known = self._admit(lead, self._host(lead.host, hosts))
                new += known is not None
                continue
            known = seen[key]
            # Settled, or in flight: neither queued nor scored again (S3-26).
            if known is None or (known.host_id in leased and key in leased[known.host_id].keys):
                continue
            known.pending += 1
            if lead.score > known.score or lead.depth < known.depth or lead.tunnel < known.tunnel:
                raised += self._merge(lead, known, hosts)
            elif len(known.parents) < MAX_PARENTS and lead.parent not in known.parents and lead.parent:
                if self._aggregates:
                    raised += self._merge(lead, known, hosts)
                else:  # the commonest news by far: only another parent
                    known.parents = (*known.parents, lead.parent)
        self._write(hosts)
        refused = tuple(key for _, key, *_ in self._refused)
        known_before = len(leads) - new - raised - len(refused)
        dropped = len(refused) + self._keep_limits(hosts)
        return Added(new=new, raised=raised, known=known_before, dropped=dropped, refused=refused)

    def _seen(self, leads: Sequence[Lead], hosts: dict[str, HostRow | None]) -> dict[int, Known | None]:
        """The URL-seen test: the front, and the rows of what it does not hold."""
        seen = self._tables.front.young({lead.key for lead in leads})
        missing = [
            (host.id, lead.key) for lead in leads if lead.key not in seen and (host := hosts[lead.host]) is not None
        ]
        seen.update(self._tables.urls.load(missing))
        return seen

    def _admit(self, lead: Lead, host: HostRow) -> Known | None:
        """A URL never seen before."""
        limit = self._policy.limits.host_total
        reason = self._policy.refuse(lead.url) or (HOST_TOTAL if limit and host.total >= limit else "")
        ledger = self._tables.ledger
        parents = (lead.parent,) if lead.parent else ()
        known = Known(host.id, 0, sane(lead.score), lead.depth, lead.tunnel, lead.parent, parents)
        if reason:
            ledger.dropped += 1
            self._refused.append(_row(lead, known, DROPPED, reason))
            return None
        ledger.inserted += 1
        ledger.queued += 1
        known.seq = ledger.inserted
        known.priority, known.timer = self._place(known, None)
        host.queued += 1
        host.total += 1
        host.offer(known.priority, known.seq)
        self._new[lead.key] = known
        self._sources[lead.key] = lead
        return known

    def _host(self, name: str, hosts: dict[str, HostRow | None]) -> HostRow:
        host = hosts[name]
        if host is None:
            host = hosts[name] = self._tables.hosts.make(name)
            self._tables.ledger.hosts += 1
        return host

    def _merge(self, lead: Lead, known: Known, hosts: dict[str, HostRow | None]) -> bool:
        """Take over what the link adds; has the URL risen?"""
        before = Context(known.score, known.depth, known.tunnel, known.parent, known.parents)
        after = merge(self._policy.merge, before, lead)
        known.score, known.depth, known.tunnel, known.parent, known.parents, better = after
        if better:
            self._sources[lead.key] = lead
        if lead.key not in self._new and (better or after.score != before.score or after.depth != before.depth):
            self._lifted[lead.key] = known
        if after.score == before.score:
            return False
        old = known.priority
        known.priority, known.timer = self._place(known, Place(old, known.timer))
        host = hosts[lead.host]
        if host is not None and not known.waiting:
            host.offer(known.priority, known.seq)
        return known.priority > old

    def _place(self, known: Known, previous: Place | None) -> Place:
        moment = Moment(self._tables.ledger.inserted, self._now)
        return self._policy.order.place(known.score, known.seq, moment, previous)

    def _write(self, hosts: dict[str, HostRow | None]) -> None:
        """Everything that changed, kind by kind."""
        tables = self._tables
        tables.urls.insert([_row(self._sources[key], known) for key, known in self._new.items()] + self._refused)
        tables.urls.lift(_lifted_row(key, known, self._sources.get(key)) for key, known in self._lifted.items())
        touched = {known.host_id for known in self._new.values()} | {known.host_id for known in self._lifted.values()}
        tables.hosts.save([h for h in hosts.values() if h is not None and h.id in touched])

    def _keep_limits(self, hosts: dict[str, HostRow | None]) -> int:
        """Drop the tails that are over the limits; how many URLs that were."""
        tables, limits = self._tables, self._policy.limits
        dropped = 0
        if limits.host_queued:
            for host in hosts.values():
                excess = 0 if host is None else host.queued - limits.host_queued
                if host is not None and excess > 0:
                    flying = tables.leases.keys(host.id)
                    tail = [p for p in tables.queue.tail(excess + len(flying), host.id) if p[1] not in flying]
                    dropped += tables.drop(tail[:excess], HOST_TAIL)
        excess = tables.ledger.queued - limits.queued
        if limits.queued and excess > limits.slack:
            tail = tables.queue.tail(excess + tables.ledger.leased)
            tail = [(id_, key) for id_, key in tail if key not in tables.leases.keys(id_)]
            dropped += tables.drop(tail[:excess], TAIL)
        return dropped


def _lifted_row(key: int, known: Known, source: Lead | None) -> tuple[object, ...]:
    return (
        known.score,
        known.priority,
        known.timer,
        known.depth,
        known.tunnel,
        known.parent,
        *known.news(),
        None if source is None else source.features or None,
        known.host_id,
        key,
    )


def _row(lead: Lead, known: Known, state: int = QUEUED, reason: str | None = None) -> InsertRow:
    return (
        known.host_id,
        lead.key,
        state,
        known.seq,
        known.priority,
        known.score,
        known.depth,
        known.tunnel,
        known.parent,
        lead.hops,
        lead.retries,
        1 + known.news()[0],
        lead.url,
        None if known.parents in ((), (known.parent,)) else pack(known.parents),
        lead.features or None,
        reason,
        known.timer,
    )
