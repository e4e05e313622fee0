"""Rows of S1's learners: four attributes within 0..1, a flag for each missing one (S1-E6), a label.

Pure arrays, with their training sets as CSV (S1-25): URL, the four attributes, what is missing, and the label yes or
no. Works on lines, not on files. Input is validated: every error names the line and what is expected.
"""

import csv
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import UsageError
from opilio.core.urls import host_of

ATTRIBUTES = ("url", "anchor", "parent", "around")  # S1-13
ROW_WIDTH = 2 * len(ATTRIBUTES)  # attributes, then the flags of what is missing
MAX_TRAINING_ROWS = 5_000

Rows = NDArray[np.float64]
Labels = NDArray[np.bool_]
AttributeValues = tuple[float, float, float, float]
MissingFlags = tuple[bool, bool, bool, bool]


class TrainingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One page with what was known of it before it was fetched, and whether it is relevant (S1-13)."""

    url: str
    # The host: rows of one group are never on both sides of a test (S1-E4).
    group: str
    values: AttributeValues
    missing: MissingFlags
    relevant: bool


def stack_rows(values: NDArray[np.float64], missing: NDArray[np.bool_]) -> Rows:
    """Attributes and flags side by side."""
    return np.column_stack((values, missing)).astype(np.float64).reshape(-1, ROW_WIDTH)


def rows_to_arrays(rows: Sequence[TrainingRow]) -> tuple[Rows, Labels]:
    """Rows as arrays."""
    values = np.array([(*row.values, *row.missing) for row in rows], dtype=np.float64).reshape(-1, ROW_WIDTH)
    return values, np.array([row.relevant for row in rows], dtype=np.bool_)


def sanitize_rows(rows: Rows) -> Rows:
    """Rows of the right width with every number within 0..1."""
    if rows.ndim != 2 or rows.shape[1] != ROW_WIDTH:
        raise ValueError(f"rows must have {ROW_WIDTH} columns, not shape {rows.shape}")
    return np.clip(np.nan_to_num(rows, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)


class RowMemory:
    """The rows to learn from, at most `capacity`: when full, the oldest row of the larger class is dropped.

    So both classes stay known in a long crawl, and the model follows the web as it is now.
    """

    def __init__(self, capacity: int = MAX_TRAINING_ROWS) -> None:
        self.capacity = max(2, capacity)
        self._by_class: tuple[deque[bytes], deque[bytes]] = (deque(), deque())  # irrelevant, relevant; float32 rows

    def __len__(self) -> int:
        return sum(map(len, self._by_class))

    @property
    def smaller_class_size(self) -> int:
        """The number of rows of the smaller class."""
        return min(map(len, self._by_class))

    def add(self, rows: Rows, labels: Labels) -> None:
        """Remember more rows."""
        small = sanitize_rows(rows).astype(np.float32)
        for row, label in zip(small, labels.tolist(), strict=True):
            self._by_class[int(label)].append(row.tobytes())
            if len(self) > self.capacity:
                max(self._by_class, key=len).popleft()

    def relabel(self, row: Rows, label: bool) -> bool:
        """Change the label of a stored row with the other label; False without one."""
        (data,) = (one.tobytes() for one in sanitize_rows(row).astype(np.float32))
        if data not in self._by_class[not label]:
            return False
        self._by_class[not label].remove(data)
        self._by_class[label].append(data)
        return True

    def arrays(self) -> tuple[Rows, Labels]:
        """All rows, irrelevant ones first, each class from old to new."""
        data = b"".join(row for kept in self._by_class for row in kept)
        rows = np.frombuffer(data, dtype=np.float32).reshape(-1, ROW_WIDTH).astype(np.float64)
        return rows, np.arange(len(rows)) >= len(self._by_class[0])

    def pack(self) -> tuple[bytes, bytes]:
        """The rows of each class as plain numbers."""
        return b"".join(self._by_class[0]), b"".join(self._by_class[1])

    def unpack(self, packed: tuple[bytes, bytes]) -> None:
        """Load the result of `pack`."""
        size = 4 * ROW_WIDTH
        for kept, data in zip(self._by_class, packed, strict=True):
            if len(data) % size:
                raise ValueError("rows of a snapshot are cut off")
            kept.clear()
            kept.extend(data[at : at + size] for at in range(0, len(data), size))


ATTRIBUTE_COLUMNS = {name: f"{name}_relevancy" for name in ATTRIBUTES}
HEADER = ("url", *ATTRIBUTE_COLUMNS.values(), "missing", "relevant")
_REQUIRED_COLUMNS = [name for name in HEADER if name != "missing"]
_LABELS = {"yes": True, "no": False, "true": True, "false": False, "1": True, "0": False}


def write_rows(rows: Iterable[TrainingRow], out: TextIO) -> int:
    """Write a header and one line a row; returns how many rows."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    count = 0
    for row in rows:
        missing = " ".join(name for name, gone in zip(ATTRIBUTES, row.missing, strict=True) if gone)
        values = [format(value, ".6g") for value in row.values]
        writer.writerow((row.url, *values, missing, "yes" if row.relevant else "no"))
        count += 1
    return count


def read_rows(lines: Iterable[str], source: str) -> list[TrainingRow]:
    """The rows of a file; UsageError for an invalid one."""
    try:
        found = list(_parse_rows(lines, source))
    except csv.Error as error:
        raise UsageError(f"{source}: is no CSV file: {error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{source}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    if not found:
        raise UsageError(f"{source}: has no rows below its header")
    return found


def _parse_rows(lines: Iterable[str], source: str) -> Iterator[TrainingRow]:
    reader = csv.DictReader(lines, skipinitialspace=True, strict=True)
    if reader.fieldnames is None:
        raise UsageError(f"{source}: is empty; its first line must be {','.join(HEADER)}")
    reader.fieldnames = [name.strip().lstrip("\ufeff").lower() for name in reader.fieldnames]
    for name in _REQUIRED_COLUMNS:
        if name not in reader.fieldnames:
            raise UsageError(f"{source}: has no column '{name}'; its first line must be {','.join(HEADER)}")
    for record in reader:
        where = f"{source} line {reader.line_num}"
        if None in record or None in record.values():
            raise UsageError(f"{where}: the number of fields differs from the header")
        yield _parse_row(record, where)


def _parse_row(record: dict[str, str], where: str) -> TrainingRow:
    url = record["url"].strip()
    if not url:
        raise UsageError(f"{where}: the url is empty")
    label = record["relevant"].strip().lower()
    if label not in _LABELS:
        raise UsageError(f"{where}: relevant is '{label}'; it must be yes or no")
    one, two, three, four = (_parse_number(record, column, where) for column in ATTRIBUTE_COLUMNS.values())
    values: AttributeValues = (one, two, three, four)
    return TrainingRow(
        url=url, group=_host_group(url), values=values, missing=_parse_missing(record, where), relevant=_LABELS[label]
    )


def _parse_number(record: dict[str, str], column: str, where: str) -> float:
    text = record[column].strip()
    try:
        value = float(text)
    except ValueError as error:
        raise UsageError(f"{where}: {column} is '{text}'; it must be a number from 0 to 1") from error
    if not (math.isfinite(value) and 0.0 <= value <= 1.0):
        raise UsageError(f"{where}: {column} is {text}; it must be a number from 0 to 1")
    return value


def _parse_missing(record: dict[str, str], where: str) -> MissingFlags:
    named = set(record.get("missing", "").split())
    if unknown := named - set(ATTRIBUTES):
        raise UsageError(f"{where}: missing names '{min(unknown)}'; known: {' '.join(ATTRIBUTES)}")
    url, anchor, parent, around = (name in named for name in ATTRIBUTES)
    return url, anchor, parent, around


def _host_group(url: str) -> str:
    return (host_of(url) if "://" in url else "") or url
