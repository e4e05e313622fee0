"""What robots.txt allows (RFC 9309): what each response means, the groups that apply, the size limit, the life time.

The longest rule that matches wins, and `Allow` wins over `Disallow` of the same length (RFC 9309, 2.2.2). Rules without
wildcards are looked up by their length; rules with wildcards are tried one by one, so their number is limited. A host
with more of them can only forbid more: a `Disallow` beyond the limit counts up to its first `*`.

Signals (Content-Signal, Content-Usage and License in robots.txt, /.well-known/tdmrep.json) are given as the response
headers that mean the same, so that `parse.signals` reads both in one way. A line of robots.txt may start with a path
(`Content-Usage: /art/ train-ai=n`); of several lines the longest path that matches counts, as for rules.

Pure: responses and the time are passed in.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar
from urllib.parse import quote, unquote_to_bytes, urlsplit

import msgspec
from msgspec.structs import replace

from opilio.core.records import FetchResult
from opilio.core.urls import MAX_URL_LENGTH

# Of all rules: literal parts that are looked for in one URL.
MAX_WILDCARD_PARTS = 2_000
# An escaped character of a URL takes three.
_MAX_RULE_LENGTH = 3 * MAX_URL_LENGTH
# Faster than `urlsplit`; it runs once for every request.
_PATH_AND_QUERY = re.compile(r"[a-zA-Z]+://[^/?#]*([^#]*)").match
_IS_PLAIN = re.compile(r"[A-Za-z0-9_.~/=-]*").fullmatch
# Escapes that keep their meaning: a slash is a separator only unescaped, and an asterisk a wildcard.
_KEPT_ESCAPES = re.compile("%(2[af5])", re.IGNORECASE)
_INDEX_PAGE = "/index.html"

T = TypeVar("T")
# Whether it allows, and its path as written.
Rule = tuple[bool, str]


def read_groups(text: str) -> dict[str, list[tuple[str, str]]]:
    """Fields and values by the agent they apply to, in lower case; an agent without rules has an empty list."""
    groups: dict[str, list[tuple[str, str]]] = {}
    named: dict[str, None] = {}
    naming = False
    for line in text.split("\n"):
        field, _, value = line.partition(": ")
        if field == "user-agent":
            named = {**named, value.lower(): None} if naming else {value.lower(): None}
            groups.setdefault(value.lower(), [])
            naming = True
        else:
            naming = False
            for agent in named if value else ():
                groups[agent].append((field, value))
    return groups


def crawl_delay_s(text: str, agent: str) -> float:
    """The Crawl-delay for `agent`; if its group has none, that for all agents."""
    groups = read_groups(text)
    for name in (agent.lower(), "*"):
        delays = [delay for field, value in groups.get(name, ()) if field == "crawl-delay" for delay in _delay(value)]
        if delays:
            return delays[-1]
    return 0.0


def _delay(value: str) -> Iterator[float]:
    try:
        delay = float(value)
    except ValueError:
        return
    if math.isfinite(delay) and delay >= 0:
        yield delay


class RuleMatcher:
    """The rules for one agent: those of its own group, or else those for all agents."""

    def __init__(self, text: str, agent: str) -> None:
        groups = read_groups(text)
        chosen = groups.get(agent.lower(), groups.get("*", []))
        self._prefixes: dict[str, bool] = {}
        self._exact: dict[str, bool] = {}
        self._wildcards: list[tuple[int, bool, list[str], bool]] = []
        self._parts = 0
        for allowed, pattern in _normalized_rules((field, value) for field, value in chosen):
            if len(pattern) <= _MAX_RULE_LENGTH:
                self._add(allowed, pattern)
        self._lengths = sorted({len(prefix) for prefix in self._prefixes}, reverse=True)
        self._wildcards.sort(key=lambda rule: rule[:2], reverse=True)

    def allows(self, url: str) -> bool:
        """True if no rule forbids the URL."""
        path = normalize_path(url)
        if path == "/robots.txt":
            return True
        best = (len(path) + 1, self._exact[path]) if path in self._exact else (-1, True)
        best = max(best, self._longest_prefix(path))
        for priority, allowed, parts, anchored in self._wildcards:
            if (priority, allowed) <= best:
                break
            if _matches(path, parts, anchored):
                return allowed
        return best[1]

    def _add(self, allowed: bool, pattern: str) -> None:
        anchored = pattern.endswith("$")
        body = pattern[:-1] if anchored else pattern
        if "*" not in body:
            table = self._exact if anchored else self._prefixes
            table[body] = table.get(body, False) or allowed
            return
        parts = re.sub(r"\*+", "*", body).split("*")
        self._parts += len(parts)
        if self._parts <= MAX_WILDCARD_PARTS:
            self._wildcards.append((len(pattern), allowed, parts, anchored))
        elif not allowed:
            self._prefixes.setdefault(parts[0] or "/", False)

    def _longest_prefix(self, path: str) -> tuple[int, bool]:
        for length in self._lengths:
            allowed = self._prefixes.get(path[:length]) if length <= len(path) else None
            if allowed is not None:
                return length, allowed
        return -1, True


def _normalized_rules(fields: Iterable[tuple[str, str]]) -> Iterator[Rule]:
    for field, value in fields:
        if field not in ("allow", "disallow"):
            continue
        allowed = field == "allow"
        # A final "$" is the end of the URL, but some sites mean the character.
        if value.endswith("$"):
            yield allowed, normalize_rule(value[:-1]) + "%24"
        pattern = normalize_rule(value[:-1]) + "$" if value.endswith("$") else normalize_rule(value)
        yield allowed, pattern
        # A site that allows its index page allows the folder.
        if allowed and pattern.endswith(_INDEX_PAGE):
            yield True, pattern.removesuffix("index.html") + "$"


def _matches(path: str, parts: list[str], anchored: bool) -> bool:
    if not path.startswith(parts[0]):
        return False
    position = len(parts[0])
    for part in parts[1:-1]:
        found = path.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    last = parts[-1]
    if anchored:
        return len(path) - len(last) >= position and path.endswith(last)
    return path.find(last, position) >= 0


def normalize_pattern(value: str) -> str:
    """A rule in the spelling in which `path_matches` compares it."""
    return normalize_rule(value.removesuffix("$")) + ("$" if value.endswith("$") else "")


def path_matches(path: str, pattern: str) -> bool:
    """True if a normalized path begins with a normalized pattern, which may have `*` and a final `$`.

    >>> path_matches("/art/wren.html", "/art/*.html$"), path_matches("/art/", "/music/")
    (True, False)
    """
    anchored = pattern.endswith("$")
    parts = re.sub(r"\*+", "*", pattern.removesuffix("$")).split("*")
    if len(parts) == 1:
        return path == parts[0] if anchored else path.startswith(parts[0])
    return len(parts) <= MAX_WILDCARD_PARTS and _matches(path, parts, anchored)


def normalize_path(url: str) -> str:
    """Path and query of a URL in the spelling in which rules are compared.

    >>> normalize_path("http://a.example/a%7eb/%2f?q=é#top")
    '/a~b/%2F%3Fq=%C3%A9'
    """
    found = _PATH_AND_QUERY(url)
    path = _normalize(found[1] if found else url, "/%=")
    return path if path.startswith("/") else f"/{path}"


def normalize_rule(value: str) -> str:
    """The path of a rule in the same spelling, with its wildcards."""
    if value.startswith(("https://", "http://")):
        value = f"/{value}"
    return _normalize(value, "/%=*")


def _normalize(text: str, safe: str) -> str:
    if _IS_PLAIN(text):
        return text
    kept = _KEPT_ESCAPES.sub(lambda escape: f"%25{escape[1].upper()}", text)
    return quote(unquote_to_bytes(kept), safe=safe)


TDMREP_PATH = "/.well-known/tdmrep.json"
MAX_TDM_RULES = 200
# Of the signals in robots.txt, and of the locations in tdmrep.json: each URL is compared with all of them.
MAX_SIGNAL_CHARACTERS = 8_000
_FIELDS = ("content-signal", "content-usage")
_WITH_PATH = re.compile(r"(/\S*)\s+(.*)").fullmatch

Headers = tuple[tuple[str, str], ...]


class TdmRule(NamedTuple):
    """An entry of tdmrep.json: a path pattern, whether text and data mining is reserved, and the URL of the policy."""

    location: str
    reserved: bool
    policy: str = ""


class _TdmEntry(msgspec.Struct, kw_only=True):
    location: str
    reservation: int = msgspec.field(name="tdm-reservation", default=0)
    policy: str = msgspec.field(name="tdm-policy", default="")


class HostSignals:
    """The signals of one host for a URL. Empty for most hosts: `headers` then costs nothing."""

    def __init__(self, text: str, agent: str, licence: str = "", tdm_rules: Sequence[TdmRule] = ()) -> None:
        self._lines: list[tuple[str, str, str]] = []
        if "content-" in text:
            groups = read_groups(text)
            lines = [line for line in groups.get(agent.lower(), groups.get("*", [])) if line[0] in _FIELDS]
            for field, value in _first_of(lines, lambda line: sum(map(len, line))):
                found = _WITH_PATH(value)
                path, stated = (normalize_pattern(found[1]), found[2]) if found else ("/", value)
                self._lines.append((field, path, stated))
        self._common: Headers = (
            (("link", f'<{licence}>; rel="license"; type="application/rsl+xml"'),) if licence else ()
        )
        self._tdm_rules = [(normalize_pattern(rule.location), rule) for rule in tdm_rules]

    def headers(self, url: str) -> Headers:
        """The headers that a response with the same signals would have."""
        if not self._lines and not self._tdm_rules:
            return self._common
        path = normalize_path(url)
        found = [*self._common]
        for field in _FIELDS:
            matching = [(len(p), value) for name, p, value in self._lines if name == field and path_matches(path, p)]
            longest = max((length for length, _ in matching), default=0)
            found += [(field, value) for length, value in matching if length == longest]
        # The first entry that matches counts (TDMRep, 6.1).
        rule = next((rule for pattern, rule in self._tdm_rules if path_matches(path, pattern)), None)
        if rule is not None:
            found.append(("tdm-reservation", "1" if rule.reserved else "0"))
            found += [("tdm-policy", rule.policy)] if rule.policy else []
        return tuple(found)


def parse_tdmrep(fetched: FetchResult) -> tuple[TdmRule, ...]:
    """The entries of a tdmrep.json; none if there is no such file or it is not valid."""
    if fetched.failure is not None or fetched.status != 200:
        return ()
    try:
        entries = msgspec.json.decode(fetched.body, type=list[_TdmEntry])
    except (msgspec.DecodeError, RecursionError):
        return ()
    return tuple(
        TdmRule(_path_pattern(entry.location), entry.reservation == 1, entry.policy[:500])
        for entry in _first_of(entries[:MAX_TDM_RULES], lambda entry: len(entry.location))
    )


def _first_of(items: Iterable[T], length: Callable[[T], int]) -> Iterator[T]:
    """The first items that have at most `MAX_SIGNAL_CHARACTERS` together."""
    total = 0
    for item in items:
        total += length(item)
        if total > MAX_SIGNAL_CHARACTERS:
            return
        yield item


def _path_pattern(location: str) -> str:
    """The path of a location, which may be written as a URL."""
    path = urlsplit(location).path if "://" in location else location
    return path if path.startswith(("/", "*")) else f"/{path}"


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
