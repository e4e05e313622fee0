"""Rows as S1's learners see them: four attributes within 0..1, a flag for each that is not known (S1-E6), a label.

Pure arrays. How attributes are found is the ranker's business; how rows are written down is `rowsfile`'s.
"""

from collections import deque
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

ATTRIBUTES = ("url", "anchor", "parent", "around")  # S1-13
WIDTH = 2 * len(ATTRIBUTES)  # attributes, then the flags of what is missing
CAPACITY = 5_000

Rows = NDArray[np.float64]
Labels = NDArray[np.bool_]
Values = tuple[float, float, float, float]
Flags = tuple[bool, bool, bool, bool]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One page with what was known of it before it was fetched, and whether it is relevant (S1-13)."""

    url: str
    group: str  # rows of one group never stand on both sides of a test (S1-E4): the host
    values: Values
    missing: Flags
    relevant: bool


def rows_of(values: NDArray[np.float64], missing: NDArray[np.bool_]) -> Rows:
    """Attributes and flags side by side."""
    return np.column_stack((values, missing)).astype(np.float64).reshape(-1, WIDTH)


def matrix(rows: Sequence[Row]) -> tuple[Rows, Labels]:
    """Many rows as arrays."""
    values = np.array([(*row.values, *row.missing) for row in rows], dtype=np.float64).reshape(-1, WIDTH)
    return values, np.array([row.relevant for row in rows], dtype=np.bool_)


def sound(rows: Rows) -> Rows:
    """Rows that no learner can stumble over: of the right width, every number within 0..1."""
    if rows.ndim != 2 or rows.shape[1] != WIDTH:
        raise ValueError(f"rows must have {WIDTH} columns, not shape {rows.shape}")
    return np.clip(np.nan_to_num(rows, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)


class RowMemory:
    """The rows to learn from, at most `capacity`: when full, the oldest of the larger class goes.

    So both classes stay known in a long crawl, and what is learnt follows the web as it is now.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = max(2, capacity)
        self._kept: tuple[deque[bytes], deque[bytes]] = (deque(), deque())  # irrelevant, relevant; float32 rows

    def __len__(self) -> int:
        return sum(map(len, self._kept))

    @property
    def fewest(self) -> int:
        """The number of rows of the smaller class."""
        return min(map(len, self._kept))

    def add(self, rows: Rows, labels: Labels) -> None:
        """Remember more rows."""
        small = sound(rows).astype(np.float32)
        for row, label in zip(small, labels.tolist(), strict=True):
            self._kept[int(label)].append(row.tobytes())
            if len(self) > self.capacity:
                max(self._kept, key=len).popleft()

    def move(self, row: Rows, label: bool) -> bool:
        """Put a row that is remembered with the other label to this one; False where none is."""
        (data,) = (one.tobytes() for one in sound(row).astype(np.float32))
        if data not in self._kept[not label]:
            return False
        self._kept[not label].remove(data)
        self._kept[label].append(data)
        return True

    def all(self) -> tuple[Rows, Labels]:
        """Everything remembered, irrelevant rows first, each class from old to new."""
        data = b"".join(row for kept in self._kept for row in kept)
        rows = np.frombuffer(data, dtype=np.float32).reshape(-1, WIDTH).astype(np.float64)
        return rows, np.arange(len(rows)) >= len(self._kept[0])

    def pack(self) -> tuple[bytes, bytes]:
        """The rows of each class as plain numbers."""
        return b"".join(self._kept[0]), b"".join(self._kept[1])

    def unpack(self, packed: tuple[bytes, bytes]) -> None:
        """Take back what `pack` gave."""
        size = 4 * WIDTH
        for kept, data in zip(self._kept, packed, strict=True):
            if len(data) % size:
                raise ValueError("rows of a snapshot are cut off")
            kept.clear()
            kept.extend(data[at : at + size] for at in range(0, len(data), size))
