"""The in-memory part of the URL-seen test (S4-21): a cache that can be emptied at any time.

It has two generations instead of a linked list: a hit in the old generation moves to the young one, and when the young
one is full the old one is dropped as a whole. Every step is one dict operation.
"""

from collections.abc import Iterable, Iterator
from operator import itemgetter

from opilio.frontier.link_batch import NO_UPDATE, CachedUrl, PendingUpdate


class UrlCache:
    """Keys of recently seen URLs; None stands for a finished URL (done, failed, dropped).

    Invariant: a cached value equals its row, except for `pending`. Code that changes a row in another way calls
    `mark_finished` or `evict`.
    """

    def __init__(self, size: int) -> None:
        self._half = max(1, size // 2)
        self._young: dict[int, CachedUrl | None] = {}
        self._old: dict[int, CachedUrl | None] = {}
        self._hits = 0
        self._misses = 0

    def lookup(self, keys: set[int]) -> dict[int, CachedUrl | None]:
        """The young generation, after moving the known ones of these keys into it."""
        young, old = self._young, self._old
        # Not a set difference: that would walk the whole dict.
        missing = [key for key in keys if key not in young]
        moved = [key for key in missing if key in old]
        for key in moved:
            young[key] = old.pop(key)
        self._misses += len(missing) - len(moved)
        self._hits += len(keys) - len(missing) + len(moved)
        return young

    def find(self, key: int) -> CachedUrl | None:
        """The cached queued URL with this key, or None."""
        known = self._young.get(key)
        return known if known is not None else self._old.get(key)

    def mark_finished(self, keys: Iterator[int]) -> None:
        """Record that these URLs are no longer queued."""
        for key in keys:
            self._old.pop(key, None)
            self._young[key] = None

    def evict(self, key: int) -> PendingUpdate:
        """Remove a URL whose row changes in another way; returns its pending changes."""
        known = self.find(key)
        self._young.pop(key, None)
        self._old.pop(key, None)
        return known.take_pending() if known else NO_UPDATE

    def rotate(self) -> list[tuple[int, bytes | None, int, int]]:
        """Drop the old generation if the young one is full; returns the pending changes with host id and key."""
        if len(self._young) < self._half:
            return []
        gone, self._old, self._young = self._old, self._young, {}
        return _pending_rows(gone.items())

    def pending_updates(self) -> list[tuple[int, bytes | None, int, int]]:
        """All pending changes, with host id and key."""
        return _pending_rows(self._old.items()) + _pending_rows(self._young.items())

    def clear(self) -> None:
        """Drop everything (the rows may have changed in another process)."""
        self._young.clear()
        self._old.clear()

    @property
    def hit_rate(self) -> float:
        """Share of URL-seen tests answered from memory."""
        return self._hits / max(1, self._hits + self._misses)


def _pending_rows(items: Iterable[tuple[int, CachedUrl | None]]) -> list[tuple[int, bytes | None, int, int]]:
    # Sorted by host, so that each page of the table is written once.
    rows = [(*known.take_pending(), known.host_id, key) for key, known in items if known is not None and known.pending]
    return sorted(rows, key=itemgetter(2, 3))
