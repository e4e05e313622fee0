"""Waste control: the share of a host in the budget follows what it yields.

Every fetch is counted for its places: its host, its first two directories, and its path if it has a query. A fetch is a
hit if it brings a new relevant page; a place also gets credit for relevant pages elsewhere that it links or redirects
to, so listings and hubs are not traps. For each place a CUSUM test compares two rates: half of what productive hosts
yield at present, and a tenth of it. When the evidence for the lower one suffices, the place is given up: its queued
URLs are dropped and new ones are refused. After some hundred fetches elsewhere its best URLs are tried again, and one
hit admits all of them. Copies and soft 404s count double, and so do pages that repeat the words of the pages before.

So is a host given up whose beginning promises little compared with those of productive hosts (`HostBeginnings`). The
rates of relevant pages among the first fetches of the productive hosts are a sample of a population, here a beta
distribution. Each host is a member of it or barren; the prior odds are the numbers of productive and of barren hosts so
far. From these and from its own fetches follows what the next fetch of a host is expected to yield. After some traps,
the next one needs fewer fetches. Where productive hosts often begin with rows of misses, a new one may as well.

Memory is bounded, and an ordinary page costs a few microseconds.
"""

from collections import deque
from collections.abc import Collection as AnyCollection
from collections.abc import Iterator, Sequence
from math import exp, lgamma, log

import msgspec
import numpy as np

from opilio.core.caches import evict_oldest
from opilio.core.events import Event, TrapFound, TrapRetried
from opilio.core.protocols import Frontier
from opilio.core.records import SOFT_404, Outcome, url_key

_BEGINNING = 20  # fetches
_MIN_TRIES = 5  # of a host that counts for the population
_UNSEEN_RATE = 0.1  # of one host that is added to the sample: the next one may be poorer than all before
_BARREN_RATE = 0.02  # of barren hosts: judges err
_MAX_CONCENTRATION = 20.0  # of the distribution: a small sample never excludes different hosts
_SMALLEST_VARIANCE = 1e-4
_LARGEST_EXPONENT = 50.0


class Beginning:
    """The first fetches of one host."""

    __slots__ = ("barren", "hits", "tries")

    def __init__(self) -> None:
        self.hits = self.tries = 0
        self.barren = False


class HostBeginnings:
    """The population of the hosts of a crawl. A fetch takes constant time."""

    def __init__(self) -> None:
        self.hosts = 0  # productive ones
        self._barren = 0
        self._rates = self._squares = 0.0

    def add(self, host: Beginning, hit: bool) -> None:
        """Count a fetch, if it belongs to the beginning of its host."""
        if host.tries < _BEGINNING:
            self._include(host, -1)
            host.tries += 1
            host.hits += hit
            self._include(host, 1)

    def set_barren(self, host: Beginning, barren: bool) -> None:
        """A host was given up, or admitted again."""
        if host.barren != barren:
            self._include(host, -1)
            host.barren = barren
            self._barren += 1 if barren else -1
            self._include(host, 1)

    def _include(self, host: Beginning, sign: int) -> None:
        if not host.barren and host.hits and host.tries >= _MIN_TRIES:
            rate = host.hits / host.tries
            self.hosts += sign
            self._rates += sign * rate
            self._squares += sign * rate * rate

    @property
    def mean_rate(self) -> float:
        """What productive hosts yield at first, in relevant pages per fetch."""
        return (self._rates + _UNSEEN_RATE) / (self.hosts + 1)

    def expected_rate(self, hits: float, misses: float) -> float:
        """What the next fetch of a host with these hits and misses yields, in relevant pages."""
        mean = self.mean_rate
        squares = (self._squares + _UNSEEN_RATE**2) / (self.hosts + 1)
        variance = max(_SMALLEST_VARIANCE, squares - mean * mean)
        concentration = min(_MAX_CONCENTRATION, max(1.0, mean * (1 - mean) / variance - 1))
        a, b = mean * concentration, (1 - mean) * concentration
        productive = _log_beta(a + hits, b + misses) - _log_beta(a, b)
        barren = hits * log(_BARREN_RATE) + misses * log(1 - _BARREN_RATE)
        odds = (self.hosts + 1) / (self._barren + 1) * exp(min(_LARGEST_EXPONENT, productive - barren))
        return odds / (1 + odds) * (a + hits) / (a + b + hits + misses)


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


WHOLE_HOST = ""
_EVERYTHING = 1 << 30
_IDLE_FACTOR = 10  # a trial is larger where nothing else is left to fetch
_MAX_PLACES = 1_000  # of one host
_MAX_SOURCES = 20_000  # pages and redirects that may still get credit


class YieldLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When to give up a place, and when to try it again. Measured in docs/lab/traps.md."""

    good_share: float = 0.5  # a place is good if it yields this share of the reference rate …
    poor_share: float = 0.1  # … and poor if it yields this one
    evidence: float = 6.0  # log-likelihood ratio at which a place is given up
    min_hits: int = 5  # of the whole crawl, before any place is given up
    min_rate: float = 0.12  # lowest reference rate: below it, evidence would take hundreds of fetches
    # A crawl that has found nearly all pages has a low rate; a trap found then is still poor beside what it was before.
    best_share: float = 0.5  # of the highest reference rate so far
    min_tries: int = 20  # of a reference rate that may be the highest
    hit_memory: float = 0.9  # of the hits of a host, per fetch: its yield may end
    expected_share: float = 0.1  # of what productive hosts yield at first; a host with a lower expectation is given up
    min_hosts: int = 5  # productive ones: fewer are no expectation for others
    min_host_tries: int = 6  # of a host that is given up for its expectation
    barren_share: float = 0.03  # hits per fetch; a place that yielded more is never given up
    memory: float = 0.995  # of the reference rate, per fetch
    copy_weight: float = 2.0  # of a copy or soft 404, in ordinary misses
    same_words: float = 0.6  # share of the terms of two pages
    retry_after: int = 500  # fetches until the first trial; three times as many until the next
    trial_urls: int = 2
    max_hosts: int = 10_000


class _Place:
    """What was fetched from one place."""

    __slots__ = ("copies", "evidence", "hits", "tries")

    def __init__(self) -> None:
        self.evidence = 0.0
        self.tries = self.hits = self.copies = 0


class _HostYield:
    __slots__ = ("beginning", "misses", "places", "recent_hits", "recent_terms")

    def __init__(self) -> None:
        self.beginning = Beginning()
        self.recent_hits = 0.0  # relevant pages there and elsewhere that it led to, decayed
        self.misses = 0.0  # since it was admitted; copies count double
        self.places: dict[str, _Place] = {}
        self.recent_terms: deque[frozenset[int]] = deque(maxlen=4)  # of its last relevant pages


class GivenUpPlace(msgspec.Struct):
    """A place that yields too little; stored with the collection."""

    host: str
    place: str
    reason: str  # recorded with every URL that was dropped
    trials: int = 0
    retry_at: int = 0  # number of fetches of this run
    on_trial: int = 0  # URLs whose result is awaited

    @property
    def pattern(self) -> str:
        """A glob of its URLs."""
        if self.place == WHOLE_HOST:
            return f"*://{self.host}/*"
        escaped = "".join(f"[{c}]" if c in "*?[" else c for c in self.place)
        # "#/" stands for a directory whose name is a number.
        return f"*://{self.host}{escaped.replace('#/', '[0-9]*/')}*"


def places_of(url: str) -> tuple[str, list[str]]:
    """The host of a URL and its places there, the widest first.

    >>> places_of("http://a.example/events/2026/5?day=3")
    ('a.example', ['', '/events/', '/events/#/', '/events/2026/5?'])
    """
    host, slash, rest = url.partition("://")[2].partition("/")
    path, mark, _ = rest.partition("?")
    places = [WHOLE_HOST]
    folders = path.split("/")[:-1]
    prefix = slash
    for folder in folders[:2]:
        prefix += "#/" if folder.isdecimal() else folder + "/"
        places.append(prefix)
    if mark:
        places.append(f"/{path}?")
    return host, places


class YieldMonitor:
    """Learns what hosts, directories and URL patterns yield, and gives up those that waste the budget."""

    def __init__(self, limits: YieldLimits | None = None, given_up: Sequence[GivenUpPlace] = ()) -> None:
        self._limits = limits or YieldLimits()
        self._hosts: dict[str, _HostYield] = {}
        # URL key -> host and places that get credit: of fetched pages, and of URLs that redirect to the key.
        self._pages: dict[int, tuple[str, list[str]]] = {}
        self._redirects: dict[int, tuple[str, list[str]]] = {}
        self._productive: set[str] = set()
        self._beginnings = HostBeginnings()
        self._reference = [0.0, 0.0]  # hits and tries on productive hosts, decayed
        self._best_rate = 0.0  # the highest reference rate so far
        self._hits = self._fetches = 0
        self._given_up: dict[str, dict[str, GivenUpPlace]] = {}
        self._admitted: list[GivenUpPlace] = []  # by a hit of their trial
        for place in given_up:
            self._given_up.setdefault(place.host, {})[place.place] = place
            place.retry_at, place.on_trial = self._retry_time(place.trials), 0

    @property
    def given_up(self) -> list[GivenUpPlace]:
        return [place for places in self._given_up.values() for place in places.values()]

    def refusal_reason(self, url: str) -> str:
        """Why a new URL is not queued, or nothing."""
        if not self._given_up:
            return ""
        found = self._find_given_up(*places_of(url))
        return found.reason if found is not None else ""

    def update(
        self, outcomes: Sequence[Outcome], frontier: Frontier, protected: AnyCollection[str], now: float
    ) -> list[Event]:
        """Count fetches; give up places and try them again where it is due. `protected` hosts are never given up."""
        events: list[Event] = []
        for outcome in outcomes:
            poor = self._record(outcome)
            if poor is not None and poor[0] not in protected:
                events += [self._give_up(*poor, frontier, now)]
        events += [self._admit(place, frontier, now) for place in self._admitted]
        self._admitted.clear()
        if self._given_up:
            events += self._start_trials(frontier, now)
        return events

    def _record(self, outcome: Outcome) -> tuple[str, str] | None:
        """Count one fetch; returns host and place if the place should be given up."""
        self._fetches += 1
        # A failure leads nowhere, so it is no part of a trap; dead links are common on honest sites.
        if outcome.analysis is None and not outcome.fetched.location:
            return None
        host, places = places_of(outcome.lead.url)
        site = self._host_yield(host)
        copied = self._is_copy(outcome, site)
        hit = outcome.relevant and not copied
        self._update_reference(host, hit)
        if outcome.lead.parent:
            self._beginnings.add(site.beginning, hit)
        self._remember_source(outcome, host, places)
        if hit:
            self._credit(outcome, host, places)
        site.recent_hits = site.recent_hits * self._limits.hit_memory + hit
        site.misses += 0 if hit else self._limits.copy_weight if copied else 1
        known = site.places
        step = self._evidence_step(hit, copied)
        for name in places:
            place = known.get(name)
            if place is None:
                if len(known) >= _MAX_PLACES:
                    continue
                place = known[name] = _Place()
            place.tries += 1
            place.hits += hit
            place.copies += copied
            place.evidence = max(0.0, place.evidence + step)
        if self._given_up and (closed := self._find_given_up(host, places)) is not None:
            self._count_trial(closed, hit)
            return None
        if hit or self._hits < self._limits.min_hits:
            return None
        return self._poorest_place(host, places, site)

    def _evidence_step(self, hit: bool, copied: bool) -> float:
        """The change of the evidence by a fetch."""
        limits = self._limits
        if hit:
            return -log(limits.good_share / limits.poor_share)
        hits, tries = self._reference
        recent = hits / max(1.0, tries)
        if tries >= limits.min_tries:
            self._best_rate = max(self._best_rate, recent)
        rate = max(limits.min_rate, min(0.9, max(recent, limits.best_share * self._best_rate)))
        step = log((1 - rate * limits.poor_share) / (1 - rate * limits.good_share))
        return step * limits.copy_weight if copied else step

    def _poorest_place(self, host: str, places: list[str], site: _HostYield) -> tuple[str, str] | None:
        """The narrowest barren place with enough evidence: the rest of the host stays."""
        for name in reversed(places):
            place = site.places.get(name)
            if place is not None and place.evidence >= self._limits.evidence and self._is_barren(place):
                return host, name
        return (host, WHOLE_HOST) if self._promises_little(site) else None

    def _promises_little(self, site: _HostYield) -> bool:
        """Is little expected of the next fetch, compared with what productive hosts yield at first?"""
        limits, whole = self._limits, site.places[WHOLE_HOST]
        if whole.tries < limits.min_host_tries or whole.hits > 1 or self._beginnings.hosts < limits.min_hosts:
            return False
        expected = self._beginnings.expected_rate(site.recent_hits, site.misses)
        return expected < limits.expected_share * self._beginnings.mean_rate

    def _is_barren(self, place: _Place) -> bool:
        """Did it never yield much? Exhausted places that were productive do not count."""
        return place.hits <= max(1, self._limits.barren_share * place.tries)

    def _is_copy(self, outcome: Outcome, site: _HostYield) -> bool:
        """Is it a copy, a soft 404, or a relevant page in the words of the relevant pages before it?"""
        analysis = outcome.analysis
        if analysis is None:
            return False
        if outcome.duplicate_of or (analysis.failure is not None and analysis.failure.kind == SOFT_404):
            return True
        if not outcome.relevant or not analysis.sample_terms:
            return False
        terms = frozenset(np.frombuffer(analysis.sample_terms, dtype=np.uint32).tolist())
        most = self._limits.same_words * len(terms)
        same = sum(len(terms & other) > most for other in site.recent_terms)
        site.recent_terms.append(terms)
        return same >= 2

    def _update_reference(self, host: str, hit: bool) -> None:
        """The rate of hosts that yielded anything; fetches in traps do not lower it."""
        if hit:
            self._hits += 1
            self._productive.add(host)
        if host in self._productive:
            memory = self._limits.memory
            self._reference = [self._reference[0] * memory + hit, self._reference[1] * memory + 1]

    def _remember_source(self, outcome: Outcome, host: str, places: list[str]) -> None:
        target = outcome.fetched.location
        if target:
            self._redirects[url_key(target)] = (host, places)
            evict_oldest(self._redirects, _MAX_SOURCES)
        else:
            self._pages[outcome.lead.key] = (host, places)
            evict_oldest(self._pages, _MAX_SOURCES)

    def _credit(self, outcome: Outcome, host: str, places: list[str]) -> None:
        """Lower the evidence against other places that led to a hit."""
        lead = outcome.lead
        limits = self._limits
        for source in (self._pages.get(lead.parent), self._redirects.pop(lead.key, None)):
            site = self._hosts.get(source[0]) if source is not None else None
            if source is None or site is None:
                continue
            site.recent_hits += source[0] != host
            for name in source[1]:
                place = site.places.get(name)
                if place is not None and (source[0] != host or name not in places):
                    place.evidence = max(0.0, place.evidence - log(limits.good_share / limits.poor_share))

    def _give_up(self, host: str, name: str, frontier: Frontier, now: float) -> TrapFound:
        site = self._hosts[host]
        poor = site.places[name]
        for wider in site.places:
            # What this place accounts for does not count against the places around it.
            if name.startswith(wider) and wider != name:
                site.places[wider].evidence = max(0.0, site.places[wider].evidence - poor.evidence)
        poor.evidence = 0.0
        if poor.tries > site.places[WHOLE_HOST].tries / 2:
            self._beginnings.set_barren(site.beginning, True)
        copies = f", {poor.copies} copies or soft 404s" if poor.copies else ""
        place = GivenUpPlace(host, name, "", retry_at=self._retry_time(0))
        counts = f"{poor.hits} of {poor.tries} fetches brought a new relevant page{copies}"
        place.reason = f"trap: low yield of {place.pattern}: {counts}"
        self._given_up.setdefault(host, {})[name] = place
        frontier.drop_host(host, place.reason, place.pattern)
        return TrapFound(at=now, host=host, pattern=place.pattern, reason=f"low yield: {counts}")

    def _find_given_up(self, host: str, places: list[str]) -> GivenUpPlace | None:
        closed = self._given_up.get(host)
        if closed is None:
            return None
        return next((closed[name] for name in places if name in closed), None)

    def _start_trials(self, frontier: Frontier, now: float) -> Iterator[Event]:
        """Queue the best URLs of places whose time has come, and of all where nothing else is left."""
        stats = frontier.stats()
        idle = not stats.queued and not stats.leased
        for place in self.given_up:
            if place.on_trial and not idle:
                continue
            if self._fetches >= place.retry_at or (idle and place.trials < 3):
                limit = self._limits.trial_urls * (_IDLE_FACTOR if idle else 1)
                keys = frontier.readmit(place.host, place.reason, limit, now)
                place.trials += 1
                place.on_trial = len(keys)
                place.retry_at = self._retry_time(place.trials)
                if keys:
                    yield TrapRetried(at=now, host=place.host, pattern=place.pattern, urls=len(keys))

    def _count_trial(self, place: GivenUpPlace, hit: bool) -> None:
        if place.on_trial:
            place.on_trial -= 1
            if hit and place not in self._admitted:
                self._admitted.append(place)

    def _admit(self, place: GivenUpPlace, frontier: Frontier, now: float) -> Event:
        """Queue everything of a place again."""
        del self._given_up[place.host][place.place]
        if not self._given_up[place.host]:
            del self._given_up[place.host]
        site = self._host_yield(place.host)
        site.misses = 0.0
        self._beginnings.set_barren(site.beginning, False)
        keys = frontier.readmit(place.host, place.reason, _EVERYTHING, now)
        return TrapRetried(at=now, host=place.host, pattern=place.pattern, urls=len(keys))

    def _retry_time(self, trials: int) -> int:
        return self._fetches + self._limits.retry_after * int(3 ** min(trials, 10))

    def _host_yield(self, host: str) -> _HostYield:
        site = self._hosts.get(host)
        if site is None:
            evict_oldest(self._hosts, self._limits.max_hosts - 1)
            site = self._hosts[host] = _HostYield()
        return site
