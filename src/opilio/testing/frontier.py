"""What every `Frontier` does, in memory or on disk.

A test module makes a subclass of `FrontierChecks` with a fixture `make`: a function from a policy to an empty frontier.
"""

import pytest

from opilio.core.protocols import AddResult
from opilio.core.records import Tier, UrlState
from opilio.frontier.policy import (
    EXPIRED,
    FRONTIER_FULL,
    HOST_TOTAL_REACHED,
    Aging,
    BreadthFirst,
    Expiring,
    FrontierLimits,
    FrontierPolicy,
    NBest,
)
from opilio.testing.leases import PLAIN, LeaseChecks, Make, crawl_order, landed, lead, paths, queued, seed


class FrontierChecks(LeaseChecks):
    """Subclass it with a fixture `make`. Limits, orders and revisits; leases, states and scores are inherited."""

    # Limits

    def test_bounded_frontier_drops_its_tail_x_13(self, make: Make) -> None:
        frontier = make(FrontierPolicy(limits=FrontierLimits(queued=32)))
        added = [frontier.add([lead(f"{i}", i / 100, f"h{i % 5}.example")], 0.0) for i in range(40)]
        assert sum(a.dropped for a in added) == 6
        assert frontier.stats().queued == 34
        entry = frontier.entry("h0.example", lead("0", host="h0.example").key)
        assert entry is not None
        assert (entry.state, entry.reason) == (UrlState.DROPPED, FRONTIER_FULL)
        assert crawl_order(frontier) == [f"{i}" for i in range(39, 5, -1)]

    def test_host_total_limit_refuses_what_comes_later(self, make: Make) -> None:
        frontier = queued(make(FrontierPolicy(limits=FrontierLimits(host_total=2))), lead("x"), lead("y"))
        assert crawl_order(frontier) == ["x", "y"]
        assert frontier.add([lead("z", 0.9)], 0.0) == AddResult(dropped=1, refused=(lead("z").key,))
        entry = frontier.entry("a.example", lead("z").key)
        assert entry is not None
        assert (entry.state, entry.reason) == (UrlState.DROPPED, HOST_TOTAL_REACHED)

    def test_refused_url_is_recorded_with_the_reason(self, make: Make) -> None:
        policy = FrontierPolicy(refusal_reason=lambda lead: "calendar" if "cal" in lead.url else "")
        frontier = queued(make(policy), lead("cal"), lead("x"))
        entry = frontier.entry("a.example", lead("cal").key)
        assert entry is not None
        assert (entry.state, entry.reason) == (UrlState.DROPPED, "calendar")
        assert crawl_order(frontier) == ["x"]

    # Orders

    def test_breadth_first_follows_the_order_of_discovery(self, make: Make) -> None:
        frontier = queued(make(FrontierPolicy(order=BreadthFirst())), lead("x", 0.1), lead("y", 0.9), lead("z", 0.5))
        frontier.add([lead("z", 1.0)], 0.0)
        assert crawl_order(frontier) == ["x", "y", "z"]

    def test_n_best_finishes_its_batch_before_it_looks_again_s1_11(self, make: Make) -> None:
        frontier = queued(make(FrontierPolicy(order=NBest(n=2))), lead("x", 0.5), lead("y", 0.4), lead("z", 0.3))
        (lease,) = frontier.lease(0.0, 1, 1, 60.0)
        frontier.add([lead("better", 0.9), lead("b", 0.8, "b.example")], 0.0)
        assert frontier.lease(0.0, 9, 9, 60.0) == []
        assert frontier.wakes_at() == 60.0
        frontier.complete(lease, landed(lease), 0.0)
        assert [e.priority for e in frontier.best(2)] == [0.4, 0.9]
        assert crawl_order(frontier) == ["y", "better", "b", "z"]

    def test_top_r_bounds_what_one_lease_hands_out_s3_25(self, make: Make) -> None:
        frontier = make(FrontierPolicy(order=Expiring(max_per_lease=3)))
        frontier.add([lead(str(i), i / 10, f"h{i % 2}.example") for i in range(8)], 0.0)
        assert paths(frontier.lease(0.0, 9, 2, 60.0)) == ["7", "5", "6"]

    def test_expired_entries_are_deleted_and_never_requested_s3_27_s3_28_s3_e1(self, make: Make) -> None:
        frontier = make(FrontierPolicy(order=Expiring(lifetime_s=100.0)))
        frontier.add([lead("old", 0.9), lead("renewed", 0.1)], 0.0)
        frontier.add([lead("young", 0.5), lead("renewed", 0.2)], 50.0)
        assert crawl_order(frontier, 100.0) == ["young", "renewed"]
        entry = frontier.entry("a.example", lead("old").key)
        assert entry is not None
        assert (entry.state, entry.reason) == (UrlState.DROPPED, EXPIRED)

    def test_entry_in_flight_does_not_expire(self, make: Make) -> None:
        frontier = queued(
            make(FrontierPolicy(order=Expiring(lifetime_s=100.0))), lead("x"), lead("y", 0.4, "b.example")
        )
        (lease,) = frontier.lease(99.0, 1, 1, 60.0)
        assert frontier.lease(120.0, 9, 9, 60.0) == []
        assert frontier.complete(lease, landed(lease), 0.0)
        assert (frontier.stats().done, frontier.stats().dropped) == (1, 1)

    def test_aging_lifts_what_waits_above_fresh_links_s2_39(self, make: Make) -> None:
        frontier = make(FrontierPolicy(order=Aging(every=10, mode="paper")))
        frontier.add([lead("old", 0.01)], 0.0)
        frontier.add([lead(f"f{i}", 0.6) for i in range(129)], 0.0)
        entry = frontier.entry("a.example", lead("old").key)
        assert entry is not None
        assert entry.priority == pytest.approx(0.01 + 13 * 0.05)
        frontier.add([lead(f"g{i}", 0.0) for i in range(70)], 0.0)
        # After 20 rounds the first 130 are all at 1.0: the queue has become first in, first out.
        assert crawl_order(frontier)[:3] == ["old", "f0", "f1"]

    def test_settled_urls_are_asked_for_again_before_new_ones_when_revived(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("old", 0.1), lead("failed", 0.9))
        for state in (UrlState.FAILED, UrlState.DONE):
            (lease,) = frontier.lease(0.0, 1, 1, 60.0)
            frontier.complete(lease, landed(lease, state), 0.0)
        frontier.add([seed("new"), lead("waits")], 0.0)
        known = [(one.host, one.key) for one in map(lead, ("old", "failed", "waits", "never"))]
        assert frontier.revive(known) == 3
        assert frontier.revive(known) == 3
        stats = frontier.stats()
        assert (stats.queued, stats.done, stats.failed) == (4, 0, 0)
        assert crawl_order(frontier) == ["old", "failed", "waits", "new"]
        entry = frontier.entry("a.example", lead("old").key)
        assert entry is not None
        assert (entry.state, entry.lead.score) == (UrlState.DONE, 0.1)

    def test_revived_urls_are_given_out_beside_an_n_best_batch(self, make: Make) -> None:
        frontier = queued(make(FrontierPolicy(order=NBest(n=1), delay_s=0.0)), lead("a", 0.9))
        (lease,) = frontier.lease(0.0, 1, 1, 60.0)
        frontier.complete(lease, landed(lease), 0.0)
        frontier.add([lead("b", 0.5), lead("c", 0.4)], 0.0)
        assert frontier.revive([("a.example", lead("a").key)]) == 1
        assert crawl_order(frontier) == ["a", "b", "c"]

    def test_urgent_revisits_come_first_and_a_better_link_does_not_move_them(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("a", 0.9), lead("b", 0.8), lead("c", 0.7))
        keys = {name: lead(name).key for name in "abc"}
        assert frontier.revive([("a.example", keys["c"])], 1.0) == 1
        assert frontier.revive([("a.example", keys["b"])], 2.0) == 1
        frontier.add([seed("c")], 0.0)
        assert [entry.lead.tier for entry in frontier.best(3)] == [Tier.REVISIT, Tier.REVISIT, Tier.LINK]
        (lease,) = frontier.lease(0.0, 1, 9, 60.0, min_tier=Tier.REVISIT)
        assert [one.key for one in lease.leads] == [keys["b"], keys["c"]]

    def test_a_boosted_url_goes_before_links_and_seeds_and_after_revisits(self, make: Make) -> None:
        frontier = queued(make(PLAIN), seed("seed"), lead("low", 0.1), lead("again", 0.2))
        assert frontier.boost([("a.example", lead("low").key), ("a.example", lead("never").key)]) == 1
        frontier.revive([("a.example", lead("again").key)])
        # A score that a ranker learns later does not take the boost back.
        frontier.rescore([("a.example", lead("low").key, 0.01)])
        assert crawl_order(frontier) == ["again", "low", "seed"]

    def test_a_url_belongs_to_the_agent_of_its_best_link(self, make: Make) -> None:
        frontier = make(PLAIN)
        frontier.add([lead("a", 0.5, agent=1, features=b"one")], 0.0)
        frontier.add([lead("a", 0.4, agent=2, features=b"two")], 0.0)
        entry = frontier.entry("a.example", lead("a").key)
        assert entry is not None
        assert (entry.lead.agent, entry.lead.features) == (1, b"one")
        frontier.add([lead("a", 0.6, agent=2)], 0.0)
        entry = frontier.entry("a.example", lead("a").key)
        assert entry is not None
        assert (entry.lead.agent, entry.lead.features) == (2, b"")
