"""Clocks and dates. Code that needs the time takes a `Clock`; only `SystemClock` reads the system's.

Dates in HTTP headers, feeds and ISO 8601 become seconds since 1970. A date without a time zone is UTC.
"""

import asyncio
import heapq
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import count
from typing import Protocol

DAY_S = 86_400.0
# Not every system has it.
_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """The current time in seconds since 1970, and sleeping."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...

    @property
    def suspended_s(self) -> float:
        """How long the machine was suspended since the clock was made; `now` includes it."""


def elapsed_s() -> float:
    """Seconds since some moment, also while the machine is suspended; setting the system's clock does not change it."""
    return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)


class SystemClock:
    """The time when it was created plus the seconds since then.

    A system clock that is set during a run neither shortens a pause nor makes one an hour long. The next run starts
    with the new time.
    """

    def __init__(self) -> None:
        self._offset_s = time.time() - elapsed_s()
        self._asleep_before_s = elapsed_s() - time.monotonic()

    def now(self) -> float:
        return self._offset_s + elapsed_s()

    @property
    def suspended_s(self) -> float:
        return max(0.0, elapsed_s() - time.monotonic() - self._asleep_before_s)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class VirtualClock:
    """A clock for tests: it moves only when `advance` is called, so sleeping takes no real time.

    Invariant: sleepers wake in the order of their due time, ties in the order they started to sleep, so a run that only
    waits on this clock is deterministic.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._suspended_s = 0.0

    @property
    def suspended_s(self) -> float:
        return self._suspended_s

    def suspend(self, seconds: float) -> None:
        """Let time pass as while the machine is suspended: sleepers wake with the next `advance`."""
        self._now += seconds
        self._suspended_s += seconds

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), waiter))
        await waiter

    @property
    def sleeping(self) -> int:
        """The number of sleepers."""
        return len(self._sleepers)

    def advance(self, until: float | None = None) -> bool:
        """Move to the next due time (not beyond `until`) and wake the sleepers that are due; False if none is."""
        if not self._sleepers or (until is not None and self._sleepers[0][0] > until):
            if until is None:
                return False
            self._now = max(self._now, until)
            return False
        self._now = max(self._now, self._sleepers[0][0])
        while self._sleepers and self._sleepers[0][0] <= self._now:
            waiter = heapq.heappop(self._sleepers)[2]
            if not waiter.done():
                waiter.set_result(None)
        return True


_MAX_DATE_LENGTH = 100  # a long HTTP date has 40 characters


def parse_http_date(text: str) -> float | None:
    """The time of an HTTP or e-mail date; None if it is not one.

    >>> parse_http_date("Thu, 01 Jan 1970 00:00:30 GMT"), parse_http_date("soon")
    (30.0, None)
    """
    # Parsing an empty header is the common case, and the parser is slow: quadratic for some long texts.
    if not text or len(text) > _MAX_DATE_LENGTH:
        return None
    try:
        return _timestamp(parsedate_to_datetime(text))
    except (ValueError, TypeError, OverflowError, IndexError, OSError):
        return None


def parse_iso_date(text: str) -> float | None:
    """The time of an ISO 8601 date, with or without a time of day; None if it is not one.

    >>> parse_iso_date("1970-01-01T00:01:00Z"), parse_iso_date("1970-01-02"), parse_iso_date("soon")
    (60.0, 86400.0, None)
    """
    try:
        return _timestamp(datetime.fromisoformat(text))
    except (ValueError, OverflowError, OSError):
        return None


def format_iso_time(at: float) -> str:
    """A time as ISO 8601 in UTC, to the second.

    >>> format_iso_time(60.4)
    '1970-01-01T00:01:00Z'
    """
    return datetime.fromtimestamp(int(at), UTC).isoformat().replace("+00:00", "Z")


def parse_date(text: str) -> float | None:
    """The time of a date in either format."""
    found = parse_iso_date(text)
    return parse_http_date(text) if found is None else found


def _timestamp(date: datetime) -> float:
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
