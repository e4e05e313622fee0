"""Collections to search in: each topic of an offline web crawled by the default strategy, with everything stored."""

import asyncio
from pathlib import Path

from opilio.core.clock import VirtualClock
from opilio.core.settings import Settings
from opilio.dedup import create_dedup_tables as create_seen
from opilio.engine.wiring.assembly import open_analysis
from opilio.engine.wiring.build import Environment, build_engine, build_frontier, seed_leads
from opilio.engine.wiring.start import initial_states
from opilio.engine.wiring.topic import build_topic
from opilio.frontier.schema import create_frontier_tables as create_frontier
from opilio.lab.experiments.replay import ReplayFetcher, lab_settings
from opilio.lab.webs.topics import LabTopic, load_topics
from opilio.lab.webs.web import WarcWeb
from opilio.store.collection import Collection, collection_exists
from opilio.store.warc import WarcWriter
from opilio.store.writer import CollectionWriter


def collect(folder: Path, web: WarcWeb, topic: LabTopic, fetches: int) -> Path:
    """The collection of a topic, crawled where it is not there yet."""
    if not collection_exists(folder):
        seeds = topic.seed_sets[0].urls
        asyncio.run(crawl(folder, web, lab_settings("opilio", topic.brief, seeds, fetches)))
    return folder


def collect_web(folder: Path, web: WarcWeb) -> Path:
    """A collection with every page of a web, whose URLs are the seeds; crawled if it does not exist."""
    if not collection_exists(folder):
        topics, _ = load_topics(web.folder)
        asyncio.run(crawl(folder, web, lab_settings("breadth", topics[0].brief, web.urls, len(web.urls))))
    return folder


async def crawl(folder: Path, web: WarcWeb, settings: Settings) -> None:
    clock = VirtualClock()
    collection = Collection.create(folder, "", [create_frontier, create_seen])
    topic = build_topic(settings)
    writer = CollectionWriter(collection, WarcWriter(folder, "benchmark"))
    writer.resume()
    frontier = build_frontier(settings, collection)
    with collection.unit_of_work():
        frontier.add(seed_leads(settings), clock.now())
    environment = Environment(collection, writer, frontier, ReplayFetcher(web, clock, 0.0, 1), clock)
    try:
        async with open_analysis(settings, topic, initial_states(settings, topic)) as analysis:
            await build_engine(settings, environment, analysis, resumed=False).run()
    finally:
        writer.close()
        collection.close()
