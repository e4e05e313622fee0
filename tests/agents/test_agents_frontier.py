"""The frontier as agents share it is a frontier: with one agent it passes what every frontier passes."""

import pytest

from checks.frontier_checks import FrontierChecks, Make, crawl_order, lead
from opilio.agents.agent import Agent, Card
from opilio.agents.directory import Directory
from opilio.agents.manager import Manager
from opilio.agents.shared import SharedFrontier
from opilio.agents.stack import Habits, Stack
from opilio.frontier.claims import ClaimableFrontier
from opilio.frontier.merge import Merge
from opilio.frontier.order import BreadthFirst, Expiring
from opilio.frontier.policy import Policy
from opilio.frontier.schema import create_tables
from opilio.store.collection import Collection


def shared(policy: Policy) -> SharedFrontier:
    connection = Collection.in_memory().connection
    create_tables(connection, bounded=True)
    order = policy.order
    habits = Habits(
        lifetime_s=order.lifetime_s if isinstance(order, Expiring) else 0.0,
        breadth=isinstance(order, BreadthFirst),
        first_counts=policy.merge is Merge.DISCARD,
    )
    agent = Agent(Card(number=1, name="agent-1", topic="birds"), Stack(habits), requests=1000)
    directory = Directory(connection, lease_s=1e9)
    directory.register([agent.card], 0.0)
    return SharedFrontier(ClaimableFrontier(connection, policy), Manager([agent], directory, {}))


def test_links_that_a_full_stack_let_go_are_asked_for_all_the_same() -> None:
    frontier = shared(Policy(delay_s=0.0))
    agent = frontier.manager.agents[1]
    agent.stack._habits = Habits(capacity=5)
    frontier.add([lead(f"p{n}", n / 100) for n in range(40)], 0.0)
    assert agent.stack.spilled
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
