"""How a crawl is assembled: by one crawler, or by another assembly that a package registers (S3's agents).

An assembly builds what analyzes pages and what a commit writes through. `crawl_assembly` finds the one that the
settings ask for; nothing else in the engine depends on which one it is.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from opilio.core.protocols import Frontier, LinkScorer
from opilio.core.registry import ASSEMBLIES, build_component, load_plugin
from opilio.core.settings import AgentTeamSettings, Settings
from opilio.engine.analysis import PageAnalyzer, SharedParts
from opilio.engine.learning import LearnerGroup
from opilio.engine.link_scoring import LinkScorerContext, build_link_scorer, with_boost
from opilio.engine.reseeding import seeds_finished_check
from opilio.engine.wiring.analysis import (
    AnalysisOptions,
    AnalysisParts,
    build_crawler_parts,
    build_shared_parts,
    open_pool,
)
from opilio.engine.workers.pool import AnalysisPool
from opilio.store.collection import Collection
from opilio.store.writer import CollectionWriter
from opilio.topic.topic import Topic

SINGLE_CRAWLER, AGENTS = "single", "agents"


class CrawlWriters(NamedTuple):
    """What a commit writes through."""

    frontier: Frontier
    learning: LearnerGroup
    link_scorer: LinkScorer


class WriterContext(NamedTuple):
    """What writers are built from."""

    settings: Settings
    collection: Collection
    writer: CollectionWriter
    frontier: Frontier
    now: float


class Assembly(Protocol):
    """Builds the parts of a crawl from its settings."""

    def check_settings(self, settings: Settings) -> None:
        """ConfigError for settings that the assembly can't use."""

    def member_settings(self, settings: Settings) -> Sequence[Settings]:
        """The settings of each crawler, with its own topic and seeds."""

    def build_parts(
        self, shared: SharedParts, settings: Settings, topic: Topic, states: Mapping[str, bytes]
    ) -> AnalysisParts: ...

    def build_writers(self, context: WriterContext, parts: AnalysisParts) -> CrawlWriters: ...


class SingleCrawler:
    """See `Assembly`: one crawler, the default."""

    def check_settings(self, settings: Settings) -> None:
        """Any settings will do."""

    def member_settings(self, settings: Settings) -> Sequence[Settings]:
        return [settings]

    def build_parts(
        self, shared: SharedParts, settings: Settings, topic: Topic, states: Mapping[str, bytes]
    ) -> AnalysisParts:
        return build_crawler_parts(shared, settings, topic, states)

    def build_writers(self, context: WriterContext, parts: AnalysisParts) -> CrawlWriters:
        settings, collection, frontier = context.settings, context.collection, context.frontier
        seeds_finished = seeds_finished_check(settings, frontier, collection)
        learning = LearnerGroup(parts.learners, collection, context.writer, seeds_finished=seeds_finished)
        return CrawlWriters(frontier, learning, build_boosted_scorer(settings, collection, parts))


def assembly_kind(agents: AgentTeamSettings) -> str:
    """The name of the assembly that the `[agents]` section asks for."""
    return AGENTS if agents.count > 0 or agents.each else SINGLE_CRAWLER


def crawl_assembly(settings: Settings) -> Assembly:
    """The assembly of a crawl."""
    assembly: Assembly = load_plugin(ASSEMBLIES, assembly_kind(settings.agents))()
    return assembly


def build_boosted_scorer(settings: Settings, collection: Collection, parts: AnalysisParts) -> LinkScorer:
    """The link scorer of a crawler or an agent, with the boost that the settings ask for."""
    context = LinkScorerContext(parts.ranker, collection, parts.learners, parts.owner)
    scorer = build_link_scorer(settings.rank["kind"], context)
    return with_boost(scorer, build_component("boost", settings.boost), collection)


def build_analysis_parts(
    settings: Settings, topic: Topic, states: Mapping[str, bytes], options: AnalysisOptions | None = None
) -> AnalysisParts:
    """Everything between a response and an outcome, with what was learnt so far."""
    shared = build_shared_parts(settings, options or AnalysisOptions())
    return crawl_assembly(settings).build_parts(shared, settings, topic, states)


def build_worker_analyzer(settings: bytes, topic: bytes, states: Mapping[str, bytes]) -> PageAnalyzer:
    """The analyzer of a worker process, from what can be sent there."""
    decoded = msgspec.msgpack.decode(settings, type=Settings)
    return build_analysis_parts(decoded, msgspec.msgpack.decode(topic, type=Topic), states).analyzer


@dataclass(frozen=True, slots=True)
class CrawlAnalysis:
    """The parts of a crawl's analysis and the pool that runs them."""

    parts: AnalysisParts
    pool: AnalysisPool


@asynccontextmanager
async def open_analysis(
    settings: Settings, topic: Topic, states: Mapping[str, bytes], options: AnalysisOptions | None = None
) -> AsyncIterator[CrawlAnalysis]:
    """The analysis of a crawl, its workers started; they are stopped at the end, whatever happens."""
    options = options or AnalysisOptions()
    parts = build_analysis_parts(settings, topic, states, options)
    encode = msgspec.msgpack.encode
    build_worker = partial(build_worker_analyzer, encode(settings), encode(topic), dict(states))
    async with open_pool(settings, parts.analyzer, build_worker, options) as pool:
        yield CrawlAnalysis(parts, pool)
