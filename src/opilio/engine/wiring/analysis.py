"""Builds what analyzes pages: topic, judge, ranker and their learners, and the pool of workers that runs them.

`open_analysis` starts the pool and closes it; live crawls, replays of the lab and tests use it.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import msgspec

from opilio.core.page import Page, Reading
from opilio.core.protocols import TOPIC_STATE, HasLearners, Judge, OnlineLearner, Parser, Ranker, SamplesPages
from opilio.core.registry import build_component
from opilio.core.settings import Settings
from opilio.dedup.fingerprint import fingerprint_terms, one_character_words, simhash64
from opilio.engine.analysis import PageAnalyzer, PageFeatures, SharedParts, with_page_rules
from opilio.engine.learning import NO_OWNER, Owner, restore_state
from opilio.engine.wiring.topic import build_query_log_reader
from opilio.engine.workers.pool import AnalysisPool, InlinePool, WorkerPool
from opilio.engine.workers.process import AnalysisLimits
from opilio.judge.learned import LearnedJudge, with_link_score
from opilio.parse.html import HtmlParser
from opilio.text.languages import language_code
from opilio.text.reading import PageReader
from opilio.text.term_arrays import term_array
from opilio.text.url_words import UrlTerms
from opilio.text.vocabulary import Vocabulary
from opilio.topic.build_context import BuildContext
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.page_terms import CachedIdf, PageTerms
from opilio.topic.setup import background_frequencies, background_idf, build_genres, build_reader, build_vocabulary
from opilio.topic.site_text import SITE_TEXT_STATE, SiteText
from opilio.topic.topic import Topic
from opilio.topic.weights import WeightTable

# These rankers do not use the tag paths of links.
RANKERS_WITHOUT_TAG_PATHS = frozenset({"breadth", "parent", "linkscore", "tswt", "shark", "fish"})

PageReaderFactory = Callable[[Settings, Vocabulary], Callable[[Page], Reading]]


@dataclass(frozen=True, slots=True)
class AnalysisParts:
    """The analyzer of a crawler and its learners by the names of their states.

    `agents` are the parts of each agent where several share the crawl; `owner` is the agent that has these parts.
    """

    analyzer: PageAnalyzer
    learners: dict[str, OnlineLearner]
    ranker: Ranker
    agents: "tuple[AnalysisParts, ...]" = ()
    owner: Owner = NO_OWNER

    @property
    def evolving_topic(self) -> EvolvingTopic:
        """The table of the crawl's topic."""
        return self.topics[TOPIC_STATE]

    @property
    def topics(self) -> dict[str, EvolvingTopic]:
        """The tables of the crawl and its agents, by the names of their states."""
        return {name: learner for name, learner in self.learners.items() if isinstance(learner, EvolvingTopic)}

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
    """The parts of one crawler, or of one agent, with what it has learnt so far."""
    vocabulary = shared.vocabulary
    banned = frozenset(vocabulary.stem_of(term) for text in topic.contexts for term in vocabulary.terms(text))
    query_log = build_query_log_reader(settings, vocabulary)
    evolving = EvolvingTopic(WeightTable(), None, background_idf, query_log, banned)
    idf = CachedIdf(background_frequencies().__getitem__)
    words = PageTerms(vocabulary.terms, idf, title=settings.topic.title_weight)
    all_genres = build_genres(settings, vocabulary, ())
    genres = build_genres(settings, vocabulary, topic.genres) if topic.genres else all_genres
    context = BuildContext(settings, topic, evolving, vocabulary, words, UrlTerms(vocabulary), genres, states)
    topic_judge: Judge = build_component("judge", settings.judge, context)
    judge: Judge = build_component("senses", settings.senses, topic_judge, context)
    if shared.wrap_judge is not None:
        judge = shared.wrap_judge(judge)
    ranker: Ranker = build_component("rank", settings.rank, context)
    learners: dict[str, OnlineLearner] = {TOPIC_STATE: evolving}
    expands_by_pages = settings.expansion["kind"] not in ("none", "query-log")
    # Nothing else learns words for good, so other crawls need not count the texts of sites.
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
    link_weight = topic_judge.link_weight if isinstance(topic_judge, LearnedJudge) else 0.0
    with_link = partial(with_link_score, link_weight) if link_weight else None
    sample = sampler.sample if sampler is not None else None
    features = PageFeatures(vocabulary, all_genres.detect, expands_by_pages, sample, with_link, site_text)
    features.counts_irrelevant = settings.expansion["kind"] == "pagewise" and settings.expansion["share"] > 0.0
    analyzer = PageAnalyzer(shared.parser, shared.read, judge, ranker, features, learners, records=shared.make_records)
    return AnalysisParts(analyzer, learners, ranker, owner=owner)


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
