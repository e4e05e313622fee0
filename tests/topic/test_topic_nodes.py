"""WordNet's synonyms among the words that T-Graph nodes are found by (S2-F3)."""

from pathlib import Path

from checks.wordnet_files import WordNetWriter
from opilio.methods.treasure.factories import _with_synonyms
from opilio.text.vocabulary import Vocabulary
from opilio.topic.wordnet import WordNet


def test_synonyms_of_the_commonest_sense_join_s2_f3(tmp_path: Path) -> None:
    words = WordNetWriter()
    words.add("bird", "wren jenny_wren", "a small bird")
    words.add("man", "wren architect", "who built a church")
    vocabulary = Vocabulary()
    found = _with_synonyms(vocabulary, WordNet.find(words.write(tmp_path)), "Wren song")
    assert set(found) == set(vocabulary.terms("wren song jenny"))
