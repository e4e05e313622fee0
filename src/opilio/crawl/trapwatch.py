"""Traps as the crawl sees them: refuses what looks like one, and tells once for every host and kind."""

from collections.abc import Callable, Iterable

from opilio.crawl.wishes import Exclusions
from opilio.model.events import TrapFound
from opilio.model.urls import host_of

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
