"""A simulated web and the network to it: latency, loss, resets, overload, redirects, odd answers, robots.txt.

Everything is a function of the seed and of the number of the request for a URL, whatever the order of the requests.
The network also watches: politeness, robots.txt and pages that are requested although they are stored.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from opilio.core.clock import Clock
from opilio.core.records import Failure, FetchResult
from opilio.core.urls import host_of

HTML = ("Content-Type", "text/html; charset=utf-8")
WORDS = "wren bird song nest egg feather robin small brown garden winter flight railway engine freight station".split()
LOST_S = 30.0  # a request without an answer
TOLERANCE_S = 1e-6  # of times since 1970 in a float


@dataclass(frozen=True, slots=True)
class WebPage:
    """What a URL answers when nothing goes wrong."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = (HTML,)
    body: bytes = b""
    location: str = ""
    links: tuple[str, ...] = ()

    @property
    def is_page(self) -> bool:
        """Whether a crawl stores it."""
        return self.status == 200 and any(value.startswith("text/") for _, value in self.headers)


@dataclass(slots=True)
class SimulatedWeb:
    """The pages and rules of all hosts."""

    pages: dict[str, WebPage] = field(default_factory=dict)
    robots: dict[str, WebPage] = field(default_factory=dict)  # by host
    crawl_delay_s: dict[str, float] = field(default_factory=dict)

    @property
    def hosts(self) -> list[str]:
        return sorted(self.robots)


def make_web(rng: random.Random) -> SimulatedWeb:
    """5 to 14 pages on one to four hosts."""
    web = SimulatedWeb()
    hosts = [f"h{number}.example" for number in range(rng.randint(1, 4))]
    urls = [f"http://{rng.choice(hosts)}/{name}{number}" for number in range(rng.randint(5, 14)) for name in ("p",)]
    private = [f"http://{host}/private" for host in hosts if rng.random() < 0.3]
    for number, url in enumerate(urls):
        # Every page is linked from an earlier one, so that all can be found.
        links = [*rng.sample(urls, min(len(urls), rng.randint(0, 3))), *urls[2 * number + 1 : 2 * number + 3], *private]
        web.pages[url] = _make_page(rng, url, urls, tuple(dict.fromkeys(links)))
    for host in hosts:
        web.robots[host] = WebPage(status=404) if rng.random() < 0.4 else _make_robots(rng, web, host)
    return web


def _make_robots(rng: random.Random, web: SimulatedWeb, host: str) -> WebPage:
    text = "User-agent: *\nDisallow: /private\n"
    if rng.random() < 0.3:
        web.crawl_delay_s[host] = rng.choice((2.0, 5.0))
        text += f"Crawl-delay: {web.crawl_delay_s[host]:g}\n"
    return WebPage(headers=(("Content-Type", "text/plain"),), body=text.encode())


def _make_page(rng: random.Random, url: str, urls: list[str], links: tuple[str, ...]) -> WebPage:
    kind = rng.random()
    if url == urls[0] or kind < 0.7:
        text = " ".join(rng.choices(WORDS, k=rng.randint(5, 40)))
        anchors = "".join(f'<p><a href="{link}">{rng.choice(WORDS)}</a></p>' for link in links)
        return WebPage(body=f"<title>{text[:20]}</title><p>{text}</p>{anchors}".encode(), links=links)
    if kind < 0.8:
        return WebPage(status=rng.choice((301, 302)), location=rng.choice(urls))
    if kind < 0.85:
        return WebPage(status=rng.choice((404, 410, 403)))
    if kind < 0.9:
        return WebPage(headers=(("Content-Type", "text/plain"),), body=b"a wren in plain text")
    if kind < 0.95:
        return WebPage(headers=(("Content-Type", "image/png"),), body=b"\x89PNG")
    return WebPage(body=rng.randbytes(rng.randint(0, 300)))


@dataclass(slots=True)
class HostTraffic:
    """What a host has seen of the crawl, over all its processes."""

    in_flight: int = 0
    ended_at: float = 0.0  # the last request
    robots_known: bool = False  # to the process that runs


class SimulatedNetwork:
    """The fetcher of a simulated crawl. `step` is called when a request leaves and when its answer arrives."""

    def __init__(self, seed: int, web: SimulatedWeb, delay_s: float, problem: Callable[[str], None]) -> None:
        self.web = web
        self.stored: set[str] = set()  # pages that are committed: they must not be requested again
        self.requests: Counter[str] = Counter()
        self._seed = seed
        self._delay_s = delay_s
        self._problem = problem
        self._traffic = {host: HostTraffic() for host in web.hosts}

    def connect(self, clock: Clock, step: Callable[[str], None], is_dead: Callable[[], bool]) -> "NetworkClient":
        """The fetcher of one process."""
        return NetworkClient(self, clock, step, is_dead)

    def process_ended(self, now: float) -> None:
        """Requests of a process that is gone count as ended now."""
        for traffic in self._traffic.values():
            if traffic.in_flight:
                traffic.in_flight = 0
                traffic.ended_at = now

    def process_started(self, stored: set[str], hosts_with_rules: set[str]) -> None:
        """A process knows the pages and rules that are stored; what an earlier one only received is lost."""
        self.stored = stored
        for host, traffic in self._traffic.items():
            traffic.robots_known = host in hosts_with_rules

    def started(self, url: str, now: float) -> None:
        host = host_of(url)
        traffic = self._traffic[host]
        self.requests[url] += 1
        if traffic.in_flight:
            self._problem(f"two requests to {host} at the same time: {url}")
        early_s = traffic.ended_at + self._pause_s(host) - now
        if traffic.ended_at and early_s > TOLERANCE_S:
            self._problem(f"{url} was requested {early_s:.6f} s too early")
        traffic.in_flight += 1
        if url.endswith("/robots.txt"):
            return
        if not traffic.robots_known:
            self._problem(f"{url} was requested before robots.txt")
        if url.endswith("/private") and self.web.robots[host].status == 200:
            self._problem(f"{url} is disallowed")
        if url in self.stored:
            self._problem(f"{url} is stored and was requested again")

    def ended(self, fetched: FetchResult, now: float) -> None:
        host = host_of(fetched.url)
        traffic = self._traffic[host]
        traffic.in_flight -= 1
        if fetched.url.endswith("/robots.txt") and 200 <= fetched.status < 500 and fetched.status != 429:
            traffic.robots_known = True
        traffic.ended_at = now

    def _pause_s(self, host: str) -> float:
        wanted = self.web.crawl_delay_s.get(host, 0.0) if self._traffic[host].robots_known else 0.0
        return max(self._delay_s, wanted)

    def respond(self, url: str, started_at: float) -> tuple[float, FetchResult]:
        """How long the answer takes, and what it is."""
        rng = random.Random(f"{self._seed} {url} {self.requests[url]}")
        latency_s = rng.choice((0.0, 0.01, 0.1, 0.5, 2.0)) * rng.uniform(0.5, 1.5)
        chance = rng.random()
        answer = FetchResult(url=url, address="10.0.0.1", started_at=started_at, elapsed_s=latency_s)
        if chance < 0.04:
            return LOST_S, replace(answer, failure=Failure("timeout", "no answer", retry=True))
        if chance < 0.08:
            return latency_s, replace(answer, failure=Failure("connect", "connection reset", retry=True))
        if chance < 0.11:
            return latency_s, replace(answer, status=rng.choice((429, 503)), retry_after_s=rng.choice((0.0, 1.0, 8.0)))
        if chance < 0.13:
            return latency_s, replace(answer, status=500)
        host = host_of(url)
        known = self.web.robots[host] if url.endswith("/robots.txt") else self.web.pages.get(url, WebPage(status=404))
        return latency_s, replace(
            answer, status=known.status, headers=known.headers, body=known.body, location=known.location
        )


class NetworkClient:
    """See `Fetcher`: the network as one process sees it."""

    def __init__(
        self, network: SimulatedNetwork, clock: Clock, step: Callable[[str], None], is_dead: Callable[[], bool]
    ) -> None:
        self._network = network
        self._clock = clock
        self._step = step
        self._is_dead = is_dead

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> FetchResult:
        del validators  # nothing is revisited
        await self._live("request")
        started_at = self._clock.now()
        self._network.started(url, started_at)
        latency_s, answer = self._network.respond(url, started_at)
        try:
            await self._clock.sleep(latency_s)
        finally:  # also where the request was cancelled
            if not self._is_dead():
                self._network.ended(answer, self._clock.now())
        await self._live("response")
        return answer

    async def _live(self, name: str) -> None:
        """One step; a process that is dead takes no other."""
        self._step(name)
        if self._is_dead():
            await asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        """Nothing is open."""
