"""All links of a page against all nodes at once: one product of matrices, no loop per link and node.

Each part of a node is a unit vector (headings: its set of stems; DC: counts of stems), so OSM = Σ weight · cosine is
one dot product over (part, stem) pairs. Stems that many nodes have are columns of a dense matrix, the others lists of
nodes: either alone takes five times as long. Nodes lie in the order of their distance: the best match at each
distance is the maximum of a slice.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opilio.tgraph.components import LinkParts, TermsOf
from opilio.tgraph.graph import TGraph
from opilio.tgraph.node import Node
from opilio.tgraph.weights import EQUAL

Column = NDArray[np.float64]
Matrix = NDArray[np.float32]
Keys = NDArray[np.int64]
Texts = tuple[Sequence[int], ...]  # the terms of the four parts
DC = 3
EVEN = (1.0, 1.0, 1.0, 1.0)
_KEY = (1 << 34) - 1  # part and stem
COMMON = 0.05  # share of nodes that must have a stem before a column of its own is cheaper than a list


class Bags(NamedTuple):
    """Texts as rows of (part, stem) keys with the values of their unit vectors; rows ascend."""

    rows: Keys
    keys: Keys
    values: Column


def bags_of(texts: Sequence[tuple[int, int, Sequence[int]]]) -> Bags:
    """(row, part, terms) to unit vectors, in one sort. Headings are sets, DC has counts."""
    said = np.fromiter(chain.from_iterable(terms for _, _, terms in texts), np.int64)
    owners = np.array([row << 34 | part << 32 for row, part, _ in texts], dtype=np.int64)
    keys, counts = np.unique(np.repeat(owners, [len(terms) for _, _, terms in texts]) | said, return_counts=True)
    text = keys >> 32  # row and part
    values = np.where(text & 3 == DC, counts, 1).astype(np.float64)
    first = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(text[1:], text[:-1], out=first[1:])
    number = np.cumsum(first) - 1
    norms = np.sqrt(np.bincount(number, values * values))
    return Bags(keys >> 34, keys & _KEY, values / norms[number])


class Similar(NamedTuple):
    """What a matcher found: OSM of every distinct context with every node, and which context each link has."""

    osm: Matrix  # (contexts, nodes)
    context_of: Keys


class Postings:
    """Which node has which (part, stem), as a dense matrix for common ones and as lists for the rest."""

    def __init__(self, nodes: int, bags: Bags) -> None:
        self.nodes = nodes
        owners, keys, values = bags
        known, place, counts = np.unique(keys, return_inverse=True, return_counts=True)
        common = counts > COMMON * self.nodes
        self._column = np.where(common, np.cumsum(common) - 1, -1)  # of each key, −1: it has a list
        dense = common[place]
        self._dense: Matrix = np.zeros((int(common.sum()), self.nodes), dtype=np.float32)
        self._dense[self._column[place[dense]], owners[dense]] = values[dense]
        order = np.argsort(place[~dense], kind="stable")
        self._keys = known
        self._owners, self._values = owners[~dense][order], values[~dense][order]
        self._bounds: Keys = np.concatenate(([0], np.cumsum(np.where(common, 0, counts)))).astype(np.int64)

    def product(self, rows: int, bags: Bags, weights: Sequence[float]) -> Matrix:
        """Every row with every node; the weight of a part scales its values."""
        if not rows or not len(self._keys):
            return np.zeros((rows, self.nodes), dtype=np.float32)
        row_of, keys, values = bags
        values = values * np.asarray(weights)[keys >> 32]
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        hit = self._keys[place] == keys
        place, values, row_of = place[hit], values[hit], row_of[hit]
        column = self._column[place]
        found = self._listed(place[column < 0], values[column < 0], row_of[column < 0], rows)
        common = column >= 0
        asked = np.zeros((rows, len(self._dense)), dtype=np.float32)
        asked[row_of[common], column[common]] = values[common]
        found += asked @ self._dense
        return found

    def _listed(self, place: Keys, values: Column, row_of: Keys, rows: int) -> Matrix:
        begins = self._bounds[place]
        sizes = self._bounds[place + 1] - begins
        ends = np.cumsum(sizes)
        at = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(begins - ends + sizes, sizes)
        cells = np.repeat(row_of * self.nodes, sizes) + self._owners[at]
        found = np.bincount(cells, np.repeat(values, sizes) * self._values[at], minlength=rows * self.nodes)
        return found.reshape(rows, self.nodes).astype(np.float32)


class NodeIndex:
    """The nodes of a graph ready for matching. `silent` nodes and nodes without a way are left out."""

    def __init__(self, graph: TGraph, terms_of: TermsOf) -> None:
        terms = lru_cache(maxsize=None)(terms_of)  # pages repeat their headings
        away = graph.distances
        usable = [n for n in graph.nodes.values() if n.id in away and not n.dic.silent]
        self.nodes: list[Node] = sorted(usable, key=lambda n: (away[n.id], n.id))
        self.distances: Keys = np.array([away[n.id] for n in self.nodes], dtype=np.int64)
        self._terms: list[Texts] = [tuple(terms(text) for text in n.parts) for n in self.nodes]
        self._empty: Column = np.array([[not said for said in parts] for parts in self._terms], dtype=np.float64)
        self._postings = Postings(len(self.nodes), _bags(self._terms))

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def slices(self) -> list[tuple[int, slice]]:
        """The nodes of each distance, nearest first."""
        found, starts = np.unique(self.distances, return_index=True)
        ends = [*starts[1:].tolist(), len(self.nodes)]
        return [(int(d), slice(int(a), b)) for d, a, b in zip(found, starts, ends, strict=True)]

    def similar(self, links: LinkParts, weights: Sequence[float] = EQUAL, skip_empty: bool = False) -> Similar:
        """OSM of all links with all nodes (S2-31).

        `skip_empty`: a part that is empty on both sides is left out of the mean; else it counts as 0, as in the paper.
        """
        pairs = links.head_of * len(links.windows) + links.window_of
        distinct, context_of = np.unique(pairs, return_inverse=True)
        contexts = [(*links.heads[at // len(links.windows)], links.windows[at % len(links.windows)]) for at in distinct]
        osm = self._postings.product(len(contexts), _bags(contexts), weights)
        if skip_empty and contexts:
            osm *= self._stretch(contexts, weights)
        return Similar(osm, context_of)

    def parts(self, node: int, parts: Sequence[Sequence[int]]) -> tuple[float, ...]:
        """The four similarities of one link with one node, apart: what weights are fitted with."""
        own = Postings(1, _bags([self._terms[node]]))
        return tuple(float(own.product(1, bags_of([(0, p, said)]), EVEN)[0, 0]) for p, said in enumerate(parts))

    def _stretch(self, contexts: Sequence[Texts], weights: Sequence[float]) -> Matrix:
        """1 / the weight of the parts that are not empty on both sides."""
        mine = np.array([[not said for said in parts] for parts in contexts], dtype=np.float64)
        both = (mine * np.asarray(weights)) @ self._empty.T
        return np.asarray(1.0 / np.maximum(1.0 - both, 1e-9), dtype=np.float32)


def _bags(contexts: Sequence[Texts]) -> Bags:
    return bags_of([(row, part, said) for row, parts in enumerate(contexts) for part, said in enumerate(parts)])
