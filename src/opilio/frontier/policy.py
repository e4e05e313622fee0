"""Everything a frontier can be told: order, merging, limits, refusals. A record, no logic."""

from collections.abc import Callable, Set

import msgspec

from opilio.frontier.merge import Merge
from opilio.frontier.order import BestFirst, Order

# Reasons recorded with dropped URLs.
TAIL = "frontier full"
HOST_TAIL = "host queue full"
HOST_TOTAL = "host total reached"
EXPIRED = "expired"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a frontier may hold; 0 means no limit. What is refused or dropped is recorded with its reason."""

    queued: int = 0  # the tail (lowest priority) is dropped above it, in lots
    host_queued: int = 0  # queued at one host: its own tail is dropped
    host_total: int = 0  # accepted from one host, ever

    @property
    def slack(self) -> int:
        """How far `queued` may be exceeded before a lot is dropped: it makes dropping cheap."""
        return self.queued // 16


def nothing(url: str) -> str:  # noqa: ARG001 the signature of a refusal
    """Refuse no URL."""
    return ""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How a frontier decides. `refuse` says why a URL never seen before must not be queued (Traps.check), or ""."""

    order: Order = BestFirst()
    merge: Merge = Merge.MAX
    limits: Limits = Limits()
    refuse: Callable[[str], str] = nothing
    boosted: Set[str] = frozenset()  # hosts a person wants first; it may change: every lease of the one on SQLite looks
    delay_s: float = 1.0  # between requests to a host that has no delay of its own
