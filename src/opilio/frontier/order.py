"""In which order queued URLs are asked for: pure policies that a frontier is given.

An order turns a score into a *sort key* that stays valid while the entry waits, so that nothing is ever
re-sorted, and optionally into a *timer* on which the frontier acts (aging saturates, expiry deletes). Ties are
always broken by the order of discovery. It holds no entries, reads no clock and does no I/O.
"""

from math import ceil, isfinite
from typing import Literal, NamedTuple, Protocol

import msgspec

AgingMode = Literal["paper", "base_tiebreak", "off"]

# Added to the key of the URLs an N-best batch has chosen: above any score, small enough to keep its digits.
CHOSEN = float(1 << 20)
# The key of URLs that are to be asked for again: above all others, so that who revives them sets the pace.
AGAIN = 2.0 * CHOSEN


class Place(NamedTuple):
    """Where an entry stands: its sort key (higher is sooner) and when the frontier must look at it again."""

    priority: float
    timer: float | None = None


class Moment(NamedTuple):
    """When: how many URLs were ever inserted, and the time (None keeps an entry's time stamp)."""

    inserted: int
    now: float | None = None


class Order(Protocol):
    """A policy. `batch` > 0: N-best. `top` > 0: at most so many URLs a lease (S3-25). `drops`: a due timer deletes."""

    @property
    def batch(self) -> int: ...

    @property
    def top(self) -> int: ...

    @property
    def drops(self) -> bool: ...

    def place(self, score: float, seq: int, moment: Moment, previous: Place | None = None) -> Place: ...

    def tick(self, moment: Moment) -> float | None: ...

    def shown(self, priority: float, inserted: int) -> float: ...


def seed_score(priority: int, best_link: float = 4.0) -> float:
    """The score of a seed: above every extracted link, in the order 1, 2, 3 (S0-E12).

    `best_link` is the highest score a link can have: four components of at most 1 (S0-25).

    >>> [seed_score(p) for p in (1, 2, 3)]
    [7.0, 6.0, 5.0]
    """
    return best_link + (4 - min(max(priority, 1), 3))


def sane(score: float) -> float:
    """A score that can be sorted: a model that went wrong (NaN, infinite) must not stop the crawl."""
    return score if isfinite(score) else 0.0


class BestFirst(msgspec.Struct, frozen=True, kw_only=True):
    """The best score first."""

    top: int = 0

    @property
    def batch(self) -> int:
        return 0

    @property
    def drops(self) -> bool:
        return False

    def place(self, score: float, seq: int, moment: Moment, previous: Place | None = None) -> Place:  # noqa: ARG002 the policy's signature
        return Place(score)

    def tick(self, moment: Moment) -> float | None:  # noqa: ARG002 the policy's signature
        return None

    def shown(self, priority: float, inserted: int) -> float:  # noqa: ARG002 the policy's signature
        return priority


class BreadthFirst(BestFirst, frozen=True, kw_only=True):
    """The order of discovery, whatever the score."""

    def place(self, score: float, seq: int, moment: Moment, previous: Place | None = None) -> Place:  # noqa: ARG002 the policy's signature
        return Place(0.0)


class NBest(BestFirst, frozen=True, kw_only=True):
    """Take the N best, work through all of them, look again (S1-11).

    The chosen ones carry CHOSEN in their key; a frontier leases only chosen ones while there are any.
    """

    n: int = 256

    @property
    def batch(self) -> int:
        return self.n

    def place(self, score: float, seq: int, moment: Moment, previous: Place | None = None) -> Place:  # noqa: ARG002 the policy's signature
        chosen = previous is not None and previous.priority >= CHOSEN / 2
        return Place(score + CHOSEN if chosen else score)

    def shown(self, priority: float, inserted: int) -> float:  # noqa: ARG002 the policy's signature
        return round(priority - CHOSEN, 9) if priority >= CHOSEN / 2 else priority


class Expiring(BestFirst, frozen=True, kw_only=True):
    """Best first, but an entry that waited longer than its lifetime is deleted, never requested (S3-27, S3-28).

    A better score found later is an update and renews the time stamp; learning (`now` None) does not.
    """

    lifetime_s: float = 3600.0

    @property
    def drops(self) -> bool:
        return True

    def place(self, score: float, seq: int, moment: Moment, previous: Place | None = None) -> Place:  # noqa: ARG002 the policy's signature
        if moment.now is None:
            return Place(score, previous.timer if previous else None)
        return Place(score, moment.now + self.lifetime_s)

    def tick(self, moment: Moment) -> float | None:
        return moment.now


class Aging(BestFirst, frozen=True, kw_only=True):
    """Whoever waits rises: after every `every` insertions `factor` is added to each entry below 1 (S2-39).

    Done lazily (S2-E5): all entries below 1 rise alike, so `base - factor * round of entry` orders them for good;
    the timer is the round in which an entry reaches 1 and joins the others there, first come first served.
    `base_tiebreak` orders equals by the score they came with; `off` is best-first.
    """

    factor: float = 0.05
    every: int = 100
    mode: AgingMode = "base_tiebreak"

    def rounds_to_saturate(self, score: float) -> int:
        """How many rounds lift a score to 1.

        >>> Aging().rounds_to_saturate(0.01), Aging(factor=0.02).rounds_to_saturate(0.01)
        (20, 50)
        """
        # A whole number of steps must not become one more by a rounding error of 1e-16.
        return max(0, ceil((1.0 - score) / self.factor - 1e-9))

    def place(self, score: float, seq: int, moment: Moment, previous: Place | None = None) -> Place:  # noqa: ARG002 the policy's signature
        if self.mode == "off":
            return Place(score)
        entered = (seq - 1) // self.every
        ripe = entered + self.rounds_to_saturate(score)
        if moment.inserted // self.every >= ripe:
            return Place(max(score, 1.0) + self._tiebreak(score))
        return Place(round(score - self.factor * entered, 6) + self._tiebreak(score), float(ripe))

    def _tiebreak(self, score: float) -> float:
        # Below the sixth digit, to which keys are rounded: it decides between equals only.
        return 1e-8 * score if self.mode == "base_tiebreak" else 0.0

    def tick(self, moment: Moment) -> float | None:
        return None if self.mode == "off" else float(moment.inserted // self.every)

    def shown(self, priority: float, inserted: int) -> float:
        if self.mode == "off":
            return priority
        if priority >= 1.0:
            return round(priority, 6)
        return min(1.0, round(priority + self.factor * (inserted // self.every), 6))
