"""URLs that are claimed by name: handed out once, to one holder, never before their host wakes."""

import sqlite3

import pytest

from opilio.core.records import Lead, UrlResult, UrlState
from opilio.frontier.policy import Expiring, FrontierPolicy
from opilio.frontier.schema import create_frontier_tables
from opilio.frontier.sqlite.claims import ClaimableFrontier

TTL_S = 60.0


def lead(key: int, host: str = "a.example") -> Lead:
    return Lead(url=f"http://{host}/{key}", key=key, host=host, score=key / 10)


@pytest.fixture
def frontier() -> ClaimableFrontier:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_frontier_tables(connection)
    return ClaimableFrontier(connection, FrontierPolicy(order=Expiring(lifetime_s=100.0), delay_s=5.0))


def test_claimed_url_is_leased_whatever_its_score(frontier: ClaimableFrontier) -> None:
    frontier.add([lead(1), lead(2), lead(3)], 0.0)
    lease = frontier.claim([lead(1)], 0.0, TTL_S).lease
    assert lease is not None
    assert [found.key for found in lease.leads] == [1]
    assert (frontier.stats().leased, frontier.stats().queued) == (1, 2)


def test_host_is_held_by_one_claim_at_a_time(frontier: ClaimableFrontier) -> None:
    frontier.add([lead(1), lead(2)], 0.0)
    frontier.claim([lead(1)], 0.0, TTL_S)
    again = frontier.claim([lead(2)], 1.0, TTL_S)
    assert (again.lease, again.host_wakes_at) == (None, TTL_S)
    assert frontier.lease(1.0, 5, 5, TTL_S) == []


def test_host_is_not_claimed_before_it_wakes(frontier: ClaimableFrontier) -> None:
    frontier.add([lead(1), lead(2)], 0.0)
    lease = frontier.claim([lead(1)], 0.0, TTL_S).lease
    assert lease is not None
    frontier.complete(lease, [UrlResult(key=1, host="a.example", state=UrlState.DONE)], 5.0)
    assert frontier.claim([lead(2)], 4.0, TTL_S).host_wakes_at == 5.0
    assert frontier.claim([lead(2)], 5.0, TTL_S).lease is not None


def test_url_that_is_no_longer_queued_is_gone(frontier: ClaimableFrontier) -> None:
    """Fetched, expired (S3-28) or never seen: no claim brings it back."""
    frontier.add([lead(1), lead(2)], 0.0)
    lease = frontier.claim([lead(1)], 0.0, TTL_S).lease
    assert lease is not None
    frontier.complete(lease, [UrlResult(key=1, host="a.example", state=UrlState.DONE)], 0.0)
    assert frontier.claim([lead(1)], 1.0, TTL_S).unavailable == [1]
    frontier.begin_claims(100.0, 60.0)
    assert frontier.claim([lead(2)], 100.0, TTL_S).unavailable == [2]
    assert frontier.claim([lead(9, "b.example")], 1.0, TTL_S).unavailable == [9]


def test_retry_is_claimed_when_it_is_due_with_its_tries(frontier: ClaimableFrontier) -> None:
    frontier.add([lead(1)], 0.0)
    lease = frontier.claim([lead(1)], 0.0, TTL_S).lease
    assert lease is not None
    frontier.complete(lease, [UrlResult(key=1, host="a.example", state=UrlState.QUEUED, retry_at=9.0)], 0.0)
    assert frontier.claim([lead(1)], 1.0, TTL_S).retry_times == {1: 9.0}
    frontier.begin_claims(9.0, 60.0)
    lease = frontier.claim([lead(1)], 9.0, TTL_S).lease
    assert lease is not None
    assert lease.leads[0].retries == 1


def test_lapsed_claim_can_be_made_again_and_fences_the_first(frontier: ClaimableFrontier) -> None:
    frontier.add([lead(1)], 0.0)
    first = frontier.claim([lead(1)], 0.0, TTL_S).lease
    second = frontier.claim([lead(1)], TTL_S, TTL_S).lease
    assert first is not None
    assert second is not None
    done = [UrlResult(key=1, host="a.example", state=UrlState.DONE)]
    assert (frontier.complete(first, done, 0.0), frontier.complete(second, done, 0.0)) == (False, True)
    assert (frontier.stats().leased, frontier.stats().done) == (0, 1)
