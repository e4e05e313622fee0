import pickle
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.text.term_arrays import build_idf, idf_from_bytes, idf_to_bytes, load_default_idf
from opilio.text.vocabulary import Vocabulary

DOCUMENTS = [[1, 2, 2], [1, 3], [1]]


def test_idf_of_a_term_in_every_document_is_not_zero() -> None:
    """X-14, S0-E10."""
    background = build_idf(DOCUMENTS)
    assert background.idf(1) == pytest.approx(log(1 + 3 / 4))
    assert background.idf(1) < background.idf(2) < background.idf(99) == log(4)


def test_weigh_multiplies_by_idf() -> None:
    background = build_idf(DOCUMENTS)
    assert background.weigh({1: 0.5, 99: 2.0}) == {1: 0.5 * background[1], 99: 2.0 * background[99]}


def test_limit_keeps_the_commonest() -> None:
    background = build_idf(DOCUMENTS, limit=1)
    assert (background.frequency(1), background.frequency(2)) == (3, 0)


@given(st.lists(st.lists(st.integers(1, 2**32 - 1), max_size=5), max_size=5), st.integers(-1, 2**33))
def test_table_survives_being_written(documents: list[list[int]], stranger: int) -> None:
    background = build_idf(documents)
    for copy in (idf_from_bytes(idf_to_bytes(background)), pickle.loads(pickle.dumps(background))):
        for term in [stranger, *(t for document in documents for t in document)]:
            assert copy.idf(term) == background.idf(term) >= 0.0


def test_shipped_table_knows_everyday_and_special_words() -> None:
    vocabulary, background = Vocabulary(), load_default_idf()
    idf = {word: background.idf(vocabulary[word]) for word in ("use", "person", "computer", "planet", "wren", "qqzzx")}
    assert list(idf) == sorted(idf, key=idf.__getitem__)
    for normaliser in ("porter", "none"):
        assert background.frequency(Vocabulary(normalizer=normaliser)["computers"]) > 0
