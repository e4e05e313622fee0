"""One batch of links on its way into a frontier with rows: what is new, what rises, what is refused.

The frontiers in SQLite and PostgreSQL share it. They look up the URLs, lock and write the rows.
"""

from collections.abc import Iterator

import msgspec

from opilio.core.records import Lead
from opilio.frontier.policy import (
    HOST_TOTAL_REACHED,
    FrontierPolicy,
    MergeState,
    QueuePosition,
    QueueTime,
    finite_or_zero,
    first_position,
    merge_link,
    merged_position,
)
from opilio.frontier.schema import DROPPED, QUEUED, pack_keys

# Links found since the row was written, parents if there are new ones.
PendingUpdate = tuple[int, bytes | None]
NO_UPDATE: PendingUpdate = (0, None)


class CachedUrl(msgspec.Struct, gc=False):
    """A cached queued URL (it holds no containers of others, so the garbage collector need not visit it).

    `pending` counts links seen since its row was written. They and the parents after the first are written with the
    row's next change, or when it is evicted: writing each at once made `add` half as expensive again (measured).
    """

    host_id: int
    seq: int
    score: float
    depth: int
    tunnel: int
    parent: int
    # First finder first, at most MAX_PARENTS.
    parents: tuple[int, ...] = ()
    priority: float = 0.0
    timer: float | None = None
    waiting: bool = False
    pending: int = 0
    tier: int = 0

    @property
    def position(self) -> QueuePosition:
        return QueuePosition(self.priority, self.timer, self.tier)

    def take_pending(self) -> PendingUpdate:
        """Return and clear the changes that the row does not have yet; the caller writes them."""
        pending, self.pending = self.pending, 0
        return (pending, pack_keys(self.parents)) if pending else NO_UPDATE


class LinkBatch:
    """Admits and merges links. `inserted` counts the URLs ever inserted, and so numbers new ones."""

    def __init__(self, policy: FrontierPolicy, now: float) -> None:
        self.inserted = 0
        self.new: dict[int, CachedUrl] = {}
        self.promoted: dict[int, CachedUrl] = {}
        self._policy = policy
        self._now = now
        # The link whose features count.
        self._sources: dict[int, Lead] = {}
        self._refused: list[tuple[object, ...]] = []
        self._refused_keys: list[int] = []

    def admit(self, lead: Lead, host_id: int, host_total: int) -> CachedUrl | None:
        """Queue a URL never seen before, or record why it is refused; `host_total` URLs of its host were accepted."""
        limit = self._policy.limits.host_total
        reason = self._policy.refusal_reason(lead) or (HOST_TOTAL_REACHED if limit and host_total >= limit else "")
        parents = (lead.parent,) if lead.parent else ()
        known = CachedUrl(host_id, 0, finite_or_zero(lead.score), lead.depth, lead.tunnel, lead.parent, parents)
        if reason:
            self._refused.append(_insert_row(lead, known, DROPPED, reason))
            self._refused_keys.append(lead.key)
            return None
        self.inserted += 1
        known.seq = self.inserted
        known.priority, known.timer, known.tier = first_position(self._policy.order, lead, known.seq, self._moment())
        self.new[lead.key] = known
        self._sources[lead.key] = lead
        return known

    def merge(self, lead: Lead, known: CachedUrl) -> bool:
        """Merge what another link to a queued URL adds; returns whether the URL's priority rose."""
        before = MergeState(known.score, known.depth, known.tunnel, known.parent, known.parents)
        after = merge_link(self._policy.merge, before, lead)
        known.score, known.depth, known.tunnel, known.parent, known.parents, better = after
        if better:
            self._sources[lead.key] = lead
        rises = lead.tier > known.tier
        if lead.key not in self.new and (better or rises or after.score != before.score or after.depth != before.depth):
            self.promoted[lead.key] = known
        old = known.position
        if rises or after.score != before.score:
            known.priority, known.timer, known.tier = merged_position(
                self._policy.order, lead, known.score, known.seq, self._moment(), old
            )
        return rises or known.priority > old.priority

    @property
    def refused(self) -> tuple[int, ...]:
        """Keys of the refused URLs."""
        return tuple(self._refused_keys)

    @property
    def host_ids(self) -> set[int]:
        """The hosts whose queue changed."""
        return {known.host_id for found in (self.new, self.promoted) for known in found.values()}

    def inserts(self) -> list[tuple[object, ...]]:
        """The rows of new and refused URLs."""
        return [_insert_row(self._sources[key], known) for key, known in self.new.items()] + self._refused

    def promotions(self) -> Iterator[tuple[object, ...]]:
        """The changes of queued URLs."""
        return (_promoted_row(key, known, self._sources.get(key)) for key, known in self.promoted.items())

    def _moment(self) -> QueueTime:
        return QueueTime(self.inserted, self._now)


def _promoted_row(key: int, known: CachedUrl, source: Lead | None) -> tuple[object, ...]:
    # What the ranker stored with the link follows the better one; another agent's ranker stored something else.
    agent = source.agent or None if source is not None else None
    features = None if source is None else source.features or (b"" if agent else None)
    return (
        known.score,
        known.priority,
        known.timer,
        known.tier,
        known.depth,
        known.tunnel,
        known.parent,
        *known.take_pending(),
        features,
        agent,
        known.host_id,
        key,
    )


def _insert_row(lead: Lead, known: CachedUrl, state: int = QUEUED, reason: str | None = None) -> tuple[object, ...]:
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
        1 + known.take_pending()[0],
        lead.url,
        None if known.parents in ((), (known.parent,)) else pack_keys(known.parents),
        lead.features or None,
        reason,
        known.timer,
        lead.agent,
        known.tier,
    )
