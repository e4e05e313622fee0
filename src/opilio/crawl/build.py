"""The only module that knows every class: puts a crawl together from its settings."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import msgspec

from opilio.crawl.analyst import Analyst, FollowsAll, Means
from opilio.crawl.boosting import boosting
from opilio.crawl.chooser import Chooser
from opilio.crawl.choosers import chooser_of
from opilio.crawl.classes import target_of, with_classes
from opilio.crawl.conditional import asks_for_changes
from opilio.crawl.config import OPEN_SECTIONS, Settings
from opilio.crawl.crewbuild import Wits, assemble, crew_analyst, crew_learners, own_states
from opilio.crawl.engine import Engine, Stages
from opilio.crawl.enginekinds import filled_engine
from opilio.crawl.kinds import Scorer, Tools, filled, made
from opilio.crawl.learning import JUDGE, TOPIC, Learning
from opilio.crawl.ledger import Books, Ledger
from opilio.crawl.manners import Manners
from opilio.crawl.notes import Notes
from opilio.crawl.profiles import Profile, check_crew, crewed, profiles
from opilio.crawl.revisitbuild import check_revisits, looking_again
from opilio.crawl.s1kind import begin_with_model
from opilio.crawl.scouting import Shelves, scout_of
from opilio.crawl.seedwatch import seeds_settled
from opilio.crawl.tgraphs import HINTS
from opilio.crawl.topics import background, check, first_topic, genres_of, idf_of, queries_of, reader_of, vocabulary_of
from opilio.crawl.trapwatch import TrapWatch, traps_of
from opilio.crawl.turns import Addresses, Turns
from opilio.crawl.visit import Bounds, Visitor
from opilio.crawl.wishes import Wishes
from opilio.crawl.workers import Desk, InlineDesk, WorkerDesk
from opilio.fetch.robots import Rules
from opilio.frontier.claims import ClaimableFrontier
from opilio.frontier.merge import Merge
from opilio.frontier.policy import Limits, Policy, nothing
from opilio.judge.learned import LearnedJudge
from opilio.judge.pagewords import PageWords
from opilio.judge.rarity import CachedIdf
from opilio.model.clock import Clock
from opilio.model.errors import ConfigError
from opilio.model.protocols import Fetcher, Frontier, Judge, Learns, Parser, SeedSource
from opilio.model.records import Page, Reading
from opilio.parse.html import HtmlParser
from opilio.rank.s1 import S1Ranker
from opilio.seen.fingerprint import fingerprint_terms, simhash64
from opilio.seen.sqlite import SqliteContentSeen
from opilio.store.collection import Collection
from opilio.store.keeper import Keeper, stored_robots
from opilio.text.counting import array_of
from opilio.text.reading import Reader
from opilio.text.urlwords import UrlTerms
from opilio.text.vocabulary import Vocabulary
from opilio.topic.living import LivingTopic
from opilio.topic.table import WeightTable
from opilio.topic.topic import Topic, topic_from

SNAPSHOT = TOPIC
PATHLESS = frozenset({"breadth", "parent", "linkscore", "tswt", "shark", "fish"})  # rankers blind to tag paths
FEW = 4  # URLs per lease where a host asks for no pause: enough to keep its connection busy


def complete(settings: Settings) -> Settings:
    """Settings with every option of every kind written out and checked."""
    sections = {name: filled(name, getattr(settings, name)) for name in OPEN_SECTIONS}
    try:
        Merge(settings.frontier.merge)
    except ValueError as error:
        known = ", ".join(Merge)
        raise ConfigError(f"frontier.merge = '{settings.frontier.merge}': is unknown; known: {known}") from error
    engines = {name: filled_engine(name, tree) for name, tree in settings.seeds.engines.items()}
    seeds = msgspec.structs.replace(settings.seeds, engines=engines)
    whole: Settings = msgspec.structs.replace(settings, seeds=seeds, **sections)
    check_crew(whole)
    check_revisits(whole)
    return whole


@dataclass(frozen=True, slots=True)
class Mind:
    """What thinks: the analyst and the parts of it that learn. `crew`: the minds of agents, first to last."""

    analyst: Analyst
    learners: dict[str, Learns]
    ranker: Scorer
    crew: "tuple[Mind, ...]" = ()

    @property
    def living(self) -> LivingTopic:
        """The topic's table."""
        return self.tables[SNAPSHOT]

    @property
    def tables(self) -> dict[str, LivingTopic]:
        """The same with those of agents, by the names of their states."""
        return {name: learner for name, learner in self.learners.items() if isinstance(learner, LivingTopic)}


def topic_of(settings: Settings, positive: tuple[str, ...] = (), negative: tuple[str, ...] = ()) -> Topic:
    """The topic a person described, with the texts of example pages."""
    s = settings.topic
    topic = topic_from(
        s.name,
        s.keywords,
        description=s.description,
        positive=positive,
        negative=negative,
        contexts=tuple(s.contexts),
        genres=tuple(s.genres),
        language=s.language,
    )
    topic = with_classes(topic, settings)
    check(settings, topic)
    return topic


def first_state(settings: Settings, topic: Topic) -> bytes:
    """The topic's table before the first page, as a snapshot to begin from."""
    return first_topic(settings, topic).snapshot()


def make_mind(
    settings: Settings,
    topic: Topic,
    states: Mapping[str, bytes],
    parser: Parser | None = None,
    *,
    records: bool = True,
    reads: "ReadsWith | None" = None,
) -> Mind:
    """Everything between an answer and an outcome, with what was learnt so far.

    `records`: make WARC records; `reads`: who reads words instead of our own reader (the lab looks them up).
    """
    vocabulary = vocabulary_of(settings)
    reads_paths = settings.rank["kind"] not in PATHLESS or settings.topic.around == "paragraph"
    parser = parser or HtmlParser(settings.politeness.agent, paths=reads_paths)
    if not settings.politeness.nofollow:
        parser = FollowsAll(parser)
    means = Means(vocabulary, parser, (reads or page_reader)(settings, vocabulary), records)
    return _crew_mind(means, settings, topic, states) if crewed(settings) else _mind(means, settings, topic, states)


def _crew_mind(means: Means, settings: Settings, topic: Topic, states: Mapping[str, bytes]) -> Mind:
    """A mind for each agent, and one analyst who asks them."""
    minds = []
    for told in profiles(settings):
        about = topic if told.settings.topic == settings.topic else topic_of(told.settings)
        first = {SNAPSHOT: first_state(told.settings, about)}
        minds.append(_mind(means, told.settings, about, first | own_states(told, states)))
    learners = crew_learners(settings, [mind.learners for mind in minds], states)
    analyst = crew_analyst(settings, [mind.analyst for mind in minds], learners)
    return Mind(analyst, learners, minds[0].ranker, tuple(minds))


def _mind(means: Means, settings: Settings, topic: Topic, states: Mapping[str, bytes]) -> Mind:
    vocabulary = means.vocabulary
    banned = frozenset(vocabulary.stem_of(term) for text in topic.contexts for term in vocabulary.terms(text))
    living = LivingTopic(WeightTable(), None, idf_of, queries_of(settings, vocabulary), banned)
    words = PageWords(vocabulary.terms, CachedIdf(background().__getitem__))
    genres = genres_of(settings, vocabulary, topic.genres)
    target = cache(partial(target_of, settings, topic, vocabulary))
    tools = Tools(topic, living, vocabulary, words, UrlTerms(vocabulary), genres, target)
    first: Judge = made("judge", settings.judge, tools)
    judge: Judge = made("senses", settings.senses, first, tools)
    ranker = made("rank", settings.rank, tools)
    learners: dict[str, Learns] = {SNAPSHOT: living}
    if isinstance(first, LearnedJudge):
        learners[JUDGE] = first
    if hasattr(ranker, "learn"):
        learners["rank"] = ranker
    if getattr(ranker, "hints", None) is not None:
        learners[HINTS] = ranker.hints
    if isinstance(ranker, S1Ranker) and "rank" not in states:
        begin_with_model(ranker, settings.rank)
    for name, state in states.items():
        if name in learners:  # a run with other options may have left more
            learners[name].restore(state)
    feeds = settings.expansion["kind"] not in ("none", "query-log")
    sample = first.sample if isinstance(first, LearnedJudge) else None
    notes = Notes(vocabulary, genres_of(settings, vocabulary, ()).detect, feeds, sample)
    analyst = Analyst(means.parser, means.read, judge, ranker, notes, learners, records=means.records)
    return Mind(analyst, learners, ranker)


def make_analyst(settings: bytes, topic: bytes, states: Mapping[str, bytes]) -> Analyst:
    """The same in a worker process, from what can be sent there."""
    decoded = msgspec.msgpack.decode(settings, type=Settings)
    return make_mind(decoded, msgspec.msgpack.decode(topic, type=Topic), states).analyst


ReadsWith = Callable[[Settings, Vocabulary], Callable[[Page], Reading]]


def page_reader(settings: Settings, vocabulary: Vocabulary) -> Callable[[Page], Reading]:
    """From a page to its words, with its fingerprints."""
    return partial(_read, reader_of(settings, vocabulary), settings.seen.near)


def _read(reader: Reader, near: bool, page: Page) -> Reading:
    reading = reader.read(page)
    # Of all words, navigation too: by its main text alone, every page of a long list would be the copy of the first.
    said = array_of(reading.terms)
    return msgspec.structs.replace(reading, fingerprint=fingerprint_terms(said), simhash=simhash64(said) if near else 0)


class World:
    """The outside a crawl runs in: a live one, or the lab's."""

    def __init__(
        self,
        collection: Collection,
        keeper: Keeper,
        frontier: Frontier,
        fetcher: Fetcher,
        clock: Clock,
        traps: TrapWatch | None = None,
    ) -> None:
        self.collection = collection
        self.keeper = keeper
        self.frontier = frontier
        self.fetcher = fetcher
        self.clock = clock
        self.traps = traps or TrapWatch(nothing)


def frontier_of(settings: Settings, collection: Collection, traps: TrapWatch | None = None) -> ClaimableFrontier:
    return ClaimableFrontier(collection.connection, policy_of(settings, collection, traps))


def policy_of(settings: Settings, collection: Collection, traps: TrapWatch | None = None) -> Policy:
    """How any frontier orders, merges, bounds and refuses."""
    limits = Limits(queued=settings.frontier.max_queued, host_total=settings.frontier.max_per_host)
    watch = traps or traps_of(settings, collection, resumed=False)
    return Policy(
        order=made("order", settings.order),
        merge=Merge(settings.frontier.merge),
        limits=limits,
        refuse=watch.refuse,
        boosted=watch.excluded.boosted,
        delay_s=settings.politeness.delay_s,
    )


def make_desk(settings: Settings, topic: Topic, mind: Mind, states: Mapping[str, bytes]) -> Desk:
    """Where analysis happens. `WorkerDesk` still has to be started."""
    if settings.engine.workers == 0:
        return InlineDesk(mind.analyst)
    encode = msgspec.msgpack.encode
    make = partial(make_analyst, encode(settings), encode(topic), dict(states))
    return WorkerDesk(make, settings.engine.workers)


def make_engine(
    settings: Settings,
    world: World,
    mind: Mind,
    desk: Desk,
    resumed: bool,
    sources: Sequence[SeedSource] = (),
) -> Engine:
    """The engine over a world; `sources` are asked for more seeds when nothing is left to fetch."""
    collection, clock = world.collection, world.clock
    bounds = Bounds(max_depth=settings.frontier.max_depth, hops=settings.fetch.hops, retries=settings.fetch.retries)
    seen = SqliteContentSeen(collection.connection, settings.seen.near, settings.seen.distance)
    frontier, learning, chooser = writers_of(settings, collection, world.keeper, world.frontier, mind, clock.now())
    content = seen if settings.seen.content else None
    looks = looking_again(settings, collection, frontier, content, clock.now())
    books = Books(collection, world.keeper, frontier, content, world.traps, *looks)
    for name, state in learning.resume().items():
        desk.refresh(name, state)
    ledger = Ledger(books, learning, chooser, bounds, desk.refresh)
    manners = _manners(settings, world, ledger, resumed)
    rng = random.Random(settings.engine.random_seed)
    fetcher = asks_for_changes(settings, world.fetcher, collection.connection)
    visitor = Visitor(fetcher, desk, manners, clock, bounds, rng)
    wishes = Wishes(collection, world.keeper, frontier, world.traps.excluded, mind.tables)
    wishes.begin(clock.now())
    shelves = Shelves(collection, world.keeper, frontier, mind.living)
    scout = scout_of(settings, shelves, sources, vocabulary_of(settings))
    stages = Stages(frontier, visitor, ledger, wishes, world.keeper.counts, clock, scout)
    per_host = settings.frontier.per_host or (1 if settings.politeness.delay_s > 0 else FEW)
    return Engine(stages, settings.engine, settings.stop, per_host)


def writers_of(
    settings: Settings, collection: Collection, keeper: Keeper, store: Frontier, mind: Mind, now: float
) -> tuple[Frontier, Learning, Chooser]:
    """What the ledger writes through: of one crawler, or of a crew."""
    if not mind.crew:
        learning = Learning(mind.learners, collection, keeper, settled=seeds_settled(settings, store, collection))
        return store, learning, _chooser(settings, collection, mind)
    assert isinstance(store, ClaimableFrontier)
    wits = [
        Wits(one.living, one.learners, _chooser(settings, collection, one, told))
        for one, told in zip(mind.crew, profiles(settings), strict=True)
    ]
    return assemble(settings, collection, keeper, store, wits, now)


def _chooser(settings: Settings, collection: Collection, mind: Mind, agent: Profile | None = None) -> Chooser:
    chooser = chooser_of(mind.ranker, mind.learners.get(JUDGE), collection, agent)
    return boosting(chooser, made("boost", settings.boost), collection)


def _manners(settings: Settings, world: World, ledger: Ledger, resumed: bool) -> Manners:
    polite, clock, connection = settings.politeness, world.clock, world.collection.connection
    shares = polite.share_address and not settings.fetch.proxy  # behind a proxy, only it knows addresses
    floor = 0.0
    if resumed:
        # Whoever was asked just before the end has a neighbour at its address, or was a hop of somebody's robots.txt.
        row = connection.execute("SELECT max(delay_s) FROM frontier_host WHERE wake_at > ?", (clock.now(),)).fetchone()
        floor = clock.now() + max(polite.delay_s, row[0] or 0.0)
    turns = Turns(clock, Addresses(settings.fetch.resolve) if shares else None, floor)
    turns.pauses = world.traps.excluded.pauses

    def keep(origin: str, rules: Rules, delay_s: float) -> None:
        ledger.keep_rules(origin, rules, delay_s, clock.now())

    return Manners(polite, world.fetcher, clock, turns, partial(stored_robots, connection), keep)
