"""Manners: may we ask this host for this URL, and when? robots.txt first, then the delay, then the address.

Everything here survives concurrency because a host is asked by one at a time, and survives a restart because the rules
of a host are in the collection before the first of its pages is asked for.
"""

from collections.abc import Callable, Mapping

import msgspec

from opilio.crawl.config import PolitenessSettings
from opilio.crawl.turns import Turns
from opilio.fetch.following import follow
from opilio.fetch.robots import PRIVATE, Rules, rules_from
from opilio.frontier.politeness import delay_in_force
from opilio.model.clock import Clock
from opilio.model.protocols import Fetcher
from opilio.model.records import Fetched
from opilio.model.urls import host_of, origin_of

MAX_RULES = 20_000  # robots rules kept in memory; older ones are read from the collection again
PATIENCE_S = 0.5  # who would wait longer gives its connection to others and comes again
NO_PRIVATE = f"{PRIVATE}: only --allow-private lets it be asked"
ALL_ALLOWED = Rules(expires_at=float("inf"))

Stored = Callable[[str], bytes | None]  # the kept rules of an origin
Keep = Callable[[str, Rules, float], None]  # keep the rules of an origin, and the delay its host gets by them


class Permit(msgspec.Struct, frozen=True, kw_only=True):
    """Go ahead now and keep `delay_s`; or not: `until` says when to ask again, `refused` why it may not be asked."""

    delay_s: float
    until: float = 0.0
    refused: str = ""


class Manners:
    """The one place that knows what hosts want of us. Whoever got a permit says `asked` when the request has ended."""

    def __init__(
        self, settings: PolitenessSettings, fetcher: Fetcher, clock: Clock, turns: Turns, stored: Stored, keep: Keep
    ) -> None:
        self._settings = settings
        self._fetcher = fetcher
        self._clock = clock
        self._turns = turns
        self._stored = stored
        self._keep = keep
        self._rules: dict[str, Rules] = {}

    async def permit(self, url: str, ready_at: float) -> Permit:
        """Reads robots.txt when it must, then says whether this URL may be asked for, and waits for its turn."""
        origin = origin_of(url)
        rules = self._known(origin)
        if rules is None:
            until = await self._turns.take(host_of(url), ready_at, self._delay(origin), PATIENCE_S)
            if until:
                return Permit(delay_s=self._delay(origin), until=until)
            rules = await self._read_robots(origin)
            ready_at = self._clock.now() + self._delay(origin)
        delay_s = self._delay(origin)
        if rules.unreachable:
            return _stay_away(rules, delay_s)
        if not rules.allows(url):
            return Permit(delay_s=delay_s, refused="robots.txt disallows it")
        return Permit(delay_s=delay_s, until=await self._turns.take(host_of(url), ready_at, delay_s, PATIENCE_S))

    def asked(self, url: str, delay_s: float) -> None:
        """The request that was permitted has ended."""
        self._turns.give(host_of(url), delay_s)

    def _delay(self, origin: str) -> float:
        """The pause of the host: the longest that is asked for over http or https."""
        wanted = max((self._rules[o].delay_s for o in _schemes(origin) if o in self._rules), default=0.0)
        given = delay_in_force(self._settings.delay_s, wanted, cap_s=self._settings.max_crawl_delay_s)
        return max(given, self._turns.pauses.get(host_of(origin), 0.0))

    def _known(self, origin: str) -> Rules | None:
        if not self._settings.robots:
            return ALL_ALLOWED
        if origin not in self._rules:
            for one in _schemes(origin):  # the pause is that of both
                self._recall(one)
        rules = self._rules.get(origin)
        return rules if rules is not None and rules.expires_at > self._clock.now() else None

    def _recall(self, origin: str) -> None:
        """Take up what an earlier run kept: the rules for its own name, which under another one say nothing."""
        if (blob := self._stored(origin)) is not None:
            rules = msgspec.msgpack.decode(blob, type=Rules)
            if rules.agent == self._settings.agent:
                self._remember(origin, rules)

    async def _read_robots(self, origin: str) -> Rules:
        """Ask for the file (the host's turn is ours) and have its rules kept before any page is asked for."""
        polite = _InTurn(self._fetcher, self._turns, self._delay(origin), host_of(origin))
        answer = await follow(polite, f"{origin}/robots.txt", hops=5)
        rules = rules_from(answer, self._settings.agent, self._clock.now(), self._rules.get(origin))
        self._remember(origin, rules)
        self._keep(origin, rules, self._delay(origin))
        return rules

    def _remember(self, origin: str, rules: Rules) -> None:
        if len(self._rules) >= MAX_RULES and origin not in self._rules:
            self._rules.pop(next(iter(self._rules)))
        self._rules[origin] = rules


def _schemes(origin: str) -> tuple[str, str]:
    """An origin, and that of the same host under the other scheme."""
    scheme, _, host = origin.partition("://")
    return origin, f"{'http' if scheme == 'https' else 'https'}://{host}"


def _stay_away(rules: Rules, delay_s: float) -> Permit:
    """No rules, no pages: later perhaps, but never where the host is in our own network."""
    if rules.why == PRIVATE:
        return Permit(delay_s=delay_s, refused=NO_PRIVATE)
    reason = f" ({rules.why})" if rules.why else ""
    return Permit(delay_s=delay_s, until=rules.expires_at, refused=f"robots.txt can't be read{reason}")


class _InTurn:
    """Fetches robots.txt wherever redirects lead, each hop in the turn of its host; the first turn is `held`."""

    def __init__(self, fetcher: Fetcher, turns: Turns, delay_s: float, held: str) -> None:
        self._fetcher = fetcher
        self._turns = turns
        self._delay_s = delay_s
        self._held = held

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> Fetched:
        host = host_of(url)
        if host != self._held:
            await self._turns.take(host, 0.0, self._delay_s, float("inf"))
        self._held = ""
        try:
            return await self._fetcher.fetch(url, validators)
        finally:
            self._turns.give(host, self._delay_s)

    async def close(self) -> None:
        """The fetcher belongs to somebody else."""
