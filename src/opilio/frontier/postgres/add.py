"""How links enter the PostgreSQL frontier: the seen test, merging, admission. Seven statements per batch.

Known URLs are looked up without a lock; only hosts whose rows change are locked.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from opilio.core.protocols import AddResult, Database
from opilio.core.records import Lead
from opilio.frontier.link_batch import CachedUrl, LinkBatch
from opilio.frontier.policy import AGGREGATING_POLICIES, MAX_PARENTS, FrontierPolicy
from opilio.frontier.postgres.tables import FrontierCounts, HostRows, LockedHost, UrlRows


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
        self._totals: Counter[str] = Counter()  # URLs ever accepted from each locked host
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
