"""Collections to search in: each topic of an offline web crawled by the default strategy, with everything stored."""

import asyncio
from pathlib import Path

from opilio.crawl.build import SNAPSHOT, World, first_state, frontier_of, make_desk, make_engine, make_mind, topic_of
from opilio.frontier.order import seed_score
from opilio.frontier.schema import create_tables as create_frontier
from opilio.lab.crawls import lab_settings
from opilio.lab.replay import ReplayFetcher
from opilio.lab.topics import LabTopic
from opilio.lab.web import Web
from opilio.model.clock import VirtualClock
from opilio.model.records import Lead, key_of
from opilio.model.urls import host_of
from opilio.seen.sqlite import create_tables as create_seen
from opilio.store.collection import Collection, exists
from opilio.store.keeper import Keeper
from opilio.store.warc import WarcWriter


def collect(folder: Path, web: Web, topic: LabTopic, fetches: int) -> Path:
    """The collection of a topic, crawled where it is not there yet."""
    if not exists(folder):
        seeds = topic.seed_sets[0].urls
        asyncio.run(_crawl(folder, web, lab_settings("opilio", topic.brief, seeds, fetches)))
    return folder


async def _crawl(folder: Path, web: Web, settings: object) -> None:
    clock = VirtualClock()
    collection = Collection.create(folder, "", [create_frontier, create_seen])
    topic = topic_of(settings)
    states = {SNAPSHOT: first_state(settings, topic)}
    mind = make_mind(settings, topic, states)
    desk = make_desk(settings, topic, mind, states)
    keeper = Keeper(collection, WarcWriter(folder, "benchmark"))
    keeper.resume()
    frontier = frontier_of(settings, collection)
    leads = [Lead(url=url, key=key_of(url), host=host_of(url), score=seed_score(1)) for url in settings.seeds.urls]
    with collection.unit_of_work():
        frontier.add(leads, clock.now())
    world = World(collection, keeper, frontier, ReplayFetcher(web, clock, 0.0, 1), clock)
    engine = make_engine(settings, world, mind, desk, resumed=False)
    try:
        await engine.run()
    finally:
        await desk.close()
        keeper.close()
        collection.close()
