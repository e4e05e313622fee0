"""Seed segments: which agent begins where (S3-01, S3-08). Pure."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

Split = Literal["deal", "blocks"]


def segments(seeds: Sequence[str], agents: int, split: Split) -> list[list[str]]:
    """Seeds in equal parts: dealt like cards, or in consecutive blocks.

    >>> segments(["a", "b", "c", "d", "e"], 2, "deal"), segments(["a", "b", "c", "d", "e"], 2, "blocks")
    ([['a', 'c', 'e'], ['b', 'd']], [['a', 'b', 'c'], ['d', 'e']])
    """
    if split == "deal":
        return [list(seeds[first::agents]) for first in range(agents)]
    size, more = divmod(len(seeds), agents)
    ends = [size * n + min(n, more) for n in range(agents + 1)]
    return [list(seeds[begin:end]) for begin, end in pairwise(ends)]


def dealt(seeds: Sequence[str], own: Sequence[Sequence[str]], split: Split) -> list[list[str]]:
    """Each agent's seeds: those it was given itself, and its part of the others.

    The others go to the agents that were given none; where all were given some, to all.

    >>> dealt(["a", "b", "c"], [["x"], []], "deal")
    [['x'], ['a', 'b', 'c']]
    """
    named = {url for urls in own for url in urls}
    rest = [url for url in seeds if url not in named]
    takers = [n for n, urls in enumerate(own) if not urls] or list(range(len(own)))
    parts = dict(zip(takers, segments(rest, len(takers), split), strict=True))
    return [[*urls, *parts.get(n, ())] for n, urls in enumerate(own)]
