"""The queued links a committee can still learn about, in arrays of fixed size, so that all are scored at once."""

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opilio.learn.linkfeatures import PREFIXES, WORDS

CONTEXTS = 5  # pages a link was found on that are remembered
_FILLED_LATER = ("dense", "groups", "pages", "contexts")  # little by little; all else at once, by whoever takes a row


class LinkQueue:
    """One row per link, found by key. Rows are reused; when it is full the least promising go.

    Invariant: a row is in use exactly when `said` is not negative.
    """

    def __init__(self, capacity: int, columns: int) -> None:
        self.row_of: dict[int, int] = {}
        # An array per column and not one of records: taking rows out is four times as fast.
        self.rows: dict[str, NDArray[Any]] = {
            "key": np.zeros(capacity, dtype=np.int64),
            "words": np.zeros((capacity, WORDS), dtype=np.uint32),
            "dense": np.zeros((capacity, columns), dtype=np.float32),
            "groups": np.zeros((capacity, CONTEXTS), dtype=np.uint32),  # page and place on it; 0: none
            "pages": np.zeros((capacity, CONTEXTS), dtype=np.uint32),
            "path": np.zeros(capacity, dtype=np.uint32),
            "prefixes": np.zeros((capacity, PREFIXES), dtype=np.uint32),
            "contexts": np.zeros(capacity, dtype=np.int16),
        }
        self.said: NDArray[np.float64] = np.full(capacity, -1.0)  # the score the frontier holds
        self.word_logits: NDArray[np.float64] = np.zeros(capacity)  # when last weighed
        self.hosts: list[str] = [""] * capacity
        self.used = 0  # rows ever used
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def live(self) -> NDArray[np.int64]:
        """The rows in use."""
        return np.flatnonzero(self.said[: self.used] >= 0.0)

    def take(self, keys: Sequence[int], hosts: Sequence[str]) -> list[int]:
        """Rows for new links, with nothing in what grows; words, path and prefixes are the caller's to fill."""
        taken = []
        for key, host in zip(keys, hosts, strict=True):
            row = self._free.pop() if self._free else self.used
            self.used = max(self.used, row + 1)
            self.row_of[key] = row
            self.hosts[row] = host
            taken.append(row)
        for name in _FILLED_LATER:
            self.rows[name][taken] = 0
        self.rows["key"][taken] = keys
        self.said[taken] = 0.0
        return taken

    def row_bytes(self, key: int) -> bytes:
        """A link's row as it is now; nothing for a link that is not held."""
        row = self.row_of.get(key)
        return b"" if row is None else b"".join(column[row].tobytes() for column in self.rows.values())

    def put(self, key: int, host: str, data: bytes) -> None:
        """Hold a link again as `row_bytes` gave it; bytes of another shape (another version's) are passed over."""
        if key in self.row_of or len(data) != sum(column[:1].nbytes for column in self.rows.values()):
            return
        [row], at = self.take([key], [host]), 0
        for column in self.rows.values():
            size = column[:1].nbytes
            column[row] = np.frombuffer(data[at : at + size], dtype=column.dtype).reshape(column.shape[1:])
            at += size

    def rename(self, key: int, new: int, host: str) -> None:
        """A link turned out to lead to another address; where that is held itself both stay as they are."""
        if key in self.row_of and new not in self.row_of:
            row = self.row_of[new] = self.row_of.pop(key)
            self.rows["key"][row] = new
            self.hosts[row] = host

    def drop(self, key: int) -> None:
        row = self.row_of.pop(key, None)
        if row is not None:
            self.said[row] = -1.0
            self._free.append(row)

    def make_room(self, wanted: int) -> None:
        """Forget the least promising eighth when there is no room: the frontier keeps them at their last score."""
        capacity = len(self.said)
        if len(self.row_of) + wanted <= capacity:
            return
        live = self.live
        worst = live[np.argsort(self.said[live], kind="stable")[: max(wanted, capacity // 8)]]
        for key in self.rows["key"][worst].tolist():
            self.drop(key)


class Marks:
    """Which keys were fetched, in a bitmap of fixed size: now and then it says yes for one that was not."""

    BITS = 1 << 24

    def __init__(self) -> None:
        self._bits = bytearray(self.BITS >> 3)

    def add(self, key: int) -> None:
        for bit in (key % self.BITS, (key >> 24) % self.BITS):
            self._bits[bit >> 3] |= 1 << (bit & 7)

    def __contains__(self, key: int) -> bool:
        return bool(self.among(np.array([key]))[0])

    def among(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the keys were fetched."""
        bits, mask = np.frombuffer(self._bits, dtype=np.uint8), self.BITS - 1
        first, second = keys & mask, (keys >> 24) & mask
        set_: NDArray[np.int64] = (bits[first >> 3] >> (first & 7)) & (bits[second >> 3] >> (second & 7)) & 1
        return set_.astype(np.bool_)

    def snapshot(self) -> bytes:
        return zlib.compress(self._bits, 1)

    def restore(self, state: bytes) -> None:
        self._bits = bytearray(zlib.decompress(state))
