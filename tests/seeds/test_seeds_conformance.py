"""Every kind of source passes the shared checks, also when it is remembered for the day."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from checks.search_doubles import KEY, SearchDouble, search_double
from checks.small_webs import BIRDS, SmallWeb, crawl, page, served, settings_for, word
from opilio.core.clock import SystemClock
from opilio.core.records import EngineAnswer
from opilio.core.registry import SEED_ENGINES, plugin_names
from opilio.engine.wiring.seed_engines import build_source, complete_engine
from opilio.fetch.api_client import ApiClient
from opilio.seeds.api_client import MemoryQuota
from opilio.seeds.daily_cache import CachedSource, DailyCache
from opilio.testing.stages import KNOWN, Ask, SourceChecks


@pytest.fixture(scope="module")
def double() -> Iterator[SearchDouble]:
    paged = dict.fromkeys(("brave", "kagi", "mojeek", "marginalia", "alpha", "beta"), KNOWN)
    with search_double(**paged, common_crawl=KNOWN, sitemap=KNOWN, extlinks=KNOWN) as running:
        running.lists["mediawiki"] = ["Wren"]
        yield running


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources") / "c"
    with served(SmallWeb({url: page(f"{BIRDS} {word(n)}") for n, url in enumerate(KNOWN)})) as server:
        crawl(folder, settings_for(server, KNOWN))
    return folder


# They know articles, not addresses.
ARTICLE_ENGINES = {"mediawiki", "mediawiki-backlinks"}


@pytest.fixture(params=sorted(set(plugin_names(SEED_ENGINES)) - ARTICLE_ENGINES))
def tree(request: pytest.FixtureRequest, double: SearchDouble, collection: Path, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "seeds.txt").write_text("\n".join(KNOWN), encoding="utf-8")
    own: dict[str, dict[str, Any]] = {
        "file": {"kind": "file", "path": str(tmp_path / "seeds.txt")},
        "collection": {"kind": "collection", "folders": [str(collection)]},
        "sitemap": {"kind": "sitemap", "urls": [f"{double.url}/sitemap/pages.xml"]},
    }
    return own.get(request.param) or double.engine(request.param)


def asker(tree: dict[str, Any], book: DailyCache | None = None) -> Ask:
    async def main(query: str, limit: int, genre: str) -> Sequence[EngineAnswer]:
        client = ApiClient("Opilio/test (+https://opilio.example/about)")
        source = build_source("mine", complete_engine("mine", tree), client, SystemClock(), MemoryQuota())
        try:
            return await (CachedSource(source, book, b"") if book else source).find(query, limit, genre)
        finally:
            await client.close()

    return lambda query, limit, genre="": asyncio.run(main(query, limit, genre))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_SEARCH_KEY", KEY)


class TestSource(SourceChecks):
    @pytest.fixture
    def ask(self, tree: dict[str, Any]) -> Ask:
        return asker(tree)


class TestCachedSource(SourceChecks):
    @pytest.fixture
    def ask(self, double: SearchDouble, tmp_path: Path) -> Ask:
        return asker(double.engine("brave"), DailyCache(tmp_path, SystemClock()))
