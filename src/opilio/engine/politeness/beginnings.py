"""How hosts begin: what the first fetches of productive hosts yielded is the expectation for a new host.

The rates of relevant pages among the first fetches of the productive hosts are a sample of a population, here a beta
distribution. Each host is a member of it or barren; the prior odds are the numbers of productive and of barren hosts
so far. From these and from its own fetches follows what the next fetch of a host is expected to yield. After some
traps, the next one needs fewer fetches. Where productive hosts often begin with rows of misses, a new one may as well.
"""

from math import exp, lgamma, log

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
