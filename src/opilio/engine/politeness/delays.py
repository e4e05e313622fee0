"""How long to wait before the next request to a host or an address. Pure: time and random numbers are passed in.

The frontier keeps the computed delay (a host's `wake_at`).
"""

import random
from math import inf

# Of delays that the server did not ask for.
MAX_BACKOFF_S = 3600.0
# Retry-After is obeyed up to this: RFC 9110 sets no limit, and a server that asks for two hours must not get a request
# after one.
MAX_RETRY_AFTER_S = 86_400.0
MIN_RETRY_AFTER_S = 1.0  # a shorter Retry-After counts as this
# Overloaded responses in a row after which a short Retry-After is no longer trusted, and the delay grows.
MAX_TRUSTED_RETRY_AFTERS = 3
OVERLOAD_STATUSES = frozenset({429, 503})


def effective_delay_s(configured_s: float, crawl_delay_s: float = 0.0, *, cap_s: float = 30.0) -> float:
    """The pause between two requests to a host: the configured delay, or the host's Crawl-delay if that is longer.

    Crawl-delay counts up to `cap_s`.

    >>> effective_delay_s(1.0, 5.0), effective_delay_s(1.0, 900.0)
    (5.0, 30.0)
    """
    return max(configured_s, min(crawl_delay_s, cap_s))


def backoff_delay_s(failures: int, rng: random.Random, *, first_s: float = 5.0, cap_s: float = MAX_BACKOFF_S) -> float:
    """The delay after this number of failures in a row: doubling, with a random upper half.

    Jitter keeps hosts that failed together (one server, one network) from coming back together.
    """
    whole = min(cap_s, first_s * 2.0 ** min(max(failures - 1, 0), 60))
    return whole * rng.uniform(0.5, 1.0)


def delay_after_response_s(
    status: int, delay_s: float, failures: int, retry_after_s: float, rng: random.Random
) -> float:
    """The delay after a response: the configured one, or longer if the server reports overload (429, 503).

    `failures` counts such responses in a row, including this one. Retry-After (RFC 9110 10.2.3) is obeyed from one
    second to one day; without it, or if it did not help, the delay doubles.
    """
    asked = min(max(retry_after_s, 0.0), MAX_RETRY_AFTER_S)
    if status not in OVERLOAD_STATUSES:
        return max(delay_s, asked)
    if asked and failures <= MAX_TRUSTED_RETRY_AFTERS:
        return max(delay_s, asked, MIN_RETRY_AFTER_S)
    return max(delay_s, asked, backoff_delay_s(failures, rng))


def retry_delay_s(
    retries: int, retry_after_s: float, rng: random.Random, *, most: int = 3, first_s: float = 30.0
) -> float | None:
    """Seconds until a URL that failed is retried after this number of retries; None: give up.

    As soon as the server allows it, if it sent Retry-After.

    >>> retry_delay_s(3, 0.0, random.Random(1)) is None
    True
    """
    if retries >= most:
        return None
    if retry_after_s > 0.0:
        return min(max(retry_after_s, MIN_RETRY_AFTER_S), MAX_RETRY_AFTER_S)
    return backoff_delay_s(retries + 1, rng, first_s=first_s)


class AddressThrottle:
    """Hosts that share an IP address share the delay.

    Invariant: two starts given for one address are at least as far apart as the longer of their two delays.
    `floor`: no start before it (a request may have been sent just before a restart). Addresses not used for
    `keep_s` are forgotten once there are more than `limit`.
    """

    def __init__(self, floor: float = 0.0, *, limit: int = 100_000, keep_s: float = MAX_BACKOFF_S) -> None:
        self._not_before = floor
        self._limit = limit
        self._keep_s = keep_s
        # Start and delay of the last request.
        self._last_request: dict[str, tuple[float, float]] = {}

    def max_late_s(self, address: str) -> float:  # noqa: ARG002 the protocol's signature
        """One process: an unused start is not given to another."""
        return inf

    def report_late(self, address: str) -> None:
        """Never called, because no start lapses."""

    def reserve(self, address: str, now: float, delay_s: float) -> float:
        """Reserve a start: the time at which a request to that address may be sent."""
        last = self._last_request.pop(address, None)
        start = max(now, self._not_before)
        if last is not None:
            start = max(start, last[0] + max(last[1], delay_s))
        self._last_request[address] = (start, delay_s)
        if len(self._last_request) > self._limit:
            self._evict_expired(now)
        return start

    def _evict_expired(self, now: float) -> None:
        """Drop expired entries from the front: the last used one is at the end, so this costs O(1) per call."""
        while self._last_request:
            address, (start, _) = next(iter(self._last_request.items()))
            if start + self._keep_s > now:
                return
            del self._last_request[address]
