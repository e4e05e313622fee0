"""Recognises spider traps by URL: endless paths, calendars, queries that multiply, session ids, sorted listings,
tools of wikis and forums. Pure.

It is called once for every URL that is new to the frontier, so it counts distinct URLs. Large honest sites must pass:
a directory of 50,000 pages, a forum of `?id=N`, the dated archive of a newspaper. What a host links itself and what
other domains link at it is counted apart: otherwise one page of links with made-up queries would close another site.

`UrlFilter` refuses URLs that look like traps, and reports each host and kind once.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

import msgspec

from opilio.core.caches import evict_oldest
from opilio.core.events import TrapFound
from opilio.core.records import Lead, Outcome, url_key
from opilio.core.scope import ScopeSettings, UrlScope
from opilio.core.settings import Settings
from opilio.core.urls import host_of
from opilio.engine.politeness.host_yield import GivenUpPlace, foreign_domain
from opilio.engine.politeness.waste_control import YieldMonitor
from opilio.frontier.policy import refuse_nothing
from opilio.frontier.sqlite.queries import accepted_urls
from opilio.store.collection import Collection

EXCLUDED_REASON = "excluded by hand"
NOT_ARCHIVED_REASON = "not in the archive"
K = TypeVar("K")


class HostRules:
    """Hosts and patterns of addresses that the user excluded or boosted, and the delays set for hosts."""

    def __init__(self) -> None:
        self.banned_hosts: set[str] = set()
        self._excluded_patterns: list[str] = []
        self.host_delays_s: dict[str, float] = {}
        self.boosted_hosts: set[str] = set()

    def apply(self, command: str, target: str, data: bytes = b"") -> None:
        """Apply a command: `ban` a host, `exclude` a pattern, set a longer `delay`, boost a host or not."""
        if command == "ban":
            self.banned_hosts.add(target)
        elif command == "boost_host":
            self.boosted_hosts.add(target)
        elif command == "unboost_host":
            self.boosted_hosts.discard(target)
        elif command == "exclude":
            self._excluded_patterns.append(target)
        else:
            self.host_delays_s[target] = float(data)

    def refusal_reason(self, url: str) -> str:
        """Why this URL is not wanted, or nothing."""
        if not self.banned_hosts and not self._excluded_patterns:
            return ""
        unwanted = host_of(url) in self.banned_hosts or any(
            fnmatchcase(url, pattern) for pattern in self._excluded_patterns
        )
        return EXCLUDED_REASON if unwanted else ""


# One to four path segments three times in a row (the first with a letter), or one segment of any kind five times.
_REPEATED = re.compile(r"/(?=[^/]*[A-Za-z])((?:[^/]+/){1,4}?)\1\1|/([^/]+/)\2\2\2\2")
_SESSION = re.compile(
    r"(?:[;?&](?:jsessionid|phpsessid|aspsessionid\w*|cfid|cftoken|sessionid|session_id|sess_id)=|\(S\()([^&;/?)]+)"
    r"|[?&](?:sid|s|session)=((?=[A-Za-z]*+\d)[0-9A-Za-z]{16,})(?=&|$)",
    re.IGNORECASE,
)
# Without one of these characters, no session id: quicker to find out for an ordinary URL.
_SESSION_START = re.compile("[;?&(]").search
_CALENDAR = re.compile(
    r"calend|event|agenda|kalender|schedule|ical|/(?:day|week|month)s?/|[?&](?:date|day|month|week)=", re.IGNORECASE
)
# A year and a month; `/item/2268-1.html` is a number of an item.
_DATE = re.compile(r"(?<![0-9])(\d{4})(?:/0?[1-9]|/1[0-2]|-0[1-9]|-1[0-2])(?![0-9])|[?&]y(?:ear|r)?=(\d{4})(?![0-9])")
# Years ahead that a number may be meant as a date without a word such as "calendar" in the URL.
_MAX_YEARS_AHEAD = 100
# Nothing but a date at the end: an empty day of a calendar. An article in a dated archive has words after it.
_BARE_DATE = re.compile(r"\d{4}[-/]\d{1,2}(?:[-/]\d{1,2})?/?$|[?&](?:date|day|month|week)=[-\d]+")
# The headings of Apache's directory listings: the same files eight times over (mod_autoindex; before 2.0 ?N=D).
_SORTED = re.compile(r"C=[NMSD][;&]O=[AD]|[NMSD]=[AD]").fullmatch
# Tools around the articles of a wiki (MediaWiki, DokuWiki, MoinMoin), and reply forms of WordPress: for every article a
# dozen pages with its words that are not articles. Wikipedia excludes them by robots.txt, most wikis do not.
_WIKI_TOOL = re.compile(
    r"(?:^|&)(?:(?:action=(?:edit|history|raw|submit|delete|protect|watch|unwatch|purge)|veaction=[a-z]+"
    r"|title=[^&]*&action=info|do=(?:edit|revisions|diff|backlink|recent|login|register|subscribe)|redlink=1)(?:&|$)"
    r"|returnto=|oldid=\d|diff=(?:\d|prev|next|cur)|replytocom=\d)"
).search
_SPECIAL_PAGE = re.compile(
    r"(?:[/=])Special:(?:WhatLinksHere|RecentChanges|RecentChangesLinked|CreateAccount|UserLogin|MyContributions|MyTalk"
    r"|Contributions|SpecialPages|Log|CiteThisPage|Search|Book|Export|PermanentLink|UrlShortener|ElectronPdf)\b"
).search
# Forms around the threads of a forum (phpBB, vBulletin), and other views of the same thread.
_FORUM_TOOL = re.compile(
    r"(?:^|/)(?:(?:posting|ucp|newreply|newthread|report)\.php\?"
    r"|(?:viewtopic|showthread)\.php\?(?:[^#]*&)?(?:view=(?:print|unread|newest|next|previous)|goto=new\w+)(?:&|$))"
).search
_DIGITS = re.compile(r"\d+")


class TrapLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Where honest sites end. `year` is the present one; dates beyond the next are a calendar that never ends."""

    max_url_length: int = 2_000
    max_path_depth: int = 20
    max_parameters: int = 16  # in one query
    # Different sets of parameter names at one path.
    max_query_shapes: int = 64
    # Queries at one path by number of parameters; 0: any.
    max_combinations: Sequence[int] = (0, 0, 0, 20_000, 2_000)
    max_sessions: int = 2  # different session ids at one host
    current_year: int = 2_100
    first_year: int = 1_600
    max_calendar_days: int = 1_000  # dates in one calendar
    max_hosts: int = 10_000  # remembered
    max_paths: int = 1_000  # remembered per host


class _HostHistory:
    """What was seen of one host."""

    __slots__ = ("calendars", "queries", "sessions", "shapes")

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        # Path: sets of parameter names.
        self.shapes: dict[str, set[str]] = {}
        # Path: queries with many parameters.
        self.queries: dict[str, int] = {}
        # Pattern: dates.
        self.calendars: dict[str, int] = {}


class TrapDetector:
    """Says why a URL looks like a trap. What it remembers is bounded; the longest known is forgotten first."""

    def __init__(self, limits: TrapLimits | None = None) -> None:
        self._limits = limits or TrapLimits()
        self._hosts: dict[str, _HostHistory] = {}
        # By the linking domain and the host.
        self._linked_hosts: dict[tuple[str, str], _HostHistory] = {}

    def check(self, url: str, source: str = "") -> str:
        """The reason not to follow a canonical URL, or an empty string. `source`: the domain that links it, if another.

        >>> TrapDetector().check("http://a.example/x/y/x/y/x/y/")
        'repeating path'
        """
        limits = self._limits
        if len(url) > limits.max_url_length:
            return "too long"
        _, _, host, *rest = url.split("/", 3)
        path, mark, query = (rest[0] if rest else "").partition("?")
        if path.count("/") >= limits.max_path_depth:
            return "too deep"
        if _REPEATED.search(f"/{path}/"):
            return "repeating path"
        if "Special:" in url and _SPECIAL_PAGE(url):
            return "wiki tool"
        return (
            self._check_session((source, host), url)
            or (self._check_query((source, host), path, query) if mark else "")
            or self._check_calendar((source, host), url)
        )

    def _check_session(self, linked: tuple[str, str], url: str) -> str:
        """The first session at a host is a way through it; every further one is the same site again."""
        found = _SESSION.search(url) if _SESSION_START(url) else None
        if found is None:
            return ""
        sessions = self._history(linked).sessions
        value = found[1] or found[2]
        if value not in sessions and len(sessions) >= self._limits.max_sessions:
            return "session id"
        sessions.add(value)
        return ""

    def _check_query(self, linked: tuple[str, str], path: str, query: str) -> str:
        """Values may be many (`?id=N`); ways to combine parameters may not (facets, sort orders, filters)."""
        limits = self._limits
        if _SORTED(query) and (not path or path.endswith("/")):
            return "sorted listing"
        if _WIKI_TOOL(query):
            return "wiki tool"
        if ".php" in path and _FORUM_TOOL(f"{path}?{query}"):
            return "forum tool"
        names = sorted(part.partition("=")[0] for part in query.split("&"))
        if len(names) > limits.max_parameters:
            return "too many parameters"
        site = self._history(linked)
        shapes = site.shapes.get(path)
        if shapes is None:
            evict_oldest(site.shapes, limits.max_paths - 1)
            shapes = site.shapes[path] = set()
        shape = "&".join(names)
        if shape not in shapes and len(shapes) >= limits.max_query_shapes:
            return "query explosion"
        shapes.add(shape)
        most = limits.max_combinations[min(len(names), len(limits.max_combinations) - 1)]
        return "query explosion" if most and _add_bounded(site.queries, path, limits.max_paths) > most else ""

    def _check_calendar(self, linked: tuple[str, str], url: str) -> str:
        """Dates in the far future, or more dates than a calendar needs."""
        limits = self._limits
        found, bare = _DATE.search(url), _BARE_DATE.search(url)
        if found is None and bare is None:
            return ""
        calendar = _CALENDAR.search(url) is not None
        if found is not None:
            year = int(found[1] or found[2])
            ahead = year - limits.current_year
            if 1 < ahead <= _MAX_YEARS_AHEAD or (calendar and (ahead > 1 or year < limits.first_year)):
                return "calendar"
        if calendar and bare is not None:
            pattern = _DIGITS.sub("#", url)
            return (
                "calendar"
                if _add_bounded(self._history(linked).calendars, pattern, limits.max_paths) > limits.max_calendar_days
                else ""
            )
        return ""

    def _history(self, linked: tuple[str, str]) -> _HostHistory:
        source, host = linked
        return self._remember(self._linked_hosts, linked) if source else self._remember(self._hosts, host)

    def _remember(self, known: dict[K, _HostHistory], key: K) -> _HostHistory:
        site = known.get(key)
        if site is None:
            evict_oldest(known, self._limits.max_hosts - 1)
            site = known[key] = _HostHistory()
        return site


def _add_bounded(kept: dict[str, int], key: str, limit: int) -> int:
    if key not in kept:
        evict_oldest(kept, limit - 1)
    kept[key] = kept.get(key, 0) + 1
    return kept[key]


MAX_REPORTED_TRAPS = 50_000


class UrlFilter:
    """Checks every new URL, and keeps what was found until it is reported.

    `unreadable` are extensions of documents that this crawl does not fetch, with the reason.
    """

    def __init__(
        self,
        check: Callable[[str, str], str],
        scope: UrlScope | None = None,
        unreadable: Mapping[str, str] | None = None,
    ) -> None:
        self._detect_trap = check
        self._unreadable = unreadable or {}
        # Compared with every new URL, so without regard to queries: the type of the response decides there.
        self._endings = tuple(f".{form}" for name in self._unreadable for form in (name, name.upper()))
        self._scope = scope or UrlScope(ScopeSettings())
        self.host_rules = HostRules()
        # Waste control, if it is on.
        self.yields: YieldMonitor | None = None
        # The URLs of the archives that are crawled.
        self.archived: Container[str] | None = None
        self._reported: set[tuple[str, str]] = set()
        self._found: list[tuple[str, str, str]] = []
        # By key: the hosts of the pages and redirects whose links come next.
        self._linking_hosts: dict[int, str] = {}

    def replay(self, urls: Iterable[tuple[str, str]]) -> None:
        """Let it see again what an earlier run let pass, with the host of the page that links it: it counts."""
        for url, linking_host in urls:
            self._detect_trap(url, foreign_domain(linking_host, host_of(url)))

    def note_visits(self, outcomes: Iterable[Outcome]) -> None:
        """Call it before the links of these pages are added."""
        self._linking_hosts = {
            url_key(outcome.fetched.location) if outcome.fetched.location else outcome.lead.key: outcome.lead.host
            for outcome in outcomes
        }

    def _source(self, lead: Lead) -> str:
        """Whose count a link belongs to: empty for the host's own links.

        A redirect has one of its own, because other sites can link at addresses that redirect anywhere.
        """
        linking_host = self._linking_hosts.get(lead.key if lead.hops else lead.parent, lead.host)
        return foreign_domain(linking_host, lead.host) or ("redirect" if lead.hops else "")

    def refusal_reason(self, lead: Lead) -> str:
        """Why this URL must not be followed, or nothing."""
        url = lead.url
        if self.archived is not None and url not in self.archived:
            return NOT_ARCHIVED_REASON
        if excluded := self._scope.refusal_reason(url) or self.host_rules.refusal_reason(url):
            return excluded
        if url.endswith(self._endings) and (reason := self._unreadable.get(url.rpartition(".")[2].lower())):
            return f"document not fetched: {reason}"
        reason = self._detect_trap(url, self._source(lead))
        if reason:
            known = (host_of(url), reason)
            if known not in self._reported and len(self._reported) < MAX_REPORTED_TRAPS:
                self._reported.add(known)
                self._found.append((*known, url))
            return f"trap: {reason}"
        return self.yields.refusal_reason(url) if self.yields is not None else ""

    def take_events(self, now: float) -> list[TrapFound]:
        """What was found since the last time."""
        found, self._found = self._found, []
        return [TrapFound(at=now, host=host, pattern=url, reason=reason) for host, reason, url in found]


GIVEN_UP_META_KEY = "given_up"


def load_given_up(collection: Collection) -> list[GivenUpPlace]:
    """The places that earlier runs gave up."""
    stored = collection.meta(GIVEN_UP_META_KEY, "")
    return msgspec.json.decode(stored, type=list[GivenUpPlace]) if stored else []


def save_given_up(collection: Collection, places: Sequence[GivenUpPlace]) -> None:
    """Store the places that are given up; inside a unit of work."""
    collection.set_meta(**{GIVEN_UP_META_KEY: msgspec.json.encode(places).decode()})


def build_url_filter(
    settings: Settings,
    collection: Collection,
    resumed: bool,
    year: int | None = None,
    unreadable: Mapping[str, str] | None = None,
) -> UrlFilter:
    """The filter of new URLs; that of a resumed crawl knows which URLs it accepted before.

    `year` is the current one; without it no date is too far ahead.
    """
    scope = UrlScope(settings.scope)
    if not settings.frontier.traps:
        return UrlFilter(refuse_nothing, scope, unreadable)
    limits = TrapLimits() if year is None else TrapLimits(current_year=year)
    url_filter = UrlFilter(TrapDetector(limits).check, scope, unreadable)
    url_filter.yields = YieldMonitor(given_up=load_given_up(collection))
    if resumed:
        # Only queries, sessions and dates are counted.
        url_filter.replay(accepted_urls(collection.connection, "*[?;(0-9]*"))
    return url_filter
