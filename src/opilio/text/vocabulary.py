"""From words to terms and back: one dictionary lookup per word does stop words, stemming and phrases.

Only a lexicon defines phrases: a rule such as "always adjacent" would make one term of `lok sabha polls 2014` (S4-E1).

A term is the 32-bit hash of a word's stem, so it is the same in every process and on every machine. Stop words and
noise are 0. Stop words are removed before stemming and again after it, because a stemmer turns `this` into `thi`, which
is in no stop-word list (S0-E3). A phrase that the topic declares is one term too (S4-E1). Users are shown the most
common surface form of a term (S0-E4).
"""

import re
from bisect import insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Generic, TypeVar

import xxhash

from opilio.core.settings import Normalizer
from opilio.text.languages import StemFunction, is_function_bigram, language_name, make_normalizer, stop_words
from opilio.text.tokens import MARKS, is_short_word, tokenize

T = TypeVar("T", bound=Hashable)


class PhraseMatcher(Generic[T]):
    """Finds sequences of tokens. `lexicon` maps each sequence to the token that replaces it."""

    def __init__(self, lexicon: Mapping[tuple[T, ...], T]) -> None:
        self._lexicon = {parts: phrase for parts, phrase in lexicon.items() if parts}
        lengths: dict[T, set[int]] = {}
        for parts in self._lexicon:
            lengths.setdefault(parts[0], set()).add(len(parts))
        # One lookup per length instead of one per phrase: some words begin hundreds of phrases.
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    def matches(self, tokens: Sequence[T]) -> list[tuple[int, int, T]]:
        """(start, end, phrase) of every phrase, from left to right, without overlaps, the longest at each place."""
        found: list[tuple[int, int, T]] = []
        free = 0
        for start in [i for i, token in enumerate(tokens) if token in self._lengths]:
            match = self._longest_at(tokens, start) if start >= free else None
            if match is not None:
                found.append(match)
                free = match[1]
        return found

    def join(self, tokens: Sequence[T]) -> list[T]:
        """The tokens with every phrase as one token."""
        joined: list[T] = []
        done = 0
        for start, end, phrase in self.matches(tokens):
            joined += tokens[done:start]
            joined.append(phrase)
            done = end
        joined += tokens[done:]
        return joined

    def _longest_at(self, tokens: Sequence[T], start: int) -> tuple[int, int, T] | None:
        for length in self._lengths[tokens[start]]:
            parts = tuple(tokens[start : start + length])
            phrase = self._lexicon.get(parts)
            if phrase is not None:
                return start, start + len(parts), phrase
        return None


# A page may contain one "word" of a megabyte; such words are not stored.
_MAX_SURFACE_LENGTH = 40
# A prime, so that the sample does not follow the layout of a page.
_SAMPLE_STRIDE = 61


class SurfaceForms:
    """The words of each term and their counts.

    All of the first `full_count_limit` words are counted, after that every 61st.
    """

    def __init__(self, full_count_limit: int = 200_000) -> None:
        self._full_count_limit = full_count_limit
        # Most terms have one word, which needs no list.
        self._forms: dict[int, str | list[str]] = {}
        self._counts: Counter[str] = Counter()
        self._observed = 0
        self._display_forms: dict[str, str] = {}

    def add(self, term: int, word: str) -> None:
        """Add a new word of a term."""
        forms = self._forms.setdefault(term, word)
        if forms is word:
            return
        if isinstance(forms, str):
            forms = self._forms[term] = [forms]
        insort(forms, word, key=_shortest_first)

    def sample(self, count: int) -> slice:
        """Which of `count` words to count: all at first, later a sample, which costs a few microseconds per page."""
        return (
            slice(count % _SAMPLE_STRIDE, None, _SAMPLE_STRIDE)
            if self._observed >= self._full_count_limit
            else slice(None)
        )

    def observe(self, words: list[str]) -> None:
        """Count a sample of the words."""
        self.count(words[self.sample(len(words))])

    def count(self, words: list[str]) -> None:
        """Count all of the words."""
        self._observed += len(words)
        if max(map(len, words), default=0) > _MAX_SURFACE_LENGTH:
            words = [word for word in words if len(word) <= _MAX_SURFACE_LENGTH]
        self._counts.update(words)

    def set_display_form(self, word: str, written: str) -> None:
        """Set the displayed form of a word: `BJP` for `bjp` (S4-E2)."""
        self._display_forms[word] = written

    def most_common_form(self, term: int) -> str:
        """The most common form; among equals the shortest, then the first in alphabetical order."""
        forms = self._forms.get(term, "")
        # Among equals `max` takes the first, and forms are sorted.
        commonest = forms if isinstance(forms, str) else max(forms, key=self._counts.__getitem__)
        return self._display_forms.get(commonest, commonest)

    def most_common_words(self, words: Iterable[str], limit: int) -> list[str]:
        """The `limit` most common of the words."""
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


# The order matters: codes of link marks are above BLOCK_END_CODE, the code of sentence ends is below.
LINK_START_CODE, LINK_END_CODE, BLOCK_END_CODE, SENTENCE_END_CODE = -1, -2, -3, -4
_MARK_CODES = dict(zip(MARKS, (LINK_START_CODE, LINK_END_CODE, BLOCK_END_CODE, SENTENCE_END_CODE), strict=True))
# Longer tokens are encoded data.
_MAX_WORD_LENGTH = 40
_BIGRAM_LENGTH = 2
_ACRONYM = re.compile(r"\b[A-Z][A-Z0-9]{1,9}\b")


@cache
def _stemmed_stop_words(language: str, normalizer: Normalizer) -> frozenset[str]:
    """The stop words of a language and their stems."""
    return stop_words(language) | frozenset(map(make_normalizer(language, normalizer), stop_words(language)))


class Vocabulary(dict[str, int]):
    """word -> term. A new word is stemmed once; after that it costs one dictionary lookup.

    Flow marks have negative codes. Holds at most `capacity` words; when it is full, the rarest half is evicted.
    Words shorter than `min_length` are noise (S0-E11 uses 3); numbers are words (S4-E4). The words of one of the
    `phrases`, in their order and next to each other, are one term, whose stem is theirs with spaces (S4-E1).
    """

    def __init__(
        self,
        language: str = "english",
        normalizer: Normalizer = "stem",
        min_length: int = 2,
        capacity: int = 200_000,
        phrases: Iterable[str] = (),
    ) -> None:
        super().__init__(_MARK_CODES)
        self.language = language_name(language)
        self.normalizer: Normalizer = normalizer
        self.min_length = min_length
        self._checked_length = max(min_length - 1, _BIGRAM_LENGTH)
        self.capacity = max(capacity, 2 * len(_MARK_CODES))
        self._stem: StemFunction = make_normalizer(self.language, normalizer)
        self._stop_words = _stemmed_stop_words(self.language, normalizer)
        self._surfaces = SurfaceForms()
        self._word_source: Callable[[int], str] = _no_word
        self._stems: dict[int, str] = {}
        self.phrases = tuple(phrases)
        # Term -> stem and displayed form; unlike words, phrases are never evicted.
        self._phrase_forms: dict[int, tuple[str, str]] = {}
        self._phrase_matcher = self._build_phrase_matcher()

    def __missing__(self, word: str) -> int:
        if len(word) > _MAX_WORD_LENGTH:
            # Not cached: it may be a megabyte long.
            return 0
        if len(self) >= self.capacity:
            self._evict_rare()
        if self._is_noise(word) or not (stem := self._stem(word)) or stem in self._stop_words:
            self[word] = 0
            return 0
        self[word] = term = term_id(stem)
        self._stems[term] = stem
        self._surfaces.add(term, word)
        return term

    def __reduce__(self) -> tuple[type["Vocabulary"], tuple[str, Normalizer, int, int, tuple[str, ...]]]:
        """Only the options are pickled: terms are the same in every process."""
        return Vocabulary, (self.language, self.normalizer, self.min_length, self.capacity, self.phrases)

    def terms(self, text: str) -> list[int]:
        """The terms of a text in order, without stop words and noise."""
        found = tokenize(text)
        self._surfaces.observe(found)
        return self.join_phrases(list(filter(None, map(self.__getitem__, found))))

    def join_phrases(self, codes: list[int]) -> list[int]:
        """Terms, marks among them, with every phrase as one term. A mark inside a phrase separates its words."""
        return self._phrase_matcher.join(codes) if self._phrase_matcher else codes

    def sample(self, count: int) -> slice:
        """Which of `count` words to pass to `count()`."""
        return self._surfaces.sample(count)

    def count(self, found: list[str]) -> None:
        """Count words as surface forms; marks may be among them."""
        self._surfaces.count(found)

    def set_word_source(self, source: Callable[[int], str]) -> None:
        """Set a function that knows words of terms from texts that were read elsewhere."""
        self._word_source = source

    def add_acronyms(self, text: str) -> None:
        """Display words in capitals as written: for topics and queries (S4-E2), not for pages."""
        for acronym in _ACRONYM.findall(text):
            self._surfaces.set_display_form(acronym.lower(), acronym)

    def stem_of(self, term: int) -> str:
        """The stem of a term; empty if no word of it is known."""
        if term in self._phrase_forms:
            return self._phrase_forms[term][0]
        if term not in self._stems:
            self._import_word(term)
        return self._stems.get(term, "")

    def surface_of(self, term: int) -> str:
        """The most common surface form of a term (S0-E4), or an empty string."""
        if term in self._phrase_forms:
            return self._phrase_forms[term][1]
        if term not in self._stems:
            self._import_word(term)
        return self._surfaces.most_common_form(term)

    def text_of(self, terms: Iterable[int]) -> str:
        """Words that give the same terms again, without terms of which no word is known."""
        return " ".join(filter(None, map(self.surface_of, terms)))

    def _import_word(self, term: int) -> None:
        """Add a word of a term from the word source."""
        word = self._word_source(term)
        if word:
            self.__missing__(word)

    def _build_phrase_matcher(self) -> PhraseMatcher[int] | None:
        """A matcher of the phrases of several terms; None without any, so that pages need no second pass."""
        found: dict[tuple[int, ...], int] = {}
        for phrase in self.phrases:
            words = [word for word in tokenize(phrase) if self[word]]
            stem = " ".join(self._stems[self[word]] for word in words)
            if len(words) > 1:
                term = found[tuple(self[word] for word in words)] = term_id(stem)
                self._phrase_forms[term] = stem, phrase.strip()
        return PhraseMatcher(found) if found else None

    def _is_noise(self, word: str) -> bool:
        # Most new words are long, and need one check by length.
        length = len(word)
        return word in self._stop_words or (
            length <= self._checked_length
            and (
                (length < self.min_length and is_short_word(word, self.min_length))
                or (length <= _BIGRAM_LENGTH and is_function_bigram(word))
            )
        )

    def _evict_rare(self) -> None:
        """Keep the most common half of the words."""
        kept = {word: self[word] for word in self._surfaces.most_common_words(self, self.capacity // 2)}
        self._surfaces.retain(kept)
        self._stems = {term: self._stems[term] for term in kept.values() if term > 0}
        self.clear()
        self.update(kept)
        self.update(_MARK_CODES)


def _no_word(_: int) -> str:
    return ""


def term_id(stem: str) -> int:
    """The stable number of a stem; 0 is reserved for stop words and noise."""
    return xxhash.xxh32_intdigest(stem.encode("utf-8", "replace")) or 1
