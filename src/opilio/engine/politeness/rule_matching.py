"""The groups of robots.txt that apply to an agent (RFC 9309): their delay, and which URLs their rules match.

The longest rule that matches wins, and `Allow` wins over `Disallow` of the same length (RFC 9309, 2.2.2). Rules without
wildcards are looked up by their length; rules with wildcards are tried one by one, so their number is limited. A host
with more of them can only forbid more: a `Disallow` beyond the limit counts up to its first `*`.

The text that these functions read has the fields in one spelling: `robots.RobotsRules` holds it.
"""

import math
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, unquote_to_bytes

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
