"""Whose turn it is: one request at a time per host, a pause after each, and one pause for all hosts of an address.

A lease keeps two visits of a host apart already. This holds too for requests that no lease stands behind (a robots.txt
that redirects to another host), and it counts from when requests really leave: a start that was promised may be late.
"""

import asyncio
import socket
from collections.abc import Mapping
from typing import TypeVar

from opilio.frontier.politeness import AddressSlots
from opilio.model.clock import Clock

REMEMBERED = 50_000  # hosts and addresses; more than can be asked within a pause
POLL_S = 0.02
V = TypeVar("V")


class Turns:
    """Invariant: between the end of a request to a host and the start of the next lies the pause of the former.

    `floor`: no request before it; after a restart somebody may have been asked just before the end.
    """

    def __init__(self, clock: Clock, addresses: "Addresses | None" = None, floor: float = 0.0) -> None:
        self._clock = clock
        self._addresses = addresses
        self._slots = AddressSlots(floor)
        self._floor = floor
        self._asking: set[str] = set()
        self._free_at: dict[str, float] = {}
        self._left: dict[str, tuple[float, float]] = {}  # by address: when a request last left, and its pause
        self._booked: dict[str, float] = {}  # by host: a start at its address that was given but not yet used
        self.pauses: Mapping[str, float] = {}  # by host: what a person asked for

    async def take(self, host: str, ready_at: float, delay_s: float, patience_s: float) -> float:
        """Wait for the host's turn and take it (0.0); or say when to come again, if that is too long to wait."""
        address = await self._addresses.of(host) if self._addresses is not None and delay_s > 0 else ""
        start = max(ready_at, self._floor, self._booked.pop(host, 0.0) or self._reserved(address, ready_at, delay_s))
        if start - self._clock.now() > patience_s:
            if address:
                _remember(self._booked, host, start)
            return start
        await self._clock.sleep(start - self._clock.now())
        while (wait_s := self._wait_s(host, address, delay_s)) > 0:
            await self._clock.sleep(wait_s)
        self._asking.add(host)
        if address:
            _remember(self._left, address, (self._clock.now(), delay_s))
        return 0.0

    def give(self, host: str, delay_s: float) -> None:
        """The request has ended."""
        self._asking.discard(host)
        if delay_s > 0:
            _remember(self._free_at, host, self._clock.now() + delay_s)

    def _reserved(self, address: str, ready_at: float, delay_s: float) -> float:
        return self._slots.reserve(address, max(ready_at, self._clock.now()), delay_s) if address else 0.0

    def _wait_s(self, host: str, address: str, delay_s: float) -> float:
        if host in self._asking:
            return POLL_S
        free_at = self._free_at.get(host, 0.0)
        left = self._left.get(address)
        if left is not None:
            free_at = max(free_at, left[0] + max(left[1], delay_s))
        return free_at - self._clock.now()


class Addresses:
    """The addresses of hosts, looked up once. `given` names some of them (`fetch.resolve`), as the fetcher takes it."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._given = given or {}
        self._known: dict[str, str] = {}

    async def of(self, host: str) -> str:
        """The first address of a host, or nothing when it has none: the fetcher will say so itself."""
        if host not in self._known:
            _remember(self._known, host, await self._look_up(host))
        return self._known[host]

    async def _look_up(self, host: str) -> str:
        name, port = _split(host)
        given = self._given.get(host) or self._given.get(name) or self._given.get("*")
        if given:
            return _split(given)[0]
        try:
            found = await asyncio.get_running_loop().getaddrinfo(name, port or 80, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):  # UnicodeError: a label too long for IDNA
            return ""
        return str(found[0][4][0]) if found else ""


def _split(host: str) -> tuple[str, str]:
    """Name and port.

    >>> _split("a.example:8080"), _split("[::1]:80"), _split("[::1]")
    (('a.example', '8080'), ('::1', '80'), ('::1', ''))
    """
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        return name, port.removeprefix(":")
    name, _, port = host.partition(":")
    return name, port


def _remember(kept: dict[str, V], key: str, value: V) -> None:
    """Keep a bounded memory: whoever was used longest ago goes first."""
    kept.pop(key, None)
    if len(kept) >= REMEMBERED:
        del kept[next(iter(kept))]
    kept[key] = value
