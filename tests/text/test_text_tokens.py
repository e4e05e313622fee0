import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.core.records import BLOCK_BREAK, LINK_END, LINK_START
from opilio.text.tokens import MARKS, thai_words, tokenize, tokenize_marked

ANYTHING = st.text(st.characters(), max_size=60)


def test_words_are_lower_case_without_punctuation() -> None:
    """S0-14: full stops, commas, dashes, quotes, brackets and symbols go."""
    assert tokenize('The "Wren", (10 cm) -- small_bird;!') == ["the", "wren", "10", "cm", "small", "bird"]


def test_numbers_are_words() -> None:
    """S4-E4."""
    assert tokenize("polls 2014.") == ["polls", "2014"]


def test_apostrophes_cut_endings_and_split_elisions() -> None:
    assert tokenize("Kejriwal's isn't we'll l'été “dell’arte” 'quoted'") == [
        *("kejriwal", "isn", "we", "l", "été", "dell", "arte", "quoted")
    ]


def test_letters_beyond_ascii_are_folded() -> None:
    assert tokenize("ÆRØ «Straße» İstanbul ﬁne Ｆｕｌｌ naïve–café\u00a0x\u00adyz") == [
        *("ærø", "straße", "istanbul", "fine", "full", "naïve", "café", "xyz")
    ]


def test_many_capitals_of_another_alphabet_are_lowered() -> None:
    assert tokenize("АБВГДЕЖЗИЙ Клмн — ОПРСТ…") == ["абвгдежзий", "клмн", "опрст"]


def test_long_texts_of_another_alphabet_are_folded_alike() -> None:
    text = "Съешь Ещё ЭТИХ Мягких Французских Булок — Да Выпей Чаю, ОΔΟΣ №5 😀… "
    assert tokenize(text * 40) == tokenize(text) * 40


def test_combining_marks_stay_in_words() -> None:
    assert tokenize("cafe\u0301 नमस्ते") == ["café", unicodedata.normalize("NFKC", "नमस्ते")]


def test_scripts_without_spaces_give_pairs() -> None:
    assert tokenize("東京都 and 水") == ["東京", "京都", "and", "水"]
    assert tokenize("ລາວ") == ["ລາ", "າວ"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ไดโนเสาร์กินอะไรเป็นอาหาร", "ไดโนเสาร์ กิน อะไร เป็น อาหาร"),
        ("นกอินทรีเป็นนก", "นก อินทรี เป็น นก"),  # words of two characters
        ("ใช้ Python 3เขียนโปรแกรม", "ใช้ python 3 เขียน โปรแกรม"),
        ("ในฮฮฮฮประเทศไทย", "ใน ฮฮฮฮ ประเทศ ไทย"),  # what is unknown stays whole
        ("น้ำตก", unicodedata.normalize("NFKC", "น้ำตก")),
    ],
)
def test_thai_text_is_divided_into_words(text: str, words: str) -> None:
    assert tokenize(text) == words.split()


@given(st.text(st.characters(min_codepoint=0xE00, max_codepoint=0xE7F), max_size=40))
def test_thai_words_are_themselves_words(text: str) -> None:
    once = tokenize(text)
    assert [w for word in once for w in tokenize(word)] == once
    assert "".join(thai_words(text)).replace("ํา", "ำ") == text.replace("ํา", "ำ")


def test_marks_are_words_of_their_own() -> None:
    flow = f"See {LINK_START}the list{LINK_END}.{BLOCK_BREAK}Next"
    assert tokenize_marked(flow) == ["see", LINK_START, "the", "list", LINK_END, BLOCK_BREAK, "next"]
    assert tokenize(flow) == ["see", "the", "list", "next"]


@given(ANYTHING)
def test_words_never_raises_and_words_are_words(text: str) -> None:
    for word in tokenize(text):
        assert word
        assert all(unicodedata.category(c)[0] in "LNM" for c in word)


@given(ANYTHING)
def test_words_of_words_are_the_same(text: str) -> None:
    once = tokenize(text)
    assert [w for word in once for w in tokenize(word)] == once


@given(st.lists(st.one_of(st.sampled_from(MARKS), ANYTHING), max_size=12))
def test_marks_do_not_change_words(pieces: list[str]) -> None:
    flow = " ".join(pieces)
    assert [w for w in tokenize_marked(flow) if w not in MARKS] == tokenize(flow)
    assert [w for w in tokenize_marked(flow) if w in MARKS] == [c for c in flow if c in MARKS]
