"""Puts a crew together: agents, manager, directory, and the one frontier as they share it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from opilio.agents.agent import Agent, Card
from opilio.agents.directory import Directory
from opilio.agents.manager import Manager
from opilio.agents.shared import SharedFrontier
from opilio.agents.stack import Habits, Stack
from opilio.crawl.analyst import Analyst
from opilio.crawl.chooser import Chooser
from opilio.crawl.config import Settings
from opilio.crawl.crew import Crew, CrewChooser, CrewLearning, Member
from opilio.crawl.crewanalyst import CrewAnalyst
from opilio.crawl.learning import TOPIC, Learning, named
from opilio.crawl.profiles import Profile, crewed, profiles, starts
from opilio.crawl.seedwatch import seeds_settled
from opilio.crawl.tgraphs import HINTS, RANK
from opilio.frontier.claims import ClaimableFrontier
from opilio.model.protocols import Learns
from opilio.store.collection import Collection
from opilio.store.keeper import Keeper
from opilio.topic.living import LivingTopic
from opilio.topic.table import WeightTable


class Wits(NamedTuple):
    """What one agent thinks with, in the writing process."""

    living: LivingTopic
    learners: Mapping[str, Learns]
    chooser: Chooser


class Writers(NamedTuple):
    """What the ledger writes through."""

    frontier: SharedFrontier
    learning: CrewLearning
    chooser: CrewChooser


class CommonTopic(LivingTopic):
    """The crawl's topic, which no agent uses: whoever changes it changes the tables of the agents of that topic."""

    def __init__(self, followers: Sequence[LivingTopic]) -> None:
        super().__init__(WeightTable())
        self._followers = followers

    def adopt(self, table: WeightTable, removed: Iterable[str] | None = None) -> None:
        """What an agent has learnt gives way too, but may come back: the person did not see it."""
        gone = self.table.weights.keys() - table.weights.keys() if removed is None else removed
        super().adopt(table, gone)
        for living in self._followers:
            living.adopt(table, gone)


def own_states(profile: Profile, states: Mapping[str, bytes]) -> dict[str, bytes]:
    """What an agent has learnt, by its learners' own names; before that, the T-Graph that all begin with."""
    prefix = named(profile.name, "")
    common = {name: states[name] for name in (RANK, HINTS) if name in states}
    return common | {name.removeprefix(prefix): state for name, state in states.items() if name.startswith(prefix)}


def crew_learners(
    settings: Settings, each: Sequence[Mapping[str, Learns]], states: Mapping[str, bytes]
) -> dict[str, Learns]:
    """All learners of a crew by the names of their states in the collection, with the crawl's own topic."""
    told = profiles(settings)
    found = {named(p.name, name): one for p, mine in zip(told, each, strict=True) for name, one in mine.items()}
    common = [p for p in told if p.settings.topic.name == settings.topic.name]
    tables = [found.get(named(p.name, TOPIC)) for p in common]
    found[TOPIC] = CommonTopic([table for table in tables if isinstance(table, LivingTopic)])
    if TOPIC in states:
        found[TOPIC].restore(states[TOPIC])
    return found


def living_tables(settings: Settings, states: Mapping[str, bytes]) -> dict[str, LivingTopic]:
    """The tables of a collection by the names of their states: the crawl's own, and the agents', which follow it."""
    known = {name: restored(state) for name, state in states.items() if name.rpartition("/")[2] == TOPIC}
    if not crewed(settings):
        return {TOPIC: known.get(TOPIC, LivingTopic(WeightTable()))}
    each = [{TOPIC: known[name]} if (name := named(p.name, TOPIC)) in known else {} for p in profiles(settings)]
    return {name: one for name, one in crew_learners(settings, each, states).items() if isinstance(one, LivingTopic)}


def restored(state: bytes) -> LivingTopic:
    """A table as it was kept, to look at or to change by hand; it knows no pages."""
    living = LivingTopic(WeightTable())
    living.restore(state)
    return living


def crew_analyst(settings: Settings, analysts: Sequence[Analyst], learners: Mapping[str, Learns]) -> CrewAnalyst:
    """One analyst for all. Agents of other topics always look at a page; those of the same one when they exchange."""
    told, agents = profiles(settings), settings.agents
    close = agents.exchange_links or agents.exchange_lessons
    listeners = {
        one.number: [
            o.number for o in told if o is not one and (close or o.settings.topic.name != one.settings.topic.name)
        ]
        for one in told
    }
    ranks = frozenset(one.number for one in told) if agents.exchange_links else frozenset[int]()
    return CrewAnalyst({p.number: a for p, a in zip(told, analysts, strict=True)}, listeners, ranks, learners)


def assemble(
    settings: Settings,
    collection: Collection,
    keeper: Keeper,
    store: ClaimableFrontier,
    wits: Sequence[Wits],
    now: float,
) -> Writers:
    """The crew at work over a collection; those that were at work before go on."""
    told = profiles(settings)
    agents = [_agent(settings, profile) for profile in told]
    directory = Directory(collection.connection, settings.agents.lease_s)
    manager = Manager(agents, directory, starts(settings))
    members = [
        Member(
            agent,
            w.living,
            w.chooser,
            Learning(w.learners, collection, keeper, p.name, seeds_settled(p.settings, store, collection)),
        )
        for p, agent, w in zip(told, agents, wits, strict=True)
    ]
    crew = Crew(members, manager, settings.agents, settings.topic.name)
    return Writers(SharedFrontier(store, manager), CrewLearning(crew, keeper, now), CrewChooser(crew))


def _agent(settings: Settings, profile: Profile) -> Agent:
    topic = profile.settings.topic
    card = Card(
        number=profile.number,
        name=profile.name,
        topic=topic.name,
        genres=", ".join(topic.genres),
        seeds=len(profile.settings.seeds.urls),
    )
    habits = Habits(
        lifetime_s=float(settings.order.get("lifetime_s", 0.0)),
        breadth=settings.order["kind"] == "breadth-first",
        first_counts=settings.frontier.merge == "discard",
    )
    agents = settings.agents
    return Agent(card, Stack(habits), profile.requests, agents.relevant, agents.patience)
