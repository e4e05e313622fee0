"""Kill a crawl often, resume it each time, and prove at the end that nothing was lost (`--kills 200`).

    python benchmarks/killing/run.py --kills 200 --workers 2

Serves a web of its own on loopback, crawls it once undisturbed, then again with SIGKILL at random moments: of the
engine, and with workers also of single workers and of all processes at once. Ends with exit code 1 and a traceback if a
URL, a page or a pause was lost or a process was left over; otherwise prints one line of figures.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from checks.killing import killed_after, killed_by_part, polite_throughout, same_as_undisturbed, urls_in_warc
from checks.small_webs import SmallWeb, crawl, grid, least_gap, served, settings_for, stored

DELAY_S = 0.1
HOSTS = 8
WORKER_KILLS = 3  # at most, in one life of the engine


def main() -> None:
    options = arguments()
    pages = max(30, options.kills * 3)  # so that the crawl lasts longer than all the kills
    web = grid(HOSTS, pages)
    rng = random.Random(options.random_seed)
    with tempfile.TemporaryDirectory() as place, served(SmallWeb(web)) as server:
        killed, undisturbed = Path(place) / "killed", Path(place) / "undisturbed"
        tree = settings_for(
            server,
            ["http://h0.example/0.html"],
            politeness={"delay_s": DELAY_S},
            engine={"workers": options.workers, "batch": 8},
            store={"rotate_bytes": 20_000},
            stop={"pages": 0},
        )
        crawl(undisturbed, {**tree, "politeness": {"delay_s": 0.0}, "engine": {"workers": 0}})
        server.log.clear()
        began = time.perf_counter()
        longest_s = options.longest_s or (2.0 if options.workers else 1.0)
        kills = Counter[str]()
        running = True
        while running and kills.total() < options.kills:
            if options.workers:
                more, running = killed_by_part(killed, tree, rng, longest_s, WORKER_KILLS)
                kills += more
            else:
                running = killed_after(killed, tree, rng.uniform(0.0, longest_s))
                kills["engine"] += running
            sys.stderr.write(f"\r{dict(kills)}, {len(server.log)} requests")
        if running:
            assert not killed_after(killed, tree, 3600.0)
        took_s = time.perf_counter() - began
        same_as_undisturbed(killed, undisturbed)
        assert urls_in_warc(killed) == stored(killed) == stored(undisturbed)
        polite_throughout(server.log, DELAY_S)
        print(
            f"\n{dict(kills)} in {took_s:.0f} s: {len(stored(killed))} pages, all URLs known, no page twice, "
            f"{len(server.log)} requests, shortest gap at a host {least_gap(server.log):.3f} s (delay {DELAY_S} s)"
        )
        assert kills.total() >= options.kills, "the crawl ended before it could be killed so often"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--longest-s", type=float, default=0.0, help="longest life of a process; 0: a fitting one")
    parser.add_argument("--random-seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
