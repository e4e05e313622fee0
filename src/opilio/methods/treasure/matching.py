"""All links of a page against all nodes at once: products of matrices, weights of the four similarities.

S2-F8 wants weights within 0..1 that sum to 1 and give the least error. OSM is compared with a threshold, so its
scale is free: least squares over scale, offset and weights is least squares under v ≥ 0, and weights = v / Σv.

Each part of a node is a unit vector (headings: its set of stems; DC: counts of stems), so OSM = Σ weight · cosine is
one dot product over (part, stem) pairs. Nodes are ordered by their distance, and the nodes of one distance can be
matched alone: after a near match the farther ones are not needed. The similarities give a priority: the inverse of the
least number of links to a target (S2-32, S2-38, S2-E4).

Stems that many nodes share are columns of a dense matrix, the others are lists of nodes: either alone takes five times
as long. Large arrays are reused buffers: allocating megabytes for every page costs as much as the sums.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.methods.treasure.graph import ANCHOR_REPEATS, NODE_PARTS, GraphNode, LinkParts, TermsOf, TGraph

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
    # Row and part: four parts a row.
    owners = np.arange(len(texts), dtype=np.int64) << 32
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
        # Of each key, −1: it has a list.
        self._column = np.where(common, np.cumsum(common) - 1, -1)
        # Columns of headings, then of DC.
        self._split = int(common[: np.searchsorted(self._keys, DC_PART << 32)].sum())
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


WeightVector = NDArray[np.float64]
EQUAL_WEIGHTS = (0.25, 0.25, 0.25, 0.25)
# Headings say nothing about which link of a page to follow.
DC_WEIGHTS = (0.0, 0.0, 0.0, 1.0)
# Links of each kind (relevant or not) before a fit is used.
MIN_FIT_LINKS = 40
_DESCENT_ROUNDS = 200


class WeightEvidence(msgspec.Struct):
    """Sums over links whose outcome is known: enough for a fit, and constant in size."""

    paid: int = 0
    unpaid: int = 0
    sums: list[float] = msgspec.field(default_factory=lambda: [0.0] * 4)
    products: list[list[float]] = msgspec.field(default_factory=lambda: [[0.0] * 4 for _ in range(4)])
    paid_sums: list[float] = msgspec.field(default_factory=lambda: [0.0] * 4)

    def add(self, parts: Sequence[float], paid: bool) -> None:
        """One link with its partial similarities to the node it matched."""
        self.paid += paid
        self.unpaid += not paid
        for i, value in enumerate(parts):
            self.sums[i] += value
            self.paid_sums[i] += value * paid
            for j, other in enumerate(parts):
                self.products[i][j] += value * other

    @property
    def is_enough(self) -> bool:
        return min(self.paid, self.unpaid) >= MIN_FIT_LINKS

    def weights(self) -> tuple[float, ...]:
        """The fitted weights; equal ones with too few links or no signal."""
        return fit_weights(*self.moments()) if self.is_enough else EQUAL_WEIGHTS

    def moments(self) -> tuple[WeightVector, WeightVector]:
        """Covariance of the parts, and of the parts with the outcome."""
        count = max(1, self.paid + self.unpaid)
        mean = np.array(self.sums) / count
        covariance = np.array(self.products) / count - np.outer(mean, mean)
        return covariance, np.array(self.paid_sums) / count - mean * self.paid / count


def fit_weights(covariance: WeightVector, with_outcome: WeightVector) -> tuple[float, ...]:
    """Weights of least error on the simplex, by coordinate descent under v ≥ 0."""
    v = np.zeros(len(with_outcome))
    for _ in range(_DESCENT_ROUNDS):
        for i, own in enumerate(np.diag(covariance).tolist()):
            if own > 1e-12:
                rest = float(covariance[i] @ v) - own * float(v[i])
                v[i] = max(0.0, (float(with_outcome[i]) - rest) / own)
    total = float(v.sum())
    return tuple((v / total).tolist()) if total > 0.0 else EQUAL_WEIGHTS


class MatchQuery(NamedTuple):
    """The distinct contexts of a page, looked up, and which of them each link has."""

    terms: PostingsQuery
    # (contexts, parts): the weight of a part that is empty; None: nothing is skipped.
    empty_parts: Float32Matrix | None
    context_of: IntColumn

    def __len__(self) -> int:
        return len(self.terms.head_of)

    def select(self, rows: IntColumn) -> "MatchQuery":
        """Some of the contexts."""
        return MatchQuery(
            self.terms.select(rows), None if self.empty_parts is None else self.empty_parts[rows], self.context_of
        )


class NodeIndex:
    """The nodes of a graph, prepared for matching. `silent` nodes and nodes without a path are left out.

    `rarity`: rare words count more, and the words of a link more than those near it.
    """

    def __init__(self, graph: TGraph, terms_of: TermsOf, rarity: TermRarity | None = None) -> None:
        # Pages repeat their headings.
        terms = lru_cache(maxsize=None)(terms_of)
        away = graph.distances
        usable = [n for n in graph.nodes.values() if n.id in away and not n.dic.silent]
        self.nodes: list[GraphNode] = sorted(usable, key=lambda n: (away[n.id], n.id))
        self.distances: IntColumn = np.array([away[n.id] for n in self.nodes], dtype=np.int64)
        self._rarity = rarity
        self._terms: list[PartTerms] = [tuple(terms(text) for text in n.parts) for n in self.nodes]
        if rarity is not None:
            self._terms = [
                (*heads, [*dc, *(list(terms(n.anchor)) * ANCHOR_REPEATS)])
                for n, (*heads, dc) in zip(self.nodes, self._terms, strict=True)
            ]
        self._node_empty_parts = _empty_parts(self._terms)
        self._postings = NodePostings(
            term_vectors(self._terms, rarity), [nodes.stop for _, nodes in self.distance_slices]
        )

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def distance_slices(self) -> list[tuple[int, slice]]:
        """The nodes of each distance, nearest first."""
        found, starts = np.unique(self.distances, return_index=True)
        ends = [*starts[1:].tolist(), len(self.nodes)]
        return [(int(d), slice(int(a), b)) for d, a, b in zip(found, starts, ends, strict=False)]

    def query(self, links: LinkParts, weights: Sequence[float] = EQUAL_WEIGHTS, skip_empty: bool = False) -> MatchQuery:
        """A query for a page's links: each pair of headings and window once.

        `skip_empty`: a part that is empty on both sides is left out of the mean; else it counts as 0, as in the paper.
        """
        heads, windows = links.heads, links.windows
        count = max(1, len(windows))
        distinct, context_of = np.unique(links.head_of * count + links.window_of, return_inverse=True)
        head_of, window_of = np.divmod(distinct, count)
        texts = [((), (), (), windows[at]) for at in window_of.tolist()] + [(*head, ()) for head in heads]
        asked = self._postings.look_up(term_vectors(texts, self._rarity), head_of, len(heads), weights)
        blank = None
        if skip_empty:
            contexts = [(*heads[h], windows[w]) for h, w in zip(head_of.tolist(), window_of.tolist(), strict=True)]
            blank = _empty_parts(contexts) * np.asarray(weights, dtype=np.float32)
        return MatchQuery(asked, blank, context_of)

    def osm(self, question: MatchQuery, step: int | None = None) -> Float32Matrix:
        """OSM (S2-31) of all contexts with the nodes of a step of `slices`, or with all. The next call reuses it."""
        first, last = (0, -1) if step is None else (step, step + 1)
        found = self._postings.product(question.terms, first, last)
        if question.empty_parts is not None:
            ends = self._postings.ends
            both = question.empty_parts @ self._node_empty_parts[ends[first] : ends[last]].T
            # The rest of the weights, 0 where everything is empty.
            found /= np.maximum(1.0 - both, 1e-6)
        return found

    def part_similarities(self, node: int, parts: Sequence[Sequence[int]]) -> tuple[float, ...]:
        """The four similarities of one link with one node: weights are fitted with them."""
        mine, theirs = (term_vectors([tuple(one)], self._rarity) for one in (parts, self._terms[node]))
        _, a, b = np.intersect1d(mine.keys, theirs.keys, assume_unique=True, return_indices=True)
        found = np.bincount(mine.keys[a] >> 32, mine.values[a] * theirs.values[b], minlength=len(NODE_PARTS))
        return tuple(found.tolist())


def _empty_parts(texts: Sequence[PartTerms]) -> Float32Matrix:
    return np.array([[not part for part in parts] for parts in texts], dtype=np.float32).reshape(-1, len(NODE_PARTS))


PriorityColumn = NDArray[np.float64]
PriorityRule = Literal["least", "all", "soft"]
# Similarities are float32: one equal to the threshold must not pass it (strictly more, S2-38).
_ROUNDING = 1e-6


class MatchingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How links are matched; the defaults are the paper's (S2-37).

    `rule`: `least` takes the nearest matching node (S2-32); `all` is Σ OSM/d ÷ Σ OSM over all that match (S2-F9,
    S2-F10); `soft` is the best OSM/d. `next_step`: 1/(d+1) instead of 1/max(1, d) (S2-E4).
    """

    threshold: float = 0.05
    unrelated: float = 0.01
    rule: PriorityRule = "least"
    next_step: bool = False
    skip_empty: bool = False
    weights: tuple[float, ...] = EQUAL_WEIGHTS


class LinkMatches(NamedTuple):
    """One row per link. `node` is −1, `distance` −1 and `osm` that of the most similar node where none matches."""

    priority: PriorityColumn
    osm: PriorityColumn
    distance: NDArray[np.int64]
    node: NDArray[np.int64]


def inverse_distance(distance: int, next_step: bool = False) -> float:
    """The priority of a link with this distance from a target.

    >>> [round(inverse_distance(d), 4) for d in (0, 1, 2, 3)], inverse_distance(0, next_step=True)
    ([1.0, 1.0, 0.5, 0.3333], 1.0)
    """
    return 1.0 / (distance + 1) if next_step else 1.0 / max(1, distance)


def match_links(index: NodeIndex, links: LinkParts, how: MatchingOptions) -> LinkMatches:
    """The priority of every link of a page; links that match nothing get `unrelated`."""
    count = len(links.head_of)
    if not len(index) or not count:
        nothing = np.full(count, -1, dtype=np.int64)
        return LinkMatches(np.full(count, how.unrelated), np.zeros(count), nothing, nothing)
    question = index.query(links, how.weights, how.skip_empty)
    search = _NodeSearch(len(question), how)
    osm = None if how.rule == "least" else index.osm(question)
    for step, (distance, nodes) in enumerate(index.distance_slices):
        left = search.visit_distance(index.osm(question, step) if osm is None else osm[:, nodes], distance, nodes.start)
        if left is not None:
            question = question.select(left)
        if not len(question):
            break
    found, at = search.result(), question.context_of
    return LinkMatches(found.priority[at], found.osm[at], found.distance[at], found.node[at])


class _NodeSearch:
    """The best matches of a page's contexts so far, from the nearest nodes to the farthest."""

    def __init__(self, count: int, how: MatchingOptions) -> None:
        nothing = [np.full(count, -1, dtype=np.int64) for _ in range(2)]
        # Contexts that are still searching.
        self.rows = np.arange(count)
        self._options = how
        self._matches = LinkMatches(np.full(count, how.unrelated), np.zeros(count), *nothing)
        # Σ OSM/d and Σ OSM of all that match.
        self._sums = np.zeros((2, count))

    def visit_distance(self, osm: Float32Matrix, distance: int, start: int) -> IntColumn | None:
        """Compare with the nodes of one distance; consumes `osm`. Returns the contexts that continue, None: all.

        The nearest node above the threshold counts, of those at one distance the most similar; by `least` that is all.
        """
        found, rows, top = self._matches, self.rows, osm.argmax(axis=1)
        best = osm[np.arange(len(osm)), top]
        above, waits = best > self._options.threshold + _ROUNDING, found.node[rows] < 0
        found.osm[rows[waits]] = np.maximum(found.osm[rows[waits]], best[waits])
        first = above & waits
        found.distance[rows[first]] = distance
        found.node[rows[first]] = top[first] + start
        worth = inverse_distance(distance, self._options.next_step)
        if self._options.rule == "all":
            self._add(osm, worth)
            return None
        found.priority[rows[above]] = np.maximum(found.priority[rows[above]], worth * best[above])
        if self._options.rule == "soft" or not above.any():
            return None
        found.priority[rows[above]] = worth
        left = np.flatnonzero(~above)
        self.rows = rows[left]
        return left

    def _add(self, osm: Float32Matrix, worth: float) -> None:
        osm *= osm > self._options.threshold + _ROUNDING
        # Three times as fast as a sum along an axis.
        above = osm @ np.ones(osm.shape[1], dtype=np.float32)
        self._sums += np.outer((worth, 1.0), above)

    def result(self) -> LinkMatches:
        """One row per context."""
        found, how = self._matches, self._options
        if how.rule != "all":
            return found
        mean = self._sums[0] / np.maximum(self._sums[1], 1e-12)
        return found._replace(priority=np.where(found.node >= 0, np.maximum(mean, how.unrelated), how.unrelated))
