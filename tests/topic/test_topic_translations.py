"""Words of pages in other languages count as the topic's words that they mean."""

from functools import partial

import msgspec
import pytest

from opilio.judge.similarity import CoverageJudge
from opilio.testing.conformance import reading_of
from opilio.text.term_arrays import term_array
from opilio.text.vocabulary import Vocabulary
from opilio.text.word_vectors import load_word_vectors
from opilio.topic.evolving import EvolvingTopic, TopicTranslations
from opilio.topic.page_terms import PageTerms
from opilio.topic.topic import build_topic_table, make_topic

VOCABULARY = Vocabulary()
TOPIC = EvolvingTopic(build_topic_table(make_topic("birds", ["bird", "feather", "egg", "nest"]), VOCABULARY))
TRANSLATIONS = TopicTranslations(TOPIC, "english", partial(load_word_vectors, VOCABULARY))
GERMAN = "Vögel legen Eier. Der Vogel baut sein Nest im Baum."
GERMAN_TRADE = "Die Bank erhöht den Zins, weil die Wirtschaft wächst."


def coverage(text: str, language: str) -> float:
    """The coverage of a page whose title and text are this."""
    judge = CoverageJudge(TOPIC, PageTerms(VOCABULARY.terms, translate=TRANSLATIONS.translate))
    plain = msgspec.structs.replace(reading_of(text, title=text), language=language)
    reading = TRANSLATIONS.wrap_reader(lambda _: plain)(plain.page)
    return judge.judge(reading).reasons[0].value


def stems(text: str, language: str) -> set[str]:
    terms = TRANSLATIONS.translate(term_array(VOCABULARY.terms(text)), language)
    return {VOCABULARY.stem_of(term) for term in terms.tolist()}


@pytest.mark.parametrize(
    ("text", "language"), [("Vögel", "de"), ("oiseaux", "fr"), ("pájaros", "es"), ("птицы", "ru"), ("鳥類", "ja")]
)
def test_words_of_a_page_in_another_language_become_topic_words(text: str, language: str) -> None:
    assert stems(text, language) == {"bird"}


def test_pages_in_the_topics_or_an_unknown_language_keep_their_words() -> None:
    assert "bird" not in stems("poultry oiseaux", "en") | stems("poultry oiseaux", "")


def test_other_words_of_a_foreign_page_stay() -> None:
    assert stems(GERMAN_TRADE, "de") == stems(GERMAN_TRADE, "en")


def test_a_foreign_page_covers_the_topic_by_meaning() -> None:
    assert coverage(GERMAN, "de") > 0.3 > coverage(GERMAN, "en")
    assert coverage(GERMAN_TRADE, "de") == 0.0


def test_pairs_follow_the_table_of_the_topic() -> None:
    topic = EvolvingTopic(build_topic_table(make_topic("railways"), VOCABULARY))
    translations = TopicTranslations(topic, "english", partial(load_word_vectors, VOCABULARY))
    terms = term_array(VOCABULARY.terms("Vogel Eisenbahn"))
    assert [VOCABULARY.stem_of(t) for t in translations.translate(terms, "de").tolist()][1] == "railway"


def test_a_topic_without_known_words_changes_nothing() -> None:
    topic = EvolvingTopic(build_topic_table(make_topic("zqxwv"), VOCABULARY))
    translations = TopicTranslations(topic, "english", partial(load_word_vectors, VOCABULARY))
    terms = term_array(VOCABULARY.terms(GERMAN))
    assert translations.translate(terms, "de").tolist() == terms.tolist()
