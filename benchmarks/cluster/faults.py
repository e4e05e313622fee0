"""A crawl by four workers under faults of workers, servers, connections and clocks.

    python benchmarks/cluster/faults.py [FAULTS] [RESULTS]

Each round starts a primary and a synchronous standby, serves a web of its own, crawls it to the end and injects 20
faults in random order: workers are killed or stopped for longer than their lease, connections are cut, also between a
commit and its answer, the server is killed and started again, clocks are set, and the standby is promoted. A round is
one line of RESULTS (default: faults.jsonl); rounds that are there already are not repeated, so that an interrupted run
continues. 200 faults are ten rounds.
"""

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from checks.cluster_faults import FAULTS, FaultReport, crawl_under_faults
from checks.postgres_server import running_pair

PAGES_PER_HOST = 120  # of 48 hosts: 288 pages per fault


def main() -> None:
    faults = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    results = Path(sys.argv[2] if len(sys.argv) > 2 else "faults.jsonl")
    done = len(results.read_bytes().splitlines()) if results.exists() else 0
    for random_seed in range(done + 1, -(-faults // len(FAULTS)) + 1):
        with tempfile.TemporaryDirectory() as place, running_pair() as pair:
            os.environ["XDG_CACHE_HOME"] = f"{place}/cache"
            report = crawl_under_faults(pair, Path(place), random_seed, PAGES_PER_HOST)
        with results.open("ab") as file:
            file.write(msgspec.json.encode(report) + b"\n")
        print(f"round {random_seed}: {report}", flush=True)
    print(summary([msgspec.json.decode(line, type=FaultReport) for line in results.read_bytes().splitlines()]))


def summary(rounds: list[FaultReport]) -> str:
    """All rounds together."""
    kinds = sum((Counter(report.faults) for report in rounds), Counter[str]())
    requests = sum(report.requests for report in rounds)
    refetches = sum(report.refetches for report in rounds)
    zero = {
        "URLs lost": sum(report.lost_urls for report in rounds),
        "pages twice": sum(report.pages_twice for report in rounds),
        "overlapping leases": sum(report.overlapping_leases for report in rounds),
        "requests too early": sum(report.too_early for report in rounds),
        "too early at an address": sum(report.too_early_at_address for report in rounds),
        "problems found by verify": sum(len(report.problems) for report in rounds),
    }
    lines = [
        f"{kinds.total()} faults {dict(kinds)} in {sum(report.seconds for report in rounds):.0f} s",
        f"{sum(report.pages for report in rounds)} pages, {requests} requests, {refetches / requests:.2%} refetches",
        ", ".join(f"{name} {number}" for name, number in zero.items()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
