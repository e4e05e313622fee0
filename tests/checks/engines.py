"""Runs an engine that is built as for a live crawl, with a fetcher, a clock and a pool that a test chooses."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from checks.small_webs import PATIENCE_S
from opilio.core.clock import Clock, SystemClock
from opilio.core.events import Event
from opilio.core.protocols import Fetcher, SeedSource
from opilio.core.records import FetchResult
from opilio.core.settings import Settings, Tree
from opilio.dedup import create_dedup_tables as create_seen
from opilio.engine.politeness.traps import build_url_filter
from opilio.engine.wiring.assembly import AnalysisOptions, open_analysis
from opilio.engine.wiring.build import Environment, build_engine, build_frontier, seed_leads
from opilio.engine.wiring.settings import complete_settings
from opilio.engine.wiring.start import initial_states
from opilio.engine.wiring.topic import build_topic
from opilio.engine.workers.pool import AnalysisPool
from opilio.frontier.schema import create_frontier_tables as create_frontier
from opilio.store.collection import Collection, collection_exists
from opilio.store.warc import WarcWriter
from opilio.store.writer import CollectionWriter
from opilio.topic.setup import resolve_settings

WrapPool = Callable[[AnalysisPool], AnalysisPool]  # receives the inline pool


class PageFetcher:
    """Answers from a table, on a real or virtual clock; 404 for everything else."""

    def __init__(self, answers: Mapping[str, FetchResult], clock: Clock | None = None, takes_s: float = 0.0) -> None:
        self._answers = answers
        self._clock = clock or SystemClock()
        self._takes_s = takes_s
        self.asked: list[str] = []

    async def fetch(self, url: str, _: Mapping[str, str] | None = None) -> FetchResult:
        self.asked.append(url)
        await self._clock.sleep(self._takes_s)
        return self._answers.get(url, FetchResult(url=url, status=404))

    async def close(self) -> None:
        pass


def html(url: str, body: str) -> FetchResult:
    return FetchResult(url=url, status=200, headers=(("Content-Type", "text/html"),), body=body.encode())


def run_engine(
    folder: Path,
    tree: Tree,
    fetcher: Fetcher,
    wrap_pool: WrapPool | None = None,
    clock: Clock | None = None,
    sources: Sequence[SeedSource] = (),
) -> tuple[str, list[Event]]:
    """Crawl into a new collection, or go on with one; returns why it stopped and every event."""
    settings = complete_settings(resolve_settings(tree))
    events: list[Event] = []

    async def main() -> str:
        resumed = collection_exists(folder)
        collection = (
            Collection.open_for_writing(folder)
            if resumed
            else Collection.create(folder, tomli_w.dumps(msgspec.to_builtins(settings)), (create_frontier, create_seen))
        )
        writer = CollectionWriter(collection, WarcWriter(folder, "test"))
        writer.resume()
        topic = build_topic(settings)
        states, options = initial_states(settings, topic), AnalysisOptions(wrap_pool=wrap_pool)
        try:
            async with open_analysis(settings, topic, states, options) as analysis:
                environment = _environment(settings, collection, writer, fetcher, clock or SystemClock())
                engine = build_engine(settings, environment, analysis, resumed, sources)
                engine.add_listener(events.append)
                return await asyncio.wait_for(engine.run(), PATIENCE_S)
        finally:
            writer.close()
            collection.close()

    return asyncio.run(main()), events


def _environment(
    settings: Settings, collection: Collection, writer: CollectionWriter, fetcher: Fetcher, clock: Clock
) -> Environment:
    url_filter = build_url_filter(settings, collection, resumed=False)
    frontier = build_frontier(settings, collection, url_filter)
    with collection.unit_of_work():
        frontier.add(seed_leads(settings), clock.now())
    return Environment(collection, writer, frontier, fetcher, clock, url_filter)


def plain_tree(seeds: list[str], **more: Any) -> Tree:
    tree: Tree = {
        "strategy": "breadth",
        "topic": {"name": "wrens and other small birds"},
        "seeds": {"urls": seeds},
        "politeness": {"delay_s": 0.0, "robots": False, "share_address": False},
        "engine": {"workers": 0},
        "fetch": {"retries": 0},
    }
    for name, section in more.items():
        tree[name] = {**tree.get(name, {}), **section} if isinstance(section, dict) else section
    return tree


def states(folder: Path) -> dict[str, tuple[int, str]]:
    """State and reason of every URL, by path."""
    collection = Collection.open_for_reading(folder)
    found = collection.connection.execute("SELECT url, state, reason FROM frontier_url").fetchall()
    collection.close()
    return {url.split("/", 3)[3]: (state, reason or "") for url, state, reason in found}


def decoded(data: bytes) -> dict[str, Any]:
    return dict(msgspec.json.decode(data))
