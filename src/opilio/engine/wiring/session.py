"""A live crawl: its collection is created or resumed, the engine is built over it, and everything is closed."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType

import msgspec
import tomli_w

from opilio import __version__
from opilio.core.clock import Clock, SystemClock
from opilio.core.errors import ConfigError, UsageError
from opilio.core.events import CrawlStarted, ProblemsFound, SeedsFound
from opilio.core.protocols import Database, Frontier
from opilio.core.records import url_key
from opilio.core.scope import UrlScope
from opilio.core.settings import Settings, Tree
from opilio.dedup import DEDUP_TABLES
from opilio.dedup import create_dedup_tables as create_seen
from opilio.engine.integrity import IntegrityMonitor, adjust_for_clock_change, recover, retry_unreachable
from opilio.engine.loop import Engine
from opilio.engine.politeness.traps import build_url_filter
from opilio.engine.reseeding import build_seed_request
from opilio.engine.wiring.assembly import AnalysisOptions, open_analysis
from opilio.engine.wiring.build import (
    Environment,
    build_engine,
    build_frontier,
    configured_seeds,
    seed_leads,
)
from opilio.engine.wiring.fetcher import (
    BuildFetcher,
    adapt_to_archives,
    archived_urls,
    build_browser,
    build_fetcher,
    reuse_archives,
    unreadable_extensions,
)
from opilio.engine.wiring.seeding import open_seed_sources
from opilio.engine.wiring.settings import CheckedSettings, canonicalize_seeds, check_settings, resumed_settings
from opilio.engine.wiring.start import Notify, load_topic_and_states, train_before_crawl
from opilio.engine.workers.pool import available_cpus
from opilio.frontier.schema import create_frontier_tables as create_frontier
from opilio.frontier.schema import create_postgres_frontier
from opilio.seeds.finder import FoundSeeds
from opilio.store.annotations import delete_new_collection
from opilio.store.collection import Collection, CreateTables, is_linked, load_settings
from opilio.store.connection import database_error
from opilio.store.postgres.chunks import check_address, set_storage
from opilio.store.postgres.schema import create_defined
from opilio.store.run_tables import SeedQuery, write_seed_query
from opilio.store.warc import WarcFiles, WarcWriter
from opilio.store.writer import CollectionWriter, CrawlCounts, write_events, write_seeds
from opilio.topic.topic import Topic


@dataclass(frozen=True, slots=True)
class Machine:
    """What a crawl uses of its machine: clock, network, worker processes, files. A simulation replaces them."""

    clock: Clock = field(default_factory=SystemClock)
    # None: the one that `fetch.client` names.
    build_fetcher: BuildFetcher | None = None
    analysis: AnalysisOptions = field(default_factory=AnalysisOptions)
    files: WarcFiles = field(default_factory=WarcFiles)


class CrawlSession:
    """One run over a collection. `async with` opens what needs a loop and closes it again, whatever happens."""

    def __init__(
        self, collection: Collection, settings: Settings, machine: Machine | None = None, topic: Topic | None = None
    ) -> None:
        self._machine = machine or Machine()
        self._collection = collection
        self._topic = topic
        self._settings = adapt_to_archives(settings)
        self._clock = self._machine.clock
        software, rotate_bytes = f"Opilio/{__version__}", settings.store.rotate_bytes
        writer = WarcWriter(collection.folder, software, rotate_bytes, self._machine.files)
        self._writer = CollectionWriter(collection, writer)
        self._exit_stack = AsyncExitStack()
        # Receives what happens before the engine runs.
        self.notify: Notify = lambda _: None
        self.engine: Engine

    @property
    def counts(self) -> CrawlCounts:
        """How many pages the collection has."""
        return self._writer.counts

    async def __aenter__(self) -> "CrawlSession":
        self._exit_stack.callback(self._collection.close)
        try:
            recover(self._collection, self._clock.now())
            self._exit_stack.callback(self._writer.close)
            self._writer.resume()
            await self._assemble()
        except BaseException as error:
            await self._exit_stack.aclose()
            if isinstance(error, sqlite3.Error):
                raise database_error(self._collection.folder, error) from error
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._exit_stack.aclose()
        if isinstance(error, sqlite3.Error):
            raise database_error(self._collection.folder, error) from error

    async def _assemble(self) -> None:
        settings, collection = self._settings, self._collection
        fetcher = (self._machine.build_fetcher or build_fetcher)(settings, self._clock)
        self._exit_stack.push_async_callback(fetcher.close)
        topic, states = await load_topic_and_states(collection, settings, fetcher, self._clock.now(), self._topic)
        states |= await train_before_crawl(collection, settings, self._clock.now(), self.notify)
        opening = open_analysis(settings, topic, states, self._machine.analysis)
        analysis = await self._exit_stack.enter_async_context(opening)
        resumed = collection.meta("state") != ""
        year = datetime.fromtimestamp(self._clock.now(), UTC).year
        url_filter = build_url_filter(settings, collection, resumed, year, unreadable_extensions(settings))
        url_filter.archived = archived_urls(fetcher)
        frontier = build_frontier(settings, collection, url_filter)
        self._prepare_run(frontier)
        browser = build_browser(settings, fetcher, self._clock) if settings.browser.on else None
        if browser is not None:
            self._exit_stack.push_async_callback(browser.fetcher.close)
            self._exit_stack.push_async_callback(browser.browser.close)
        environment = Environment(collection, self._writer, frontier, fetcher, self._clock, url_filter, browser)
        sources = await self._exit_stack.enter_async_context(open_seed_sources(settings, self._clock, lenient=True))
        self._start_integrity_monitor()
        self.engine = build_engine(settings, environment, analysis, resumed, sources)

    def _start_integrity_monitor(self) -> None:
        """Check the collection from time to time until the crawl ends."""
        every_s = self._settings.store.check_every_s
        if every_s <= 0:
            return
        watching = asyncio.create_task(
            IntegrityMonitor(self._collection.folder, self._clock, every_s, self._report_problems).run()
        )
        self._exit_stack.push_async_callback(_cancel_and_wait, watching)

    def _report_problems(self, problems: Sequence[str]) -> None:
        event = ProblemsFound(at=self._clock.now(), problems=tuple(problems))
        with self._collection.unit_of_work():
            self._writer.write_events([event])
        self.engine.publish([event])

    def _prepare_run(self, frontier: Frontier) -> None:
        now = self._clock.now()
        with self._collection.unit_of_work():
            create_frontier(self._collection.connection, bounded=self._settings.frontier.max_queued > 0)
            adjust_for_clock_change(self._collection, now)
            frontier.recover(now)
            begin_run(self._collection, self._writer, frontier, self._settings, now)


def begin_run(
    collection: Collection, writer: CollectionWriter, frontier: Frontier, settings: Settings, now: float
) -> None:
    """Queue seeds and what can be fetched again, apply a changed scope to the queue, and record that a run begins."""
    resumed = collection.meta("state") != ""
    retry_unreachable(collection, frontier, settings.fetch, now)
    scope = msgspec.json.encode(settings.scope).decode()
    has_rules = bool(settings.scope.allow or settings.scope.deny)
    if resumed and has_rules and scope != collection.meta("scope"):
        frontier.drop_refused(UrlScope(settings.scope).refusal_reason)
    frontier.add(seed_leads(settings), now)
    writer.write_seeds(configured_seeds(settings))
    stop = msgspec.json.encode(settings.stop).decode()
    collection.set_meta(scope=scope, state="running", stop_reason="", started_at=now, paused="", stop=stop)
    writer.write_events([CrawlStarted(at=now, strategy=settings.strategy, resumed=resumed)])


async def _cancel_and_wait(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])


def create_crawl(
    folder: Path, settings: Settings, found: FoundSeeds | None = None, clock: Clock | None = None
) -> CrawlSession:
    """A new collection, ready to run. `found` names the engines that proposed the seeds."""
    return create_checked_crawl(folder, check_settings(settings), found, clock)


def create_checked_crawl(
    folder: Path, checked: CheckedSettings, found: FoundSeeds | None = None, clock: Clock | None = None
) -> CrawlSession:
    """The same from settings that were checked before."""
    collection, settings = create_collection(folder, checked.settings, found)
    machine = Machine(clock or SystemClock(), reuse_archives(checked.archives))
    return CrawlSession(collection, resolve_workers(settings), machine, checked.topic)


async def prepare_collection(folder: Path, checked: CheckedSettings, found: FoundSeeds | None = None) -> None:
    """A new collection that another process will crawl; none where its example pages can't be had."""
    collection, settings = create_collection(folder, checked.settings, found)
    fetcher = build_fetcher(settings)
    try:
        await load_topic_and_states(collection, settings, fetcher, SystemClock().now(), checked.topic)
    except UsageError:
        collection.close()
        delete_new_collection(folder)
        raise
    finally:
        await fetcher.close()
        collection.close()


def create_collection(folder: Path, settings: Settings, found: FoundSeeds | None) -> tuple[Collection, Settings]:
    """A new collection in a folder or a database, and its settings with canonical seeds."""
    settings = canonicalize_seeds(settings)
    _check_objects(folder, settings.store.objects)
    config = tomli_w.dumps(msgspec.to_builtins(settings))
    tables = table_definitions(folder, settings)
    found_seeds = partial(_store_found_seeds, found=found, query=build_seed_request(settings).query)
    return Collection.create(folder, config, (*tables, found_seeds)), settings


def _check_objects(folder: Path, address: str) -> None:
    """Object storage needs a catalogue that all workers share."""
    if address and not is_linked(folder):
        raise ConfigError(
            "store.objects: only for a collection in PostgreSQL; leave it out, or use --into postgresql://…"
        )
    if address:
        check_address(address)


def table_definitions(folder: Path, settings: Settings) -> tuple[CreateTables, ...]:
    """What makes the tables of frontier and content-seen test, in a folder or in a database."""
    if is_linked(folder):
        bounded = settings.frontier.max_queued > 0
        storage = partial(set_storage, settings.store.objects)
        return partial(create_postgres_frontier, bounded=bounded), partial(create_defined, DEDUP_TABLES), storage
    return create_frontier, create_seen


def _store_found_seeds(connection: Database, found: FoundSeeds | None, query: str) -> None:
    """What engines brought is there from the first moment of a collection."""
    if found is None or not found.seeds:
        return
    now, problems = SystemClock().now(), tuple(map(str, found.problems))
    write_seeds(connection, found.seeds)
    write_seed_query(
        connection, now, SeedQuery(query, tuple(url_key(seed.url) for seed in found.seeds), while_crawling=False)
    )
    number = len(found.seeds)
    write_events(
        connection,
        [SeedsFound(at=now, query=query, found=number, new=number, voters=found.voters, problems=problems)],
    )


def resume_crawl(folder: Path, tree: Tree, clock: Clock | None = None) -> CrawlSession:
    """Continue a collection. The settings in `tree` replace its own; strategy and topic stay."""
    collection = Collection.open_for_writing(folder)
    try:
        settings = resumed_settings(folder, load_settings(collection), tree)
    except BaseException:
        collection.close()
        raise
    return CrawlSession(collection, resolve_workers(settings), Machine(clock or SystemClock()))


def resolve_workers(settings: Settings) -> Settings:
    """The settings with the number of worker processes: by default one per core."""
    if settings.engine.workers >= 0:
        return settings
    return msgspec.structs.replace(settings, engine=msgspec.structs.replace(settings.engine, workers=available_cpus()))
