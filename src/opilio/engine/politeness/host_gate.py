"""Politeness: whether a URL may be fetched, and when. Checks robots.txt first, then the delay, then the address.

The rules of a host are stored in the collection before the first of its pages is requested, so they survive a restart.
The throttle allows one request at a time per host, a delay after each, and one delay for all hosts of an address.
Leases keep visits of a host apart; the throttle also covers requests without a lease (a robots.txt that redirects to
another host), and counts from the time at which requests are really sent, which may be later than reserved.
"""

import asyncio
from collections.abc import Callable, Mapping
from math import inf
from typing import Protocol, TypeVar

import msgspec

from opilio.core.caches import evict_oldest
from opilio.core.clock import Clock
from opilio.core.protocols import Fetcher, LooksUpNames
from opilio.core.records import NOT_SENT_FAILURE, SIGNAL_FAILURE, FetchResult
from opilio.core.settings import PolitenessSettings
from opilio.core.urls import host_of, origin_of
from opilio.engine.politeness.delays import AddressThrottle, effective_delay_s
from opilio.engine.politeness.host_signals import TDMREP_PATH, parse_tdmrep
from opilio.engine.politeness.robots import LARGE_TEXT, PRIVATE_ADDRESS, RobotsRules, decode_rules, rules_from_response
from opilio.fetch.addresses import refused_proxy_host
from opilio.fetch.http import follow_redirects
from opilio.fetch.resolver import NameResolver
from opilio.parse.head import PageHead
from opilio.parse.signals import read_signals

# Hosts and addresses; more than can be requested within one delay.
MAX_THROTTLED_HOSTS = 50_000
POLL_S = 0.02
# Of a robots.txt whose start lapsed; each next one has twice the time.
MAX_SEND_ATTEMPTS = 8
V = TypeVar("V")


class ReservesStarts(Protocol):
    """Keeps requests to one address apart: those of this process, or of all workers.

    A start lapses `max_late_s` after its time: another process may have been given the next one. `report_late`: a
    request was not sent in time, so the next one gets more.
    """

    def max_late_s(self, address: str) -> float: ...

    def report_late(self, address: str) -> None: ...

    def reserve(self, address: str, now: float, delay_s: float) -> float: ...


class HostThrottle:
    """Invariant: the delay of a request passes between its end and the next request to the host.

    `floor`: no request before it, because a request may have been sent just before a restart.
    """

    def __init__(
        self,
        clock: Clock,
        addresses: "AddressResolver | None" = None,
        floor: float = 0.0,
        address_throttle: ReservesStarts | None = None,
    ) -> None:
        self._clock = clock
        self._addresses = addresses
        self._address_throttle = address_throttle or AddressThrottle(floor)
        self._not_before = floor
        self._busy_hosts: set[str] = set()
        self._free_at: dict[str, float] = {}
        # By address: time and delay of the last one.
        self._last_request: dict[str, tuple[float, float]] = {}
        # By host: a start that was not used yet.
        self._reserved_start: dict[str, tuple[float, float]] = {}
        # By host: when its start lapses, and its address.
        self._send_by: dict[str, tuple[float, str]] = {}
        # Set by the user, by host.
        self.host_delays_s: Mapping[str, float] = {}
        # At most this much of a Crawl-delay counts for the other hosts of the address: thousands of sites share one,
        # and a single robots.txt must not slow the crawl of all.
        self.shared_delay_s = inf

    async def acquire(self, host: str, ready_at: float, delay_s: float, patience_s: float) -> float:
        """Wait for the host and take it (returns 0.0); or return when to try again, if the wait is too long."""
        address = await self._addresses.resolve(host) if self._addresses is not None and delay_s > 0 else ""
        shared_s = min(delay_s, max(self.shared_delay_s, self.host_delays_s.get(host, 0.0)))
        while True:
            reserved, max_late_s = self._address_start(host, address, ready_at, shared_s)
            start = max(ready_at, self._not_before, reserved)
            if start - self._clock.now() > patience_s:
                if address:
                    _put_bounded(self._reserved_start, host, (start, max_late_s))
                return start
            if start > self._clock.now():
                await self._clock.sleep(start - self._clock.now())
            while (wait_s := self._wait_s(host, address, shared_s)) > 0:
                await self._clock.sleep(wait_s)
            # Most of the time is left for connecting.
            if self._clock.now() <= start + max_late_s / 4:
                break
        self._busy_hosts.add(host)
        if address:
            _put_bounded(self._last_request, address, (self._clock.now(), shared_s))
        if max_late_s < inf:
            _put_bounded(self._send_by, host, (start + max_late_s, address))
        return 0.0

    def may_send(self, url: str) -> bool:
        """Whether the request that was acquired may still be sent, now that its connection is ready."""
        lapses_at, address = self._send_by.get(host_of(url), (inf, ""))
        if self._clock.now() <= lapses_at:
            return True
        self._address_throttle.report_late(address)
        return False

    def release(self, host: str, delay_s: float) -> None:
        """The request has ended."""
        self._busy_hosts.discard(host)
        if delay_s > 0:
            _put_bounded(self._free_at, host, self._clock.now() + delay_s)

    def _address_start(self, host: str, address: str, ready_at: float, delay_s: float) -> tuple[float, float]:
        """A start at the address and its `max_late_s`: the one reserved before, unless it has lapsed, or a new one."""
        (given, max_late_s), earliest = self._reserved_start.pop(host, (0.0, inf)), max(ready_at, self._clock.now())
        if given and given + max_late_s / 4 >= earliest:
            return given, max_late_s
        if not address:
            return 0.0, inf
        max_late_s = self._address_throttle.max_late_s(address)
        return self._address_throttle.reserve(address, earliest, delay_s), max_late_s

    def _wait_s(self, host: str, address: str, delay_s: float) -> float:
        if host in self._busy_hosts:
            return POLL_S
        free_at = self._free_at.get(host, 0.0)
        left = self._last_request.get(address)
        if left is not None:
            free_at = max(free_at, left[0] + max(left[1], delay_s))
        return free_at - self._clock.now()


class AddressResolver:
    """The addresses of hosts, looked up once. `overrides` are those of `fetch.resolve`."""

    def __init__(self, overrides: Mapping[str, str] | None = None, names: LooksUpNames | None = None) -> None:
        self._overrides = overrides or {}
        self._names = names or NameResolver()
        self._cache: dict[str, str] = {}

    async def resolve(self, host: str) -> str:
        """The first address of a host; empty if it has none, which the fetcher will report."""
        if host not in self._cache:
            found = await self._lookup(host)
            if not found:
                return ""
            _put_bounded(self._cache, host, found)
        return self._cache[host]

    async def _lookup(self, host: str) -> str:
        name, _ = _split_port(host)
        given = self._overrides.get(host) or self._overrides.get(name) or self._overrides.get("*")
        if given:
            return _split_port(given)[0]
        found = await self._names.addresses(name)
        return found[0] if found else ""


def _split_port(host: str) -> tuple[str, str]:
    """Name and port.

    >>> _split_port("a.example:8080"), _split_port("[::1]:80"), _split_port("[::1]")
    (('a.example', '8080'), ('::1', '80'), ('::1', ''))
    """
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        return name, port.removeprefix(":")
    name, _, port = host.partition(":")
    return name, port


def _put_bounded(kept: dict[str, V], key: str, value: V) -> None:
    """Bound the memory: the least recently used entry is dropped first."""
    kept.pop(key, None)
    kept[key] = value
    evict_oldest(kept, MAX_THROTTLED_HOSTS)


# Rules in memory; others are read from the collection again.
MAX_CACHED_ROBOTS_BYTES = 16 << 20
# A visit that would wait longer releases its connection and is tried again.
MAX_THROTTLE_WAIT_S = 0.5
PRIVATE_ADDRESS_REASON = f"{PRIVATE_ADDRESS}: needs --allow-private (cloud metadata is always refused)"
# As earlier versions stored it.
EARLIER_PRIVATE_ADDRESS_REASON = f"{PRIVATE_ADDRESS}: only --allow-private lets it be asked"
METADATA_ADDRESS_REASON = f"{PRIVATE_ADDRESS}: cloud metadata is never requested"
ALL_ALLOWED = RobotsRules(expires_at=inf)

LoadRobots = Callable[[str], bytes | None]  # the stored rules of an origin
# Store the rules of an origin and the delay of its host, read at this time.
StoreRobots = Callable[[str, RobotsRules, float, float], None]


class Permit(msgspec.Struct, frozen=True, kw_only=True):
    """Fetch now and wait `delay_s` afterwards; or try again at `retry_at`; or do not fetch, because of `refusal`.

    `host_signals`: what the owner allows on all pages of the host, as headers. `ready_at`: when the host may be
    requested next; after its robots.txt was read, its delay counts first.
    """

    delay_s: float
    retry_at: float = 0.0
    refusal: str = ""
    host_signals: tuple[tuple[str, str], ...] = ()
    ready_at: float = 0.0


class HostGate:
    """Gives permits for requests. The holder of a permit calls `release` when the request has ended."""

    def __init__(
        self,
        settings: PolitenessSettings,
        fetcher: Fetcher,
        clock: Clock,
        throttle: HostThrottle,
        load_robots: LoadRobots,
        store_robots: StoreRobots,
    ) -> None:
        self._settings = settings
        self._fetcher = fetcher
        self._clock = clock
        self._throttle = throttle
        self._load_robots = load_robots
        self._store_robots = store_robots
        self._rules: dict[str, RobotsRules] = {}
        self._cached_bytes = 0

    async def acquire(self, url: str, ready_at: float) -> Permit:
        """Read robots.txt if needed, check whether this URL may be fetched, and wait for its turn."""
        origin = origin_of(url)
        rules = self._cached_rules(origin)
        if rules is None:
            until = await self._throttle.acquire(
                host_of(url), ready_at, self._host_delay_s(origin), MAX_THROTTLE_WAIT_S
            )
            if until:
                return Permit(delay_s=self._host_delay_s(origin), retry_at=until)
            rules = await self._fetch_robots(origin)
            ready_at = self._clock.now() + self._host_delay_s(origin)
        delay_s = self._host_delay_s(origin)
        if rules.unreachable:
            return _refuse_unreachable(rules, delay_s, url)
        allowed, signals = await asyncio.to_thread(rules.check, url) if rules.is_slow else rules.check(url)
        if not allowed:
            return Permit(delay_s=delay_s, refusal="robots.txt disallows it", ready_at=ready_at)
        if signals and self._settings.heed:
            stated = read_signals(FetchResult(url=url, host_signals=signals), PageHead())
            if denied := stated.denied().intersection(self._settings.heed):
                refusal = f"{SIGNAL_FAILURE} the host denies {', '.join(sorted(denied))}"
                return Permit(delay_s=delay_s, refusal=refusal, ready_at=ready_at)
        retry_at = await self._throttle.acquire(host_of(url), ready_at, delay_s, MAX_THROTTLE_WAIT_S)
        return Permit(delay_s=delay_s, retry_at=retry_at, host_signals=signals)

    def may_send(self, url: str) -> bool:
        """Whether a permitted request may still be sent, now that its connection is ready."""
        return self._throttle.may_send(url)

    def release(self, url: str, delay_s: float) -> None:
        """The request that was permitted has ended."""
        self._throttle.release(host_of(url), delay_s)

    def _host_delay_s(self, origin: str) -> float:
        """The delay of the host: the longest of its rules over http and https."""
        wanted = max((self._rules[o].delay_s for o in _both_schemes(origin) if o in self._rules), default=0.0)
        given = effective_delay_s(self._settings.delay_s, wanted, cap_s=self._settings.max_crawl_delay_s)
        return max(given, self._throttle.host_delays_s.get(host_of(origin), 0.0))

    def _cached_rules(self, origin: str) -> RobotsRules | None:
        if not self._settings.robots:
            return ALL_ALLOWED
        if origin not in self._rules:
            # The delay is that of both.
            for one in _both_schemes(origin):
                self._load_stored_rules(one)
        rules = self._rules.get(origin)
        return rules if rules is not None and rules.expires_at > self._clock.now() else None

    def _load_stored_rules(self, origin: str) -> None:
        """Load the rules that an earlier run stored, unless it crawled under another agent name."""
        rules = decode_rules(self._load_robots(origin))
        if rules is not None and rules.agent == self._settings.agent:
            self._cache_rules(origin, rules)

    async def _fetch_robots(self, origin: str) -> RobotsRules:
        """Fetch the file (the caller holds the host's turn) and store its rules before any page is fetched."""
        polite = _ThrottledFetcher(self._fetcher, self._throttle, self._host_delay_s(origin), host_of(origin))
        answer = await follow_redirects(polite, f"{origin}/robots.txt", hops=5)
        previous = self._rules.get(origin)
        rules = await _parse(rules_from_response, answer, self._settings.agent, self._clock.now(), previous)
        if self._settings.heed and not rules.unreachable:
            # Few hosts have this file: it is requested only if it can decide.
            tdmrep = await follow_redirects(polite, f"{origin}{TDMREP_PATH}", hops=5)
            rules = msgspec.structs.replace(rules, tdm_rules=await _parse(parse_tdmrep, tdmrep))
        self._cache_rules(origin, rules)
        delay_s = self._host_delay_s(origin)
        # The delay of the file counts from now on, also if the first URL is disallowed.
        self._throttle.release(host_of(origin), delay_s)
        self._store_robots(origin, rules, delay_s, self._clock.now())
        return rules

    def _cache_rules(self, origin: str, rules: RobotsRules) -> None:
        replaced = self._rules.pop(origin, None)
        self._rules[origin] = rules
        self._cached_bytes += rules.cost_bytes - (replaced.cost_bytes if replaced else 0)
        while self._cached_bytes > MAX_CACHED_ROBOTS_BYTES and len(self._rules) > 1:
            self._cached_bytes -= self._rules.pop(next(iter(self._rules))).cost_bytes


async def _parse(read: Callable[..., V], answer: FetchResult, *arguments: object) -> V:
    """What a file says; a large one is read in a thread, because the event loop must not wait for it."""
    if len(answer.body) > LARGE_TEXT:
        return await asyncio.to_thread(read, answer, *arguments)
    return read(answer, *arguments)


def _both_schemes(origin: str) -> tuple[str, str]:
    """An origin, and that of the same host under the other scheme."""
    scheme, _, host = origin.partition("://")
    return origin, f"{'http' if scheme == 'https' else 'https'}://{host}"


def _refuse_unreachable(rules: RobotsRules, delay_s: float, url: str) -> Permit:
    """Without rules no page is fetched: try again later, but never in a private network."""
    if rules.why == PRIVATE_ADDRESS:
        metadata = refused_proxy_host(url, allow_private=True)
        return Permit(delay_s=delay_s, refusal=METADATA_ADDRESS_REASON if metadata else PRIVATE_ADDRESS_REASON)
    reason = f" ({rules.why})" if rules.why else ""
    return Permit(delay_s=delay_s, retry_at=rules.expires_at, refusal=f"robots.txt can't be read{reason}")


class _ThrottledFetcher:
    """Fetches robots.txt through redirects and throttles each hop by its host; the first one is held already."""

    def __init__(self, fetcher: Fetcher, throttle: HostThrottle, delay_s: float, held_host: str) -> None:
        self._fetcher = fetcher
        self._throttle = throttle
        self._delay_s = delay_s
        self._held_host = held_host

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> FetchResult:
        host = host_of(url)
        for _ in range(MAX_SEND_ATTEMPTS):
            if host != self._held_host:
                await self._throttle.acquire(host, 0.0, self._delay_s, inf)
            self._held_host = ""
            try:
                fetched = await self._fetcher.fetch(url, validators)
            finally:
                self._throttle.release(host, self._delay_s)
            if fetched.failure is None or fetched.failure.kind != NOT_SENT_FAILURE:
                break
        return fetched

    async def close(self) -> None:
        """The fetcher is closed by its owner."""
