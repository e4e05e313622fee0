"""How words and relevance make the order."""

from typing import cast

import numpy as np
import tantivy
from hypothesis import given
from hypothesis import strategies as st

from opilio.search.candidates import OpenIndex, RankingWeights, SearchCandidate

shares = st.floats(0.0, 1.0)
candidates = st.lists(st.tuples(st.floats(0.01, 100.0), shares), min_size=1, max_size=60)


def order(text: list[float], relevance: list[float], mix: RankingWeights | None = None) -> list[int]:
    """Numbers of the candidates, best first."""
    scores = (mix or RankingWeights()).combine(np.array(text), np.array(relevance, np.float32))
    return [int(number) for number in np.argsort(-scores, kind="stable")]


def test_words_decide_where_they_fit_one_page_best() -> None:
    assert order([10.0, 9.0, 2.0, 1.0], [0.0, 1.0, 1.0, 1.0])[0] == 0


def test_relevance_decides_where_many_pages_fit_the_words() -> None:
    assert order([10.0, *[9.0] * 100], [0.0, 1.0, *[0.5] * 99])[:2] == [1, 2]


def test_pages_that_fit_badly_leave_the_order_to_the_words() -> None:
    assert order([10.0, 9.0, *[1.0] * 198], [0.0, *[1.0] * 199])[0] == 0


@given(candidates)
def test_better_words_and_more_relevance_never_come_later(found: list[tuple[float, float, float]]) -> None:
    text, relevance = (np.array(part) for part in zip(*found, strict=True))
    scores = RankingWeights().combine(text, relevance.astype(np.float32))
    best = int(np.argmax(scores))
    assert not any((text > text[best]) & (relevance > relevance[best]))


def test_nothing_found_is_ordered_too() -> None:
    assert order([], []) == []


def test_page_that_plain_bm25_ranks_first_stays_on_the_first_page() -> None:
    index, address = cast(OpenIndex, None), cast(tantivy.DocAddress, None)
    found = [SearchCandidate(index, address, key, 1.0, 0.0, float(-key), ["birds"]) for key in range(30)]
    keys = [one.key for one in RankingWeights(guarded=3).order(found, plain_best=[20, 3, 25, 26])]
    assert keys == [0, 1, 2, 3, 4, 5, 6, 7, 20, 25, 8, 9, *range(10, 20), 21, 22, 23, 24, 26, 27, 28, 29]
    assert [one.key for one in RankingWeights().order(found, plain_best=[3, 9])] == list(range(30))
