"""Waste control: the share of a host in the budget follows what it yields.

Every fetch is counted for its places (`places_of`): host, directories, and patterns of URLs, such as those with a
certain parameter or those that differ only in numbers. A fetch is a hit if it brings a new relevant page; a place also
gets credit for relevant pages elsewhere that it links or redirects to, so listings and hubs are not traps. For each
place a CUSUM test compares two rates: half of what productive hosts yield at present, and a tenth of it. When the
evidence for the lower one suffices, the place is given up: its queued URLs are dropped and new ones are refused. After
some hundred fetches elsewhere its best URLs are tried again, and one hit admits all of them. Copies and soft 404s count
double, and so do pages that repeat the words of the pages before, where other places have relevant pages in words of
their own.

A host that leads to ever new sub-domains has no place that is fetched often. So fetches that come from a link between
hosts of the same domain also count for the domain, which is given up in the same way. Links from elsewhere do not count
for it: hosts of strangers share domains such as `github.io`.

So is a host given up whose beginning promises little compared with those of productive hosts (`HostBeginnings`). The
rates of relevant pages among the first fetches of the productive hosts are a sample of a population, here a beta
distribution. Each host is a member of it or barren; the prior odds are the numbers of productive and of barren hosts so
far. From these and from its own fetches follows what the next fetch of a host is expected to yield. After some traps,
the next one needs fewer fetches. Where productive hosts often begin with rows of misses, a new one may as well.

Memory is bounded, and an ordinary page costs a few microseconds.
"""

from collections.abc import Collection as AnyCollection
from collections.abc import Iterator, Sequence
from math import log
from typing import NamedTuple

from opilio.core.caches import evict_oldest
from opilio.core.events import Event, TrapFound, TrapRetried
from opilio.core.protocols import Frontier
from opilio.core.records import Outcome, url_key
from opilio.engine.politeness.host_yield import (
    WHOLE_HOST,
    DomainYield,
    GivenUpPlace,
    HostBeginnings,
    HostYield,
    Place,
    YieldLimits,
    domain_of,
    foreign_domain,
    is_pattern,
    places_of,
)
from opilio.engine.politeness.repeated_pages import RepeatedPages

_EVERYTHING = 1 << 30
# A trial is larger where nothing else is left to fetch.
_IDLE_FACTOR = 10
_MAX_PLACES = 1_000  # of one host; also hosts of one domain
_MAX_STRANGERS = 100  # of one host
# Pages and redirects that may still get credit.
_MAX_SOURCES = 20_000


class _PoorPlace(NamedTuple):
    """A place that should be given up. `overlapping`: the places of one of its URLs."""

    host: str
    name: str
    overlapping: Sequence[str] = ()


class YieldMonitor:
    """Learns what hosts, directories and URL patterns yield, and gives up those that waste the budget."""

    def __init__(self, limits: YieldLimits | None = None, given_up: Sequence[GivenUpPlace] = ()) -> None:
        self._limits = limits or YieldLimits()
        self._hosts: dict[str, HostYield] = {}
        self._domains: dict[str, DomainYield] = {}
        # URL key -> host and places that get credit: of fetched pages, and of URLs that redirect to the key.
        self._pages: dict[int, tuple[str, list[str]]] = {}
        self._redirects: dict[int, tuple[str, list[str]]] = {}
        # Patterns given up on some hosts -> how much less evidence suffices on others.
        self._patterns_given_up: dict[str, float] = {}
        self._productive: set[str] = set()
        self._beginnings = HostBeginnings()
        # Hits and tries on productive hosts, decayed.
        self._reference = [0.0, 0.0]
        # The highest reference rate so far.
        self._best_rate = 0.0
        self._hits = self._fetches = 0
        self._repeated = RepeatedPages(self._limits.min_hits)
        self._given_up: dict[str, dict[str, GivenUpPlace]] = {}
        # By a hit of their trial.
        self._admitted: list[GivenUpPlace] = []
        for place in given_up:
            self._given_up.setdefault(place.host, {})[place.place] = place
            place.retry_at, place.on_trial = self._retry_time(place.trials), 0

    @property
    def given_up(self) -> list[GivenUpPlace]:
        return [place for places in self._given_up.values() for place in places.values()]

    def refusal_reason(self, url: str) -> str:
        """Why a new URL is not queued, or nothing."""
        host = url.partition("://")[2].partition("/")[0]
        if host not in self._hosts:
            self._remember_host(host)
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
            if poor is not None and not any(host in protected for host in self._hosts_of(poor.host)):
                events += [self._give_up(poor, frontier, now)]
        events += [self._admit(place, frontier, now) for place in self._admitted]
        self._admitted.clear()
        if self._given_up:
            events += self._start_trials(frontier, now)
        return events

    def _record(self, outcome: Outcome) -> _PoorPlace | None:
        """Count one fetch; returns a place that should be given up."""
        self._fetches += 1
        # A failure leads nowhere, so it is no part of a trap; dead links are common on honest sites.
        if outcome.analysis is None and not outcome.fetched.location:
            return None
        host, places = places_of(outcome.lead.url)
        site = self._host_yield(host)
        domain = self._domain_within(outcome, host)
        copied = self._repeated.repeats(outcome, (self._domains[domain] if domain else site).words)
        hit = outcome.relevant and not copied
        self._update_reference(host, hit)
        if outcome.lead.parent:
            self._beginnings.add(site.beginning, hit)
        self._remember_source(outcome, host, places)
        if hit:
            self._credit(outcome, host, places)
        site.recent_hits = site.recent_hits * self._limits.hit_memory + hit
        if not hit and self._counts_for_host(outcome, host, site):
            site.misses += self._limits.copy_weight if copied else 1
        step = self._evidence_step(hit, copied)
        for name in places:
            place = site.places.get(name) or site.add_place(name, _MAX_PLACES)
            if place is None:
                continue
            place.tries += 1
            place.hits += hit
            place.copies += copied
            place.evidence = max(0.0, place.evidence + step)
        poor_domain = self._count_for_domain(domain or domain_of(host), host, step if hit or domain else 0.0, hit)
        if self._given_up and (closed := self._find_given_up(host, places)) is not None:
            self._count_trial(closed, hit)
            return None
        if hit or self._hits < self._limits.min_hits:
            return None
        poor = self._poorest_place(host, places, site)
        return poor or (_PoorPlace(f"*.{domain}", WHOLE_HOST) if poor_domain else None)

    def _domain_within(self, outcome: Outcome, host: str) -> str:
        """The domain of a host that was reached from another host of it, or nothing."""
        lead = outcome.lead
        source = self._redirects.get(lead.key) or self._pages.get(lead.parent)
        if source is None or source[0] == host:
            return ""
        domain = domain_of(host)
        return domain if domain in self._domains and domain == domain_of(source[0]) else ""

    def _counts_for_host(self, outcome: Outcome, host: str, site: HostYield) -> bool:
        """Does a miss say what to expect of the host? A stranger may link only its pages off the topic."""
        source = self._pages.get(outcome.lead.parent)
        stranger = foreign_domain(source[0], host) if source is not None else ""
        if not stranger:
            return True
        evict_oldest(site.foreign_misses, _MAX_STRANGERS - 1)
        misses = site.foreign_misses.get(stranger, 0)
        site.foreign_misses[stranger] = misses + 1
        return misses < self._limits.foreign_misses

    def _count_for_domain(self, name: str, host: str, step: float, hit: bool) -> bool:
        """Count a fetch through a link inside a domain, and each hit; is the domain poor?"""
        domain = self._domains.get(name)
        if domain is None or not step:
            return False
        place, limits = domain.place, self._limits
        place.tries += 1
        place.hits += hit
        place.evidence = max(0.0, place.evidence + step)
        if len(domain.fetched) < limits.min_domain_hosts:
            domain.fetched.add(host)
            return False
        return place.evidence >= limits.evidence and self._is_barren(place)

    def _remember_host(self, host: str) -> None:
        """Note a host with URLs that may be queued, so that it can be dropped with its domain."""
        name = domain_of(host)
        domain = self._domains.get(name)
        if domain is None and name:
            evict_oldest(self._domains, self._limits.max_hosts - 1)
            domain = self._domains[name] = DomainYield()
        if domain is not None and len(domain.hosts) < _MAX_PLACES:
            domain.hosts[host] = None

    def _hosts_of(self, host: str) -> list[str]:
        """A host, or those of a domain if it is one."""
        return list(self._domains[host[2:]].hosts) if host.startswith("*.") else [host]

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

    def _poorest_place(self, host: str, places: list[str], site: HostYield) -> _PoorPlace | None:
        """The first barren place with enough evidence, directories before the host: the rest of it stays."""
        for name in reversed(places):
            place = site.places.get(name)
            enough = self._limits.evidence - self._patterns_given_up.get(name, 0.0)
            if place is not None and place.evidence >= enough and self._is_barren(place):
                return _PoorPlace(host, name, places)
        return _PoorPlace(host, WHOLE_HOST, places) if self._promises_little(site) else None

    def _promises_little(self, site: HostYield) -> bool:
        """Is little expected of the next fetch, compared with what productive hosts yield at first?"""
        limits, whole = self._limits, site.places[WHOLE_HOST]
        if whole.tries < limits.min_host_tries or whole.hits > 1 or self._beginnings.hosts < limits.min_hosts:
            return False
        expected = self._beginnings.expected_rate(site.recent_hits, site.misses)
        return expected < limits.expected_share * self._beginnings.mean_rate

    def _is_barren(self, place: Place) -> bool:
        """Did it never yield much? Exhausted places that were productive do not count."""
        return place.hits <= max(1, self._limits.barren_share * place.tries)

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

    def _give_up(self, found: _PoorPlace, frontier: Frontier, now: float) -> TrapFound:
        host, name = found.host, found.name
        hosts = self._hosts_of(host)
        site = self._hosts.get(host)
        poor = self._close_place(site, found) if site is not None else self._domains[host[2:]].place
        poor.evidence = 0.0
        copies = f", {poor.copies} copies or soft 404s" if poor.copies else ""
        place = GivenUpPlace(host, name, "", retry_at=self._retry_time(0), hosts=hosts if site is None else [])
        counts = f"{poor.hits} of {poor.tries} fetches brought a new relevant page{copies}"
        place.reason = f"trap: low yield of {place.pattern}: {counts}"
        self._given_up.setdefault(host, {})[name] = place
        for dropped in hosts:
            frontier.drop_host(dropped, place.reason, place.contains)
        return TrapFound(at=now, host=host, pattern=place.pattern, reason=f"low yield: {counts}")

    def _close_place(self, site: HostYield, found: _PoorPlace) -> Place:
        """The place, after what it accounts for no longer counts against the places that it shares URLs with.

        Half of it still counts against patterns: many paths may be given up for the same parameter.
        """
        poor = site.places[found.name]
        for name in found.overlapping:
            if is_pattern(name):
                self._note_pattern(name)
            other = site.places.get(name)
            if other is not None and other is not poor:
                share = self._limits.pattern_share if is_pattern(name) else 1.0
                other.evidence = max(0.0, other.evidence - share * poor.evidence)
        if poor.tries > site.places[WHOLE_HOST].tries / 2:
            self._beginnings.set_barren(site.beginning, True)
        return poor

    def _note_pattern(self, name: str) -> None:
        """On the next host with a pattern that was given up, or was part of it, fewer fetches suffice."""
        evict_oldest(self._patterns_given_up, _MAX_PLACES - 1)
        most = self._limits.known_share * self._limits.evidence
        self._patterns_given_up[name] = min(most, self._patterns_given_up.get(name, 0.0) + most / 2)

    def _find_given_up(self, host: str, places: list[str]) -> GivenUpPlace | None:
        closed = self._given_up.get(host)
        if closed is not None and (found := next((closed[name] for name in places if name in closed), None)):
            return found
        whole = self._given_up.get(f"*.{domain_of(host)}")
        return whole[WHOLE_HOST] if whole else None

    def _readmit(self, place: GivenUpPlace, limit: int, frontier: Frontier, now: float) -> list[int]:
        """Queue up to `limit` URLs of a place again; returns their keys."""
        keys: list[int] = []
        for host in place.hosts or [place.host]:
            if len(keys) < limit:
                keys += frontier.readmit(host, place.reason, limit - len(keys), now)
        return keys

    def _start_trials(self, frontier: Frontier, now: float) -> Iterator[Event]:
        """Queue the best URLs of places whose time has come, and of all where nothing else is left."""
        stats = frontier.stats()
        idle = not stats.queued and not stats.leased
        for place in self.given_up:
            if place.on_trial and not idle:
                continue
            if self._fetches >= place.retry_at or (idle and place.trials < 3):
                limit = self._limits.trial_urls * (_IDLE_FACTOR if idle else 1)
                keys = self._readmit(place, limit, frontier, now)
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
        if not place.hosts:
            site = self._host_yield(place.host)
            site.misses = 0.0
            self._beginnings.set_barren(site.beginning, False)
        keys = self._readmit(place, _EVERYTHING, frontier, now)
        return TrapRetried(at=now, host=place.host, pattern=place.pattern, urls=len(keys))

    def _retry_time(self, trials: int) -> int:
        return self._fetches + self._limits.retry_after * int(3 ** min(trials, 10))

    def _host_yield(self, host: str) -> HostYield:
        site = self._hosts.get(host)
        if site is None:
            evict_oldest(self._hosts, self._limits.max_hosts - 1)
            site = self._hosts[host] = HostYield()
        return site
