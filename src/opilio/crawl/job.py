"""A live crawl as a person runs it: made, resumed, run to its end, recorded."""

from pathlib import Path
from types import TracebackType

import msgspec
import tomli_w

from opilio import __version__
from opilio.crawl.build import (
    SNAPSHOT,
    World,
    complete,
    first_state,
    frontier_of,
    make_desk,
    make_engine,
    make_mind,
    topic_of,
    user_agent,
)
from opilio.crawl.config import Settings, Tree, merged, resolve
from opilio.crawl.engine import Engine
from opilio.crawl.examples import read_examples
from opilio.crawl.workers import Desk, WorkerDesk, cores
from opilio.fetch.curl import CurlFetcher
from opilio.fetch.limits import Limits, Network
from opilio.frontier.order import seed_score
from opilio.frontier.schema import create_tables as create_frontier
from opilio.frontier.sqlite import SqliteFrontier
from opilio.model.clock import Clock, SystemClock
from opilio.model.errors import ConfigError
from opilio.model.events import CrawlStarted, CrawlStopped, Event
from opilio.model.records import Lead, Seed, key_of
from opilio.model.urls import canonical, host_of
from opilio.seen.sqlite import create_tables as create_seen
from opilio.store.collection import Collection
from opilio.store.keeper import Counts, Keeper
from opilio.store.warc import WarcWriter
from opilio.topic.topic import Topic


class Crawl:
    """One run over a collection. `async with` opens what needs a loop and closes it again, whatever happens."""

    def __init__(self, collection: Collection, settings: Settings, clock: Clock | None = None) -> None:
        self._collection = collection
        self._settings = settings
        self._clock = clock or SystemClock()
        self._keeper = Keeper(collection, WarcWriter(collection.folder, f"Opilio/{__version__}"))
        self._keeper.resume()
        self._fetcher: CurlFetcher | None = None
        self._desk: Desk | None = None
        self.engine: Engine

    @property
    def counts(self) -> Counts:
        """How far the collection has come."""
        return self._keeper.counts

    async def __aenter__(self) -> "Crawl":
        settings = self._settings
        self._fetcher = fetcher_of(settings)
        topic, states = await self._topic_and_states()
        mind = make_mind(settings, topic, states)
        self._desk = make_desk(settings, topic, mind, states)
        if isinstance(self._desk, WorkerDesk):
            await self._desk.start()
        resumed = self._collection.meta("state") != ""
        frontier = frontier_of(settings, self._collection)
        self._begin(frontier, resumed)
        world = World(self._collection, self._keeper, frontier, self._fetcher, self._clock)
        self.engine = make_engine(settings, world, mind, self._desk, resumed)
        self.engine.listen(self._record)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._desk is not None:
            await self._desk.close()
        if self._fetcher is not None:
            await self._fetcher.close()
        self._keeper.close()
        self._collection.close()

    async def _topic_and_states(self) -> tuple[Topic, dict[str, bytes]]:
        """The topic with its examples and what was learnt; made on the first run, read back on the others."""
        stored = self._collection.meta("topic")
        if stored:
            return msgspec.json.decode(stored, type=Topic), latest_snapshots(self._collection)
        assert self._fetcher is not None
        examples = self._settings.topic
        positive = await read_examples(examples.examples, self._fetcher, "topic.examples")
        negative = await read_examples(examples.counterexamples, self._fetcher, "topic.counterexamples")
        topic = topic_of(self._settings, positive, negative)
        state = first_state(self._settings, topic)
        with self._collection.unit_of_work():
            self._collection.set_meta(topic=msgspec.json.encode(topic).decode())
            self._keeper.keep_snapshot(SNAPSHOT, 0, self._clock.now(), state)
        return topic, {SNAPSHOT: state}

    def _begin(self, frontier: SqliteFrontier, resumed: bool) -> None:
        now = self._clock.now()
        seeds = [Seed(url=url, sources=("given",)) for url in self._settings.seeds.urls]
        with self._collection.unit_of_work():
            frontier.recover(now)
            frontier.add([_lead(seed) for seed in seeds], now)
            self._keeper.keep_seeds(seeds)
            self._collection.set_meta(state="running", stop_reason="", started_at=now)
            self._keeper.keep_events([CrawlStarted(at=now, strategy=self._settings.strategy, resumed=resumed)])

    def _record(self, event: Event) -> None:
        """Write down the end; everything else was written with its batch."""
        if isinstance(event, CrawlStopped):
            with self._collection.unit_of_work():
                self._collection.set_meta(state="stopped", stop_reason=event.reason, stopped_at=event.at)
                self._keeper.keep_events([event])


def begin(folder: Path, settings: Settings) -> Crawl:
    """A new collection, ready to run."""
    settings = complete(_checked(settings))
    topic_of(settings)  # a topic that can't be used must not leave a folder behind
    if not settings.topic.examples:
        first_state(settings, topic_of(settings))
    collection = Collection.create(folder, tomli_w.dumps(msgspec.to_builtins(settings)))
    with collection.unit_of_work():
        create_frontier(collection.connection)
        create_seen(collection.connection)
    return Crawl(collection, _with_workers(settings))


def resume(folder: Path, tree: Tree) -> Crawl:
    """Go on with a collection. What `tree` gives is laid over its settings; the strategy stays what it was."""
    collection = Collection.open_for_writing(folder)
    try:
        stored = settings_of(collection)
        wanted = tree.get("strategy", stored["strategy"])
        if wanted != stored["strategy"]:
            raise ConfigError(
                f"--strategy {wanted}: {folder} was begun with '{stored['strategy']}'; choose another --into"
            )
        settings = complete(_checked(resolve(merged(stored, tree), str(folder / "crawl.toml"))))
    except BaseException:
        collection.close()
        raise
    return Crawl(collection, _with_workers(settings))


def settings_of(collection: Collection) -> Tree:
    """The settings a collection was begun with."""
    import tomllib

    try:
        return tomllib.loads(collection.config)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{collection.folder / 'crawl.toml'}: is not valid TOML: {error}") from error


def fetcher_of(settings: Settings) -> CurlFetcher:
    """The fetcher for the live web."""
    fetch = settings.fetch
    network = Network(
        proxy=fetch.proxy,
        resolve=fetch.resolve,
        verify_tls=fetch.verify_tls,
        allow_private=fetch.allow_private,
        connections=settings.engine.connections,
    )
    limits = Limits(body_bytes=fetch.max_bytes, total_s=fetch.timeout_s)
    return CurlFetcher(user_agent(settings), limits=limits, network=network)


def latest_snapshots(collection: Collection) -> dict[str, bytes]:
    """The newest state of everything that learns."""
    rows = collection.connection.execute(
        "SELECT name, state FROM snapshot AS s WHERE version = (SELECT max(version) FROM snapshot WHERE name = s.name)"
    )
    return {str(name): bytes(state) for name, state in rows}


def _checked(settings: Settings) -> Settings:
    """Settings whose seeds are canonical URLs; ConfigError names the one that is not."""
    if not settings.seeds.urls:
        raise ConfigError("no seeds: give at least one with --seed URL, --seeds FILE or seeds.urls in --config FILE")
    urls = []
    for url in settings.seeds.urls:
        found = canonical(url) if "://" in url else None
        if found is None:
            raise ConfigError(
                f"seed '{url}': is no http or https URL; write it whole, for example https://example.org/"
            )
        urls.append(found)
    return msgspec.structs.replace(settings, seeds=msgspec.structs.replace(settings.seeds, urls=urls))


def _with_workers(settings: Settings) -> Settings:
    if settings.engine.workers >= 0:
        return settings
    return msgspec.structs.replace(settings, engine=msgspec.structs.replace(settings.engine, workers=cores()))


def _lead(seed: Seed) -> Lead:
    return Lead(url=seed.url, key=key_of(seed.url), host=host_of(seed.url), score=seed_score(seed.priority))
