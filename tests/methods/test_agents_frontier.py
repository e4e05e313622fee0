"""The frontier as agents share it is a frontier: with one agent it passes what every frontier passes."""

import pytest

from opilio.frontier.policy import FrontierPolicy, MergePolicy
from opilio.frontier.schema import create_frontier_tables
from opilio.frontier.sqlite.claims import ClaimableFrontier
from opilio.methods.agents.agent import Agent, AgentDirectory, AgentRecord
from opilio.methods.agents.frontier import SharedFrontier
from opilio.methods.agents.link_queue import AgentLinkQueue, AgentQueueOptions
from opilio.methods.agents.manager import AgentManager
from opilio.store.collection import Collection
from opilio.testing.frontier import FrontierChecks
from opilio.testing.leases import Make, crawl_order, lead


def shared(policy: FrontierPolicy) -> SharedFrontier:
    connection = Collection.in_memory().connection
    create_frontier_tables(connection, bounded=True)
    options = AgentQueueOptions(order=policy.order, keep_first_score=policy.merge is MergePolicy.DISCARD)
    agent = Agent(AgentRecord(number=1, name="agent-1", topic="birds"), AgentLinkQueue(options), requests=1000)
    directory = AgentDirectory(connection, lease_s=1e9)
    directory.register([agent.record], 0.0)
    return SharedFrontier(ClaimableFrontier(connection, policy), AgentManager([agent], directory, {}))


def test_links_that_a_full_stack_let_go_are_asked_for_all_the_same() -> None:
    frontier = shared(FrontierPolicy(delay_s=0.0))
    agent = frontier.manager.agents[1]
    agent.queue._options = AgentQueueOptions(capacity=5)
    frontier.add([lead(f"p{n}", n / 100) for n in range(40)], 0.0)
    assert agent.queue.evicted
    assert crawl_order(frontier) == [f"p{n}" for n in reversed(range(40))]


class TestSharedFrontier(FrontierChecks):
    """Every check, without exception."""

    @pytest.fixture
    def make(self) -> Make:
        return shared
