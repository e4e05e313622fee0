"""A worker of a crawl in PostgreSQL: it fetches and analyzes pages, and trains when the trainer's role is free.

The first worker starts the crawl; others join and leave at any time. A worker that is stopped leaves the crawl to the
others; the last one ends it.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType

import msgspec

from opilio.core.errors import ConfigError
from opilio.core.events import Event, EventListener
from opilio.core.protocols import ChecksRequests, Fetcher
from opilio.core.records import Tier
from opilio.core.settings import Settings, StopSettings, Tree
from opilio.engine.cluster.trainer import STOPPING, Trainer
from opilio.engine.cluster.worker import AddressReservations, LeaseGate, WorkerCommitter, WorkerMeter
from opilio.engine.commands import COMMAND_POLL_S, apply_host_rules
from opilio.engine.loop import INTERRUPTED, Engine, EngineParts
from opilio.engine.politeness.traps import HostRules, UrlFilter
from opilio.engine.reseeding import NoReseeding
from opilio.engine.revisit.scheduler import with_conditional_requests
from opilio.engine.visit import Visitor
from opilio.engine.wiring.assembly import AGENTS, CrawlAnalysis, assembly_kind, open_analysis
from opilio.engine.wiring.build import (
    build_frontier,
    build_frontier_policy,
    build_throttle,
    effective_patience,
    lease_size,
    visit_limits,
)
from opilio.engine.wiring.fetcher import adapt_to_archives, archived_urls, build_fetcher, visiting_fetcher
from opilio.engine.wiring.seeding import open_seed_sources
from opilio.engine.wiring.session import begin_run, create_collection, resolve_workers
from opilio.engine.wiring.settings import CheckedSettings, resumed_settings
from opilio.engine.wiring.start import load_topic_and_states
from opilio.engine.workers.pool import InlinePool
from opilio.frontier.policy import refuse_nothing
from opilio.seeds.finder import FoundSeeds
from opilio.store.collection import Collection, load_settings
from opilio.store.postgres.cluster import (
    WORKER_TIMEOUT_S,
    DatabaseClock,
    SharedConnection,
    SharedReader,
    WorkerFigures,
    crawl_progress,
    live_workers,
    lock_workers,
    newer_models,
    remove_worker,
    report_worker,
)
from opilio.store.postgres.collection import PostgresCollection, linked_database, worker_name
from opilio.store.postgres.connection import PostgresConnection
from opilio.store.writer import CollectionWriter, CrawlCounts, stored_robots
from opilio.topic.topic import Topic

MAX_LEASE_S = 60.0
MODEL_POLL_S = 1.0
# Receives one line that the user must see.
Warn = Callable[[str], None]


class ClusterSession:
    """One worker's part of a crawl. `async with` opens what it needs and leaves the crawl, whatever happens."""

    def __init__(
        self, collection: PostgresCollection, settings: Settings, warn: Warn, topic: Topic | None = None
    ) -> None:
        _refuse_agents(settings)
        self._collection = collection
        engine = msgspec.structs.replace(settings.engine, lease_s=min(settings.engine.lease_s, MAX_LEASE_S))
        self._settings = adapt_to_archives(msgspec.structs.replace(settings, engine=engine))
        self._warn = warn
        self._topic = topic
        self._dsn = linked_database(collection.folder)
        self._clock = DatabaseClock()
        self._exit_stack = AsyncExitStack()
        self._shared: SharedConnection
        self.engine: ClusterRun

    @property
    def counts(self) -> CrawlCounts:
        """How many pages the collection has."""
        return self._shared.run(crawl_progress).counts

    async def __aenter__(self) -> "ClusterSession":
        self._exit_stack.callback(self._collection.close)
        try:
            await self._assemble()
        except BaseException:
            await self._exit_stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._exit_stack.aclose()

    async def _assemble(self) -> None:
        settings, collection = self._settings, self._collection
        shared = self._shared = SharedConnection(self._dsn, self._clock, self._warn)
        self._exit_stack.callback(shared.close)
        fetcher = build_fetcher(settings, self._clock)
        self._exit_stack.push_async_callback(fetcher.close)
        topic, states = await load_topic_and_states(collection, settings, fetcher, self._clock.now(), self._topic)
        analysis = await self._exit_stack.enter_async_context(open_analysis(settings, topic, states))
        self._start_or_join(fetcher)
        sources = await self._exit_stack.enter_async_context(open_seed_sources(settings, self._clock, lenient=True))
        trainer = Trainer(collection.folder, self._dsn, settings, self._clock, fetcher, sources)
        trainer.warn = self._warn
        rules = HostRules()
        policy = build_frontier_policy(settings, collection, UrlFilter(refuse_nothing))
        policy = msgspec.structs.replace(policy, boosted=rules.boosted_hosts)
        meter = WorkerMeter(worker_name())
        stop = msgspec.json.decode(collection.meta("stop") or "{}", type=StopSettings)
        committer = WorkerCommitter(shared, policy, self._clock, meter, stop)
        # As in `RevisitScheduler`: where revisits have the whole budget, new URLs are not fetched.
        if settings.revisit.on and settings.revisit.share >= 1.0:
            committer.min_tier = Tier.REVISIT
        gate = self._build_gate(shared, committer, rules, fetcher)
        if isinstance(fetcher, ChecksRequests):
            fetcher.may_send = gate.may_send
        commands = WorkerCommands(shared, meter, analysis, collection, rules)
        visitor = Visitor(
            with_conditional_requests(settings, visiting_fetcher(fetcher, settings), SharedReader(shared)),
            analysis.pool,
            gate,
            self._clock,
            visit_limits(settings),
            random.Random(settings.engine.random_seed),
        )
        parts = EngineParts(visitor, committer, commands, CrawlCounts(), self._clock, NoReseeding())
        # The trainer decides when the crawl stops.
        no_rules = StopSettings(harvest_below=0, expected_below=0)
        gradual = effective_patience(settings) > 0
        engine = Engine(parts, settings.engine, no_rules, lease_size(settings), gradual=gradual)
        self.engine = ClusterRun(engine, trainer, shared, meter.name)

    def _build_gate(
        self, shared: SharedConnection, committer: WorkerCommitter, rules: HostRules, fetcher: Fetcher
    ) -> LeaseGate:
        """Politeness that holds across workers."""
        settings, clock = self._settings, self._clock
        throttle = build_throttle(settings, fetcher, clock, rules, AddressReservations(shared))

        def load_robots(origin: str) -> bytes | None:
            return shared.run(lambda db: stored_robots(db, origin))

        if archived_urls(fetcher) is None:
            fetcher = build_fetcher(settings, clock)
            if isinstance(fetcher, ChecksRequests):
                fetcher.may_send = throttle.may_send
            self._exit_stack.push_async_callback(fetcher.close)
        gate = LeaseGate(settings.politeness, fetcher, clock, throttle, load_robots, committer.store_robots)
        gate.holds, gate.lease_s = committer.holds, settings.engine.lease_s
        return gate

    def _start_or_join(self, fetcher: Fetcher) -> None:
        """Start the crawl, or resume it, unless other workers run it."""
        collection, now = self._collection, self._clock.now()
        with collection.unit_of_work():
            lock_workers(collection.connection)
            state = collection.meta("state")
            others = live_workers(collection.connection, WORKER_TIMEOUT_S)
            report_worker(collection.connection, worker_name(), WorkerFigures())
            # A crawl that is stopping is not started again while its workers finish.
            if state == "running" or (state == STOPPING and others):
                return
            url_filter = UrlFilter(refuse_nothing)
            url_filter.archived = archived_urls(fetcher)
            frontier = build_frontier(self._settings, collection, url_filter)
            begin_run(collection, CollectionWriter(collection, None), frontier, self._settings, now)


class ClusterRun:
    """See `Engine`: the worker's engine and, beside it, the trainer while this process has the role."""

    def __init__(self, engine: Engine, trainer: Trainer, shared: SharedConnection, name: str) -> None:
        self._engine = engine
        self._trainer = trainer
        self._shared = shared
        self._name = name
        trainer.last_worker = self._is_last

    @property
    def stopping(self) -> bool:
        """Was a stop asked for?"""
        return self._engine.stopping

    def stop(self, reason: str = INTERRUPTED) -> None:
        """Ask for a clean stop of this worker."""
        self._engine.stop(reason)

    def add_listener(self, listener: EventListener) -> None:
        """Call `listener` with the events of this worker."""
        self._engine.add_listener(listener)

    def publish(self, events: Sequence[Event]) -> None:
        self._engine.publish(events)

    async def run(self) -> str:
        """Work until the crawl stops, or this worker is stopped; returns the reason."""
        training = asyncio.create_task(self._trainer.run())
        working = asyncio.create_task(self._engine.run())
        try:
            await asyncio.wait([training, working], return_when=asyncio.FIRST_EXCEPTION)
            if training.done() and training.exception() is not None and not working.done():
                self._engine.stop()
            reason = await working
            self._trainer.leaving = reason
            await training
        finally:
            training.cancel()
            working.cancel()
            await asyncio.wait([training, working])
            self._shared.run(lambda db: remove_worker(db, self._name))
        return self._shared.run(crawl_progress).stop_reason or reason

    def _is_last(self, db: PostgresConnection) -> bool:
        """Is no other worker there?"""
        return live_workers(db, WORKER_TIMEOUT_S) <= {self._name}


class WorkerCommands:
    """See `Commands`: a worker follows the state of the crawl, which the trainer sets; and it loads new models."""

    def __init__(
        self,
        shared: SharedConnection,
        meter: WorkerMeter,
        analysis: CrawlAnalysis,
        collection: PostgresCollection,
        rules: HostRules,
    ) -> None:
        self._shared = shared
        self._meter = meter
        self._analysis = analysis
        self._collection = collection
        self._rules = rules
        self._next_poll_at = 0.0
        self._next_models_at = 0.0
        self.paused = False
        self.stop_reason = ""

    def paused_s(self, _now: float) -> float:
        """Limits of time are the trainer's concern."""
        return 0.0

    def poll(self, now: float) -> list[Event]:
        """Read the state of the crawl, and new models, from time to time."""
        if now >= self._next_poll_at:
            self._next_poll_at = now + COMMAND_POLL_S
            progress = self._shared.run(crawl_progress)
            self.paused = progress.paused
            if progress.state != "running":
                self.stop_reason = progress.stop_reason or "stopped"
        if now >= self._next_models_at:
            self._next_models_at = now + MODEL_POLL_S
            self._load_models()
            figures = self._meter.figures()
            self._shared.run(lambda db: report_worker(db, self._meter.name, figures))
            apply_host_rules(self._rules, PostgresCollection(self._collection.folder, self._shared.db))
        return []

    def _load_models(self) -> None:
        """Swap models, between two pages."""
        for version, name, state in self._shared.run(lambda db: newer_models(db, self._meter.model_version)):
            self._meter.model_version = version
            self._analysis.pool.update_state(name, state)
            # Without worker processes the analyzer is in this process.
            learner = self._analysis.parts.learners.get(name)
            if learner is not None and isinstance(self._analysis.pool, InlinePool):
                learner.restore(state)


def start_crawl(folder: Path, checked: CheckedSettings, found: FoundSeeds | None, warn: Warn) -> ClusterSession:
    """A new collection in the database that the folder is a cache of, and its first worker."""
    _refuse_agents(checked.settings)
    collection, settings = create_collection(folder, checked.settings, found)
    assert isinstance(collection, PostgresCollection)
    return ClusterSession(collection, resolve_workers(settings), warn, checked.topic)


def join_crawl(folder: Path, tree: Tree, warn: Warn) -> ClusterSession:
    """Another worker of a crawl. The settings in `tree` replace its own; strategy and topic stay."""
    collection = Collection.open_for_append(folder)
    assert isinstance(collection, PostgresCollection)
    try:
        settings = resumed_settings(folder, load_settings(collection), tree)
        return ClusterSession(collection, resolve_workers(settings), warn)
    except BaseException:
        collection.close()
        raise


def _refuse_agents(settings: Settings) -> None:
    """Agents share a frontier in memory, which workers on other machines have not."""
    if assembly_kind(settings.engine, settings.agents) == AGENTS:
        raise ConfigError("agents: not available in PostgreSQL; leave out [agents], or use a folder")
