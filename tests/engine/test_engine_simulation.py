"""Crawls with simulated faults: 1,000 seeds, and the same seed always gives the same crawl."""

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.simulation.run import replay_command, simulate

SEEDS_PER_TEST = 100
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, SEEDS_PER_TEST))
def test_no_fault_loses_a_page_or_breaks_a_rule(first: int) -> None:
    failed, counts = simulate(first, SEEDS_PER_TEST)
    assert failed == {}, "\n".join(map(replay_command, failed))
    assert counts["kill"] + counts["power"] + counts["full"] > SEEDS_PER_TEST / 2


def test_seed_gives_the_same_crawl_in_another_process() -> None:
    """Also with other hash values of strings: the order of a set decides nothing."""
    script = "from benchmarks.simulation.run import simulate; print(simulate(20, 4)[1])"
    found = {
        subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
