"""Rules and signals of a host: lines of robots.txt matched against URLs in bounded time and memory, and TDMRep.

The longest rule that matches wins, and `Allow` wins over `Disallow` of the same length (RFC 9309, 2.2.2). Rules without
wildcards are looked up by their length; rules with wildcards are tried one by one, so their number is limited. A host
with more of them can only forbid more: a `Disallow` beyond the limit counts up to its first `*`.

Signals (Content-Signal, Content-Usage and License in robots.txt, /.well-known/tdmrep.json) are given as the response
headers that mean the same, so that `parse.signals` reads both in one way. A line of robots.txt may start with a path
(`Content-Usage: /art/ train-ai=n`); of several lines the longest path that matches counts, as for rules.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes, urlsplit

import msgspec

from opilio.core.records import FetchResult
from opilio.core.urls import MAX_URL_LENGTH

MAX_WILDCARD_PARTS = 2_000  # of all rules: literal parts that are looked for in one URL
# An escaped character of a URL takes three.
_MAX_RULE_LENGTH = 3 * MAX_URL_LENGTH
# Faster than `urlsplit`; it runs once for every request.
_PATH_AND_QUERY = re.compile(r"[a-zA-Z]+://[^/?#]*([^#]*)").match
_IS_PLAIN = re.compile(r"[A-Za-z0-9_.~/=-]*").fullmatch
# Escapes that keep their meaning: a slash is a separator only unescaped, and an asterisk a wildcard.
_KEPT_ESCAPES = re.compile("%(2[af5])", re.IGNORECASE)
_INDEX_PAGE = "/index.html"

Rule = tuple[bool, str]  # whether it allows, and its path as written


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
            for field, value in groups.get(agent.lower(), groups.get("*", [])):
                if field in _FIELDS:
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
        for entry in entries[:MAX_TDM_RULES]
    )


def _path_pattern(location: str) -> str:
    """The path of a location, which may be written as a URL."""
    path = urlsplit(location).path if "://" in location else location
    return path if path.startswith(("/", "*")) else f"/{path}"
