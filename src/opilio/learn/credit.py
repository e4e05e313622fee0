"""Delayed credit: a page whose links paid was worth fetching, whatever it said itself. This is how hubs are learnt."""

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

RECENT = 4_096  # visits whose features are remembered
ENOUGH = 3  # links of a page that must have been fetched before it gets its credit


class Example(NamedTuple):
    """Something to learn from: the features a link had when it was fetched, and what it was worth."""

    words: NDArray[np.uint32]
    dense: NDArray[np.float64]
    label: float


class _Visit(msgspec.Struct, array_like=True):
    page: int
    words: bytes
    dense: bytes
    label: float
    children: list[float]


class Credit:
    """Remembers recent visits and tells, once enough of a page's links were fetched, what that page was worth."""

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._visits: dict[int, Example] = {}
        self._children: dict[int, list[float]] = {}

    def remember(self, page: int, example: Example) -> None:
        """A page was fetched; `example.label` is what it said itself."""
        if not self._gamma:
            return
        self._visits[page] = example
        if len(self._visits) > RECENT:
            oldest = next(iter(self._visits))
            del self._visits[oldest]
            self._children.pop(oldest, None)

    def paid(self, parents: list[int], reward: float) -> list[Example]:
        """A link of these pages turned out to be worth `reward`: what that teaches about the pages."""
        lessons = []
        for parent in parents if self._gamma else ():
            visit = self._visits.get(parent)
            if visit is None:
                continue
            rewards = self._children.setdefault(parent, [])
            if len(rewards) == ENOUGH:  # it has had its credit
                continue
            rewards.append(reward)
            if len(rewards) == ENOUGH:
                label = min(1.0, visit.label + self._gamma * sum(rewards) / ENOUGH)
                if label > visit.label + 0.1:
                    lessons.append(visit._replace(label=label))
        return lessons

    def snapshot(self) -> bytes:
        kept = [
            _Visit(page, v.words.tobytes(), v.dense.tobytes(), v.label, self._children.get(page, []))
            for page, v in self._visits.items()
        ]
        return msgspec.msgpack.encode(kept)

    def restore(self, state: bytes) -> None:
        kept = msgspec.msgpack.decode(state, type=list[_Visit])
        self._visits = {
            v.page: Example(np.frombuffer(v.words, np.uint32), np.frombuffer(v.dense, np.float64), v.label)
            for v in kept
        }
        self._children = {v.page: v.children for v in kept if v.children}
