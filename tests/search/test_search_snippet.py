"""Snippets: the piece of a text that shows why it was found."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.search.query import parse_query, positive_terms
from opilio.search.snippet import SNIPPET_LENGTH, Highlighter, build_snippet, edit_distance, highlight


def marker(query: str, language: str = "en") -> Highlighter:
    return Highlighter(positive_terms(parse_query(query)), language)


def shown(text: str, query: str, language: str = "en") -> str:
    return "".join(f"[{s.text}]" if s.marked else s.text for s in build_snippet(text, marker(query, language)))


@pytest.mark.parametrize(
    ("text", "query", "language", "expected"),
    [
        ("Singing wrens sing.", "wren song", "en", "Singing [wrens] sing."),
        ("A wren,\n a   WREN!", "wren", "en", "A [wren], a [WREN]!"),
        ("Die Wälder und der Wald", "wald", "de", "Die [Wälder] und der [Wald]"),
        ("L’été à l’École", "ecole", "fr", "L’été à l’[École]"),
        ("今日は東京都に行く", "東京", "ja", "今日は[東京]都に行く"),
        ("wrens and wrynecks", "wre*", "en", "[wrens] and wrynecks"),
        ("a colour, a color", "color~", "en", "a [colour], a [color]"),
        ("भारत के पक्षी, पक्का घर", "पक्षी", "hi", "भारत के [पक्षी], पक्का घर"),
        ("বাংলা মাছ ও পাখি", "মাছ", "bn", "বাংলা [মাছ] ও পাখি"),
        ("பறவை இனங்கள்", "பறவை", "ta", "[பறவை] இனங்கள்"),
        ("Zaunko\u0308nig im Wald", "Zaunkönig", "de", "[Zaunko\u0308nig] im Wald"),
        ("re\u0301sume\u0301", "sume", "fr", "re\u0301sume\u0301"),
        ("Wren™ sings", "wren", "en", "[Wren]™ sings"),
        ("ＷＲＥＮＳ sing", "wren", "en", "[ＷＲＥＮＳ] sing"),
        ("nothing here", "wren", "en", "nothing here"),
        ("", "wren", "en", ""),
    ],
)
def test_words_are_marked_where_they_match(text: str, query: str, language: str, expected: str) -> None:
    assert shown(text, query, language) == expected


def test_piece_with_the_most_different_words_is_shown() -> None:
    text = "wren " * 20 + "filler " * 200 + "here a wren has a song " + "filler " * 200
    result = shown(text, "wren song")
    assert "[wren] has a [song]" in result
    assert result.startswith("… ")
    assert result.endswith(" …")


def test_sentence_is_shown_before_a_list_with_as_many_different_words() -> None:
    text = "Wren Songs Wren Nests Wren Eggs " * 8 + "filler " * 200 + "The song of the wren is loud for a bird. "
    assert "[song] of the [wren] is loud" in shown(text, "wren song")
    assert shown("Wren Songs Wren Nests " * 8, "wren song").startswith("[Wren] [Songs] [Wren]")


@settings(deadline=None)
@given(text=st.text(max_size=2_000), query=st.text(alphabet="abcé東 ", min_size=1, max_size=10))
def test_snippet_is_a_piece_of_the_text(text: str, query: str) -> None:
    pieces = build_snippet(text, marker(query))
    result = "".join(piece.text for piece in pieces).removeprefix("… ").removesuffix(" …")
    assert len(result) <= SNIPPET_LENGTH
    assert "".join(result.split()) in "".join(text.split())


@settings(deadline=None)
@given(text=st.text(alphabet="ab c", max_size=60))
def test_marked_pieces_make_up_the_text(text: str) -> None:
    pieces = highlight(text, marker("a b").matches(text))
    assert "".join(piece.text for piece in pieces).split() == text.split()


@settings(deadline=None)
@given(a=st.text(alphabet="abc", max_size=6), b=st.text(alphabet="abc", max_size=6))
def test_distance_is_symmetric_and_bounded(a: str, b: str) -> None:
    assert (edit_distance(a, b, 2) <= 2) == (edit_distance(b, a, 2) <= 2)
    assert edit_distance(a, a, 0) == 0
