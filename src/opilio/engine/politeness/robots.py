"""What robots.txt allows (RFC 9309): what each response means, the groups that apply, the size limit, the life time.

Pure: responses and the time are passed in.
"""

import re
from collections.abc import Iterator
from functools import cached_property

import msgspec
from msgspec.structs import replace

from opilio.core.records import FetchResult
from opilio.engine.politeness.host_signals import Headers, HostSignals, TdmRule
from opilio.engine.politeness.rule_matching import RuleMatcher, crawl_delay_s

# RFC 9309, 2.5: at least this much is parsed.
MAX_PARSED_BYTES = 500 << 10
# RFC 9309, 2.4: not cached for longer than 24 hours.
CACHE_TTL_S = 86_400.0
MAX_SITEMAPS = 1_000
MAX_LICENCE_LENGTH = 500
# Characters of rules that are compiled outside the event loop.
LARGE_TEXT = 8_000
# Of rules that are compared with a URL in the event loop: less than a millisecond.
MAX_QUICK_WILDCARDS = 200
# Measured: rules of 20 characters take 120 bytes.
_BYTES_PER_CHARACTER, _RECORD_BYTES = 8, 1_000
_STRING_BYTES = 64
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
FIRST_RETRY_S = 300.0
# RFC 9309, 2.3.1.4: old rules stand in for an unreachable file, but not for ever.
MAX_STALE_S = 30 * 86_400.0

_PRODUCT_TOKEN = re.compile(r"[A-Za-z_-]+").match  # RFC 9309, 2.2.1
# Common misspellings count: a site that writes "dissallow" means it.
_FIELD_SPELLINGS = {
    **dict.fromkeys(("user-agent", "useragent", "user agent"), "user-agent"),
    **dict.fromkeys(("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"), "disallow"),
    **dict.fromkeys(("crawl-delay", "crawl delay"), "crawl-delay"),
    **dict.fromkeys(("sitemap", "sitemaps", "site-map"), "sitemap"),
    "allow": "allow",
    "content-signal": "content-signal",
    "content-usage": "content-usage",
    "license": "license",
}
_LINE = re.compile(r"\s*([^:\s]+(?: [^:\s]+)?)\s*:\s*(.*)|\s*(\S+)\s+(.*)").match
_replace_encoded_slash = re.compile("%2f", re.IGNORECASE).sub
_TOO_MANY_REQUESTS = 429
PRIVATE_ADDRESS = "private-address"
_LOCAL_FAILURES = frozenset(("dns", "proxy", PRIVATE_ADDRESS))  # failures without contact to the host


class RobotsRules(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What one origin allows, until `expires_at`. The default allows everything.

    `text` holds only the groups that apply to `agent`: rules for other crawlers are dropped.
    """

    expires_at: float
    agent: str = "opilio"
    text: str = ""
    delay_s: float = 0.0
    sitemaps: tuple[str, ...] = ()
    # URL of the licence of the whole host (RSL).
    licence: str = ""
    tdm_rules: tuple[TdmRule, ...] = ()  # of /.well-known/tdmrep.json
    unreachable: bool = False  # nothing is allowed, for now
    asked: bool = True  # the host received a request
    # Attempts in a row that could not read the file.
    failures: int = 0
    # The failure or status of the last attempt.
    why: str = ""
    read_at: float = 0.0  # when the file was last read

    @cached_property
    def matcher(self) -> RuleMatcher:
        """The compiled rules, which takes a while for very many of them."""
        return RuleMatcher(self.text, self.agent)

    @property
    def is_slow(self) -> bool:
        """True if `check` may take longer than the event loop should wait."""
        return self._has_many_wildcards or (len(self.text) > LARGE_TEXT and "signals" not in self.__dict__)

    @cached_property
    def _has_many_wildcards(self) -> bool:
        return self.text.count("*") > MAX_QUICK_WILDCARDS

    @cached_property
    def cost_bytes(self) -> int:
        """About the memory that the rules take when they are compiled."""
        strings = [*self.sitemaps, *(part for rule in self.tdm_rules for part in (rule.location, rule.policy))]
        kept_as_is = sum(map(len, strings)) + _STRING_BYTES * len(strings)
        return _RECORD_BYTES + _BYTES_PER_CHARACTER * len(self.text) + kept_as_is

    def check(self, url: str) -> tuple[bool, Headers]:
        """Whether `agent` may request this URL, and what the owner allows on its page."""
        allowed = self.allows(url)
        return allowed, self.signals.headers(url)

    @cached_property
    def signals(self) -> HostSignals:
        """What the owner allows on all pages of the host."""
        return HostSignals(self.text, self.agent, self.licence, self.tdm_rules)

    def allows(self, url: str) -> bool:
        """True if `agent` may request this URL."""
        if self.unreachable:
            return False
        return not self.text or self.matcher.allows(url)


def rules_from_response(
    fetched: FetchResult, agent: str, now: float, previous: RobotsRules | None = None
) -> RobotsRules:
    """The rules that follow from the response for robots.txt, after redirects (at most five).

    2xx: the file. Other 3xx and 4xx, also a chain of redirects without end: no rules (2.3.1.2, 2.3.1.3). 5xx, 429 and
    no response: nothing is allowed (2.3.1.4) unless there are `previous` rules, and the file is requested again after
    a growing delay.
    """
    failure = fetched.failure
    if failure is not None and failure.kind == "redirect-loop":
        return RobotsRules(agent=agent, expires_at=now + CACHE_TTL_S, read_at=now)
    if failure is not None or fetched.status >= 500 or fetched.status in (0, _TOO_MANY_REQUESTS):
        return _unreachable_rules(fetched, agent, now, previous)
    if not 200 <= fetched.status < 300:
        return RobotsRules(agent=agent, expires_at=now + CACHE_TTL_S, read_at=now)
    return _parse_rules(fetched.body, agent, now)


def _unreachable_rules(fetched: FetchResult, agent: str, now: float, previous: RobotsRules | None) -> RobotsRules:
    failures = previous.failures + 1 if previous else 1
    wait_s = min(CACHE_TTL_S, max(fetched.retry_after_s, FIRST_RETRY_S * 2.0 ** min(failures - 1, 20)))
    if previous and not previous.unreachable and now - previous.read_at < MAX_STALE_S:
        return replace(previous, expires_at=now + wait_s, failures=failures)
    failure = fetched.failure
    why = f"status {fetched.status}" if failure is None else failure.detail if failure.kind == "proxy" else failure.kind
    asked = failure is None or failure.kind not in _LOCAL_FAILURES
    return RobotsRules(agent=agent, expires_at=now + wait_s, unreachable=True, asked=asked, failures=failures, why=why)


def _parse_rules(body: bytes, agent: str, now: float) -> RobotsRules:
    own, hostwide = _matching_groups(_beginning(body).decode("utf-8", "replace"), agent)
    return RobotsRules(
        agent=agent,
        text=own,
        # A group of its own without a delay: the delay for all agents is the careful guess.
        delay_s=crawl_delay_s(own, agent),
        sitemaps=tuple(hostwide["sitemap"][:MAX_SITEMAPS]),
        licence=next(iter(hostwide["license"]), "")[:MAX_LICENCE_LENGTH],
        expires_at=now + CACHE_TTL_S,
        read_at=now,
    )


def _beginning(body: bytes) -> bytes:
    """The part that counts: whole lines of the first 500 KiB, without byte-order marks.

    A line that is cut must not count: `Allow: /only/this` would become `Allow: /`. Editors write marks twice, and some
    files begin with a part of one.
    """
    if len(body) > MAX_PARSED_BYTES:
        body = body[: max(body.rfind(b"\n", 0, MAX_PARSED_BYTES), body.rfind(b"\r", 0, MAX_PARSED_BYTES)) + 1]
    while body.startswith(_BYTE_ORDER_MARK):
        body = body.removeprefix(_BYTE_ORDER_MARK)
    return body.lstrip(_BYTE_ORDER_MARK) if body[:1] in (b"\xef", b"\xbb", b"\xbf") else body


def _matching_groups(text: str, agent: str) -> tuple[str, dict[str, list[str]]]:
    """The groups for `agent` and for all agents, their agent lines reduced to exact product tokens; and the fields
    that apply to the whole host.

    RFC 9309 (2.2.1) matches whole tokens: a group for `op` does not apply to `opilio`.
    """
    kept: list[str] = []
    hostwide: dict[str, list[str]] = {"sitemap": [], "license": []}
    ours = naming_agents = False
    for field, value in _parse_lines(text):
        if field in hostwide:
            hostwide[field] += [value] if value else []
        elif field == "user-agent":
            token = _matching_token(value, agent)
            ours = bool(token) or (ours and naming_agents)
            # The question mark, which no token looks like, ends the group before.
            kept.append(f"user-agent: {token or '?'}")
            naming_agents = True
        else:
            naming_agents = False
            if ours:
                kept.append(f"{field}: {_normalize_rule(value)}")
    return "\n".join(kept), hostwide


def _normalize_rule(value: str) -> str:
    """A rule in the spelling of canonical URLs, whose queries have unencoded slashes."""
    path, mark, query = value.partition("?")
    return path + mark + _replace_encoded_slash("/", query)


def _parse_lines(text: str) -> Iterator[tuple[str, str]]:
    """The lines that count. All others have no effect and do not end a group (2.2.4)."""
    for line in text.splitlines():
        found = _LINE(line.partition("#")[0])
        if found:
            field = _FIELD_SPELLINGS.get((found[1] or found[3]).lower())
            if field:
                yield field, (found[2] or found[4] or "").strip()


def _matching_token(value: str, agent: str) -> str:
    """The agent itself, `*`, or an empty string, depending on the name in an agent line."""
    if value.startswith("*"):
        return "*"
    token = _PRODUCT_TOKEN(value)
    return agent if token and token[0].lower() == agent.lower() else ""


def decode_rules(stored: bytes | None) -> RobotsRules | None:
    """Rules as the store has them; None if there are none, or if they are damaged: then they are fetched again."""
    try:
        return None if stored is None else msgspec.msgpack.decode(stored, type=RobotsRules)
    except msgspec.DecodeError:
        return None
