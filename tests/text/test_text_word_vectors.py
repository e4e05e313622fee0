"""Meanings of words: the shipped table, and sums of its vectors."""

import pickle
from mmap import mmap

import numpy as np
import pytest

from opilio.text import word_vectors
from opilio.text.term_arrays import term_array
from opilio.text.vocabulary import Vocabulary
from opilio.text.word_vectors import (
    DIMENSIONS,
    WordVectors,
    add_term_rows,
    load_word_vectors,
    loaded_term_rows,
    to_bytes,
)

VOCABULARY = Vocabulary()


def similarity(one: str, other: str) -> float:
    words = load_word_vectors(VOCABULARY)
    left, right = (words.mean(term_array(VOCABULARY.terms(text))) for text in (one, other))
    return float(left @ right)


@pytest.mark.parametrize(
    ("near", "far"),
    [("sparrow", "finance"), ("owl", "railway"), ("a small bird", "a large company"), ("eagles", "parliaments")],
)
def test_words_of_similar_meaning_have_similar_vectors(near: str, far: str) -> None:
    assert similarity("birds", near) > 0.3 > similarity("birds", far)


@pytest.mark.parametrize("word", ["Vogel", "oiseau", "pájaro", "uccello", "птица", "kuş", "นก"])
def test_words_of_other_languages_have_the_same_meaning(word: str) -> None:
    assert similarity(word, "bird") > 0.6 > similarity(word, "mathematics")


def test_scripts_without_spaces_have_vectors_of_character_pairs() -> None:
    assert similarity("鸟类", "birds") > 0.6  # Chinese: one pair of characters
    assert similarity("鳥類", "birds") > 0.6  # traditional characters
    assert similarity("軟體", "software") > 0.5 > similarity("軟體", "birds")


def test_thai_words_have_the_meaning_of_their_parts() -> None:
    assert similarity("ประวัติศาสตร์รถไฟ", "history of railways") > 0.5 > similarity("ประวัติศาสตร์รถไฟ", "birds")


def test_unknown_words_have_no_vector_and_change_nothing() -> None:
    assert similarity("zqxwv", "bird") == 0.0
    assert similarity("zqxwv bird", "bird") == pytest.approx(1.0)


def test_vectors_are_units_and_survive_as_bytes() -> None:
    words = load_word_vectors(VOCABULARY)
    vector = words.mean(term_array(VOCABULARY.terms("birds of prey")))
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)
    stored = to_bytes(vector).astype(np.float64)
    assert stored @ vector / np.linalg.norm(stored) > 0.99


def test_words_of_stems_that_differ_by_language_are_found_in_each() -> None:
    german = Vocabulary("german")
    words = load_word_vectors(german)
    one, other = (words.mean(term_array(german.terms(text))) for text in ("Vögel", "Vogel"))
    assert float(one @ other) > 0.6


def test_weights_decide_which_word_counts() -> None:
    vectors = np.zeros((2, DIMENSIONS), dtype=np.int8)
    vectors[0, 0] = vectors[1, 1] = 100
    words = WordVectors(np.array([7, 3], dtype=np.uint32), vectors)
    both = np.array([7, 3], dtype=np.uint32)
    assert words.mean(both)[:2].tolist() == pytest.approx([0.7071, 0.7071], abs=1e-3)
    assert words.mean(both, np.array([1.0, 0.0]))[:2].tolist() == [1.0, 0.0]
    assert not words.mean(np.array([99], dtype=np.uint32)).any()


def test_vectors_are_mapped_so_that_processes_share_them() -> None:
    base = load_word_vectors(VOCABULARY)._vectors
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert isinstance(base, mmap)


def test_worker_process_gets_the_same_table_from_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    own, terms = load_word_vectors(VOCABULARY), term_array(VOCABULARY.terms("sparrows on a railway, zqxwv"))
    sent = pickle.loads(pickle.dumps(loaded_term_rows()))  # as to a worker
    monkeypatch.setattr(word_vectors, "_tables", {})
    monkeypatch.setattr(word_vectors, "_term_rows", None)  # nothing is computed again
    add_term_rows(sent)
    received = load_word_vectors(VOCABULARY)
    assert received is not own and len(received) == len(own)
    assert np.array_equal(received.rows(terms), own.rows(terms))
    assert np.array_equal(received.mean(terms), own.mean(terms))
