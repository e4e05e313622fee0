"""Whose turn it is, who gets a link, who takes over (S3-01, S3-03, S3-07, S3-26)."""

from collections.abc import Sequence

import pytest

from opilio.core.events import AgentFinished, AgentLost
from opilio.core.protocols import Database
from opilio.core.records import Lead
from opilio.methods.agents.agent import (
    GOAL_REACHED,
    IDLE,
    MISSING,
    RETIRED,
    Agent,
    AgentDirectory,
    AgentRecord,
    AgentReport,
    read_agent_records,
)
from opilio.methods.agents.link_queue import AgentLinkQueue
from opilio.methods.agents.manager import AgentManager
from opilio.store.collection import Collection

LEASE_S = 60.0


def lead(key: int, score: float = 0.5, agent: int = 0) -> Lead:
    return Lead(url=f"http://h{key}.example/", key=key, host=f"h{key}.example", score=score, depth=1, agent=agent)


@pytest.fixture
def connection() -> Database:
    return Collection.in_memory().connection


def crew(connection: Database, topics: Sequence[str] = ("birds",) * 3, goal: int = 0) -> AgentManager:
    agents = [
        Agent(AgentRecord(number=n, name=f"agent-{n}", topic=topic), AgentLinkQueue(), requests=2, goal=goal)
        for n, topic in enumerate(topics, start=1)
    ]
    directory = AgentDirectory(connection, LEASE_S)
    directory.register([agent.record for agent in agents], 0.0)
    return AgentManager(agents, directory, {})


def ask(manager: AgentManager) -> tuple[int, int] | None:
    """The next move: who, and for what."""
    agent = manager.next_agent()
    if agent is None:
        return None
    leads = tuple(item[0] for item in agent.take_best(1))
    manager.mark_requested(agent, leads)
    return agent.number, leads[0].key


def test_agents_take_turns_until_each_has_its_requests(connection: Database) -> None:
    """S3-07: at most r requests of an agent are in flight."""
    manager = crew(connection)
    for key in range(12):
        manager.offer(lead(key, agent=1 + key % 3), 0.0)
    moves = [ask(manager) for _ in range(7)]
    assert [move and move[0] for move in moves] == [1, 2, 3, 1, 2, 3, None]


@pytest.mark.parametrize(("patience", "moves"), [(0.0, 2), (0.5, 2), (0.9, None)])
def test_patient_agent_waits_for_a_busy_host_when_the_rest_is_poor(
    connection: Database, patience: float, moves: int | None
) -> None:
    manager = crew(connection, ("birds",))
    agent = manager.agents[1]
    agent.patience = patience
    manager.offer(lead(1, 1.0, agent=1), 0.0)
    manager.offer(lead(2, 0.6, agent=1), 0.0)
    manager.block_host("h1.example", 5.0)
    first = ask(manager)
    assert (first and first[1]) == moves
    agent.queue.advance_time(5.0)
    assert ask(manager) == (1, 1)


def test_link_that_is_under_way_is_not_offered_again(connection: Database) -> None:
    """S3-26: neither re-queued nor re-scored, not by another agent either."""
    manager = crew(connection)
    manager.offer(lead(1, agent=1), 0.0)
    assert ask(manager) == (1, 1)
    manager.offer(lead(1, 0.9, agent=2), 0.0)
    manager.offer(lead(1, 0.9, agent=1), 0.0)
    assert ask(manager) is None


def test_link_that_two_agents_want_goes_to_one(connection: Database) -> None:
    manager = crew(connection)
    manager.offer(lead(1, agent=1), 0.0)
    manager.offer(lead(1, agent=2), 0.0)
    assert [ask(manager), ask(manager)] == [(1, 1), None]


def test_missing_agent_is_found_when_it_does_not_answer(connection: Database) -> None:
    manager = crew(connection)
    for key in range(5):
        manager.offer(lead(key, agent=1), 0.0)
    ask(manager)
    manager.advance_time(LEASE_S / 2)
    assert not manager.roster.take_events()
    manager.advance_time(LEASE_S)
    (missing,) = manager.roster.take_events()
    assert isinstance(missing, AgentLost)
    assert (missing.agent, missing.urls, missing.taken_over_by) == ("agent-1", 4, ("agent-2", "agent-3"))
    assert manager.agents[1].record.state == MISSING
    assert [len(manager.agents[n].queue) for n in (1, 2, 3)] == [0, 2, 2]


def test_agent_that_was_given_up_is_back_when_it_answers(connection: Database) -> None:
    manager = crew(connection)
    manager.offer(lead(1, agent=1), 0.0)
    ask(manager)
    manager.advance_time(LEASE_S)
    assert not manager.agents[1].is_active
    manager.record_response(lead(1, agent=1), LEASE_S + 1)
    assert manager.agents[1].is_active


def test_links_are_kept_when_all_are_given_up_at_once(connection: Database) -> None:
    """A slow moment of the whole machine must not cost a link."""
    manager = crew(connection)
    for key in range(12):
        manager.offer(lead(key, agent=1 + key % 3), 0.0)
    for _ in range(3):
        ask(manager)
    manager.advance_time(LEASE_S)
    for key in range(3):
        manager.record_response(lead(key, agent=1 + key), LEASE_S + 1)
        manager.request_finished(lead(key, agent=1 + key), None, LEASE_S + 1)
    assert sum(len(agent.queue) for agent in manager.agents.values()) == 9
    assert all(agent.is_active for agent in manager.agents.values())


def test_agent_that_waits_for_nothing_is_not_missing(connection: Database) -> None:
    manager = crew(connection)
    manager.advance_time(10 * LEASE_S)
    assert manager.roster.directory.overdue(10 * LEASE_S) == []


def test_retry_of_a_missing_agent_goes_to_who_took_over(connection: Database) -> None:
    manager = crew(connection)
    manager.offer(lead(1, agent=1), 0.0)
    ask(manager)
    manager.agents[1].kill()
    manager.request_finished(lead(1, agent=1), 5.0, 0.0)
    heir = manager.roster.active_agent_for(1)
    assert heir is not None
    assert heir.number != 1
    heir.queue.advance_time(5.0)
    assert ask(manager) == (heir.number, 1)


def test_links_stay_with_their_topic_when_an_agent_is_gone(connection: Database) -> None:
    manager = crew(connection, ("birds", "trains", "birds"))
    manager.offer(lead(1, agent=1), 0.0)
    manager.agents[1].kill()
    manager.advance_time(LEASE_S)
    assert [len(manager.agents[n].queue) for n in (2, 3)] == [0, 1]


def test_retired_agent_stays_retired(connection: Database) -> None:
    manager = crew(connection)
    manager.offer(lead(1, agent=2), 0.0)
    manager.roster.retire("agent-2", 1.0)
    manager.roster.directory.save()
    assert [card.state for card in read_agent_records(connection)] == ["working", RETIRED, "working"]
    again = crew(connection)
    assert [agent.is_active for agent in again.agents.values()] == [True, False, True]


def test_agent_ends_when_it_has_found_enough_or_has_no_move(connection: Database) -> None:
    """S3-03."""
    manager = crew(connection, goal=3)
    manager.agents[1].record.relevant = 3
    manager.roster.update_goals(1.0)
    news = [(e.agent, e.state) for e in manager.roster.take_events() if isinstance(e, AgentFinished)]
    assert news == [("agent-1", GOAL_REACHED), ("agent-2", IDLE), ("agent-3", IDLE)]
    manager.offer(lead(1, agent=2), 2.0)
    assert manager.agents[2].record.state == "working"


def test_directory_knows_what_agents_found_after_a_restart(connection: Database) -> None:
    manager = crew(connection)
    manager.agents[1].record.relevant = 7
    manager.roster.directory.add_reports([AgentReport(5, 1, True, 0.5, True)])
    manager.roster.directory.save()
    assert crew(connection).agents[1].record.relevant == 7
    assert connection.execute("SELECT page, agent, relevant FROM verdict").fetchall() == [(5, 1, 1)]


def test_agents_that_join_get_a_part_of_what_waits_for_their_topic(connection: Database) -> None:
    manager = crew(connection, ("birds", "birds", "trains", "birds", "trains"))
    for number in (1, 2, 3):
        manager.agents[number].record.fetched = 5
    for key in range(24):
        manager.offer(lead(key, 1.0 - key / 100, agent=1 + key % 3), 0.0)
    manager.roster.share_with_newcomers(0.0)
    assert [len(manager.agents[n].queue) for n in (1, 2, 3, 4, 5)] == [6, 6, 4, 4, 4]
    first = manager.agents[4].queue.peek()
    assert first is not None and first.agent == 4
