"""Runs of the revisit experiment: a collection is made of a web at one moment and kept while the web moves.

Every policy begins with a copy of the same collection, gets the same budget, and sees the same web with the same
faults. The engine is that of a live crawl, on a virtual clock; the crawler's own judge says what is relevant to it, the
labels judge the outcome.
"""

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from opilio.crawl.beginning import latest_snapshots
from opilio.crawl.build import (
    SNAPSHOT,
    World,
    first_state,
    frontier_of,
    make_desk,
    make_engine,
    make_mind,
    topic_of,
)
from opilio.crawl.config import Settings, Tree
from opilio.frontier.order import seed_score
from opilio.frontier.schema import create_tables as create_frontier
from opilio.lab.changing import DAY_S, ChangingWeb, Churn, Life, lives
from opilio.lab.crawls import lab_settings, replay
from opilio.lab.freshness import Truth, judged
from opilio.lab.replay import ReplayFetcher
from opilio.lab.runs import Arena
from opilio.lab.topics import LabTopic, SeedSet, chosen_topics
from opilio.model.clock import VirtualClock
from opilio.model.records import Lead, key_of
from opilio.model.urls import host_of
from opilio.seen.sqlite import create_tables as create_seen
from opilio.store.collection import Collection
from opilio.store.keeper import Keeper
from opilio.store.warc import WarcWriter

START = 1_700_000_000.0
STRATEGY = "best-first"
POINTS = 81


class Keeping(msgspec.Struct, frozen=True, kw_only=True):
    """What tells one case from another."""

    topic: str
    seed_set: str
    pages: int = 500
    interval_days: float = 8.0
    churn: Churn = Churn()


class Case:
    """One web, one topic, one schedule: a collection to begin with, and any number of runs from it."""

    def __init__(self, arena: Arena, keeping: Keeping, place: Path) -> None:
        self._arena = arena
        self._keeping = keeping
        self._place = place
        self._topic: LabTopic = arena.topics[keeping.topic]
        self._seeds: SeedSet = next(s for s in self._topic.seed_sets if s.name == keeping.seed_set)
        self._members = self._reached()
        self._lives: dict[str, Life] = lives(self._members, keeping.churn, START, self._seeds.urls)

    def _reached(self) -> list[str]:
        """The pages that a crawl of the standing web finds first; beyond them there is nothing."""
        standing = replace(self._arena.offline, calm=True)
        trace = replay(standing, self._settings({}, self._keeping.pages))
        return list(dict.fromkeys(f.url for f in trace.fetches if f.judged >= 0))

    def _settings(self, more: Tree, budget: int = 0) -> Settings:
        """Failures are asked again, as by a live crawl: looks are counted here, not requests."""
        return lab_settings(STRATEGY, self._topic.brief, self._seeds.urls, budget, {"fetch": {"retries": 2}, **more})

    @property
    def relevant(self) -> set[str]:
        """By the labels; no crawler sees them."""
        urls, wanted = self._arena.offline.web.urls, self._arena.labels.relevant(self._topic)
        return {urls[int(n)] for n in np.flatnonzero(wanted)} & set(self._members)

    def make(self) -> None:
        """The collection as it is at the beginning."""
        asyncio.run(self._crawl(self._place / "start", START - DAY_S, self._settings({})))

    def keep(self, name: str, revisit: Tree) -> Truth:
        """Let one policy keep it for the whole time."""
        folder, days = self._place / name, self._keeping.churn.days
        shutil.copytree(self._place / "start", folder)
        wanted = {"on": True, "continuous": True, "interval_s": self._keeping.interval_days * DAY_S, **revisit}
        more: Tree = {"revisit": wanted, "stop": {"minutes": days * 1440.0}}
        web = asyncio.run(self._crawl(folder, START, self._settings(more)))
        times = (START + np.linspace(0.0, days * DAY_S, POINTS)).tolist()
        collection = Collection.open_for_reading(folder)
        try:
            return judged(collection, web, self.relevant, times)
        finally:
            collection.close()
            shutil.rmtree(folder)

    async def _crawl(self, folder: Path, start: float, settings: Settings) -> ChangingWeb:
        clock = VirtualClock(start)
        web = ChangingWeb(self._arena.offline.web, self._lives, self._keeping.churn, clock)
        resumed = folder.exists()
        opened = Collection.open_for_writing(folder) if resumed else Collection.create(folder, "", _PARTS)
        keeper = Keeper(opened, WarcWriter(folder, "lab"))
        keeper.resume()
        try:
            await self._run(opened, keeper, web, clock, settings)
        finally:
            keeper.close()
            opened.close()
        return web

    async def _run(
        self, collection: Collection, keeper: Keeper, web: ChangingWeb, clock: VirtualClock, settings: Settings
    ) -> None:
        topic = topic_of(settings)
        states = latest_snapshots(collection) or {SNAPSHOT: first_state(settings, topic)}
        mind = make_mind(settings, topic, states)
        desk = make_desk(settings, topic, mind, states)
        frontier = frontier_of(settings, collection)
        with collection.unit_of_work():
            frontier.recover(clock.now())
            frontier.add([_lead(url) for url in self._seeds.urls], clock.now())
        fetcher = ReplayFetcher(web, clock, 0.0, faults=self._arena.offline.faults())
        world = World(collection, keeper, frontier, fetcher, clock)
        await make_engine(settings, world, mind, desk, resumed=False).run()


_PARTS = (create_frontier, create_seen)


def _lead(url: str) -> Lead:
    return Lead(url=url, key=key_of(url), host=host_of(url), score=seed_score(1))


def cases(arena: Arena, topics: int, pages: int, interval_days: float, churns: Sequence[Churn]) -> list[Keeping]:
    """One case for every schedule of the first so many topics, from on-topic seeds where there are any."""
    known = chosen_topics(list(arena.topics.values()), (), arena.offline.web.folder)
    return [
        Keeping(topic=topic.name, seed_set=_seed_set(topic), pages=pages, interval_days=interval_days, churn=churn)
        for topic in known[:topics]
        for churn in churns
    ]


def _seed_set(topic: LabTopic) -> str:
    names = [seeds.name for seeds in topic.seed_sets]
    return next((name for name in names if name.startswith("on-topic")), names[0])
