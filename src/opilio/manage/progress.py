"""The figures that a user sees while a crawl runs, counted from its events."""

from collections import Counter, deque
from types import TracebackType

from opilio.core.clock import Clock
from opilio.core.events import BatchCommitted, Event, HostBackedOff, SeedsFound, VisitFailed
from opilio.core.records import Outcome, PageChange
from opilio.manage.progress_display import ProgressDisplay, choose_display

WINDOW = 500  # pages that the current harvest is counted over


class CrawlProgress:
    """Listens to a crawl, counts committed visits and shows the counts."""

    def __init__(
        self, clock: Clock, pages: int, relevant: int, quiet: bool, display: ProgressDisplay | None = None
    ) -> None:
        self._clock = clock
        self._pages, self._relevant = pages, relevant
        self._started = (clock.now(), pages)
        self._recent: deque[bool] = deque(maxlen=WINDOW)
        self._hosts: set[str] = set()
        self._errors: Counter[str] = Counter()
        self._revisits: Counter[str] = Counter()
        self._queued = 0
        self._expected: float | None = None
        self._display = display or choose_display(clock, quiet=quiet)

    def __enter__(self) -> "CrawlProgress":
        self._display.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Show the last figures and leave the terminal as it was."""
        self._display.close(self.figures)

    def print_line(self, line: str) -> None:
        """Print one message beside the figures."""
        self._display.print_line(line)

    def __call__(self, event: Event) -> None:
        if isinstance(event, BatchCommitted):
            self._queued, self._expected = event.queued, event.expected
            for outcome in event.outcomes:
                self._count(outcome)
        elif isinstance(event, VisitFailed):
            self._errors["internal"] += 1
        elif isinstance(event, HostBackedOff):
            self._errors["throttled"] += 1
        elif isinstance(event, SeedsFound):
            problems = "".join(f"; {problem}" for problem in event.problems)
            self.print_line(f'queue empty, asked search engines for "{event.query}": {event.new} new seeds{problems}')
        self._display.show(self.figures)

    def _count(self, outcome: Outcome) -> None:
        self._hosts.add(outcome.lead.host)
        failure = outcome.fetched.failure or (outcome.analysis.failure if outcome.analysis else None)
        if outcome.change is not PageChange.NEW:
            self._revisits[outcome.change.value] += 1
        elif failure is not None:
            # Internal errors were counted already, by their VisitFailed events.
            self._errors[failure.kind] += failure.kind != "internal"
        elif outcome.analysis is None:
            if outcome.fetched.status >= 400:
                self._errors[f"status {outcome.fetched.status}"] += 1
        elif not outcome.analysis.sitemap_entries:
            relevant = outcome.relevant
            self._pages += 1
            self._relevant += relevant
            self._recent.append(relevant)

    @property
    def revisited(self) -> int:
        """How many stored pages were fetched again."""
        return self._revisits.total()

    @property
    def figures(self) -> list[tuple[str, str]]:
        """Names and values, in the order they are shown."""
        elapsed = max(0.001, self._clock.now() - self._started[0])
        now = sum(self._recent) / len(self._recent) if self._recent else 0.0
        overall = self._relevant / self._pages if self._pages else 0.0
        revisited = ", ".join(f"{number} {change}" for change, number in self._revisits.most_common())
        return [
            ("pages", f"{self._pages:,}"),
            ("relevant", f"{self._relevant:,}"),
            ("harvest", f"{now:.2f} now, {overall:.2f} overall"),
            ("speed", f"{(self._pages - self._started[1]) / elapsed:,.1f} pages/s"),
            ("queue", f"{self._queued:,}{_format_expected(self._expected)}"),
            *([("revisited", revisited)] if revisited else []),
            ("hosts", f"{len(self._hosts):,}"),
            ("errors", ", ".join(f"{n} {kind}" for kind, n in self._errors.most_common(4)) or "none"),
        ]


def _format_expected(expected: float | None) -> str:
    return "" if expected is None else f", about {expected:,.0f} of them relevant"
