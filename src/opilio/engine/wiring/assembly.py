"""How a crawl is assembled: by one crawler, or by another assembly that a package registers (S3's agents).

An assembly builds what analyzes pages (topic, judge, ranker, their learners, the pool of workers) and what a commit
writes through. `crawl_assembly` finds the one that the settings ask for; nothing else in the engine depends on which
one it is. `open_analysis` starts the pool and closes it; live crawls, replays of the lab and tests use it.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from opilio.core.errors import ConfigError
from opilio.core.protocols import (
    TOPIC_STATE,
    Frontier,
    HasLearners,
    Judge,
    Learns,
    LinkScorer,
    Parser,
    Ranker,
    SamplesPages,
    WeighsLinks,
)
from opilio.core.records import Page, Reading
from opilio.core.registry import ASSEMBLIES, build_component, load_plugin
from opilio.core.settings import AgentTeamSettings, EngineSettings, Settings
from opilio.dedup import fingerprint_terms, one_character_words, simhash64
from opilio.engine.analysis import PageAnalyzer, PageFeatures, SharedParts, with_page_rules
from opilio.engine.boosted_scoring import with_boost
from opilio.engine.learning import NO_OWNER, LearnerGroup, Owner, restore_state
from opilio.engine.link_scoring import LinkScorerContext, build_link_scorer
from opilio.engine.reseeding import seeds_finished_check
from opilio.engine.wiring.topic import build_query_log_reader, initial_expansion
from opilio.engine.workers.pool import AnalysisPool, InlinePool, WorkerPool
from opilio.engine.workers.process import AnalysisLimits, rare_collections
from opilio.parse.html import HtmlParser
from opilio.store.collection import Collection
from opilio.store.writer import CollectionWriter
from opilio.text.languages import language_code
from opilio.text.reading import PageReader
from opilio.text.term_arrays import term_array
from opilio.text.tokens import UrlTerms
from opilio.text.vocabulary import Vocabulary
from opilio.text.word_vectors import TermRows, add_term_rows, load_word_vectors, loaded_term_rows, one_blas_thread
from opilio.topic.evolving import EvolvingTopic, TopicLearner, TopicTranslations
from opilio.topic.page_terms import SITE_TEXT_STATE, CachedIdf, PageTerms, SiteText
from opilio.topic.setup import (
    BuildContext,
    background_frequencies,
    background_idf,
    build_genres,
    build_reader,
    build_vocabulary,
)
from opilio.topic.topic import Topic
from opilio.topic.weights import WeightTable

# These rankers do not use the tag paths of links.
RANKERS_WITHOUT_TAG_PATHS = frozenset({"breadth", "parent", "linkscore", "tswt", "shark", "fish"})

PageReaderFactory = Callable[[Settings, Vocabulary], Callable[[Page], Reading]]


@dataclass(frozen=True, slots=True)
class AnalysisParts:
    """The analyzer of a crawler and its learners by the names of their states; `topics` are the tables among them.

    `agents` are the parts of each agent where several share the crawl; `owner` is the agent that has these parts.
    """

    analyzer: PageAnalyzer
    learners: dict[str, Learns]
    topics: dict[str, TopicLearner]
    ranker: Ranker
    agents: "tuple[AnalysisParts, ...]" = ()
    owner: Owner = NO_OWNER

    @property
    def evolving_topic(self) -> EvolvingTopic:
        """The table of the crawl's topic."""
        return self.topics[TOPIC_STATE].topic

    def parts_of(self, agent: int) -> "AnalysisParts":
        """The parts of an agent by its number; these where there is no such agent."""
        return next((parts for parts in self.agents if parts.owner.number == agent), self)


@dataclass(frozen=True, slots=True)
class AnalysisOptions:
    """What a replay or a test replaces: the parser, the reader of words, the WARC records, the pool, the judge."""

    parser: Parser | None = None
    records: bool = True
    read_pages: "PageReaderFactory" = field(default_factory=lambda: build_page_reader)
    wrap_pool: Callable[[AnalysisPool], AnalysisPool] | None = None
    wrap_judge: Callable[[Judge], Judge] | None = None


def build_shared_parts(settings: Settings, options: AnalysisOptions) -> SharedParts:
    """What all agents of a crawl share: vocabulary, parser and reader."""
    vocabulary = build_vocabulary(settings)
    html = options.parser or HtmlParser(
        settings.politeness.agent,
        paths=settings.rank["kind"] not in RANKERS_WITHOUT_TAG_PATHS,
        lists=settings.topic.around == "paragraph",
        library=settings.engine.html_library,
        languages=wanted_languages(settings),
    )
    parser = with_page_rules(html, settings)
    read = options.read_pages(settings, vocabulary)
    return SharedParts(vocabulary, parser, read, options.records, options.wrap_judge)


def wanted_languages(settings: Settings) -> set[str]:
    """The codes of the languages that a crawl looks for: those of the scope, or that of the topic."""
    scope = settings.scope
    wanted = {language_code(name) for name in scope.languages} or {language_code(settings.topic.language)}
    return wanted - {language_code(name) for name in scope.deny_languages} - {""}


def build_crawler_parts(
    shared: SharedParts, settings: Settings, topic: Topic, states: Mapping[str, bytes], owner: Owner = NO_OWNER
) -> AnalysisParts:
    """The parts of one crawler, or of one agent, with what it has learned so far."""
    vocabulary = shared.vocabulary
    banned = frozenset(vocabulary.stem_of(term) for text in topic.contexts for term in vocabulary.terms(text))
    query_log = build_query_log_reader(settings, vocabulary)
    expansion = initial_expansion(settings)
    evolving = EvolvingTopic(WeightTable(), expansion, background_idf, query_log, banned)
    topic_learner = TopicLearner(evolving, owner.agent)
    idf = CachedIdf(background_frequencies().__getitem__)
    read, translate = shared.read, None
    if settings.topic.translate:
        translations = TopicTranslations(evolving, vocabulary.language, partial(load_word_vectors, vocabulary))
        read, translate = translations.wrap_reader(read), translations.translate
    words = PageTerms(vocabulary.terms, idf, title=settings.topic.title_weight, translate=translate)
    all_genres = build_genres(settings, vocabulary, ())
    genres = build_genres(settings, vocabulary, topic.genres) if topic.genres else all_genres
    context = BuildContext(settings, topic, evolving, vocabulary, words, UrlTerms(vocabulary), genres, states)
    topic_judge: Judge = build_component("judge", settings.judge, context)
    judge: Judge = build_component("senses", settings.senses, topic_judge, context)
    if shared.wrap_judge is not None:
        judge = shared.wrap_judge(judge)
    ranker: Ranker = build_component("rank", settings.rank, context)
    learners: dict[str, Learns] = {TOPIC_STATE: topic_learner}
    expands_by_pages = settings.expansion["kind"] not in ("none", "query-log")
    # Nothing else adds words permanently, so other crawls need not count the texts of sites.
    site_text = SiteText(vocabulary.terms) if expands_by_pages and settings.topic.skip_site_text else None
    if site_text is not None:
        learners[SITE_TEXT_STATE] = site_text
    # A judge that learns words by itself sends those of the whole page, so no other part can learn from the sample.
    sampler = next((part for part in (topic_judge, judge) if isinstance(part, SamplesPages)), None)
    for part in (topic_judge, ranker, judge if judge is sampler else None):
        if isinstance(part, HasLearners):
            learners |= part.learners()
    for name, state in states.items():
        # A run with other options may have left states of learners that this one does not have.
        if name in learners:
            restore_state(learners[name], name, state)
    with_link = topic_judge.with_link_score if isinstance(topic_judge, WeighsLinks) else None
    sample = sampler.sample if sampler is not None else None
    features = PageFeatures(vocabulary, all_genres.detect, expands_by_pages, sample, with_link, site_text)
    if settings.expansion["kind"] == "pagewise":
        features.counted_pages = "all" if settings.expansion["share"] > 0.0 else "none"
    analyzer = PageAnalyzer(shared.parser, read, judge, ranker, features, learners, records=shared.make_records)
    return AnalysisParts(analyzer, learners, {TOPIC_STATE: topic_learner}, ranker, owner=owner)


def build_page_reader(settings: Settings, vocabulary: Vocabulary) -> Callable[[Page], Reading]:
    """A function from a page to its words and fingerprints."""
    return partial(_read_page, build_reader(settings, vocabulary), settings.seen.near)


def _read_page(reader: PageReader, near: bool, page: Page) -> Reading:
    reading = reader.read(page)
    # Of all words, navigation too: by its main text alone, every page of a long list would be the copy of the first.
    terms = term_array(reading.terms)
    fingerprint = fingerprint_terms(terms, one_character_words(page.flow))
    return msgspec.structs.replace(reading, fingerprint=fingerprint, simhash=simhash64(terms) if near else 0)


@asynccontextmanager
async def open_pool(
    settings: Settings, analyzer: PageAnalyzer, build_worker: Callable[[], PageAnalyzer], options: AnalysisOptions
) -> AsyncIterator[AnalysisPool]:
    """The pool that runs the analysis: worker processes, or this process where `engine.workers` is 0."""
    engine = settings.engine
    limits = AnalysisLimits(cpu_s=engine.analysis_s, memory_mb=engine.analysis_mb, sandbox=engine.sandbox)
    pool: AnalysisPool = InlinePool(analyzer)
    if engine.workers:
        pool = WorkerPool(build_worker, engine.workers, limits)
    if options.wrap_pool is not None:
        pool = options.wrap_pool(pool)
    try:
        await pool.start()
        yield pool
    finally:
        await pool.close()


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
        learning = LearnerGroup(parts.learners, collection, seeds_finished=seeds_finished)
        return CrawlWriters(frontier, learning, build_boosted_scorer(settings, collection, parts))


def assembly_kind(engine: EngineSettings, agents: AgentTeamSettings) -> str:
    """The name of the assembly that the settings ask for: a plug-in, several agents, or one crawler."""
    return engine.assembly or (AGENTS if agents.count > 0 or agents.each else SINGLE_CRAWLER)


def crawl_assembly(settings: Settings) -> Assembly:
    """The assembly of a crawl."""
    kind = assembly_kind(settings.engine, settings.agents)
    if settings.engine.assembly in (AGENTS, SINGLE_CRAWLER):
        raise ConfigError(f"engine.assembly = '{kind}': only for plug-ins; set agents.count for a crawl by agents")
    assembly: Assembly = load_plugin(ASSEMBLIES, kind, "engine.assembly")()
    return assembly


def build_boosted_scorer(settings: Settings, collection: Collection, parts: AnalysisParts) -> LinkScorer:
    """The link scorer of a crawler or an agent, with the boost that the settings ask for."""
    context = LinkScorerContext(parts.ranker, collection, parts.learners, parts.owner)
    scorer = build_link_scorer(settings.rank["kind"], context)
    return with_boost(scorer, build_component("boost", settings.boost), collection)


def build_analysis_parts(
    settings: Settings, topic: Topic, states: Mapping[str, bytes], options: AnalysisOptions | None = None
) -> AnalysisParts:
    """Everything between a response and an outcome, with what was learned so far."""
    shared = build_shared_parts(settings, options or AnalysisOptions())
    return crawl_assembly(settings).build_parts(shared, settings, topic, states)


def build_worker_analyzer(
    settings: bytes, topic: bytes, states: Mapping[str, bytes], term_rows: TermRows
) -> PageAnalyzer:
    """The analyzer of a worker process, from what can be sent there."""
    add_term_rows(term_rows)
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
    build_worker = partial(build_worker_analyzer, encode(settings), encode(topic), dict(states), loaded_term_rows())
    with one_blas_thread(), rare_collections():
        async with open_pool(settings, parts.analyzer, build_worker, options) as pool:
            yield CrawlAnalysis(parts, pool)
