"""The protocols between the stages of a crawl. Computation is synchronous; network access is asynchronous.

`opilio.testing` has conformance suites for most of them (docs/plugins.md). `BaseLearner` is the base of those that
learn with a journal.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.events import Event
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

# What fills the placeholders of a statement, by position or by name.
Values = Sequence[Any] | Mapping[str, Any]


class Rows(Protocol):
    """The result of a statement: tuples."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...  # noqa: ANN401 - a tuple, or None behind the last row

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """An open connection to the database of a collection. It begins and commits nothing by itself.

    Statements are written once, in the SQL that SQLite and PostgreSQL share, with `?` or `:name` for values.
    `sqlite3.Connection` is a `Database` as it is; `store.postgres.connection` wraps a connection of psycopg.
    """

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, sql: str, values: Values = ..., /) -> Rows: ...

    def executemany(self, sql: str, values: Iterable[Values], /) -> Rows: ...

    def close(self) -> None: ...


class ScoredLinks(Protocol):
    """The scores of a page's links, as columns."""

    def columns(self, links: "tuple[Link, ...]") -> LinkColumns: ...


class Ranker(Protocol):
    """Scores all links of a page at once."""

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> ScoredLinks: ...


class SeedSource(Protocol):
    """Answers a query with URLs: one answer per engine it queries. Never raises for network errors.

    `limit` is the number of URLs wanted from each engine; a list written by the user is returned completely.
    `genre` is news, discussions, blogs, or empty (S3-02).
    """

    @property
    def name(self) -> str: ...

    async def find(self, query: str, limit: int, genre: str = "") -> Sequence[EngineAnswer]: ...


class Fetcher(Protocol):
    """One request, one response or typed failure; never raises for network errors."""

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> FetchResult: ...

    async def close(self) -> None: ...


@runtime_checkable
class ChecksRequests(Protocol):
    """A fetcher that asks `may_send`, if it is set, once more when a connection is ready (optional beside Fetcher)."""

    may_send: Callable[[str], bool] | None


@runtime_checkable
class LooksUpNames(Protocol):
    """A fetcher that shares what it knows of the addresses of hosts (optional beside Fetcher)."""

    async def addresses(self, name: str) -> tuple[str, ...]: ...


@runtime_checkable
class ReadsArchives(Protocol):
    """A fetcher that answers from files, so that its URLs are known (optional beside Fetcher)."""

    @property
    def urls(self) -> Container[str]: ...

    # Leaves it to the workers to unpack pages.
    def for_workers(self) -> Fetcher: ...


class Parser(Protocol):
    """Turns a response into a page. Raises ParseError, and nothing else, if it contains no page."""

    def parse(self, fetched: FetchResult) -> Page: ...


class Judge(Protocol):
    """Decides whether a page is on topic."""

    def judge(self, reading: Reading) -> Verdict: ...


@runtime_checkable
class Learns(Protocol):
    """A topic table, judge or ranker that learns during the crawl, in the writing process, between visits.

    What it learns from a visit is a lesson, stored with the visit: a crawl that was killed applies the lessons behind
    the last snapshot again. Resumed crawls `restore` the snapshot, worker processes the smaller worker state. `version`
    grows with every change. `BaseLearner` has defaults for all but the lessons and the state.
    """

    # Store a snapshot with every change, not only when it is due.
    saves_every_version: bool
    learns_from_labels: bool
    # Among agents: learn only from pages that the agent fetched itself.
    own_pages_only: bool

    @property
    def version(self) -> int: ...

    # `seeding_lesson` is applied when all seeds were visited.
    @property
    def waits_for_seeds(self) -> bool: ...

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes: ...

    def seeding_lesson(self) -> bytes: ...

    def label_lesson(self, sample: bytes, relevant: bool | None, before: bool | None = None) -> bytes: ...

    def correction_lesson(self, links: Sequence[tuple[Lead, bool]]) -> bytes: ...

    def apply_lesson(self, lesson: bytes) -> None: ...

    def take_events(self, now: float) -> Sequence[Event]: ...

    # Past versions whose states are kept, for display.
    def take_versions(self) -> Sequence[tuple[int, bytes]]: ...

    def snapshot(self) -> bytes: ...

    # What workers need: less than a snapshot, restored in the same way.
    def worker_state(self) -> bytes: ...

    def restore(self, state: bytes) -> None: ...


@runtime_checkable
class HasLearners(Protocol):
    """A judge or ranker that learns, or has parts that do: its learners by the names of their states."""

    def learners(self) -> Mapping[str, Learns]: ...


@runtime_checkable
class SamplesPages(Protocol):
    """A judge that learns from a sample of a page's terms."""

    def sample(self, reading: Reading) -> "NDArray[np.int64]": ...


@runtime_checkable
class WeighsLinks(Protocol):
    """A judge that adds the score of the link to a page to its verdict (optional beside Judge)."""

    def with_link_score(self, verdict: Verdict, link_score: float) -> Verdict: ...


@runtime_checkable
class WeighsTerms(Protocol):
    """A learner that knows what terms are worth."""

    @property
    def version(self) -> int: ...

    @property
    def term_weights(self) -> "tuple[NDArray[np.int64], NDArray[np.float64]]": ...


class FeatureEffect(msgspec.Struct, frozen=True):
    """One feature of a link: its value, its current weight, and their product, which is added to the logit."""

    name: str
    value: float
    weight: float
    effect: float


class SiblingSuccess(msgspec.Struct, frozen=True):
    """The outcomes of the other links of one list on one page; `context` is the index of that page."""

    context: int
    fetched: int
    mean_reward: float


class LinkExplanation(msgspec.Struct, frozen=True):
    """Why a queued link has its score."""

    score: float  # the current score
    parts: list[FeatureEffect]
    words: list[tuple[str, float]]  # a word of the link, and its effect
    siblings: list[SiblingSuccess]
    # Outcomes that the model has learned from.
    fetched: int


class AddResult(msgspec.Struct, frozen=True):
    """What the frontier did with the links it was given."""

    new: int = 0
    promoted: int = 0  # known, and now with a higher priority
    known: int = 0  # known, unchanged
    # Rejected: queue size, per-host cap, trap.
    dropped: int = 0
    # Keys that were new and will never be queued.
    refused: tuple[int, ...] = ()


class FrontierStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of URLs by state."""

    queued: int = 0
    leased: int = 0
    done: int = 0
    failed: int = 0
    dropped: int = 0
    hosts: int = 0
    # Share of URL-seen tests answered by the cache (S4-21).
    cache_hit_rate: float = 0.0


class FrontierEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the frontier stores about one URL."""

    lead: Lead
    state: UrlState
    priority: float
    reason: str = ""
    # Up to five pages it was found on, first finder first.
    parents: tuple[int, ...] = ()
    times_found: int = 1  # number of links to it
    seq: int = 0  # order of discovery


class Frontier(Protocol):
    """Decides which URLs to fetch next. Hosts are leased, not URLs; no operation scans the queue.

    Invariants: a URL is in exactly one state; a host is leased to at most one holder; a host is never leased before
    its `wake_at`; `add` does not queue a URL again that is leased, done, failed or dropped. Only `revive` queues a done
    or failed URL again, and only `readmit` and `reopen_host` a dropped one. Higher tiers (see `Tier`) come first.
    """

    def add(self, leads: Sequence[Lead], now: float) -> AddResult: ...

    def lease(
        self, now: float, max_hosts: int, per_host: int, ttl_s: float, *, min_tier: int = ...
    ) -> list[HostLease]: ...

    def revive(self, urls: Sequence[tuple[str, int]], urgency: float = ...) -> int: ...

    def boost(self, urls: Sequence[tuple[str, int]]) -> int: ...

    def renew(self, leases: Sequence[HostLease], now: float, ttl_s: float) -> set[str]: ...

    def complete(self, lease: HostLease, results: Sequence[UrlResult], wake_at: float) -> bool: ...

    def set_delay(self, host: str, delay_s: float) -> None: ...

    def drop_host(self, host: str, reason: str, matches: Callable[[str], bool] = ...) -> int: ...

    # Queued URLs that have a reason.
    def drop_refused(self, refusal_reason: Callable[[str], str]) -> int: ...

    def readmit(self, host: str, reason: str, limit: int, now: float) -> list[int]: ...

    # Readmits all, and wakes the host.
    def reopen_host(self, host: str, reason: str, now: float) -> int: ...

    def rescore(self, scores: Iterable[tuple[str, int, float]]) -> int: ...

    def best(self, limit: int) -> list[FrontierEntry]: ...

    def wakes_at(self) -> float | None: ...

    def entry(self, host: str, key: int) -> FrontierEntry | None: ...

    def stats(self) -> FrontierStats: ...

    def recover(self, now: float) -> int: ...


class LinkScorer(Protocol):
    """Turns outcomes into leads in the writing process, and returns queued URLs whose score has changed."""

    def observe(self, outcomes: Sequence[Outcome]) -> None: ...

    # Of each page, those worth following.
    def score_links(self, outcomes: Sequence[Outcome]) -> list[list[Lead]]: ...

    # Links that the frontier refused.
    def discard(self, keys: Sequence[int]) -> None: ...

    def rescored(self) -> Iterable[tuple[str, int, float]]: ...

    # Queued (host, key) URLs to fetch next, whatever their score.
    def explored(self) -> list[tuple[str, int]]: ...

    @property
    def learns_from_labels(self) -> bool: ...

    def correct(self, entry: FrontierEntry, before: float, after: float) -> None: ...

    def explain(self, entry: FrontierEntry, parent: Reading | None = None) -> LinkExplanation | None: ...

    def save(self, now: float, *, at_end: bool = False) -> None: ...

    @property
    def expected_relevant(self) -> float | None: ...


class DuplicateDetector(Protocol):
    """Has this text been seen before? Exact by fingerprint, near duplicates by SimHash (if enabled)."""

    def find_original(self, key: int, fingerprint: int, simhash: int) -> tuple[int, bool] | None: ...

    def forget(self, key: int, fingerprint: int, *, gone: bool = False) -> None: ...


JUDGE_STATE, RANK_STATE, TOPIC_STATE = "judge", "rank", "topic"  # names of states among the snapshots
# Second and third reason of a verdict that counts the link.
PAGE_ALONE, LINK_TO_PAGE = "page alone", "link to it"
# The reason of a judge whose score is a probability.
COVERAGE = "coverage"
# The reason that says how long a page is, relative to the others.
LENGTH = "length"
# Prefix of the reason that names text which is not learned from; its value: words.
SITE_TEXT = "site text: "


class BaseLearner:
    """Defaults of `Learns`. A subclass has `version` and the three methods for its state, and overrides the lessons."""

    saves_every_version = False
    learns_from_labels = False
    own_pages_only = False

    @property
    def waits_for_seeds(self) -> bool:
        """Whether it learns something when all seeds were visited."""
        return False

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """Learn from visits, without a journal."""
        self.apply_lesson(self.make_lesson(outcomes))

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes:  # noqa: ARG002 - for subclasses
        """What these visits teach, for the journal; empty where they teach nothing."""
        return b""

    def seeding_lesson(self) -> bytes:
        """What it teaches that all seeds were visited."""
        return b""

    def label_lesson(self, sample: bytes, relevant: bool | None, before: bool | None = None) -> bytes:  # noqa: ARG002
        """What a label of a page teaches, given the sample of its terms; None withdraws the label `before`."""
        return b""

    def correction_lesson(self, links: Sequence[tuple[Lead, bool]]) -> bytes:  # noqa: ARG002 - for subclasses
        """What it teaches that these links led to pages which labels made relevant or irrelevant."""
        return b""

    def apply_lesson(self, lesson: bytes) -> None:
        """Learn from a lesson: a new one, or one of the journal."""

    def take_events(self, now: float) -> Sequence[Event]:  # noqa: ARG002 - for subclasses
        """What to report since the last call."""
        return ()

    def take_versions(self) -> Sequence[tuple[int, bytes]]:
        """Past versions since the last call, each with the state that is kept of it; none by default."""
        return ()
