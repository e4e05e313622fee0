"""Tests that docs/paper-ids.md names must run: under `make test` none of them may only be skipped."""

import os
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "paper-ids.md"
# Set by `make test`, which installs everything that a test can need; elsewhere a test may be skipped.
COMPLETE = "OPILIO_SEARXNG"


class PaperTests:
    """A plug-in of pytest; with several processes, the one that collects the reports has them all."""

    def __init__(self, named: frozenset[str]) -> None:
        self.named = named
        self.passed: set[str] = set()
        self.skipped: set[str] = set()

    @classmethod
    def read(cls) -> "PaperTests":
        return cls(frozenset(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8"))))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Passed or skipped, by the name of the function; one passed case of several is enough."""
        name = report.nodeid.rpartition("::")[2].partition("[")[0]
        if report.skipped:
            self.skipped.add(name)
        elif report.when == "call" and report.passed:
            self.passed.add(name)

    @property
    def not_run(self) -> list[str]:
        return sorted(self.named & self.skipped - self.passed)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.not_run and COMPLETE in os.environ and not hasattr(session.config, "workerinput"):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.not_run and COMPLETE in os.environ:
            terminalreporter.write_line(f"docs/paper-ids.md names tests that did not run: {', '.join(self.not_run)}")
