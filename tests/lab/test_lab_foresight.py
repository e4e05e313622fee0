"""Ceilings with limited foresight on small graphs."""

import numpy as np
import pytest

from opilio.lab.evaluation.metrics import area_under_found
from opilio.lab.evaluation.oracle import foresight_order, oracle_order
from opilio.lab.webs.pages import WebLinkGraph

# 0 links to 1 (leads nowhere), 2 (leads to the relevant 4) and 3 (leads to the relevant 6 through 5); 7 is dead.
ROWS = [[7, 1, 2, 3], [], [4], [5], [], [6], []]
RELEVANT = np.array([False, False, False, False, True, False, True])


@pytest.mark.parametrize(
    ("steps", "order"),
    [(0, [0, 7, 1, 2, 4, 3, 5, 6]), (1, [0, 2, 4, 7, 1, 3, 5, 6]), (2, [0, 2, 4, 3, 5, 6, 7, 1])],
)
def test_more_foresight_finds_relevant_pages_earlier(steps: int, order: list[int]) -> None:
    assert foresight_order(WebLinkGraph.from_rows(ROWS, 8), RELEVANT, [0], 20, steps) == order


@pytest.mark.parametrize("budget", [1, 3, 8])
def test_no_ceiling_is_above_the_oracle(budget: int) -> None:
    graph = WebLinkGraph.from_rows(ROWS, 8)
    relevant = np.append(RELEVANT, False)

    def area(order: list[int]) -> int:
        assert len(order) <= budget
        return area_under_found(relevant[order], budget)

    ceilings = [area(foresight_order(graph, RELEVANT, [0], budget, steps)) for steps in (0, 1, 2)]
    assert ceilings == sorted(ceilings)
    assert ceilings[-1] <= area(oracle_order(graph, RELEVANT, [0], budget))
