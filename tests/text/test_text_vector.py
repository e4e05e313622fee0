import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.text.vector import cosine, counts, dice, dot, jaccard, norm, overlap, tf, topic_cosine, weighted

WEIGHTS = {
    "int": 1.0,
    "code": 0.92,
    "algorithm": 0.87,
    "program": 0.81,
    "database": 0.78,
    "internet": 0.76,
    "html": 0.69,
    "computer": 0.61,
    "hardware": 0.58,
    "software": 0.53,
}
NUMBER = {name: i for i, name in enumerate([*WEIGHTS, "banana"], start=1)}
TABLE = {NUMBER[name]: weight for name, weight in WEIGHTS.items()}  # S0-22
PAGE = {NUMBER["computer"]: 0.2, NUMBER["software"]: 0.1, NUMBER["banana"]: 0.9}
VECTORS = st.dictionaries(st.integers(1, 30), st.floats(0, 1000), max_size=15)
SETS = st.frozensets(st.integers(1, 30), max_size=15)


def test_s0_22_norm() -> None:
    assert norm(TABLE) == pytest.approx(2.4312, abs=5e-5)


def test_s0_23_cosine_over_topic_terms() -> None:
    assert topic_cosine(TABLE, PAGE) == pytest.approx(0.3219, abs=5e-5)


def test_s4_17_cosine_over_page_terms() -> None:
    """X-01: the same page with its norm over all its terms."""
    assert cosine(TABLE, PAGE) == pytest.approx(0.0776, abs=5e-5)


def test_s0_15_tf() -> None:
    assert tf([7, 7, 8, 9]) == {7: 0.5, 8: 0.25, 9: 0.25}
    assert tf([]) == {}


def test_counts_and_weighted() -> None:
    assert counts([5, 5, 6]) == {5: 2, 6: 1}
    assert weighted({5: 2, 6: 1}, {5: 0.5, 7: 3.0}) == weighted({5: 0.5, 7: 3.0}, {5: 2, 6: 1}) == {5: 1.0}


@given(VECTORS, VECTORS)
def test_cosine_is_symmetric_and_within_0_and_1(a: dict[int, float], b: dict[int, float]) -> None:
    assert cosine(a, b) == pytest.approx(cosine(b, a))
    assert 0.0 <= cosine(a, b) <= 1.0
    assert 0.0 <= topic_cosine(a, b) <= 1.0
    assert dot(a, b) == dot(b, a)


@given(VECTORS)
def test_cosine_is_1_with_itself(a: dict[int, float]) -> None:
    assert cosine(a, a) == (pytest.approx(1.0) if norm(a) > 0 else 0.0)


@given(SETS, SETS)
def test_set_measures_are_symmetric_and_ordered(a: frozenset[int], b: frozenset[int]) -> None:
    assert (dice(a, b), overlap(a, b), jaccard(a, b)) == (dice(b, a), overlap(b, a), jaccard(b, a))
    assert 0.0 <= jaccard(a, b) <= dice(a, b) <= overlap(a, b) <= 1.0
