"""A clock that was wrong and is set back: the crawl goes on today, with its pauses, and reads robots.txt anew."""

from pathlib import Path

import pytest

from checks.small_webs import SmallWeb, crawl, grid, least_gap, robots, rows, rules_first, served, settings_for
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
