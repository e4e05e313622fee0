"""Harvest curves: how many of the pages so far were relevant, and how many of the last ones. Pure."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

POINTS = 160
WINDOWS = (100, 500)


def harvest_curve(
    relevant: bytes | bytearray, times: Sequence[float], points: int = POINTS, first: int = 1, last: int = 0
) -> list[dict[str, Any]]:
    """At most `points` moments of a crawl, evenly over its pages, or over those from `first` to `last` (0: the end).

    `harvest` is the share of relevant pages so far, `recent` that of the last hundred, `longer` of the last five
    hundred.

    >>> [moment["at"] for moment in harvest_curve(bytes(3), [2.0, 1.0, 3.0])]
    [2.0, 2.0, 3.0]
    >>> harvest_curve(bytes([1, 0, 1, 1]), [1.0, 2.0, 3.0, 4.0])[-1]
    {'pages': 4, 'relevant': 3, 'harvest': 0.75, 'recent': 0.75, 'longer': 0.75, 'at': 4.0}
    >>> [moment["pages"] for moment in harvest_curve(bytes(9), [1.0] * 9, first=3, last=5)]
    [3, 4, 5]
    """
    flags: NDArray[np.int64] = np.frombuffer(bytes(relevant), dtype=np.uint8).astype(np.int64)
    start, end = first - 1, min(last or len(flags), len(flags))
    if start >= end:
        return []
    found = np.cumsum(flags)
    reached = np.maximum.accumulate(np.array(times, dtype=np.float64))  # pages are committed a little out of turn
    places = np.unique(np.linspace(start, end - 1, min(points, end - start)).round().astype(np.int64))
    return [_moment(found, int(place), float(reached[place])) for place in places]


def _moment(found: NDArray[np.int64], place: int, at: float) -> dict[str, Any]:
    return {
        "pages": place + 1,
        "relevant": int(found[place]),
        "harvest": round(float(found[place]) / (place + 1), 4),
        "recent": round(_window(found, place, WINDOWS[0]), 4),
        "longer": round(_window(found, place, WINDOWS[1]), 4),
        "at": at,
    }


def _window(found: NDArray[np.int64], place: int, size: int) -> float:
    before = int(found[place - size]) if place >= size else 0
    return (int(found[place]) - before) / min(size, place + 1)
