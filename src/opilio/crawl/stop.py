"""When a crawl ends. Pure: looks at counters and the time it is given."""

from collections import deque

from opilio.crawl.config import StopSettings
from opilio.store.keeper import Counts


class StopRules:
    """Says why to stop, or nothing. The reason is recorded in the collection."""

    def __init__(self, settings: StopSettings, started_at: float) -> None:
        self._settings = settings
        self._started_at = started_at
        self._recent: deque[bool] = deque(maxlen=settings.harvest_window)
        self._expected: float | None = None

    def saw(self, relevant: bool) -> None:
        """One more page was judged."""
        self._recent.append(relevant)

    def expects(self, relevant: float | None) -> None:
        """So many relevant pages are still to be found, as far as anybody can tell."""
        self._expected = relevant

    @property
    def patience_s(self) -> float:
        """How long to wait when every host asks us to wait."""
        return self._settings.patience_s

    @property
    def harvest(self) -> float:
        """The share of relevant pages among the last ones."""
        return sum(self._recent) / len(self._recent) if self._recent else 0.0

    def reason(self, now: float, counts: Counts) -> str:
        """Why to stop now, or nothing."""
        rules = self._settings
        if rules.pages and counts.pages >= rules.pages:
            return f"page limit reached ({rules.pages} pages)"
        if rules.fetches and counts.fetched >= rules.fetches:
            return f"fetch limit reached ({rules.fetches} fetches)"
        if rules.relevant and counts.relevant >= rules.relevant:
            return f"enough relevant pages ({rules.relevant})"
        if rules.minutes and now - self._started_at >= rules.minutes * 60:
            return f"time is up ({rules.minutes:g} minutes)"
        return self._worn_out()

    def _worn_out(self) -> str:
        """Is it no longer worth going on?"""
        rules = self._settings
        full = len(self._recent) == rules.harvest_window
        if rules.harvest_below and full and self.harvest < rules.harvest_below:
            return f"harvest of the last {rules.harvest_window} pages fell below {rules.harvest_below:g}"
        if rules.expected_below and self._expected is not None and self._expected < rules.expected_below:
            return f"about {self._expected:.1f} relevant pages are left to find, fewer than {rules.expected_below:g}"
        return ""

    def room(self, counts: Counts) -> int:
        """How many more URLs may be asked for at once without passing a limit."""
        rules = self._settings
        pages = rules.pages - counts.pages if rules.pages else 1 << 30
        fetches = rules.fetches - counts.fetched if rules.fetches else 1 << 30
        return max(0, min(pages, fetches))
