"""The progress of a crawl fits where it is shown: terminal, notebook command, log."""

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from checks.small_webs import COMMAND, SmallWeb, flags, grid, served, settings_for
from opilio.core.clock import VirtualClock
from opilio.core.events import HostBackedOff
from opilio.manage.progress import CrawlProgress, Figures, LineDisplay, needs_plain_output

SEED = "http://h0.example/0.html"
KERNEL = {"TERM": "xterm-color", "PAGER": "cat", "GIT_PAGER": "cat"}


class RecordedDisplay:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []
        self.lines: list[str] = []

    def open(self) -> None:
        self.shown.clear()

    def show(self, figures: Callable[[], Figures]) -> None:
        self.shown.append(dict(figures()))

    def print_line(self, line: str) -> None:
        self.lines.append(line)

    def close(self, figures: Figures) -> None:
        self.shown.append(dict(figures))


class SteppedClock(VirtualClock):
    """Shows the time it was set to."""

    seconds = 0.0

    def now(self) -> float:
        return self.seconds


def crawl_in_terminal(folder: Path, environment: dict[str, str]) -> str:
    """What a crawl prints on a stderr that is a terminal."""
    ours, theirs = os.openpty()
    with served(SmallWeb(grid(1, 4))) as server:
        command = [*COMMAND, "crawl", *flags(settings_for(server, [SEED])), "--into", str(folder)]
        plain = {name: value for name, value in os.environ.items() if name not in {"CI", "TERM", "JPY_PARENT_PID"}}
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=theirs, env=plain | environment, check=True)
    os.close(theirs)
    text = b""
    with suppress(OSError):  # Linux reports the closed end of a terminal as an error
        while more := os.read(ours, 4096):
            text += more
    os.close(ours)
    assert done.returncode == 0
    return text.decode(errors="replace")


@pytest.mark.parametrize("environment", [{"TERM": "xterm-color", "JPY_PARENT_PID": "1"}, KERNEL, {"TERM": "dumb"}])
def test_no_cursor_codes_where_a_terminal_does_not_obey_them(tmp_path: Path, environment: dict[str, str]) -> None:
    assert "\x1b[" not in crawl_in_terminal(tmp_path / "c", environment)


def test_panel_in_a_terminal(tmp_path: Path) -> None:
    text = crawl_in_terminal(tmp_path / "c", {"TERM": "xterm"})
    assert "\x1b[" in text
    assert "harvest" in text


def test_plain_output_is_needed_in_ci() -> None:
    assert needs_plain_output({"CI": "true"})
    assert not needs_plain_output({"TERM": "xterm-256color", "PAGER": "cat"})


def test_figures_are_shown_after_every_event_and_at_the_end() -> None:
    display, clock = RecordedDisplay(), SteppedClock()
    with CrawlProgress(clock, 4, 2, quiet=False, display=display) as progress:
        for until in (1.0, 5.0):
            progress(HostBackedOff(at=0.0, host="h0.example", until=until, reason="429"))
        clock.seconds = 6.0
    assert [shown.get("waiting") for shown in display.shown] == ["1 host", "1 host", None]
    assert display.shown[-1]["errors"] == "none"
    assert (display.shown[-1]["pages"], display.shown[-1]["relevant"]) == ("4", "2")


def test_lines_come_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = SteppedClock()
    display = LineDisplay(clock)
    computed = []

    def figures() -> Figures:
        computed.append(clock.seconds)
        return [("pages", f"{clock.seconds:.0f}")]

    for second in range(25):
        clock.seconds = second
        display.show(figures)
    assert capsys.readouterr().err.split() == ["pages:", "10", "pages:", "20"]
    assert computed == [10, 20]
