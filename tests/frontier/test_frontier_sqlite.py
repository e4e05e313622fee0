"""What only the frontier on disk can show: it survives, notices a roll back, and never scans."""

import sqlite3
from pathlib import Path

import pytest

from opilio.core.protocols import AddResult
from opilio.core.records import UrlState
from opilio.frontier.policy import BestFirst, BreadthFirst, FrontierPolicy, NBest, Order
from opilio.frontier.schema import create_frontier_tables
from opilio.frontier.sqlite.frontier import SqliteFrontier
from opilio.testing.leases import crawl_order, landed, lead, paths


def opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path / "crawl.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")
    create_frontier_tables(connection, bounded=True)
    return connection


def test_queue_leases_delays_and_seen_test_survive_a_restart_s4_21(tmp_path: Path) -> None:
    first = opened(tmp_path)
    frontier = SqliteFrontier(first)
    frontier.add([lead("x", 0.9), lead("y"), lead("z", 0.1, "b.example")], 0.0)
    frontier.set_delay("a.example", 7.0)
    (lease,) = frontier.lease(0.0, 1, 1, 100.0)
    first.close()  # no clean end

    second = opened(tmp_path)
    frontier = SqliteFrontier(second)
    assert frontier.add([lead("x"), lead("y")], 1.0) == AddResult(known=2)
    assert frontier.entry("a.example", lead("x").key).state is UrlState.LEASED  # type: ignore[union-attr]
    assert paths(frontier.lease(1.0, 9, 9, 60.0)) == ["z"]
    assert frontier.recover(10.0) == 2
    assert not frontier.complete(lease, landed(lease), 0.0)
    assert [x.host for x in frontier.lease(16.9, 9, 9, 60.0)] == ["b.example"]
    assert paths(frontier.lease(17.0, 9, 9, 60.0)) == ["x", "y"]
    second.close()


@pytest.mark.parametrize("order", [BestFirst(), NBest(n=1), BreadthFirst()])
def test_boosted_host_is_leased_before_better_ones(tmp_path: Path, order: Order) -> None:
    boosted = {"b.example"}
    frontier = SqliteFrontier(opened(tmp_path), FrontierPolicy(order=order, boosted=boosted))
    frontier.add([lead("x", 0.9), lead("y", 0.8), *(lead(f"b{n}", 0.1 - n / 100, "b.example") for n in range(3))], 0.0)
    (lease,) = frontier.lease(0.0, 1, 1, 60.0)
    assert paths([lease]) == ["b0"]
    assert paths(frontier.lease(0.0, 9, 1, 60.0)) == ["x"]  # a host is leased to one holder, boosted or not
    frontier.complete(lease, landed(lease), 5.0)
    assert "b.example" not in [x.host for x in frontier.lease(4.9, 9, 1, 0.0)]  # nor before it wakes
    assert paths(frontier.lease(70.0, 1, 1, 0.0)) == ["b1"]
    boosted.clear()
    assert paths(frontier.lease(71.0, 1, 1, 60.0)) == ["x"]


def test_rolled_back_urls_can_be_added_again(tmp_path: Path) -> None:
    connection = opened(tmp_path)
    frontier = SqliteFrontier(connection)
    frontier.add([lead("x")], 0.0)
    connection.execute("BEGIN")
    frontier.add([lead("y", 0.9), lead("o", 1.0, "new.example")], 0.0)
    assert len(frontier.lease(0.0, 9, 9, 60.0)) == 2
    connection.execute("ROLLBACK")
    assert frontier.stats().queued == 1
    assert frontier.add([lead("y", 0.9), lead("o", 1.0, "new.example")], 0.0) == AddResult(new=2)
    assert crawl_order(frontier) == ["o", "y", "x"]
    connection.close()


def test_front_answers_for_urls_seen_lately_s4_21(tmp_path: Path) -> None:
    connection = opened(tmp_path)
    frontier = SqliteFrontier(connection)
    leads = [lead(str(i)) for i in range(100)]
    for _ in range(10):
        frontier.add(leads, 0.0)
    assert frontier.stats().cache_hit_rate == 0.9
    connection.close()


def test_no_statement_scans_a_table(tmp_path: Path) -> None:
    connection = opened(tmp_path)
    statements: list[str] = []
    frontier = SqliteFrontier(connection, FrontierPolicy())
    assert frontier.wakes_at() is None  # reads once who sleeps
    connection.set_trace_callback(statements.append)
    for now in range(3):
        frontier.add([lead(str(i), i / 9, f"h{i % 3}.example", parent=now) for i in range(9)], float(now))
        for lease in frontier.lease(float(now), 2, 2, 60.0):
            frontier.complete(lease, landed(lease, UrlState.QUEUED, retry_at=now + 0.5), now + 0.2)
        frontier.rescore([("h1.example", lead("1", host="h1.example").key, 0.1 * now)])
        frontier.best(5)
        frontier.wakes_at()
    frontier.drop_host("h2.example", "robots")
    connection.set_trace_callback(None)
    plans = [
        str(row[3])
        for sql in {s for s in statements if s.startswith(("SELECT", "UPDATE", "WITH"))}
        for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}".replace("-Inf", "-9e999"))
    ]
    assert plans
    # Partial indexes read in their order up to a LIMIT, and two tables that are small by nature.
    indexes = ("frontier_host_order", "frontier_host_parked")
    harmless = (*indexes, "frontier_count", "frontier_lease", "CONSTANT", "SCAN k")
    assert [p for p in plans if p.startswith("SCAN") and not any(h in p for h in harmless)] == []
    assert not [p for p in plans if "TEMP B-TREE" in p]
    connection.close()
