import pickle
import sys

import pytest

from opilio.core.errors import ConfigError
from opilio.core.settings import Normalizer
from opilio.text.vocabulary import Vocabulary, term_id


def stems(vocabulary: Vocabulary, text: str) -> list[str]:
    return [vocabulary.stem_of(term) for term in vocabulary.terms(text)]


def test_stop_words_are_dropped_before_stemming() -> None:
    """S0-E3: Porter would let thi, wa, doe, becaus and dure through."""
    assert Vocabulary(normalizer="porter").terms("this was does because during") == []


def test_stemmed_stop_words_are_dropped_too() -> None:
    """S0-E3: the stems of stop words, met as words, are dropped as well."""
    assert Vocabulary(normalizer="porter").terms("thi wa doe becaus dure") == []


@pytest.mark.parametrize("normaliser", ["stem", "porter"])
def test_stems_are_porters_when_words_share_one(normaliser: Normalizer) -> None:
    """S0-E4, S4-E2."""
    vocabulary = Vocabulary(normalizer=normaliser)
    assert stems(vocabulary, "compute computed computing computer") == ["comput"] * 4
    assert stems(vocabulary, "database software") == ["databas", "softwar"]
    assert stems(vocabulary, "polls dates kejriwal") == ["poll", "date", "kejriw"]


def test_surface_is_the_commonest_form_when_asked() -> None:
    """S0-E4: users see the commonest word, not the stem."""
    vocabulary = Vocabulary()
    vocabulary.terms("computing compute computers computers database")
    assert vocabulary.surface_of(term_id("comput")) == "computers"
    assert vocabulary.surface_of(term_id("databas")) == "database"
    assert vocabulary.surface_of(12345) == vocabulary.stem_of(12345) == ""


def test_new_counts_and_of_does_not() -> None:
    """S4-E3; numbers are kept (S4-E4)."""
    vocabulary = Vocabulary()
    assert stems(vocabulary, "new manifesto of BJP for 2014") == ["new", "manifesto", "bjp", "2014"]


def test_acronyms_are_shown_in_capitals_when_noted() -> None:
    """S4-E2: BJP is displayed as BJP."""
    vocabulary = Vocabulary()
    query = "Manifesto of BJP for lok sabha polls 2014."
    vocabulary.add_acronyms(query)
    assert [vocabulary.surface_of(t) for t in vocabulary.terms(query)][:2] == ["manifesto", "BJP"]


def test_endless_words_are_not_remembered() -> None:
    vocabulary = Vocabulary()
    size = len(vocabulary)
    assert vocabulary.terms("x" * 100_000) == []
    assert len(vocabulary) == size


def test_terms_are_stable_across_copies() -> None:
    vocabulary = Vocabulary("de", normalizer="stem", capacity=5000)
    copy = pickle.loads(pickle.dumps(vocabulary))
    assert copy.terms("Häuser am See") == vocabulary.terms("Häuser am See")
    assert (copy.language, copy.capacity) == ("german", 5000)


def test_single_letters_are_noise_and_chinese_characters_are_not() -> None:
    vocabulary = Vocabulary()
    assert vocabulary["x"] == 0
    assert vocabulary["x" * 41] == 0
    assert vocabulary["水"] > 0


def test_short_words_are_noise_when_asked() -> None:
    """S0-E11: words of length 3 or more, as an option."""
    assert stems(Vocabulary(min_length=3), "go int 42 2014") == ["int", "2014"]


def test_rare_words_go_when_full() -> None:
    vocabulary = Vocabulary(capacity=100)
    for i in range(300):
        vocabulary.terms(f"common word{i}")
    assert len(vocabulary) <= 100
    assert "common" in vocabulary
    assert vocabulary.surface_of(term_id("common")) == "common"


def test_lemmas_are_words_when_chosen() -> None:
    """S2-F2."""
    pytest.importorskip("simplemma")
    assert stems(Vocabulary(normalizer="lemma"), "mice children cities") == ["mouse", "child", "city"]


def test_lemma_and_stem_work_at_once_s2_f2() -> None:
    """Only lemmas join mice and mouse, only stems connect and connection."""
    pytest.importorskip("simplemma")
    both = stems(Vocabulary(normalizer="lemma-stem"), "mice mouse connect connection connected children child")
    assert both == ["mous", "mous", "connect", "connect", "connect", "child", "child"]


@pytest.mark.parametrize(("language", "normaliser"), [("english", "magic"), ("xx", "lemma"), ("xx", "lemma-stem")])
def test_unknown_normaliser_is_refused(language: str, normaliser: Normalizer) -> None:
    with pytest.raises(ConfigError):
        Vocabulary(language, normalizer=normaliser)


def test_lemmas_without_their_package_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simplemma", None)
    with pytest.raises(ConfigError, match="pip install"):
        Vocabulary(normalizer="lemma")


def test_unknown_language_keeps_its_words() -> None:
    assert stems(Vocabulary("xx"), "running cats") == ["running", "cats"]
