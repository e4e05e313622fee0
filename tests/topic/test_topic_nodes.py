"""WordNet's synonyms among the words that T-Graph nodes are found by (S2-F3)."""

from pathlib import Path

from checks.wordnet_files import WordNetWriter
from opilio.methods.dewey.detect import LexiconMatcher, parse_lexicon
from opilio.methods.dewey.judge import DeweyTarget, add_synonyms
from opilio.methods.treasure.ranker import _with_synonyms
from opilio.text.vocabulary import Vocabulary
from opilio.topic.wordnet import WordNet


def test_synonyms_of_the_sense_that_fits_the_text_join_s2_f3(tmp_path: Path) -> None:
    words = WordNetWriter()
    words.add("bird", "wren jenny_wren", "a small bird")
    words.add("man", "wren architect", "who built a church")
    vocabulary = Vocabulary()
    wordnet = WordNet.find(words.write(tmp_path))
    assert set(_with_synonyms(vocabulary, wordnet, "Wren song")) == set(vocabulary.terms("wren song jenny"))
    built = _with_synonyms(vocabulary, wordnet, "Wren who built it")
    assert set(built) == set(vocabulary.terms("wren who built it architect"))


def test_links_are_found_by_synonyms_of_the_topics_words_s2_f3(tmp_path: Path) -> None:
    """The class decides the sense, and a word that has a class of its own keeps it."""
    words = WordNetWriter()
    words.add("man", "wren architect", "who built a church")
    words.add("bird", "wren jenny robin", "a small bird that sings")
    lexicon = parse_lexicon("598 | Birds | wren; bird; feather\n927 | Robins | robin\n", "small")
    vocabulary = Vocabulary()
    plain = DeweyTarget(LexiconMatcher(lexicon, vocabulary), ("598",))
    wider = add_synonyms(plain, WordNet.find(words.write(tmp_path)).synonyms)
    assert wider.matcher.lexicon.numbers["jenny"] == ("598",)
    assert wider.matcher.lexicon.numbers["robin"] == ("927",)
    assert "architect" not in wider.matcher.lexicon.numbers
    assert plain.matcher.hits(vocabulary.terms("jenny")) == []
    assert wider.matcher.hits(vocabulary.terms("jenny"))[0].numbers == ("598",)
