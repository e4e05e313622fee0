"""What every `Frontier` does with leases, states and scores, and helpers for tests of frontiers."""

from collections.abc import Callable, Sequence

import pytest

from opilio.core.protocols import AddResult, Frontier
from opilio.core.records import HostLease, Lead, Tier, UrlResult, UrlState, url_key
from opilio.frontier.policy import FrontierPolicy, MergePolicy

Make = Callable[[FrontierPolicy], Frontier]
PLAIN = FrontierPolicy(delay_s=2.0)


def lead(path: str, score: float = 0.5, host: str = "a.example", **more: object) -> Lead:
    url = f"http://{host}/{path}"
    return Lead(url=url, key=url_key(url), host=host, score=score, **more)  # type: ignore[arg-type]


def seed(path: str, score: float = 1.0, host: str = "a.example") -> Lead:
    return lead(path, score, host, tier=Tier.FIRST)


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


class LeaseChecks:
    """The part about leases, states and scores; `FrontierChecks` has it too."""

    def test_best_score_is_leased_first_then_order_of_discovery(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("low", 0.1), lead("b", 0.5), lead("c", 0.5), lead("high", 0.9))
        assert crawl_order(frontier) == ["high", "b", "c", "low"]

    def test_links_of_several_pages_are_merged_by_their_scores_s0_27(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("a1", 0.9), lead("a2", 0.5), lead("a3", 0.1))
        frontier.add([lead("b1", 0.7), lead("b2", 0.3)], 1.0)
        assert crawl_order(frontier) == ["a1", "b1", "a2", "b2", "a3"]

    def test_seeds_come_before_links_in_order_of_priority_s0_e12(self, make: Make) -> None:
        seeds = [seed("third", 0.5), seed("first", 1.0), seed("second", 0.75)]
        frontier = queued(make(PLAIN), lead("link", 4.0), *seeds)
        frontier.rescore([("a.example", lead("link").key, 9.0)])
        assert crawl_order(frontier) == ["first", "second", "third", "link"]

    def test_a_queued_link_that_becomes_a_seed_comes_first(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("a", 3.0), lead("b", 2.0))
        assert frontier.add([seed("b")], 0.0) == AddResult(promoted=1)
        entry = frontier.entry("a.example", lead("b").key)
        assert entry is not None and entry.lead.tier == Tier.FIRST
        assert frontier.add([lead("b", 4.0), lead("a", 5.0)], 0.0).new == 0
        assert crawl_order(frontier) == ["b", "a"]

    def test_hosts_come_in_the_order_of_their_best_url(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x", 0.2), lead("y", 0.8, "b.example"), lead("z", 0.5, "c.example"))
        assert [x.host for x in frontier.lease(0.0, 2, 5, 60.0)] == ["b.example", "c.example"]

    def test_links_wait_while_a_much_better_one_waits_for_its_host(self, make: Make) -> None:
        policy = FrontierPolicy(delay_s=2.0, patience=0.5)
        good, fair, poor = lead("good", 0.8), lead("fair", 0.4, "b.example"), lead("poor", 0.1, "c.example")
        frontier = queued(make(policy), good, lead("better", 0.9), fair, poor, seed("first", host="d.example"))
        first = frontier.lease(0.0, 9, 1, 60.0)
        # The others wait for its outcome.
        assert paths(first) == ["first", "better"]
        held = frontier.wakes_at()
        assert held is not None and 0.0 < held < 1.0
        frontier.complete(first[1], landed(first[1]), 2.0)
        # Half as good as the one that wakes at 2.
        assert paths(frontier.lease(1.0, 9, 1, 60.0)) == ["fair"]
        second = frontier.lease(2.0, 9, 1, 60.0)
        assert paths(second) == ["good"]
        frontier.complete(second[0], landed(second[0]), 4.0)
        # "fair" is in flight.
        assert paths(frontier.lease(2.0, 9, 1, 60.0)) == []
        # A lease this old holds up nothing.
        assert paths(frontier.lease(5.0, 9, 1, 60.0)) == ["poor"]

    def test_a_host_that_wakes_much_later_holds_up_no_link(self, make: Make) -> None:
        frontier = queued(
            make(FrontierPolicy(patience=0.5)), lead("x", 0.9), lead("y", 0.9), lead("z", 0.1, "b.example")
        )
        lease = frontier.lease(0.0, 1, 1, 60.0)[0]
        frontier.complete(lease, landed(lease), 8.0)
        assert paths(frontier.lease(1.0, 9, 1, 60.0)) == ["z"]

    def test_leased_host_is_given_to_no_other_holder(self, make: Make) -> None:
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

    def test_expired_lease_is_renewed_only_if_the_host_was_not_leased_again(self, make: Make) -> None:
        """A process that was suspended holds its hosts when it continues."""
        frontier = queued(make(PLAIN), lead("x"))
        (lease,) = frontier.lease(0.0, 1, 1, 10.0)
        assert frontier.renew([lease], 4000.0, 10.0) == {"a.example"}
        assert frontier.lease(4005.0, 1, 1, 10.0) == []
        assert len(frontier.lease(4020.0, 1, 1, 10.0)) == 1
        assert frontier.renew([lease], 4021.0, 10.0) == set()

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
        assert frontier.entry("unknown.example", key) is None

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
        assert frontier.drop_host("unknown.example", "robots") == 0
        entry = frontier.entry("a.example", lead("y").key)
        assert entry is not None
        assert (entry.state, entry.reason) == (UrlState.DROPPED, "robots")
        assert frontier.complete(lease, landed(lease), 0.0)
        assert crawl_order(frontier) == ["o"]
        assert frontier.add([lead("y", 1.0)], 0.0) == AddResult(known=1)

    def test_readmitted_urls_are_queued_again_the_best_first(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x", 0.2), lead("y", 0.5), lead("z", 0.3), lead("o", 0.1, "b.example"))
        frontier.drop_host("a.example", "low yield")
        assert frontier.readmit("a.example", "another reason", 9, 0.0) == []
        assert frontier.readmit("unknown.example", "low yield", 9, 0.0) == []
        assert frontier.readmit("a.example", "low yield", 2, 0.0) == [lead("y").key, lead("z").key]
        assert (frontier.stats().queued, frontier.stats().dropped) == (3, 1)
        assert crawl_order(frontier) == ["y", "z", "o"]

    def test_refused_urls_are_dropped_with_the_reason(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x", 0.9), lead("y"), lead("z", 0.2, "b.example"), lead("o", 0.1))
        (lease, *_) = frontier.lease(0.0, 1, 1, 60.0)
        assert paths([lease]) == ["x"]
        assert frontier.drop_refused(lambda url: "" if url.endswith("o") else "out of scope") == 2
        entry = frontier.entry("b.example", lead("z", host="b.example").key)
        assert entry is not None
        assert (entry.state, entry.reason) == (UrlState.DROPPED, "out of scope")
        assert frontier.complete(lease, landed(lease), 0.0)
        assert crawl_order(frontier) == ["o"]
        assert (frontier.stats().queued, frontier.stats().dropped) == (0, 2)

    def test_reopened_host_wakes_with_the_urls_that_were_dropped_for_the_reason(self, make: Make) -> None:
        frontier = queued(make(PLAIN), lead("x", 0.9), lead("y", 0.2), lead("z", 0.3))
        (lease,) = frontier.lease(0.0, 1, 1, 60.0)
        assert frontier.complete(lease, landed(lease), 1000.0)
        frontier.drop_host("a.example", "unreachable", lambda url: url.endswith("y"))
        frontier.drop_host("a.example", "robots")
        assert frontier.reopen_host("unknown.example", "unreachable", 5.0) == 0
        assert frontier.reopen_host("a.example", "unreachable", 5.0) == 1
        assert (frontier.stats().queued, frontier.stats().dropped) == (1, 1)
        assert paths(frontier.lease(5.0, 1, 9, 60.0)) == ["y"]

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
