"""The frontier on PostgreSQL: the same answers as in memory, and several holders at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from checks.frontier_machine import BothFrontiers, run_machine
from checks.postgres_server import PostgresServer
from opilio.core.protocols import Database, Frontier
from opilio.frontier.policy import FrontierPolicy
from opilio.frontier.postgres.frontier import PostgresFrontier
from opilio.frontier.schema import create_postgres_frontier
from opilio.store.postgres.connection import PostgresConnection, postgres_transaction
from opilio.testing.leases import landed, lead


def test_postgres_and_memory_answer_alike_for_the_same_operations(server: PostgresServer) -> None:
    class WithPostgres(BothFrontiers):
        def open_database(self) -> Database:
            db = PostgresConnection(server.new_schema())
            create_postgres_frontier(db, bounded=True)
            return db

        def make_frontier(self) -> Frontier:
            return PostgresFrontier(self.db, self.policy)

    run_machine(WithPostgres, examples=12)


def _work(dsn: str) -> tuple[list[str], list[tuple[str, int]]]:
    """Lease and complete until nothing is left; returns the URLs fetched and the leases held."""
    connection = PostgresConnection(dsn)
    frontier = PostgresFrontier(connection, FrontierPolicy(delay_s=0.0))
    urls, held = list[str](), list[tuple[str, int]]()
    while True:
        with postgres_transaction(connection):
            leases = frontier.lease(1.0, 3, 2, 60.0)
        if not leases and not frontier.stats().leased:
            connection.close()
            return urls, held
        for lease in leases:
            held.append((lease.host, lease.token))
            urls += [one.url for one in lease.leads]
        with postgres_transaction(connection):
            assert frontier.complete_all([(lease, landed(lease), 0.0) for lease in leases]) == {x.host for x in leases}


def test_workers_share_the_queue_without_a_url_or_lease_twice(dsn: str) -> None:
    connection = PostgresConnection(dsn)
    create_postgres_frontier(connection)
    leads = [lead(str(n), n / 500, f"h{n % 20}.example") for n in range(400)]
    PostgresFrontier(connection).add(leads, 0.0)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(_work, [dsn] * 4))
    urls = [url for found, _ in results for url in found]
    assert sorted(urls) == sorted(one.url for one in leads)
    tokens = [held for _, own in results for held in own]
    assert len(tokens) == len(set(tokens))
    stats = PostgresFrontier(connection).stats()
    assert (stats.done, stats.queued, stats.leased) == (400, 0, 0)
    connection.close()


def test_a_lease_taken_over_can_not_be_committed_by_the_former_holder(connection: PostgresConnection, dsn: str) -> None:
    create_postgres_frontier(connection)
    frontier, other_connection = PostgresFrontier(connection), PostgresConnection(dsn)
    frontier.add([lead("x")], 0.0)
    (late,) = frontier.lease(0.0, 1, 1, 10.0)
    (second,) = PostgresFrontier(other_connection).lease(11.0, 1, 1, 10.0)
    assert frontier.complete_all([(late, landed(late), 0.0)]) == set()
    assert PostgresFrontier(other_connection).complete(second, landed(second), 0.0)
    other_connection.close()


@pytest.mark.parametrize("links", [1, 200])
def test_number_of_statements_of_add_does_not_grow_with_links(connection: PostgresConnection, links: int) -> None:
    create_postgres_frontier(connection)
    counted: list[str] = []

    class Counting:
        in_transaction = False
        close = connection.close
        executemany = connection.executemany

        def execute(self, sql: str, values: object = ()) -> object:
            counted.append(sql)
            return connection.execute(sql, values)  # type: ignore[arg-type]

    frontier = PostgresFrontier(Counting())  # type: ignore[arg-type]
    frontier.add([lead(str(n), host=f"h{n}.example") for n in range(links)], 0.0)
    assert len(counted) <= 11
