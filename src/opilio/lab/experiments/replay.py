"""Runs the engine over an offline web: the visits, commits and frontier of a live crawl, on a virtual clock.

The replay fetcher answers from a web behind the engine's own protocol: no socket, no waiting, no randomness. Latency is
derived from the URL and a seed, so the same run takes the same virtual time everywhere. Labels are not read here: the
result is the order of fetches with the crawler's own verdicts.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from opilio.core.clock import Clock, VirtualClock
from opilio.core.events import BatchCommitted, Event, VisitFailed
from opilio.core.protocols import Frontier, Judge, SeedSource
from opilio.core.records import Failure, FetchResult, Reading, Verdict
from opilio.core.settings import Settings, Tree, merge_trees
from opilio.dedup import create_dedup_tables as create_seen
from opilio.engine.politeness.traps import UrlFilter, build_url_filter
from opilio.engine.wiring.assembly import SINGLE_CRAWLER, AnalysisOptions, assembly_kind, open_analysis
from opilio.engine.wiring.build import Environment, build_engine, build_frontier, build_frontier_policy, seed_leads
from opilio.engine.wiring.settings import complete_settings
from opilio.engine.wiring.start import initial_states
from opilio.engine.wiring.topic import build_topic
from opilio.fetch.decoding import RecordedResponse
from opilio.fetch.http import parse_retry_after, redirect_target
from opilio.frontier.memory import MemoryFrontier
from opilio.frontier.schema import create_frontier_tables as create_frontier
from opilio.lab.synthetic.changing import (
    SERVICE_UNAVAILABLE,
    TOO_MANY_REQUESTS,
    FaultInjector,
    Faults,
    hash_fraction,
    load_faults,
)
from opilio.lab.webs.pages import CachedParser, ParsedPages
from opilio.lab.webs.readings import Readings, reading_version
from opilio.lab.webs.topics import TopicBrief
from opilio.lab.webs.web import ResponseSource, WarcWeb
from opilio.parse.html import HtmlParser
from opilio.store.collection import Collection
from opilio.store.writer import CollectionWriter
from opilio.topic.setup import resolve_settings

_MAX_RETRY_AFTER_S = 86_400.0
# Webs consist of pages. Replays are the same whether a reader of documents is installed or not.
_NOT_IN_WEBS = dict.fromkeys(("pdf", "docx", "epub"), "not in the web")
_NOT_FOUND_RESPONSE = RecordedResponse(404, (("Content-Type", "text/plain"),), b"")
_FAULT_RESPONSES = {
    SERVICE_UNAVAILABLE: RecordedResponse(SERVICE_UNAVAILABLE, (("Content-Type", "text/plain"),), b""),
    TOO_MANY_REQUESTS: RecordedResponse(TOO_MANY_REQUESTS, (("Content-Type", "text/plain"), ("Retry-After", "1")), b""),
}


class ReplayFetcher:
    """Responds from a web. `latency_s` is the mean; each URL has its own between half and one and a half of it."""

    def __init__(
        self,
        source: ResponseSource,
        clock: Clock,
        latency_s: float = 0.1,
        seed: int = 0,
        faults: Faults | None = None,
    ) -> None:
        self._source = source
        self._clock = clock
        self._latency_s = latency_s
        self._seed = seed
        self._fault_injector = FaultInjector(faults or {})

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> FetchResult:
        """One request, answered after its latency on the clock."""
        started_at = self._clock.now()
        host, _, path = url.partition("://")[2].partition("/")
        status, delay_s = self._fault_injector.next_fault(host, f"/{path}", started_at)
        latency_s = self._latency_s * (0.5 + hash_fraction(url, self._seed)) + delay_s
        await self._clock.sleep(latency_s)
        answer = _FAULT_RESPONSES[status] if status else self._source.find(url) or _NOT_FOUND_RESPONSE
        etag = answer.header("etag")
        if validators and etag and etag == validators.get("If-None-Match"):
            answer = RecordedResponse(304, answer.headers, b"")
        return _to_fetched(url, answer, started_at, latency_s)

    async def close(self) -> None:
        """Nothing is open."""


def _to_fetched(url: str, answer: RecordedResponse, started_at: float, elapsed_s: float) -> FetchResult:
    failure = None if answer.status else Failure("headers", "the recorded answer has no status")
    return FetchResult(
        url=url,
        status=answer.status,
        location=redirect_target(answer.status, answer.header("location"), url),
        headers=answer.headers,
        body=answer.body,
        address="127.0.0.1",
        started_at=started_at,
        elapsed_s=elapsed_s,
        retry_after_s=parse_retry_after(answer.header("retry-after"), started_at, _MAX_RETRY_AFTER_S),
        failure=failure,
    )


NO_DELAY_S = 0.0
# Of an irrelevant and of a relevant page.
SURE_SCORES = (0.02, 0.98)


class PerfectJudge:
    """Replaces the verdicts of a judge by known ones; the judge still gives the reasons, from which it learns."""

    def __init__(self, judge: Judge, relevant_urls: frozenset[str]) -> None:
        self._judge = judge
        self._relevant_urls = relevant_urls

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        relevant = reading.page.url in self._relevant_urls
        own = self._judge.judge(reading)
        return msgspec.structs.replace(own, score=SURE_SCORES[relevant], relevant=relevant)


class ReplayedFetch(msgspec.Struct, frozen=True, array_like=True):
    """One attempt of a replayed crawl, as the crawler saw it."""

    url: str
    score: float  # its score in the frontier
    # The score by the crawler's own judge; -1 without one.
    judge_score: float
    relevant: bool
    status: int


@dataclass(slots=True)
class CrawlTrace:
    """The fetches of a replayed crawl, with its cost."""

    fetches: list[ReplayedFetch]
    stop_reason: str = ""
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    # Did the crawler report verdicts?
    has_verdicts: bool = True
    # The score that the ranker gives every link that it predicts off topic; None: it makes no such prediction.
    off_topic: float | None = None
    # Errors of Opilio that ended visits without a result.
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class OfflineWeb:
    """A web opened for many runs: its responses, its parsed pages, their words."""

    web: WarcWeb
    pages: ParsedPages
    readings_by_version: dict[str, Readings] = field(default_factory=dict)
    # Disables the declared faults of its hosts.
    ignore_faults: bool = False

    def faults(self) -> Faults:
        """The faults of its hosts, the same for every crawler."""
        return {} if self.ignore_faults else load_faults(self.web.folder)

    def readings(self, settings: Settings, processes: int = 2) -> Readings:
        """The words of all pages under these settings, opened once."""
        name = reading_version(settings)
        if name not in self.readings_by_version:
            self.readings_by_version[name] = Readings.open(self.web, self.pages, settings, processes)
        return self.readings_by_version[name]


def lab_settings(
    strategy: str, brief: TopicBrief, seeds: Sequence[str], budget: int, more: Tree | None = None
) -> Settings:
    """The settings of every strategy in the lab: the same brief, seeds and budget; one request at a time, no delay."""
    tree: dict[str, Any] = {
        "strategy": strategy,
        "topic": {
            "name": brief.name,
            "description": brief.description,
            "keywords": list(brief.keywords),
            "contexts": list(brief.contexts),
            "genres": list(brief.genres),
        },
        "seeds": {"urls": list(seeds)},
        # Hosts of an offline web have no addresses to look up.
        "politeness": {"delay_s": NO_DELAY_S, "robots": False, "share_address": False},
        "fetch": {"retries": 0},
        "stop": {"pages": 0, "fetches": budget, "patience_s": 1e9, "harvest_below": 0.0},
        "engine": {"workers": 0, "connections": 1, "batch": 1},
        "frontier": {"per_host": 1, "discover": False},
    }
    return complete_settings(resolve_settings(merge_trees(tree, more or {}), "lab"))


def replay_crawl(
    offline: OfflineWeb,
    settings: Settings,
    latency_s: float = 0.0,
    begin: Mapping[str, bytes] | None = None,
    sources: Sequence[SeedSource] = (),
    verdicts: frozenset[str] | None = None,
) -> CrawlTrace:
    """One crawl of an offline web. `begin` replaces first states of learners; `sources` are asked for more seeds when
    the queue is empty. `verdicts`, the URLs of relevant pages, replace the judge's decisions."""
    return asyncio.run(_replay_crawl(offline, settings, latency_s, begin or {}, sources, verdicts))


async def _replay_crawl(
    offline: OfflineWeb,
    settings: Settings,
    latency_s: float,
    begin: Mapping[str, bytes],
    sources: Sequence[SeedSource],
    verdicts: frozenset[str] | None,
) -> CrawlTrace:
    began = time.perf_counter(), time.process_time()
    clock = VirtualClock()
    collection = Collection.in_memory()
    create_frontier(collection.connection)
    create_seen(collection.connection)
    topic = build_topic(settings)
    options = AnalysisOptions(
        parser=CachedParser(offline.web, offline.pages, HtmlParser(lists=True)),
        records=False,
        read_pages=offline.readings(settings).reader,
        wrap_judge=None if verdicts is None else lambda judge: PerfectJudge(judge, verdicts),
    )
    trace = CrawlTrace([])
    try:
        async with open_analysis(settings, topic, initial_states(settings, topic) | dict(begin), options) as analysis:
            url_filter = build_url_filter(settings, collection, resumed=False, unreadable=_NOT_IN_WEBS)
            frontier = _build_replay_frontier(settings, collection, url_filter)
            frontier.add(seed_leads(settings), clock.now())
            fetcher = ReplayFetcher(offline.web, clock, latency_s, settings.engine.random_seed, offline.faults())
            environment = Environment(
                collection, CollectionWriter(collection, None), frontier, fetcher, clock, url_filter
            )
            engine = build_engine(settings, environment, analysis, resumed=False, sources=sources)
            engine.add_listener(lambda event: _record_event(trace, event))
            trace.stop_reason = await engine.run()
    finally:
        collection.close()
    trace.virtual_s = clock.now()
    trace.wall_s, trace.cpu_s = time.perf_counter() - began[0], time.process_time() - began[1]
    return trace


def _build_replay_frontier(settings: Settings, collection: Collection, url_filter: UrlFilter) -> Frontier:
    """The frontier in memory gives the same order in less time; agents need the one in the database, to share it."""
    if assembly_kind(settings.engine, settings.agents) == SINGLE_CRAWLER:
        return MemoryFrontier(build_frontier_policy(settings, collection, url_filter))
    return build_frontier(settings, collection, url_filter)


def _record_event(trace: CrawlTrace, event: Event) -> None:
    if isinstance(event, VisitFailed):
        trace.errors.append(f"{event.url}: {event.error}")
    for outcome in event.outcomes if isinstance(event, BatchCommitted) else ():
        verdict = outcome.analysis.verdict if outcome.analysis else None
        trace.fetches.append(
            ReplayedFetch(
                outcome.lead.url,
                outcome.lead.score,
                verdict.score if verdict else -1.0,
                outcome.relevant,
                outcome.fetched.status,
            )
        )
