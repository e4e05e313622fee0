"""A live crawl as a person runs it: made, resumed, run to its end, recorded."""

import asyncio
import sqlite3
import textwrap
import tomllib
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
from opilio.crawl.beginning import topic_and_states
from opilio.crawl.build import (
    World,
    complete,
    first_state,
    frontier_of,
    make_desk,
    make_engine,
    make_mind,
    topic_of,
)
from opilio.crawl.config import Settings, StopSettings, TopicSettings, Tree, merged, resolve
from opilio.crawl.engine import Engine
from opilio.crawl.examples import check_files
from opilio.crawl.fetching import fetcher_of
from opilio.crawl.kinds import DEFAULT_KINDS
from opilio.crawl.profiles import profiles, same_kind
from opilio.crawl.recovery import follow_clock, recover
from opilio.crawl.scouting import lead_of
from opilio.crawl.seeding import no_seeds, sources_of
from opilio.crawl.seedwish import wish_of
from opilio.crawl.startfrom import carried_over, check_model
from opilio.crawl.tgraphs import first_graph
from opilio.crawl.trapwatch import traps_of
from opilio.crawl.unreached import reach_again
from opilio.crawl.watch import Watch
from opilio.crawl.workers import WorkerDesk, cores
from opilio.fetch.addresses import leads_home
from opilio.frontier.claims import ClaimableFrontier
from opilio.frontier.schema import create_tables as create_frontier
from opilio.model.clock import Clock, SystemClock
from opilio.model.errors import ConfigError, UsageError
from opilio.model.events import CrawlStarted, ProblemsFound, SeedsFound
from opilio.model.records import Seed, key_of
from opilio.model.urls import canonical
from opilio.seeds.finder import Found
from opilio.seen.sqlite import create_tables as create_seen
from opilio.store.collection import Collection, damaged, unmake
from opilio.store.enquiries import Enquiry, keep_enquiry
from opilio.store.keeper import Counts, Keeper, keep_events, keep_seeds
from opilio.store.warc import WarcWriter

# Options that a resumed crawl can't change: of those that say what a priority in the queue means, too.
STAYS = {
    "judge": ("kind",),
    "rank": ("kind",),
    "order": ("kind", "factor", "every", "mode"),
    "boost": ("kind", "share", "lift"),
}


class Crawl:
    """One run over a collection. `async with` opens what needs a loop and closes it again, whatever happens."""

    def __init__(self, collection: Collection, settings: Settings, clock: Clock | None = None) -> None:
        self._collection = collection
        self._settings = settings
        self._clock = clock or SystemClock()
        writer = WarcWriter(collection.folder, f"Opilio/{__version__}", settings.store.rotate_bytes)
        self._keeper = Keeper(collection, writer)
        self._open = AsyncExitStack()
        self.engine: Engine

    @property
    def counts(self) -> Counts:
        """How far the collection has come."""
        return self._keeper.counts

    async def __aenter__(self) -> "Crawl":
        self._open.callback(self._collection.close)
        try:
            recover(self._collection, self._clock.now())
            self._keeper.resume()
            self._open.callback(self._keeper.close)
            await self._assemble()
        except BaseException as error:
            await self._open.aclose()
            if isinstance(error, sqlite3.Error):
                raise damaged(self._collection.folder, error) from error
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._open.aclose()
        if isinstance(error, sqlite3.Error):
            raise damaged(self._collection.folder, error) from error

    async def _assemble(self) -> None:
        settings, collection = self._settings, self._collection
        fetcher = fetcher_of(settings, self._clock)
        self._open.push_async_callback(fetcher.close)
        topic, states = await topic_and_states(collection, settings, fetcher, self._clock.now())
        mind = make_mind(settings, topic, states)
        desk = make_desk(settings, topic, mind, states)
        self._open.push_async_callback(desk.close)
        if isinstance(desk, WorkerDesk):
            await desk.start()
        resumed = collection.meta("state") != ""
        traps = traps_of(settings, collection, resumed, datetime.fromtimestamp(self._clock.now(), UTC).year)
        frontier = frontier_of(settings, collection, traps)
        self._begin(frontier, resumed)
        world = World(collection, self._keeper, frontier, fetcher, self._clock, traps)
        sources = await self._open.enter_async_context(sources_of(settings, self._clock, lenient=True))
        self._begin_watch()
        self.engine = make_engine(settings, world, mind, desk, resumed, sources)

    def _begin_watch(self) -> None:
        """The checker, until the crawl ends."""
        every_s = self._settings.store.check_every_s
        if every_s <= 0:
            return
        watching = asyncio.create_task(Watch(self._collection.folder, self._clock, every_s, self._tell_problems).run())
        self._open.push_async_callback(_ended, watching)

    def _tell_problems(self, problems: Sequence[str]) -> None:
        event = ProblemsFound(at=self._clock.now(), problems=tuple(problems))
        with self._collection.unit_of_work():
            self._keeper.keep_events([event])
        self.engine.tell([event])

    def _begin(self, frontier: ClaimableFrontier, resumed: bool) -> None:
        now = self._clock.now()
        seeds = given_seeds(self._settings)
        with self._collection.unit_of_work():
            create_frontier(self._collection.connection, bounded=self._settings.frontier.max_queued > 0)
            follow_clock(self._collection, now)
            frontier.recover(now)
            reach_again(self._collection, frontier, self._settings.fetch, now)
            frontier.add([lead_of(seed) for seed in seeds], now)
            self._keeper.keep_seeds(seeds)
            stop = msgspec.json.encode(self._settings.stop).decode()
            self._collection.set_meta(state="running", stop_reason="", started_at=now, paused="", stop=stop)
            self._keeper.keep_events([CrawlStarted(at=now, strategy=self._settings.strategy, resumed=resumed)])


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])


def check(settings: Settings) -> Settings:
    """Settings that a crawl can begin with but for its seeds, completed; what can't be used is told before anything."""
    check_model(settings)
    check_files(settings.topic)
    settings = complete(settings)
    carried_over(settings)  # a model that can't be used must not leave a folder behind either
    first_graph(settings)
    others = [told.settings for told in profiles(settings) if told.settings.topic != settings.topic]
    for one in (settings, *others):
        topic = topic_of(one)  # a topic that can't be used must not leave a folder behind
        if not one.topic.examples:
            first_state(one, topic)
    return settings


def begin(folder: Path, settings: Settings, found: Found | None = None, clock: Clock | None = None) -> Crawl:
    """A new collection, ready to run. `found` tells who named the seeds that engines brought."""
    collection, settings = _made(folder, settings, found)
    return Crawl(collection, _with_workers(settings), clock)


async def prepare(folder: Path, settings: Settings, found: Found | None = None) -> None:
    """A new collection that another process will crawl; none where its example pages can't be had."""
    collection, settings = _made(folder, settings, found)
    fetcher = fetcher_of(settings)
    try:
        await topic_and_states(collection, settings, fetcher, SystemClock().now())
    except UsageError:
        collection.close()
        unmake(folder)
        raise
    finally:
        await fetcher.close()
        collection.close()


def _made(folder: Path, settings: Settings, found: Found | None) -> tuple[Collection, Settings]:
    settings = check(with_checked_seeds(settings))
    config = tomli_w.dumps(msgspec.to_builtins(settings))
    parts = (create_frontier, create_seen, partial(_keep_found, found=found, query=wish_of(settings).query))
    return Collection.create(folder, config, parts), settings


def _keep_found(connection: sqlite3.Connection, found: Found | None, query: str) -> None:
    """What engines brought is there from the first moment of a collection."""
    if found is None or not found.seeds:
        return
    now, problems = SystemClock().now(), tuple(map(str, found.problems))
    keep_seeds(connection, found.seeds)
    keep_enquiry(connection, now, Enquiry(query, tuple(key_of(seed.url) for seed in found.seeds), further=False))
    number = len(found.seeds)
    keep_events(
        connection,
        [SeedsFound(at=now, query=query, found=number, new=number, voters=found.voters, problems=problems)],
    )


def resume(folder: Path, tree: Tree, clock: Clock | None = None) -> Crawl:
    """Go on with a collection. What `tree` gives is laid over its settings; strategy and topic stay."""
    collection = Collection.open_for_writing(folder)
    try:
        stored = settings_of(collection)
        _same_strategy(folder, stored, tree)
        _same_topic(folder, stored, tree)
        _same_beginning(folder, stored, tree)
        settings = complete(with_checked_seeds(resolve(merged(stored, tree), str(folder / "crawl.toml"))))
        same_kind(folder, stored, settings)
    except BaseException:
        collection.close()
        raise
    return Crawl(collection, _with_workers(settings), clock)


def _same_strategy(folder: Path, stored: Tree, tree: Tree) -> None:
    """It stays, and so does what it is made of: what one judge or ranker has learnt is of no use to another, and
    priorities of different scales can't stand in one queue."""
    begun, wanted = stored["strategy"], tree.get("strategy", stored["strategy"])
    if wanted != begun:
        raise ConfigError(f"--strategy {wanted}: {folder} was begun with '{begun}'; choose another --into")
    for section, options in STAYS.items():
        given, begun = tree.get(section, {}), {"kind": DEFAULT_KINDS[section], **stored.get(section, {})}
        for name in options if isinstance(given, dict) else ():
            if name in given and given[name] != begun.get(name, given[name]):
                begun_with = f"{folder} was begun with {begun[name]!r}; choose another --into"
                raise ConfigError(f"{section}.{name} = {given[name]!r}: {begun_with}")


def _same_topic(folder: Path, stored: Tree, tree: Tree) -> None:
    """A collection is about one topic: what was judged by another would say nothing."""
    wanted = tree.get("topic", {})
    if not isinstance(wanted, dict):
        return  # told by `resolve`, as is an unknown key
    begun = {**msgspec.to_builtins(TopicSettings()), **stored["topic"]}
    for key, value in wanted.items():
        if key in begun and value != begun[key]:
            given = f"topic '{value}'" if key == "name" else f"topic.{key} {_short(value)}"
            raise ConfigError(
                f"{given}: {folder} was begun with {_short(begun[key])}; choose another --into, "
                f"or change the topic on its page ('opilio serve {folder}')"
            )


def _short(value: object) -> str:
    return textwrap.shorten(repr(value), 80, placeholder=" …")


def _same_beginning(folder: Path, stored: Tree, tree: Tree) -> None:
    """What a crawl begins with can't be changed once it has begun."""
    rank, begun = tree.get("rank", {}), stored.get("rank", {})
    for key, option in (("model", "--start-from"), ("graph", "rank.graph")):
        wanted = rank.get(key, "") if isinstance(rank, dict) else ""
        if wanted and wanted != begun.get(key, ""):
            raise ConfigError(f"{option} {wanted}: {folder} was begun already; choose another --into")


def settings_of(collection: Collection) -> Tree:
    """The settings a collection was begun with."""
    try:
        return tomllib.loads(collection.config)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{collection.folder / 'crawl.toml'}: is not valid TOML: {error}") from error


def stop_of(collection: Collection) -> StopSettings:
    """When its last run ends or ended; a resumed one may have rules of its own."""
    stored = collection.meta("stop")
    if stored:
        return msgspec.json.decode(stored, type=StopSettings)
    return msgspec.convert(settings_of(collection).get("stop", {}), StopSettings)


def given_seeds(settings: Settings) -> list[Seed]:
    """The seeds of settings with their priorities."""
    urls = settings.seeds.urls
    priorities = urls if isinstance(urls, dict) else dict.fromkeys(urls, 1)
    return [Seed(url=url, priority=priority, sources=("given",)) for url, priority in priorities.items()]


def with_checked_seeds(settings: Settings) -> Settings:
    """Settings whose seeds are canonical URLs; ConfigError names the one that is not."""
    if not settings.seeds.urls:
        raise no_seeds()
    urls: dict[str, int] = {}
    for seed in given_seeds(settings):
        found = canonical(seed.url) if "://" in seed.url else None
        if found is None:
            raise ConfigError(
                f"seed '{seed.url}': is no http or https URL; write it whole, for example https://example.org/"
            )
        if not (settings.fetch.allow_private or settings.fetch.proxy) and leads_home(urlsplit(found).hostname or ""):
            raise ConfigError(
                f"seed '{seed.url}': is an address of this machine or its network; allow it with --allow-private"
                " or fetch.allow_private = true"
            )
        if seed.priority not in (1, 2, 3):
            raise ConfigError(f"seed '{seed.url}': its priority must be 1, 2 or 3, not {seed.priority}")
        urls[found] = min(seed.priority, urls.get(found, seed.priority))
    given = urls if isinstance(settings.seeds.urls, dict) else list(urls)
    return msgspec.structs.replace(settings, seeds=msgspec.structs.replace(settings.seeds, urls=given))


def _with_workers(settings: Settings) -> Settings:
    if settings.engine.workers >= 0:
        return settings
    return msgspec.structs.replace(settings, engine=msgspec.structs.replace(settings.engine, workers=cores()))
