"""The cookies that hosts set, in memory.

Each host has the jar of its domain, shared with some other domains. A jar is emptied when it is full, so a host that
sets very many cookies displaces those of few others. libcurl compares each new cookie with all that it has: with 36,000
of them, a response that sets 50 took 50 ms of the event loop (measured).
"""

import zlib
from collections.abc import Sequence
from functools import lru_cache

import pycurl

from opilio.core.urls import host_of

JARS = 64
# Of one jar.
MAX_COOKIES, MAX_BYTES = 1_000, 128 << 10
_OVERHEAD_BYTES = 200  # of a cookie


class CookieJars:
    """The jars of one fetcher. A handle has one at a time."""

    def __init__(self) -> None:
        self._jars: dict[int, pycurl.CurlShare] = {}
        self._counts: dict[int, int] = {}
        self._bytes: dict[int, int] = {}

    def use(self, handle: pycurl.Curl, url: str) -> None:
        """Give a handle, which may have another jar, that of the host."""
        number = _jar_of(host_of(url))
        if number not in self._jars:
            self._jars[number] = pycurl.CurlShare()
            self._jars[number].setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_COOKIE)
        handle.unsetopt(pycurl.SHARE)
        handle.setopt(pycurl.SHARE, self._jars[number])

    def add(self, handle: pycurl.Curl, url: str, headers: Sequence[tuple[str, str]]) -> None:
        """Count the cookies that a response set, and empty the jar if it is full."""
        number = _jar_of(host_of(url))
        values = [value for name, value in headers if name.lower() == "set-cookie"]
        self._counts[number] = self._counts.get(number, 0) + len(values)
        self._bytes[number] = self._bytes.get(number, 0) + sum(len(value) + _OVERHEAD_BYTES for value in values)
        if self._counts[number] > MAX_COOKIES or self._bytes[number] > MAX_BYTES:
            self._counts[number] = self._bytes[number] = 0
            handle.setopt(pycurl.COOKIELIST, "ALL")


@lru_cache(maxsize=4096)
def _jar_of(host: str) -> int:
    """The number of a jar, by the last two labels of the host: no cookie is for more hosts than these."""
    labels = host.partition(":")[0].split(".")
    return zlib.crc32(".".join(labels[-2:]).encode()) % JARS
