"""The links of a web as integer arrays, and walks over them. Pure.

Nodes 0..pages-1 are the pages of the web in its own order; nodes from `pages` on are URLs that some page links to
and that are not in the web (dead links: requesting one costs a fetch).
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Nodes = NDArray[np.int32]


class WebLinkGraph:
    """Compressed rows: the targets of page i are `targets[starts[i]:starts[i + 1]]`, distinct, in page order."""

    def __init__(self, starts: NDArray[np.int64], targets: Nodes, nodes: int) -> None:
        self.starts = starts
        self.targets = targets
        self.nodes = nodes

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int]], nodes: int | None = None) -> "WebLinkGraph":
        """A graph from one list of targets per page; repeated targets of a page count once."""
        distinct = [list(dict.fromkeys(row)) for row in rows]
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in distinct], out=starts[1:])
        targets = np.array([t for row in distinct for t in row], dtype=np.int32)
        most = int(targets.max()) + 1 if len(targets) else 0
        return cls(starts, targets, max(len(rows), most, nodes or 0))

    @property
    def pages(self) -> int:
        return len(self.starts) - 1

    @property
    def links(self) -> int:
        """Links that lead to a page of the web."""
        return int((self.targets < self.pages).sum())

    @property
    def dead(self) -> int:
        """Links that lead nowhere."""
        return len(self.targets) - self.links

    def out_links(self, node: int) -> Nodes:
        """The targets of a node; a dead URL has none."""
        if node >= self.pages:
            return self.targets[:0]
        return self.targets[self.starts[node] : self.starts[node + 1]]

    def edges_of(self, nodes: Nodes) -> tuple[Nodes, Nodes]:
        """All links of some nodes as (source, target) arrays, in the order of the nodes."""
        nodes = nodes[nodes < self.pages]
        begins = self.starts[nodes]
        sizes = self.starts[nodes + 1] - begins
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if len(ends) else 0
        places = np.arange(total) - np.repeat(ends - sizes, sizes) + np.repeat(begins, sizes)
        return np.repeat(nodes, sizes), self.targets[places]

    def depths(self, seeds: Iterable[int]) -> Nodes:
        """Links from the nearest seed to each node, -1 where it can't be reached."""
        depth = np.full(self.nodes, -1, dtype=np.int32)
        front = np.array(sorted(set(seeds)), dtype=np.int32)
        depth[front] = 0
        level = 0
        while len(front):
            level += 1
            _, targets = self.edges_of(front)
            front = np.unique(targets[depth[targets] < 0])
            depth[front] = level
        return depth
