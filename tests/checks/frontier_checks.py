"""What every `Frontier` does, in memory or on disk.

A test module makes a subclass of `FrontierChecks` with a fixture `make`: a function from a policy to an empty frontier.
"""

from collections.abc import Callable, Sequence

import pytest

from opilio.core.protocols import AddResult, Frontier
from opilio.core.records import HostLease, Lead, Tier, UrlResult, UrlState, url_key
from opilio.frontier.policy import (
    EXPIRED,
    FRONTIER_FULL,
    HOST_TOTAL_REACHED,
    Aging,
    BreadthFirst,
    Expiring,
    FrontierLimits,
    FrontierPolicy,
    MergePolicy,
    NBest,
    seed_score,
)

Make = Callable[[FrontierPolicy], Frontier]
PLAIN = FrontierPolicy(delay_s=2.0)


def lead(path: str, score: float = 0.5, host: str = "a.example", **more: object) -> Lead:
    url = f"http://{host}/{path}"
    return Lead(url=url, key=url_key(url), host=host, score=score, **more)  # type: ignore[arg-type]


def landed(lease: HostLease, state: UrlState = UrlState.DONE, **more: object) -> list[UrlResult]:
    return [UrlResult(key=x.key, host=x.host, state=state, **more) for x in lease.leads]  # type: ignore[arg-type]


def paths(leases: Sequence[HostLease]) -> list[str]:
    return [x.url.rsplit("/", 1)[1] for lease in leases for x in lease.leads]


def crawl_order(frontier: Frontier, now: float = 0.0, per_host: int = 1) -> list[str]:
    """Lease and complete, one host at a time, until nothing is given any more."""
    order: list[str] = []
    while leases := frontier.lease(now, 1, per_host, 60.0):
        order += paths(leases)
        assert frontier.complete(leases[0], landed(leases[0]), 0.0)
    return order


def queued(frontier: Frontier, *leads: Lead, now: float = 0.0) -> Frontier:
    frontier.add(leads, now)
    return frontier


class FrontierChecks:
    """Subclass it with a fixture `make`."""

    def test_best_score_is_leased_first_then_order_of_discovery(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("low", 0.1), lead("b", 0.5), lead("c", 0.5), lead("high", 0.9))
        assert crawl_order(frontier) == ["high", "b", "c", "low"]

    def test_links_of_several_pages_are_merged_by_their_scores_s0_27(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("a1", 0.9), lead("a2", 0.5), lead("a3", 0.1))
        frontier.add([lead("b1", 0.7), lead("b2", 0.3)], 1.0)
        assert crawl_order(frontier) == ["a1", "b1", "a2", "b2", "a3"]

    def test_seeds_come_before_links_in_order_of_priority_s0_e12(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("link", 4.0), *(lead(f"seed{p}", seed_score(p)) for p in (3, 1, 2)))
        assert crawl_order(frontier) == ["seed1", "seed2", "seed3", "link"]

    def test_hosts_come_in_the_order_of_their_best_url(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x", 0.2), lead("y", 0.8, "b.example"), lead("z", 0.5, "c.example"))
        assert [x.host for x in frontier.lease(0.0, 2, 5, 60.0)] == ["b.example", "c.example"]

    def test_leased_host_is_given_to_nobody_else(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x"), lead("y"))
        assert paths(frontier.lease(0.0, 9, 1, 60.0)) == ["x"]
        assert frontier.lease(59.0, 9, 1, 60.0) == []

    def test_host_sleeps_until_its_wake_time(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x"), lead("y"))
        (lease,) = frontier.lease(0.0, 1, 1, 60.0)
        frontier.complete(lease, landed(lease), wake_at=5.0)
        assert frontier.lease(4.9, 1, 1, 60.0) == []
        assert frontier.wakes_at() == 5.0
        assert paths(frontier.lease(5.0, 1, 1, 60.0)) == ["y"]

    def test_new_link_does_not_wake_a_sleeping_host(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x"))
        (lease,) = frontier.lease(0.0, 1, 1, 60.0)
        frontier.complete(lease, landed(lease), wake_at=5.0)
        frontier.add([lead("y", 0.9)], 1.0)
        assert frontier.lease(4.0, 1, 1, 60.0) == []
        assert frontier.wakes_at() == 5.0

    def test_expired_lease_goes_to_another_and_the_late_holder_is_fenced(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x"))
        (late,) = frontier.lease(0.0, 1, 1, 10.0)
        (second,) = frontier.lease(10.0, 1, 1, 10.0)
        assert second.token > late.token
        assert second.leads == late.leads
        assert not frontier.complete(late, landed(late), 0.0)
        assert frontier.stats().leased == 1
        assert frontier.complete(second, landed(second), 0.0)
        assert not frontier.complete(second, landed(second), 0.0)
        assert frontier.stats().done == 1

    def test_renewed_lease_lasts_longer(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x"))
        (lease,) = frontier.lease(0.0, 1, 1, 10.0)
        assert frontier.renew([lease], 5.0, 10.0) == {"a.example"}
        assert frontier.lease(12.0, 1, 1, 10.0) == []
        assert frontier.renew([lease], 15.0, 10.0) == set()

    def test_url_not_landed_is_queued_as_before(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x", 0.9), lead("y"))
        (lease,) = frontier.lease(0.0, 1, 2, 60.0)
        frontier.complete(lease, landed(lease)[1:], 0.0)
        assert crawl_order(frontier) == ["x"]

    def test_landing_of_a_url_that_was_not_leased_changes_nothing(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x", 0.9), lead("y"))
        (lease,) = frontier.lease(0.0, 1, 1, 60.0)
        frontier.complete(lease, [UrlResult(key=lead("y").key, host="a.example", state=UrlState.DONE)], 0.0)
        assert crawl_order(frontier) == ["x", "y"]

    def test_states_and_reasons_are_kept(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x"))
        key = lead("x").key
        assert frontier.entry("a.example", key).state is UrlState.QUEUED  # type: ignore[union-attr]
        (lease,) = frontier.lease(0.0, 1, 1, 60.0)
        assert frontier.entry("a.example", key).state is UrlState.LEASED  # type: ignore[union-attr]
        frontier.complete(lease, landed(lease, UrlState.FAILED, reason="timeout"), 0.0)
        entry = frontier.entry("a.example", key)
        assert entry is not None
        assert (entry.state, entry.reason) == (UrlState.FAILED, "timeout")
        assert frontier.entry("a.example", 1) is None
        assert frontier.entry("nobody.example", key) is None

    def test_counts_add_up(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("a"), lead("b"), lead("c"), lead("d", host="b.example"))
        (lease,) = frontier.lease(0.0, 1, 2, 60.0)
        stats = frontier.stats()
        assert (stats.queued, stats.leased, stats.done, stats.hosts) == (2, 2, 0, 2)
        frontier.complete(lease, landed(lease), 0.0)
        stats = frontier.stats()
        assert (stats.queued, stats.leased, stats.done) == (2, 0, 2)

    def test_known_url_is_not_queued_again_s0_07(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x"))
        assert frontier.add([lead("x"), lead("x", 0.4), lead("y")], 0.0) == AddResult(new=1, known=2)
        assert crawl_order(frontier) == ["x", "y"]
        assert frontier.add([lead("x", 0.9)], 0.0) == AddResult(known=1)
        assert frontier.lease(0.0, 1, 1, 60.0) == []

    def test_better_score_found_later_raises_the_url_x_15(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x", 0.1, depth=2, tunnel=1, parent=7), lead("y", 0.5))
        added = frontier.add([lead("x", 0.9, depth=4, tunnel=0, parent=8, features=b"f")], 0.0)
        assert added == AddResult(promoted=1)
        entry = frontier.entry("a.example", lead("x").key)
        assert entry is not None
        found = entry.lead
        assert (found.score, found.depth, found.tunnel, found.parent, found.features) == (0.9, 2, 0, 8, b"f")
        assert (entry.parents, entry.times_found, entry.priority) == ((7, 8), 2, 0.9)
        assert crawl_order(frontier) == ["x", "y"]

    def test_worse_score_found_later_changes_nothing_but_the_parents(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x", 0.9, parent=7))
        assert frontier.add([lead("x", 0.1, parent=8)], 0.0) == AddResult(known=1)
        entry = frontier.entry("a.example", lead("x").key)
        assert entry is not None
        assert (entry.lead.score, entry.lead.parent, entry.parents) == (0.9, 7, (7, 8))

    def test_five_parents_are_kept_and_every_link_is_counted(self, make: Make) -> None:
        frontier = make(PLAIN)
        for parent in (1, 2, 2, 3, 4, 5, 6, 7):
            frontier.add([lead("x", parent=parent)], 0.0)
        entry = frontier.entry("a.example", lead("x").key)
        assert entry is not None
        assert (entry.parents, entry.times_found) == ((1, 2, 3, 4, 5), 8)

    @pytest.mark.parametrize(
        ("policy", "score"),
        [(MergePolicy.MAX, 0.5), (MergePolicy.DISCARD, 0.25), (MergePolicy.SUM, 0.75), (MergePolicy.NOISY_OR, 0.625)],
    )
    def test_merge_policies_x_15(self, make: Make, policy: MergePolicy, score: float) -> None:
        frontier = queued(make(FrontierPolicy(merge=policy)), lead("x", 0.25, parent=1), lead("x", 0.5, parent=2))
        frontier.add([lead("x", 0.5, parent=2)], 0.0)
        entry = frontier.entry("a.example", lead("x").key)
        assert entry is not None
        assert entry.lead.score == score

    def test_url_in_flight_is_neither_queued_nor_scored_again_s3_26(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x", 0.2))
        (lease,) = frontier.lease(0.0, 1, 1, 60.0)
        assert frontier.add([lead("x", 0.9)], 0.0) == AddResult(known=1)
        assert frontier.rescore([("a.example", lead("x").key, 0.9)]) == 0
        entry = frontier.entry("a.example", lead("x").key)
        assert entry is not None
        assert (entry.lead.score, entry.state) == (0.2, UrlState.LEASED)
        frontier.complete(lease, landed(lease), 0.0)
        assert frontier.lease(0.0, 1, 1, 60.0) == []

    def test_retry_waits_while_others_of_the_host_go(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("best", 0.9), lead("other", 0.1))
        (lease,) = frontier.lease(0.0, 1, 1, 60.0)
        frontier.complete(lease, landed(lease, UrlState.QUEUED, retry_at=30.0), wake_at=1.0)
        assert crawl_order(frontier, 1.0) == ["other"]
        assert frontier.stats().queued == 1
        assert frontier.wakes_at() == 30.0
        assert frontier.lease(29.0, 1, 1, 60.0) == []
        (again,) = frontier.lease(30.0, 1, 1, 60.0)
        assert paths([again]) == ["best"]
        assert again.leads[0].retries == 1

    def test_due_retry_does_not_break_the_pause_of_its_host(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x"), lead("y", 0.1))
        (lease,) = frontier.lease(0.0, 1, 1, 60.0)
        frontier.complete(lease, landed(lease, UrlState.QUEUED, retry_at=10.0), wake_at=1.0)
        (lease,) = frontier.lease(1.0, 1, 1, 60.0)
        frontier.complete(lease, landed(lease), wake_at=20.0)
        assert frontier.lease(15.0, 1, 1, 60.0) == []
        assert frontier.wakes_at() == 20.0
        assert paths(frontier.lease(20.0, 1, 1, 60.0)) == ["x"]

    def test_delay_of_a_host_is_handed_out_with_its_lease(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x"), lead("y", 0.1, "b.example"))
        frontier.set_delay("a.example", 9.0)
        assert [x.delay_s for x in frontier.lease(0.0, 2, 1, 60.0)] == [9.0, 2.0]

    def test_recover_queues_what_was_in_flight_and_lets_the_host_rest(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x"), lead("y", 0.1, "b.example"))
        (lease,) = frontier.lease(0.0, 1, 1, 600.0)
        assert frontier.recover(10.0) == 1
        assert frontier.stats().leased == 0
        assert not frontier.complete(lease, landed(lease), 0.0)
        assert paths(frontier.lease(11.0, 9, 9, 60.0)) == ["y"]
        assert paths(frontier.lease(12.0, 9, 9, 60.0)) == ["x"]

    def test_dropped_host_loses_its_queue_but_not_what_is_in_flight(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x", 0.9), lead("y"), lead("z"), lead("o", 0.1, "b.example"))
        (lease,) = frontier.lease(0.0, 1, 1, 60.0)
        assert frontier.drop_host("a.example", "robots") == 2
        assert frontier.drop_host("nobody.example", "robots") == 0
        entry = frontier.entry("a.example", lead("y").key)
        assert entry is not None
        assert (entry.state, entry.reason) == (UrlState.DROPPED, "robots")
        assert frontier.complete(lease, landed(lease), 0.0)
        assert crawl_order(frontier) == ["o"]
        assert frontier.add([lead("y", 1.0)], 0.0) == AddResult(known=1)

    def test_rescored_urls_go_up_and_down(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x", 0.9), lead("y", 0.5), lead("z", 0.4, "b.example"))
        changed = frontier.rescore(
            [("a.example", lead("x").key, 0.1), ("b.example", lead("z", host="b.example").key, 0.6), ("c", 1, 1.0)]
        )
        assert changed == 2
        assert [e.lead.url[-1] for e in frontier.best(9)] == ["z", "y", "x"]
        assert crawl_order(frontier) == ["z", "y", "x"]

    def test_best_lists_queued_urls_over_all_hosts(self, make: Make) -> None:
        frontier = make(PLAIN)
        frontier.add([lead(str(i), i / 100, f"h{i % 7}.example") for i in range(60)], 0.0)
        frontier.lease(0.0, 2, 3, 60.0)
        found = [int(e.lead.url.rsplit("/", 1)[1]) for e in frontier.best(20)]
        assert found == sorted(set(range(60)) - {59, 52, 45, 58, 51, 44}, reverse=True)[:20]

    def test_wakes_at_tells_now_later_or_never(self, make: Make) -> None:
        frontier = make(PLAIN)
        assert frontier.wakes_at() is None
        frontier.add([lead("x")], 3.0)
        assert frontier.wakes_at() == 0.0
        (lease,) = frontier.lease(3.0, 1, 1, 60.0)
        assert frontier.wakes_at() == 63.0
        frontier.complete(lease, landed(lease), 5.0)
        assert frontier.wakes_at() is None

    def test_score_that_is_no_number_does_not_stop_the_crawl(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x", float("nan")), lead("y", float("inf")), lead("z", 0.1))
        assert crawl_order(frontier) == ["z", "x", "y"]

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
        policy = FrontierPolicy(refusal_reason=lambda url: "calendar" if "cal" in url else "")
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
        frontier.add([lead("new", seed_score(1)), lead("waits")], 0.0)
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
        frontier.add([lead("c", seed_score(1))], 0.0)
        assert [entry.lead.tier for entry in frontier.best(3)] == [Tier.REVISIT, Tier.REVISIT, Tier.LINK]
        (lease,) = frontier.lease(0.0, 1, 9, 60.0, min_tier=Tier.REVISIT)
        assert [one.key for one in lease.leads] == [keys["b"], keys["c"]]

    def test_a_boosted_url_goes_before_links_and_seeds_and_after_revisits(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("seed", seed_score(1)), lead("low", 0.1), lead("again", 0.2))
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
