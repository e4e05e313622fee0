"""An engine put together by hand, with parts of a test's choosing at the seams."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from checks.small_webs import PATIENCE_S
from opilio.core.clock import Clock, SystemClock
from opilio.core.events import Event
from opilio.core.protocols import Fetcher, SeedSource
from opilio.core.records import FetchResult, Lead, url_key
from opilio.core.settings import Settings, Tree
from opilio.core.urls import host_of
from opilio.dedup.sqlite import create_dedup_tables as create_seen
from opilio.engine.politeness.traps import build_url_filter
from opilio.engine.wiring.build import (
    TOPIC_SNAPSHOT,
    Environment,
    build_analysis_parts,
    build_engine,
    build_frontier,
    build_topic,
    complete_settings,
    initial_topic_state,
)
from opilio.engine.workers import AnalysisPool, InlinePool, WorkerPool
from opilio.frontier.sqlite.schema import create_frontier_tables as create_frontier
from opilio.store.collection import Collection, collection_exists
from opilio.store.warc import WarcWriter
from opilio.store.writer import CollectionWriter
from opilio.topic.setup import resolve_settings

MakeDesk = Callable[[AnalysisPool], AnalysisPool]  # from the usual inline one


class PageFetcher:
    """Answers from a table, on a clock that need not be real; 404 for the rest."""

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
    make_desk: MakeDesk | None = None,
    clock: Clock | None = None,
    sources: Sequence[SeedSource] = (),
) -> tuple[str, list[Event]]:
    """Crawl into a new collection, or go on with one; returns why it stopped and every event."""
    settings = complete_settings(resolve_settings(tree))
    told: list[Event] = []

    async def main() -> str:
        resumed = collection_exists(folder)
        collection = (
            Collection.open_for_writing(folder)
            if resumed
            else Collection.create(folder, "", (create_frontier, create_seen))
        )
        writer = CollectionWriter(collection, WarcWriter(folder, "test"))
        writer.resume()
        desk: AnalysisPool | None = None
        try:
            topic = build_topic(settings)
            mind = build_analysis_parts(settings, topic, {TOPIC_SNAPSHOT: initial_topic_state(settings, topic)})
            inline = InlinePool(mind.analyzer)
            desk = make_desk(inline) if make_desk else inline
            if isinstance(desk, WorkerPool):
                await desk.start()
            world = _world(settings, collection, writer, fetcher, clock or SystemClock())
            engine = build_engine(settings, world, mind, desk, resumed, sources)
            engine.add_listener(told.append)
            return await asyncio.wait_for(engine.run(), PATIENCE_S)
        finally:
            if desk is not None:
                await desk.close()
            writer.close()
            collection.close()

    return asyncio.run(main()), told


def _world(
    settings: Settings, collection: Collection, writer: CollectionWriter, fetcher: Fetcher, clock: Clock
) -> Environment:
    traps = build_url_filter(settings, collection, resumed=False)
    frontier = build_frontier(settings, collection, traps)
    with collection.unit_of_work():
        frontier.add(
            [Lead(url=u, key=url_key(u), host=host_of(u), score=9.0) for u in settings.seeds.urls], clock.now()
        )
    return Environment(collection, writer, frontier, fetcher, clock, traps)


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
