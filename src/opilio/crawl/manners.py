"""Manners: may we ask this host for this URL, and when? robots.txt first, then the delay, then the address.

Everything here survives concurrency because a host is asked only by the holder of its lease, and survives a
restart because rules are kept in the collection and a resumed crawl waits one delay before it asks any address.
"""

import asyncio
import socket
from collections.abc import Callable

import msgspec

from opilio.crawl.config import PolitenessSettings
from opilio.fetch.following import follow
from opilio.fetch.robots import Rules, rules_from
from opilio.frontier.politeness import AddressSlots
from opilio.model.clock import Clock
from opilio.model.protocols import Fetcher
from opilio.model.urls import host_of, origin_of

MAX_RULES = 20_000  # robots rules kept in memory; older ones are read from the collection again
ALL_ALLOWED = Rules(expires_at=float("inf"))


class Permit(msgspec.Struct, frozen=True):
    """Go ahead after `start_at` keeping `delay_s`; or not: `refused` says why, `until` when to ask again."""

    start_at: float
    delay_s: float
    refused: str = ""
    until: float = 0.0


class Manners:
    """The one place that knows what hosts want of us."""

    def __init__(
        self,
        settings: PolitenessSettings,
        fetcher: Fetcher,
        clock: Clock,
        slots: AddressSlots | None,
        stored: Callable[[str], bytes | None],
    ) -> None:
        self._settings = settings
        self._fetcher = fetcher
        self._clock = clock
        self._slots = slots
        self._stored = stored
        self._rules: dict[str, Rules] = {}
        self._addresses: dict[str, str] = {}
        self.fresh: dict[str, Rules] = {}  # read since the last commit: the ledger writes them down

    async def permit(self, url: str, ready_at: float) -> Permit:
        """Reads robots.txt when it must, then says whether and when this URL may be asked for."""
        origin = origin_of(url)
        rules = self._known(origin)
        if rules is None:
            ready_at = await self._wait_for_slot(url, ready_at, self._settings.delay_s)
            rules = await self._read_robots(origin)
            ready_at = self._clock.now() + self._delay(rules)
        delay_s = self._delay(rules)
        if rules.unreachable:
            return Permit(ready_at, delay_s, "robots.txt can't be read", rules.expires_at)
        if not rules.allows(url):
            return Permit(ready_at, delay_s, "robots.txt disallows it")
        return Permit(await self._wait_for_slot(url, ready_at, delay_s), delay_s)

    def _delay(self, rules: Rules) -> float:
        wanted = min(rules.delay_s or 0.0, self._settings.max_crawl_delay_s)
        return max(self._settings.delay_s, wanted)

    def _known(self, origin: str) -> Rules | None:
        if not self._settings.robots:
            return ALL_ALLOWED
        rules = self._rules.get(origin)
        if rules is None and (blob := self._stored(origin)) is not None:
            rules = self._rules[origin] = msgspec.msgpack.decode(blob, type=Rules)
        return rules if rules is not None and rules.expires_at > self._clock.now() else None

    async def _read_robots(self, origin: str) -> Rules:
        answer = await follow(self._fetcher, f"{origin}/robots.txt", hops=5)
        rules = rules_from(answer, self._settings.agent, self._clock.now(), self._rules.get(origin))
        if len(self._rules) >= MAX_RULES:
            self._rules.pop(next(iter(self._rules)))
        self._rules[origin] = self.fresh[origin] = rules
        return rules

    async def _wait_for_slot(self, url: str, ready_at: float, delay_s: float) -> float:
        """Sleep until both the host and, where hosts share one, the address may be asked; returns that time."""
        if self._slots is not None and delay_s > 0:
            address = await self._address(host_of(url))
            if address:
                ready_at = self._slots.reserve(address, max(ready_at, self._clock.now()), delay_s)
        await self._clock.sleep(ready_at - self._clock.now())
        return max(ready_at, self._clock.now())

    async def _address(self, host: str) -> str:
        """The first address of a host, or nothing when it has none: the fetcher will say so itself."""
        if host not in self._addresses:
            name, _, port = host.partition(":")
            loop = asyncio.get_running_loop()
            try:
                found = await loop.getaddrinfo(name, port or 80, type=socket.SOCK_STREAM)
            except OSError:
                found = []
            if len(self._addresses) >= MAX_RULES:
                self._addresses.pop(next(iter(self._addresses)))
            self._addresses[host] = str(found[0][4][0]) if found else ""
        return self._addresses[host]
