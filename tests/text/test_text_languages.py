import pytest
import Stemmer

from opilio.text.languages import (
    guess_language,
    identify_language,
    is_known_language,
    language_code,
    language_name,
    stop_words,
)
from opilio.text.tokens import tokenize
from opilio.text.vocabulary import Vocabulary

LANGUAGES = [
    *("ar", "ca", "cs", "da", "de", "el", "en", "es", "fi", "fr", "hu"),
    *("id", "it", "nl", "no", "pl", "pt", "ro", "ru", "sv", "tr"),
]


@pytest.mark.parametrize(("tag", "code"), [("EN-gb", "en"), ("nb_NO", "no"), ("german", "de"), ("xx", "xx"), ("", "")])
def test_tags_and_names_have_one_code(tag: str, code: str) -> None:
    assert language_code(tag) == code


@pytest.mark.parametrize("code", LANGUAGES)
def test_language_has_stop_words_and_a_stemmer(code: str) -> None:
    found = stop_words(code)
    assert len(found) > 90
    assert language_name(code) in Stemmer.algorithms()
    assert stop_words(language_name(code)) == found


@pytest.mark.parametrize("code", LANGUAGES)
def test_stop_words_are_words_as_the_tokeniser_leaves_them(code: str) -> None:
    assert {word for word in stop_words(code) if tokenize(word) != [word]} == set()


def test_s4_e3_new_is_not_a_stop_word() -> None:
    assert "new" not in stop_words("en")
    assert {"for", "it", "the", "a", "can", "do", "did", "will", "shall", "of"} <= stop_words("en")  # S4-06
    assert stop_words("xx") == frozenset()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The wren is a small\x04brown \x02bird\x03 that sings loudly in the garden", "en"),
        ("Der Zaunkönig ist ein kleiner brauner Vogel, der im Garten laut singt", "de"),
        ("Le troglodyte est un petit oiseau brun qui chante fort dans le jardin", "fr"),
        ("12 34 56", ""),
    ],
)
def test_language_is_identified(text: str, code: str) -> None:
    assert identify_language(text) == code


@pytest.mark.parametrize(
    ("topic", "language"),
    [
        ("Tee: Anbau, Sorten und Teezeremonie", "german"),
        ("Geschichte der Eisenbahn in Österreich", "german"),
        ("Histoire des chemins de fer en France", "french"),
        ("زراعة الشاي وأنواعه وطقوس تقديمه", "arabic"),
        ("お茶の種類と茶道の歴史", "japanese"),
        ("การปลูกข้าวในประเทศไทย", "thai"),
        ("История железных дорог", "russian"),
        ("Історія залізниць України", ""),  # Cyrillic, but not Russian
        ("تاریخچه چای در ایران", ""),  # Arabic letters, but Persian
        ("sign languages of the world", ""),
        ("Die casting in industry", ""),
        ("War in Somalia", ""),
        ("Tour de France", ""),
        ("C++", ""),
        ("", ""),
    ],
)
def test_language_of_a_topic_is_reported_where_it_is_plain(topic: str, language: str) -> None:
    assert guess_language(topic) == language


def test_languages_without_a_stemmer_are_known_too() -> None:
    assert is_known_language("ja")
    assert is_known_language("Japanese")
    assert not is_known_language("klingon")


def test_what_joins_japanese_words_is_no_word() -> None:
    vocabulary = Vocabulary("english")
    terms = vocabulary.terms("お茶の種類と茶道の歴史です。すしを食べる")
    assert [vocabulary.stem_of(term) for term in terms] == ["お茶", "種類", "茶道", "歴史", "すし", "食べ", "べる"]
