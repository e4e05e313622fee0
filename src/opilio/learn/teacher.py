"""When a learner learns (S1-12): rows come one by one during a crawl, and are fitted now and then.

Not before both classes are known well enough, then after every so many rows, and more seldom the more it has seen:
the fits of a crawl of a million pages stay below a hundred. Memory is bounded.
"""

import msgspec
import numpy as np

from opilio.learn.learner import Chances, RowLearner
from opilio.learn.rows import Labels, RowMemory, Rows

GROWTH = 0.1  # fit again when the rows have grown by this share


class _State(msgspec.Struct):
    version: int
    seen: tuple[int, int]
    waiting: tuple[bytes, bytes]
    learner: bytes


class Teacher:
    """Collects rows and lets a learner fit them. `version` grows with every fit, and with nothing else."""

    def __init__(self, learner: RowLearner, every: int = 50, least: int = 10) -> None:
        self.learner = learner
        self.version = 0
        self._every = max(1, every)
        self._least = max(1, least)
        self._seen = (0, 0)  # irrelevant, relevant rows told so far
        self._waiting = RowMemory()

    @property
    def ready(self) -> bool:
        """Has the learner something to say?"""
        return self.learner.ready

    def probability(self, rows: Rows) -> Chances:
        """What the learner says."""
        return self.learner.probability(rows)

    def tell(self, rows: Rows, labels: Labels) -> None:
        """More rows; fits them if it is time."""
        relevant = int(np.count_nonzero(labels))
        self._seen = (self._seen[0] + len(labels) - relevant, self._seen[1] + relevant)
        self._waiting.add(rows, labels)
        if self._due():
            self._fit()

    def correct(self, rows: Rows, labels: Labels) -> None:
        """A person says what these rows are: they were told with the other label, or never. Fits at once if it can."""
        irrelevant, relevant = self._seen
        for at, label in enumerate(labels.tolist()):
            row, change = rows[at : at + 1], 1 if label else -1
            if self._waiting.move(row, label) or self.learner.move(row, label):
                irrelevant, relevant = irrelevant - change, relevant + change
            else:
                self._waiting.add(row, labels[at : at + 1])
                irrelevant, relevant = irrelevant + (not label), relevant + label
        self._seen = max(0, irrelevant), max(0, relevant)  # a model's own rows were never counted
        if self.ready or min(self._seen) >= self._least:
            self._fit()

    def _fit(self) -> None:
        self.learner.update(*self._waiting.all())
        self._waiting = RowMemory()
        self.version += 1

    def _due(self) -> bool:
        if min(self._seen) < self._least:
            return False
        first = self.version == 0 and not self.ready
        return len(self._waiting) >= (1 if first else max(self._every, int(GROWTH * sum(self._seen))))

    def snapshot(self) -> bytes:
        """Everything, to go on from later or elsewhere."""
        state = _State(self.version, self._seen, self._waiting.pack(), self.learner.snapshot())
        return msgspec.msgpack.encode(state)

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot."""
        kept = msgspec.msgpack.decode(state, type=_State)
        self.learner.restore(kept.learner)
        self._waiting.unpack(kept.waiting)
        self.version, self._seen = kept.version, kept.seen
