"""Decision tree induction (S1-28): splits by information gain, leaves smoothed so that they can order a queue."""

from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.learner import Chances
from opilio.learn.rows import WIDTH, Labels, Rows

DEPTH = 8
LEAF = 5  # a leaf of fewer rows says nothing
_NO_CHILD = -1


class TreeModel(msgspec.Struct, frozen=True, dict=True, tag="tree"):
    """Nodes by number; 0 is the root. Invariant: children have larger numbers than their parent, so a descent ends."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    column: tuple[int, ...]
    threshold: tuple[float, ...]
    chance: tuple[float, ...]

    def __post_init__(self) -> None:
        nodes = len(self.left)
        if not nodes or any(len(part) != nodes for part in (self.right, self.column, self.threshold, self.chance)):
            raise ValueError("every node needs left, right, column, threshold and chance")
        for at, (left, right, column) in enumerate(zip(self.left, self.right, self.column, strict=True)):
            if left == right == _NO_CHILD:
                continue
            if not (at < left < nodes and at < right < nodes and 0 <= column < WIDTH):
                raise ValueError(f"node {at} leads nowhere")
        if not all(0.0 <= chance <= 1.0 for chance in self.chance):
            raise ValueError("chance must be within 0..1")

    @property
    def parameters(self) -> int:
        """Two numbers a split (column and threshold), one a leaf."""
        leaves = self.left.count(_NO_CHILD)
        return 2 * (len(self.left) - leaves) + leaves

    @cached_property
    def _arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        children = np.array((self.left, self.right), dtype=np.int64)
        return children, np.array(self.column), np.array(self.threshold), np.array(self.chance)

    def probability(self, rows: Rows) -> Chances:
        """All rows go down the tree together, a level at a time."""
        children, column, threshold, chance = self._arrays
        node = np.zeros(len(rows), dtype=np.int64)
        going = np.arange(len(rows))
        known = rows.astype(np.float32)  # as the tree was grown
        while len(going := going[children[0, node[going]] != _NO_CHILD]):
            at = node[going]
            node[going] = children[(known[going, column[at]] > threshold[at]).astype(np.int64), at]
        found: Chances = chance[node]
        return found


def train_tree(rows: Rows, labels: Labels, seed: int) -> TreeModel:
    """Grow a tree; a leaf's chance has Laplace's correction, so that small leaves do not shout."""
    from sklearn.tree import DecisionTreeClassifier

    grown = DecisionTreeClassifier(criterion="entropy", max_depth=DEPTH, min_samples_leaf=LEAF, random_state=seed)
    tree = grown.fit(rows, labels).tree_
    shares = tree.value[:, 0, 1] / tree.value[:, 0, :].sum(axis=1)
    chances = (shares * tree.n_node_samples + 1.0) / (tree.n_node_samples + 2.0)
    return TreeModel(
        left=tuple(tree.children_left.tolist()),
        right=tuple(tree.children_right.tolist()),
        column=tuple(np.maximum(tree.feature, 0).tolist()),
        threshold=tuple(tree.threshold.tolist()),
        chance=tuple(chances.tolist()),
    )
