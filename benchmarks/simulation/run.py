"""Simulate crawls: each seed is a web, settings, and a disturbance of network, processes and disk.

    python -m benchmarks.simulation.run --seeds 1000
    python -m benchmarks.simulation.run --seed 17

Prints the problems of each seed that fails with the command that runs it again. Ends with exit code 1 if there are any.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.simulation.disk import SqliteHook
from benchmarks.simulation.world import World

MEMORY = Path("/dev/shm")


def simulate(first: int, seeds: int) -> tuple[dict[int, list[str]], Counter[str]]:
    """The problems by seed, and counts of what was simulated."""
    failed: dict[int, list[str]] = {}
    counts: Counter[str] = Counter()
    hook = SqliteHook()
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
    finally:
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
    failed, counts = simulate(first, seeds)
    took_s = time.process_time() - began
    for seed, problems in failed.items():
        print(f"seed {seed}: {'; '.join(problems)}\n  {replay_command(seed)}")
    print(
        f"{seeds} seeds, {counts['processes']} processes, {counts['requests']} requests, {len(failed)} failed,"
        f" {counts['damaged']} of {counts['lie']} disks that lied reported as damaged,"
        f" {took_s:.1f} s of CPU, {1000 * took_s / seeds:.0f} ms per seed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
