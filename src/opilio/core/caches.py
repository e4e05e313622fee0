"""Bounded mappings: memory that does not grow with the length of a crawl."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def evict_oldest(entries: dict[K, V], limit: int) -> list[K]:
    """Remove the entries that were inserted first until at most `limit` are left; returns their keys.

    >>> pages = {"a": 1, "b": 2, "c": 3}
    >>> evict_oldest(pages, 2), pages
    (['a'], {'b': 2, 'c': 3})
    """
    evicted = []
    while len(entries) > limit:
        oldest = next(iter(entries))
        del entries[oldest]
        evicted.append(oldest)
    return evicted
