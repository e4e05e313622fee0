"""Traps as the crawl sees them: refuses what looks like one, and tells once for every host and kind."""

from collections.abc import Callable, Iterable

from opilio.crawl.config import Settings
from opilio.crawl.wishes import Exclusions
from opilio.frontier.policy import nothing
from opilio.frontier.schema import DROPPED
from opilio.frontier.traps import TrapLimits, Traps
from opilio.model.events import TrapFound
from opilio.model.urls import host_of
from opilio.store.collection import Collection

MAX_TOLD = 50_000


class TrapWatch:
    """Passes every new URL by `check` and remembers what was found until it is told. `excluded` is a person's word."""

    def __init__(self, check: Callable[[str], str]) -> None:
        self._check = check
        self.excluded = Exclusions()
        self._told: set[tuple[str, str]] = set()
        self._found: list[tuple[str, str, str]] = []

    def remind(self, urls: Iterable[str]) -> None:
        """Let it see again what an earlier run let pass: it counts."""
        for url in urls:
            self._check(url)

    def refuse(self, url: str) -> str:
        """Why this URL must not be followed, or nothing."""
        if unwanted := self.excluded.refuse(url):
            return unwanted
        reason = self._check(url)
        if reason:
            known = (host_of(url), reason)
            if known not in self._told and len(self._told) < MAX_TOLD:
                self._told.add(known)
                self._found.append((*known, url))
            return f"trap: {reason}"
        return ""

    def news(self, now: float) -> list[TrapFound]:
        """What was found since the last time."""
        found, self._found = self._found, []
        return [TrapFound(at=now, host=host, pattern=url, reason=reason) for host, reason, url in found]


def traps_of(settings: Settings, collection: Collection, resumed: bool, year: int | None = None) -> TrapWatch:
    """What looks out for traps; on a resumed crawl it knows what was let pass before.

    `year` is the present one; without it no date is too far ahead.
    """
    if not settings.frontier.traps:
        return TrapWatch(nothing)
    limits = TrapLimits() if year is None else TrapLimits(year=year)
    watch = TrapWatch(Traps(limits).check)
    if resumed:  # only queries, sessions and dates are counted
        rows = collection.connection.execute(
            "SELECT url FROM frontier_url WHERE state <> ? AND url GLOB '*[?;(0-9]*'", (DROPPED,)
        )
        watch.remind(url for (url,) in rows)
    return watch
