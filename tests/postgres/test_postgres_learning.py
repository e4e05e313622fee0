"""What workers and trainer share: the trainer's role, results in order, versions of models, back-pressure."""

from contextlib import closing

import pytest

from opilio.core.settings import StopSettings
from opilio.engine.cluster.worker import MIN_BACKLOG, WorkerCommitter, WorkerMeter
from opilio.frontier.policy import FrontierPolicy
from opilio.store.postgres.cluster import (
    KEPT_MODELS,
    TRAINER,
    DatabaseClock,
    Role,
    RoleLostError,
    SharedConnection,
    SharedReader,
    add_outcomes,
    newer_models,
    next_outcomes,
    publish_models,
    take_outcomes,
)
from opilio.store.postgres.connection import PostgresConnection

pytestmark = pytest.mark.usefixtures("collection")


def test_trainer_that_was_too_slow_can_not_write_after_another_took_over(
    dsn: str, connection: PostgresConnection
) -> None:
    slow, other = Role(dsn, TRAINER, "slow"), Role(dsn, TRAINER, "other")
    assert slow.acquire()
    assert not other.acquire()
    slow.check(connection)
    connection.execute("UPDATE role SET expires_at = 0")
    slow.check(connection)
    with pytest.raises(RoleLostError):
        slow.renew(connection)
    assert other.acquire()
    with pytest.raises(RoleLostError):
        slow.check(connection)
    slow.release()
    assert other.holder(connection) == "other"


def test_results_are_taken_in_order_and_once(connection: PostgresConnection) -> None:
    add_outcomes(connection, "one", [(1, b"1"), (1, b"2")])
    add_outcomes(connection, "two", [(1, b"3")])
    rows = next_outcomes(connection, 10)
    assert [data for _, data in rows] == [b"1", b"2", b"3"]
    first = rows[0][0]
    assert take_outcomes(connection, [first]) == {first}
    assert take_outcomes(connection, [first]) == set()
    assert [data for _, data in next_outcomes(connection, 1)] == [b"2"]


def test_models_are_versions_that_never_change_and_the_newest_of_each_is_loaded(
    connection: PostgresConnection,
) -> None:
    publish_models(connection, {"judge": b"a", "ranker": b"b"})
    first = newer_models(connection, 0)
    assert [(name, state) for _, name, state in first] == [("judge", b"a"), ("ranker", b"b")]
    publish_models(connection, {"ranker": b"c"})
    ((version, name, state),) = newer_models(connection, first[-1][0])
    assert (name, state) == ("ranker", b"c")
    assert newer_models(connection, version) == []
    for number in range(5):
        publish_models(connection, {"ranker": str(number).encode()})
    rows = connection.execute("SELECT state FROM model WHERE name = 'ranker' ORDER BY version").fetchall()
    assert [bytes(state) for (state,) in rows] == [b"2", b"3", b"4"]
    assert len(rows) == KEPT_MODELS
    assert [state for _, name, state in newer_models(connection, 0) if name == "judge"] == [b"a"]


def test_workers_lease_nothing_while_too_many_results_wait(dsn: str, connection: PostgresConnection) -> None:
    clock = DatabaseClock()
    with closing(SharedConnection(dsn, clock, lambda _: None)) as shared:
        worker = WorkerCommitter(shared, FrontierPolicy(delay_s=0.0), clock, WorkerMeter("one"), StopSettings())
        add_outcomes(connection, "one", [(1, b"")] * MIN_BACKLOG)
        assert worker.lease(clock.now(), 2, 1, 10.0) == []
        assert worker.wakes_at() is not None
        take_outcomes(connection, [next_outcomes(connection, 1)[0][0]])
        assert len(worker.lease(clock.now(), 2, 1, 10.0)) == 2


def test_connection_of_a_worker_outlives_its_session_on_the_server(dsn: str, connection: PostgresConnection) -> None:
    with closing(SharedConnection(dsn, DatabaseClock(), lambda _: None)) as shared:
        reader = SharedReader(shared)
        connection.execute("SELECT pg_terminate_backend(?)", (shared.db.backend_pid,))
        assert reader.execute("SELECT count(*) FROM outcome").fetchone()[0] == 0
