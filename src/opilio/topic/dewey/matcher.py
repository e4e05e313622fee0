"""Finds the lexicon's terms in words: phrases before words, the longest first, by stems (S2-20, S2-24).

Works on the terms of a `Reading`, so a page is tokenised and stemmed once for everything. Keeps no state of a text.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from opilio.model.records import BLOCK_BREAK
from opilio.text.background import Background
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
    rarity: float = 1.0  # 0..1: idf in general English over the highest there is


class Matcher:
    """A lexicon made ready for one vocabulary. With a background, hits tell how rare their words are."""

    def __init__(self, lexicon: Lexicon, vocabulary: Vocabulary, background: Background | None = None) -> None:
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
        rarities = map(_rarity(background), merged)
        self._found = [(*found, rarity) for found, rarity in zip(merged.values(), rarities, strict=True)]
        self._phrases = Phrases({key: index for index, key in enumerate(merged)})

    def __len__(self) -> int:
        return len(self._found)

    def hits(self, terms: Sequence[int]) -> list[Hit]:
        """Every index term, from left to right, without overlaps."""
        return [Hit(start, end, *self._found[index]) for start, end, index in self._phrases.matches(terms)]


def _rarity(background: Background | None) -> Callable[[tuple[int, ...]], float]:
    """How rare a term is: a phrase is as rare as its words together, at most 1."""
    if background is None:
        return lambda _: 1.0
    highest = background.idf(-1)  # no word has this number: the idf of one never counted
    return lambda key: min(1.0, sum(map(background.idf, key)) / highest)


def _keys(spelled: list[str], vocabulary: Vocabulary) -> list[tuple[int, ...]]:
    """The terms of each phrase. All are tokenised in one call: one call a phrase is four times as slow.

    A phrase of which one word is left has no key: `t cell` is not `cell`, nor `the guardian` any guardian.
    """
    keys: list[tuple[int, ...]] = []
    terms = list(map(vocabulary.__getitem__, marked_words(BLOCK_BREAK.join(spelled) + BLOCK_BREAK)))
    start = 0
    for _ in spelled:
        end = terms.index(BLOCK_ENDED, start)
        key = tuple(filter(None, terms[start:end]))
        keys.append(key if len(key) > 1 or end - start == 1 else ())
        start = end + 1
    return keys
