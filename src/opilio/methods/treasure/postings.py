"""Texts as unit vectors over (part, stem), and their products with all nodes or with the nodes of one distance. Pure.

Stems that many nodes share are columns of a dense matrix, the others are lists of nodes: either alone takes five times
as long. Large arrays are reused buffers: allocating megabytes for every page costs as much as the sums.
"""

from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float32Column = NDArray[np.float32]
Float32Matrix = NDArray[np.float32]
IntColumn = NDArray[np.int64]
PartTerms = tuple[Sequence[int], ...]  # the terms of the four parts
TermRarity = Callable[[NDArray[np.uint32]], NDArray[np.float64]]  # the weight of each term
DC_PART = 3
_STEM_MASK = (1 << 32) - 1
_PART_STEM_MASK = (1 << 34) - 1  # part and stem
# The share of nodes that must have a stem before a column of its own is cheaper than a list.
DENSE_COLUMN_SHARE = 0.06


class TermVectors(NamedTuple):
    """Texts as rows of (part, stem) keys with the values of their unit vectors; rows ascend."""

    rows: IntColumn
    keys: IntColumn
    values: Float32Column


def term_vectors(contexts: Sequence[PartTerms], rarity: TermRarity | None = None) -> TermVectors:
    """The texts of rows as unit vectors, in one sort. Headings are sets, DC has counts; all times the rarity."""
    texts = list(chain.from_iterable(contexts))
    owners = np.arange(len(texts), dtype=np.int64) << 32  # row and part: four parts a row
    keyed_terms = np.repeat(owners, np.fromiter(map(len, texts), np.int64, len(texts)))
    keyed_terms |= np.fromiter(chain.from_iterable(texts), np.int64, len(keyed_terms))
    keyed_terms.sort()
    keys, counts = _count_sorted(keyed_terms)
    text = keys >> 32
    values = np.where(text & 3 == DC_PART, counts, 1).astype(np.float64)
    if rarity is not None:
        values *= rarity((keys & _STEM_MASK).astype(np.uint32))
    norms = np.maximum(np.sqrt(np.bincount(text, values * values)), np.finfo(np.float32).tiny)
    return TermVectors(keys >> 34, keys & _PART_STEM_MASK, (values / norms[text]).astype(np.float32))


def _count_sorted(ordered: IntColumn) -> tuple[IntColumn, IntColumn]:
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    return ordered[starts], np.diff(starts, append=len(ordered))


class PostingsQuery(NamedTuple):
    """The texts of a page in the form of the postings: stems that have a column, and stems that have a list.

    The first rows are windows, the others headings: a page has few distinct ones. Windows ascend by their headings.
    """

    head_of: IntColumn  # of every window
    columns: Float32Matrix  # (rows, columns)
    row_of: IntColumn
    lists: IntColumn
    values: Float32Column

    def select(self, windows: IntColumn) -> "PostingsQuery":
        """Some of the windows, renumbered from 0, with all headings."""
        rows = np.concatenate((windows, np.arange(len(self.head_of), len(self.columns))))
        number = np.full(len(self.columns), -1, dtype=np.int64)
        number[rows] = np.arange(len(rows))
        row_of = number[self.row_of]
        kept = row_of >= 0
        return PostingsQuery(
            self.head_of[windows], self.columns[rows], row_of[kept], self.lists[kept], self.values[kept]
        )


class _RarePostings:
    """The nodes of each rare stem, with their values; `bounds` are the starts of the distances."""

    def __init__(self, owners: IntColumn, values: Float32Column, bounds: IntColumn) -> None:
        self._owners = owners
        self._values = values
        self._bounds = bounds
        self._count: IntColumn = np.arange(0)
        self._nodes: IntColumn = np.zeros(0, dtype=np.int64)
        self._buffer: Float32Column = np.zeros(0, dtype=np.float32)

    def add(self, found: Float32Column, query: PostingsQuery, cells: IntColumn, first: int, last: int) -> None:
        """Add the values of the lists; `cells` is the start of each row."""
        begins = self._bounds[first, query.lists]
        sizes = self._bounds[last, query.lists] - begins
        stops = np.cumsum(sizes)
        count = int(stops[-1]) if len(stops) else 0
        self._grow(count)
        at, place, value = np.repeat(begins - stops + sizes, sizes), np.repeat(cells, sizes), self._buffer[:count]
        at += self._count[:count]
        # Without a mode `out` is copied.
        place += np.take(self._owners, at, out=self._nodes[:count], mode="clip")
        np.take(self._values, at, out=value, mode="clip")
        value *= np.repeat(query.values, sizes)
        np.add.at(found, place, value)

    def _grow(self, count: int) -> None:
        if len(self._count) < count:
            self._count = np.arange(2 * count)
            self._nodes = np.empty(2 * count, dtype=np.int64)
            self._buffer = np.empty(2 * count, dtype=np.float32)


class NodePostings:
    """Which node has which (part, stem). `ends`: where the nodes of each distance end; the last is their number."""

    def __init__(self, bags: TermVectors, ends: Sequence[int]) -> None:
        self.ends = [0, *ends]
        nodes = self.ends[-1]
        self._keys, place, counts = np.unique(bags.keys, return_inverse=True, return_counts=True)
        common = counts > DENSE_COLUMN_SHARE * nodes
        self._column = np.where(common, np.cumsum(common) - 1, -1)  # of each key, −1: it has a list
        self._split = int(common[: np.searchsorted(self._keys, DC_PART << 32)].sum())  # columns of headings, then of DC
        dense = common[place]
        self._dense: Float32Matrix = np.zeros((int(common.sum()), nodes), dtype=np.float32)
        self._dense[self._column[place[dense]], bags.rows[dense]] = bags.values[dense]
        lists, owners = place[~dense], bags.rows[~dense]
        order = np.lexsort((owners, lists))
        ordered = lists[order] * (nodes + 1) + owners[order]
        every = np.arange(len(self._keys), dtype=np.int64) * (nodes + 1)
        bounds = np.array([np.searchsorted(ordered, every + end) for end in self.ends])
        self._lists = _RarePostings(owners[order], bags.values[~dense][order], bounds)
        self._buffer: Float32Column = np.zeros(0, dtype=np.float32)

    def look_up(self, bags: TermVectors, head_of: IntColumn, heads: int, weights: Sequence[float]) -> PostingsQuery:
        """Find the stems of a page; the weight of a part scales its values."""
        row_of, keys, values = bags
        place = np.minimum(np.searchsorted(self._keys, keys), max(0, len(self._keys) - 1))
        hit = self._keys[place] == keys if len(self._keys) else np.zeros(len(keys), dtype=np.bool_)
        place, row_of = place[hit], row_of[hit]
        values = (values * np.asarray(weights, dtype=np.float32)[keys >> 32])[hit]
        column = self._column[place]
        common, listed = np.flatnonzero(column >= 0), np.flatnonzero(column < 0)
        columns = np.zeros((len(head_of) + heads, len(self._dense)), dtype=np.float32)
        columns[row_of[common], column[common]] = values[common]
        return PostingsQuery(head_of, columns, row_of[listed], place[listed], values[listed])

    def product(self, query: PostingsQuery, first: int = 0, last: int = -1) -> Float32Matrix:
        """Every window, with its headings, by the nodes from one end to another. The next product overwrites it."""
        start, end = self.ends[first], self.ends[last]
        rows, windows, width = len(query.columns), len(query.head_of), end - start
        if len(self._buffer) < rows * width:
            self._buffer = np.empty(rows * width, dtype=np.float32)
        found = self._buffer[: rows * width]
        table, split = found.reshape(rows, width), self._split
        np.matmul(query.columns[:windows, split:], self._dense[split:, start:end], out=table[:windows])
        np.matmul(query.columns[windows:, :split], self._dense[:split, start:end], out=table[windows:])
        self._lists.add(found, query, query.row_of * width - start, first, last)
        stops = np.searchsorted(query.head_of, np.arange(rows - windows), "right").tolist()
        for head, (low, high) in enumerate(pairwise([0, *stops])):
            table[low:high] += table[windows + head]
        return table[:windows]
