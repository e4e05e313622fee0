"""Genres (S3-23) as data."""

import pytest

from opilio.core.errors import TopicError
from opilio.testing.conformance import reading_of, terms_of
from opilio.text.vocabulary import Vocabulary
from opilio.topic.genre import GenreDetector, default_genres, parse_genres

SMALL = '[news]\nurl = ["news"]\nenglish = ["report", "press"]\n[blogs]\nenglish = ["blog", "diary"]\n'


def test_three_genres_come_with_several_languages_s3_23() -> None:
    book = default_genres()
    assert book.keys() == {"news", "discussions", "blogs"}
    assert all({"english", "german", "french", "spanish"} <= genre.words.keys() for genre in book.values())


def test_all_words_weigh_one_s3_16() -> None:
    sights = GenreDetector(default_genres(), Vocabulary().terms).compiled
    assert all(set(s.vector.values()) == {1.0} and s.size == len(s.vector) for s in sights.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[news]\nenglish = ["press", "Press"]', 'english contains "press" more than once'),
        ('[news]\nenglish = []\n[news]\nenglish = ["a"]', "may occur only once"),
        ("news = 3", "must contain lists"),
        ('[news]\nenglish = "press"', "must contain lists"),
        ('[news]\nenglish = [["press"]]', "must contain lists"),
        ('[news]\nenglsh = ["press"]', "the language englsh is unknown"),
        ('[news]\nde = ["Presse"]\ngerman = ["Bericht"]', "the language german occurs twice"),
        ("", "contains no genre"),
    ],
)
def test_faulty_file_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(TopicError, match=message) as caught:
        parse_genres(text, "mine.toml")
    assert str(caught.value).startswith("mine.toml: ")


def test_language_of_a_genre_may_be_a_code() -> None:
    book = parse_genres('[news]\nde = ["Presse", "Bericht"]', "mine.toml")
    assert GenreDetector(book, Vocabulary("de").terms, languages=("german",)).compiled["news"].size == 2


def test_unknown_genre_is_refused() -> None:
    with pytest.raises(TopicError, match="known: news, blogs"):
        GenreDetector(parse_genres(SMALL, "small"), terms_of, names=("poems",))


def test_page_genre_needs_enough_evidence() -> None:
    genres = GenreDetector(parse_genres(SMALL, "small"), terms_of, threshold=2)
    assert genres.detect(reading_of("the press report of today")) == "news"
    assert genres.detect(reading_of("the blog")) == ""
    assert genres.detect(reading_of("", url="http://x.example/news/1")) == "news"
    assert genres.detect(reading_of("nothing here")) == ""


def test_more_evidence_is_asked_of_long_pages() -> None:
    """Any long text has a few of the words; its URL says as much as that of a short one."""
    genres = GenreDetector(parse_genres(SMALL, "small"), terms_of, threshold=2)
    long = "the press report " + "wren " * 5_000
    assert genres.detect(reading_of(long)) == ""
    assert genres.detect(reading_of(long, url="http://x.example/news/1")) == "news"


def test_languages_add_up() -> None:
    terms = Vocabulary("german").terms
    both = GenreDetector(default_genres(), terms, languages=("english", "german")).compiled["news"]
    assert both.size > GenreDetector(default_genres(), terms, languages=("german",)).compiled["news"].size > 5
