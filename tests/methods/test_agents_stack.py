"""An agent's ordered stack: best first, forgetting, hosts that sleep (S3-05, S3-25 … S3-28)."""

from hypothesis import given
from hypothesis import strategies as st

from opilio.core.records import Lead
from opilio.frontier.policy import BreadthFirst, Expiring
from opilio.methods.agents.link_queue import AgentLinkQueue, AgentQueueOptions


def lead(key: int, score: float, host: str = "a.example") -> Lead:
    return Lead(url=f"http://{host}/{key}", key=key, host=host, score=score)


def emptied(stack: AgentLinkQueue) -> list[int]:
    found = []
    while (best := stack.peek()) is not None:
        found += [item[0].key for item in stack.pop_from_host(best.host, 1)]
    return found


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0, 1), st.sampled_from("abc"))))
def test_stack_gives_the_best_first_whatever_came_when(found: list[tuple[int, float, str]]) -> None:
    stack = AgentLinkQueue()
    best: dict[int, tuple[float, int]] = {}
    for order, (number, score, host) in enumerate(found):
        key = number * 3 + "abc".index(host)
        stack.put(lead(key, score, f"{host}.example"), 0.0)
        first = best[key][1] if key in best else order
        best[key] = (max(score, best[key][0]) if key in best else score, first)
    assert emptied(stack) == sorted(best, key=lambda key: (-best[key][0], best[key][1]))


def test_stack_forgets_what_waited_longer_than_its_lifetime() -> None:
    """S3-27, S3-28: expired entries are gone and produce no request (S3-E1), the others stay."""
    stack = AgentLinkQueue(AgentQueueOptions(order=Expiring(lifetime_s=10.0)))
    stack.put(lead(1, 0.9), 0.0)
    stack.put(lead(2, 0.1), 5.0)
    stack.advance_time(10.0)
    assert emptied(stack) == [2]


def test_stack_renews_the_time_stamp_when_a_better_score_comes() -> None:
    stack = AgentLinkQueue(AgentQueueOptions(order=Expiring(lifetime_s=10.0)))
    stack.put(lead(1, 0.1), 0.0)
    stack.put(lead(1, 0.2), 8.0)
    stack.advance_time(12.0)
    assert emptied(stack) == [1]


def test_stack_passes_over_a_host_until_it_wakes() -> None:
    stack = AgentLinkQueue()
    stack.put(lead(1, 0.9, "a.example"), 0.0)
    stack.put(lead(2, 0.1, "b.example"), 0.0)
    stack.block_host("a.example", 5.0)
    first = stack.peek()
    assert first is not None
    assert (first.key, stack.next_due_at) == (2, 5.0)
    stack.advance_time(5.0)
    assert emptied(stack) == [1, 2]


def test_stack_moves_a_link_when_it_is_scored_again() -> None:
    stack = AgentLinkQueue()
    for key, score in ((1, 0.9), (2, 0.5), (3, 0.1)):
        stack.put(lead(key, score), 0.0)
    stack.rescore(1, 0.0)
    stack.rescore(3, 0.7)
    assert emptied(stack) == [3, 2, 1]


def test_stack_gives_a_retry_when_it_is_due() -> None:
    stack = AgentLinkQueue()
    stack.put_retry(lead(1, 0.5), 3.0)
    assert (stack.peek(), stack.next_due_at, len(stack)) == (None, 3.0, 1)
    stack.advance_time(3.0)
    assert emptied(stack) == [1]


def test_stack_keeps_the_best_when_it_is_full() -> None:
    stack = AgentLinkQueue(AgentQueueOptions(capacity=5))
    for key in range(11):
        stack.put(lead(key, key / 10), 0.0)
    assert stack.evicted
    assert emptied(stack) == [10, 9, 8, 7, 6]


def test_stack_follows_the_order_of_discovery_when_enabled() -> None:
    stack = AgentLinkQueue(AgentQueueOptions(order=BreadthFirst()))
    for key, score in ((1, 0.1), (2, 0.9), (3, 0.5)):
        stack.put(lead(key, score), 0.0)
    assert emptied(stack) == [1, 2, 3]


def test_first_score_counts_when_enabled() -> None:
    stack = AgentLinkQueue(AgentQueueOptions(keep_first_score=True))
    stack.put(lead(1, 0.1), 0.0)
    stack.put(lead(2, 0.5), 0.0)
    stack.put(lead(1, 0.9), 0.0)
    assert emptied(stack) == [2, 1]
