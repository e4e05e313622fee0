"""The queued links that a committee can still rescore, in arrays of fixed size, and when to rescore which.

All links are rescored only now and then; in between, only the best and the newly found ones: a visit changes little
for links far down, and rescoring everything each time took a sixth of a replay. The interval hardly matters: rescoring
the best after every visit, every 4th or every 32nd gave 0.569, 0.568 and 0.567 of the oracle over 18 runs, and
rescoring everything twice as often 0.570 instead of 0.571. Half as often gave the same over 38 runs.
"""

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opilio.learn.word_model import PREFIX_COUNT, WORD_COUNT
from opilio.text.term_arrays import distinct
from opilio.text.word_vectors import DIMENSIONS

# The number of source pages stored per link.
MAX_CONTEXTS = 5
# Columns that are updated while a link is queued; the others are filled by the caller of `allocate`.
_INCREMENTAL_COLUMNS = (
    "dense",
    "groups",
    "pages",
    "contexts",
)


class LinkPool:
    """One row per link, found by key. Rows are reused; when the pool is full, the lowest scores are evicted.

    Invariant: a row is in use exactly if its score is not negative.
    """

    def __init__(self, capacity: int, columns: int) -> None:
        self.row_of: dict[int, int] = {}
        # One array per column instead of one of records: selecting rows is four times as fast.
        self.rows: dict[str, NDArray[Any]] = {
            "key": np.zeros(capacity, dtype=np.int64),
            "words": np.zeros((capacity, WORD_COUNT), dtype=np.uint32),
            "dense": np.zeros((capacity, columns), dtype=np.float32),
            # Hash of source page and tag path; 0: none.
            "groups": np.zeros((capacity, MAX_CONTEXTS), dtype=np.uint32),
            "pages": np.zeros((capacity, MAX_CONTEXTS), dtype=np.uint32),
            "path": np.zeros(capacity, dtype=np.uint32),
            "prefixes": np.zeros((capacity, PREFIX_COUNT), dtype=np.uint32),
            "contexts": np.zeros(capacity, dtype=np.int16),
            "meaning": np.zeros((capacity, DIMENSIONS), dtype=np.int8),
        }
        # The score stored in the frontier.
        self.scores: NDArray[np.float64] = np.full(capacity, -1.0)
        # As of the last refresh.
        self.word_logits: NDArray[np.float64] = np.zeros(capacity)
        self.hosts: list[str] = [""] * capacity
        # The number of rows ever used.
        self.used = 0
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def used_rows(self) -> NDArray[np.int64]:
        """The rows in use."""
        return np.flatnonzero(self.scores[: self.used] >= 0.0)

    def used_contexts(self, row: int) -> int:
        """The number of source pages that are stored of a link."""
        return int(min(self.rows["contexts"][row], MAX_CONTEXTS))

    def allocate(self, keys: Sequence[int], hosts: Sequence[str]) -> list[int]:
        """Rows for new links, with zeros in the incremental columns; the caller fills words, path and prefixes."""
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
        """The current row of a link; empty for a link that is not in the pool."""
        row = self.row_of.get(key)
        return b"" if row is None else b"".join(column[row].tobytes() for column in self.rows.values())

    def load_row(self, key: int, host: str, data: bytes) -> None:
        """Restore a link from `row_bytes`; bytes of another length (another version's) are ignored."""
        if key in self.row_of or len(data) != sum(column[:1].nbytes for column in self.rows.values()):
            return
        [row], at = self.allocate([key], [host]), 0
        for column in self.rows.values():
            size = column[:1].nbytes
            column[row] = np.frombuffer(data[at : at + size], dtype=column.dtype).reshape(column.shape[1:])
            at += size

    def change_key(self, key: int, new: int, host: str) -> None:
        """Store a redirected link under its target; nothing changes if the target is in the pool."""
        if key in self.row_of and new not in self.row_of:
            row = self.row_of[new] = self.row_of.pop(key)
            self.rows["key"][row] = new
            self.hosts[row] = host

    def drop(self, key: int) -> None:
        row = self.row_of.pop(key, None)
        if row is not None:
            self.scores[row] = -1.0
            self._free.append(row)

    def make_room(self, new_links: int) -> None:
        """Evict the lowest-scored eighth if the pool is full; the frontier keeps their last scores."""
        capacity = len(self.scores)
        if len(self.row_of) + new_links <= capacity:
            return
        live = self.used_rows
        worst = live[np.argsort(self.scores[live], kind="stable")[: max(new_links, capacity // 8)]]
        for key in self.rows["key"][worst].tolist():
            self.drop(key)


class FetchedFilter:
    """The keys of fetched links in a Bloom filter of fixed size, with rare false positives."""

    BITS = 1 << 24

    def __init__(self) -> None:
        self._bits = bytearray(self.BITS >> 3)

    def add(self, key: int) -> None:
        for bit in (key % self.BITS, (key >> 24) % self.BITS):
            self._bits[bit >> 3] |= 1 << (bit & 7)

    def __contains__(self, key: int) -> bool:
        return bool(self.fetched_mask(np.array([key]))[0])

    def fetched_mask(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """A mask of the keys that were fetched."""
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

# Visits between two rescorings of all links; fewer at first, when each visit teaches more.
RESCORE_ALL_VISITS = 16
# Rescored links per visit, which keeps the cost per visit independent of the queue's size.
RESCORED_LINKS_PER_VISIT = 75
FRONT_SIZE = 128  # best links, rescored in between
RESCORE_FRONT_VISITS = 32  # fewer at first
_NEVER = -(1 << 40)


class RescoreSchedule:
    """Decides which rows of a pool to rescore, by the number of visits."""

    def __init__(self) -> None:
        self._front = NO_ROWS
        # Links found since the front was scored; they were scored when found.
        self._recently_found: list[RowIndices] = []
        self._all_scored_at = self._front_scored_at = _NEVER

    @property
    def all_scored(self) -> bool:
        """True if all links were scored since the last reset."""
        return self._all_scored_at != _NEVER

    def reset(self) -> None:
        """Rescore all links next time."""
        self._all_scored_at = _NEVER

    def add_found(self, rows: RowIndices) -> None:
        """Add rows of links that were found, also again."""
        self._recently_found.append(rows)

    def all_due(self, visits: int, links: int) -> bool:
        return visits >= self._all_scored_at + min(
            visits // 5, max(RESCORE_ALL_VISITS, links // RESCORED_LINKS_PER_VISIT)
        )

    def front_due(self, visits: int) -> bool:
        return visits >= self._front_scored_at + min(visits // 20, RESCORE_FRONT_VISITS)

    def front(self, scores: NDArray[np.float64]) -> RowIndices:
        """The best links of last time that are still queued; scores are negative for unused rows."""
        return self._front[scores[self._front] >= 0.0]

    def mark_all_scored(self, visits: int, rows: RowIndices, scores: NDArray[np.float64]) -> None:
        """Record that all links were scored."""
        self._all_scored_at = self._front_scored_at = visits
        self._front, self._recently_found = rows[top_indices(scores, FRONT_SIZE)], []

    def mark_front_scored(self, visits: int, front: RowIndices, scores: NDArray[np.float64]) -> None:
        """Record that the front was scored, and add the links found since."""
        rows = distinct(np.concatenate((front, *self._recently_found)))
        self._front_scored_at = visits
        self._front, self._recently_found = rows[top_indices(scores[rows], FRONT_SIZE)], []


def top_indices(scores: NDArray[np.float64], count: int) -> RowIndices:
    """The indices of the highest scores, unordered."""
    return np.argpartition(-scores, count - 1)[:count] if len(scores) > count else np.arange(len(scores))
