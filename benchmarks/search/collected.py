"""Collections to search in: each topic of an offline web crawled by the default strategy, with everything stored."""

import asyncio
from pathlib import Path

from opilio.core.clock import VirtualClock
from opilio.core.records import Lead, url_key
from opilio.core.settings import Settings
from opilio.core.urls import host_of
from opilio.dedup.sqlite import create_dedup_tables as create_seen
from opilio.engine.wiring.build import (
    TOPIC_SNAPSHOT,
    Environment,
    build_analysis_parts,
    build_analysis_pool,
    build_engine,
    build_frontier,
    build_topic,
    initial_topic_state,
)
from opilio.frontier.policy import seed_score
from opilio.frontier.sqlite.schema import create_frontier_tables as create_frontier
from opilio.lab.experiments.replay import ReplayFetcher, lab_settings
from opilio.lab.webs.topics import LabTopic
from opilio.lab.webs.web import WarcWeb
from opilio.store.collection import Collection, collection_exists
from opilio.store.warc import WarcWriter
from opilio.store.writer import CollectionWriter


def collect(folder: Path, web: WarcWeb, topic: LabTopic, fetches: int) -> Path:
    """The collection of a topic, crawled where it is not there yet."""
    if not collection_exists(folder):
        seeds = topic.seed_sets[0].urls
        asyncio.run(_crawl(folder, web, lab_settings("opilio", topic.brief, seeds, fetches)))
    return folder


async def _crawl(folder: Path, web: WarcWeb, settings: Settings) -> None:
    clock = VirtualClock()
    collection = Collection.create(folder, "", [create_frontier, create_seen])
    topic = build_topic(settings)
    states = {TOPIC_SNAPSHOT: initial_topic_state(settings, topic)}
    mind = build_analysis_parts(settings, topic, states)
    desk = build_analysis_pool(settings, topic, mind, states)
    keeper = CollectionWriter(collection, WarcWriter(folder, "benchmark"))
    keeper.resume()
    frontier = build_frontier(settings, collection)
    leads = [Lead(url=url, key=url_key(url), host=host_of(url), score=seed_score(1)) for url in settings.seeds.urls]
    with collection.unit_of_work():
        frontier.add(leads, clock.now())
    world = Environment(collection, keeper, frontier, ReplayFetcher(web, clock, 0.0, 1), clock)
    engine = build_engine(settings, world, mind, desk, resumed=False)
    try:
        await engine.run()
    finally:
        await desk.close()
        keeper.close()
        collection.close()
