"""The kinds of seed engines that a configuration can name, with their options (S0-10).

The keyword arguments of a factory are the options of its kind; `RequestLimits` has those that all kinds share. A server
is trusted, so that it may have a private address, only where the user set its `url`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from opilio.core.clock import Clock
from opilio.core.errors import ConfigError
from opilio.core.protocols import SeedSource
from opilio.core.registry import SEED_ENGINES, complete_options, has_plugin, load_plugin, plugin_names
from opilio.core.settings import Positive, Tree, describe_validation_error
from opilio.core.urls import canonicalize_url
from opilio.seeds import url_lists
from opilio.seeds.api_client import ApiTransport, EngineClient, Quota, RequestLimits, check_key_reference, read_key
from opilio.seeds.engines import mediawiki, paged
from opilio.seeds.engines.paged import EngineAdapter, PagedSource
from opilio.seeds.engines.searxng import SearxngSource
from opilio.seeds.queries import plain_query
from opilio.seeds.url_lists import FileSource, SearchSource, SitemapSource

OptionValue = TypeVar("OptionValue", str, tuple[str, ...])
MAX_RESULTS_PER_PAGE = 100  # hits that our own search gives at once


@dataclass(frozen=True, slots=True)
class EngineContext:
    """The first argument of every factory of a seed engine."""

    name: str
    client: EngineClient
    environment: Mapping[str, str] = field(repr=False)

    def api_key(self, reference: str) -> str:
        """The API key that a setting refers to."""
        return read_key(reference, f"{_option_path(self.name)}.key", self.environment)

    def paged_engine(self, adapter: EngineAdapter) -> SeedSource:
        return PagedSource(self.name, adapter, self.client)


def searxng_engine(
    context: EngineContext,
    *,
    url: str = "",
    engines: tuple[str, ...] = (),
    categories: str = "general",
    language: str = "",
) -> SeedSource:
    return SearxngSource(
        context.name, context.client, _require_option(context, "url", url), engines, categories, language
    )


def brave_engine(
    context: EngineContext,
    *,
    key: str = "env:BRAVE_API_KEY",
    url: str = paged.BRAVE_URL,
    country: str = "",
    language: str = "",
) -> SeedSource:
    adapter = paged.Brave(context.api_key(key), url, country, language, trusted=url != paged.BRAVE_URL)
    return context.paged_engine(adapter)


def kagi_engine(context: EngineContext, *, key: str = "env:KAGI_API_KEY", url: str = paged.KAGI_URL) -> SeedSource:
    return context.paged_engine(paged.Kagi(context.api_key(key), url, trusted=url != paged.KAGI_URL))


def mojeek_engine(
    context: EngineContext, *, key: str = "env:MOJEEK_API_KEY", url: str = paged.MOJEEK_URL, language: str = ""
) -> SeedSource:
    return context.paged_engine(paged.Mojeek(context.api_key(key), url, language, trusted=url != paged.MOJEEK_URL))


def marginalia_engine(
    context: EngineContext,
    *,
    key: str = "env:MARGINALIA_API_KEY",
    url: str = paged.MARGINALIA_URL,
    per_domain: Positive = 2,
) -> SeedSource:
    adapter = paged.Marginalia(context.api_key(key), url, per_domain, trusted=url != paged.MARGINALIA_URL)
    return context.paged_engine(adapter)


def mediawiki_engine(context: EngineContext, *, url: str = mediawiki.MEDIAWIKI_URL, article: str = "") -> SeedSource:
    return context.paged_engine(mediawiki.MediaWiki(url, article, trusted=url != mediawiki.MEDIAWIKI_URL))


def mediawiki_backlinks_engine(
    context: EngineContext, *, url: str = mediawiki.MEDIAWIKI_URL, article: str = ""
) -> SeedSource:
    adapter = mediawiki.MediaWikiBacklinks(url, article, trusted=url != mediawiki.MEDIAWIKI_URL)
    return context.paged_engine(adapter)


def mediawiki_links_engine(
    context: EngineContext, *, url: str = mediawiki.MEDIAWIKI_URL, articles: Positive = 5
) -> SeedSource:
    search = mediawiki.MediaWiki(url, trusted=url != mediawiki.MEDIAWIKI_URL)
    return mediawiki.MediaWikiLinks(context.name, context.client, search, url, articles)


def common_crawl_engine(
    context: EngineContext, *, patterns: tuple[str, ...] = (), url: str = url_lists.COMMONCRAWL_URL, crawl: str = ""
) -> SeedSource:
    wanted = _require_option(context, "patterns", patterns)
    trusted = url != url_lists.COMMONCRAWL_URL
    return url_lists.CommonCrawlSource(context.name, context.client, wanted, url, crawl, trusted=trusted)


def sitemap_engine(context: EngineContext, *, urls: tuple[str, ...] = ()) -> SeedSource:
    return SitemapSource(context.name, context.client, _require_option(context, "urls", urls))


def file_engine(context: EngineContext, *, path: str = "") -> SeedSource:
    return FileSource(context.name, Path(_require_option(context, "path", path)).expanduser())


def collection_engine(context: EngineContext, *, folders: tuple[str, ...] = (), relevant: bool = True) -> SeedSource:
    places = [Path(folder).expanduser() for folder in _require_option(context, "folders", folders)]
    return SearchSource(context.name, partial(search_folders, places, relevant))


def search_folders(folders: Sequence[Path], relevant: bool, query: str, limit: int) -> list[str]:
    """Addresses of the pages that collections have on a query, best first."""
    # Imported only if a collection is searched: the full-text engine takes a while to load.
    from opilio.search.results import SearchFilters
    from opilio.search.searcher import Searcher

    searcher = Searcher(folders)
    searcher.update_indexes()
    filters = SearchFilters(relevant=True if relevant else None)
    found = searcher.search(plain_query(query), filters, size=min(limit, MAX_RESULTS_PER_PAGE))
    return [hit.url for hit in found.hits]


REQUEST_LIMIT_OPTIONS = tuple(field.name for field in msgspec.structs.fields(RequestLimits))


def complete_engine(name: str, given: Tree) -> Tree:
    """An engine's table with every option written out; ConfigError for what does not exist or does not fit."""
    if "kind" not in given:
        if not has_plugin(SEED_ENGINES, name):
            raise ConfigError(f"{_option_path(name)} needs a kind: one of {', '.join(plugin_names(SEED_ENGINES))}")
        given = {"kind": name, **given}
    own = {key: value for key, value in given.items() if key not in REQUEST_LIMIT_OPTIONS}
    shared = {key: value for key, value in given.items() if key in REQUEST_LIMIT_OPTIONS}
    try:
        limits = msgspec.convert({**msgspec.structs.asdict(RequestLimits()), **shared}, RequestLimits)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{_option_path(name)}.{describe_validation_error(error)}") from error
    filled = complete_options(SEED_ENGINES, _option_path(name), own)
    _check_no_secrets(name, filled)
    return {**filled, **msgspec.structs.asdict(limits)}


def build_source(name: str, tree: Tree, transport: ApiTransport, clock: Clock, quota: Quota) -> SeedSource:
    """The source that a filled table names; ConfigError where its key can't be had."""
    limits = msgspec.convert({key: tree[key] for key in REQUEST_LIMIT_OPTIONS}, RequestLimits)
    context = EngineContext(name, EngineClient(transport, clock, limits, quota), os.environ)
    options: dict[str, Any] = {key: value for key, value in tree.items() if key not in (*REQUEST_LIMIT_OPTIONS, "kind")}
    source: SeedSource = load_plugin(SEED_ENGINES, tree["kind"], f"{_option_path(name)}.kind")(context, **options)
    return source


def _option_path(name: str) -> str:
    return f"seeds.engines.{name}"


def _require_option(context: EngineContext, option: str, value: OptionValue) -> OptionValue:
    if not value:
        raise ConfigError(f"{_option_path(context.name)}.{option}: missing; this kind of engine needs it")
    return value


def _check_no_secrets(name: str, filled: Tree) -> None:
    """Nothing secret may stand in a table: it is kept with the collection. Addresses must be such."""
    if "key" in filled:
        check_key_reference(filled["key"], f"{_option_path(name)}.key")
    for option in ("url", "urls"):
        given = filled.get(option, ())
        for url in (given,) if isinstance(given, str) else given:
            server = url.partition("://")[2].partition("/")[0]
            if "@" in server:
                raise ConfigError(
                    f"{_option_path(name)}.{option}: holds a password, which would be stored; leave it out"
                )
            if url and canonicalize_url(url) is None:
                raise ConfigError(
                    f"{_option_path(name)}.{option} '{url}': not a valid http(s) URL; write https://host/path"
                )
