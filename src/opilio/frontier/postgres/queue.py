"""The queue of the PostgreSQL frontier: how links enter it, and its best and worst URLs.

Known URLs are looked up without a lock; only hosts whose rows change are locked.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from opilio.core.protocols import AddResult, Database, FrontierEntry
from opilio.core.records import Lead
from opilio.frontier.link_batch import CachedUrl, LinkBatch
from opilio.frontier.policy import AGGREGATING_POLICIES, MAX_PARENTS, FrontierPolicy, QueuePosition
from opilio.frontier.postgres.tables import MAX_DUE_ROWS, FrontierCounts, HostRows, LockedHost, UrlRows
from opilio.frontier.schema import unpack_keys
from opilio.frontier.sqlite.urls import LEAD_COLUMNS, QueueReader, row_to_lead


class FrontierRows(NamedTuple):
    """The frontier's tables."""

    hosts: HostRows
    urls: UrlRows
    counts: FrontierCounts

    @classmethod
    def of(cls, db: Database) -> "FrontierRows":
        return cls(HostRows(db), UrlRows(db), FrontierCounts(db))


class PostgresAdder:
    """Adds one batch of links."""

    def __init__(self, rows: FrontierRows, policy: FrontierPolicy, now: float) -> None:
        self._rows = rows
        self._batch = LinkBatch(policy, now)
        self._aggregates = policy.merge in AGGREGATING_POLICIES
        self._locked: dict[str, LockedHost] = {}
        # URLs ever accepted from each locked host.
        self._totals: Counter[str] = Counter()
        self._found: dict[int, CachedUrl] = {}

    def add(self, leads: Sequence[Lead]) -> AddResult:
        """Add the links and write what changed."""
        seen = self._prepare(leads)
        new, raised = 0, 0
        for lead in leads:
            if lead.key not in seen:
                seen[lead.key] = known = self._admit(lead, self._locked[lead.host])
                new += known is not None
                continue
            known = seen[lead.key]
            # Settled, or in flight: neither queued nor scored again (S3-26).
            if known is not None and lead.key not in self._keys_in_flight(lead.host):
                raised += self._find_again(lead, known)
        self._write()
        refused = self._batch.refused
        known_before = len(leads) - new - raised - len(refused)
        return AddResult(new=new, promoted=raised, known=known_before, dropped=len(refused), refused=refused)

    def _prepare(self, leads: Sequence[Lead]) -> dict[int, CachedUrl | None]:
        """The URL-seen test, then the locks of all hosts that will change."""
        rows = self._rows
        ids = rows.hosts.ids({lead.host for lead in leads})
        pairs = {(ids[lead.host], lead.key) for lead in leads if lead.host in ids}
        seen = rows.urls.load(sorted(pairs))
        changing = {lead.host for lead in leads if lead.key not in seen or seen[lead.key] is not None}
        missing = [name for name in changing if name not in ids]
        if missing:
            rows.counts.add(hosts=len(rows.hosts.insert(missing)))
        self._locked = rows.hosts.lock(changing)
        self._totals.update({host.name: host.total for host in self._locked.values()})
        if any(lead.key not in seen for lead in leads):
            self._batch.inserted = rows.counts.inserted(lock=True)
            # Another process may have added links between the test and the lock.
            unsure = [(self._locked[lead.host].id, lead.key) for lead in leads if lead.key not in seen]
            seen.update(rows.urls.load(unsure))
        elif self._locked:
            self._batch.inserted = rows.counts.inserted()
        return seen

    def _keys_in_flight(self, host: str) -> frozenset[int]:
        locked = self._locked.get(host)
        return frozenset() if locked is None else locked.keys

    def _admit(self, lead: Lead, host: LockedHost) -> CachedUrl | None:
        """Queue a URL never seen before, or record why it is refused."""
        known = self._batch.admit(lead, host.id, self._totals[host.name])
        self._totals[host.name] += known is not None
        return known

    def _find_again(self, lead: Lead, known: CachedUrl) -> bool:
        """Another link to a queued URL; returns whether its priority rose."""
        known.pending += 1
        self._found[lead.key] = known
        fresh = len(known.parents) < MAX_PARENTS and lead.parent not in known.parents and lead.parent
        better = lead.score > known.score or lead.depth < known.depth or lead.tunnel < known.tunnel
        if better or lead.tier > known.tier or (fresh and self._aggregates):
            return self._batch.merge(lead, known)
        if fresh:
            known.parents = (*known.parents, lead.parent)
        return False

    def _write(self) -> None:
        """Write everything that changed, one batch per kind."""
        rows, batch = self._rows, self._batch
        rows.urls.insert(batch.inserts())
        if batch.promoted:
            rows.urls.promote(list(batch.promotions()))
        rows.urls.write_found(
            [(*url.take_pending(), url.host_id, key) for key, url in self._found.items() if url.pending]
        )
        accepted = Counter(known.host_id for known in batch.new.values())
        rows.hosts.refresh((id_, -accepted[id_], accepted[id_]) for id_ in batch.host_ids)
        if batch.new:
            rows.counts.set_inserted(batch.inserted)
        rows.counts.add(queued=len(batch.new), dropped=len(batch.refused))


class PostgresQueue:
    """Queued URLs in order. Nothing is locked."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._reader = QueueReader(db)

    def best_of_hosts(self, hosts: Sequence[tuple[Any, ...]], limit: int, min_tier: int) -> list[list[Lead]]:
        """The best queued URLs of each of these (id, name, …) hosts."""
        if not hosts:
            return []
        rows = self._db.execute(
            f"SELECT h.n, u.* FROM unnest(CAST(? AS bigint[])) WITH ORDINALITY AS h (id, n) CROSS JOIN LATERAL"
            f" (SELECT {LEAD_COLUMNS} FROM frontier_url WHERE host_id = h.id AND state = 0 AND tier >= ?"
            " ORDER BY tier DESC, priority DESC, seq LIMIT ?) AS u ORDER BY h.n, tier DESC",
            ([host[0] for host in hosts], min_tier, limit),
        ).fetchall()
        found = {n: [row_to_lead(row[1:], hosts[n - 1][1]) for row in own] for n, own in groupby(rows, itemgetter(0))}
        return [found.get(n, []) for n in range(1, len(hosts) + 1)]

    def best(self, limit: int) -> Iterator[tuple[int, FrontierEntry]]:
        """The best queued URLs that are not in flight, with their host ids: a merge of the queues of the best hosts."""
        in_flight = {
            id_: frozenset(unpack_keys(keys))
            for id_, keys in self._db.execute("SELECT id, keys FROM frontier_host WHERE keys IS NOT NULL")
        }
        hosts = self._db.execute(
            "SELECT id, name, best_tier, best, best_seq FROM frontier_host WHERE best IS NOT NULL"
            " ORDER BY best_tier DESC, best DESC, best_seq LIMIT ?",
            (limit + len(in_flight),),
        ).fetchall()
        return self._reader.best(hosts, limit, lambda id_: in_flight.get(id_, frozenset()))

    def worst(self, limit: int) -> list[tuple[int, int]]:
        """(host id, key) of the worst queued URLs of all hosts."""
        return self._reader.worst(limit)

    def entry(self, host: str, key: int) -> FrontierEntry | None:
        """Everything about one URL."""
        row = self._db.execute("SELECT id, keys FROM frontier_host WHERE name = ?", (host,)).fetchone()
        return None if row is None else self._reader.entry(row[0], host, key, frozenset(unpack_keys(row[1])))

    def wakes_at(self, now: float, *, batch: bool) -> float | None:
        """When a host may be leased: 0 for now; `batch`: only hosts of an N-best batch, if there is one."""
        if batch and self.has_tier(1):
            awake = "SELECT min(CASE WHEN wake_at <= ? THEN 0 ELSE wake_at END) FROM frontier_host"
            times = [self._db.execute(f"{awake} WHERE best IS NOT NULL AND best_tier >= 1", (now,)).fetchone()[0]]
        else:
            ready = "SELECT 0.0 FROM frontier_host WHERE parked = 0 AND best IS NOT NULL AND wake_at <= ? LIMIT 1"
            if self._db.execute(ready, (now,)).fetchone():
                return 0.0
            soonest = "SELECT min(wake_at) FROM frontier_host WHERE best IS NOT NULL AND parked ="
            times = [self._db.execute(f"{soonest} {parked}").fetchone()[0] for parked in (0, 1)]
        times.append(self._reader.next_retry())
        return min((float(at) for at in times if at is not None), default=None)

    def has_tier(self, tier: int) -> bool:
        """Has a host a URL in this tier or above?"""
        sql = "SELECT 1 FROM frontier_host WHERE best IS NOT NULL AND best_tier >= ? LIMIT 1"
        return self._db.execute(sql, (tier,)).fetchone() is not None

    def unfinished(self, host_id: int) -> list[tuple[int, str]]:
        """(key, URL) of URLs queued, waiting or in flight at a host."""
        sql = "SELECT key, url FROM frontier_url WHERE host_id = ? AND state < 2"
        return self._db.execute(sql, (host_id,)).fetchall()

    def timers_due(self, tick: float) -> list[tuple[int, int, int, float, QueuePosition]]:
        """Entries whose timer is due: (host id, key, seq, score, position)."""
        rows = self._db.execute(
            "SELECT host_id, key, seq, score, priority, timer, tier FROM frontier_url"
            " WHERE timer IS NOT NULL AND state < 2 AND timer <= ? ORDER BY timer, seq LIMIT ?",
            (tick, MAX_DUE_ROWS),
        ).fetchall()
        return [(host_id, key, seq, score, QueuePosition(*place)) for host_id, key, seq, score, *place in rows]

    def set_delay(self, host: str, delay_s: float) -> None:
        """Set the delay between requests to a host."""
        self._db.execute("UPDATE frontier_host SET delay_s = ? WHERE name = ?", (delay_s, host))
