"""All links of a page against all nodes at once: products of matrices, no loop per link and node.

Each part of a node is a unit vector (headings: its set of stems; DC: counts of stems), so OSM = Σ weight · cosine is
one dot product over (part, stem) pairs. Nodes lie in the order of their distance, and those of one distance can be
asked about alone: whoever has found a near match need not look farther.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opilio.tgraph.components import LinkParts, TermsOf
from opilio.tgraph.graph import TGraph
from opilio.tgraph.node import PARTS, Node
from opilio.tgraph.postings import Asked, Matrix, Postings, Texts, bags_of
from opilio.tgraph.weights import EQUAL

Keys = NDArray[np.int64]


class Question(NamedTuple):
    """The distinct contexts of a page, looked up, and which of them each link has."""

    asked: Asked
    blank: Matrix | None  # (contexts, parts): the weight of a part that is empty; None: nothing is skipped
    context_of: Keys

    def __len__(self) -> int:
        return len(self.asked.head_of)

    def only(self, rows: Keys) -> "Question":
        """Some of the contexts."""
        return Question(self.asked.only(rows), None if self.blank is None else self.blank[rows], self.context_of)


class NodeIndex:
    """The nodes of a graph ready for matching. `silent` nodes and nodes without a way are left out."""

    def __init__(self, graph: TGraph, terms_of: TermsOf) -> None:
        terms = lru_cache(maxsize=None)(terms_of)  # pages repeat their headings
        away = graph.distances
        usable = [n for n in graph.nodes.values() if n.id in away and not n.dic.silent]
        self.nodes: list[Node] = sorted(usable, key=lambda n: (away[n.id], n.id))
        self.distances: Keys = np.array([away[n.id] for n in self.nodes], dtype=np.int64)
        self._terms: list[Texts] = [tuple(terms(text) for text in n.parts) for n in self.nodes]
        self._empty = _blanks(self._terms)
        self._postings = Postings(bags_of(self._terms), [nodes.stop for _, nodes in self.slices])

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def slices(self) -> list[tuple[int, slice]]:
        """The nodes of each distance, nearest first."""
        found, starts = np.unique(self.distances, return_index=True)
        ends = [*starts[1:].tolist(), len(self.nodes)]
        return [(int(d), slice(int(a), b)) for d, a, b in zip(found, starts, ends, strict=False)]

    def question(self, links: LinkParts, weights: Sequence[float] = EQUAL, skip_empty: bool = False) -> Question:
        """What is to be compared of a page's links: each pair of headings and window once.

        `skip_empty`: a part that is empty on both sides is left out of the mean; else it counts as 0, as in the paper.
        """
        heads, windows = links.heads, links.windows
        count = max(1, len(windows))
        distinct, context_of = np.unique(links.head_of * count + links.window_of, return_inverse=True)
        head_of, window_of = np.divmod(distinct, count)
        texts = [((), (), (), windows[at]) for at in window_of.tolist()] + [(*head, ()) for head in heads]
        asked = self._postings.look_up(bags_of(texts), head_of, len(heads), weights)
        blank = None
        if skip_empty:
            contexts = [(*heads[h], windows[w]) for h, w in zip(head_of.tolist(), window_of.tolist(), strict=True)]
            blank = _blanks(contexts) * np.asarray(weights, dtype=np.float32)
        return Question(asked, blank, context_of)

    def osm(self, question: Question, step: int | None = None) -> Matrix:
        """OSM (S2-31) of all contexts with the nodes of a step of `slices`, or with all. The next call reuses it."""
        first, last = (0, -1) if step is None else (step, step + 1)
        found = self._postings.product(question.asked, first, last)
        if question.blank is not None:
            ends = self._postings.ends
            both = question.blank @ self._empty[ends[first] : ends[last]].T
            found /= np.maximum(1.0 - both, 1e-6)  # what is left of the weights, 0 where everything is empty
        return found

    def parts(self, node: int, parts: Sequence[Sequence[int]]) -> tuple[float, ...]:
        """The four similarities of one link with one node, apart: what weights are fitted with."""
        mine, theirs = bags_of([tuple(parts)]), bags_of([self._terms[node]])
        _, a, b = np.intersect1d(mine.keys, theirs.keys, assume_unique=True, return_indices=True)
        found = np.bincount(mine.keys[a] >> 32, mine.values[a] * theirs.values[b], minlength=len(PARTS))
        return tuple(found.tolist())


def _blanks(texts: Sequence[Texts]) -> Matrix:
    return np.array([[not said for said in parts] for parts in texts], dtype=np.float32).reshape(-1, len(PARTS))
