"""Workers report figures about themselves, and `/metrics` shows them for Prometheus."""

from contextlib import closing
from pathlib import Path

from checks.page_server import pages_of
from opilio.core.settings import StopSettings
from opilio.engine.cluster.worker import WorkerCommitter, WorkerMeter
from opilio.engine.visit import LeaseResult
from opilio.frontier.policy import FrontierPolicy
from opilio.store.postgres.cluster import DatabaseClock, SharedConnection, WorkerFigures, report_worker, worker_figures
from opilio.store.postgres.connection import PostgresConnection
from opilio.testing.leases import landed


def test_worker_counts_leases_and_what_it_lost(collection: Path, dsn: str) -> None:
    clock, meter = DatabaseClock(), WorkerMeter("first")
    with closing(SharedConnection(dsn, clock, lambda _: None)) as shared:
        slow = WorkerCommitter(shared, FrontierPolicy(delay_s=0.0), clock, meter, StopSettings())
        other = WorkerCommitter(shared, FrontierPolicy(delay_s=0.0), clock, WorkerMeter("other"), StopSettings())
        now = clock.now()
        leases = slow.lease(now, 2, 1, 10.0)
        slow.commit([LeaseResult(lease=leases[1], url_results=landed(leases[1]))], now)
        assert [lease.host for lease in other.lease(now + 11.0, 1, 1, 10.0)] == [leases[0].host]
        slow.renew(leases[:1], now + 11.0, 10.0)
        slow.commit([LeaseResult(lease=leases[0], url_results=landed(leases[0]))], now + 12.0)
    found = meter.figures()
    assert (found.leases, found.expired_leases) == (2, 1)
    assert 0.0 < found.lease_p50_s <= found.lease_p99_s


def test_meter_computes_percentiles_and_the_refetch_ratio() -> None:
    meter = WorkerMeter("first")
    assert meter.figures() == WorkerFigures()
    for number in range(1, 101):
        meter.add_leases(2, number / 100)
    meter.add_result(30, committed=True)
    meter.add_result(10, committed=False)
    found = meter.figures()
    assert (found.leases, found.lease_p50_s, found.lease_p99_s) == (200, 0.51, 1.0)
    assert found.refetch_ratio == 0.25


def test_metrics_show_each_worker(collection: Path, dsn: str, connection: PostgresConnection, tmp_path: Path) -> None:
    figures = WorkerFigures(leases=7, lease_p50_s=0.01, lease_p99_s=0.2, expired_leases=1, fetches=8, refetches=2)
    report_worker(connection, "one-1", figures)
    report_worker(connection, "two-2", WorkerFigures(model_version=5))
    with pages_of([collection], tmp_path) as client:
        lines = client.get("/metrics").text.splitlines()
    labels = f'{{collection="{collection.name}",worker="one-1"}}'
    for name, value in {
        "leases_total": "7",
        "lease_p50_seconds": "0.01",
        "lease_p99_seconds": "0.2",
        "expired_leases_total": "1",
        "refetch_ratio": "0.25",
        "model_version": "0",
    }.items():
        assert f"opilio_worker_{name}{labels} {value}" in lines
    assert f'opilio_worker_model_version{{collection="{collection.name}",worker="two-2"}} 5' in lines
    assert "# TYPE opilio_worker_leases_total counter" in lines


def test_worker_that_is_gone_has_no_metrics(dsn: str, collection: Path, connection: PostgresConnection) -> None:
    report_worker(connection, "gone", WorkerFigures())
    connection.execute("UPDATE worker SET seen_at = seen_at - 60")
    connection.execute("INSERT INTO worker SELECT 'earlier-version', 0, seen_at + 60, '' FROM worker")
    assert worker_figures(dsn, 15.0) == {"earlier-version": WorkerFigures()}
