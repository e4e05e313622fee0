"""Several workers share a crawl: they join, leave and die, and nothing is lost, stored twice or fetched too soon."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from checks.cluster_faults import crawl_under_faults, refetch_ratio, shortest_gap
from checks.postgres_server import running_pair
from checks.small_webs import PATIENCE_S, SmallWeb, flags, grid, served, settings_for, started
from opilio.manage.status import collection_status
from opilio.manage.verify import verify
from opilio.store.collection import open_readonly
from opilio.store.postgres.collection import folder_of

DELAY_S = 0.1


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def wait_for(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def pages_stored(place: str) -> int:
    with open_readonly(folder_of(place)) as collection:
        return int(collection.connection.execute("SELECT count(*) FROM page").fetchone()[0])


def check_collection(place: str, web: SmallWeb) -> None:
    """Every page is stored once, and the collection is sound."""
    folder = folder_of(place)
    with open_readonly(folder) as collection:
        urls = [url for (url,) in collection.connection.execute("SELECT url FROM page ORDER BY url")]
        assert collection.connection.execute("SELECT count(*) FROM outcome").fetchone()[0] == 0
    assert urls == sorted(web.answers)
    assert verify(folder) == []
    assert collection_status(folder).state == "stopped"


def test_two_workers_share_a_crawl(dsn: str) -> None:
    web = SmallWeb(grid(8, 10))
    with served(web) as server:
        tree = settings_for(server, ["http://h0.example/0.html"], politeness={"delay_s": DELAY_S})
        first = started("crawl", *flags(tree), "--into", dsn, "--quiet")
        wait_for(lambda: first.poll() is not None or _has_pages(dsn))
        second = started("worker", dsn, "--workers", "0", "--quiet")
        for process in (first, second):
            _, problems = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, problems
        log = list(server.log)
    check_collection(dsn, web)
    assert shortest_gap(log) >= DELAY_S - 0.005
    assert refetch_ratio(log) == 0


def _has_pages(place: str) -> bool:
    try:
        return pages_stored(place) > 0
    except Exception:  # noqa: BLE001 - the crawl has not made its tables yet
        return False


@pytest.mark.slow
def test_twenty_faults_lose_no_page_and_break_no_pause(tmp_path: Path) -> None:
    with running_pair() as pair:
        report = crawl_under_faults(pair, tmp_path)
    assert sum(report.faults.values()) == 20
    assert (report.lost_urls, report.pages_twice, report.overlapping_leases) == (0, 0, 0), report
    assert report.problems == []
    assert (report.too_early, report.too_early_at_address) == (0, 0), report
    # Each fault costs what its victim had in flight. With 50 pages per fault that is much; see benchmarks/cluster.
    assert report.refetches < 0.1 * report.requests, report
