import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from opilio.model.records import BLOCK_BREAK, LINK_CLOSES, LINK_OPENS
from opilio.text.tokens import MARKS, marked_words, words

ANYTHING = st.text(st.characters(), max_size=60)


def test_words_are_lower_case_without_punctuation() -> None:
    """S0-14: full stops, commas, dashes, quotes, brackets and symbols go."""
    assert words('The "Wren", (10 cm) -- small_bird;!') == ["the", "wren", "10", "cm", "small", "bird"]


def test_numbers_are_words() -> None:
    """S4-E4."""
    assert words("polls 2014.") == ["polls", "2014"]


def test_apostrophes_cut_endings_and_split_elisions() -> None:
    assert words("Kejriwal's isn't we'll l'été “dell’arte” 'quoted'") == [
        *("kejriwal", "isn", "we", "l", "été", "dell", "arte", "quoted")
    ]


def test_letters_beyond_ascii_are_folded() -> None:
    assert words("ÆRØ «Straße» İstanbul ﬁne Ｆｕｌｌ naïve–café\u00a0x\u00adyz") == [
        *("ærø", "straße", "istanbul", "fine", "full", "naïve", "café", "xyz")
    ]


def test_many_capitals_of_another_alphabet_are_lowered() -> None:
    assert words("АБВГДЕЖЗИЙ Клмн — ОПРСТ…") == ["абвгдежзий", "клмн", "опрст"]


def test_long_texts_of_another_alphabet_are_folded_alike() -> None:
    text = "Съешь Ещё ЭТИХ Мягких Французских Булок — Да Выпей Чаю, ОΔΟΣ №5 😀… "
    assert words(text * 40) == words(text) * 40


def test_combining_marks_stay_in_words() -> None:
    assert words("cafe\u0301 नमस्ते") == ["café", unicodedata.normalize("NFKC", "नमस्ते")]


def test_scripts_without_spaces_give_pairs() -> None:
    assert words("東京都 and 水") == ["東京", "京都", "and", "水"]
    assert words("ไทย") == ["ไท", "ทย"]


def test_marks_are_words_of_their_own() -> None:
    flow = f"See {LINK_OPENS}the list{LINK_CLOSES}.{BLOCK_BREAK}Next"
    assert marked_words(flow) == ["see", LINK_OPENS, "the", "list", LINK_CLOSES, BLOCK_BREAK, "next"]
    assert words(flow) == ["see", "the", "list", "next"]


@given(ANYTHING)
def test_words_never_raises_and_words_are_words(text: str) -> None:
    for word in words(text):
        assert word
        assert all(unicodedata.category(c)[0] in "LNM" for c in word)


@given(ANYTHING)
def test_words_of_words_are_the_same(text: str) -> None:
    once = words(text)
    assert [w for word in once for w in words(word)] == once


@given(st.lists(st.one_of(st.sampled_from(MARKS), ANYTHING), max_size=12))
def test_marks_do_not_change_words(pieces: list[str]) -> None:
    flow = " ".join(pieces)
    assert [w for w in marked_words(flow) if w not in MARKS] == words(flow)
    assert [w for w in marked_words(flow) if w in MARKS] == [c for c in flow if c in MARKS]
