"""How many pages a second a crawl by several workers reaches, and what limits it: a simulation without any I/O.

    python benchmarks/cluster/simulate.py --workers 64 --hosts 20000 --seconds 3600

Pages are spread over hosts by a power law. A worker leases a host, fetches some of its pages with the pause of the host
between them, analyzes them on one core, and commits; the trainer applies the results one after the other. Workers die
at random: their hosts are free again when the lease expires, and what was not committed is fetched again. The same
options give the same figures.
"""

import argparse
import heapq
import json
import random
from collections import Counter, deque
from dataclasses import asdict, dataclass, field

RENEWALS_PER_LEASE_TIME = 2  # a lease is renewed at half of its time


@dataclass(frozen=True, kw_only=True)
class ClusterShape:
    """The options, with the assumptions of docs/cluster.md as defaults."""

    workers: int = 64
    hosts: int = 20_000
    seconds: float = 3600.0
    exponent: float = 1.0  # the host of rank r has pages in proportion to r ** -exponent
    pages_per_host: int = 1_000  # on average
    delay_s: float = 5.0  # the median pause of a host; it varies by a factor of two
    fetch_s: float = 0.5
    analysis_ms: float = 80.0  # CPU of a worker per page
    trainer_ms: float = 2.0  # CPU of the trainer per page
    connections: int = 64  # hosts that a worker leases at once
    urls_per_lease: int = 8
    lease_s: float = 60.0
    max_backlog: int = 2_000  # results that wait for the trainer; above it nothing is leased
    links_per_page: int = 40
    deaths_per_hour: float = 0.1  # of each worker
    restart_s: float = 30.0
    seed: int = 1


@dataclass
class Host:
    pages: int
    delay_s: float


@dataclass
class SimulatedWorker:
    cpu_free_at: float = 0.0
    generation: int = 0  # grows when the worker dies: what the former process had started has not happened
    leases: dict[int, int] = field(default_factory=dict)  # by host: pages fetched and not committed


class Simulation:
    """Events in the order of their time; events at the same time in the order in which they were planned."""

    def __init__(self, shape: ClusterShape) -> None:
        self._shape = shape
        self._random = random.Random(shape.seed)
        self._hosts = _make_hosts(shape, self._random)
        self._workers = [SimulatedWorker() for _ in range(shape.workers)]
        # Best host first: the frontier's order has nothing to do with the size of a host.
        self._ranks = self._random.sample(range(shape.hosts), shape.hosts)
        self._ready = [(rank, host) for host, rank in enumerate(self._ranks)]
        heapq.heapify(self._ready)
        self._free_slots: deque[tuple[int, int]] = deque()
        self._events: list[tuple[float, int, str, tuple[int, ...]]] = []
        self._planned = 0
        self._trainer_free_at = 0.0
        self._blocked_until = 0.0
        self._leased_host_s = 0.0
        self._busy_s = 0.0
        self.counts: Counter[str] = Counter()
        self.max_backlog = 0

    def run(self) -> dict[str, float]:
        """Simulate, and return the figures."""
        for number in range(self._shape.workers):
            self._start_worker(number)
        now = 0.0
        while self._events:
            now, _, kind, values = heapq.heappop(self._events)
            if now >= self._shape.seconds:
                break
            getattr(self, f"_on_{kind}")(now, *values)
            self._assign(now)
        return self._figures(min(now, self._shape.seconds))

    def _plan(self, at: float, kind: str, *values: int) -> None:
        self._planned += 1
        heapq.heappush(self._events, (at, self._planned, kind, values))

    def _start_worker(self, number: int, now: float = 0.0) -> None:
        generation = self._workers[number].generation
        self._free_slots.extend((number, generation) for _ in range(self._shape.connections))
        self._plan(now, "retry")
        if self._shape.deaths_per_hour > 0:
            lifetime_s = self._random.expovariate(self._shape.deaths_per_hour / 3600)
            self._plan(now + lifetime_s, "death", number)

    def _assign(self, now: float) -> None:
        """Lease ready hosts for free slots, unless too many results wait for the trainer."""
        while self._free_slots and self._ready and now >= self._blocked_until:
            backlog = self._backlog(now)
            self.max_backlog = max(self.max_backlog, backlog)
            if backlog >= self._shape.max_backlog:
                self._blocked_until = now + 0.25
                self._plan(self._blocked_until, "retry")
                return
            number, generation = self._free_slots.popleft()
            if self._workers[number].generation != generation:
                continue
            _, host = heapq.heappop(self._ready)
            self._workers[number].leases[host] = 0
            self.counts["leases"] += 1
            self._plan(now, "fetch", number, generation, host)

    def _backlog(self, now: float) -> int:
        return int(max(0.0, self._trainer_free_at - now) * 1000 / self._shape.trainer_ms)

    def _on_retry(self, _now: float) -> None:
        """Time to lease again, which happens after every event."""

    def _on_fetch(self, now: float, number: int, generation: int, host: int) -> None:
        """Fetch and analyze one page; then the next of the lease, or the commit."""
        worker = self._workers[number]
        if worker.generation != generation:
            return
        shape, state = self._shape, self._hosts[host]
        worker.leases[host] += 1
        self.counts["fetches"] += 1
        fetched_at = now + shape.fetch_s
        worker.cpu_free_at = max(worker.cpu_free_at, fetched_at) + shape.analysis_ms / 1000
        self._busy_s += shape.analysis_ms / 1000
        last = worker.leases[host] >= min(shape.urls_per_lease, state.pages)
        # A host is not fetched from while its last page waits for the core: leases bound what is in memory.
        next_at = worker.cpu_free_at if last else max(fetched_at + state.delay_s, worker.cpu_free_at)
        self._leased_host_s += next_at - now
        self._plan(next_at, "commit" if last else "fetch", number, generation, host)

    def _on_commit(self, now: float, number: int, generation: int, host: int) -> None:
        worker = self._workers[number]
        if worker.generation != generation:
            return
        pages, state = worker.leases.pop(host), self._hosts[host]
        state.pages -= pages
        self.counts["pages"] += pages
        self._trainer_free_at = max(self._trainer_free_at, now) + pages * self._shape.trainer_ms / 1000
        self._free_slots.append((number, generation))
        if state.pages > 0:
            self._plan(now + state.delay_s, "wake", host)

    def _on_wake(self, _now: float, host: int) -> None:
        heapq.heappush(self._ready, (self._ranks[host], host))

    def _on_death(self, now: float, number: int) -> None:
        worker = self._workers[number]
        self.counts["deaths"] += 1
        for host, fetched in worker.leases.items():
            self.counts["expired_leases"] += 1
            self.counts["refetches"] += fetched
            left_s = self._shape.lease_s * self._random.uniform(1 - 1 / RENEWALS_PER_LEASE_TIME, 1)
            self._plan(now + left_s, "wake", host)
        restarts_at = now + self._shape.restart_s
        self._workers[number] = SimulatedWorker(cpu_free_at=restarts_at, generation=worker.generation + 1)
        self._plan(restarts_at, "start", number)

    def _on_start(self, now: float, number: int) -> None:
        self._start_worker(number, now)

    def _figures(self, seconds: float) -> dict[str, float]:
        shape, counts = self._shape, self.counts
        elapsed_s = max(seconds, 1e-9)
        pages_s = counts["pages"] / elapsed_s
        renewals_s = self._leased_host_s / (shape.lease_s / RENEWALS_PER_LEASE_TIME) / elapsed_s
        figures = {
            "pages": counts["pages"],
            "pages_per_s": pages_s,
            "days_for_1e9_pages": 1e9 / pages_s / 86_400 if pages_s else float("inf"),
            "worker_cpu_share": self._busy_s / (elapsed_s * shape.workers),
            "trainer_cpu_share": pages_s * shape.trainer_ms / 1000,
            "max_backlog": self.max_backlog,
            "hosts_leased": self._leased_host_s / elapsed_s,
            "hosts_finished": sum(host.pages == 0 for host in self._hosts),
            "leases_per_s": counts["leases"] / elapsed_s,
            "renewals_per_s": renewals_s,
            "link_upserts_per_s": pages_s * shape.links_per_page,
            "deaths": counts["deaths"],
            "expired_leases": counts["expired_leases"],
            "refetch_ratio": counts["refetches"] / max(1, counts["fetches"]),
        }
        return {name: round(value, 4) for name, value in figures.items()}


def _make_hosts(shape: ClusterShape, randomness: random.Random) -> list[Host]:
    """Hosts by rank, the largest first, each with one page at least."""
    weights = [rank**-shape.exponent for rank in range(1, shape.hosts + 1)]
    scale = shape.pages_per_host * shape.hosts / sum(weights)
    return [Host(max(1, round(weight * scale)), shape.delay_s * 2 ** randomness.uniform(-1, 1)) for weight in weights]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in asdict(ClusterShape()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    print(json.dumps(Simulation(ClusterShape(**vars(parser.parse_args()))).run(), indent=2))


if __name__ == "__main__":
    main()
