"""Crawls by 1, 2 and 4 workers in PostgreSQL compared with the same crawl in a folder, in turns.

    python benchmarks/cluster/throughput.py [--pages 3000] [--rounds 3] [--cores 2]

A synthetic web of 200 hosts is served from a process of its own, without pauses, so that CPU is the limit. Prints pages
per second while all workers run (from the 40th to the 95th of 100 pages), CPU per page of the crawl's processes, with
their start, and of PostgreSQL, and the ratio of two workers to one. With `--cores` every worker brings one core, up to
that many: the crawl, the web and the database together have one core with one worker, and two with two. Without it all
use all cores, and the web and the database take time from the second worker. Three rounds take about 10 minutes on two
idle cores; on a busy machine only CPU per page is reliable.
"""

import argparse
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from checks.postgres_server import PostgresServer, running_server
from checks.small_webs import COMMAND, PATIENCE_S, flags, plain
from opilio.api.lab import WebServerProcess
from opilio.core.settings import Tree
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import SyntheticWeb
from opilio.store.collection import open_readonly
from opilio.store.postgres.collection import database_exists, folder_of

FOLDER = "folder"
VARIANTS = (FOLDER, "1 worker", "2 workers", "4 workers")


def settings(proxy: str, shape: WebShape, pages: int) -> Tree:
    web = SyntheticWeb(shape)
    return {
        "strategy": "opilio",
        "topic": {"name": "birds"},
        "seeds": {"urls": [web.plan.url(number) for number in range(0, shape.pages, shape.pages // 50)]},
        "politeness": {"delay_s": 0.0, "robots": False},
        "fetch": {"proxy": proxy, "retries": 0},
        "engine": {"workers": 0},
        "stop": {"pages": pages, "harvest_below": 0.0},
    }


def run(variant: str, tree: Tree, database: PostgresServer, cores: int) -> dict[str, float]:
    """One crawl; its figures."""
    with tempfile.TemporaryDirectory() as place:
        into = f"{place}/collection" if variant == FOLDER else database.new_schema()
        used, server_used = children_cpu_s(), server_cpu_s(database)
        workers = 1 if variant == FOLDER else int(variant.split(maxsplit=1)[0])
        pin(database, min(cores, workers))
        processes = [start(["crawl", *flags(tree), "--into", into, "--quiet"], 0, cores)]
        if workers > 1:
            wait_for_tables(into, processes[0])
        processes += [start(["worker", into, "--workers", "0", "--quiet"], n, cores) for n in range(1, workers)]
        for process in processes:
            assert process.wait(20 * PATIENCE_S) == 0, f"{variant} failed"
        with open_readonly(folder_of(into)) as collection:
            times = sorted(at for (at,) in collection.connection.execute("SELECT fetched_at FROM page"))
        pages = len(times)
        first, last = pages * 40 // 100, pages * 95 // 100
        return {
            "pages/s": (last - first) / (times[last] - times[first]),
            "crawl ms/page": (children_cpu_s() - used) / pages * 1000,
            "PostgreSQL ms/page": (server_cpu_s(database) - server_used) / pages * 1000,
        }


def start(words: list[str], number: int, cores: int) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.DEVNULL, env=plain())
    if cores:
        os.sched_setaffinity(process.pid, {number % cores})
    return process


def pin(database: PostgresServer, cores: int) -> None:
    """Let the web and the database run on the first cores only; 0: on all that there are."""
    chosen = range(cores or os.cpu_count() or 1)
    for pid in (*server_processes(database), *(child.pid for child in multiprocessing.active_children())):
        # Each thread has an affinity of its own; new ones inherit it.
        for thread in Path(f"/proc/{pid}/task").glob("*"):
            with suppress(OSError):
                os.sched_setaffinity(int(thread.name), chosen)


def server_processes(database: PostgresServer) -> list[int]:
    """The first process of the server, and those that it has started."""
    first = (database.folder / "data" / "postmaster.pid").read_text().split()[0]
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    return [int(first), *map(int, children)]


def wait_for_tables(into: str, first: "subprocess.Popen[bytes]") -> None:
    """Workers fail until the collection exists."""
    while first.poll() is None and not database_exists(folder_of(into)):
        time.sleep(0.05)


def children_cpu_s() -> float:
    """CPU time of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def server_cpu_s(database: PostgresServer) -> float:
    """CPU time of the server: its first process, the processes that it has waited for, and those that run."""
    ticks = 0
    for number, pid in enumerate(server_processes(database)):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11 : 13 if number else 15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=0)
    options = parser.parse_args()
    shape = WebShape(pages=2 * options.pages, hosts=200)
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    server = WebServerProcess(shape)
    try:
        with tempfile.TemporaryDirectory() as place, running_server() as database:
            os.environ["XDG_CACHE_HOME"] = f"{place}/cache"
            tree = settings(server.proxy, shape, options.pages)
            for number in range(1, options.rounds + 1):
                for variant in VARIANTS:
                    found[variant].append(run(variant, tree, database, options.cores))
                    print(number, variant, {name: round(v, 2) for name, v in found[variant][-1].items()}, flush=True)
    finally:
        server.close()
    for variant, runs in found.items():
        print(variant, {name: round(median(one[name] for one in runs), 2) for name in runs[0]})
    pairs = zip(found["2 workers"], found["1 worker"], strict=True)
    print(f"2 workers to 1: {median(two['pages/s'] / one['pages/s'] for two, one in pairs):.2f}")


if __name__ == "__main__":
    main()
