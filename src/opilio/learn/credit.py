"""Delayed credit: a page whose links paid was worth fetching, whatever it said itself. This is how hubs are learnt."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RECENT = 4_096  # visits whose features are remembered
ENOUGH = 3  # links of a page that must have been fetched before it gets its credit


class Example(NamedTuple):
    """Something to learn from: the features a link had when it was fetched, and what it was worth."""

    words: NDArray[np.uint32]
    dense: NDArray[np.float64]
    label: float


class Credit:
    """Remembers recent visits and tells, once enough of a page's links were fetched, what that page was worth."""

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._visits: dict[int, Example] = {}
        self._children: dict[int, list[float]] = {}

    def remember(self, page: int, example: Example) -> None:
        """A page was fetched; `example.label` is what it said itself."""
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
            rewards.append(reward)
            if len(rewards) == ENOUGH:
                label = min(1.0, visit.label + self._gamma * sum(rewards) / ENOUGH)
                if label > visit.label + 0.1:
                    lessons.append(visit._replace(label=label))
        return lessons
