"""Puts together what judges visits of stored pages and what plans them; refuses settings that can't be.

Also selects the link scorer of a ranker in the writing process.

The only module that knows every class: puts a crawl together from its settings.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from opilio.core.clock import Clock
from opilio.core.errors import ConfigError
from opilio.core.protocols import (
    TOPIC_STATE,
    DuplicateDetector,
    Fetcher,
    Frontier,
    HasLearners,
    Judge,
    OnlineLearner,
    Parser,
    Ranker,
    SamplesPages,
    SeedSource,
)
from opilio.core.records import Page, Reading
from opilio.core.registry import TOPIC_EXTENSIONS, build_component, complete_section, load_plugin, plugin_names
from opilio.core.settings import KIND_SECTIONS, Settings
from opilio.dedup.fingerprint import fingerprint_terms, one_character_words, simhash64
from opilio.dedup.sqlite import SqliteDuplicateDetector
from opilio.engine.analysis import PageAnalyzer, PageFeatures, SharedParts, with_page_rules
from opilio.engine.commands import CommandInbox, CommandTargets
from opilio.engine.commit import BatchCommitter, CommitTargets
from opilio.engine.discovery import SiteDiscovery
from opilio.engine.learning import LearnerGroup
from opilio.engine.link_scoring import LinkScorer, LinkScorerContext, build_link_scorer, with_boost
from opilio.engine.loop import Engine, EngineParts
from opilio.engine.politeness.host_gate import AddressResolver, HostGate, HostThrottle
from opilio.engine.politeness.robots import RobotsRules
from opilio.engine.politeness.traps import UrlFilter, build_url_filter
from opilio.engine.reseeding import ReseedTargets, build_reseeder, seeds_finished_check
from opilio.engine.revisit.outcomes import RevisitOutcomes
from opilio.engine.revisit.policies import POLICIES
from opilio.engine.revisit.scheduler import RevisitScheduler, with_conditional_requests
from opilio.engine.visit import VisitLimits, Visitor
from opilio.engine.wiring.seed_engines import complete_engine
from opilio.engine.wiring.topic import build_initial_topic, build_query_log_reader, check_topic_settings
from opilio.engine.worker_process import AnalysisLimits
from opilio.engine.workers import AnalysisPool, InlinePool, WorkerPool
from opilio.frontier.policy import FrontierLimits, FrontierPolicy, MergePolicy, refuse_nothing
from opilio.frontier.sqlite.claims import ClaimableFrontier
from opilio.frontier.sqlite.queries import longest_delay
from opilio.methods.agents.plugin import AgentParts, agent_states, build_team, build_team_analyzer, team_learners
from opilio.methods.agents.profiles import AgentProfile, agent_profiles, check_agent_settings, uses_agents
from opilio.parse.html import HtmlParser
from opilio.store.collection import Collection
from opilio.store.writer import CollectionWriter, stored_robots
from opilio.text.reading import PageReader
from opilio.text.term_arrays import term_array
from opilio.text.url_words import UrlTerms
from opilio.text.vocabulary import Vocabulary
from opilio.topic.build_context import BuildContext
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.page_terms import CachedIdf, PageTerms
from opilio.topic.setup import background_frequencies, background_idf, build_genres, build_reader, build_vocabulary
from opilio.topic.topic import Topic, make_topic
from opilio.topic.weights import WeightTable


def check_revisits(settings: Settings) -> None:
    """ConfigError for a policy that is unknown."""
    policy = settings.revisit.policy
    if policy not in POLICIES:
        raise ConfigError(f"revisit.policy = '{policy}': is unknown; known: {', '.join(POLICIES)}")


def build_revisits(
    settings: Settings, collection: Collection, frontier: Frontier, seen: DuplicateDetector | None, now: float
) -> tuple[RevisitOutcomes, RevisitScheduler | None]:
    """The outcomes of revisits, for every crawl, and the scheduler if revisits are scheduled."""
    again = RevisitOutcomes(collection, frontier, seen, settings.revisit.second_look_s)
    if not settings.revisit.on or settings.revisit.share <= 0:
        return again, None
    revisits = RevisitScheduler(collection, frontier, again, settings.revisit)
    revisits.load(now)
    return again, revisits


TOPIC_SNAPSHOT = TOPIC_STATE
RANKERS_WITHOUT_TAG_PATHS = frozenset(
    {"breadth", "parent", "linkscore", "tswt", "shark", "fish"}
)  # rankers blind to tag paths
LEASE_URLS_WITHOUT_DELAY = 4  # URLs per lease where a host asks for no pause: enough to keep its connection busy


def complete_settings(settings: Settings) -> Settings:
    """Settings with every option of every kind written out and checked."""
    sections = {name: complete_section(name, getattr(settings, name)) for name in KIND_SECTIONS}
    try:
        MergePolicy(settings.frontier.merge)
    except ValueError as error:
        known = ", ".join(MergePolicy)
        raise ConfigError(f"frontier.merge = '{settings.frontier.merge}': is unknown; known: {known}") from error
    engines = {name: complete_engine(name, tree) for name, tree in settings.seeds.engines.items()}
    seeds = msgspec.structs.replace(settings.seeds, engines=engines)
    whole: Settings = msgspec.structs.replace(settings, seeds=seeds, **sections)
    check_agent_settings(whole)
    check_revisits(whole)
    return whole


@dataclass(frozen=True, slots=True)
class AnalysisParts:
    """The analyzer and its learners. `agents`: the parts of each agent, first to last."""

    analyzer: PageAnalyzer
    learners: dict[str, OnlineLearner]
    ranker: Ranker
    agents: "tuple[AnalysisParts, ...]" = ()

    @property
    def evolving_topic(self) -> EvolvingTopic:
        """The topic's table."""
        return self.topics[TOPIC_SNAPSHOT]

    @property
    def topics(self) -> dict[str, EvolvingTopic]:
        """The same with those of agents, by the names of their states."""
        return {name: learner for name, learner in self.learners.items() if isinstance(learner, EvolvingTopic)}


def build_topic(settings: Settings, positive: tuple[str, ...] = (), negative: tuple[str, ...] = ()) -> Topic:
    """The user's topic, with the texts of example pages."""
    s = settings.topic
    topic = make_topic(
        s.name,
        s.keywords,
        description=s.description,
        positive=positive,
        negative=negative,
        contexts=tuple(s.contexts),
        genres=tuple(s.genres),
        language=s.language,
    )
    for name in plugin_names(TOPIC_EXTENSIONS):
        topic = load_plugin(TOPIC_EXTENSIONS, name)(topic, settings)
    check_topic_settings(settings, topic)
    return topic


def initial_topic_state(settings: Settings, topic: Topic) -> bytes:
    """The topic's table before the first page, as a snapshot to begin from."""
    return build_initial_topic(settings, topic).snapshot()


def build_analysis_parts(
    settings: Settings,
    topic: Topic,
    states: Mapping[str, bytes],
    parser: Parser | None = None,
    *,
    records: bool = True,
    reads: "PageReaderFactory | None" = None,
) -> AnalysisParts:
    """Everything between an answer and an outcome, with what was learnt so far.

    `records`: make WARC records; `reads`: who reads words instead of our own reader (the lab looks them up).
    """
    vocabulary = build_vocabulary(settings)
    reads_paths = settings.rank["kind"] not in RANKERS_WITHOUT_TAG_PATHS or settings.topic.around == "paragraph"
    parser = with_page_rules(parser or HtmlParser(settings.politeness.agent, paths=reads_paths), settings)
    means = SharedParts(vocabulary, parser, (reads or build_page_reader)(settings, vocabulary), records)
    return (
        _build_agent_parts(means, settings, topic, states)
        if uses_agents(settings)
        else _build_parts(means, settings, topic, states)
    )


def _build_agent_parts(
    means: SharedParts, settings: Settings, topic: Topic, states: Mapping[str, bytes]
) -> AnalysisParts:
    """Parts for each agent, and one analyzer over them."""
    agents = []
    for profile in agent_profiles(settings):
        about = topic if profile.settings.topic == settings.topic else build_topic(profile.settings)
        first = {TOPIC_SNAPSHOT: initial_topic_state(profile.settings, about)}
        agents.append(_build_parts(means, profile.settings, about, first | agent_states(profile, states)))
    learners = team_learners(settings, [parts.learners for parts in agents], states)
    analyst = build_team_analyzer(settings, [parts.analyzer for parts in agents], learners)
    return AnalysisParts(analyst, learners, agents[0].ranker, tuple(agents))


def _build_parts(means: SharedParts, settings: Settings, topic: Topic, states: Mapping[str, bytes]) -> AnalysisParts:
    vocabulary = means.vocabulary
    banned = frozenset(vocabulary.stem_of(term) for text in topic.contexts for term in vocabulary.terms(text))
    evolving = EvolvingTopic(WeightTable(), None, background_idf, build_query_log_reader(settings, vocabulary), banned)
    words = PageTerms(
        vocabulary.terms, CachedIdf(background_frequencies().__getitem__), title=settings.topic.title_weight
    )
    genres = build_genres(settings, vocabulary, topic.genres)
    context = BuildContext(settings, topic, evolving, vocabulary, words, UrlTerms(vocabulary), genres, states)
    first: Judge = build_component("judge", settings.judge, context)
    judge: Judge = build_component("senses", settings.senses, first, context)
    ranker: Ranker = build_component("rank", settings.rank, context)
    learners: dict[str, OnlineLearner] = {TOPIC_SNAPSHOT: evolving}
    for part in (first, ranker):
        if isinstance(part, HasLearners):
            learners |= part.learners()
    for name, state in states.items():
        if name in learners:  # a run with other options may have left more
            learners[name].restore(state)
    feeds = settings.expansion["kind"] not in ("none", "query-log")
    sample = first.sample if isinstance(first, SamplesPages) else None
    notes = PageFeatures(vocabulary, build_genres(settings, vocabulary, ()).detect, feeds, sample)
    analyst = PageAnalyzer(means.parser, means.read, judge, ranker, notes, learners, records=means.make_records)
    return AnalysisParts(analyst, learners, ranker)


def build_worker_analyzer(settings: bytes, topic: bytes, states: Mapping[str, bytes]) -> PageAnalyzer:
    """The same in a worker process, from what can be sent there."""
    decoded = msgspec.msgpack.decode(settings, type=Settings)
    return build_analysis_parts(decoded, msgspec.msgpack.decode(topic, type=Topic), states).analyzer


PageReaderFactory = Callable[[Settings, Vocabulary], Callable[[Page], Reading]]


def build_page_reader(settings: Settings, vocabulary: Vocabulary) -> Callable[[Page], Reading]:
    """From a page to its words, with its fingerprints."""
    return partial(_read_page, build_reader(settings, vocabulary), settings.seen.near)


def _read_page(reader: PageReader, near: bool, page: Page) -> Reading:
    reading = reader.read(page)
    # Of all words, navigation too: by its main text alone, every page of a long list would be the copy of the first.
    terms = term_array(reading.terms)
    fingerprint = fingerprint_terms(terms, one_character_words(page.flow))
    return msgspec.structs.replace(reading, fingerprint=fingerprint, simhash=simhash64(terms) if near else 0)


class Environment:
    """The outside a crawl runs in: a live one, or the lab's."""

    def __init__(
        self,
        collection: Collection,
        writer: CollectionWriter,
        frontier: Frontier,
        fetcher: Fetcher,
        clock: Clock,
        traps: UrlFilter | None = None,
    ) -> None:
        self.collection = collection
        self.writer = writer
        self.frontier = frontier
        self.fetcher = fetcher
        self.clock = clock
        self.url_filter = traps or UrlFilter(refuse_nothing)


def build_frontier(settings: Settings, collection: Collection, traps: UrlFilter | None = None) -> ClaimableFrontier:
    return ClaimableFrontier(collection.connection, build_frontier_policy(settings, collection, traps))


def build_frontier_policy(settings: Settings, collection: Collection, traps: UrlFilter | None = None) -> FrontierPolicy:
    """How any frontier orders, merges, bounds and refuses."""
    limits = FrontierLimits(queued=settings.frontier.max_queued, host_total=settings.frontier.max_per_host)
    watch = traps or build_url_filter(settings, collection, resumed=False)
    return FrontierPolicy(
        order=build_component("order", settings.order),
        merge=MergePolicy(settings.frontier.merge),
        limits=limits,
        refusal_reason=watch.refusal_reason,
        boosted=watch.host_rules.boosted_hosts,
        delay_s=settings.politeness.delay_s,
    )


def build_analysis_pool(
    settings: Settings, topic: Topic, parts: AnalysisParts, states: Mapping[str, bytes]
) -> AnalysisPool:
    """Where analysis happens. `WorkerPool` still has to be started."""
    if settings.engine.workers == 0:
        return InlinePool(parts.analyzer)
    encode = msgspec.msgpack.encode
    make = partial(build_worker_analyzer, encode(settings), encode(topic), dict(states))
    limits = AnalysisLimits(cpu_s=settings.engine.analysis_s, memory_mb=settings.engine.analysis_mb)
    return WorkerPool(make, settings.engine.workers, limits)


def build_engine(
    settings: Settings,
    world: Environment,
    parts: AnalysisParts,
    pool: AnalysisPool,
    resumed: bool,
    sources: Sequence[SeedSource] = (),
) -> Engine:
    """The engine over a world; `sources` are asked for more seeds when nothing is left to fetch."""
    collection, clock = world.collection, world.clock
    bounds = VisitLimits(
        max_depth=settings.frontier.max_depth,
        max_redirects=settings.fetch.hops,
        max_retries=settings.fetch.retries,
        follow_copies=settings.seen.follow,
    )
    seen = SqliteDuplicateDetector(collection.connection, settings.seen.near, settings.seen.distance)
    frontier, learning, link_scorer = build_writers(
        settings, collection, world.writer, world.frontier, parts, clock.now()
    )
    content = seen if settings.seen.content else None
    looks = build_revisits(settings, collection, frontier, content, clock.now())
    discovery = SiteDiscovery(settings, collection.connection) if settings.frontier.discover else None
    books = CommitTargets(collection, world.writer, frontier, content, world.url_filter, *looks, discovery)
    for name, state in learning.resume().items():
        pool.update_state(name, state)
    committer = BatchCommitter(books, learning, link_scorer, bounds, pool.update_state)
    host_gate = _build_host_gate(settings, world, committer, resumed)
    rng = random.Random(settings.engine.random_seed)
    fetcher = with_conditional_requests(settings, world.fetcher, collection.connection)
    visitor = Visitor(fetcher, pool, host_gate, clock, bounds, rng)
    host_rules = world.url_filter.host_rules
    commands = CommandInbox(
        CommandTargets(
            collection, world.writer, frontier, host_rules, parts.topics, learning.retire_agent, committer.apply_labels
        )
    )
    commands.apply_stored(clock.now())
    targets = ReseedTargets(collection, world.writer, frontier, parts.evolving_topic)
    scout = build_reseeder(settings, targets, sources, build_vocabulary(settings))
    stages = EngineParts(frontier, visitor, committer, commands, world.writer.counts, clock, scout)
    per_host = settings.frontier.per_host or (1 if settings.politeness.delay_s > 0 else LEASE_URLS_WITHOUT_DELAY)
    return Engine(stages, settings.engine, settings.stop, per_host)


def build_writers(
    settings: Settings,
    collection: Collection,
    writer: CollectionWriter,
    store: Frontier,
    parts: AnalysisParts,
    now: float,
) -> tuple[Frontier, LearnerGroup, LinkScorer]:
    """The writers of a commit: of one crawler, or of a team."""
    if not parts.agents:
        learning = LearnerGroup(
            parts.learners, collection, writer, settled=seeds_finished_check(settings, store, collection)
        )
        return store, learning, _build_boosted_scorer(settings, collection, parts)
    assert isinstance(store, ClaimableFrontier)
    agent_parts = [
        AgentParts(one.evolving_topic, one.learners, _build_boosted_scorer(settings, collection, one, profile))
        for one, profile in zip(parts.agents, agent_profiles(settings), strict=True)
    ]
    return build_team(settings, collection, writer, store, agent_parts, now)


def _build_boosted_scorer(
    settings: Settings, collection: Collection, parts: AnalysisParts, agent: AgentProfile | None = None
) -> LinkScorer:
    whose = (agent.name, agent.number) if agent else ("", 0)
    link_scorer = build_link_scorer(
        settings.rank["kind"], LinkScorerContext(parts.ranker, collection, parts.learners, *whose)
    )
    return with_boost(link_scorer, build_component("boost", settings.boost), collection)


def _build_host_gate(settings: Settings, world: Environment, committer: BatchCommitter, resumed: bool) -> HostGate:
    polite, clock, connection = settings.politeness, world.clock, world.collection.connection
    shares = polite.share_address and not settings.fetch.proxy  # behind a proxy, only it knows addresses
    floor = 0.0
    if resumed:
        # After a restart another host of the same address may have been fetched from just before.
        floor = clock.now() + max(polite.delay_s, longest_delay(connection, clock.now()))
    turns = HostThrottle(clock, AddressResolver(settings.fetch.resolve) if shares else None, floor)
    turns.host_delays_s = world.url_filter.host_rules.host_delays_s

    def keep(origin: str, rules: RobotsRules, delay_s: float) -> None:
        committer.store_robots(origin, rules, delay_s, clock.now())

    return HostGate(polite, world.fetcher, clock, turns, partial(stored_robots, connection), keep)
