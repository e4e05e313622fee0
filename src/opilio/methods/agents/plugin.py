"""Builds a team: agents, manager, directory, and the frontier that they share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from opilio.core.protocols import RANK_STATE, TOPIC_STATE, OnlineLearner
from opilio.core.settings import Settings
from opilio.engine.analysis import PageAnalyzer
from opilio.engine.learning import LearnerGroup, state_name
from opilio.engine.link_scoring import LinkScorer
from opilio.engine.reseeding import seeds_finished_check
from opilio.frontier.policy import Order
from opilio.frontier.sqlite.claims import ClaimableFrontier
from opilio.methods.agents.agent import Agent, AgentRecord
from opilio.methods.agents.analysis import TeamAnalyzer
from opilio.methods.agents.directory import AgentDirectory
from opilio.methods.agents.frontier import SharedFrontier
from opilio.methods.agents.link_queue import AgentLinkQueue, AgentQueueOptions
from opilio.methods.agents.manager import AgentManager
from opilio.methods.agents.profiles import AgentProfile, agent_profiles, seed_agents, uses_agents
from opilio.methods.agents.team import AgentTeam, TeamLearning, TeamLinkScorer, TeamMember
from opilio.methods.treasure.hints import HINTS_STATE
from opilio.store.collection import Collection
from opilio.store.writer import CollectionWriter
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.weights import WeightTable


class AgentParts(NamedTuple):
    """The learning parts of one agent, in the writing process."""

    evolving_topic: EvolvingTopic
    learners: Mapping[str, OnlineLearner]
    link_scorer: LinkScorer


class TeamWriters(NamedTuple):
    """The parts that a commit writes through."""

    frontier: SharedFrontier
    learning: TeamLearning
    link_scorer: TeamLinkScorer


class SharedTopic(EvolvingTopic):
    """The crawl's topic, which no agent uses: a change to it changes the tables of the agents of that topic."""

    def __init__(self, followers: Sequence[EvolvingTopic]) -> None:
        super().__init__(WeightTable())
        self._followers = followers

    def replace(self, table: WeightTable, removed: Iterable[str] | None = None) -> None:
        """Replace the table. Words that agents learned go too, but may return: the user did not remove them."""
        gone = self.table.weights.keys() - table.weights.keys() if removed is None else removed
        super().replace(table, gone)
        for topic in self._followers:
            topic.replace(table, gone)


def agent_states(profile: AgentProfile, states: Mapping[str, bytes]) -> dict[str, bytes]:
    """The learner states of an agent by their own names; in a new crawl, the T-Graph that all agents start with."""
    prefix = state_name(profile.name, "")
    common = {name: states[name] for name in (RANK_STATE, HINTS_STATE) if name in states}
    return common | {name.removeprefix(prefix): state for name, state in states.items() if name.startswith(prefix)}


def team_learners(
    settings: Settings, each: Sequence[Mapping[str, OnlineLearner]], states: Mapping[str, bytes]
) -> dict[str, OnlineLearner]:
    """All learners of a team by the names of their states in the collection, with the crawl's own topic."""
    profiles = agent_profiles(settings)
    found = {
        state_name(p.name, name): one for p, mine in zip(profiles, each, strict=True) for name, one in mine.items()
    }
    common = [p for p in profiles if p.settings.topic.name == settings.topic.name]
    tables = [found.get(state_name(p.name, TOPIC_STATE)) for p in common]
    found[TOPIC_STATE] = SharedTopic([table for table in tables if isinstance(table, EvolvingTopic)])
    if TOPIC_STATE in states:
        found[TOPIC_STATE].restore(states[TOPIC_STATE])
    return found


def load_topic_tables(settings: Settings, states: Mapping[str, bytes]) -> dict[str, EvolvingTopic]:
    """The tables of a collection by the names of their states: the crawl's own, and the agents', which follow it."""
    known = {name: restore_topic(state) for name, state in states.items() if name.rpartition("/")[2] == TOPIC_STATE}
    if not uses_agents(settings):
        return {TOPIC_STATE: known.get(TOPIC_STATE, EvolvingTopic(WeightTable()))}
    each = [
        {TOPIC_STATE: known[name]} if (name := state_name(p.name, TOPIC_STATE)) in known else {}
        for p in agent_profiles(settings)
    ]
    return {name: one for name, one in team_learners(settings, each, states).items() if isinstance(one, EvolvingTopic)}


def restore_topic(state: bytes) -> EvolvingTopic:
    """A stored table, to read or to edit; it knows no pages."""
    topic = EvolvingTopic(WeightTable())
    topic.restore(state)
    return topic


def build_team_analyzer(
    settings: Settings, analysts: Sequence[PageAnalyzer], learners: Mapping[str, OnlineLearner]
) -> TeamAnalyzer:
    """One analyzer for all agents. Agents of other topics judge every page; those of the same one if they exchange."""
    profiles, agents = agent_profiles(settings), settings.agents
    close = agents.exchange_links or agents.exchange_lessons
    listeners = {
        one.number: [
            o.number for o in profiles if o is not one and (close or o.settings.topic.name != one.settings.topic.name)
        ]
        for one in profiles
    }
    ranks = frozenset(one.number for one in profiles) if agents.exchange_links else frozenset[int]()
    return TeamAnalyzer({p.number: a for p, a in zip(profiles, analysts, strict=True)}, listeners, ranks, learners)


def build_team(
    settings: Settings,
    collection: Collection,
    writer: CollectionWriter,
    store: ClaimableFrontier,
    parts: Sequence[AgentParts],
    now: float,
) -> TeamWriters:
    """The team of a collection; agents of an earlier run continue."""
    profiles = agent_profiles(settings)
    agents = [_build_agent(settings, profile, store.order) for profile in profiles]
    directory = AgentDirectory(collection.connection, settings.agents.lease_s)
    manager = AgentManager(agents, directory, seed_agents(settings))
    members = [
        TeamMember(
            agent,
            w.evolving_topic,
            w.link_scorer,
            LearnerGroup(w.learners, collection, writer, p.name, seeds_finished_check(p.settings, store, collection)),
        )
        for p, agent, w in zip(profiles, agents, parts, strict=True)
    ]
    team = AgentTeam(members, manager, settings.agents, settings.topic.name)
    return TeamWriters(SharedFrontier(store, manager), TeamLearning(team, writer, now), TeamLinkScorer(team))


def _build_agent(settings: Settings, profile: AgentProfile, order: Order) -> Agent:
    topic = profile.settings.topic
    card = AgentRecord(
        number=profile.number,
        name=profile.name,
        topic=topic.name,
        genres=", ".join(topic.genres),
        seeds=len(profile.settings.seeds.urls),
    )
    options = AgentQueueOptions(order=order, keep_first_score=settings.frontier.merge == "discard")
    agents = settings.agents
    return Agent(card, AgentLinkQueue(options), profile.requests, agents.relevant, agents.patience)
