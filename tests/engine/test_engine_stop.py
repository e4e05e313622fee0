"""Every stop has its reason, written down; signals stop cleanly, and the next run resumes."""

import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from checks.engines import PageFetcher, html, plain_tree, run_engine
from checks.small_webs import (
    TRAINS,
    LaterClock,
    SmallWeb,
    crawl,
    events,
    flags,
    grid,
    page,
    robots,
    served,
    settings_for,
    started,
    stored,
    tree_of,
    until,
    word,
)
from opilio.core.clock import VirtualClock
from opilio.core.events import BatchCommitted, Event
from opilio.core.records import Analysis, FetchResult, Lead, Outcome, PageChange, Verdict
from opilio.core.settings import StopSettings
from opilio.engine.loop import StopRules
from opilio.manage.status import collection_status
from opilio.manage.verify import verify
from opilio.store.writer import CrawlCounts

SEED = "http://h0.example/0.html"
RULES = {
    "page limit reached (7 pages)": {"pages": 7},
    "fetch limit reached (5 fetches)": {"fetches": 5},
    "enough relevant pages (3)": {"relevant": 3},
    "nothing left to fetch": {},
    "harvest of the last 5 pages fell below 0.5 (stop.harvest_below; 0 continues)": {
        "harvest_below": 0.5,
        "harvest_window": 5,
    },
}


@pytest.mark.parametrize("reason", RULES)
def test_stop_has_its_reason_when_a_rule_holds(tmp_path: Path, reason: str) -> None:
    """X-16: a limit (pages, fetches), enough relevant pages, or an empty frontier ends a run."""
    web = grid(4, 10) | {
        f"http://h{h}.example/{p}.html": page(f"{TRAINS} {word(h)} {word(100 + p)}")
        for h in (0, 1, 2)
        for p in (7, 8, 9)
    }
    web[SEED] = page(links=[f"http://h{h}.example/{p}.html" for p in range(10) for h in range(4)])
    with served(SmallWeb(web)) as server:
        tree = settings_for(server, [SEED], stop=RULES[reason], strategy="best-first", engine={"connections": 64})
        assert crawl(tmp_path / "c", tree) == reason
    status = collection_status(tmp_path / "c")
    assert (status.state, status.stop_reason) == ("stopped", reason)
    assert reason.encode() in events(tmp_path / "c", "CrawlStopped")[-1]
    if "7 pages" in reason:
        assert status.pages == 7  # never one more, with 64 connections
    if "relevant" in reason:
        assert status.relevant == 3
    if "5 fetches" in reason:
        assert status.fetched == len([a for a in server.log if a.target != "/robots.txt"]) == 5


@pytest.mark.parametrize(("change", "ends"), [(PageChange.NEW, True), (PageChange.UNCHANGED, False)])
def test_harvest_counts_pages_only_when_they_are_new(change: PageChange, ends: bool) -> None:
    rules = StopRules(StopSettings(harvest_below=0.5, harvest_window=2), 0.0)
    visit = Outcome(
        lead=Lead(url=SEED, key=1, host="h0.example"),
        fetched=FetchResult(url=SEED, status=200),
        analysis=Analysis(verdict=Verdict(score=0.0, relevant=False)),
        change=change,
    )
    rules.record_batch(BatchCommitted(at=0.0, outcomes=(visit, visit), queued=0))
    assert bool(rules.stop_reason(0.0, CrawlCounts())) == ends


def test_stop_comes_in_time_when_minutes_are_over(tmp_path: Path) -> None:
    clock = LaterClock(0.0)

    def pass_time(event: Event) -> None:
        if isinstance(event, BatchCommitted):
            clock.later_s = 60.0

    with served(SmallWeb(grid(1, 40))) as server:
        tree = settings_for(server, [SEED], stop={"minutes": 1})
        assert crawl(tmp_path / "c", tree, pass_time, clock=clock) == "time is up (1 minutes)"
    assert 0 < len(stored(tmp_path / "c")) < 40


def test_stop_says_so_when_every_host_asks_to_wait(tmp_path: Path) -> None:
    web = {"http://a.example/robots.txt": robots("", 500), "http://a.example/": page()}
    with served(SmallWeb(web)) as server:
        reason = crawl(tmp_path / "c", settings_for(server, ["http://a.example/"]))
    assert reason.startswith("no page could be fetched; every host left has to wait 3")
    assert reason.endswith("run again later to resume")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_cleanly_and_the_next_run_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    web = grid(4, 40)
    with served(SmallWeb(web)) as server:
        tree = settings_for(
            server, [SEED], politeness={"delay_s": 0.1}, engine={"workers": int(number == signal.SIGINT)}
        )
        process = started("crawl", *flags(tree), "--into", tmp_path / "c")
        until(lambda: len(server.log) >= 15, process)
        process.send_signal(number)
        out, err = process.communicate()
        assert process.returncode == 130, err
        assert "stopped: interrupted" in out
        assert collection_status(tmp_path / "c").stop_reason == "interrupted"
        assert 0 < len(stored(tmp_path / "c")) < len(web)
        assert verify(tmp_path / "c") == []
        crawl(tmp_path / "c", tree | {"engine": {"workers": 0}, "politeness": {"delay_s": 0.0}})
    assert stored(tmp_path / "c") == tree_of(web)
    asked = [(a.host, a.target) for a in server.log if a.target != "/robots.txt"]
    assert len(asked) == len(set(asked)), "a clean stop asks for nothing twice"


def test_workers_do_not_feel_an_interrupt_when_the_terminal_sends_it_to_all(tmp_path: Path) -> None:
    """Ctrl-C goes to every process of the terminal; only the engine may stop, or pages in flight are lost as errors."""
    with served(SmallWeb(grid(4, 12))) as server:
        tree = settings_for(server, [SEED], politeness={"delay_s": 0.2}, engine={"workers": 2})
        process = started("crawl", *flags(tree), "--into", tmp_path / "c")
        until(lambda: len(server.log) >= 8, process)
        family = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        shelter = [heeds(pid, signal.SIGINT) or heeds(pid, signal.SIGTERM) for pid in family]
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert (len(family) >= 2, any(shelter)) == (True, False)
    assert events(tmp_path / "c", "VisitFailed") == []


def heeds(pid: int, number: signal.Signals) -> bool:
    """Would a process feel this signal: is it neither blocked nor ignored?"""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return not (int(fields["SigBlk"], 16) | int(fields["SigIgn"], 16)) >> (number - 1) & 1


def test_second_signal_ends_at_once_when_answers_are_slow(tmp_path: Path) -> None:
    web = grid(2, 6)
    with served(SmallWeb(web), slow={"h1.example": 30.0}) as server:
        tree = settings_for(server, [SEED, "http://h1.example/1.html"])
        process = started("crawl", *flags(tree), "--into", tmp_path / "c")
        until(lambda: len(stored_safely(tmp_path / "c")) == 6, process)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        until(lambda: "stopping" in process.stderr.readline(), process)  # type: ignore[union-attr]
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 130
    assert collection_status(tmp_path / "c").state == "crashed"  # after the ten seconds of a clean stop: "stopped"
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, [SEED]))
    assert stored(tmp_path / "c") == tree_of(web)
    assert verify(tmp_path / "c") == []


def stored_safely(folder: Path) -> list[str]:
    return stored(folder) if (folder / "crawl.db").exists() else []


class CountingFetcher(PageFetcher):
    """Notes how many requests are in flight, on each request."""

    def __init__(self, answers: Mapping[str, FetchResult], clock: VirtualClock) -> None:
        super().__init__(answers, clock, takes_s=1.0)
        self.in_flight = 0
        self.most: list[int] = []

    async def fetch(self, url: str, _: Mapping[str, str] | None = None) -> FetchResult:
        self.in_flight += 1
        self.most.append(self.in_flight)
        found = await super().fetch(url)
        self.in_flight -= 1
        return found


@pytest.mark.parametrize("window", [0, 6])
def test_window_over_the_last_pages_limits_downloads_s2_50_s2_f12(tmp_path: Path, window: int) -> None:
    """While no page is relevant the downloads come one by one; with relevant pages there are more again."""
    wren = "the wren is a small bird; wrens and other small birds sing "
    urls = [f"http://h{n}.example/" for n in range(40)]
    texts = [wren if n >= 25 else "timetables of goods trains " for n in range(40)]
    pages = {url: html(url, f"<p>{text} {word(n)}") for n, (url, text) in enumerate(zip(urls, texts, strict=True))}
    clock = VirtualClock()
    fetcher = CountingFetcher(pages, clock)
    run_engine(tmp_path / "c", plain_tree(urls, engine={"connections": 4, "window": window}), fetcher, clock=clock)
    most = [max(fetcher.most[start : start + 5]) for start in range(0, 40, 5)]
    assert (most[0], most[-1]) == (4, 4)
    assert most[1:5] == ([1] * 4 if window else [4] * 4)


@pytest.mark.parametrize(("pages", "patience", "first", "most"), [(96, 0.7, 4, 5), (96, 0.0, 8, 8), (0, 0.7, 8, 8)])
def test_crawl_with_a_page_limit_starts_with_few_requests(
    tmp_path: Path, pages: int, patience: float, first: int, most: int
) -> None:
    """Four at once, and one more for every 16 pages; not in a crawl without a limit."""
    urls = [f"http://h{n}.example/" for n in range(110)]
    texts = {url: html(url, f"<p>the wren is a small bird {word(n)}") for n, url in enumerate(urls)}
    clock = VirtualClock()
    fetcher = CountingFetcher(texts, clock)
    changes = {"frontier": {"patience": patience}, "politeness": {"delay_s": 1.0}, "stop": {"pages": pages}}
    run_engine(tmp_path / "c", plain_tree(urls, engine={"connections": 8}, **changes), fetcher, clock=clock)
    assert (max(fetcher.most[:20]), max(fetcher.most)) == (first, most)
