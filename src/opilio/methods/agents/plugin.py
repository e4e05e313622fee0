"""The assembly of a crawl by agents: a crawler each, with the manager, the directory and the frontier they share.

The settings of an agent are those of the crawl with its own topic and seeds.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from opilio.core.errors import ConfigError
from opilio.core.protocols import RANK_STATE, TOPIC_STATE, Learns
from opilio.core.records import MAX_AGENTS, AgentAnalysis, Analysis, FetchResult, Lead, Reading, Verdict, url_key
from opilio.core.settings import AgentSettings, AgentTeamSettings, Settings, TopicSettings, Tree, suggest_name
from opilio.core.urls import require_url
from opilio.engine.analysis import PageAnalyzer, SharedParts
from opilio.engine.learning import LearnerGroup, Owner, state_name
from opilio.engine.reseeding import seeds_finished_check
from opilio.engine.wiring.assembly import (
    AnalysisParts,
    CrawlWriters,
    WriterContext,
    build_boosted_scorer,
    build_crawler_parts,
)
from opilio.engine.wiring.topic import build_topic, initial_topic_state
from opilio.frontier.policy import Order
from opilio.frontier.sqlite.claims import ClaimableFrontier
from opilio.methods.agents.agent import (
    UNBORN,
    Agent,
    AgentDirectory,
    AgentRecord,
    LivingRanker,
    Organism,
    Population,
    assign_seeds,
)
from opilio.methods.agents.frontier import SharedFrontier
from opilio.methods.agents.link_queue import AgentLinkQueue, AgentQueueOptions
from opilio.methods.agents.manager import AgentManager
from opilio.methods.agents.team import AgentTeam, TeamLearning, TeamLinkScorer, TeamMember
from opilio.methods.treasure.context_graph import HINTS_STATE
from opilio.rank.committee import CommitteeMember, MemberKind
from opilio.rank.topic_genre import TopicGenreRanker
from opilio.topic.evolving import EvolvingTopic, TopicLearner
from opilio.topic.setup import BuildContext
from opilio.topic.topic import Topic
from opilio.topic.weights import WeightTable

AGENT_TOPIC_OPTIONS = (
    "name",
    "description",
    "keywords",
    "contexts",
    "genres",
    "dewey",
)


class AgentProfile(msgspec.Struct, frozen=True):
    """One agent with its settings."""

    number: int
    name: str
    requests: int
    settings: Settings


def check_agent_settings(settings: Settings) -> None:
    """ConfigError for settings that agents can't use."""
    agent_profiles(settings)
    for key, value, fit in (
        ("order.kind", settings.order["kind"], ("best-first", "expiring", "breadth-first")),
        ("frontier.merge", settings.frontier.merge, ("max", "discard")),
        ("order.top", settings.order.get("top", 0), (0,)),
    ):
        if value not in fit:
            raise ConfigError(
                f"{key} = {value!r}: agents keep their own order; with them it can be {_format_choices(fit)}"
            )
    if settings.agents.most and settings.rank["kind"] != "infospiders":
        raise ConfigError("agents.most: only agents with rank.kind = 'infospiders' have energy; leave it out")
    if settings.rank.get("model") and settings.rank["kind"] == "committee":
        raise ConfigError("rank.model: agents start with untrained rankers; leave rank.model or the agents out")


def agent_profiles(settings: Settings) -> list[AgentProfile]:
    """Every agent with its settings; ConfigError for invalid ones."""
    given = _named_agents(settings.agents)
    own = [[_canonical_seed(url, one) for url in one.seeds] for one in given]
    first = len(given) - _unborn(settings.agents)
    shares = [*assign_seeds(list(settings.seeds.urls), own[:first], settings.agents.split), *own[first:]]
    found = []
    for number, (one, seeds) in enumerate(zip(given, shares, strict=True), start=1):
        own_settings = msgspec.structs.replace(
            settings,
            topic=_agent_topic(settings, one),
            seeds=msgspec.structs.replace(settings.seeds, urls=seeds),
            agents=AgentTeamSettings(),
        )
        found.append(AgentProfile(number, one.name, one.requests or settings.agents.requests, own_settings))
    return found


def seed_agents(settings: Settings) -> dict[int, int]:
    """The number of the agent that starts at a seed, by the seed's key."""
    return {url_key(url): p.number for p in agent_profiles(settings) for url in p.settings.seeds.urls}


def _named_agents(agents: AgentTeamSettings) -> list[AgentSettings]:
    """The agents of the settings, named; `agents.count` may add agents without settings of their own."""
    more = max(0, agents.count - len(agents.each)) + _unborn(agents)
    each = [*agents.each, *(AgentSettings() for _ in range(more))]
    if len(each) > MAX_AGENTS:
        option = "most" if agents.most else "count"
        raise ConfigError(f"agents.{option} = {len(each)}: there can be at most {MAX_AGENTS} agents")
    named = [
        one if one.name else msgspec.structs.replace(one, name=f"agent-{n}") for n, one in enumerate(each, start=1)
    ]
    twice = {one.name for one in named if [other.name for other in named].count(one.name) > 1}
    if twice:
        raise ConfigError(f"agents.each: two agents have the name '{min(twice)}'")
    for one in named:
        if "/" in one.name:
            raise ConfigError(f"agents.each: the name '{one.name}' may not contain a slash")
    return named


def _unborn(agents: AgentTeamSettings) -> int:
    """How many agents are not born when a crawl starts."""
    return max(0, agents.most - max(agents.count, len(agents.each)))


def _agent_topic(settings: Settings, one: AgentSettings) -> TopicSettings:
    """The crawl's topic overlaid with the agent's own. A new name is a new topic without the old words."""
    for key in one.topic:
        if key not in AGENT_TOPIC_OPTIONS:
            known, hint = ", ".join(AGENT_TOPIC_OPTIONS), suggest_name(key, list(AGENT_TOPIC_OPTIONS))
            raise ConfigError(f"agents.each: topic.{key} of '{one.name}' can't be its own{hint}; {known} can")
    base: Mapping[str, object] = msgspec.to_builtins(settings.topic)
    if "name" in one.topic:
        base = {
            key: value
            for key, value in base.items()
            if key not in (*AGENT_TOPIC_OPTIONS, "examples", "counterexamples")
        }
    tree: Tree = {**base, **one.topic}
    try:
        return msgspec.convert(tree, TopicSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"agents.each: topic of '{one.name}': {error}") from error


def _canonical_seed(url: str, one: AgentSettings) -> str:
    return require_url(url, f"agents.each: '{one.name}': seed", ConfigError)


def _format_choices(values: Sequence[object]) -> str:
    return ", ".join(map(repr, values))


class TeamAnalyzer(PageAnalyzer):
    """The agent that requested a page analyzes it; its `listeners` judge it too.

    `ranks`: agents that score the links of every page they judge; the others only those of relevant pages.
    """

    def __init__(
        self,
        analysts: Mapping[int, PageAnalyzer],
        listeners: Mapping[int, Sequence[int]],
        ranks: frozenset[int],
        learners: Mapping[str, Learns],
    ) -> None:
        first = analysts[min(analysts)]
        super().__init__(*first.parts, learners=learners, records=first.make_records)
        self._analyzers = analysts
        self._listeners = listeners
        self._always_rank = ranks

    def _analyze_reading(self, lead: Lead, fetched: FetchResult, reading: Reading) -> Analysis:
        """The requester's analysis with the listeners' verdicts; if the requester fails, another agent's analysis."""
        number = lead.agent if lead.agent in self._analyzers else min(self._analyzers)
        broken = list[AgentAnalysis]()
        for thinker in (number, *(n for n in self._analyzers if n != number)):
            try:
                analysis = self._analyzers[thinker]._analyze_reading(lead, fetched, reading)
            except Exception as error:  # noqa: BLE001 - an agent that fails must not cost the page; it is reported
                if thinker == number:
                    first = error
                broken.append(_failed_opinion(thinker, error))
                continue
            return self._with_opinions(analysis, thinker, broken, reading, lead)
        raise first

    def _with_opinions(
        self, analysis: Analysis, thinker: int, broken: list[AgentAnalysis], reading: Reading, lead: Lead
    ) -> Analysis:
        asker = broken[0].agent if broken else thinker
        silent = {opinion.agent for opinion in broken} | {thinker}
        others = [self._opinion(n, reading, lead) for n in self._listeners[asker] if n not in silent]
        if analysis.verdict is None or not (others or broken):
            return analysis
        mine = AgentAnalysis(agent=thinker, verdict=analysis.verdict, links=analysis.links)
        opinions = [mine, *(opinion for opinion in others if not opinion.error)]
        best = max(opinions, key=lambda o: (o.verdict.relevant, o.verdict.score)).verdict
        counts, surfaces = analysis.counts, analysis.surfaces
        if best.relevant and not counts:
            counts, surfaces = self.expansion_terms(reading)
        return replace(
            analysis, verdict=best, agent_analyses=(mine, *others, *broken), counts=counts, surfaces=surfaces
        )

    def _opinion(self, number: int, reading: Reading, lead: Lead) -> AgentAnalysis:
        analyst = self._analyzers[number]
        try:
            verdict = analyst.judge(reading)
            ranks = verdict.relevant or number in self._always_rank
            links = analyst.rank(reading, verdict, replace(lead, features=b"")) if ranks else b""
        except Exception as error:  # noqa: BLE001 - the same: what one agent can't judge is the others' page still
            return _failed_opinion(number, error)
        return AgentAnalysis(agent=number, verdict=verdict, links=links)


def _failed_opinion(number: int, error: Exception) -> AgentAnalysis:
    message = f"{type(error).__name__}: {error}"[:300]
    return AgentAnalysis(agent=number, verdict=Verdict(score=0.0, relevant=False), error=message)


class AgentsAssembly:
    """See `Assembly`: several agents share one frontier; each has its own topic table, judge and ranker."""

    def check_settings(self, settings: Settings) -> None:
        check_agent_settings(settings)

    def member_settings(self, settings: Settings) -> Sequence[Settings]:
        return [profile.settings for profile in agent_profiles(settings)]

    def build_parts(
        self, shared: SharedParts, settings: Settings, topic: Topic, states: Mapping[str, bytes]
    ) -> AnalysisParts:
        """Parts for each agent, and one analyzer that asks them."""
        members = []
        for profile in agent_profiles(settings):
            own = profile.settings
            own_topic = topic if own.topic == settings.topic else build_topic(own)
            first = {TOPIC_STATE: initial_topic_state(own, own_topic)} | agent_states(profile, states)
            members.append(build_crawler_parts(shared, own, own_topic, first, Owner(profile.name, profile.number)))
        shared_topic = TopicLearner(self._shared_topic(settings, members))
        if TOPIC_STATE in states:
            shared_topic.restore(states[TOPIC_STATE])
        topics = {_state_of(one, TOPIC_STATE): one.topics[TOPIC_STATE] for one in members}
        topics |= {TOPIC_STATE: shared_topic}
        learners = {_state_of(one, name): learner for one in members for name, learner in one.learners.items()}
        learners |= {TOPIC_STATE: shared_topic}
        analyzer = build_team_analyzer(settings, [member.analyzer for member in members], learners)
        return AnalysisParts(analyzer, learners, topics, members[0].ranker, tuple(members))

    @staticmethod
    def _shared_topic(settings: Settings, members: Sequence[AnalysisParts]) -> "SharedTopic":
        profiles = zip(agent_profiles(settings), members, strict=True)
        name = settings.topic.name
        return SharedTopic([one.evolving_topic for profile, one in profiles if profile.settings.topic.name == name])

    def build_writers(self, context: WriterContext, parts: AnalysisParts) -> CrawlWriters:
        """The agents over a collection; those that worked in an earlier run continue."""
        settings, collection, store = context.settings, context.collection, context.frontier
        assert isinstance(store, ClaimableFrontier)
        profiles = agent_profiles(settings)
        agents = [_build_agent(settings, profile, store.order) for profile in profiles]
        directory = AgentDirectory(collection.connection, settings.agents.lease_s)
        manager = AgentManager(agents, directory, seed_agents(settings))
        members = []
        for profile, agent, own in zip(profiles, agents, parts.agents, strict=True):
            seeds_finished = seeds_finished_check(profile.settings, store, collection)
            learning = LearnerGroup(own.learners, collection, profile.name, seeds_finished)
            scorer = build_boosted_scorer(settings, collection, own)
            members.append(TeamMember(agent, own.evolving_topic, scorer, learning))
        team = AgentTeam(members, manager, settings.agents, settings.topic.name)
        rankers = zip(members, (own.ranker for own in parts.agents), strict=True)
        living = [Organism(m.agent, r, m.learning.teach) for m, r in rankers if isinstance(r, LivingRanker)]
        population = Population(living, directory) if settings.agents.most else None
        learning = TeamLearning(team, context.writer, context.now, population)
        return CrawlWriters(SharedFrontier(store, manager), learning, TeamLinkScorer(team))


class SharedTopic(EvolvingTopic):
    """The crawl's topic. No agent uses it; a change is passed on to the tables of the agents with that topic."""

    def __init__(self, followers: Sequence[EvolvingTopic]) -> None:
        super().__init__(WeightTable())
        self._followers = followers

    def replace(self, table: WeightTable, removed: Iterable[str] | None = None) -> None:
        """Replace the agents' tables too. Words that an agent learned are removed, but it may learn them again."""
        gone = self.table.weights.keys() - table.weights.keys() if removed is None else removed
        super().replace(table, gone)
        for follower in self._followers:
            follower.replace(table, gone)


def agent_states(profile: AgentProfile, states: Mapping[str, bytes]) -> dict[str, bytes]:
    """The states of an agent by its learners' own names; a T-Graph that all agents start with is among them."""
    prefix = state_name(profile.name, "")
    common = {name: states[name] for name in (RANK_STATE, HINTS_STATE) if name in states}
    return common | {name.removeprefix(prefix): state for name, state in states.items() if name.startswith(prefix)}


def _state_of(parts: AnalysisParts, learner: str) -> str:
    """The name of an agent's state in the collection."""
    return state_name(parts.owner.agent, learner)


def build_team_analyzer(
    settings: Settings, analyzers: Sequence[PageAnalyzer], learners: Mapping[str, Learns]
) -> TeamAnalyzer:
    """One analyzer for all. Agents of other topics judge every page; those of the same topic if they exchange."""
    profiles, agents = agent_profiles(settings), settings.agents
    exchange = agents.exchange_links or agents.exchange_lessons
    listeners = {
        one.number: [
            other.number
            for other in profiles
            if other is not one and (exchange or other.settings.topic.name != one.settings.topic.name)
        ]
        for one in profiles
    }
    ranks = frozenset(one.number for one in profiles) if agents.exchange_links else frozenset[int]()
    return TeamAnalyzer({p.number: a for p, a in zip(profiles, analyzers, strict=True)}, listeners, ranks, learners)


def _build_agent(settings: Settings, profile: AgentProfile, order: Order) -> Agent:
    topic = profile.settings.topic
    record = AgentRecord(
        number=profile.number,
        name=profile.name,
        topic=topic.name,
        genres=", ".join(topic.genres),
        seeds=len(profile.settings.seeds.urls),
    )
    if profile.number > len(agent_profiles(settings)) - _unborn(settings.agents):
        record.state = UNBORN
    options = AgentQueueOptions(order=order, keep_first_score=settings.frontier.merge == "discard")
    agents = settings.agents
    return Agent(record, AgentLinkQueue(options), profile.requests, agents.relevant, agents.patience)


def _tswt_member(context: BuildContext) -> CommitteeMember:
    """S3's topic score of a link (S3-17), as one more feature of the committee."""
    ranker = TopicGenreRanker(context.evolving_topic, context.url_terms.terms_batch)
    return CommitteeMember({"tswt": ranker.topic_member_scores})


TSWT_MEMBER = MemberKind(_tswt_member)
