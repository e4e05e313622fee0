"""Every kind of engine that a configuration can name for seeds, with its options (S0-10).

As in `kinds.py`, a factory's keyword arguments are the options and the schema. Options that all kinds share are those
of `Terms`. A server counts as trusted, so that it may have a private address, only where the person set its `url`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from opilio.crawl.config import Positive, Tree, in_words
from opilio.crawl.kinds import Factory, filled_in
from opilio.model.clock import Clock
from opilio.model.errors import ConfigError
from opilio.model.protocols import SeedSource
from opilio.model.urls import canonical
from opilio.seeds.asking import Asker, EngineClient, Tally, Terms
from opilio.seeds.engines import brave, commoncrawl, google, kagi, marginalia, mediawiki, mojeek
from opilio.seeds.engines.lists import FileSource, SearchSource
from opilio.seeds.engines.searxng import SearxngSource
from opilio.seeds.engines.sitemap import SitemapSource
from opilio.seeds.genres import spoken
from opilio.seeds.keys import check_reference, key_from
from opilio.seeds.paging import PagedSource, Shape

Given = TypeVar("Given", str, tuple[str, ...])
LARGEST_PAGE = 100  # hits that our own search gives at once


@dataclass(frozen=True, slots=True)
class Bench:
    """What an engine is made with."""

    name: str
    client: EngineClient
    environment: Mapping[str, str] = field(repr=False)

    def key(self, reference: str) -> str:
        """The person's key."""
        return key_from(reference, f"{_place(self.name)}.key", self.environment)

    def paged(self, shape: Shape) -> SeedSource:
        return PagedSource(self.name, shape, self.client)


def _searxng(
    bench: Bench, *, url: str = "", engines: tuple[str, ...] = (), categories: str = "general", language: str = ""
) -> SeedSource:
    return SearxngSource(bench.name, bench.client, _needed(bench, "url", url), engines, categories, language)


def _brave(
    bench: Bench, *, key: str = "env:BRAVE_API_KEY", url: str = brave.URL, country: str = "", language: str = ""
) -> SeedSource:
    shape = brave.Brave(bench.key(key), url, country, language, trusted=url != brave.URL)
    return bench.paged(shape)


def _kagi(bench: Bench, *, key: str = "env:KAGI_API_KEY", url: str = kagi.URL) -> SeedSource:
    return bench.paged(kagi.Kagi(bench.key(key), url, trusted=url != kagi.URL))


def _mojeek(bench: Bench, *, key: str = "env:MOJEEK_API_KEY", url: str = mojeek.URL, language: str = "") -> SeedSource:
    return bench.paged(mojeek.Mojeek(bench.key(key), url, language, trusted=url != mojeek.URL))


def _marginalia(
    bench: Bench, *, key: str = "env:MARGINALIA_API_KEY", url: str = marginalia.URL, per_domain: Positive = 2
) -> SeedSource:
    shape = marginalia.Marginalia(bench.key(key), url, per_domain, trusted=url != marginalia.URL)
    return bench.paged(shape)


def _google(
    bench: Bench, *, key: str = "env:GOOGLE_API_KEY", cx: str = "", url: str = google.URL, language: str = ""
) -> SeedSource:
    engine = _needed(bench, "cx", cx)
    shape = google.Google(bench.key(key), engine, url, language, trusted=url != google.URL)
    return bench.paged(shape)


def _mediawiki(bench: Bench, *, url: str = mediawiki.URL, article: str = "/wiki/") -> SeedSource:
    return bench.paged(mediawiki.MediaWiki(url, article, trusted=url != mediawiki.URL))


def _mediawiki_links(bench: Bench, *, url: str = mediawiki.URL, articles: Positive = 5) -> SeedSource:
    search = mediawiki.MediaWiki(url, trusted=url != mediawiki.URL)
    return mediawiki.MediaWikiLinks(bench.name, bench.client, search, url, articles)


def _common_crawl(
    bench: Bench, *, patterns: tuple[str, ...] = (), url: str = commoncrawl.URL, crawl: str = ""
) -> SeedSource:
    wanted = _needed(bench, "patterns", patterns)
    trusted = url != commoncrawl.URL
    return commoncrawl.CommonCrawlSource(bench.name, bench.client, wanted, url, crawl, trusted=trusted)


def _sitemap(bench: Bench, *, urls: tuple[str, ...] = ()) -> SeedSource:
    return SitemapSource(bench.name, bench.client, _needed(bench, "urls", urls))


def _file(bench: Bench, *, path: str = "") -> SeedSource:
    return FileSource(bench.name, Path(_needed(bench, "path", path)).expanduser())


def _collection(bench: Bench, *, folders: tuple[str, ...] = (), relevant: bool = True) -> SeedSource:
    places = [Path(folder).expanduser() for folder in _needed(bench, "folders", folders)]
    return SearchSource(bench.name, partial(search_folders, places, relevant))


def search_folders(folders: Sequence[Path], relevant: bool, query: str, limit: int) -> list[str]:
    """Addresses of the pages that collections have on a query, best first."""
    from opilio.crawl.searching import Searcher  # an index is opened only where one is asked
    from opilio.index.records import Filters

    searcher = Searcher(folders)
    searcher.catch_up()
    found = searcher.search(spoken(query), Filters(relevant=True if relevant else None), size=min(limit, LARGEST_PAGE))
    return [hit.url for hit in found.hits]


ENGINES: dict[str, Factory] = {
    "searxng": _searxng,
    "brave": _brave,
    "kagi": _kagi,
    "mojeek": _mojeek,
    "marginalia": _marginalia,
    "google": _google,
    "mediawiki": _mediawiki,
    "mediawiki-links": _mediawiki_links,
    "common-crawl": _common_crawl,
    "sitemap": _sitemap,
    "file": _file,
    "collection": _collection,
}
TERMS = tuple(field.name for field in msgspec.structs.fields(Terms))


def filled_engine(name: str, given: Tree) -> Tree:
    """An engine's table with every option written out; ConfigError for what does not exist or does not fit."""
    if "kind" not in given:
        if name not in ENGINES:
            raise ConfigError(f"{_place(name)} needs a kind: one of {', '.join(ENGINES)}")
        given = {"kind": name, **given}
    own = {key: value for key, value in given.items() if key not in TERMS}
    shared = {key: value for key, value in given.items() if key in TERMS}
    try:
        terms = msgspec.convert({**msgspec.structs.asdict(Terms()), **shared}, Terms)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{_place(name)}.{in_words(error)}") from error
    filled = filled_in(ENGINES, _place(name), own)
    _check_stored(name, filled)
    return {**filled, **msgspec.structs.asdict(terms)}


def make_source(name: str, tree: Tree, asker: Asker, clock: Clock, tally: Tally) -> SeedSource:
    """The source that a filled table names; ConfigError where its key can't be had."""
    terms = msgspec.convert({key: tree[key] for key in TERMS}, Terms)
    bench = Bench(name, EngineClient(asker, clock, terms, tally), os.environ)
    options: dict[str, Any] = {key: value for key, value in tree.items() if key not in (*TERMS, "kind")}
    source: SeedSource = ENGINES[tree["kind"]](bench, **options)
    return source


def _place(name: str) -> str:
    return f"seeds.engines.{name}"


def _needed(bench: Bench, option: str, value: Given) -> Given:
    if not value:
        raise ConfigError(f"{_place(bench.name)}.{option}: is missing; this kind of engine can't do without it")
    return value


def _check_stored(name: str, filled: Tree) -> None:
    """Nothing secret may stand in a table: it is kept with the collection. Addresses must be such."""
    if "key" in filled:
        check_reference(filled["key"], f"{_place(name)}.key")
    for option in ("url", "urls"):
        given = filled.get(option, ())
        for url in (given,) if isinstance(given, str) else given:
            server = url.partition("://")[2].partition("/")[0]
            if "@" in server:
                raise ConfigError(f"{_place(name)}.{option}: holds a password, which would be stored; leave it out")
            if url and canonical(url) is None:
                raise ConfigError(f"{_place(name)}.{option} '{url}': is no http or https URL; write https://host/path")
