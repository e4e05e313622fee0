"""The idf cache answers as the function behind it does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.topic.page_terms import CachedIdf

PAGES = st.lists(st.lists(st.integers(1, 2**32 - 1) | st.integers(1, 40), max_size=30), max_size=6)


@given(PAGES)
def test_cached_answers_are_the_functions_own(pages: list[list[int]]) -> None:
    cached = CachedIdf(lambda term: term / 7, slots=8)
    for page in pages:
        terms = np.unique(np.array(page, dtype=np.uint32))
        assert cached(terms).tolist() == [t / 7 for t in terms.tolist()]


def test_known_terms_are_not_asked_for_again() -> None:
    asked: list[int] = []

    def rarity(term: int) -> float:
        asked.append(term)
        return 1.0

    cached = CachedIdf(rarity)
    for _ in range(3):
        cached(np.array([3, 5], dtype=np.uint32))
    assert asked == [3, 5]


def test_slots_that_are_no_power_of_two_are_refused() -> None:
    with pytest.raises(ValueError, match="power of two"):
        CachedIdf(float, slots=100)
