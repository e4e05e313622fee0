"""Workers of one crawl, and faults: killed workers, workers that stand still, a server that dies, cut connections."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import mkdtemp

from checks.postgres_server import PostgresServer
from checks.small_webs import CONTEXT, PATIENCE_S, by_host, plain, run_command
from opilio.core.errors import CollectionError
from opilio.engine.commands import send_command
from opilio.lab.server.http import AccessLogEntry
from opilio.store.postgres.collection import folder_of
from opilio.store.postgres.connection import PostgresConnection
from opilio.store.postgres.outcomes import crawl_progress

LEASE_S = 4.0
FAULTS = ("kill", "kill", "stop", "cut", "kill", "cut", "stop", "server", "kill", "cut")


class Workers:
    """Processes that run `opilio worker` on one database; a dead one is replaced."""

    def __init__(self, server: PostgresServer, dsn: str, count: int, folder: Path, random_seed: int = 1) -> None:
        self._server = server
        self._dsn = dsn
        self._count = count
        self._folder = folder
        self._rng = random.Random(random_seed)
        self._processes: list[BaseProcess] = []
        self.done: Counter[str] = Counter()

    def fill(self) -> None:
        """Start workers until there are enough."""
        self._processes = [process for process in self._processes if process.is_alive()]
        while len(self._processes) < self._count:
            place = mkdtemp(dir=self._folder)
            words = ["worker", self._dsn, "--workers", "0", "--quiet"]
            process = CONTEXT.Process(target=run_command, args=(words, place, place, plain()))
            process.start()
            self._processes.append(process)

    def inject(self, kind: str) -> None:
        """One fault."""
        self.done[kind] += 1
        victim = self._rng.choice(self._processes)
        if kind == "kill":
            _signal(victim, signal.SIGKILL)
            victim.join()
        elif kind == "stop":
            _signal(victim, signal.SIGSTOP)
            time.sleep(LEASE_S * 1.25)
            _signal(victim, signal.SIGCONT)
        elif kind == "cut":
            self._cut_connections()
        else:
            self._server.stop("immediate")
            self._server.start()

    def _cut_connections(self) -> None:
        with suppress(CollectionError), closing(PostgresConnection(self._dsn)) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )

    def state(self) -> str:
        """The state of the crawl; empty while the server can't be reached."""
        with suppress(CollectionError), closing(PostgresConnection(self._dsn)) as connection:
            return crawl_progress(connection).state
        return ""

    def request_stop(self) -> None:
        """Ask for the end of the crawl, as a user does."""
        send_command(folder_of(self._dsn), "stop", time.time())

    def finish(self) -> None:
        """Keep enough workers until the crawl has stopped."""
        end = time.monotonic() + 2 * PATIENCE_S
        while self.state() != "stopped":
            assert time.monotonic() < end, "the crawl does not end"
            if self.state() == "running":
                self.fill()
            time.sleep(0.2)

    def close(self) -> None:
        for process in self._processes:
            process.join(20.0)
            if process.is_alive():
                process.kill()
                process.join()


@contextmanager
def working(server: PostgresServer, dsn: str, count: int, folder: Path) -> Iterator[Workers]:
    """Workers, which end with the block."""
    workers = Workers(server, dsn, count, folder)
    workers.fill()
    try:
        yield workers
    finally:
        workers.close()


def _signal(process: BaseProcess, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process.pid or 0, number)


def shortest_gap(log: Sequence[AccessLogEntry]) -> float:
    """The shortest time between two requests to one host."""
    gaps = (b.at - a.at for asked in by_host(log).values() for a, b in pairwise(asked))
    return min(gaps, default=float("inf"))


def refetch_ratio(log: Sequence[AccessLogEntry]) -> float:
    """The share of requests for pages that had been requested before."""
    counts = Counter((entry.host, entry.target) for entry in log if entry.target != "/robots.txt")
    return 1.0 - len(counts) / counts.total()
