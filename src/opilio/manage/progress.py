"""The progress of a crawl: figures counted from its events, and where they are shown.

That is a live panel in a terminal, a table in a notebook's cell, or plain lines.
"""

import os
import sys
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table

from opilio.core.clock import Clock
from opilio.core.display import html_fields, pluralize
from opilio.core.events import BatchCommitted, Event, HostBackedOff, SeedsFound, VisitFailed
from opilio.core.records import Outcome, PageChange

# Pages that the current harvest is counted over.
WINDOW = 500
PRINT_INTERVAL_S = 10.0  # between two plain lines
PANEL_INTERVAL_S = 0.25  # between two updates of the panel
NOTEBOOK_INTERVAL_S = 1.0  # between two updates of a cell
# Names and values, in the order they are shown.
Figures = Sequence[tuple[str, str]]
_REVISIT_NAMES = {PageChange.MISSING_ONCE: "missing", PageChange.GONE: "removed", PageChange.UNKNOWN: "not answered"}


class ProgressDisplay(Protocol):
    """Shows the figures of a crawl until it is closed."""

    def open(self) -> None: ...
    def show(self, figures: Callable[[], Figures]) -> None:
        """Called at each event: a display computes the figures only when it shows them."""
        ...

    def print_line(self, line: str) -> None: ...
    def close(self, figures: Figures) -> None: ...


class HiddenDisplay:
    """Shows nothing."""

    def open(self) -> None:
        pass

    def show(self, figures: Callable[[], Figures]) -> None:
        pass

    def print_line(self, line: str) -> None:
        pass

    def close(self, figures: Figures) -> None:
        pass


class LineDisplay:
    """One plain line every ten seconds, for logs, pipes and dumb terminals."""

    def __init__(self, clock: Clock) -> None:
        self._console = _stderr_console()
        self._clock = clock
        self._printed_at = clock.now()

    def open(self) -> None:
        pass

    def show(self, figures: Callable[[], Figures]) -> None:
        if self._clock.now() - self._printed_at >= PRINT_INTERVAL_S:
            self._printed_at = self._clock.now()
            self.print_line(format_line(figures()))

    def print_line(self, line: str) -> None:
        self._console.print(line, markup=False)

    def close(self, figures: Figures) -> None:
        pass


class LiveDisplay:
    """A panel that a terminal redraws in place."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shown_at = clock.now()
        self._live = Live(console=_stderr_console(), auto_refresh=False, transient=False)

    def open(self) -> None:
        self._live.start()

    def show(self, figures: Callable[[], Figures]) -> None:
        if self._clock.now() - self._shown_at >= PANEL_INTERVAL_S:
            self._shown_at = self._clock.now()
            self._live.update(_panel(figures()), refresh=True)

    def print_line(self, line: str) -> None:
        self._live.console.print(line, markup=False)

    def close(self, figures: Figures) -> None:
        self._live.update(_panel(figures), refresh=True)
        self._live.stop()


class NotebookDisplay:
    """A table in the output of a notebook's cell, updated in place."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shown_at = clock.now()
        self._handle: Any = None

    def open(self) -> None:
        ipython: Any = import_module("IPython.display")
        self._handle = ipython.display(_mime_bundle([("pages", "0")]), raw=True, display_id=True)

    def show(self, figures: Callable[[], Figures]) -> None:
        if self._clock.now() - self._shown_at >= NOTEBOOK_INTERVAL_S:
            self._shown_at = self._clock.now()
            self._handle.update(_mime_bundle(figures()), raw=True)

    def print_line(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")

    def close(self, figures: Figures) -> None:
        self._handle.update(_mime_bundle(figures), raw=True)


def choose_display(clock: Clock, *, quiet: bool) -> ProgressDisplay:
    """The display that fits where this process runs."""
    if quiet:
        return HiddenDisplay()
    if in_notebook():
        return NotebookDisplay(clock)
    if sys.stderr.isatty() and not needs_plain_output(os.environ):
        return LiveDisplay(clock)
    return LineDisplay(clock)


def in_notebook() -> bool:
    """Does this process run the cells of a notebook? IPython in a terminal has no kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def needs_plain_output(environ: Mapping[str, str]) -> bool:
    """Would cursor codes be printed as text? A notebook's `!command` has a terminal that does not obey them.

    >>> needs_plain_output({"TERM": "xterm"}), needs_plain_output({"TERM": "dumb"})
    (False, True)
    """
    # Kernels started by Jupyter pass the first on to their commands; all kernels of ipykernel set the others.
    kernel = "JPY_PARENT_PID" in environ or (
        environ.get("TERM") == "xterm-color" and environ.get("PAGER") == environ.get("GIT_PAGER") == "cat"
    )
    return kernel or "CI" in environ or environ.get("TERM") == "dumb"


def format_line(figures: Figures) -> str:
    """All figures in one plain line.

    >>> format_line([("pages", "12"), ("hosts", "3")])
    'pages: 12  hosts: 3'
    """
    return "  ".join(f"{name}: {value}" for name, value in figures)


def _stderr_console() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def _panel(figures: Figures) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in figures:
        table.add_row(f"[dim]{name}[/dim]", value)
    return table


def _mime_bundle(figures: Figures) -> dict[str, str]:
    return {"text/html": html_fields(dict(figures)), "text/plain": format_line(figures)}


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
        # When each suspended host is contacted again.
        self._wakes: dict[str, float] = {}
        self._revisits: Counter[str] = Counter()
        self._queued = 0
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
            self._queued = event.queued
            for outcome in event.outcomes:
                self._count(outcome)
        elif isinstance(event, VisitFailed):
            self._errors["internal"] += 1
        elif isinstance(event, HostBackedOff):
            self._wakes[event.host] = event.until
        elif isinstance(event, SeedsFound):
            problems = "".join(f"; {problem}" for problem in event.problems)
            self.print_line(f'queue empty, asked search engines for "{event.query}": {event.new} new seeds{problems}')
        self._display.show(lambda: self.figures)

    def _count(self, outcome: Outcome) -> None:
        self._hosts.add(outcome.lead.host)
        failure = outcome.fetched.failure or (outcome.analysis.failure if outcome.analysis else None)
        if outcome.change is not PageChange.NEW:
            self._revisits[_REVISIT_NAMES.get(outcome.change, outcome.change.value)] += 1
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
    def revisited(self) -> str:
        """How many stored pages were fetched again, and with which result."""
        if not self._revisits:
            return "0 pages were due for a revisit"
        return f"{pluralize(self._revisits.total(), 'page')} revisited: {self._revisit_results}"

    @property
    def _revisit_results(self) -> str:
        return ", ".join(f"{number} {result}" for result, number in self._revisits.most_common())

    @property
    def figures(self) -> list[tuple[str, str]]:
        """Names and values, in the order they are shown."""
        elapsed = max(0.001, self._clock.now() - self._started[0])
        now = sum(self._recent) / len(self._recent) if self._recent else 0.0
        overall = self._relevant / self._pages if self._pages else 0.0
        waiting = sum(wakes > self._clock.now() for wakes in self._wakes.values())
        return [
            ("pages", f"{self._pages:,}"),
            ("relevant", f"{self._relevant:,}"),
            ("harvest", f"{now:.2f} now, {overall:.2f} overall"),
            ("speed", f"{(self._pages - self._started[1]) / elapsed:,.1f} pages/s"),
            ("queue", f"{self._queued:,}"),
            *([("revisited", self._revisit_results)] if self._revisits else []),
            ("hosts", f"{len(self._hosts):,}"),
            *([("waiting", pluralize(waiting, "host"))] if waiting else []),
            ("errors", ", ".join(f"{n} {kind}" for kind, n in self._errors.most_common(4)) or "none"),
        ]
