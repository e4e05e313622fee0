"""Webs that do not stay as they are: faults of hosts, and pages that change.

Faults (delays, errors, throttling) are the same for server and replay. An optional `hosts.toml` in a web's folder lists
them:

    [[host]]
    name = "www.example.org"
    delay_s = 0.5
    error_rate = 0.2         # share of requests answered with 503
    most_per_s = 2.0         # more than that are answered with 429 and Retry-After

In a changing web, pages of any web change, move, vanish and appear on a schedule that the evaluation knows.
Deterministic from a seed. Rates of change differ by host, by directory and by page, as on the web. Volatile content (an
advert, a clock) differs in every response and does not count as a change. A link appears when its target does.
"""

import random
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import xxhash
from msgspec import Meta

from opilio.core.clock import DAY_S, Clock
from opilio.core.errors import OfflineWebError
from opilio.core.files import parse_toml
from opilio.core.settings import describe_validation_error
from opilio.core.urls import canonicalize_url, host_of
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.experiments.declarations import MAX_DELAY_S
from opilio.lab.webs.web import ResponseSource


class HostFaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    delay_s: Annotated[float, Meta(ge=0, le=MAX_DELAY_S)] = 0.0
    error_rate: Annotated[float, Meta(ge=0, le=1)] = 0.0
    most_per_s: Annotated[float, Meta(ge=0)] = 0.0  # 0: no limit

    def fails(self, url: str, attempt: int) -> bool:
        """Does this attempt fail? A fixed draw from URL and number, so that a run can be repeated."""
        return self.error_rate > 0 and hash_fraction(f"{attempt} {url}") < self.error_rate


Faults = Mapping[str, HostFaults]
TOO_MANY_REQUESTS = 429
SERVICE_UNAVAILABLE = 503


class InjectedFault(NamedTuple):
    """The fault of one request."""

    status: int = 0  # replaces the response; 0: none
    delay_s: float = 0.0


_NO_FAULT = InjectedFault()


class FaultInjector:
    """The fault of each request, asked for in their order. robots.txt has none: it is free for every crawler."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._attempts: dict[str, int] = {}
        self._recent: dict[str, deque[float]] = {}

    def next_fault(self, host: str, target: str, now: float) -> InjectedFault:
        """The fault of the next request; `target` is its path and query."""
        fault = self._faults.get(host)
        if fault is None or target == "/robots.txt":
            return _NO_FAULT
        if fault.most_per_s and self._exceeds_rate(fault, now):
            return InjectedFault(TOO_MANY_REQUESTS)
        url = host + target
        attempt = self._attempts[url] = self._attempts.get(url, 0) + 1
        return InjectedFault(SERVICE_UNAVAILABLE if fault.fails(url, attempt) else 0, fault.delay_s)

    def _exceeds_rate(self, fault: HostFaults, now: float) -> bool:
        recent = self._recent.setdefault(fault.name, deque())
        while recent and recent[0] <= now - 1:
            recent.popleft()
        if len(recent) >= fault.most_per_s:
            return True
        recent.append(now)
        return False


class _FaultsFile(msgspec.Struct, forbid_unknown_fields=True):
    host: tuple[HostFaults, ...] = ()


def load_faults(folder: Path) -> dict[str, HostFaults]:
    """The faults declared in a web's folder; empty without `hosts.toml`."""
    path = folder / "hosts.toml"
    try:
        table = parse_toml(path.read_text("utf-8-sig"))
        return {fault.name: fault for fault in msgspec.convert(table, _FaultsFile).host}
    except FileNotFoundError:
        return {}
    except msgspec.ValidationError as error:
        raise OfflineWebError(f"{path}: {describe_validation_error(error)}") from error
    except (OSError, ValueError) as error:
        raise OfflineWebError(f"{path}: {error}") from error


def merge_faults(hosts: Iterable[str], own: Faults, every: HostFaults | None) -> dict[str, HostFaults]:
    """Faults of all hosts merged with those of single hosts; the worse of the two counts."""
    if every is None or not (every.delay_s or every.error_rate or every.most_per_s):
        return dict(own)
    return {name: _worst_of(name, own.get(name, HostFaults(name=name)), every) for name in hosts}


def _worst_of(name: str, one: HostFaults, other: HostFaults) -> HostFaults:
    limits = [rate for rate in (one.most_per_s, other.most_per_s) if rate]
    return HostFaults(
        name=name,
        delay_s=max(one.delay_s, other.delay_s),
        error_rate=max(one.error_rate, other.error_rate),
        most_per_s=min(limits, default=0.0),
    )


def hash_fraction(name: str, seed: int = 0) -> float:
    """A number in 0..1 that depends only on name and seed."""
    return xxhash.xxh3_64_intdigest(name.encode("utf-8", "surrogatepass"), seed) / 2**64


_HTML = ("Content-Type", "text/html; charset=utf-8")
_ANCHOR = re.compile(rb"<a\b[^>]*?\bhref\s*=\s*[\"']?([^\"'\s>]+)[^>]*>.*?</a>", re.IGNORECASE | re.DOTALL)
_WORD = re.compile(r"[a-z]{4,12}")
_TAG = re.compile(r"<[^>]*>")
_BODY = re.compile(rb"<body[^>]*>", re.IGNORECASE)
_SOFT_404_BODY = (
    b"<html><head><title>Page not found</title></head><body><p>Sorry, there is nothing here.</p></body></html>"
)
_ADVERTS = ("boots", "flights", "insurance", "lamps", "cheese", "carpets", "guitars", "tents")


class Churn(msgspec.Struct, frozen=True, kw_only=True):
    """How much changes. Rates are log-normal around `median_days`, spread over hosts, directories and pages."""

    seed: int = 1
    days: float = 40.0
    median_days: float = 16.0
    host_spread: float = 0.9
    directory_spread: float = 0.7
    page_spread: float = 0.9
    # Share of the pages that vanish; one in three of them as a soft 404.
    vanish_share: float = 0.06
    move_share: float = 0.04
    appear_share: float = 0.12
    # Share of the hosts that send ETag, and so respond with 304.
    etag_host_share: float = 0.5


class PageLifetime(msgspec.Struct, frozen=True, kw_only=True):
    """The schedule of one page; times in seconds since the epoch."""

    created_at: float
    edited_at: tuple[float, ...]  # of its own text
    deleted_at: float = float("inf")
    soft_404: bool = False
    moved_at: float = float("inf")
    new_url: str = ""


def build_lifetimes(urls: Sequence[str], churn: Churn, start: float, seeds: Sequence[str]) -> dict[str, PageLifetime]:
    """The schedule of every page. Seeds exist from the beginning and stay."""
    end = start + churn.days * DAY_S
    found: dict[str, PageLifetime] = {}
    for url in urls:
        rng = random.Random(f"life {churn.seed} {url}")
        born_at = rng.uniform(start, end) if url not in seeds and rng.random() < churn.appear_share else 0.0
        draw = rng.random() if url not in seeds else 1.0
        at = rng.uniform(max(start, born_at), end)
        moves = churn.vanish_share <= draw < churn.vanish_share + churn.move_share
        found[url] = PageLifetime(
            created_at=born_at,
            edited_at=_poisson_times(rng, _change_rate(url, churn, rng), max(start, born_at), end),
            deleted_at=at if draw < churn.vanish_share else float("inf"),
            soft_404=rng.random() < 1 / 3,
            moved_at=at if moves else float("inf"),
            new_url=_moved_url(url) if moves else "",
        )
    return found


def _change_rate(url: str, churn: Churn, rng: random.Random) -> float:
    """Changes per second: of the host, of the directory, of the page itself."""
    host = random.Random(f"host {churn.seed} {host_of(url)}").gauss(0.0, churn.host_spread)
    directory = random.Random(f"directory {churn.seed} {url.rpartition('/')[0]}").gauss(0.0, churn.directory_spread)
    page = rng.gauss(0.0, churn.page_spread)
    return float(2.718281828 ** (host + directory + page)) / (churn.median_days * DAY_S)


def _poisson_times(rng: random.Random, rate: float, start: float, end: float) -> tuple[float, ...]:
    at, times = start, list[float]()
    while (at := at + rng.expovariate(rate)) < end and len(times) < 5000:
        times.append(at)
    return tuple(times)


def _moved_url(url: str) -> str:
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    return canonicalize_url(f"{scheme}://{host}/moved/{path}") or url


class ChangingWeb:
    """A source whose responses depend on the time. Only pages with a lifetime exist."""

    def __init__(self, source: ResponseSource, known: Mapping[str, PageLifetime], churn: Churn, clock: Clock) -> None:
        self._source = source
        self._lifetimes = known
        self._churn = churn
        self._clock = clock
        self._original_urls = {life.new_url: url for url, life in known.items() if life.new_url}
        self._request_counter = count()
        self._cached_version = lru_cache(maxsize=20_000)(self._render_version)

    @property
    def hosts(self) -> dict[str, int]:
        return dict.fromkeys({host_of(url) for url in self._lifetimes}, 1)

    def original_url(self, url: str) -> str:
        """The first URL of a page that moved."""
        return self._original_urls.get(url, url)

    def exists_at(self, url: str, at: float) -> bool:
        """Is there a page at this URL at this time?"""
        life = self._lifetimes.get(self.original_url(url))
        if life is None or not life.created_at <= at < life.deleted_at:
            return False
        return at >= life.moved_at if url in self._original_urls else at < life.moved_at

    def created_at(self, url: str) -> float:
        """When a page appears; 0 for those that always existed."""
        return self._lifetimes[self.original_url(url)].created_at

    def disappears_at(self, url: str) -> float:
        """When the page at this URL disappears."""
        life = self._lifetimes[self.original_url(url)]
        return life.deleted_at if url in self._original_urls else min(life.deleted_at, life.moved_at)

    def edit_times(self, url: str) -> tuple[float, ...]:
        """When the text of a page is edited; new links are further changes."""
        return self._lifetimes[self.original_url(url)].edited_at

    @cache  # noqa: B019 a web lives as long as its run
    def _change_times(self, url: str) -> tuple[float, ...]:
        births = {self._lifetimes[target].created_at for _, target in self._links(url)}
        return tuple(sorted({*self._lifetimes[url].edited_at, *(at for at in births if at > 0)}))

    @cache  # noqa: B019 the same
    def _links(self, url: str) -> tuple[tuple[bytes, str], ...]:
        """Anchors that lead to pages with a lifetime."""
        answer = self._source.find(url)
        found = []
        for anchor in _ANCHOR.finditer(answer.body if answer else b""):
            target = canonicalize_url(anchor[1].decode("utf-8", "replace").replace("&amp;", "&"), url)
            if target is not None and target in self._lifetimes and target != url:
                found.append((anchor[0], target))
        return tuple(found)

    def find(self, url: str) -> RecordedResponse | None:
        """The server's current response."""
        now, first = self._clock.now(), self.original_url(url)
        life = self._lifetimes.get(first)
        if life is None or now < life.created_at:
            return None
        if now >= life.deleted_at:
            return RecordedResponse(200, (_HTML,), _SOFT_404_BODY) if life.soft_404 else None
        if url == first and now >= life.moved_at:
            return RecordedResponse(301, (("Location", life.new_url), _HTML), b"")
        if url != first and now < life.moved_at:
            return None
        version = bisect_right(self._change_times(first), now)
        tagged = random.Random(f"tag {self._churn.seed} {host_of(url)}").random() < self._churn.etag_host_share
        marks = (("ETag", f'"{version}"'),) if tagged else ()
        return RecordedResponse(200, (_HTML, *marks), self._add_noise(self._cached_version(first, version), now))

    def _render_version(self, url: str, version: int) -> bytes:
        """The page after this number of changes, without volatile content."""
        answer = self._source.find(url)
        body = answer.body if answer else b""
        times = self._change_times(url)
        at = times[version - 1] if version else 0.0
        for anchor, target in self._links(url):
            if self._lifetimes[target].created_at > at:
                body = body.replace(anchor, b"", 1)
        edits = bisect_right(self._lifetimes[url].edited_at, at)
        words = _WORD.findall(_TAG.sub(" ", body[:20_000].decode("utf-8", "replace").lower())) or ["page"]
        paragraphs = []
        # The last few edits are visible.
        for number in range(max(0, edits - 3), edits):
            rng = random.Random(f"edit {self._churn.seed} {url} {number}")
            paragraphs.append(f"<p>{' '.join(rng.choices(words, k=25))} {_random_word(rng)} {_random_word(rng)}.</p>")
        return _insert_after_body_tag(body, "".join(paragraphs).encode())

    def _add_noise(self, body: bytes, now: float) -> bytes:
        number = next(self._request_counter)
        advert = f"<aside>Buy {_ADVERTS[number % len(_ADVERTS)]} now, offer {number}</aside>"
        clock = f"<p>It is {int(now) // 3600 % 24}:{int(now) // 60 % 60:02d}, you are visitor {number}.</p>"
        return _insert_after_body_tag(body, (advert + clock).encode())


def _insert_after_body_tag(body: bytes, more: bytes) -> bytes:
    found = _BODY.search(body)
    at = found.end() if found else 0
    return body[:at] + more + body[at:]


def _random_word(rng: random.Random) -> str:
    return "".join(rng.choice("bcdfghklmnprstvz") + rng.choice("aeiou") for _ in range(4))
