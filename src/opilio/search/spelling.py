"""Spelling suggestions for a query, from the words in the indexes."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence

import tantivy

from opilio.search.query import QueryGroup, positive_terms
from opilio.search.schema import EXACT_FIELD, index_terms
from opilio.search.snippet import edit_distance

MIN_WORD_LENGTH = 4  # shorter words are similar to too many others
MIN_LENGTH_FOR_TWO_EDITS = 6
MAX_MISSPELLING_PAGES = 2  # a word on more pages is not a misspelling
MIN_FREQUENCY_RATIO = 8  # of the suggestion to the misspelling
MAX_PREFIX_CANDIDATES = 5_000
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class SpellingSuggester:
    """Suggests words from these indexes."""

    def __init__(self, searchers: Sequence[tantivy.Searcher]) -> None:
        self._searchers = searchers

    def suggest(self, query: str, group: QueryGroup) -> str:
        """The query with corrected words; empty if there is nothing to correct."""
        corrected = query
        for term in positive_terms(group):
            if term.kind == "word" and term.text.isalpha():
                found = self._suggest_word(term.text)
                if found:
                    corrected = re.sub(rf"(?<!\w){re.escape(term.text)}(?!\w)", found, corrected)
        return corrected if corrected != query else ""

    def _frequency(self, term: str) -> int:
        return sum(searcher.doc_freq(EXACT_FIELD, term) for searcher in self._searchers)

    def _suggest_word(self, word: str) -> str:
        folded = "".join(index_terms(word))
        if len(folded) < MIN_WORD_LENGTH:
            return ""
        here = self._frequency(folded)
        if here > MAX_MISSPELLING_PAGES:
            return ""
        for candidates in (self._one_off(folded), self._two_off(folded)):
            common = [(other, count) for other, count in candidates if count > MIN_FREQUENCY_RATIO * here]
            best = max(
                common, key=lambda pair: (math.sqrt(pair[1]) * typo_likelihood(folded, pair[0]), pair[0]), default=None
            )
            if best is not None:
                return best[0]
        return ""

    def _one_off(self, word: str) -> list[tuple[str, int]]:
        """Words with one letter added, removed, changed or swapped."""
        if not word.isascii():
            return [pair for pair in self._words_with_prefix(word[:1]) if edit_distance(pair[0], word, 1) == 1]
        counted = ((other, self._frequency(other)) for other in set(_edits(word)) - {word})
        return [pair for pair in counted if pair[1]]

    def _two_off(self, word: str) -> list[tuple[str, int]]:
        if len(word) < MIN_LENGTH_FOR_TWO_EDITS:
            return []
        letters = set(word)
        return [
            (other, count)
            for other, count in self._words_with_prefix(word[:2])
            if abs(len(other) - len(word)) <= 2
            and len(letters ^ set(other)) <= 4
            and edit_distance(other, word, 2) == 2
        ]

    def _words_with_prefix(self, prefix: str) -> Iterable[tuple[str, int]]:
        counts: dict[str, int] = {}
        for searcher in self._searchers:
            for word, count in searcher.terms_with_prefix(EXACT_FIELD, prefix, limit=MAX_PREFIX_CANDIDATES):
                counts[word] = counts.get(word, 0) + count
        return counts.items()


def typo_likelihood(wrong: str, right: str) -> float:
    """A rough likelihood of a typo: doubled and swapped letters are common, wrong first letters are rare.

    >>> typo_likelihood("parot", "parrot") > typo_likelihood("parot", "part") > typo_likelihood("parot", "carrot")
    True
    """
    if _single(wrong) == _single(right):
        return 12.0
    if wrong[0] != right[0]:
        return 0.3
    return 6.0 if sorted(wrong) == sorted(right) else 1.0


def _single(word: str) -> str:
    """The word without doubled letters."""
    return re.sub(r"(.)\1+", r"\1", word)


def _edits(word: str) -> Iterator[str]:
    """All strings within one edit.

    >>> len(set(_edits("wren")))
    234
    """
    for at in range(len(word) + 1):
        before, after = word[:at], word[at:]
        yield from (before + letter + after for letter in _LETTERS)
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in _LETTERS)
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
