"""Spelling suggestions for a query, from the words in the indexes."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tantivy

from opilio.search.schema import EXACT_FIELD, index_terms
from opilio.search.snippet import edit_distance
from opilio.text.languages import is_stop_word

MIN_WORD_LENGTH = 4  # shorter words are similar to too many others
MIN_LENGTH_FOR_TWO_EDITS = 6
MAX_MISSPELLING_PAGES = 2  # a word on more pages is rarely a misspelling
# Large collections contain misspellings more often: one page for this many, but not more than the next number.
PAGES_PER_MISSPELLING, MAX_FREQUENT_MISSPELLING = 500, 20
MIN_RATIO_OF_FREQUENT_WORD = 40  # of the suggestion to a misspelling on more pages
MIN_FREQUENCY_RATIO = 8  # of the suggestion to the misspelling
MAX_PREFIX_CANDIDATES = 5_000
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class SpellingSuggester:
    """Suggests words from these indexes."""

    def __init__(self, searchers: Sequence[tantivy.Searcher]) -> None:
        self._searchers = searchers

    def suggest(self, word: str) -> str:
        """The word that was probably meant; empty if this one seems right."""
        folded = "".join(index_terms(word))
        if len(folded) < MIN_WORD_LENGTH:
            return ""
        here = self.frequency(folded)
        if here > self._max_misspelling_pages:
            return ""
        # A word of a few pages may be a rare one; a correction must then be near, and much more frequent.
        ratio = MIN_FREQUENCY_RATIO if here <= MAX_MISSPELLING_PAGES else MIN_RATIO_OF_FREQUENT_WORD
        for find in (self._one_off, self._two_off) if not here else (self._one_off,):
            common = [
                (other, count)
                for other, count in find(folded)
                # A stop word is frequent everywhere: "wren" on a few pages is not a slip of "when".
                if count > ratio * here and not _same_word(other, folded) and not (here and is_stop_word(other))
            ]
            best = max(
                common, key=lambda pair: (math.sqrt(pair[1]) * typo_likelihood(folded, pair[0]), pair[0]), default=None
            )
            if best is not None:
                return best[0]
        return ""

    def replace(self, query: str, corrections: Mapping[str, str]) -> str:
        """The query with words replaced; empty if nothing changes."""
        corrected = query
        for word, correction in corrections.items():
            corrected = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", correction, corrected)
        return corrected if corrected != query else ""

    def frequency(self, term: str) -> int:
        """The number of pages with a word as written."""
        return sum(searcher.doc_freq(EXACT_FIELD, term) for searcher in self._searchers)

    @property
    def _max_misspelling_pages(self) -> int:
        documents = sum(searcher.num_docs for searcher in self._searchers)
        return min(max(MAX_MISSPELLING_PAGES, documents // PAGES_PER_MISSPELLING), MAX_FREQUENT_MISSPELLING)

    def _one_off(self, word: str) -> list[tuple[str, int]]:
        """Words with one letter added, removed, changed or swapped."""
        if not word.isascii():
            return [pair for pair in self._words_with_prefix(word[:1]) if edit_distance(pair[0], word, 1) == 1]
        counted = ((other, self.frequency(other)) for other in set(_edits(word)) - {word})
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


def _same_word(first: str, second: str) -> bool:
    """True for singular and plural, neither of which is a misspelling.

    >>> _same_word("wren", "wrens"), _same_word("larg", "large")
    (True, False)
    """
    short, long = sorted((first, second), key=len)
    return long in (f"{short}s", f"{short}es")


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
