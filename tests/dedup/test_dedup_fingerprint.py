import random
from hashlib import md5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.core.records import FetchResult
from opilio.dedup import (
    MIN_TERMS,
    fingerprint_terms,
    hamming_distance,
    one_character_words,
    simhash64,
    simhash_bands,
)
from opilio.parse.html import HtmlParser
from opilio.text.vocabulary import Vocabulary

TEXT = "The wren is a small brown bird of the family Troglodytidae, found in most of Europe."

terms_lists = st.lists(st.integers(0, (1 << 32) - 1), max_size=700)
signatures = st.integers(-(1 << 63), (1 << 63) - 1)


def fingerprint_text(text: str) -> int:
    return fingerprint_terms(Vocabulary().terms(text))


def test_fingerprint_is_blind_to_case_and_white_space_s0_e6() -> None:
    assert fingerprint_text(TEXT) == fingerprint_text(TEXT.upper().replace(" ", "\n \t")) != 0


def test_text_is_fingerprinted_not_the_body_x_08() -> None:
    """S0's MD5 of the body differs with every date in the markup; 64 bits of the normalised text do not."""
    bodies = [f"<html><!-- made at {hour}:00 --><p>{TEXT}</p></html>".encode() for hour in (11, 12)]
    answers = [FetchResult(url="http://a.example/", body=b, headers=(("Content-Type", "text/html"),)) for b in bodies]
    texts = [HtmlParser().parse(answer).text for answer in answers]
    assert len({md5(body, usedforsecurity=False).digest() for body in bodies}) == 2
    assert len({fingerprint_text(text) for text in texts}) == 1
    assert -(1 << 63) <= fingerprint_text(texts[0]) < 1 << 63


def test_fingerprint_differs_when_a_word_differs() -> None:
    assert fingerprint_text(TEXT) != fingerprint_text(TEXT.replace("brown", "red"))


def test_fingerprint_differs_when_a_digit_or_a_letter_that_stands_alone_differs() -> None:
    terms = Vocabulary().terms(TEXT)
    texts = ["page 1", "page 2", "vitamin C", "vitamin D", "page 12", ""]
    assert len({fingerprint_terms(terms, one_character_words(text)) for text in texts}) == 5
    assert fingerprint_terms(terms, one_character_words("page 12 of the wren's site")) == fingerprint_terms(terms)


@pytest.mark.parametrize("text", ["", "   ", "404 Not Found", "Untitled\n\n" + " " * 100])
def test_fingerprint_is_zero_when_there_is_too_little_text(text: str) -> None:
    assert fingerprint_text(text) == 0


def test_fingerprint_is_stable_across_versions() -> None:
    """Collections outlive programs: these numbers are on disk."""
    assert fingerprint_terms(list(range(100))) == -8389031181347768094
    assert simhash64(list(range(100))) == 8666898763692145164


def plain_simhash(terms: list[int]) -> int:
    """The definition, bit by bit."""
    mask = (1 << 64) - 1

    def mixed(value: int) -> int:
        value = (value ^ (value >> 33)) * 0xFF51AFD7ED558CCD & mask
        value = (value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53 & mask
        return value ^ (value >> 33)

    hashes = [
        mixed((a * 0x9E3779B97F4A7C15 ^ b * 0xC2B2AE3D27D4EB4F ^ c) & mask)
        for a, b, c in zip(terms, terms[1:], terms[2:], strict=False)
    ]
    bits = sum(1 << i for i in range(64) if 2 * sum(h >> i & 1 for h in hashes) > len(hashes))
    return (bits - (1 << 64) if bits >> 63 else bits) or 1


@given(terms_lists)
def test_simhash_equals_its_definition(terms: list[int]) -> None:
    assert simhash64(terms) == (plain_simhash(terms) if len(terms) >= MIN_TERMS else 0)


@given(terms_lists)
def test_signatures_fit_signed_64_bits(terms: list[int]) -> None:
    assert -(1 << 63) <= simhash64(terms) < 1 << 63
    assert -(1 << 63) <= fingerprint_terms(terms) < 1 << 63
    assert (fingerprint_terms(terms) == 0) == (len(terms) < MIN_TERMS)


@given(signatures, signatures)
def test_hamming_is_a_distance(one: int, other: int) -> None:
    assert hamming_distance(one, other) == hamming_distance(other, one) == ((one ^ other) % (1 << 64)).bit_count()
    assert hamming_distance(one, one) == 0


def test_simhash_is_near_when_few_words_change_and_far_for_other_texts() -> None:
    draw = random.Random(7)
    text = [draw.getrandbits(32) for _ in range(1_000)]
    changed = [draw.getrandbits(32) if i % 100 == 0 else term for i, term in enumerate(text)]
    other = [draw.getrandbits(32) for _ in range(1_000)]
    assert hamming_distance(simhash64(text), simhash64(changed)) <= 8
    assert hamming_distance(simhash64(text), simhash64(other)) >= 20


@given(signatures, st.sets(st.integers(0, 63), max_size=3))
def test_signatures_within_three_bits_share_a_band(signature: int, flips: set[int]) -> None:
    other = signature
    for bit in flips:
        other ^= 1 << bit if bit < 63 else -(1 << 63)
    assert set(simhash_bands(signature)) & set(simhash_bands(other))
