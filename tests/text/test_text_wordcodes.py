"""Codes and counts found in whole arrays are those of looking word by word."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.text import term_arrays
from opilio.text.term_arrays import TermEncoder, TermList, term_array
from opilio.text.tokens import MARKS, tokenize_marked
from opilio.text.vocabulary import Vocabulary

flows = st.lists(st.text(alphabet="abcdeé'’ñ日本ß -\u0301İ" + "".join(MARKS), max_size=30), max_size=12).map(" ".join)


@given(st.lists(flows, max_size=4))
def test_codes_equal_one_lookup_per_word_for_any_flow(texts: list[str]) -> None:
    vocabulary, codes = Vocabulary(), TermEncoder(Vocabulary())
    for text in texts:
        assert codes.encode(text).tolist() == [vocabulary[word] for word in tokenize_marked(text)]


@given(st.lists(flows, max_size=4))
def test_counts_equal_those_of_the_terms_in_order_for_any_text(texts: list[str]) -> None:
    vocabulary, codes = Vocabulary(), TermEncoder(Vocabulary())
    for text in texts:
        terms, counts = codes.count_terms(text)
        assert terms.tolist() == sorted(set(terms.tolist()))
        assert dict(zip(terms.tolist(), counts.tolist(), strict=True)) == Counter(vocabulary.terms(text))


def test_counting_words_counts_their_surface_forms_too() -> None:
    """S0-E4: who counts terms without order shows the same commonest form."""
    codes = TermEncoder(Vocabulary())
    terms, counts = codes.count_terms("Nesting, nested nests; nested")
    assert (counts.tolist(), codes.vocabulary.surface_of(terms[0])) == ([4], "nested")


def test_codes_are_the_same_for_flows_longer_than_a_chunk() -> None:
    vocabulary = Vocabulary()
    flow = " ".join(f"wren{n} \x02nests\x03 the" for n in range(9_000)) + " " + "x" * 70_000 + " tail"
    expected = [vocabulary[word] for word in tokenize_marked(flow)]
    assert len(flow) > 2 * term_arrays._CHUNK_BYTES
    assert TermEncoder(vocabulary).encode(flow).tolist() == expected


def test_words_a_vocabulary_forgot_have_stems_again_when_met_again() -> None:
    vocabulary = Vocabulary(capacity=40)
    codes = TermEncoder(vocabulary)
    codes.encode(" ".join(f"bird{n}" for n in range(39)))
    codes.encode(" ".join(f"nest{n}" for n in range(39)))
    (term,) = codes.encode("bird1").tolist()
    assert vocabulary.stem_of(term) == "bird1"


@given(st.lists(st.integers(1, 2**32 - 1), max_size=8))
def test_terms_of_an_array_read_like_a_list(terms: list[int]) -> None:
    listed = TermList(np.array(terms, dtype=np.uint32))
    assert (listed == terms, len(listed), list(listed), listed[1:3]) == (True, len(terms), terms, terms[1:3])
    assert term_array(listed).tolist() == terms and listed != [*terms, 1]
    with pytest.raises(TypeError, match="unhashable"):
        hash(listed)
