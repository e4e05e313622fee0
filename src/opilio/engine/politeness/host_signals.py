"""What the owner of a host allows on its pages: signals in robots.txt and in /.well-known/tdmrep.json.

Signals (Content-Signal, Content-Usage and License in robots.txt, tdmrep.json) are given as the response headers that
mean the same, so that `parse.signals` reads both in one way. A line of robots.txt may start with a path
(`Content-Usage: /art/ train-ai=n`); of several lines the longest path that matches counts, as for rules.

Pure: responses are passed in.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from opilio.core.records import FetchResult
from opilio.engine.politeness.rule_matching import normalize_path, normalize_pattern, path_matches, read_groups

TDMREP_PATH = "/.well-known/tdmrep.json"
MAX_TDM_RULES = 200
# Of the signals in robots.txt, and of the locations in tdmrep.json: each URL is compared with all of them.
MAX_SIGNAL_CHARACTERS = 8_000
_FIELDS = ("content-signal", "content-usage")
_WITH_PATH = re.compile(r"(/\S*)\s+(.*)").fullmatch

T = TypeVar("T")
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
