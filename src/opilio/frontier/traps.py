"""Recognises spider traps by URL: endless paths, calendars, queries that multiply, session ids, sorted listings. Pure.

It is asked once for every URL that is new to the frontier, so counting calls counts distinct URLs. It must let
honest size pass: a directory of 50,000 pages, a forum of `?id=N`, the dated archive of a newspaper are no traps.
"""

import re
from collections.abc import Sequence

import msgspec

# One to four path segments three times in a row (the first with a letter), or one segment of any kind five times.
_REPEATED = re.compile(r"/(?=[^/]*[A-Za-z])((?:[^/]+/){1,4}?)\1\1|/([^/]+/)\2\2\2\2")
_SESSION = re.compile(
    r"(?:[;?&](?:jsessionid|phpsessid|aspsessionid\w*|cfid|cftoken|sessionid|session_id|sess_id)=|\(S\()([^&;/?)]+)"
    r"|[?&](?:sid|s|session)=((?=[^&]*\d)[0-9A-Za-z]{16,})(?=&|$)",
    re.IGNORECASE,
)
_CALENDAR = re.compile(
    r"calend|event|agenda|kalender|schedule|ical|/(?:day|week|month)s?/|[?&](?:date|day|month|week)=", re.IGNORECASE
)
_DATE = re.compile(r"(?<![0-9])(\d{4})[-/](?:0?[1-9]|1[0-2])(?![0-9])|[?&]y(?:ear|r)?=(\d{4})(?![0-9])")
# Nothing but a date at the end: an empty day of a calendar. An article in a dated archive has words after it.
_BARE_DATE = re.compile(r"\d{4}[-/]\d{1,2}(?:[-/]\d{1,2})?/?$|[?&](?:date|day|month|week)=[-\d]+")
# The headings of Apache's directory listings: the same files eight times over (mod_autoindex; before 2.0 ?N=D).
_SORTED = re.compile(r"C=[NMSD][;&]O=[AD]|[NMSD]=[AD]").fullmatch
_DIGITS = re.compile(r"\d+")


class TrapLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Where honest sites end. `year` is the present one; dates beyond the next are a calendar that never ends."""

    length: int = 2_000
    depth: int = 20
    parameters: int = 16  # in one query
    shapes: int = 64  # different sets of parameter names at one path
    combinations: Sequence[int] = (0, 0, 0, 20_000, 2_000)  # queries at one path by number of parameters; 0: any
    sessions: int = 2  # different session ids at one host
    year: int = 2_100
    first_year: int = 1_600
    days: int = 1_000  # dates in one calendar
    hosts: int = 10_000  # remembered
    paths: int = 1_000  # remembered per host


class _Site:
    """What was seen of one host."""

    __slots__ = ("calendars", "queries", "sessions", "shapes")

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.shapes: dict[str, set[str]] = {}  # path: sets of parameter names
        self.queries: dict[str, int] = {}  # path: queries with many parameters
        self.calendars: dict[str, int] = {}  # pattern: dates


class Traps:
    """Says why a URL looks like a trap. What it remembers is bounded; the longest known is forgotten first."""

    def __init__(self, limits: TrapLimits | None = None) -> None:
        self._limits = limits or TrapLimits()
        self._sites: dict[str, _Site] = {}

    def check(self, url: str) -> str:
        """The reason not to follow a canonical URL, or an empty string.

        >>> Traps().check("http://a.example/x/y/x/y/x/y/")
        'repeating path'
        """
        limits = self._limits
        if len(url) > limits.length:
            return "too long"
        _, _, host, *rest = url.split("/", 3)
        path, mark, query = (rest[0] if rest else "").partition("?")
        if path.count("/") >= limits.depth:
            return "too deep"
        if _REPEATED.search(f"/{path}/"):
            return "repeating path"
        return self._session(host, url) or (self._query(host, path, query) if mark else "") or self._calendar(host, url)

    def _session(self, host: str, url: str) -> str:
        """The first session at a host is a way through it; every further one is the same site again."""
        if not (found := _SESSION.search(url)):
            return ""
        sessions = self._site(host).sessions
        value = found[1] or found[2]
        if value not in sessions and len(sessions) >= self._limits.sessions:
            return "session id"
        sessions.add(value)
        return ""

    def _query(self, host: str, path: str, query: str) -> str:
        """Values may be many (`?id=N`); ways to combine parameters may not (facets, sort orders, filters)."""
        limits = self._limits
        if _SORTED(query) and (not path or path.endswith("/")):
            return "sorted listing"
        names = sorted(part.partition("=")[0] for part in query.split("&"))
        if len(names) > limits.parameters:
            return "too many parameters"
        site = self._site(host)
        shapes = site.shapes.get(path)
        if shapes is None:
            _make_room(site.shapes, limits.paths)
            shapes = site.shapes[path] = set()
        shape = "&".join(names)
        if shape not in shapes and len(shapes) >= limits.shapes:
            return "query explosion"
        shapes.add(shape)
        most = limits.combinations[min(len(names), len(limits.combinations) - 1)]
        return "query explosion" if most and _count(site.queries, path, limits.paths) > most else ""

    def _calendar(self, host: str, url: str) -> str:
        """Dates that nobody has lived yet, or more of them than a calendar needs."""
        limits = self._limits
        found = _DATE.search(url)
        calendar = _CALENDAR.search(url) is not None
        if found is not None:
            year = int(found[1] or found[2])
            if limits.year + 1 < year < 3_000 or (calendar and not limits.first_year <= year <= limits.year + 1):
                return "calendar"
        if calendar and _BARE_DATE.search(url):
            pattern = _DIGITS.sub("#", url)
            return "calendar" if _count(self._site(host).calendars, pattern, limits.paths) > limits.days else ""
        return ""

    def _site(self, host: str) -> _Site:
        site = self._sites.get(host)
        if site is None:
            _make_room(self._sites, self._limits.hosts)
            site = self._sites[host] = _Site()
        return site


def _make_room(kept: dict[str, object] | dict[str, _Site] | dict[str, set[str]] | dict[str, int], limit: int) -> None:
    if len(kept) >= limit:
        del kept[next(iter(kept))]


def _count(kept: dict[str, int], key: str, limit: int) -> int:
    if key not in kept:
        _make_room(kept, limit)
    kept[key] = kept.get(key, 0) + 1
    return kept[key]
