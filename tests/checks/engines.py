"""An engine put together by hand, with parts of a test's choosing at the seams."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from checks.small_webs import PATIENCE_S
from opilio.crawl.build import (
    SNAPSHOT,
    World,
    complete,
    first_state,
    frontier_of,
    make_engine,
    make_mind,
    topic_of,
)
from opilio.crawl.config import Settings, Tree, resolve
from opilio.crawl.trapwatch import traps_of
from opilio.crawl.workers import Desk, InlineDesk, WorkerDesk
from opilio.frontier.schema import create_tables as create_frontier
from opilio.model.clock import Clock, SystemClock
from opilio.model.events import Event
from opilio.model.protocols import Fetcher, SeedSource
from opilio.model.records import Fetched, Lead, key_of
from opilio.model.urls import host_of
from opilio.seen.sqlite import create_tables as create_seen
from opilio.store.collection import Collection, exists
from opilio.store.keeper import Keeper
from opilio.store.warc import WarcWriter

MakeDesk = Callable[[Desk], Desk]  # from the usual inline one


class PageFetcher:
    """Answers from a table, on a clock that need not be real; 404 for the rest."""

    def __init__(self, answers: Mapping[str, Fetched], clock: Clock | None = None, takes_s: float = 0.0) -> None:
        self._answers = answers
        self._clock = clock or SystemClock()
        self._takes_s = takes_s
        self.asked: list[str] = []

    async def fetch(self, url: str, _: Mapping[str, str] | None = None) -> Fetched:
        self.asked.append(url)
        await self._clock.sleep(self._takes_s)
        return self._answers.get(url, Fetched(url=url, status=404))

    async def close(self) -> None:
        pass


def html(url: str, body: str) -> Fetched:
    return Fetched(url=url, status=200, headers=(("Content-Type", "text/html"),), body=body.encode())


def run_engine(
    folder: Path,
    tree: Tree,
    fetcher: Fetcher,
    make_desk: MakeDesk | None = None,
    clock: Clock | None = None,
    sources: Sequence[SeedSource] = (),
) -> tuple[str, list[Event]]:
    """Crawl into a new collection, or go on with one; returns why it stopped and every event."""
    settings = complete(resolve(tree))
    told: list[Event] = []

    async def main() -> str:
        resumed = exists(folder)
        collection = (
            Collection.open_for_writing(folder)
            if resumed
            else Collection.create(folder, "", (create_frontier, create_seen))
        )
        keeper = Keeper(collection, WarcWriter(folder, "test"))
        keeper.resume()
        desk: Desk | None = None
        try:
            topic = topic_of(settings)
            mind = make_mind(settings, topic, {SNAPSHOT: first_state(settings, topic)})
            inline = InlineDesk(mind.analyst)
            desk = make_desk(inline) if make_desk else inline
            if isinstance(desk, WorkerDesk):
                await desk.start()
            world = _world(settings, collection, keeper, fetcher, clock or SystemClock())
            engine = make_engine(settings, world, mind, desk, resumed, sources)
            engine.listen(told.append)
            return await asyncio.wait_for(engine.run(), PATIENCE_S)
        finally:
            if desk is not None:
                await desk.close()
            keeper.close()
            collection.close()

    return asyncio.run(main()), told


def _world(settings: Settings, collection: Collection, keeper: Keeper, fetcher: Fetcher, clock: Clock) -> World:
    traps = traps_of(settings, collection, resumed=False)
    frontier = frontier_of(settings, collection, traps)
    with collection.unit_of_work():
        frontier.add([Lead(url=u, key=key_of(u), host=host_of(u), score=9.0) for u in settings.seeds.urls], clock.now())
    return World(collection, keeper, frontier, fetcher, clock, traps)


def plain_tree(seeds: list[str], **more: Tree) -> Tree:
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


def decoded(data: bytes) -> dict[str, object]:
    return dict(msgspec.json.decode(data))
