"""Waiting: never early, never for ever."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.engine.politeness.delays import (
    AddressThrottle,
    backoff_delay_s,
    delay_after_response_s,
    effective_delay_s,
    retry_delay_s,
)
from opilio.fetch.http import FetchLimits

seconds = st.floats(0, 1e5)


def test_delay_is_the_longer_of_ours_and_the_hosts_up_to_a_cap() -> None:
    assert effective_delay_s(1.0) == 1.0
    assert effective_delay_s(2.0, 1.0) == 2.0
    assert effective_delay_s(1.0, 10.0) == 10.0
    assert effective_delay_s(1.0, 86_400.0, cap_s=60.0) == 60.0
    assert effective_delay_s(90.0, 0.0, cap_s=60.0) == 90.0


@pytest.mark.parametrize("failures", range(1, 12))
def test_back_off_doubles_up_to_an_hour(failures: int) -> None:
    whole = min(3600.0, 5.0 * 2 ** (failures - 1))
    assert whole / 2 <= backoff_delay_s(failures, random.Random(failures)) <= whole


def test_back_off_survives_absurd_counts() -> None:
    assert backoff_delay_s(10_000, random.Random(1)) <= 3600.0
    assert 2.5 <= backoff_delay_s(0, random.Random(1)) <= 5.0


def test_overloaded_server_is_left_alone_as_long_as_it_asks() -> None:
    rng = random.Random(3)
    assert delay_after_response_s(200, 1.0, 0, 0.0, rng) == 1.0
    assert delay_after_response_s(429, 1.0, 1, 120.0, rng) == 120.0
    assert delay_after_response_s(503, 1.0, 1, 7200.0, rng) == 7200.0
    assert delay_after_response_s(503, 1.0, 9, 7200.0, rng) == 7200.0
    assert delay_after_response_s(503, 1.0, 1, 1e9, rng) == FetchLimits().retry_after_s == 86_400.0
    assert delay_after_response_s(503, 1.0, 3, 0.0, rng) >= 10.0


def test_overloaded_server_is_asked_again_as_soon_as_it_allows_unless_that_does_not_help() -> None:
    rng = random.Random(3)
    assert delay_after_response_s(503, 0.0, 1, 2.0, rng) == 2.0
    assert delay_after_response_s(503, 0.0, 1, 0.2, rng) == 1.0
    assert delay_after_response_s(503, 5.0, 1, 2.0, rng) == 5.0
    assert delay_after_response_s(503, 0.0, 4, 2.0, rng) >= 20.0


@given(st.integers(0, 10), seconds, st.integers())
def test_retries_come_to_an_end_and_heed_retry_after(retries: int, retry_after_s: float, seed: int) -> None:
    wait_s = retry_delay_s(retries, retry_after_s, random.Random(seed))
    if retries >= 3:
        assert wait_s is None
    else:
        assert wait_s is not None
        assert wait_s >= min(retry_after_s, 86_400.0)
        assert wait_s == min(max(retry_after_s, 1.0), 86_400.0) if retry_after_s else wait_s >= 15.0


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 9), st.floats(0, 20)), max_size=30))
def test_hosts_of_one_address_never_start_within_the_delay(asks: list[tuple[str, float, float]]) -> None:
    slots, now = AddressThrottle(floor=3.0, limit=1, keep_s=100.0), 0.0
    given_out: dict[str, tuple[float, float]] = {}
    for address, waited, delay_s in asks:
        now += waited
        start = slots.reserve(address, now, delay_s)
        assert start >= max(now, 3.0)
        if address in given_out:
            last, last_delay_s = given_out[address]
            assert start >= last + max(delay_s, last_delay_s) - 1e-9
        given_out[address] = (start, delay_s)


def test_addresses_long_unused_are_forgotten() -> None:
    slots = AddressThrottle(limit=10, keep_s=5.0)
    for i in range(1_000):
        slots.reserve(f"10.0.0.{i}", float(i), 1.0)
    assert len(slots._last_request) == 10
