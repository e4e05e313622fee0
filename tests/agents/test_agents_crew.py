"""Who takes which outcome: the asker, agents of other topics, and whoever exchanges (S3-08, S3-F3)."""

from collections.abc import Sequence

import pytest

from opilio.agents.agent import Agent, Card
from opilio.agents.directory import Directory
from opilio.agents.manager import Manager
from opilio.agents.stack import Stack
from opilio.agents.tags import owner, tagged
from opilio.crawl.chooser import PlainChooser
from opilio.crawl.columns import pack
from opilio.crawl.config import AgentsSettings
from opilio.crawl.crew import Crew, Member, seen_by
from opilio.crawl.learning import Learning
from opilio.model.records import Analysis, Fetched, Lead, LinkColumns, Opinion, Outcome, Verdict, key_of
from opilio.store.collection import Collection
from opilio.store.keeper import Keeper
from opilio.topic.living import LivingTopic
from opilio.topic.table import WeightTable, table_of

YES, NO = Verdict(score=0.8, relevant=True), Verdict(score=0.1, relevant=False)


def links(score: float) -> bytes:
    import numpy as np

    url = "http://b.example/next"
    keys = np.array([key_of(url)], dtype=np.int64).tobytes()
    scores = np.array([score], dtype=np.float32).tobytes()
    return pack(
        LinkColumns(
            urls=[url], hosts=["b.example"], anchors=[""], keys=keys, scores=scores, names=[], parts=b"", dropped={}
        )
    )


def crew_of(topics: Sequence[str], settings: AgentsSettings) -> Crew:
    collection = Collection.in_memory()
    agents = [
        Agent(Card(number=n, name=f"agent-{n}", topic=topic), Stack(), requests=4)
        for n, topic in enumerate(topics, start=1)
    ]
    directory = Directory(collection.connection, 60.0)
    directory.register([agent.card for agent in agents], 0.0)
    keeper = Keeper(collection, None)
    members = [
        Member(agent, LivingTopic(WeightTable()), PlainChooser(), Learning({}, collection, keeper, agent.card.name))
        for agent in agents
    ]
    return Crew(members, Manager(agents, directory, {}), settings, topics[0])


def outcome(*opinions: Opinion) -> Outcome:
    url = "http://a.example/page"
    lead = tagged(Lead(url=url, key=key_of(url), host="a.example", depth=1), 1)
    best = opinions[0]
    analysis = Analysis(verdict=best.verdict, links=best.links, opinions=opinions if len(opinions) > 1 else ())
    return Outcome(lead=lead, fetched=Fetched(url=url, status=200), analysis=analysis)


def owners(crew: Crew, page: Outcome) -> list[int]:
    crew.receive([page])
    return [owner(lead) for lead in crew.leads(page)]


def test_page_is_its_askers_alone_when_agents_of_one_topic_are_silent() -> None:
    crew = crew_of(["birds", "birds"], AgentsSettings(count=2))
    page = outcome(Opinion(agent=1, verdict=YES, links=links(0.5)), Opinion(agent=2, verdict=YES, links=links(0.9)))
    assert owners(crew, page) == [1]
    assert crew.members[2].lessons == []


@pytest.mark.parametrize(("verdict", "takers"), [(YES, [1, 2]), (NO, [1])])
def test_page_is_another_topics_too_when_that_finds_it_relevant(verdict: Verdict, takers: list[int]) -> None:
    crew = crew_of(["birds", "trains"], AgentsSettings(count=2))
    page = outcome(Opinion(agent=1, verdict=NO, links=links(0.5)), Opinion(agent=2, verdict=verdict, links=links(0.9)))
    assert owners(crew, page) == takers


def test_page_for_a_topic_of_two_goes_to_who_likes_it_most() -> None:
    crew = crew_of(["birds", "trains", "trains"], AgentsSettings(count=3))
    fond = Verdict(score=0.9, relevant=True)
    page = outcome(
        Opinion(agent=1, verdict=NO, links=links(0.1)),
        Opinion(agent=2, verdict=YES, links=links(0.1)),
        Opinion(agent=3, verdict=fond, links=links(0.1)),
    )
    assert owners(crew, page) == [1, 3]


def test_lessons_go_to_agents_of_the_same_topic_when_told_to() -> None:
    crew = crew_of(["birds", "birds", "trains"], AgentsSettings(count=3, exchange_lessons=True))
    mine = [Opinion(agent=n, verdict=v) for n, v in ((1, YES), (2, NO), (3, NO))]
    crew.receive([outcome(*mine)])
    assert [len(crew.members[n].own) for n in (1, 2, 3)] == [1, 0, 0]
    assert [view.analysis.verdict for view in crew.members[2].lessons if view.analysis] == [NO]
    assert crew.members[3].lessons == []


@pytest.mark.parametrize(("aspires", "takers"), [(0.7, [1, 2]), (0.95, [1])])
def test_link_goes_to_another_agent_when_it_is_more_than_that_asks_for_now(aspires: float, takers: list[int]) -> None:
    crew = crew_of(["birds", "birds"], AgentsSettings(count=2, exchange_links=True))
    other = crew.members[2].agent
    other.stack.put(Lead(url="http://c.example/", key=1, host="c.example", score=0.2), 0.0)
    other.aspiration = aspires
    page = outcome(Opinion(agent=1, verdict=YES, links=links(0.5)), Opinion(agent=2, verdict=YES, links=links(0.9)))
    assert owners(crew, page) == takers
    assert other.card.received == len(takers) - 1


def test_agent_sees_a_page_with_its_own_verdict() -> None:
    page = outcome(Opinion(agent=1, verdict=YES), Opinion(agent=2, verdict=NO))
    seen = seen_by(page, 2)
    assert seen.analysis is not None
    assert (seen.analysis.verdict, seen.lead.features) == (NO, b"")


def test_answer_for_a_dead_agent_goes_to_one_of_its_topic() -> None:
    crew = crew_of(["birds", "trains", "birds"], AgentsSettings(count=3))
    crew.members[1].agent.kill()
    page = outcome(Opinion(agent=1, verdict=YES, links=links(0.5)))
    assert owners(crew, page) == [3]


def test_table_takes_the_heaviest_new_words_of_another_at_half_their_weight() -> None:
    mine, theirs = LivingTopic(table_of({"wren": 1.0})), table_of({"robin": 1.0, "wren": 0.9, "nest": 0.5, "egg": 0.1})
    assert mine.hear(theirs, most=2) == 2
    assert mine.table.weights == {"wren": 1.0, "robin": 0.5, "nest": 0.25}
    assert mine.hear(theirs, most=0) == 0
