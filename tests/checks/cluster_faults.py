"""A crawl by several workers under faults of workers, servers, connections and clocks, and what it shows."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import Synchronized
from operator import attrgetter
from pathlib import Path
from tempfile import mkdtemp

import msgspec

from checks.postgres_server import ServerPair
from checks.small_webs import (
    CONTEXT,
    LOG_RESOLUTION_S,
    PATIENCE_S,
    SmallWeb,
    direct,
    grid,
    plain,
    run_command,
    served,
    settings_for,
)
from opilio.core.errors import CollectionError
from opilio.core.protocols import Database
from opilio.engine.wiring.session import create_collection
from opilio.lab.server.http import AccessLogEntry
from opilio.lab.server.server import LabWebServer
from opilio.manage.verify import verify
from opilio.store.collection import open_readonly
from opilio.store.postgres.cluster import crawl_progress
from opilio.store.postgres.collection import folder_of
from opilio.store.postgres.connection import PostgresConnection
from opilio.topic.setup import resolve_settings

WORKERS, LEASE_S, DELAY_S = 4, 3.0, 0.2
HOSTS, ADDRESSES, PAGES = 48, 32, 20
FAULTS = (
    *["kill"] * 6,
    *["stop"] * 4,
    *["cut"] * 3,
    *["lost answer"] * 2,
    *["server"] * 2,
    *["clock"] * 2,
    "promote",
)
CRAWLED_SHARE = 0.73  # of the web, when the last fault happens
STATES = ("queued", "waiting", "done", "failed", "dropped")
LOG_LEASES = (
    """CREATE TABLE lease_log (id bigint GENERATED ALWAYS AS IDENTITY, host text, token bigint, held boolean,
    expires_at double precision, at double precision DEFAULT extract(epoch FROM clock_timestamp()))""",
    """CREATE FUNCTION log_lease() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO lease_log (host, token, held, expires_at)
    VALUES (NEW.name, NEW.token, NEW.keys IS NOT NULL, NEW.expires_at); RETURN NULL; END $$""",
    """CREATE TRIGGER log_lease AFTER UPDATE ON frontier_host FOR EACH ROW WHEN
    (OLD.token <> NEW.token OR OLD.expires_at <> NEW.expires_at) EXECUTE FUNCTION log_lease()""",
)


class FaultReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a crawl under faults shows. Everything but pages, requests and seconds should be zero or small."""

    faults: dict[str, int]
    pages: int
    lost_urls: int  # pages of the web that are not stored, and results that were not applied
    missing: dict[str, str]  # what the frontier knows of each of these pages
    stop_reason: str
    pages_twice: int
    overlapping_leases: int
    too_early: int  # requests within the pause of their host
    too_early_at_address: int  # requests within the pause of their address
    problems: list[str]  # found by `verify`
    requests: int
    refetches: int
    seconds: float


class Workers:
    """Processes that run `opilio worker` on one database; a dead one is replaced."""

    def __init__(self, pair: ServerPair, dsn: str, folder: Path, random_seed: int) -> None:
        self._pair = pair
        self._dsn = dsn
        self._folder = folder
        self._rng = random.Random(random_seed)
        self._processes: dict[BaseProcess, Synchronized[float]] = {}
        self._stopped: dict[BaseProcess, float] = {}  # when it is continued
        self.done: Counter[str] = Counter()

    def fill(self) -> None:
        """Continue workers that stood still long enough, and start workers until there are enough."""
        for process, until in list(self._stopped.items()):
            if time.monotonic() >= until:
                _signal(process, signal.SIGCONT)
                del self._stopped[process]
        self._processes = {process: skew for process, skew in self._processes.items() if process.is_alive()}
        while len(self._processes) < WORKERS:
            place, skew_s = mkdtemp(dir=self._folder), CONTEXT.Value("d", self._random_skew_s())
            words = ["worker", self._dsn, "--workers", "0", "--quiet"]
            process = CONTEXT.Process(target=run_skewed, args=(skew_s, words, place, plain()))
            process.start()
            self._processes[process] = skew_s

    def inject(self, kind: str) -> None:
        """One fault."""
        self.done[kind] += 1
        victim = self._rng.choice([process for process in self._processes if process not in self._stopped])
        if kind == "kill":
            _signal(victim, signal.SIGKILL)
            victim.join()
        elif kind == "stop":
            _signal(victim, signal.SIGSTOP)
            self._stopped[victim] = time.monotonic() + 1.3 * LEASE_S
        elif kind == "clock":
            self._processes[victim].value = self._random_skew_s()
        elif kind == "cut":
            self._pair.proxy.cut()
        elif kind == "lost answer":
            self._pair.proxy.lose_next_answer()
        elif kind == "server":
            self._pair.restart()
        else:
            self._pair.fail_over()

    def state(self) -> str:
        """The state of the crawl; empty while the server can't be reached."""
        with suppress(CollectionError), closing(PostgresConnection(self._pair.dsn)) as connection:
            return crawl_progress(connection).state
        return ""

    def wait_until(self, true: Callable[[], bool]) -> None:
        """Keep enough workers until something has happened."""
        end = time.monotonic() + 2 * PATIENCE_S
        while not true():
            assert time.monotonic() < end, f"the crawl does not go on after {self.done}"
            self.fill()
            time.sleep(0.05)

    def wait_for_requests(self, source: LabWebServer, count: int) -> None:
        """Keep enough workers until the web got this number of requests, or the crawl has ended."""
        self.wait_until(lambda: len(source.log) >= count or self.state() == "stopped")

    def close(self) -> None:
        for process in self._processes:
            _signal(process, signal.SIGCONT)
            process.join(20.0)
            if process.is_alive():
                process.kill()
                process.join()

    def _random_skew_s(self) -> float:
        return self._rng.uniform(-86_400.0, 86_400.0)


def run_skewed(skew_s: "Synchronized[float]", words: list[str], place: str, environment: dict[str, str]) -> None:
    """A command on a machine whose clock is wrong, by a number of seconds that may change."""
    real_time = time.time
    time.time = lambda: real_time() + skew_s.value
    run_command(words, place, place, environment)


def _signal(process: BaseProcess, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process.pid or 0, number)


@contextmanager
def working(pair: ServerPair, dsn: str, folder: Path, random_seed: int = 1) -> Iterator[Workers]:
    """Workers, which end with the block."""
    workers = Workers(pair, dsn, folder, random_seed)
    workers.fill()
    try:
        yield workers
    finally:
        workers.close()


def crawl_under_faults(pair: ServerPair, folder: Path, random_seed: int = 1, pages: int = PAGES) -> FaultReport:
    """Crawl a web of its own, with `pages` on each host, to the end while faults happen, in random order."""
    began = time.monotonic()
    web = SmallWeb(grid(HOSTS, pages))
    kinds = random.Random(random_seed).sample(FAULTS, len(FAULTS))
    dsn = pair.new_schema()
    with served(web, ADDRESSES) as source:
        tree = settings_for(
            source,
            [f"http://h{host}.example/0.html" for host in range(HOSTS)],
            politeness={"delay_s": DELAY_S},
            engine={"lease_s": LEASE_S},
            # A failed request is repeated after 15 s or more; a crawl that does not wait for it ends without the page.
            stop={"pages": 0, "harvest_below": 0.0, "patience_s": PATIENCE_S},
            fetch={"retries": 3, **direct(source)},
        )
        create_collection(folder_of(dsn), resolve_settings(tree), None)[0].close()
        _execute(pair.dsn, *LOG_LEASES)
        with working(pair, dsn, folder, random_seed) as workers:
            for number, kind in enumerate(kinds, 1):
                workers.wait_for_requests(source, int(number / len(kinds) * CRAWLED_SHARE * HOSTS * pages))
                workers.inject(kind)
            workers.wait_until(lambda: workers.state() == "stopped")
        log = list(source.log)
        addresses = dict(source.host_addresses)
    return _report(pair.dsn, web, log, addresses, workers.done, time.monotonic() - began)


def _execute(dsn: str, *statements: str) -> None:
    with closing(PostgresConnection(dsn)) as connection:
        for statement in statements:
            connection.execute(statement)


def _report(
    dsn: str, web: SmallWeb, log: Sequence[AccessLogEntry], addresses: dict[str, str], done: Counter[str], took_s: float
) -> FaultReport:
    with open_readonly(folder_of(dsn)) as collection:
        db = collection.connection
        stored = Counter(url for (url,) in db.execute("SELECT url FROM page"))
        leases = db.execute("SELECT host, token, held, expires_at, at FROM lease_log ORDER BY host, id").fetchall()
        waiting = db.execute("SELECT count(*) FROM outcome").fetchone()[0]
        missing = {url: frontier_row(db, url) for url in sorted(web.answers.keys() - stored.keys())}
        stop_reason = collection.meta("stop_reason")
    asked = Counter(entry.url for entry in log if entry.target != "/robots.txt")
    return FaultReport(
        faults=dict(done),
        pages=len(stored),
        lost_urls=len(missing) + waiting,
        missing=missing,
        stop_reason=stop_reason,
        pages_twice=stored.total() - len(stored),
        overlapping_leases=overlapping_leases(leases),
        too_early=too_early(log, attrgetter("host")),
        too_early_at_address=too_early(log, lambda entry: addresses[entry.host]),
        problems=verify(folder_of(dsn)),
        requests=asked.total(),
        refetches=asked.total() - len(asked),
        seconds=round(took_s, 1),
    )


def frontier_row(db: Database, url: str) -> str:
    """What the frontier knows of a URL: its state, its retries and the reason of the last failure."""
    sql = "SELECT state, retries, not_before, reason FROM frontier_url WHERE url = ?"
    row = db.execute(sql, (url,)).fetchone()
    if row is None:
        return "not in the frontier"
    state, retries, not_before, reason = row
    wait = f" until {not_before:.0f}" if not_before else ""
    return f"{STATES[state]}{wait}, {retries} retries, {reason or 'no reason'}"


def overlapping_leases(leases: Sequence[tuple[str, int, bool, float, float]]) -> int:
    """Leases that were given while another of the same host was held: rows (host, token, held, until, at) in order."""
    return sum(
        host == before[0] and token != before[1] and before[2] and before[3] > at
        for before, (host, token, _, _, at) in pairwise(leases)
    )


def too_early(log: Sequence[AccessLogEntry], key: Callable[[AccessLogEntry], str]) -> int:
    """Requests that came within the pause after the one before them to the same host or address."""
    last: dict[str, float] = {}
    count = 0
    for entry in sorted(log, key=attrgetter("at")):
        count += entry.at - last.get(key(entry), 0.0) < DELAY_S - LOG_RESOLUTION_S
        last[key(entry)] = entry.at
    return count


def shortest_gap(log: Sequence[AccessLogEntry]) -> float:
    """The shortest time between two requests to one host."""
    by_host = sorted(log, key=lambda entry: (entry.host, entry.at))
    return min((b.at - a.at for a, b in pairwise(by_host) if a.host == b.host), default=float("inf"))


def refetch_ratio(log: Sequence[AccessLogEntry]) -> float:
    """The share of requests for pages that had been requested before."""
    counts = Counter((entry.host, entry.target) for entry in log if entry.target != "/robots.txt")
    return 1.0 - len(counts) / counts.total()
