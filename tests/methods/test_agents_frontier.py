"""The frontier as agents share it is a frontier: with one agent it passes what every frontier passes."""

import pytest

from checks.frontier_checks import FrontierChecks, Make, crawl_order, lead
from opilio.frontier.policy import BreadthFirst, Expiring, FrontierPolicy, MergePolicy
from opilio.frontier.sqlite.schema import create_frontier_tables
from opilio.methods.agents.agent import Agent, AgentRecord
from opilio.methods.agents.directory import AgentDirectory
from opilio.methods.agents.frontier import ClaimableFrontier, SharedFrontier
from opilio.methods.agents.link_queue import AgentLinkQueue, AgentQueueOptions
from opilio.methods.agents.manager import AgentManager
from opilio.store.collection import Collection


def shared(policy: FrontierPolicy) -> SharedFrontier:
    connection = Collection.in_memory().connection
    create_frontier_tables(connection, bounded=True)
    order = policy.order
    habits = AgentQueueOptions(
        lifetime_s=order.lifetime_s if isinstance(order, Expiring) else 0.0,
        breadth_first=isinstance(order, BreadthFirst),
        keep_first_score=policy.merge is MergePolicy.DISCARD,
    )
    agent = Agent(AgentRecord(number=1, name="agent-1", topic="birds"), AgentLinkQueue(habits), requests=1000)
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
    """Left out: orders that a configuration with agents refuses, and scores that agents give to their own links."""

    @pytest.fixture
    def make(self) -> Make:
        return shared

    @pytest.mark.skip(reason="agents keep no N-best batches")
    def test_n_best_finishes_its_batch_before_it_looks_again_s1_11(self, make: Make) -> None: ...

    @pytest.mark.skip(reason="agents keep no N-best batches")
    def test_revived_urls_are_given_out_beside_an_n_best_batch(self, make: Make) -> None: ...

    @pytest.mark.skip(reason="agents.requests takes the place of order.top")
    def test_top_r_bounds_what_one_lease_hands_out_s3_25(self, make: Make) -> None: ...

    @pytest.mark.skip(reason="links of agents do not age")
    def test_aging_lifts_what_waits_above_fresh_links_s2_39(self, make: Make) -> None: ...

    @pytest.mark.skip(reason="an agent moves the links of its own stack itself, each by its own score")
    def test_rescored_urls_go_up_and_down(self, make: Make) -> None: ...

    @pytest.mark.skip(reason="of equals, an agent looks again first at what waited in its stack already")
    def test_settled_urls_are_asked_for_again_before_new_ones_when_revived(self, make: Make) -> None: ...
