"""A clock that was wrong and is set back: the crawl continues today, with its pauses, and reads robots.txt anew."""

import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from checks.engines import PageFetcher, html, plain_tree, run_engine
from checks.small_webs import SmallWeb, crawl, grid, least_gap, robots, rows, rules_first, served, settings_for
from opilio.core import clock as clock_module
from opilio.core.clock import SystemClock, VirtualClock
from opilio.core.events import BatchCommitted
from opilio.core.records import FetchResult
from opilio.engine.commands import PauseTimer
from opilio.manage.verify import verify

SEED = "http://h0.example/0.html"
DAY = 86_400.0
DELAY_S = 0.05


@pytest.mark.parametrize("strategy", ["breadth", "s3-agents"])
def test_crawl_goes_on_when_its_clock_was_ahead(tmp_path: Path, strategy: str) -> None:
    with served(SmallWeb(grid(hosts=2, pages=8))) as server:
        polite = {"delay_s": DELAY_S}
        for pages, later_s in ((4, 40 * DAY), (6, 0.0), (8, -2 * DAY)):
            tree = settings_for(server, [SEED], stop={"pages": pages}, politeness=polite, engine={"connections": 2})
            before = len(server.log)
            crawl(tmp_path / "c", {**tree, "strategy": strategy}, later_s=later_s)
            assert rules_first(server.log[before:])
            assert rows(tmp_path / "c", "SELECT count(*) FROM page") == [(pages,)]
        assert least_gap(server.log) >= DELAY_S
    assert verify(tmp_path / "c") == []


def test_host_that_asked_for_time_has_it_when_the_clock_is_set_back(tmp_path: Path) -> None:
    with served(SmallWeb({"http://h0.example/robots.txt": robots("", 503), **grid(hosts=1, pages=2)})) as server:
        for later_s in (40 * DAY, 0.0, 0.0):
            crawl(tmp_path / "c", settings_for(server, [SEED]), later_s=later_s)
        assert [access.target for access in server.log] == ["/robots.txt"]


class SetClock:
    """The system's clock, which is set to another time while a crawl runs."""

    def __init__(self, by_s: float) -> None:
        self._by_s = by_s
        self._real = time.time
        self.is_set = False

    def time(self) -> float:
        return self._real() + (self._by_s if self.is_set else 0.0)


@pytest.mark.parametrize("by_s", [3600.0, -3600.0])
def test_clock_that_is_set_during_a_run_breaks_no_pause_and_ends_no_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_s: float
) -> None:
    clock = SetClock(by_s)
    monkeypatch.setattr(time, "time", clock.time)
    pages = 0

    def set_after_three_pages(event: object) -> None:
        nonlocal pages
        pages += len(event.outcomes) if isinstance(event, BatchCommitted) else 0
        clock.is_set = pages >= 3

    with served(SmallWeb(grid(hosts=2, pages=8))) as server:
        tree = settings_for(server, [SEED], politeness={"delay_s": DELAY_S}, engine={"connections": 2})
        crawl(tmp_path / "c", tree, set_after_three_pages)
        assert clock.is_set
        assert least_gap(server.log) >= DELAY_S
        assert rows(tmp_path / "c", "SELECT count(*) FROM page") == [(16,)]
    assert verify(tmp_path / "c") == []


def test_suspended_time_counts_and_a_set_clock_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0.0 <= clock.now() - before < 1800.0
    real = clock_module.elapsed_s
    monkeypatch.setattr(clock_module, "elapsed_s", lambda: real() + 3600.0)
    assert clock.now() - before >= 3600.0
    # The two clocks are not read at the same moment.
    assert 3599.999 <= clock.suspended_s < 3601.0


def test_suspended_time_ends_no_crawl_and_breaks_no_pause(tmp_path: Path) -> None:
    """The machine is suspended for an hour during the third request of a crawl that may take two minutes."""
    clock = VirtualClock(1_700_000_000.0)
    urls = [f"http://h0.example/{number}" for number in range(6)]
    asked: list[float] = []

    class SuspendingFetcher(PageFetcher):
        async def fetch(self, url: str, _: Mapping[str, str] | None = None) -> FetchResult:
            asked.append(clock.now())
            if len(asked) == 3:
                clock.suspend(3600.0)
            return await super().fetch(url)

    fetcher = SuspendingFetcher({url: html(url, f"<p>wren {number}") for number, url in enumerate(urls)}, clock, 1.0)
    tree = plain_tree(urls, politeness={"delay_s": 5.0, "robots": False, "share_address": False}, stop={"minutes": 2.0})
    reason, _ = run_engine(tmp_path / "c", tree, fetcher, clock=clock)
    assert reason == "nothing left to fetch"
    assert len(asked) == len(urls)
    assert rows(tmp_path / "c", "SELECT count(*) FROM page") == [(len(urls),)]
    assert min(after - before for before, after in pairwise(asked)) >= 5.0
    assert clock.suspended_s == 3600.0


def test_suspended_time_during_a_pause_is_subtracted_once() -> None:
    """A crawl is paused for 100 s, of which the machine is suspended for 60 s."""
    clock = VirtualClock(1_000.0)
    timer = PauseTimer(lambda: clock.suspended_s)
    clock.suspend(7.0)
    timer.start(clock.now())
    clock.advance(clock.now() + 30.0)
    clock.suspend(60.0)
    assert timer.total_s(clock.now()) == 30.0
    clock.advance(clock.now() + 10.0)
    timer.stop(clock.now())
    clock.suspend(5.0)
    clock.advance(clock.now() + 20.0)
    assert timer.total_s(clock.now()) == 40.0
    # 132 s have passed: 20 s at work, 40 s of pause, 72 s suspended.
    assert clock.now() - 1_000.0 - timer.total_s(clock.now()) - clock.suspended_s == 20.0
