"""The same operations on both frontiers give the same answers, whatever they are and whatever the policy."""

from checks.frontier_machine import BothFrontiers, run_machine


def test_both_frontiers_answer_alike_for_the_same_operations() -> None:
    run_machine(BothFrontiers, examples=40)
