"""Which agent gets which outcome: the requester, agents of other topics, and those that exchange (S3-08, S3-F3)."""

from collections.abc import Sequence

import pytest

from opilio.core.records import AgentAnalysis, Analysis, FetchResult, Lead, LinkColumns, Outcome, Verdict, url_key
from opilio.core.settings import AgentTeamSettings
from opilio.engine.learning import LearnerGroup
from opilio.engine.link_scoring import StaticLinkScorer
from opilio.methods.agents.agent import Agent, AgentDirectory, AgentRecord
from opilio.methods.agents.link_queue import AgentLinkQueue
from opilio.methods.agents.manager import AgentManager
from opilio.methods.agents.team import AgentTeam, TeamMember, outcome_for_agent
from opilio.rank.link_scores import pack
from opilio.store.collection import Collection
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.weights import WeightTable, table_from_weights

YES, NO = Verdict(score=0.8, relevant=True), Verdict(score=0.1, relevant=False)


def links(score: float) -> bytes:
    import numpy as np

    url = "http://b.example/next"
    keys = np.array([url_key(url)], dtype=np.int64).tobytes()
    scores = np.array([score], dtype=np.float32).tobytes()
    return pack(
        LinkColumns(
            urls=[url], hosts=["b.example"], anchors=[""], keys=keys, scores=scores, names=[], parts=b"", dropped={}
        )
    )


def crew_of(topics: Sequence[str], settings: AgentTeamSettings) -> AgentTeam:
    collection = Collection.in_memory()
    agents = [
        Agent(AgentRecord(number=n, name=f"agent-{n}", topic=topic), AgentLinkQueue(), requests=4)
        for n, topic in enumerate(topics, start=1)
    ]
    directory = AgentDirectory(collection.connection, 60.0)
    directory.register([agent.record for agent in agents], 0.0)
    members = [
        TeamMember(
            agent,
            EvolvingTopic(WeightTable()),
            StaticLinkScorer(),
            LearnerGroup({}, collection, agent.record.name),
        )
        for agent in agents
    ]
    return AgentTeam(members, AgentManager(agents, directory, {}), settings, topics[0])


def outcome(*opinions: AgentAnalysis) -> Outcome:
    url = "http://a.example/page"
    lead = Lead(url=url, key=url_key(url), host="a.example", depth=1, agent=1)
    best = opinions[0]
    analysis = Analysis(verdict=best.verdict, links=best.links, agent_analyses=opinions if len(opinions) > 1 else ())
    return Outcome(lead=lead, fetched=FetchResult(url=url, status=200), analysis=analysis)


def owners(crew: AgentTeam, page: Outcome) -> list[int]:
    crew.assign_outcomes([page])
    return [lead.agent for lead in crew.score_links(page)]


def test_page_is_its_askers_alone_when_agents_of_one_topic_are_silent() -> None:
    crew = crew_of(["birds", "birds"], AgentTeamSettings(count=2))
    page = outcome(
        AgentAnalysis(agent=1, verdict=YES, links=links(0.5)), AgentAnalysis(agent=2, verdict=YES, links=links(0.9))
    )
    assert owners(crew, page) == [1]
    assert crew.members[2].shared_outcomes == []


@pytest.mark.parametrize(("verdict", "takers"), [(YES, [1, 2]), (NO, [1])])
def test_page_is_another_topics_too_when_that_finds_it_relevant(verdict: Verdict, takers: list[int]) -> None:
    crew = crew_of(["birds", "trains"], AgentTeamSettings(count=2))
    page = outcome(
        AgentAnalysis(agent=1, verdict=NO, links=links(0.5)), AgentAnalysis(agent=2, verdict=verdict, links=links(0.9))
    )
    assert owners(crew, page) == takers


def test_page_for_a_topic_of_two_goes_to_who_likes_it_most() -> None:
    crew = crew_of(["birds", "trains", "trains"], AgentTeamSettings(count=3))
    fond = Verdict(score=0.9, relevant=True)
    page = outcome(
        AgentAnalysis(agent=1, verdict=NO, links=links(0.1)),
        AgentAnalysis(agent=2, verdict=YES, links=links(0.1)),
        AgentAnalysis(agent=3, verdict=fond, links=links(0.1)),
    )
    assert owners(crew, page) == [1, 3]


def test_lessons_go_to_agents_of_the_same_topic_when_enabled() -> None:
    crew = crew_of(["birds", "birds", "trains"], AgentTeamSettings(count=3, exchange_lessons=True))
    mine = [AgentAnalysis(agent=n, verdict=v) for n, v in ((1, YES), (2, NO), (3, NO))]
    crew.assign_outcomes([outcome(*mine)])
    assert [len(crew.members[n].own_outcomes) for n in (1, 2, 3)] == [1, 0, 0]
    assert [view.analysis.verdict for view in crew.members[2].shared_outcomes if view.analysis] == [NO]
    assert crew.members[3].shared_outcomes == []


@pytest.mark.parametrize(("aspires", "takers"), [(0.7, [1, 2]), (0.95, [1])])
def test_link_goes_to_another_agent_when_it_is_more_than_that_asks_for_now(aspires: float, takers: list[int]) -> None:
    crew = crew_of(["birds", "birds"], AgentTeamSettings(count=2, exchange_links=True))
    other = crew.members[2].agent
    other.queue.put(Lead(url="http://c.example/", key=1, host="c.example", score=0.2), 0.0)
    other.aspiration = aspires
    page = outcome(
        AgentAnalysis(agent=1, verdict=YES, links=links(0.5)), AgentAnalysis(agent=2, verdict=YES, links=links(0.9))
    )
    assert owners(crew, page) == takers
    assert other.record.received == len(takers) - 1


def test_agent_sees_a_page_with_its_own_verdict() -> None:
    page = outcome(AgentAnalysis(agent=1, verdict=YES), AgentAnalysis(agent=2, verdict=NO))
    seen = outcome_for_agent(page, 2)
    assert seen.analysis is not None
    assert (seen.analysis.verdict, seen.lead.features) == (NO, b"")


def test_answer_for_a_dead_agent_goes_to_one_of_its_topic() -> None:
    crew = crew_of(["birds", "trains", "birds"], AgentTeamSettings(count=3))
    crew.members[1].agent.kill()
    page = outcome(AgentAnalysis(agent=1, verdict=YES, links=links(0.5)))
    assert owners(crew, page) == [3]


def test_table_takes_the_heaviest_new_words_of_another_at_half_their_weight() -> None:
    mine, theirs = (
        EvolvingTopic(table_from_weights({"wren": 1.0})),
        table_from_weights({"robin": 1.0, "wren": 0.9, "nest": 0.5, "egg": 0.1}),
    )
    assert mine.merge_words(theirs, limit=2) == 2
    assert mine.table.weights == {"wren": 1.0, "robin": 0.5, "nest": 0.25}
    assert mine.merge_words(theirs, limit=0) == 0
