"""InfoSpiders: agents divide when they have energy for two, and die without energy (S1-11)."""

from pathlib import Path

import numpy as np
import pytest

from checks.small_webs import SmallWeb, crawl, events, grid, opilio, served, settings_for, stored
from opilio.core.protocols import RANK_STATE
from opilio.core.records import Analysis, FetchResult, Lead, Outcome
from opilio.manage.status import list_agents
from opilio.manage.verify import verify
from opilio.methods.agents.agent import DEAD, UNBORN, WORKING, Agent, AgentDirectory, AgentRecord, Organism, Population
from opilio.methods.agents.link_queue import AgentLinkQueue
from opilio.methods.rivals.infospiders import BENEFIT, COST, WORDS, InfoSpidersRanker
from opilio.store.collection import Collection
from opilio.testing.conformance import lead_to, verdict_of
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.weights import table_from_weights

WEB = grid(hosts=6, pages=20)
SEEDS = [f"http://h{n}.example/0.html" for n in (0, 2, 4)]


def ranker() -> InfoSpidersRanker:
    return InfoSpidersRanker(EvolvingTopic(table_from_weights({"wren": 1.0})))


class Spider(Organism):
    """With a ranker whose net can be seen."""

    ranker: InfoSpidersRanker


def organism(number: int, state: str, links: int = 0) -> Spider:
    record = AgentRecord(number=number, name=f"agent-{number}", topic="birds", state=state)
    agent, mind = Agent(record, AgentLinkQueue(), requests=1), ranker()
    for key in range(links):
        agent.queue.put(Lead(url=f"http://h{key}.example/", key=key + 1, host=f"h{key}.example", score=0.1), 0.0)
    return Spider(agent, mind, lambda name, lesson: mind.apply_lesson(lesson) if name == RANK_STATE else None)


def population(*organisms: Organism) -> Population:
    directory = AgentDirectory(Collection.in_memory().connection, 60.0)
    directory.register([one.agent.record for one in organisms], 0.0)
    return Population(organisms, directory)


def visit(one: Spider, relevant: bool, times: int) -> None:
    inputs = np.ones(WORDS, dtype="<f4").tobytes()
    analysis = Analysis(verdict=verdict_of(0.9 if relevant else 0.1, relevant))
    page = Outcome(lead=lead_to(features=inputs), fetched=FetchResult(url="http://x.example/"), analysis=analysis)
    one.ranker.learn([page] * times)


def test_agent_divides_with_energy_for_two_s1_11() -> None:
    """The offspring has half of the energy, every second link and a mutated net."""
    parent, child = organism(1, WORKING, links=6), organism(2, UNBORN)
    both = population(parent, child)
    visit(parent, True, 5)
    both.update(1.0)
    assert child.agent.record.state == UNBORN
    visit(parent, True, 1)
    energy = parent.ranker.energy
    assert energy == pytest.approx(1.0 + 6 * (BENEFIT - COST))
    both.update(2.0)
    assert child.agent.record.state == WORKING
    assert parent.ranker.energy == child.ranker.energy == energy / 2
    assert (len(parent.agent.queue), len(child.agent.queue)) == (3, 3)
    assert child.agent.queue.drain()[0].agent == 2
    nets = [one.ranker._state for one in (parent, child)]
    assert nets[0].weights != nets[1].weights
    assert nets[0].weights == pytest.approx(nets[1].weights, abs=0.25)


def test_agent_does_not_divide_without_a_place_or_a_second_link_s1_11() -> None:
    parent, other = organism(1, WORKING, links=6), organism(2, WORKING, links=1)
    both = population(parent, other)
    for one in (parent, other):
        visit(one, True, 20)
    both.update(1.0)
    assert [one.ranker.energy for one in (parent, other)] == pytest.approx([1.0 + 20 * (BENEFIT - COST)] * 2)
    assert len(parent.agent.queue) == 6


def test_agent_dies_without_energy_unless_it_is_the_last_s1_11() -> None:
    first, last = organism(1, WORKING, links=4), organism(2, WORKING, links=4)
    both = population(first, last)
    visit(first, False, 51)
    both.update(1.0)
    assert (first.agent.record.state, len(first.agent.queue)) == (DEAD, 0)
    visit(last, False, 51)
    both.update(2.0)
    assert (last.agent.record.state, len(last.agent.queue)) == (WORKING, 4)
    visit(last, True, 20)
    both.update(3.0)
    assert first.agent.record.state == WORKING, "a place is used again"
    assert first.ranker.energy > 0


def test_infospiders_crawl_divides_and_keeps_its_population_when_resumed_s1_11(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with served(SmallWeb(WEB)) as server:
        tree = {**settings_for(server, SEEDS), "strategy": "infospiders"}
        crawl(folder, {**tree, "stop": {"pages": 40}})
        begun = list_agents(folder)
        born = len(events(folder, "AgentsExchanged"))
        crawl(folder, {**tree, "stop": {"pages": 0}})
        asked = [f"http://{a.host}{a.target}" for a in server.log if not a.target.endswith("robots.txt")]
    assert len(begun) == 12
    assert [agent["seeds"] for agent in begun] == [1] * 3 + [0] * 9
    assert born > 0
    assert [agent["state"] == UNBORN for agent in begun] == [False] * (3 + born) + [True] * (9 - born)
    assert sum(agent["pages"] > 0 for agent in begun) > 3
    assert len(asked) == len(set(asked))
    assert stored(folder) == sorted(WEB)
    assert verify(folder) == []
    assert "agent-4" in opilio("maintain", "agents", folder).stdout
