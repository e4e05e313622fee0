"""The frontier in PostgreSQL at several sizes: bytes per URL, lease latency, rescoring speed.

    python benchmarks/cluster/scale.py [--urls 100000 --urls 1000000] [--hosts 20000] [--dsn postgresql://…]

Without --dsn it starts a server of its own with 1 GB of shared buffers, which needs 0.5 GB of disk per million URLs.
Sizes are measured one after the other, each in a schema of its own. Links enter as in a crawl, by `add`, so that ten
million URLs take about 20 minutes to load on an idle machine: `--urls 100000 --urls 10000000`.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from checks.postgres_server import running_server
from opilio.core.records import HostLease, Lead, UrlResult, UrlState, url_key
from opilio.frontier.policy import FrontierPolicy
from opilio.frontier.postgres.frontier import PostgresFrontier
from opilio.frontier.postgres.schema import create_postgres_frontier
from opilio.store.postgres.connection import PostgresConnection, postgres_transaction

BATCH, LEASES, RESCORED, ROUNDS = 5_000, 400, 2_000, 10
NOW = 1_000_000.0


def leads(urls: int, hosts: int) -> Iterator[list[Lead]]:
    """URLs of hosts whose sizes differ by a power law, in batches."""
    rng = random.Random(1)
    found = []
    for number in range(urls):
        host = f"host{int(hosts ** rng.random())}.example"
        url = f"http://{host}/section-{number % 13}/some-page-about-things-{number}.html"
        found.append(Lead(url=url, key=url_key(url), host=host, score=rng.random(), depth=3, parent=number))
        if len(found) == BATCH:
            yield found
            found = []
    if found:
        yield found


def measure(connection: PostgresConnection, urls: int, hosts: int) -> dict[str, float]:
    create_postgres_frontier(connection)
    frontier = PostgresFrontier(connection, FrontierPolicy(delay_s=0.0))
    began = time.perf_counter()
    for batch in leads(urls, hosts):
        with postgres_transaction(connection):
            frontier.add(batch, NOW)
    loaded_s = time.perf_counter() - began
    connection.execute("VACUUM ANALYZE frontier_url")
    connection.execute("VACUUM ANALYZE frontier_host")
    size = connection.execute(
        "SELECT pg_total_relation_size('frontier_url') + pg_total_relation_size('frontier_host')"
    ).fetchone()[0]
    leased_ms, ended_ms = lease_times(connection, frontier)
    return {
        "URLs": urls,
        "added/s": round(urls / loaded_s),
        "bytes/URL": round(size / urls),
        "lease p50 ms": round(median(leased_ms), 2),
        "lease p99 ms": round(sorted(leased_ms)[len(leased_ms) * 99 // 100], 2),
        "complete p50 ms": round(median(ended_ms), 2),
        "rescored/s": round(rescoring_speed(connection, frontier)),
    }


def lease_times(connection: PostgresConnection, frontier: PostgresFrontier) -> tuple[list[float], list[float]]:
    """Milliseconds of leases of eight hosts, and of their ends."""
    leased, ended = [], []
    for number in range(LEASES):
        began = time.perf_counter()
        with postgres_transaction(connection):
            leases = frontier.lease(NOW + number, 8, 1, 60.0)
        between = time.perf_counter()
        with postgres_transaction(connection):
            frontier.complete_all([(lease, results(lease), NOW + number + 1.0) for lease in leases])
        leased.append((between - began) * 1000)
        ended.append((time.perf_counter() - between) * 1000)
    return leased, ended


def results(lease: HostLease) -> list[UrlResult]:
    return [UrlResult(key=lead.key, host=lead.host, state=UrlState.DONE) for lead in lease.leads]


def rescoring_speed(connection: PostgresConnection, frontier: PostgresFrontier) -> float:
    """URLs of the top band that get a new score, per second; the median of several rounds."""
    rng, speeds = random.Random(2), []
    for _ in range(ROUNDS):
        band = [(entry.lead.host, entry.lead.key, rng.random()) for entry in frontier.best(RESCORED)]
        began = time.perf_counter()
        with postgres_transaction(connection):
            changed = frontier.rescore(band)
        speeds.append(changed / (time.perf_counter() - began))
    return median(speeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--urls", type=int, action="append")
    parser.add_argument("--hosts", type=int, default=20_000)
    parser.add_argument("--dsn", default="")
    options = parser.parse_args()
    with ExitStack() as stack:
        dsn = options.dsn
        if not dsn:
            server = stack.enter_context(running_server())
            server.stop()
            server.start("-c shared_buffers=1GB", "-c max_wal_size=8GB")
            dsn = server.dsn()
        for urls in options.urls or (100_000, 1_000_000):
            with closing(PostgresConnection(dsn)) as connection:
                connection.execute("DROP SCHEMA IF EXISTS opilio_scale CASCADE")
                connection.execute("CREATE SCHEMA opilio_scale")
                connection.execute("SET search_path = opilio_scale")
                print(measure(connection, urls, options.hosts), flush=True)
                connection.execute("DROP SCHEMA opilio_scale CASCADE")


if __name__ == "__main__":
    main()
