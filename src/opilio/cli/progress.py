"""What a person sees while a crawl runs: a live panel on a terminal, one plain line every ten seconds elsewhere."""

import os
import sys
from collections import Counter, deque
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

from opilio.core.clock import Clock
from opilio.core.events import BatchCommitted, Event, HostBackedOff, SeedsFound, VisitFailed
from opilio.core.records import Outcome, PageChange

PRINT_INTERVAL_S = 10.0
WINDOW = 500


class CrawlProgress:
    """Counts committed visits and shows them; knows nothing of the pipeline."""

    def __init__(self, clock: Clock, pages: int, relevant: int, quiet: bool) -> None:
        self._clock = clock
        self._pages, self._relevant = pages, relevant
        self._started = (clock.now(), pages)
        self._recent: deque[bool] = deque(maxlen=WINDOW)
        self._hosts: set[str] = set()
        self._errors: Counter[str] = Counter()
        self._revisits: Counter[str] = Counter()
        self._queued = 0
        self._expected: float | None = None
        self._display = _screen(quiet)
        self._printed_at = clock.now()

    def __enter__(self) -> "CrawlProgress":
        if isinstance(self._display, Live):
            self._display.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Leave the terminal as it was."""
        if isinstance(self._display, Live):
            self._display.update(self._panel())
            self._display.stop()

    def print_line(self, line: str) -> None:
        """One line to the person, beside the numbers."""
        if self._display is not None:
            console = self._display.console if isinstance(self._display, Live) else self._display
            console.print(line)

    def __call__(self, event: Event) -> None:
        if isinstance(event, BatchCommitted):
            self._queued, self._expected = event.queued, event.expected
            for outcome in event.outcomes:
                self._count(outcome)
        elif isinstance(event, VisitFailed):
            self._errors["internal"] += 1
        elif isinstance(event, HostBackedOff):
            self._errors["told to wait"] += 1
        elif isinstance(event, SeedsFound):
            told = "".join(f"; {problem}" for problem in event.problems)
            self.print_line(f'nothing left to fetch, asked engines for "{event.query}": {event.new} new seeds{told}')
        self._refresh()

    def _count(self, outcome: Outcome) -> None:
        self._hosts.add(outcome.lead.host)
        failure = outcome.fetched.failure or (outcome.analysis.failure if outcome.analysis else None)
        if outcome.change is not PageChange.NEW:
            self._revisits[outcome.change.value] += 1
        elif failure is not None:
            self._errors[failure.kind] += failure.kind != "internal"  # counted when it was told as VisitFailed
        elif outcome.analysis is None:
            if outcome.fetched.status >= 400:
                self._errors[f"status {outcome.fetched.status}"] += 1
        elif not outcome.analysis.sitemap_entries:
            verdict = outcome.analysis.verdict
            relevant = bool(verdict and verdict.relevant and not outcome.duplicate_of)
            self._pages += 1
            self._relevant += relevant
            self._recent.append(relevant)

    def _refresh(self) -> None:
        if isinstance(self._display, Live):
            self._display.update(self._panel())
        elif self._display is not None and self._clock.now() - self._printed_at >= PRINT_INTERVAL_S:
            self._printed_at = self._clock.now()
            self._display.print(self.status_line())

    @property
    def _figures(self) -> list[tuple[str, str]]:
        elapsed = max(0.001, self._clock.now() - self._started[0])
        now = sum(self._recent) / len(self._recent) if self._recent else 0.0
        overall = self._relevant / self._pages if self._pages else 0.0
        again = (
            [("again", ", ".join(f"{n} {what}" for what, n in self._revisits.most_common()))] if self._revisits else []
        )
        return [
            ("pages", f"{self._pages:,}"),
            ("relevant", f"{self._relevant:,}"),
            ("harvest", f"{now:.2f} now, {overall:.2f} overall"),
            ("speed", f"{(self._pages - self._started[1]) / elapsed:,.1f} pages/s"),
            ("queue", f"{self._queued:,}{_format_expected(self._expected)}"),
            *again,
            ("hosts", f"{len(self._hosts):,}"),
            ("errors", ", ".join(f"{n} {kind}" for kind, n in self._errors.most_common(4)) or "none"),
        ]

    def status_line(self) -> str:
        """Everything in one plain line."""
        return "  ".join(f"{name}: {value}" for name, value in self._figures)

    def _panel(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for name, value in self._figures:
            table.add_row(f"[dim]{name}[/dim]", value)
        return table


def _format_expected(expected: float | None) -> str:
    return "" if expected is None else f", about {expected:,.0f} relevant in it"


def _screen(quiet: bool) -> Live | Console | None:
    if quiet:
        return None
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    plain = "CI" in os.environ or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty()
    return console if plain else Live(console=console, refresh_per_second=4, transient=False)
