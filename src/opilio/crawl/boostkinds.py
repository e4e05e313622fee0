"""What may raise queued links beside their own score: nothing, PageRank, or the distiller's hubs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from opilio.model.errors import ConfigError
from opilio.rank.structure import Column, LinkStructure

Boosted = Callable[[Column, Column], Column]


class Boost:
    """When and how scores are raised: `values` of all nodes, and how one joins a link's own score."""

    def __init__(self, every: int, values: Callable[[LinkStructure], Column], joined: Boosted) -> None:
        if every < 1:
            raise ConfigError(f"boost.every: must be at least 1, not {every}")
        self.every = every
        self.values = values
        self.joined = joined


def _none() -> None:
    return None


def _pagerank(*, share: float = 0.5, topical: bool = True, damping: float = 0.85, every: int = 25) -> Boost:
    if not 0.0 <= share <= 1.0 or not 0.0 <= damping < 1.0:
        raise ConfigError("boost.share and boost.damping: must be between 0 and 1")

    def joined(own: Column, value: Column) -> Column:
        return np.asarray((1.0 - share) * own + share * value)

    return Boost(every, lambda structure: structure.pagerank(damping, topical), joined)


def _hubs(*, lift: float = 0.5, top: int = 20, same_host: bool = False, every: int = 25) -> Boost:
    def values(structure: LinkStructure) -> Column:
        return structure.below(structure.hubs(same_host), top)

    def joined(own: Column, value: Column) -> Column:
        return np.asarray(own + lift * value)

    return Boost(every, values, joined)


BOOSTS: dict[str, Callable[..., Any]] = {"none": _none, "pagerank": _pagerank, "hubs": _hubs}
