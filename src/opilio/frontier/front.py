"""The part of the URL-seen test that is in memory (S4-21). A cache: nothing is lost when it is emptied.

Two generations instead of a linked list: a hit in the old one moves to the young one, and when the young one
is full the old one is thrown away as a whole. Every step is one dict operation.
"""

from collections.abc import Iterator


class Known:
    """A queued URL as the front remembers it. `pending` counts links seen since its row was written."""

    __slots__ = (
        "depth",
        "host_id",
        "parent",
        "parents",
        "pending",
        "priority",
        "score",
        "seq",
        "timer",
        "tunnel",
        "waiting",
    )

    def __init__(self, host_id: int, seq: int, score: float) -> None:
        self.host_id = host_id
        self.seq = seq
        self.score = score
        self.priority = 0.0
        self.timer: float | None = None
        self.depth = 0
        self.tunnel = 0
        self.parent = 0
        self.parents: tuple[int, ...] = ()
        self.pending = 0
        self.waiting = False


class Front:
    """Keys of recently seen URLs; None stands for a URL that is settled (done, failed, dropped).

    Invariant: what it says of a key is what the row says, but for `pending`. Whoever changes a row otherwise
    calls `settle` or `forget`.
    """

    def __init__(self, size: int) -> None:
        self._half = max(1, size // 2)
        self._young: dict[int, Known | None] = {}
        self._old: dict[int, Known | None] = {}
        self._hits = 0
        self._misses = 0

    def young(self, keys: set[int]) -> dict[int, Known | None]:
        """The young generation, into which those of the keys that are known have moved."""
        missing = keys - self._young.keys()
        if missing:
            moved = missing & self._old.keys()
            for key in moved:
                self._young[key] = self._old.pop(key)
            self._misses += len(missing) - len(moved)
            self._hits -= len(missing) - len(moved)
        self._hits += len(keys)
        return self._young

    def find(self, key: int) -> Known | None:
        """What is remembered of a queued URL, if anything."""
        known = self._young.get(key)
        return known if known is not None else self._old.get(key)

    def settle(self, keys: Iterator[int]) -> None:
        """These are no longer queued."""
        for key in keys:
            self._old.pop(key, None)
            self._young[key] = None

    def forget(self, key: int) -> int:
        """Its row changes otherwise; returns the links that were counted here only."""
        known = self.find(key)
        self._young.pop(key, None)
        self._old.pop(key, None)
        return known.pending if known else 0

    def turn(self) -> list[tuple[int, int, int]]:
        """Throw the old generation away if it is time: (links counted here only, host id, key) of what went."""
        if len(self._young) < self._half:
            return []
        gone, self._old, self._young = self._old, self._young, {}
        return [(k.pending, k.host_id, key) for key, k in gone.items() if k is not None and k.pending]

    def clear(self) -> None:
        """Forget everything (the rows may have changed behind it)."""
        self._young.clear()
        self._old.clear()

    @property
    def hit_rate(self) -> float:
        """Share of URL-seen tests answered from memory."""
        return self._hits / max(1, self._hits + self._misses)
