"""The seams. What thinks is synchronous and pure; what touches the world is asynchronous.

Each protocol has a conformance suite in tests/checks/ that every implementation passes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from opilio.core.records import (
    EngineAnswer,
    FetchResult,
    HostLease,
    Lead,
    Link,
    LinkColumns,
    Outcome,
    Page,
    Reading,
    UrlResult,
    UrlState,
    Verdict,
)


class ScoredLinks(Protocol):
    def columns(self, links: "tuple[Link, ...]") -> LinkColumns: ...


class Ranker(Protocol):
    """A ranker as the analyst uses it: all links of a page at once, in columns."""

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> ScoredLinks: ...


class SeedSource(Protocol):
    """Answers a query with addresses: one answer, or one of each engine it asks. Never raises for what the web does.

    `limit` is how many addresses are wanted of each engine; a list that a person wrote is given whole.
    `genre` is news, discussions, blogs, or empty (S3-02).
    """

    @property
    def name(self) -> str: ...

    async def find(self, query: str, limit: int, genre: str = "") -> Sequence[EngineAnswer]: ...


class Fetcher(Protocol):
    """One request, one answer or typed failure; never raises for what the web does."""

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> FetchResult: ...

    async def close(self) -> None: ...


class Parser(Protocol):
    """Bytes to a page. Raises ParseError, and nothing else, when there is no page in them."""

    def parse(self, fetched: FetchResult) -> Page: ...


class Judge(Protocol):
    """Is this page on topic?"""

    def judge(self, reading: Reading) -> Verdict: ...


class OnlineLearner(Protocol):
    """A judge or ranker that changes during the crawl (optional beside Judge and Ranker).

    `learn` runs in the one writing process, between visits. `snapshot` freezes what was learnt; worker
    processes `restore` it, and so does a resumed crawl. `version` grows with every change.
    """

    @property
    def version(self) -> int: ...

    def learn(self, outcomes: Sequence[Outcome]) -> None: ...

    def snapshot(self) -> bytes: ...

    def restore(self, state: bytes) -> None: ...


class AddResult(msgspec.Struct, frozen=True):
    """What became of links offered to the frontier."""

    new: int = 0
    promoted: int = 0  # known, and now better placed
    known: int = 0  # known, unchanged
    dropped: int = 0  # refused: bounded size, per-host cap, trap
    refused: tuple[int, ...] = ()  # keys that were new and will never be queued


class FrontierStats(msgspec.Struct, frozen=True, kw_only=True):
    queued: int = 0
    leased: int = 0
    done: int = 0
    failed: int = 0
    dropped: int = 0
    hosts: int = 0
    cache_hit_rate: float = 0.0  # share of URL-seen tests answered from memory (S4-21)


class FrontierEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the frontier knows of one URL."""

    lead: Lead
    state: UrlState
    priority: float
    reason: str = ""
    parents: tuple[int, ...] = ()  # up to five pages it was found on, first finder first
    times_found: int = 1  # how often a link to it was seen
    seq: int = 0  # order of discovery


class Frontier(Protocol):
    """Decides what is next. Hosts are leased, not URLs; nothing ever scans.

    Invariants: a URL is in exactly one state; a host is leased to at most one holder; a lease is never
    given before the host's `wake_at`; a URL that is leased, done, failed or dropped is not queued again by `add`.
    Only a lead that says `again` queues a done or failed one once more. It goes before all others then.
    """

    def add(self, leads: Sequence[Lead], now: float) -> AddResult: ...

    def lease(
        self, now: float, max_hosts: int, per_host: int, ttl_s: float, *, above: float = ...
    ) -> list[HostLease]: ...

    def renew(self, leases: Sequence[HostLease], now: float, ttl_s: float) -> set[str]: ...

    def complete(self, lease: HostLease, landings: Sequence[UrlResult], wake_at: float) -> bool: ...

    def set_delay(self, host: str, delay_s: float) -> None: ...

    def drop_host(self, host: str, reason: str, pattern: str = "*") -> int: ...

    def rescore(self, scores: Iterable[tuple[str, int, float]]) -> int: ...

    def best(self, limit: int) -> list[FrontierEntry]: ...

    def wakes_at(self) -> float | None: ...

    def entry(self, host: str, key: int) -> FrontierEntry | None: ...

    def stats(self) -> FrontierStats: ...

    def recover(self, now: float) -> int: ...


class DuplicateDetector(Protocol):
    """Has this text been seen before? Exact by fingerprint, near by SimHash (where switched on)."""

    def find_original(self, key: int, fingerprint: int, simhash: int) -> tuple[int, bool] | None: ...

    def forget(self, key: int, fingerprint: int, *, gone: bool = False) -> None: ...
