"""The frontier in PostgreSQL at several sizes: bytes per URL, lease latency, rescoring speed.

    python benchmarks/cluster/scale.py [--urls 100000 --urls 1000000] [--hosts 20000] [--dsn postgresql://…]

Without --dsn it starts a server of its own with 1 GB of shared buffers, which needs 0.5 GB of disk per million URLs.
Each size has a schema of its own; all are loaded first and then measured in turns, so that all meet the same load of
the machine. With --dsn the schemas stay, and are measured again by the same command. The rows are those of `add`, but
they are made by the server itself, in random order and with all indexes: ten million URLs take some minutes.
"""

import argparse
import random
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from checks.postgres_server import running_server
from opilio.core.records import HostLease, UrlResult, UrlState
from opilio.frontier.policy import FrontierPolicy
from opilio.frontier.postgres.frontier import PostgresFrontier
from opilio.frontier.schema import create_postgres_frontier, rebuild_postgres_counters
from opilio.store.postgres.connection import PostgresConnection, postgres_transaction

BATCH, LEASES, RESCORED, ROUNDS = 100_000, 40, 2_000, 10
NOW = 1_000_000.0


# URLs of hosts whose sizes differ by a power law.
MAKE_HOSTS = "INSERT INTO frontier_host (name) SELECT 'host' || n || '.example' FROM generate_series(1, ?) AS n"
MAKE_URLS = """INSERT INTO frontier_url
    (host_id, key, state, seq, priority, score, depth, tunnel, parent, hops, retries, found, url, agent)
    SELECT host, hashtextextended(url, 0), 0, n, score, score, 3, 0, n, 0, 0, 1, url, 0 FROM (
        SELECT n, host, score, 'http://host' || host || '.example/section-' || n % 13
            || '/some-page-about-things-' || n || '.html' AS url FROM (
            SELECT n, CAST(floor(power(CAST(? AS double precision), random())) AS bigint) AS host, random() AS score
            FROM generate_series(CAST(? AS bigint), CAST(? AS bigint)) AS n) AS numbers) AS urls"""


class Frontier:
    """The frontier of one size, in a schema of its own, and what was measured in it."""

    def __init__(self, dsn: str, urls: int, hosts: int) -> None:
        self.connection = PostgresConnection(dsn)
        self._urls = urls
        schema = f"opilio_scale_{urls}"
        present = self.connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (schema,)).fetchone()
        self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        self.connection.execute(f"SET search_path = {schema}")
        self._frontier = PostgresFrontier(self.connection, FrontierPolicy(delay_s=0.0))
        self._now = NOW
        self._leased_ms: list[float] = []
        self._ended_ms: list[float] = []
        self._rescored_per_s: list[float] = []
        if not present:
            self._load(hosts)

    def _load(self, hosts: int) -> None:
        create_postgres_frontier(self.connection)
        self.connection.execute("SET statement_timeout = 0")
        self.connection.execute("SELECT setseed(0.5)")
        self.connection.execute(MAKE_HOSTS, (hosts,))
        for start in range(1, self._urls + 1, BATCH):
            self.connection.execute(MAKE_URLS, (hosts, start, min(self._urls, start + BATCH - 1)))
        with postgres_transaction(self.connection):
            rebuild_postgres_counters(self.connection)
        self.connection.execute("VACUUM ANALYZE frontier_url")
        self.connection.execute("VACUUM ANALYZE frontier_host")

    def measure(self) -> None:
        """One round: leases of eight hosts and their ends, then new scores for the top band."""
        connection, frontier = self.connection, self._frontier
        for _ in range(LEASES):
            self._now += 1.0
            began = time.perf_counter()
            with postgres_transaction(connection):
                leases = frontier.lease(self._now, 8, 1, 60.0)
            between = time.perf_counter()
            with postgres_transaction(connection):
                frontier.complete_all([(lease, results(lease), self._now + 1.0) for lease in leases])
            self._leased_ms.append((between - began) * 1000)
            self._ended_ms.append((time.perf_counter() - between) * 1000)
        rng = random.Random(len(self._rescored_per_s))
        band = [(entry.lead.host, entry.lead.key, rng.random()) for entry in frontier.best(RESCORED)]
        began = time.perf_counter()
        with postgres_transaction(connection):
            changed = frontier.rescore(band)
        self._rescored_per_s.append(changed / (time.perf_counter() - began))

    def forget(self) -> None:
        """Forget what was measured."""
        for measured in (self._leased_ms, self._ended_ms, self._rescored_per_s):
            measured.clear()

    def report(self) -> dict[str, float]:
        sql = "SELECT pg_total_relation_size('frontier_url') + pg_total_relation_size('frontier_host')"
        return {
            "URLs": self._urls,
            "bytes/URL": round(self.connection.execute(sql).fetchone()[0] / self._urls),
            "lease p50 ms": round(median(self._leased_ms), 2),
            "lease p99 ms": round(sorted(self._leased_ms)[len(self._leased_ms) * 99 // 100], 2),
            "complete p50 ms": round(median(self._ended_ms), 2),
            "rescored/s": round(median(self._rescored_per_s)),
        }


def results(lease: HostLease) -> list[UrlResult]:
    return [UrlResult(key=lead.key, host=lead.host, state=UrlState.DONE) for lead in lease.leads]


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
        sizes = options.urls or (100_000, 1_000_000)
        frontiers = [Frontier(dsn, urls, options.hosts) for urls in sizes]
        # One round before, which fills the caches.
        for number in range(ROUNDS + 1):
            for frontier in frontiers:
                frontier.measure()
                if not number:
                    frontier.forget()
        for frontier in frontiers:
            print(frontier.report(), flush=True)
            frontier.connection.close()


if __name__ == "__main__":
    main()
