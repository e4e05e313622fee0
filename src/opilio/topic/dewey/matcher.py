"""Finds the lexicon's terms in words: phrases before words, the longest first, by stems (S2-20, S2-24).

Works on the terms of a `Reading`, so a page is tokenised and stemmed once for everything. Keeps no state of a text.
"""

from collections.abc import Sequence
from typing import NamedTuple

from opilio.model.records import BLOCK_BREAK
from opilio.text.phrases import Phrases
from opilio.text.tokens import marked_words
from opilio.text.vocabulary import BLOCK_ENDED, Vocabulary
from opilio.topic.dewey.lexicon import Lexicon


class Hit(NamedTuple):
    """An index term found at terms[start:end]."""

    start: int
    end: int
    word: str
    numbers: tuple[str, ...]


class Matcher:
    """A lexicon made ready for one vocabulary."""

    def __init__(self, lexicon: Lexicon, vocabulary: Vocabulary) -> None:
        self.lexicon = lexicon
        self.vocabulary = vocabulary
        spelled = lexicon.numbers
        merged: dict[tuple[int, ...], tuple[str, tuple[str, ...]]] = {}
        for word, key in zip(spelled, _keys(list(spelled), vocabulary), strict=True):
            numbers = spelled[word]
            if key in merged:  # `bird` and `birds` are one term: it has the numbers of both
                word, before = merged[key]
                numbers = tuple(sorted({*before, *numbers}))
            if key:
                merged[key] = (word, numbers)
        self._found = list(merged.values())
        self._phrases = Phrases({key: index for index, key in enumerate(merged)})

    def __len__(self) -> int:
        return len(self._found)

    def hits(self, terms: Sequence[int]) -> list[Hit]:
        """Every index term, from left to right, without overlaps."""
        return [Hit(start, end, *self._found[index]) for start, end, index in self._phrases.matches(terms)]


def _keys(spelled: list[str], vocabulary: Vocabulary) -> list[tuple[int, ...]]:
    """The terms of each phrase. All are tokenised in one call: one call a phrase is four times as slow."""
    keys: list[tuple[int, ...]] = []
    key: list[int] = []
    for term in map(vocabulary.__getitem__, marked_words(BLOCK_BREAK.join(spelled))):
        if term == BLOCK_ENDED:
            keys.append(tuple(key))
            key = []
        elif term:
            key.append(term)
    keys.append(tuple(key))
    return keys[: len(spelled)]
