"""What waste control knows about hosts: their places, what was fetched from each, and the population of all hosts."""

import re
from functools import lru_cache
from math import exp, lgamma, log

import msgspec

from opilio.engine.politeness.repeated_pages import SeenWords

_BEGINNING = 20  # fetches
# Of a host that counts for the population.
_MIN_TRIES = 5
# Of one host that is added to the sample: the next one may be poorer than all before.
_UNSEEN_RATE = 0.1
_BARREN_RATE = 0.02  # of barren hosts: judges err
# Of the distribution: a small sample never excludes different hosts.
_MAX_CONCENTRATION = 20.0
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
        # Productive ones.
        self.hosts = 0
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


class YieldLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When to give up a place, and when to try it again. Measured in docs/lab/traps.md."""

    # A place is good if it yields the first share of the reference rate, and poor if it yields the second one.
    good_share: float = 0.5
    poor_share: float = 0.1
    # Log-likelihood ratio at which a place is given up.
    evidence: float = 6.0
    # Of the whole crawl, before any place is given up.
    min_hits: int = 5
    # Lowest reference rate: below it, evidence would take hundreds of fetches.
    min_rate: float = 0.12
    # A crawl that has found nearly all pages has a low rate; a trap found then is still poor beside what it was before.
    best_share: float = 0.5  # of the highest reference rate so far
    # Of a reference rate that may be the highest.
    min_tries: int = 20
    # Of the hits of a host, per fetch: its yield may end.
    hit_memory: float = 0.9
    # Of what productive hosts yield at first; a host with a lower expectation is given up.
    expected_share: float = 0.1
    # Productive ones: fewer are no expectation for others.
    min_hosts: int = 5
    # Of a host that is given up for its expectation.
    min_host_tries: int = 6
    # Of one other domain that links to a host: more say nothing about the rest of the host.
    foreign_misses: int = 3
    # Of the evidence against a place that was given up: no longer counts against its patterns.
    pattern_share: float = 0.5
    # Of the evidence that suffices: what need not be there against a pattern that was given up on other hosts.
    known_share: float = 0.6
    # Hits per fetch; a place that yielded more is never given up.
    barren_share: float = 0.03
    memory: float = 0.995  # of the reference rate, per fetch
    # Of a copy or soft 404, in ordinary misses.
    copy_weight: float = 2.0
    # Fetches until the first trial; three times as many until the next.
    retry_after: int = 500
    trial_urls: int = 2
    max_hosts: int = 10_000
    # Fetched ones of a domain that is given up.
    min_domain_hosts: int = 3


class Place:
    """What was fetched from one place."""

    __slots__ = ("copies", "evidence", "hits", "tries")

    def __init__(self) -> None:
        self.evidence = 0.0
        self.tries = self.hits = self.copies = 0


class HostYield:
    __slots__ = ("beginning", "foreign_misses", "misses", "places", "recent_hits", "words")

    def __init__(self) -> None:
        self.beginning = Beginning()
        # Relevant pages there and elsewhere that it led to, decayed.
        self.recent_hits = 0.0
        # Since it was admitted; copies count double.
        self.misses = 0.0
        # Through links of other domains.
        self.foreign_misses: dict[str, int] = {}
        self.places: dict[str, Place] = {}
        self.words = SeenWords()

    def add_place(self, name: str, most: int) -> Place | None:
        """A new place, or None if there are too many that were fetched from more than once."""
        if len(self.places) >= most:
            self.places = {name: place for name, place in self.places.items() if place.tries > 1}
            if len(self.places) > most // 2:
                return None
        place = self.places[name] = Place()
        return place


class DomainYield:
    """What was fetched from the hosts of a domain through links between them."""

    __slots__ = ("fetched", "hosts", "place", "words")

    def __init__(self) -> None:
        self.place = Place()
        # The first few.
        self.fetched: set[str] = set()
        # With URLs in the queue, now or before.
        self.hosts: dict[str, None] = {}
        self.words = SeenWords()


class GivenUpPlace(msgspec.Struct):
    """A place that yields too little; stored with the collection."""

    host: str
    place: str
    # Recorded with every URL that was dropped.
    reason: str
    trials: int = 0
    retry_at: int = 0  # number of fetches of this run
    on_trial: int = 0  # URLs whose result is awaited
    # Of a domain; `host` is then "*." and the domain.
    hosts: list[str] = []

    @property
    def pattern(self) -> str:
        """A glob of its URLs, for readers: `[0-9]*` stands for a number."""
        escaped = "".join(f"[{c}]" if c in "*?[" else c for c in self.place).replace("#", "[0-9]*")
        if self.place.startswith(_PARAMETER):
            return f"*://{self.host}/*[?&;]{escaped.removeprefix('[?]')}*"
        if self.place.startswith(_SHAPE):
            return f"*://{self.host}{escaped.removeprefix(_SHAPE)}"
        return f"*://{self.host}{escaped or '/'}*"

    def contains(self, url: str) -> bool:
        """Does this URL of its host, or of a host of its domain, belong to it?"""
        return self.place in places_of(url)[1]


# The first characters of names of places.
_PARAMETER, _SHAPE = "?", "="
_NUMBER = re.compile(r"\d+")
_MAX_PARAMETERS = 6  # of one URL
_MAX_NAME_LENGTH = 40


def is_pattern(place: str) -> bool:
    """Is it a set of URLs in many directories?"""
    return place.startswith((_PARAMETER, _SHAPE))


def places_of(url: str) -> tuple[str, list[str]]:
    """The host of a URL and its places there, in the reverse order in which they are considered.

    They are its path with `#` for each number, the parameters of its query, the host, its first two directories, and
    its path with any query. Patterns are considered last: they are for traps among the good pages of a host.

    >>> places_of("http://a.example/events/2026/5?day=3")
    ('a.example', ['=/events/#/#', '?day=', '', '/events/', '/events/#/', '/events/2026/5?'])
    """
    host, slash, rest = url.partition("://")[2].partition("/")
    path, mark, query = rest.partition("?")
    shape = _NUMBER.sub("#", path)
    places = [f"{_SHAPE}/{shape}"] if shape != path else []
    if mark:
        parameters = query.replace(";", "&").split("&")[:_MAX_PARAMETERS]
        names = {_NUMBER.sub("#", part.partition("=")[0][:_MAX_NAME_LENGTH]): None for part in parameters}
        places += [f"{_PARAMETER}{name}=" for name in names if name]
    places.append(WHOLE_HOST)
    prefix = slash
    for folder in path.split("/")[:-1][:2]:
        prefix += "#/" if folder.isdecimal() else folder + "/"
        places.append(prefix)
    if mark:
        places.append(f"/{path}?")
    return host, places


@lru_cache(maxsize=4096)
def domain_of(host: str) -> str:
    """About the registrable domain of a host: its last two labels, three where the last ones look like `co.uk`.

    >>> domain_of("a.b.trap.example"), domain_of("www.bbc.co.uk"), domain_of("127.0.0.1:8080"), domain_of("localhost")
    ('trap.example', 'bbc.co.uk', '', '')
    """
    labels = host.partition(":")[0].rsplit(".", 3)
    last = labels[-1]
    if len(labels) < 2 or not last or last[-1].isdecimal():
        return ""
    count = 3 if len(last) == 2 and len(labels[-2]) <= 3 else 2
    return ".".join(labels[-count:]) if len(labels) >= count else ""


def foreign_domain(source: str, host: str) -> str:
    """The domain of the host `source`, or nothing if the other host belongs to the same domain.

    >>> foreign_domain("www.a.example", "a.example"), foreign_domain("b.example", "a.example")
    ('', 'b.example')
    """
    domain = domain_of(source) or source
    return "" if domain == (domain_of(host) or host) else domain
