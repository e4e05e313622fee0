"""Runs the engine over an offline web: the same visits, ledger and frontier as a live crawl, on a virtual clock.

Nothing here knows a label: what is returned is the order of fetches and what the crawler thought of them.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from opilio.crawl.build import (
    SNAPSHOT,
    World,
    complete,
    first_state,
    frontier_of,
    make_desk,
    make_engine,
    make_mind,
    policy_of,
    topic_of,
)
from opilio.crawl.config import Settings, Tree, merged, resolve
from opilio.crawl.tgraphs import first_graph
from opilio.crawl.workers import WorkerDesk
from opilio.frontier.memory import MemoryFrontier
from opilio.frontier.order import seed_score
from opilio.frontier.schema import create_tables as create_frontier
from opilio.lab.faults import Faults, load_faults
from opilio.lab.pages import CachedParser, ParsedPages
from opilio.lab.readings import Readings, reading_version
from opilio.lab.replay import ReplayFetcher
from opilio.lab.topics import Brief
from opilio.lab.web import Web
from opilio.model.clock import VirtualClock
from opilio.model.events import BatchCommitted, Event, VisitFailed
from opilio.model.protocols import Frontier, SeedSource
from opilio.model.records import Lead, key_of
from opilio.model.urls import host_of
from opilio.parse.html import HtmlParser
from opilio.seen.sqlite import create_tables as create_seen
from opilio.store.collection import Collection
from opilio.store.keeper import Keeper

NOTHING_COSTS = 0.0


class Fetch(msgspec.Struct, frozen=True, array_like=True):
    """One attempt of a replayed crawl, as the crawler saw it."""

    url: str
    score: float  # how promising the frontier held it
    judged: float  # what the crawler's own judge said of the page; -1 where there was none
    relevant: bool
    status: int


@dataclass(slots=True)
class Trace:
    """What a replayed crawl did."""

    fetches: list[Fetch]
    stop_reason: str = ""
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    judged: bool = True  # whether the crawler told what it thought of its pages
    errors: list[str] = field(default_factory=list)  # visits that an error of ours ended: they brought nothing


@dataclass(frozen=True, slots=True)
class OfflineWeb:
    """A web opened for many runs: its answers, its pages already parsed, their words already read."""

    web: Web
    pages: ParsedPages
    read: dict[str, Readings] = field(default_factory=dict)
    calm: bool = False  # nothing goes wrong on its hosts, whatever is declared

    def faults(self) -> Faults:
        """What goes wrong on its hosts, for every crawler alike."""
        return {} if self.calm else load_faults(self.web.folder)

    def readings(self, settings: Settings, processes: int = 2) -> Readings:
        """The words of all pages under these settings, opened once."""
        name = reading_version(settings)
        if name not in self.read:
            self.read[name] = Readings.open(self.web, self.pages, settings, processes)
        return self.read[name]


def lab_settings(strategy: str, brief: Brief, seeds: Sequence[str], budget: int, more: Tree | None = None) -> Settings:
    """What every strategy gets in the lab: the same brief, seeds and budget; one request at a time, no delay."""
    tree: dict[str, Any] = {
        "strategy": strategy,
        "topic": {
            "name": brief.name,
            "description": brief.description,
            "keywords": list(brief.keywords),
            "contexts": list(brief.contexts),
        },
        "seeds": {"urls": list(seeds)},
        "politeness": {"delay_s": NOTHING_COSTS, "robots": False},
        "fetch": {"retries": 0},
        "stop": {"pages": 0, "fetches": budget, "patience_s": 1e9},
        "engine": {"workers": 0, "connections": 1, "batch": 1},
        "frontier": {"per_host": 1},
    }
    return complete(resolve(merged(tree, more or {}), "lab"))


def replay(
    offline: OfflineWeb,
    settings: Settings,
    latency_s: float = 0.0,
    begin: Mapping[str, bytes] | None = None,
    sources: Sequence[SeedSource] = (),
) -> Trace:
    """One crawl of an offline web; `begin`: states that something which learns begins with; `sources`: who is asked
    for more seeds when nothing is left to fetch."""
    return asyncio.run(_replay(offline, settings, latency_s, begin or {}, sources))


async def _replay(
    offline: OfflineWeb,
    settings: Settings,
    latency_s: float,
    begin: Mapping[str, bytes],
    sources: Sequence[SeedSource],
) -> Trace:
    began = time.perf_counter(), time.process_time()
    clock = VirtualClock()
    collection = Collection.in_memory()
    create_frontier(collection.connection)
    create_seen(collection.connection)
    topic = topic_of(settings)
    states = {SNAPSHOT: first_state(settings, topic), **first_graph(settings), **begin}
    parser = CachedParser(offline.web, offline.pages, HtmlParser())
    mind = make_mind(settings, topic, states, parser, records=False, reads=offline.readings(settings).reader)
    desk = make_desk(settings, topic, mind, states)
    if isinstance(desk, WorkerDesk):
        await desk.start()
    # The one in memory gives the same order in less time; agents share one, which only the other can.
    frontier: Frontier = (
        frontier_of(settings, collection) if mind.crew else MemoryFrontier(policy_of(settings, collection))
    )
    frontier.add([_lead(url) for url in settings.seeds.urls], clock.now())
    fetcher = ReplayFetcher(offline.web, clock, latency_s, settings.engine.random_seed, offline.faults())
    world = World(collection, Keeper(collection, None), frontier, fetcher, clock)
    engine = make_engine(settings, world, mind, desk, resumed=False, sources=sources)
    trace = Trace([])
    engine.listen(lambda event: _note(trace, event))
    try:
        trace.stop_reason = await engine.run()
    finally:
        await desk.close()
        collection.close()
    trace.virtual_s = clock.now()
    trace.wall_s, trace.cpu_s = time.perf_counter() - began[0], time.process_time() - began[1]
    return trace


def _note(trace: Trace, event: Event) -> None:
    if isinstance(event, VisitFailed):
        trace.errors.append(f"{event.url}: {event.error}")
    for outcome in event.outcomes if isinstance(event, BatchCommitted) else ():
        verdict = outcome.analysis.verdict if outcome.analysis else None
        trace.fetches.append(
            Fetch(
                outcome.lead.url,
                outcome.lead.score,
                verdict.score if verdict else -1.0,
                bool(verdict and verdict.relevant and not outcome.duplicate_of),
                outcome.fetched.status,
            )
        )


def _lead(url: str) -> Lead:
    return Lead(url=url, key=key_of(url), host=host_of(url), score=seed_score(1))
