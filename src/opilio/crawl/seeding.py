"""From a configuration to seeds: which engines are configured, made, asked. What is told when there are none."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
from platformdirs import user_cache_path, user_config_path

from opilio.crawl.config import Settings, Tree, read_tree
from opilio.crawl.enginekinds import ENGINES, filled_engine, make_source
from opilio.crawl.fetching import user_agent
from opilio.crawl.profiles import profiles
from opilio.crawl.seedwish import may_be_fetched, wish_of
from opilio.fetch.api import ApiClient
from opilio.fetch.limits import Limits, Network
from opilio.model.clock import Clock, SystemClock
from opilio.model.errors import ConfigError, SeedError
from opilio.model.protocols import SeedSource
from opilio.model.records import Seed
from opilio.seeds.daybook import CachedSource, Daybook, DayTally
from opilio.seeds.engines.lists import FailingSource
from opilio.seeds.finder import Found, Wish, find, find_irrelevant, together
from opilio.seeds.offtopic import off_topic

LARGEST = 50 << 20  # bytes of an answer: a sitemap may have 50 MB
OFF_TOPIC = "off topic"
SEARCHING = ("brave", "kagi", "mojeek", "marginalia", "mediawiki")  # kinds that answer a query, to name as examples


def engines_file() -> Path:
    """Where a person names engines once for all crawls: one table each, as in `seeds.engines`."""
    return user_config_path("opilio") / "engines.toml"


def no_seeds() -> ConfigError:
    """What to do, in three lines."""
    given = "no seeds: give at least one with --seed URL, --seeds FILE or seeds.urls in --config FILE"
    return ConfigError(f"{given},\n{or_name_an_engine()}")


def no_engines() -> ConfigError:
    """What to do where engines alone can help, in two lines."""
    return ConfigError(f"no search engine to ask: name one, {_once()}")


def or_name_an_engine() -> str:
    """How a person has engines asked, in two lines."""
    return f"or name a search engine that is asked for some, {_once()}"


def _once() -> str:
    return (
        f"once for all crawls, by such a line in {engines_file()}\n"
        f'mine = {{ kind = "searxng", url = "http://127.0.0.1:8888" }}  # or {", ".join(SEARCHING)}'
    )


def with_engines(settings: Settings, names: Sequence[str] = ()) -> Settings:
    """Settings with their engines filled in and checked, or those of the person's own file; `names` chooses some."""
    engines = settings.seeds.engines or own_engines()
    if names:
        engines = {name: _chosen(name, engines) for name in names}
    filled = {name: filled_engine(name, tree) for name, tree in engines.items()}
    return with_seeds(settings, engines=filled)


def with_seeds(settings: Settings, **changes: object) -> Settings:
    """Settings with other [seeds]."""
    return msgspec.structs.replace(settings, seeds=msgspec.structs.replace(settings.seeds, **changes))


@asynccontextmanager
async def sources_of(
    settings: Settings, clock: Clock, *, fresh: bool = False, lenient: bool = False
) -> AsyncIterator[list[SeedSource]]:
    """The engines of filled settings, ready to be asked.

    `fresh`: today's earlier answers don't count. `lenient`: an engine that can't be made (its key is gone) is one that
    fails when it is asked, which may never be.
    """
    network = Network(proxy=settings.seeds.proxy, verify_tls=settings.fetch.verify_tls)
    client = ApiClient(user_agent(settings), Limits(body_bytes=LARGEST), network, clock)
    book = Daybook(user_cache_path("opilio") / "seeds", clock)
    try:
        made = partial(_source, client=client, book=book, fresh=fresh)
        make = partial(_or_failing, made) if lenient else made
        yield [make(name, tree) for name, tree in settings.seeds.engines.items()]
    finally:
        await client.close()


async def seek(settings: Settings, wish: Wish, *, fresh: bool = False) -> Found:
    """Ask the configured engines."""
    async with sources_of(settings, SystemClock(), fresh=fresh) as sources:
        return await find(sources, wish)


async def seek_irrelevant(settings: Settings, wish: Wish, queries: Sequence[str] = (), *, fresh: bool = False) -> Found:
    """Ask them for pages off the topic, by these queries or by some of our own (S1-16)."""
    topic = settings.topic
    own = off_topic([topic.name, topic.description, *topic.keywords], topic.contexts)
    async with sources_of(settings, SystemClock(), fresh=fresh) as sources:
        return await find_irrelevant(sources, wish, queries or own)


async def begin_with(settings: Settings) -> tuple[Settings, Found]:
    """Settings with the seeds that engines bring, for a crawl that was given none."""
    if settings.seeds.urls:
        return settings, Found()
    settings = with_engines(settings)
    if not settings.seeds.engines:
        raise no_seeds()
    wish = wish_of(settings)
    settings, found = await _for_all(settings)
    if not found.seeds:
        raise SeedError(nothing_found(found, wish))
    if settings.seeds.irrelevant:
        others = await seek_irrelevant(settings, wish)
        kept = [_marked(seed) for seed in others.seeds[: settings.seeds.irrelevant]]
        found = msgspec.structs.replace(found, seeds=(*found.seeds, *kept))
    urls = {seed.url: seed.priority for seed in found.seeds}
    return with_seeds(settings, urls=urls), found


async def _for_all(settings: Settings) -> tuple[Settings, Found]:
    """Seeds on the crawl's topic, and for each agent that has a topic or genres of its own (S3-01, S3-02)."""
    each, found = list(settings.agents.each), list[Found]()
    for number, profile in enumerate(profiles(settings)[: len(each)] if each else ()):
        if each[number].topic:
            own = await _usable(settings, wish_of(profile.settings))
            each[number] = msgspec.structs.replace(each[number], seeds=[seed.url for seed in own.seeds])
            found.append(own)
    if len(found) < max(1, len(each), settings.agents.count):
        found.append(await _usable(settings, wish_of(settings)))
    agents = msgspec.structs.replace(settings.agents, each=each)
    return msgspec.structs.replace(settings, agents=agents), together(found)


async def _usable(settings: Settings, wish: Wish) -> Found:
    found = await seek(settings, wish)
    return msgspec.structs.replace(found, seeds=tuple(seed for seed in found.seeds if may_be_fetched(settings, seed)))


def nothing_found(found: Found, wish: Wish) -> str:
    """Why there are no seeds, in one line."""
    failed = "; ".join(map(str, found.problems))
    if not found.voters:
        return f"no engine brought a seed: {failed or 'none has anything on this topic'}"
    among = {"any": "", "two": " that two of them name", "all": " that all of them name"}[wish.agree]
    hint = "" if wish.agree == "any" else "; --set seeds.agree=any takes what one names"
    also = f" ({failed})" if failed else ""
    return f'{", ".join(found.voters)} found nothing on "{wish.query}"{among}{hint}{also}'


def _source(name: str, tree: Tree, client: ApiClient, book: Daybook, fresh: bool) -> SeedSource:
    source = make_source(name, tree, client, SystemClock(), DayTally(book, name))
    options = msgspec.json.encode(tree, order="sorted")
    return source if fresh or tree["kind"] in ("file", "collection") else CachedSource(source, book, options)


def _or_failing(make: Callable[[str, Tree], SeedSource], name: str, tree: Tree) -> SeedSource:
    try:
        return make(name, tree)
    except ConfigError as error:
        return FailingSource(name, str(error))


def own_engines() -> dict[str, Tree]:
    """The engines of the person's own file."""
    path = engines_file()
    if not path.is_file():
        return {}
    tree = read_tree(path)
    for name, table in tree.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: '{name}' must be a table with a kind, for example [{name}] kind = \"searxng\"")
    return tree


def _chosen(name: str, engines: dict[str, Tree]) -> Tree:
    """A configured engine, or a kind that works as it is."""
    if name in engines:
        return engines[name]
    if name in ENGINES:
        return {"kind": name}
    known = ", ".join(dict.fromkeys([*engines, *ENGINES]))
    raise ConfigError(f"--engine {name}: is neither configured nor a kind of engine; known: {known}")


def _marked(seed: Seed) -> Seed:
    sources = tuple(f"{name} ({OFF_TOPIC})" for name in seed.sources)
    return msgspec.structs.replace(seed, priority=3, sources=sources)
