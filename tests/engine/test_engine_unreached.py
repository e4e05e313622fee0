"""A resumed crawl tries hosts at once that the run before could not even ask; it waits for those that were asked."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from checks.small_webs import SmallWeb, crawl, direct, grid, robots, rows, served, settings_for, stored, tree_of
from opilio.core.settings import merge_trees
from opilio.manage.verify import verify
from opilio.manage.why import why
from opilio.store.connection import DATABASE
from opilio.store.seal import SEAL_FILE

SEED = "http://h0.example/0.html"
NOWHERE = "http://127.0.0.1:9"
WEB = grid(1, 3)


@pytest.mark.parametrize("later_s", [0.0, 7200.0])
def test_private_hosts_are_asked_when_a_resumed_crawl_may(tmp_path: Path, later_s: float) -> None:
    with served(SmallWeb(WEB)) as server:
        tree = settings_for(server, [SEED], fetch=direct(server) | {"allow_private": False})
        assert crawl(tmp_path / "c", tree) == "nothing left to fetch"
        assert rows(tmp_path / "c", "SELECT state FROM frontier_url") == [(4,)]
        assert crawl(tmp_path / "c", tree) == "nothing left to fetch"  # and not before
        assert not server.log
        allowed = merge_trees(tree, {"fetch": {"allow_private": True}})
        assert crawl(tmp_path / "c", allowed, later_s=later_s) == "nothing left to fetch"
    assert stored(tmp_path / "c") == tree_of(WEB)
    assert verify(tmp_path / "c") == []


def test_hosts_that_were_never_asked_delay_nothing(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        tree = settings_for(server, [SEED])
        assert "has to wait" in crawl(tmp_path / "c", merge_trees(tree, {"fetch": {"proxy": NOWHERE}}))
        waits = why(tmp_path / "c", SEED).host_waits
        assert waits is not None
        assert "can't be read" in waits.reason
        crawl(tmp_path / "c", merge_trees(tree, {"stop": {"pages": 1}}))
    facts = why(tmp_path / "c", "http://h0.example/1.html")
    assert (facts.state, facts.host_waits) == ("queued", None)  # it did, but no longer
    assert stored(tmp_path / "c") == [SEED]


def test_damaged_rules_are_read_again_when_a_crawl_resumes(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        tree = settings_for(server, [SEED], revisit={"on": True, "interval_s": 60.0})
        crawl(tmp_path / "c", tree)
        with closing(sqlite3.connect(tmp_path / "c" / DATABASE)) as db, db:
            db.execute("UPDATE robots SET rules = x'00'")
        (tmp_path / "c" / SEAL_FILE).unlink()
        crawl(tmp_path / "c", tree, later_s=7200.0)
    assert [access.target for access in server.log].count("/robots.txt") == 2


def test_host_that_was_asked_is_waited_for(tmp_path: Path) -> None:
    with served(SmallWeb({"http://h0.example/robots.txt": robots("", 503)})) as server:
        tree = settings_for(server, [SEED])
        for _ in range(2):
            assert "has to wait" in crawl(tmp_path / "c", tree)
    assert [access.target for access in server.log] == ["/robots.txt"]
