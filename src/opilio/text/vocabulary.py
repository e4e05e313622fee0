"""From words to terms and back: one dictionary lookup per word does stop words, stems and numbering.

A term is the 32-bit hash of a word's stem, so it is the same in every process and on every machine. Stop words and
noise are 0. Stop words go before stemming and once more after it, because a stemmer turns `this` into `thi`, which
no stop list knows (S0-E3). Computing is done on terms; people are shown the commonest surface form (S0-E4).

Which surface form of a term is the commonest (S0-E4): what people are shown instead of stems.
"""

import re
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable

import xxhash

from opilio.core.settings import Normalizer
from opilio.text.languages import StemFunction, language_name, make_normalizer
from opilio.text.stopwords import is_function_bigram, stop_words
from opilio.text.tokens import MARKS, is_short_word, tokenize

_MAX_SURFACE_LENGTH = 40  # a page may hold one "word" of a megabyte: such are never kept
_SAMPLE_STRIDE = 61  # a prime, so that no layout of a page keeps in step with it


class SurfaceForms:
    """The words behind each term, and how often they were seen.

    The first `counted_whole` words are all counted, after that every 61st.
    """

    def __init__(self, counted_whole: int = 200_000) -> None:
        self._full_count_limit = counted_whole
        self._forms: dict[int, list[str]] = {}
        self._counts: Counter[str] = Counter()
        self._observed = 0
        self._display_forms: dict[str, str] = {}

    def add(self, term: int, word: str) -> None:
        """A word met for the first time, with its term."""
        insort(self._forms.setdefault(term, []), word, key=_shortest_first)
        self._counts.setdefault(word, 0)

    def sample(self, count: int) -> slice:
        """Which of so many words to count: all at first, then a sample, so that it costs a few microseconds a page."""
        return (
            slice(count % _SAMPLE_STRIDE, None, _SAMPLE_STRIDE)
            if self._observed >= self._full_count_limit
            else slice(None)
        )

    def observe(self, words: list[str]) -> None:
        """Count those of the words that are wanted."""
        self.count(words[self.sample(len(words))])

    def count(self, words: list[str]) -> None:
        """Count words that were wanted."""
        self._observed += len(words)
        if max(map(len, words), default=0) > _MAX_SURFACE_LENGTH:
            words = [word for word in words if len(word) <= _MAX_SURFACE_LENGTH]
        self._counts.update(words)

    def set_display_form(self, word: str, written: str) -> None:
        """Show a word the way it is written here: `BJP` for `bjp` (S4-E2)."""
        self._display_forms[word] = written

    def most_common_form(self, term: int) -> str:
        """The form seen most; of equally common ones the shortest, then the first in the alphabet."""
        forms = self._forms.get(term, ())
        # Most have one form, and are asked for dozens of times. Of equals `max` takes the first: forms are in order.
        commonest = forms[0] if len(forms) == 1 else max(forms, key=self._counts.__getitem__, default="")
        return self._display_forms.get(commonest, commonest)

    def most_common_words(self, words: Iterable[str], limit: int) -> list[str]:
        """At most `limit` of the words, those seen most first."""
        return sorted(words, key=lambda word: -self._counts[word])[:limit]

    def retain(self, terms: dict[str, int]) -> None:
        """Forget every word but these."""
        self._counts = Counter({word: n for word in terms if (n := self._counts[word])})
        self._forms = {}
        for word, term in terms.items():
            if term > 0:
                self.add(term, word)


def _shortest_first(form: str) -> tuple[int, str]:
    return len(form), form


# The order is relied on: what ends or begins links is above BLOCK_ENDED, what ends sentences is not.
LINK_START_CODE, LINK_END_CODE, BLOCK_END_CODE, SENTENCE_END_CODE = -1, -2, -3, -4
_MARK_CODES = dict(zip(MARKS, (LINK_START_CODE, LINK_END_CODE, BLOCK_END_CODE, SENTENCE_END_CODE), strict=True))
_MAX_WORD_LENGTH = 40  # longer tokens are encoded data, not words
_ACRONYM = re.compile(r"\b[A-Z][A-Z0-9]{1,9}\b")


class Vocabulary(dict[str, int]):
    """word -> term. A word met for the first time is worked out; after that it costs one lookup in C.

    Marks of a page's flow have negative numbers. Never holds more than `capacity` words: the rarest then go.
    `shortest` drops words below that many characters as noise (S0-E11 asks for 3); numbers count as words (S4-E4).
    """

    def __init__(
        self,
        language: str = "english",
        normaliser: Normalizer = "stem",
        shortest: int = 2,
        capacity: int = 200_000,
    ) -> None:
        super().__init__(_MARK_CODES)
        self.language = language_name(language)
        self.normalizer: Normalizer = normaliser
        self.min_length = shortest
        self.capacity = max(capacity, 2 * len(_MARK_CODES))
        self._stem: StemFunction = make_normalizer(self.language, normaliser)
        self._stop_words = stop_words(self.language) | {self._stem(word) for word in stop_words(self.language)}
        self._surfaces = SurfaceForms()
        self._word_source: Callable[[int], str] = _no_word
        self._stems: dict[int, str] = {}

    def __missing__(self, word: str) -> int:
        if len(word) > _MAX_WORD_LENGTH:
            # And not remembered: it may be a megabyte long
            return 0
        if len(self) >= self.capacity:
            self._evict_rare()
        stem = "" if self._is_noise(word) else self._stem(word)
        term = 0 if not stem or stem in self._stop_words else term_id(stem)
        self[word] = term
        if term:
            self._stems[term] = stem
            self._surfaces.add(term, word)
        return term

    def __reduce__(self) -> tuple[type["Vocabulary"], tuple[str, Normalizer, int, int]]:
        """Only the options travel to another process: terms are the same everywhere."""
        return Vocabulary, (self.language, self.normalizer, self.min_length, self.capacity)

    def terms(self, text: str) -> list[int]:
        """The terms of a text in order, without stop words and noise."""
        found = tokenize(text)
        self._surfaces.observe(found)
        return list(filter(None, map(self.__getitem__, found)))

    def sample(self, count: int) -> slice:
        """Which of so many words met should be handed to `count`."""
        return self._surfaces.sample(count)

    def count(self, found: list[str]) -> None:
        """Count words (marks may be among them) as surface forms."""
        self._surfaces.count(found)

    def set_word_source(self, word_of: Callable[[int], str]) -> None:
        """Where to ask for a word of a term that no text had here: whoever read the text before may know."""
        self._word_source = word_of

    def add_acronyms(self, text: str) -> None:
        """Show words written in capitals here that way: for topics and queries (S4-E2), not for pages."""
        for acronym in _ACRONYM.findall(text):
            self._surfaces.set_display_form(acronym.lower(), acronym)

    def stem_of(self, term: int) -> str:
        """The stem behind a term; empty when no word of it was met, or all were forgotten."""
        if term not in self._stems:
            self._import_word(term)
        return self._stems.get(term, "")

    def surface_of(self, term: int) -> str:
        """The commonest surface form of a term (S0-E4), or an empty string."""
        if term not in self._stems:
            self._import_word(term)
        return self._surfaces.most_common_form(term)

    def text_of(self, terms: Iterable[int]) -> str:
        """Words of which the same terms are made again; terms that no word is known of are left out."""
        return " ".join(filter(None, map(self.surface_of, terms)))

    def _import_word(self, term: int) -> None:
        """Learn a word of a term that was read elsewhere."""
        word = self._word_source(term)
        if word:
            self.__missing__(word)

    def _is_noise(self, word: str) -> bool:
        return word in self._stop_words or is_short_word(word, self.min_length) or is_function_bigram(word)

    def _evict_rare(self) -> None:
        """Keep the half of the words that was seen most."""
        kept = {word: self[word] for word in self._surfaces.most_common_words(self, self.capacity // 2)}
        self._surfaces.retain(kept)
        self._stems = {term: self._stems[term] for term in kept.values() if term > 0}
        self.clear()
        self.update(kept)
        self.update(_MARK_CODES)


def _no_word(_: int) -> str:
    return ""


def term_id(stem: str) -> int:
    """The stable number of a stem; 0 is kept free for words that do not count."""
    return xxhash.xxh32_intdigest(stem.encode("utf-8", "replace")) or 1
