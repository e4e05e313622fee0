"""A live crawl: created, resumed, run to its end, recorded."""

import asyncio
import sqlite3
import textwrap
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

import msgspec
import tomli_w

from opilio import __version__
from opilio.core.clock import Clock, SystemClock
from opilio.core.errors import ConfigError, UsageError
from opilio.core.events import CrawlStarted, ProblemsFound, SeedsFound
from opilio.core.records import Seed, url_key
from opilio.core.registry import DEFAULT_KINDS
from opilio.core.settings import Settings, TopicSettings, Tree, merge_trees
from opilio.core.urls import canonicalize_url
from opilio.dedup.sqlite import create_dedup_tables as create_seen
from opilio.engine.integrity import IntegrityMonitor
from opilio.engine.loop import Engine
from opilio.engine.politeness.traps import build_url_filter
from opilio.engine.recover import adjust_for_clock_change, recover, retry_unreachable
from opilio.engine.reseeding import build_seed_request, seed_lead
from opilio.engine.wiring.build import (
    Environment,
    build_analysis_parts,
    build_analysis_pool,
    build_engine,
    build_frontier,
    build_topic,
    complete_settings,
    initial_topic_state,
)
from opilio.engine.wiring.fetcher import build_fetcher
from opilio.engine.wiring.seeding import no_seeds_error, open_seed_sources
from opilio.engine.wiring.start import check_start_model, load_start_states, load_topic_and_states
from opilio.engine.wiring.topic_files import check_example_files
from opilio.engine.workers import WorkerPool, available_cpus
from opilio.fetch.addresses import is_private_host
from opilio.frontier.sqlite.claims import ClaimableFrontier
from opilio.frontier.sqlite.schema import create_frontier_tables as create_frontier
from opilio.methods.agents.profiles import agent_profiles, check_agents_unchanged
from opilio.seeds.finder import FoundSeeds
from opilio.store.collection import Collection, database_error, delete_new_collection, load_settings
from opilio.store.run_tables import SeedQuery, write_seed_query
from opilio.store.warc import WarcWriter
from opilio.store.writer import CollectionWriter, CrawlCounts, write_events, write_seeds
from opilio.topic.setup import resolve_settings

# Options that a resumed crawl can't change: of those that say what a priority in the queue means, too.
FIXED_OPTIONS = {
    "judge": ("kind",),
    "rank": ("kind",),
    "order": ("kind", "factor", "every", "mode"),
    "boost": ("kind", "share", "lift"),
}


class CrawlSession:
    """One run over a collection. `async with` opens what needs a loop and closes it again, whatever happens."""

    def __init__(self, collection: Collection, settings: Settings, clock: Clock | None = None) -> None:
        self._collection = collection
        self._settings = settings
        self._clock = clock or SystemClock()
        writer = WarcWriter(collection.folder, f"Opilio/{__version__}", settings.store.rotate_bytes)
        self._writer = CollectionWriter(collection, writer)
        self._exit_stack = AsyncExitStack()
        self.engine: Engine

    @property
    def counts(self) -> CrawlCounts:
        """How far the collection has come."""
        return self._writer.counts

    async def __aenter__(self) -> "CrawlSession":
        self._exit_stack.callback(self._collection.close)
        try:
            recover(self._collection, self._clock.now())
            self._writer.resume()
            self._exit_stack.callback(self._writer.close)
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
        fetcher = build_fetcher(settings, self._clock)
        self._exit_stack.push_async_callback(fetcher.close)
        topic, states = await load_topic_and_states(collection, settings, fetcher, self._clock.now())
        parts = build_analysis_parts(settings, topic, states)
        pool = build_analysis_pool(settings, topic, parts, states)
        self._exit_stack.push_async_callback(pool.close)
        if isinstance(pool, WorkerPool):
            await pool.start()
        resumed = collection.meta("state") != ""
        traps = build_url_filter(settings, collection, resumed, datetime.fromtimestamp(self._clock.now(), UTC).year)
        frontier = build_frontier(settings, collection, traps)
        self._prepare_run(frontier, resumed)
        world = Environment(collection, self._writer, frontier, fetcher, self._clock, traps)
        sources = await self._exit_stack.enter_async_context(open_seed_sources(settings, self._clock, lenient=True))
        self._start_integrity_monitor()
        self.engine = build_engine(settings, world, parts, pool, resumed, sources)

    def _start_integrity_monitor(self) -> None:
        """The checker, until the crawl ends."""
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

    def _prepare_run(self, frontier: ClaimableFrontier, resumed: bool) -> None:
        now = self._clock.now()
        seeds = configured_seeds(self._settings)
        with self._collection.unit_of_work():
            create_frontier(self._collection.connection, bounded=self._settings.frontier.max_queued > 0)
            adjust_for_clock_change(self._collection, now)
            frontier.recover(now)
            retry_unreachable(self._collection, frontier, self._settings.fetch, now)
            frontier.add([seed_lead(seed) for seed in seeds], now)
            self._writer.write_seeds(seeds)
            stop = msgspec.json.encode(self._settings.stop).decode()
            self._collection.set_meta(state="running", stop_reason="", started_at=now, paused="", stop=stop)
            self._writer.write_events([CrawlStarted(at=now, strategy=self._settings.strategy, resumed=resumed)])


async def _cancel_and_wait(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])


def check_settings(settings: Settings) -> Settings:
    """Complete and valid settings for a new crawl, except its seeds; raises before anything is created."""
    check_start_model(settings)
    check_example_files(settings.topic)
    settings = complete_settings(settings)
    load_start_states(settings)  # a model that can't be used must not leave a folder behind either
    others = [profile.settings for profile in agent_profiles(settings) if profile.settings.topic != settings.topic]
    for one in (settings, *others):
        topic = build_topic(one)  # a topic that can't be used must not leave a folder behind
        if not one.topic.examples:
            initial_topic_state(one, topic)
    return settings


def create_crawl(
    folder: Path, settings: Settings, found: FoundSeeds | None = None, clock: Clock | None = None
) -> CrawlSession:
    """A new collection, ready to run. `found` has the engine of each seed that engines returned."""
    collection, settings = _create_collection(folder, settings, found)
    return CrawlSession(collection, _resolve_workers(settings), clock)


async def prepare_collection(folder: Path, settings: Settings, found: FoundSeeds | None = None) -> None:
    """A new collection that another process will crawl; none where its example pages can't be had."""
    collection, settings = _create_collection(folder, settings, found)
    fetcher = build_fetcher(settings)
    try:
        await load_topic_and_states(collection, settings, fetcher, SystemClock().now())
    except UsageError:
        collection.close()
        delete_new_collection(folder)
        raise
    finally:
        await fetcher.close()
        collection.close()


def _create_collection(folder: Path, settings: Settings, found: FoundSeeds | None) -> tuple[Collection, Settings]:
    settings = check_settings(canonicalize_seeds(settings))
    config = tomli_w.dumps(msgspec.to_builtins(settings))
    parts = (
        create_frontier,
        create_seen,
        partial(_store_found_seeds, found=found, query=build_seed_request(settings).query),
    )
    return Collection.create(folder, config, parts), settings


def _store_found_seeds(connection: sqlite3.Connection, found: FoundSeeds | None, query: str) -> None:
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
    """Go on with a collection. What `tree` gives is laid over its settings; strategy and topic stay."""
    collection = Collection.open_for_writing(folder)
    try:
        stored = load_settings(collection)
        _check_same_strategy(folder, stored, tree)
        _check_same_topic(folder, stored, tree)
        _check_same_start(folder, stored, tree)
        settings = complete_settings(
            canonicalize_seeds(resolve_settings(merge_trees(stored, tree), str(folder / "crawl.toml")))
        )
        check_agents_unchanged(folder, stored, settings)
    except BaseException:
        collection.close()
        raise
    return CrawlSession(collection, _resolve_workers(settings), clock)


def _check_same_strategy(folder: Path, stored: Tree, tree: Tree) -> None:
    """It stays, and so does what it is made of: what one judge or ranker has learnt is of no use to another, and
    priorities of different scales can't stand in one queue."""
    begun, wanted = stored["strategy"], tree.get("strategy", stored["strategy"])
    if wanted != begun:
        raise ConfigError(f"--strategy {wanted}: {folder} was begun with '{begun}'; choose another --into")
    for section, options in FIXED_OPTIONS.items():
        given, begun = tree.get(section, {}), {"kind": DEFAULT_KINDS[section], **stored.get(section, {})}
        for name in options if isinstance(given, dict) else ():
            if name in given and given[name] != begun.get(name, given[name]):
                begun_with = f"{folder} was begun with {begun[name]!r}; choose another --into"
                raise ConfigError(f"{section}.{name} = {given[name]!r}: {begun_with}")


def _check_same_topic(folder: Path, stored: Tree, tree: Tree) -> None:
    """A collection is about one topic: what was judged by another would say nothing."""
    wanted = tree.get("topic", {})
    if not isinstance(wanted, dict):
        # Reported by `resolve`, as is an unknown key.
        return
    begun = {**msgspec.to_builtins(TopicSettings()), **stored["topic"]}
    for key, value in wanted.items():
        if key in begun and value != begun[key]:
            given = f"topic '{value}'" if key == "name" else f"topic.{key} {_shorten(value)}"
            raise ConfigError(
                f"{given}: {folder} was begun with {_shorten(begun[key])}; choose another --into, "
                f"or change the topic on its page ('opilio serve {folder}')"
            )


def _shorten(value: object) -> str:
    return textwrap.shorten(repr(value), 80, placeholder=" …")


def _check_same_start(folder: Path, stored: Tree, tree: Tree) -> None:
    """What a crawl begins with can't be changed once it has begun."""
    rank, begun = tree.get("rank", {}), stored.get("rank", {})
    for key, option in (("model", "--start-from"), ("graph", "rank.graph")):
        wanted = rank.get(key, "") if isinstance(rank, dict) else ""
        if wanted and wanted != begun.get(key, ""):
            raise ConfigError(f"{option} {wanted}: {folder} was begun already; choose another --into")


def configured_seeds(settings: Settings) -> list[Seed]:
    """The seeds of settings with their priorities."""
    urls = settings.seeds.urls
    priorities = urls if isinstance(urls, dict) else dict.fromkeys(urls, 1)
    return [Seed(url=url, priority=priority, sources=("given",)) for url, priority in priorities.items()]


def canonicalize_seeds(settings: Settings) -> Settings:
    """Settings whose seeds are canonical URLs; ConfigError names the one that is not."""
    if not settings.seeds.urls:
        raise no_seeds_error()
    urls: dict[str, int] = {}
    for seed in configured_seeds(settings):
        found = canonicalize_url(seed.url) if "://" in seed.url else None
        if found is None:
            raise ConfigError(
                f"seed '{seed.url}': not a valid http(s) URL; include the scheme, for example https://example.org/"
            )
        if not (settings.fetch.allow_private or settings.fetch.proxy) and is_private_host(
            urlsplit(found).hostname or ""
        ):
            raise ConfigError(
                f"seed '{seed.url}': is an address of this machine or its network; allow it with --allow-private"
                " or fetch.allow_private = true"
            )
        if seed.priority not in (1, 2, 3):
            raise ConfigError(f"seed '{seed.url}': its priority must be 1, 2 or 3, not {seed.priority}")
        urls[found] = min(seed.priority, urls.get(found, seed.priority))
    given = urls if isinstance(settings.seeds.urls, dict) else list(urls)
    return msgspec.structs.replace(settings, seeds=msgspec.structs.replace(settings.seeds, urls=given))


def _resolve_workers(settings: Settings) -> Settings:
    if settings.engine.workers >= 0:
        return settings
    return msgspec.structs.replace(settings, engine=msgspec.structs.replace(settings.engine, workers=available_cpus()))
