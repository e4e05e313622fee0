"""How links enter the PostgreSQL frontier: the seen test, merging, admission. Seven statements per batch.

Known URLs are looked up without a lock; only hosts whose rows change are locked.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from opilio.core.protocols import AddResult, Database
from opilio.core.records import Lead
from opilio.frontier.policy import (
    AGGREGATING_POLICIES,
    HOST_TOTAL_REACHED,
    MAX_PARENTS,
    FrontierPolicy,
    MergeState,
    QueueTime,
    finite_or_zero,
    merge_link,
    reposition,
)
from opilio.frontier.postgres.tables import FrontierCounts, HostRows, LockedHost, UrlRows
from opilio.frontier.sqlite.add import insert_row, promoted_row
from opilio.frontier.sqlite.schema import DROPPED
from opilio.frontier.sqlite.url_cache import CachedUrl


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
        self._policy = policy
        self._now = now
        self._aggregates = policy.merge in AGGREGATING_POLICIES
        self._inserted = 0
        self._locked: dict[str, LockedHost] = {}
        self._totals: Counter[str] = Counter()  # URLs ever accepted from each locked host
        self._sources: dict[int, Lead] = {}  # the link whose features count
        self._new: dict[int, CachedUrl] = {}
        self._promoted: dict[int, CachedUrl] = {}
        self._found: dict[int, CachedUrl] = {}
        self._refused: list[tuple[object, ...]] = []

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
        refused = tuple(int(str(row[1])) for row in self._refused)
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
            self._inserted = rows.counts.inserted(lock=True)
            # Another process may have added links between the test and the lock.
            unsure = [(self._locked[lead.host].id, lead.key) for lead in leads if lead.key not in seen]
            seen.update(rows.urls.load(unsure))
        elif self._locked:
            self._inserted = rows.counts.inserted()
        return seen

    def _keys_in_flight(self, host: str) -> frozenset[int]:
        locked = self._locked.get(host)
        return frozenset() if locked is None else locked.keys

    def _admit(self, lead: Lead, host: LockedHost) -> CachedUrl | None:
        """Queue a URL never seen before, or record why it is refused."""
        limit, full = self._policy.limits.host_total, self._totals[host.name]
        reason = self._policy.refusal_reason(lead.url) or (HOST_TOTAL_REACHED if limit and full >= limit else "")
        parents = (lead.parent,) if lead.parent else ()
        known = CachedUrl(host.id, 0, finite_or_zero(lead.score), lead.depth, lead.tunnel, lead.parent, parents)
        if reason:
            self._refused.append(insert_row(lead, known, DROPPED, reason))
            return None
        self._inserted += 1
        self._totals[host.name] += 1
        known.seq = self._inserted
        known.priority, known.timer, _ = self._policy.order.position(known.score, known.seq, self._moment())
        self._new[lead.key] = known
        self._sources[lead.key] = lead
        return known

    def _find_again(self, lead: Lead, known: CachedUrl) -> bool:
        """Another link to a queued URL; returns whether its priority rose."""
        known.pending += 1
        self._found[lead.key] = known
        fresh = len(known.parents) < MAX_PARENTS and lead.parent not in known.parents and lead.parent
        better = lead.score > known.score or lead.depth < known.depth or lead.tunnel < known.tunnel
        if better or (fresh and self._aggregates):
            return self._merge(lead, known)
        if fresh:
            known.parents = (*known.parents, lead.parent)
        return False

    def _merge(self, lead: Lead, known: CachedUrl) -> bool:
        """Merge what the link adds; returns whether the URL's priority rose."""
        before = MergeState(known.score, known.depth, known.tunnel, known.parent, known.parents)
        after = merge_link(self._policy.merge, before, lead)
        known.score, known.depth, known.tunnel, known.parent, known.parents, better = after
        if better:
            self._sources[lead.key] = lead
        if lead.key not in self._new and (better or after.score != before.score or after.depth != before.depth):
            self._promoted[lead.key] = known
        if after.score == before.score:
            return False
        old = known.priority
        known.priority, known.timer, known.tier = reposition(
            self._policy.order, known.score, known.seq, self._moment(), known.position
        )
        return known.priority > old

    def _moment(self) -> QueueTime:
        return QueueTime(self._inserted, self._now)

    def _write(self) -> None:
        """Write everything that changed, one batch per kind."""
        rows = self._rows
        new = [insert_row(self._sources[key], known) for key, known in self._new.items()]
        rows.urls.insert(new + self._refused)
        if self._promoted:
            rows.urls.promote([promoted_row(key, url, self._sources.get(key)) for key, url in self._promoted.items()])
        rows.urls.write_found(
            [(*url.take_pending(), url.host_id, key) for key, url in self._found.items() if url.pending]
        )
        accepted = Counter(known.host_id for known in self._new.values())
        touched = accepted.keys() | {known.host_id for known in self._promoted.values()}
        rows.hosts.refresh((id_, -accepted[id_], accepted[id_]) for id_ in touched)
        if self._new:
            rows.counts.set_inserted(self._inserted)
        rows.counts.add(queued=len(self._new), dropped=len(self._refused))
