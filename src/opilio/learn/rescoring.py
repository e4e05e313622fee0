"""When which queued links are scored again.

All only now and then, in between those that stood best then and those found since: one visit changes little for links
far down, and scoring all every time cost a sixth of a replay. How often hardly matters: the best ones after every
visit, every 4th or every 32nd gave 0.569, 0.568 and 0.567 of the oracle over 18 runs, all of them twice as often 0.570
instead of 0.571. All of them half as often: the same over 38 runs.
"""

import numpy as np
from numpy.typing import NDArray

from opilio.text.counting import distinct

Rows = NDArray[np.int64]
NO_ROWS: Rows = np.zeros(0, dtype=np.int64)

ALL_EVERY = 16  # visits after which all links are scored again; sooner at first, when each visit teaches much
PER_VISIT = 75  # links that a visit pays for: so scoring all again, spread over visits, costs the same for any number
FRONT = 128  # best links, scored again in between
FRONT_EVERY = 32  # visits; sooner at first
_LONG_AGO = -(1 << 40)


class Rescoring:
    """Counts in visits. Rows are places in a queue of links."""

    def __init__(self) -> None:
        self._front = NO_ROWS
        self._young: list[Rows] = []  # found since the front was looked at: they were scored when they were found
        self._all_at = self._front_at = _LONG_AGO

    @property
    def all_scored(self) -> bool:
        """Have all been scored once, and does that still hold?"""
        return self._all_at != _LONG_AGO

    def begin_anew(self) -> None:
        """Links far down may have moved too: score all next time."""
        self._all_at = _LONG_AGO

    def found(self, rows: Rows) -> None:
        """Links that were found, or found again."""
        self._young.append(rows)

    def all_due(self, visits: int, links: int) -> bool:
        return visits >= self._all_at + min(visits // 5, max(ALL_EVERY, links // PER_VISIT))

    def front_due(self, visits: int) -> bool:
        return visits >= self._front_at + min(visits // 20, FRONT_EVERY)

    def front(self, said: NDArray[np.float64]) -> Rows:
        """The best links of last time that still wait; `said` is negative for rows that are not in use."""
        return self._front[said[self._front] >= 0.0]

    def scored_all(self, visits: int, rows: Rows, scores: NDArray[np.float64]) -> None:
        """All were scored."""
        self._all_at = self._front_at = visits
        self._front, self._young = rows[best(scores, FRONT)], []

    def scored_front(self, visits: int, front: Rows, said: NDArray[np.float64]) -> None:
        """The front was scored: what was found since joins it."""
        rows = distinct(np.concatenate((front, *self._young)))
        self._front_at = visits
        self._front, self._young = rows[best(said[rows], FRONT)], []


def best(scores: NDArray[np.float64], most: int) -> Rows:
    """Where the highest are, in no order."""
    return np.argpartition(-scores, most - 1)[:most] if len(scores) > most else np.arange(len(scores))
