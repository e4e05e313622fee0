"""`crawl --revisit`, `--continuous` and `history` as the user runs them."""

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

from checks.small_webs import (
    SmallWeb,
    crawl,
    flags,
    grid,
    one_line,
    opilio,
    served,
    settings_for,
    started,
    stored,
    until,
)

SEED = "http://h0.example/0.html"


def test_revisit_ends_by_itself_when_nothing_is_due(tmp_path: Path) -> None:
    with served(SmallWeb(grid(1, 4))) as server:
        tree = settings_for(server, [SEED])
        crawl(tmp_path / "c", tree)
        done = opilio("crawl", *flags(tree), "--into", tmp_path / "c", "--revisit")
    assert done.returncode == 0
    assert "0 pages were due for a revisit\n" in done.stdout
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    # Four pages in a week: one after 42 hours.
    next_at = done.stdout.partition("stopped: all due pages revisited; the next is due at ")[2].strip()
    assert tomorrow < next_at < (datetime.now(UTC) + timedelta(days=7)).isoformat()


def test_revisit_reports_what_it_found(tmp_path: Path) -> None:
    often = {"interval_s": 1e-3, "least_s": 1e-3, "probe": False}
    with served(SmallWeb(grid(1, 2))) as server:
        crawl(tmp_path / "c", settings_for(server, [SEED]))
    with served(SmallWeb(grid(1, 2, "The wren left its nest."))) as server:
        tree = settings_for(server, [SEED], revisit={"on": True, **often}, stop={"fetches": 3})
        done = opilio("crawl", *flags(tree), "--into", tmp_path / "c")
    assert "1 page revisited: 1 changed\n" in done.stdout, done


def test_new_collection_is_crawled_as_ever_when_there_is_nothing_to_look_at(tmp_path: Path) -> None:
    with served(SmallWeb(grid(1, 4))) as server:
        tree = settings_for(server, [SEED], revisit={"on": True})
        assert crawl(tmp_path / "c", tree) == "nothing left to fetch"
    assert len(stored(tmp_path / "c")) == 4


def test_continuous_crawl_looks_again_and_again_until_it_is_stopped(tmp_path: Path) -> None:
    with served(SmallWeb(grid(1, 4))) as server:
        tree = settings_for(server, [SEED], revisit={"interval_s": 1.0, "least_s": 0.1, "probe": False})
        process = started("crawl", *flags(tree), "--into", tmp_path / "c", "--continuous", "--quiet")
        until(lambda: sum(access.target == "/3.html" for access in list(server.log)) >= 4, process)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130
    result = opilio("why", "--history", tmp_path / "c", "http://h0.example/3.html")
    assert result.returncode == 0
    assert "current: relevant" in result.stdout
    assert "revisited" in result.stdout


def test_history_of_a_page_that_is_not_stored_is_reported(tmp_path: Path) -> None:
    with served(SmallWeb(grid(1, 2))) as server:
        crawl(tmp_path / "c", settings_for(server, [SEED]))
    assert opilio("why", "--history", tmp_path / "c", "http://h0.example/none").returncode == 1
    assert "not a valid http(s) URL" in one_line(opilio("why", "--history", tmp_path / "c", "none"))


def test_unknown_policy_is_refused(tmp_path: Path) -> None:
    words = ("crawl", "wrens", "--seed", SEED, "--into", tmp_path / "c", "--revisit")
    done = opilio(*words, "--set", "revisit.policy=best")
    assert (done.returncode, "choose one of fixed, proportional, adaptive" in one_line(done)) == (2, True)
    assert not (tmp_path / "c").exists()
