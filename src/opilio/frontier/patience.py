"""Patience: links wait while a much better one is in flight or waits for its host.

The good pages of a topic are often on few hosts, and a host is asked once per delay. A crawl that never lets a
connection idle spends most of its page limit on poor links of other hosts in the meantime (docs/lab/committee.md).
"""

from collections.abc import Callable
from math import inf

from opilio.core.records import Tier

# A better link that waits longer for its host, or for its response, holds up no other.
MAX_PATIENCE_S = 3.0
# When links that were held up are considered again, if no visit ends before.
_POLL_S = 0.05


class Patience:
    """Decides during a lease which links wait: those below `share` of the sort key of a better link; 0: none.

    Only links compete: seeds, boosted URLs and revisits neither wait nor hold up others.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._least = -inf
        self.held_until = 0.0  # when links that were held up may be leased; 0: none was

    def begin(self, best_waiting: Callable[[], float | None]) -> None:
        """Begin a lease. `best_waiting`: the best sort key of a link in flight or at a host that wakes soon."""
        self.held_until, self._least = 0.0, -inf
        if self._share:
            self._raise(best_waiting())

    def holds_up(self, tier: int, priority: float, now: float) -> bool:
        """Must the best link of a host wait? If not, it is leased, and worse links wait for it."""
        if tier != Tier.LINK or not self._share:
            return False
        if priority < self._least:
            self.held_until = now + _POLL_S
            return True
        self._raise(priority)
        return False

    def _raise(self, priority: float | None) -> None:
        if priority is not None and priority > 0.0:
            self._least = max(self._least, self._share * priority)
