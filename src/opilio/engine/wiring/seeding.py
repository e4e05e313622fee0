"""From settings to seeds: creates the configured engines, or the default one, and asks them."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from heapq import nsmallest
from pathlib import Path

import msgspec
from platformdirs import user_cache_path, user_config_path

from opilio.core.clock import Clock, SystemClock
from opilio.core.errors import ConfigError, SeedError
from opilio.core.protocols import SeedSource
from opilio.core.records import Seed
from opilio.core.registry import SEED_ENGINES, has_plugin, plugin_names
from opilio.core.settings import Settings, Tree, read_toml
from opilio.engine.reseeding import build_seed_request, is_allowed_seed
from opilio.engine.wiring.assembly import crawl_assembly
from opilio.engine.wiring.fetcher import user_agent
from opilio.engine.wiring.seed_engines import build_source, complete_engine
from opilio.fetch.api_client import ApiClient
from opilio.fetch.archive import ArchiveWeb
from opilio.fetch.http import FetchLimits, NetworkOptions
from opilio.seeds.daily_cache import CachedSource, DailyCache, DailyQuota
from opilio.seeds.engines.mediawiki import MEDIAWIKI_URL
from opilio.seeds.finder import FoundSeeds, SeedRequest, find_irrelevant_seeds, find_seeds, join_found
from opilio.seeds.merge import order_by_meaning
from opilio.seeds.queries import count_query_words, off_topic_queries
from opilio.seeds.url_lists import FailingSource
from opilio.text.languages import is_known_language, language_code

MAX_API_RESPONSE_BYTES = 50 << 20  # a sitemap may have 50 MB
OFF_TOPIC = "off topic"
NO_SEED_MESSAGE = "no engine found a seed: "
# Kinds that answer a query, named as examples in messages.
EXAMPLE_ENGINE_KINDS = ("brave", "kagi", "mojeek", "marginalia", "mediawiki")


def engines_file() -> Path:
    """The user's file of engines for all crawls: one table each, as in `seeds.engines`."""
    return user_config_path("opilio") / "engines.toml"


def no_seeds_error() -> ConfigError:
    """No seeds, and engines must not be asked: what to do, in three lines."""
    given = "no seeds: give at least one with --seed URL, --seeds FILE or seeds.urls in --config FILE"
    return ConfigError(f"{given},\n{engine_hint()}")


def no_engines_error() -> ConfigError:
    """What to do where only engines can help, in two lines."""
    return ConfigError(f"no search engine configured: add one {_engine_config_hint()}")


def engine_hint() -> str:
    """How to configure an engine, in two lines."""
    return f"or configure a search engine {_engine_config_hint()}"


def _engine_config_hint() -> str:
    return (
        f"with a line such as the following in {engines_file()}\n"
        f'mine = {{ kind = "searxng", url = "http://127.0.0.1:8888" }}  # or {", ".join(EXAMPLE_ENGINE_KINDS)}'
    )


def with_engines(settings: Settings, names: Sequence[str] = ()) -> Settings:
    """Settings with checked and completed engines, from the settings or the user's file; `names` selects some."""
    engines = settings.seeds.engines or load_user_engines()
    if names:
        engines = {name: _select_engine(name, engines) for name in names}
    filled = {name: complete_engine(name, tree) for name, tree in engines.items()}
    return with_seeds(settings, engines=filled)


def with_default_engines(settings: Settings, names: Sequence[str] = ()) -> Settings:
    """The same; where no engine is configured, Wikipedia, which needs no key. None with `seeds.offline`.

    Wikipedia is one search engine, so its results need no agreement (S1-15): articles and the pages they cite differ.
    """
    if settings.seeds.offline:
        return with_seeds(settings, engines={})
    settings = with_engines(settings, names)
    if settings.seeds.engines:
        return settings
    url = wiki_url(settings)
    kinds = {"wikipedia": "mediawiki", "wikipedia-links": "mediawiki-links"}
    engines = {name: complete_engine(name, {"kind": kind, "url": url}) for name, kind in kinds.items()}
    return with_seeds(settings, engines=engines, agree="any")


def wiki_url(settings: Settings) -> str:
    """The API of the default engine: `seeds.wiki`, else Wikipedia in the topic's language."""
    code = language_code(settings.topic.language) if is_known_language(settings.topic.language) else "en"
    return settings.seeds.wiki or MEDIAWIKI_URL.replace("//en.", f"//{code}.")


def default_engine_notice(settings: Settings) -> str:
    """Names the default engine if it is about to be asked; otherwise empty."""
    seeds = settings.seeds
    if seeds.urls or seeds.offline or settings.fetch.archives or seeds.engines or load_user_engines():
        return ""
    return f"no seeds given: searching {wiki_url(settings)}; configure other engines in {engines_file()}"


def with_seeds(settings: Settings, **changes: object) -> Settings:
    """Settings with other [seeds]."""
    return msgspec.structs.replace(settings, seeds=msgspec.structs.replace(settings.seeds, **changes))


@asynccontextmanager
async def open_seed_sources(
    settings: Settings, clock: Clock, *, fresh: bool = False, lenient: bool = False
) -> AsyncIterator[list[SeedSource]]:
    """The engines of completed settings.

    `fresh`: ignore the cache of today's answers. `lenient`: an engine that can't be created (its key is missing) fails
    only when it is asked.
    """
    if settings.seeds.offline:
        yield []
        return
    network = NetworkOptions(proxy=settings.seeds.proxy, verify_tls=settings.fetch.verify_tls)
    client = ApiClient(user_agent(settings), FetchLimits(body_bytes=MAX_API_RESPONSE_BYTES), network, clock)
    cache = DailyCache(user_cache_path("opilio") / "seeds", clock)
    try:
        build = partial(_build_cached_source, client=client, cache=cache, fresh=fresh)
        make = partial(_build_or_fail_later, build) if lenient else build
        yield [make(name, tree) for name, tree in settings.seeds.engines.items()]
    finally:
        await client.close()


async def find_configured_seeds(settings: Settings, request: SeedRequest, *, fresh: bool = False) -> FoundSeeds:
    """Ask the configured engines."""
    async with open_seed_sources(settings, SystemClock(), fresh=fresh) as sources:
        return await find_seeds(sources, request)


async def find_configured_irrelevant_seeds(
    settings: Settings, request: SeedRequest, queries: Sequence[str] = (), *, fresh: bool = False
) -> FoundSeeds:
    """Ask them for pages off the topic, by these queries or by some of our own (S1-16)."""
    topic = settings.topic
    own = off_topic_queries([topic.name, topic.description, *topic.keywords], topic.contexts)
    async with open_seed_sources(settings, SystemClock(), fresh=fresh) as sources:
        return await find_irrelevant_seeds(sources, request, queries or own)


async def with_found_seeds(settings: Settings, archives: ArchiveWeb | None = None) -> tuple[Settings, FoundSeeds]:
    """Settings with the seeds that engines propose, or that `archives` contain, for a crawl that was given none."""
    if settings.seeds.urls:
        return settings, FoundSeeds()
    if archives is not None:
        return with_seeds(settings, urls=_archive_seeds(settings, archives)), FoundSeeds()
    default = default_engine_notice(settings) != ""
    settings = with_default_engines(settings)
    if not settings.seeds.engines:
        raise no_seeds_error()
    request = build_seed_request(settings)
    settings, found = await _find_for_all_agents(settings)
    if not found.seeds:
        hint = f"; give seeds with --seed URL or --seeds FILE,\n{engine_hint()}" if default else ""
        raise SeedError(no_results_message(found, request) + hint)
    if settings.seeds.irrelevant:
        others = await find_configured_irrelevant_seeds(settings, request)
        kept = [_mark_off_topic(seed) for seed in others.seeds[: settings.seeds.irrelevant]]
        found = msgspec.structs.replace(found, seeds=(*found.seeds, *kept))
    urls = {seed.url: seed.priority for seed in found.seeds}
    return with_seeds(settings, urls=urls), found


def _archive_seeds(settings: Settings, web: ArchiveWeb) -> list[str]:
    """Home pages of an archive, and pages with words of the topic in their URLs."""
    limit = settings.seeds.limit
    query = build_seed_request(settings).query
    matching = ((count_query_words(url, query), url) for url in web.page_urls())
    best = nsmallest(limit, ((-hits, len(url), url) for hits, url in matching if hits))
    return list(dict.fromkeys([*(url for _, _, url in best), *web.home_pages(limit)]))


async def _find_for_all_agents(settings: Settings) -> tuple[Settings, FoundSeeds]:
    """Seeds on the crawl's topic, and for each agent that has a topic or genres of its own (S3-01, S3-02)."""
    each, found = list(settings.agents.each), list[FoundSeeds]()
    for number, own_settings in enumerate(crawl_assembly(settings).member_settings(settings)[: len(each)]):
        if each[number].topic:
            own = await _find_allowed_seeds(settings, build_seed_request(own_settings))
            each[number] = msgspec.structs.replace(each[number], seeds=[seed.url for seed in own.seeds])
            found.append(own)
    if len(found) < max(1, len(each), settings.agents.count):
        found.append(await _find_allowed_seeds(settings, build_seed_request(settings)))
    agents = msgspec.structs.replace(settings.agents, each=each)
    return msgspec.structs.replace(settings, agents=agents), join_found(found)


async def _find_allowed_seeds(settings: Settings, request: SeedRequest) -> FoundSeeds:
    found = await find_configured_seeds(settings, request)
    topic = settings.topic
    seeds = [seed for seed in found.seeds if is_allowed_seed(settings, seed)]
    if settings.seeds.by_meaning:
        text = " ".join((request.query, topic.description, *topic.keywords))
        seeds = order_by_meaning(seeds, text, topic.language)
    return msgspec.structs.replace(found, seeds=tuple(seeds))


def no_results_message(found: FoundSeeds, request: SeedRequest) -> str:
    """Why there are no seeds, in one line."""
    failed = "; ".join(map(str, found.problems))
    if not found.voters:
        return f"{NO_SEED_MESSAGE}{failed or 'none knows a page on this topic'}"
    among = {"any": "", "two": " that two of them name", "all": " that all of them name"}[request.agree]
    hint = "" if request.agree == "any" else "; --set seeds.agree=any accepts URLs that one names"
    also = f" ({failed})" if failed else ""
    return f'{", ".join(found.voters)} found nothing on "{request.query}"{among}{hint}{also}'


def _build_cached_source(name: str, tree: Tree, client: ApiClient, cache: DailyCache, fresh: bool) -> SeedSource:
    source = build_source(name, tree, client, SystemClock(), DailyQuota(cache, name))
    options = msgspec.json.encode(tree, order="sorted")
    return source if fresh or tree["kind"] in ("file", "collection") else CachedSource(source, cache, options)


def _build_or_fail_later(make: Callable[[str, Tree], SeedSource], name: str, tree: Tree) -> SeedSource:
    try:
        return make(name, tree)
    except ConfigError as error:
        return FailingSource(name, str(error))


def load_user_engines() -> dict[str, Tree]:
    """The engines of the user's file."""
    path = engines_file()
    if not path.is_file():
        return {}
    tree = read_toml(path)
    for name, table in tree.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: '{name}' must be a table with a kind, for example [{name}] kind = \"searxng\"")
    return tree


def _select_engine(name: str, engines: dict[str, Tree]) -> Tree:
    """A configured engine, or a kind that works as it is."""
    if name in engines:
        return engines[name]
    if has_plugin(SEED_ENGINES, name):
        return {"kind": name}
    known = ", ".join(dict.fromkeys([*engines, *plugin_names(SEED_ENGINES)]))
    raise ConfigError(f"--engine {name}: is neither configured nor a kind of engine; known: {known}")


def _mark_off_topic(seed: Seed) -> Seed:
    sources = tuple(f"{name} ({OFF_TOPIC})" for name in seed.sources)
    return msgspec.structs.replace(seed, priority=3, sources=sources)
