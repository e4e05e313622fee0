"""How the cost of a function grows with the length of its input.

The processor time of an input is compared with that of an input of an eighth of its length. Linear work takes eight
times as long, quadratic work sixty-four times: the limit is a factor of three away from both. Other processes make a
single measurement too long, never too short, so the least of several counts, and both lengths are measured in turns.
"""

import time
from collections.abc import Callable
from typing import TypeVar

Input = TypeVar("Input")

LENGTH = 12_000
SHORTER = 8
TOO_STEEP = 24.0
ROUNDS = 3
# Linear work needs less for an input of LENGTH, quadratic work far more.
MEASURABLE_S = 0.01


def growth(run: Callable[[Input], object], make: Callable[[int], Input], length: int = LENGTH) -> float:
    """How many times longer an input of `length` takes than a shorter one; 1 if it is too quick to be measured."""
    long, short = make(length), make(length // SHORTER)
    long_s = _seconds(run, long)
    if long_s < MEASURABLE_S:
        return 1.0
    short_s = _seconds(run, short)
    for _ in range(ROUNDS):
        short_s = min(short_s, _seconds(run, short), _seconds(run, short))
        long_s = min(long_s, _seconds(run, long))
    return long_s / max(1e-9, short_s)


def _seconds(run: Callable[[Input], object], given: Input) -> float:
    started = time.process_time()
    run(given)
    return time.process_time() - started
