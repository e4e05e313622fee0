"""Simulate crawls: each seed is a web, settings, and a disturbance of network, processes and disk.

    python -m benchmarks.simulation.run --seeds 1000
    python -m benchmarks.simulation.run --seed 17

Prints the problems of each seed that fails with the command that runs it again, and a line for every thousand seeds, so
that a long run can be continued with `--first`. Ends with exit code 1 if a seed failed.
"""

import argparse
import gc
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.simulation.disk import SqliteHook
from benchmarks.simulation.world import World

MEMORY = Path("/dev/shm")
SEEDS_PER_COLLECTION = 10
SEEDS_PER_LINE = 1_000


def simulate(first: int, seeds: int) -> tuple[dict[int, list[str]], Counter[str]]:
    """The problems by seed, and counts of what was simulated."""
    failed: dict[int, list[str]] = {}
    counts: Counter[str] = Counter()
    hook = SqliteHook()
    # What is there now stays. Dead processes leave cycles of objects, which are collected between crawls, not inside.
    gc.freeze()
    gc.disable()
    try:
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
            for seed in range(first, first + seeds):
                world = World(seed, Path(place), hook)
                if problems := world.run():
                    failed[seed] = problems
                counts.update(world.faults)
                counts["damaged"] += world.is_damaged
                counts["processes"] += world.lives
                counts["requests"] += world._network.requests.total()
                if seed % SEEDS_PER_COLLECTION == 0:
                    gc.collect()
    finally:
        gc.unfreeze()
        gc.enable()
        gc.collect()
        hook.close()
    return failed, counts


def replay_command(seed: int) -> str:
    return f"python -m benchmarks.simulation.run --seed {seed}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this seed")
    options = parser.parse_args()
    first, seeds = (options.first, options.seeds) if options.seed is None else (options.seed, 1)
    began = time.process_time()
    failures, total = 0, Counter[str]()
    for start in range(first, first + seeds, SEEDS_PER_LINE):
        end = min(start + SEEDS_PER_LINE, first + seeds)
        failed, counts = simulate(start, end - start)
        for seed, problems in failed.items():
            print(f"seed {seed}: {'; '.join(problems)}\n  {replay_command(seed)}")
        failures += len(failed)
        total += counts
        print(f"seeds {start} to {end - 1}: {len(failed)} failed, {time.process_time() - began:.0f} s", flush=True)
    took_s = time.process_time() - began
    print(
        f"{seeds} seeds, {total['processes']} processes, {total['requests']} requests, {failures} failed,"
        f" {total['damaged']} of {total['lie']} disks that lied reported as damaged,"
        f" {took_s:.1f} s of CPU, {1000 * took_s / seeds:.0f} ms per seed"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
