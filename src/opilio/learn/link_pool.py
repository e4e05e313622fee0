"""The queued links a committee can still learn about, in arrays of fixed size, so that all are scored at once.

When which queued links are scored again.

All only now and then, in between those that stood best then and those found since: one visit changes little for links
far down, and scoring all every time cost a sixth of a replay. How often hardly matters: the best ones after every
visit, every 4th or every 32nd gave 0.569, 0.568 and 0.567 of the oracle over 18 runs, all of them twice as often 0.570
instead of 0.571. All of them half as often: the same over 38 runs.
"""

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opilio.learn.word_model import PREFIX_COUNT, WORD_COUNT
from opilio.text.term_arrays import distinct

MAX_CONTEXTS = 5  # pages a link was found on that are remembered
# Little by little; all else at once, by whoever takes a row
_INCREMENTAL_COLUMNS = (
    "dense",
    "groups",
    "pages",
    "contexts",
)


class LinkPool:
    """One row per link, found by key. Rows are reused; when it is full the least promising go.

    Invariant: a row is in use exactly when `said` is not negative.
    """

    def __init__(self, capacity: int, columns: int) -> None:
        self.row_of: dict[int, int] = {}
        # An array per column and not one of records: taking rows out is four times as fast.
        self.rows: dict[str, NDArray[Any]] = {
            "key": np.zeros(capacity, dtype=np.int64),
            "words": np.zeros((capacity, WORD_COUNT), dtype=np.uint32),
            "dense": np.zeros((capacity, columns), dtype=np.float32),
            # Page and place on it; 0: none
            "groups": np.zeros((capacity, MAX_CONTEXTS), dtype=np.uint32),
            "pages": np.zeros((capacity, MAX_CONTEXTS), dtype=np.uint32),
            "path": np.zeros(capacity, dtype=np.uint32),
            "prefixes": np.zeros((capacity, PREFIX_COUNT), dtype=np.uint32),
            "contexts": np.zeros(capacity, dtype=np.int16),
        }
        # The score the frontier holds
        self.scores: NDArray[np.float64] = np.full(capacity, -1.0)
        # When last weighed
        self.word_logits: NDArray[np.float64] = np.zeros(capacity)
        self.hosts: list[str] = [""] * capacity
        # Rows ever used
        self.used = 0
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def used_rows(self) -> NDArray[np.int64]:
        """The rows in use."""
        return np.flatnonzero(self.scores[: self.used] >= 0.0)

    def allocate(self, keys: Sequence[int], hosts: Sequence[str]) -> list[int]:
        """Rows for new links, with nothing in what grows; words, path and prefixes are the caller's to fill."""
        taken = []
        for key, host in zip(keys, hosts, strict=True):
            row = self._free.pop() if self._free else self.used
            self.used = max(self.used, row + 1)
            self.row_of[key] = row
            self.hosts[row] = host
            taken.append(row)
        for name in _INCREMENTAL_COLUMNS:
            self.rows[name][taken] = 0
        self.rows["key"][taken] = keys
        self.scores[taken] = 0.0
        return taken

    def row_bytes(self, key: int) -> bytes:
        """A link's row as it is now; nothing for a link that is not held."""
        row = self.row_of.get(key)
        return b"" if row is None else b"".join(column[row].tobytes() for column in self.rows.values())

    def load_row(self, key: int, host: str, data: bytes) -> None:
        """Hold a link again as `row_bytes` gave it; bytes of another shape (another version's) are passed over."""
        if key in self.row_of or len(data) != sum(column[:1].nbytes for column in self.rows.values()):
            return
        [row], at = self.allocate([key], [host]), 0
        for column in self.rows.values():
            size = column[:1].nbytes
            column[row] = np.frombuffer(data[at : at + size], dtype=column.dtype).reshape(column.shape[1:])
            at += size

    def change_key(self, key: int, new: int, host: str) -> None:
        """A link turned out to lead to another address; where that is held itself both stay as they are."""
        if key in self.row_of and new not in self.row_of:
            row = self.row_of[new] = self.row_of.pop(key)
            self.rows["key"][row] = new
            self.hosts[row] = host

    def drop(self, key: int) -> None:
        row = self.row_of.pop(key, None)
        if row is not None:
            self.scores[row] = -1.0
            self._free.append(row)

    def make_room(self, wanted: int) -> None:
        """Forget the least promising eighth when there is no room: the frontier keeps them at their last score."""
        capacity = len(self.scores)
        if len(self.row_of) + wanted <= capacity:
            return
        live = self.used_rows
        worst = live[np.argsort(self.scores[live], kind="stable")[: max(wanted, capacity // 8)]]
        for key in self.rows["key"][worst].tolist():
            self.drop(key)


class FetchedFilter:
    """Which keys were fetched, in a bitmap of fixed size: now and then it says yes for one that was not."""

    BITS = 1 << 24

    def __init__(self) -> None:
        self._bits = bytearray(self.BITS >> 3)

    def add(self, key: int) -> None:
        for bit in (key % self.BITS, (key >> 24) % self.BITS):
            self._bits[bit >> 3] |= 1 << (bit & 7)

    def __contains__(self, key: int) -> bool:
        return bool(self.fetched_mask(np.array([key]))[0])

    def fetched_mask(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the keys were fetched."""
        bits, mask = np.frombuffer(self._bits, dtype=np.uint8), self.BITS - 1
        first, second = keys & mask, (keys >> 24) & mask
        set_: NDArray[np.int64] = (bits[first >> 3] >> (first & 7)) & (bits[second >> 3] >> (second & 7)) & 1
        return set_.astype(np.bool_)

    def snapshot(self) -> bytes:
        return zlib.compress(self._bits, 1)

    def restore(self, state: bytes) -> None:
        self._bits = bytearray(zlib.decompress(state))


RowIndices = NDArray[np.int64]
NO_ROWS: RowIndices = np.zeros(0, dtype=np.int64)

# Visits after which all links are scored again; sooner at first, when each visit teaches much
RESCORE_ALL_VISITS = 16
# Links that a visit pays for: so scoring all again, spread over visits, costs the same for any number
RESCORED_LINKS_PER_VISIT = 75
FRONT_SIZE = 128  # best links, scored again in between
RESCORE_FRONT_VISITS = 32  # visits; sooner at first
_NEVER = -(1 << 40)


class RescoreSchedule:
    """Counts in visits. Rows are places in a queue of links."""

    def __init__(self) -> None:
        self._front = NO_ROWS
        # Found since the front was looked at: they were scored when they were found
        self._recently_found: list[RowIndices] = []
        self._all_scored_at = self._front_scored_at = _NEVER

    @property
    def all_scored(self) -> bool:
        """Have all been scored once, and does that still hold?"""
        return self._all_scored_at != _NEVER

    def reset(self) -> None:
        """Links far down may have moved too: score all next time."""
        self._all_scored_at = _NEVER

    def add_found(self, rows: RowIndices) -> None:
        """Links that were found, or found again."""
        self._recently_found.append(rows)

    def all_due(self, visits: int, links: int) -> bool:
        return visits >= self._all_scored_at + min(
            visits // 5, max(RESCORE_ALL_VISITS, links // RESCORED_LINKS_PER_VISIT)
        )

    def front_due(self, visits: int) -> bool:
        return visits >= self._front_scored_at + min(visits // 20, RESCORE_FRONT_VISITS)

    def front(self, said: NDArray[np.float64]) -> RowIndices:
        """The best links of last time that still wait; `said` is negative for rows that are not in use."""
        return self._front[said[self._front] >= 0.0]

    def mark_all_scored(self, visits: int, rows: RowIndices, scores: NDArray[np.float64]) -> None:
        """All were scored."""
        self._all_scored_at = self._front_scored_at = visits
        self._front, self._recently_found = rows[top_indices(scores, FRONT_SIZE)], []

    def mark_front_scored(self, visits: int, front: RowIndices, said: NDArray[np.float64]) -> None:
        """The front was scored: what was found since joins it."""
        rows = distinct(np.concatenate((front, *self._recently_found)))
        self._front_scored_at = visits
        self._front, self._recently_found = rows[top_indices(said[rows], FRONT_SIZE)], []


def top_indices(scores: NDArray[np.float64], most: int) -> RowIndices:
    """Where the highest are, in no order."""
    return np.argpartition(-scores, most - 1)[:most] if len(scores) > most else np.arange(len(scores))
