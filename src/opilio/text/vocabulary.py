"""From words to terms and back: one dictionary lookup per word does stop words, stems and numbering.

A term is the 32-bit hash of a word's stem, so it is the same in every process and on every machine. Stop words and
noise are 0. Stop words go before stemming and once more after it, because a stemmer turns `this` into `thi`, which
no stop list knows (S0-E3). Computing is done on terms; people are shown the commonest surface form (S0-E4).
"""

import re
from collections.abc import Callable, Iterable
from typing import Literal

import xxhash

from opilio.text.languages import name_of
from opilio.text.stems import Stem, normalising
from opilio.text.stopwords import is_joint, stop_words
from opilio.text.surfaces import Surfaces
from opilio.text.tokens import MARKS, is_short, words

Normaliser = Literal["stem", "porter", "lemma", "none"]

# The order is relied on: what ends or begins links is above BLOCK_ENDED, what ends sentences is not.
LINK_OPENED, LINK_CLOSED, BLOCK_ENDED, SENTENCE_ENDED = -1, -2, -3, -4
_MARK_TERMS = dict(zip(MARKS, (LINK_OPENED, LINK_CLOSED, BLOCK_ENDED, SENTENCE_ENDED), strict=True))
_LONGEST = 40  # longer tokens are encoded data, not words
_ACRONYM = re.compile(r"\b[A-Z][A-Z0-9]{1,9}\b")


class Vocabulary(dict[str, int]):
    """word -> term. A word met for the first time is worked out; after that it costs one lookup in C.

    Marks of a page's flow have negative numbers. Never holds more than `capacity` words: the rarest then go.
    `shortest` drops words below that many characters as noise (S0-E11 asks for 3); numbers count as words (S4-E4).
    """

    def __init__(
        self,
        language: str = "english",
        normaliser: Normaliser = "stem",
        shortest: int = 2,
        capacity: int = 200_000,
    ) -> None:
        super().__init__(_MARK_TERMS)
        self.language = name_of(language)
        self.normaliser: Normaliser = normaliser
        self.shortest = shortest
        self.capacity = max(capacity, 2 * len(_MARK_TERMS))
        self._stem: Stem = normalising(self.language, normaliser)
        self._stop_words = stop_words(self.language) | {self._stem(word) for word in stop_words(self.language)}
        self._surfaces = Surfaces()
        self._word_of: Callable[[int], str] = _unknown
        self._stems: dict[int, str] = {}

    def __missing__(self, word: str) -> int:
        if len(word) > _LONGEST:
            return 0  # and not remembered: it may be a megabyte long
        if len(self) >= self.capacity:
            self._forget_rare()
        stem = "" if self._is_noise(word) else self._stem(word)
        term = 0 if not stem or stem in self._stop_words else term_of(stem)
        self[word] = term
        if term:
            self._stems[term] = stem
            self._surfaces.add(term, word)
        return term

    def __reduce__(self) -> tuple[type["Vocabulary"], tuple[str, Normaliser, int, int]]:
        """Only the options travel to another process: terms are the same everywhere."""
        return Vocabulary, (self.language, self.normaliser, self.shortest, self.capacity)

    def terms(self, text: str) -> list[int]:
        """The terms of a text in order, without stop words and noise."""
        found = words(text)
        self._surfaces.observe(found)
        return list(filter(None, map(self.__getitem__, found)))

    def wanted(self, count: int) -> slice:
        """Which of so many words met should be handed to `count`."""
        return self._surfaces.wanted(count)

    def count(self, found: list[str]) -> None:
        """Count words (marks may be among them) as surface forms."""
        self._surfaces.count(found)

    def ask(self, word_of: Callable[[int], str]) -> None:
        """Where to ask for a word of a term that no text had here: whoever read the text before may know."""
        self._word_of = word_of

    def note_acronyms(self, text: str) -> None:
        """Show words written in capitals here that way: for topics and queries (S4-E2), not for pages."""
        for acronym in _ACRONYM.findall(text):
            self._surfaces.write_as(acronym.lower(), acronym)

    def stem_of(self, term: int) -> str:
        """The stem behind a term; empty when no word of it was met, or all were forgotten."""
        if term not in self._stems:
            self._meet(term)
        return self._stems.get(term, "")

    def surface_of(self, term: int) -> str:
        """The commonest surface form of a term (S0-E4), or an empty string."""
        if term not in self._stems:
            self._meet(term)
        return self._surfaces.commonest_of(term)

    def text_of(self, terms: Iterable[int]) -> str:
        """Words of which the same terms are made again; terms that no word is known of are left out."""
        return " ".join(filter(None, map(self.surface_of, terms)))

    def _meet(self, term: int) -> None:
        """Learn a word of a term that was read elsewhere."""
        word = self._word_of(term)
        if word:
            self.__missing__(word)

    def _is_noise(self, word: str) -> bool:
        return word in self._stop_words or is_short(word, self.shortest) or is_joint(word)

    def _forget_rare(self) -> None:
        """Keep the half of the words that was seen most."""
        kept = {word: self[word] for word in self._surfaces.most_seen(self, self.capacity // 2)}
        self._surfaces.keep_only(kept)
        self._stems = {term: self._stems[term] for term in kept.values() if term > 0}
        self.clear()
        self.update(kept)
        self.update(_MARK_TERMS)


def _unknown(_: int) -> str:
    return ""


def term_of(stem: str) -> int:
    """The stable number of a stem; 0 is kept free for words that do not count."""
    return xxhash.xxh32_intdigest(stem.encode("utf-8", "replace")) or 1
