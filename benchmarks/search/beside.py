"""What keeping an index costs a crawl that runs at the same time, on the same machine.

    python benchmarks/search/beside.py --pages 1500 --rounds 3

A synthetic web is served on loopback by a process of its own and crawled by the whole command with two workers and
no pauses, in turn alone and beside the process that keeps the index of the same collection up to date.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from opilio.crawl.indexing import behind
from opilio.crawl.keepup import KeepUp
from opilio.lab.shape import Shape
from opilio.lab.synthetic import SyntheticWeb, topic_tables
from opilio.store.collection import exists

SHAPE = {"seed": 7, "hosts": 40, "topics": 2, "slow_hosts": 0, "failing_hosts": 0, "traps": ()}
COMMAND = [sys.executable, "-c", "from opilio.cli.main import main; main()"]


class Run(NamedTuple):
    speed: float  # pages a second
    missing: int  # pages that the index lacked when the crawl ended
    crawl_s: float  # CPU of the crawl
    index_s: float  # CPU of the indexing process while it crawled


def cpu_of(process: int) -> float:
    """CPU seconds of a running process, all threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def crawl(folder: Path, port: int, seeds: list[str], pages: int, *, indexed: bool) -> Run:
    options = ["--into", str(folder), "--proxy", f"http://127.0.0.1:{port}", "--pages", str(pages), "--quiet", "--json"]
    for seed in seeds:
        options += ["--seed", seed]
    options += ["--set", "politeness.delay_s=0", "--set", "politeness.max_crawl_delay_s=0", "--workers", "2"]
    process = subprocess.Popen([*COMMAND, "crawl", "birds and trains", *options], stdout=subprocess.PIPE)
    while not exists(folder):
        time.sleep(0.01)
    keeper = KeepUp([folder], every_s=0.5) if indexed else None
    if keeper:
        keeper.start()
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    told = json.loads(process.communicate()[0])
    took, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    crawl_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if keeper is None:
        return Run(told["pages"] / took, 0, crawl_s, 0.0)
    run = Run(told["pages"] / took, behind(folder), crawl_s, cpu_of(keeper._process.pid or 0))
    keeper.stop()
    return run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    web = SyntheticWeb(Shape(**SHAPE, pages=args.pages + 200))
    seeds = topic_tables(web.plan)[0]["seeds"][0]["urls"]
    shape = [f"--shape={name}={value}" for name, value in SHAPE.items() if name not in ("seed", "traps")]
    port = 18_500 + os.getpid() % 1_000
    serve = [*COMMAND, "lab", "serve", "--port", str(port), "--seed", "7", *shape, f"--shape=pages={args.pages + 200}"]
    server = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(8)
        with tempfile.TemporaryDirectory() as place:
            runs: dict[bool, list[Run]] = {False: [], True: []}
            for number in range(args.rounds):
                for indexed in (False, True) if number % 2 else (True, False):
                    folder = Path(place) / f"{number}-{indexed}"
                    run = crawl(folder, port, seeds, args.pages, indexed=indexed)
                    runs[indexed].append(run)
                    how = "beside an index" if indexed else "alone"
                    share = run.index_s / (run.crawl_s + run.index_s)
                    cost = f"crawl {run.crawl_s:.1f} s of CPU, index {run.index_s:.1f} s ({share:.1%} of both)"
                    print(f"{how}: {run.speed:.1f} pages/s, {run.missing} pages not indexed yet, {cost}", flush=True)
            alone, beside = (mean(run.speed for run in runs[kind]) for kind in (False, True))
            print(f"alone {alone:.1f}, beside {beside:.1f} pages/s: {1 - beside / alone:+.1%} slower")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
