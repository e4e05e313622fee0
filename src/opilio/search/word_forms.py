"""Other forms of a query's words: corrected spellings from the words in the indexes, and compounds.

Each form is one that the searched pages contain. Plural and other inflected forms are handled by stemming.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec
import tantivy

from opilio.search.meaning import is_common_word
from opilio.search.query import QueryGroup, QueryNode, QueryTerm, is_plain_word, positive_terms
from opilio.search.schema import EXACT_FIELD, index_terms
from opilio.search.snippet import edit_distance
from opilio.text.languages import (
    is_known_language,
    is_stop_word,
    language_code,
    script_languages,
    stop_word_languages,
    stop_words,
)

# Shorter words are similar to too many others.
MIN_WORD_LENGTH = 4
MIN_LENGTH_FOR_TWO_EDITS = 6
# A word on more pages is rarely a misspelling.
MAX_MISSPELLING_PAGES = 2
# Large collections contain misspellings more often: one page for this many, but not more than the next number.
PAGES_PER_MISSPELLING, MAX_FREQUENT_MISSPELLING = 500, 20
# Of the suggestion to a misspelling on more pages.
MIN_RATIO_OF_FREQUENT_WORD = 40
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
        if here > self._max_misspelling_pages or (not here and is_common_word(folded)):
            return ""
        # A word of a few pages may be a rare one; a correction must then be near, and much more frequent.
        ratio = MIN_FREQUENCY_RATIO if here <= MAX_MISSPELLING_PAGES else MIN_RATIO_OF_FREQUENT_WORD
        for find in (self._one_off, self._two_off) if not here else (self._one_off,):
            common = [
                (other, count)
                for other, count in find(folded)
                # A stop word is frequent everywhere: "wren" on a few pages is not a slip of "when".
                if count > ratio * here and not (here and is_stop_word(other))
            ]
            best = max(
                common, key=lambda pair: (math.sqrt(pair[1]) * typo_likelihood(folded, pair[0]), pair[0]), default=None
            )
            if best is not None:
                # "wings" where pages contain "wing": not a slip of "sings"; stemming finds them.
                return "" if _same_word(best[0], folded) else best[0]
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

    That one is the plural of the other is more likely still.

    >>> typo_likelihood("parot", "parrot") > typo_likelihood("parot", "part") > typo_likelihood("parot", "carrot")
    True
    """
    if _single(wrong) == _single(right) or _same_word(wrong, right):
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


MIN_PART_LENGTH = 3  # letters of each half of a compound
# A word on more pages is not searched as two words.
MAX_COMPOUND_PAGES = 10
MAX_SPLITS = 3
MIN_STOP_WORDS = 2  # that show a question, and its language
SENTENCE_MARKS = "?!.,;:¿¡"
# Words of a question that ask for a page, not for its content.
ASKING_WORDS = frozenset(
    """
    tell show explain describe find give know information called happened
    erkläre erklären zeige finde finden information informationen heißt passierte
    explique expliquer trouver trouve information informations appelle
    explica explicar encontrar encuentra información llama
    spiega spiegare trovare trova informazioni chiama
    """.split()
)
# A longer query is a text; its words need no help.
MAX_WORDS = 12


class WordForms(msgspec.Struct, frozen=True, kw_only=True):
    """The forms of the words of one query."""

    alternatives: Mapping[str, tuple[str, ...]] = {}  # word -> what is searched besides it
    # The query with misspelled words replaced; empty if there are none.
    corrected: str = ""

    def known_form(self, word: str) -> str:
        """The form of a word that pages contain."""
        return self.alternatives.get(word, (word,))[0]

    def extra_terms(self) -> list[QueryTerm]:
        """The alternatives as terms, for highlighting."""
        return [QueryTerm(text=part) for forms in self.alternatives.values() for form in forms for part in form.split()]


def find_word_forms(
    searchers: Sequence[tantivy.Searcher], schema: tantivy.Schema, query: str, group: QueryGroup
) -> WordForms:
    """The forms of the plain words of a query."""
    words = [term.text for term in positive_terms(group) if is_plain_word(term) and term.text.isalpha()]
    if not words or len(words) > MAX_WORDS:
        return WordForms()
    finder = _FormFinder(searchers, schema)
    alternatives: dict[str, tuple[str, ...]] = {}
    for first, second in pairwise(words):
        if joined := finder.join(first, second):
            for word in (first, second):
                alternatives[word] = (*alternatives.get(word, ()), joined)
    corrections: dict[str, str] = {}
    for word in dict.fromkeys(words):
        if word in alternatives:
            continue
        if split := finder.split(word):
            alternatives[word] = (split,)
        elif correction := finder.suggester.suggest(word):
            corrections[word] = correction
            # A word of some pages may be meant; then the correction is only suggested.
            if not finder.frequency(word):
                alternatives[word] = (correction,)
    return WordForms(alternatives=alternatives, corrected=finder.suggester.replace(query, corrections))


def drop_stop_words(group: QueryGroup, languages: Sequence[str]) -> Sequence[tuple[str, QueryNode]]:
    """The parts without stop words of the collection's languages and of the query's own, and in a question without
    the words that only ask ("find information about ..."); all parts if nothing else is left."""
    words = _plain_words(group)
    stop = frozenset().union(*(stop_words(language) for language in (*(languages or ("en",)), *_languages_of(words))))
    if sum(word in stop for word in words) >= MIN_STOP_WORDS:
        stop |= ASKING_WORDS
    kept = [(o, n) for o, n in group.parts if o != "may" or not isinstance(n, QueryTerm) or not _is_stop_word(n, stop)]
    return kept if any(o != "not" for o, _ in kept) else group.parts


def is_foreign(group: QueryGroup, languages: Sequence[str], is_rare: Callable[[str], bool]) -> bool:
    """True for a query in another language than the pages, by its stop words. `languages`: most frequent first.

    At least half of its other words must be on few pages: "men" is a stop word of Danish, but pages that contain the
    other words of "actor in twelve angry men" are not Danish. If all are, one stop word is enough. Pages without a
    language do not count; if they are the most frequent, most stop words of the query must be on few pages, too.

    >>> words = "what is the wren".split()
    >>> asked = QueryGroup(kind="some", parts=tuple(("may", QueryTerm(text=word)) for word in words))
    >>> [is_foreign(asked, known, lambda _: True) for known in (["de"], ["de", "en"], ["de", ""], ["", "de"])]
    [True, False, True, True]
    >>> is_foreign(asked, ["de"], lambda _: False), is_foreign(asked, ["", "de"], lambda word: word == "wren")
    (False, False)
    """
    words = _plain_words(group)
    others = [word for word in words if not is_stop_word(word)]
    rare = sum(map(is_rare, others))
    if 2 * rare < len(others):
        return False
    spoken = _languages_of(words, 1 if others and rare == len(others) else MIN_STOP_WORDS)
    stated = {language_code(language) for language in languages if language}
    if not spoken or stated & set(spoken) or not all(map(is_known_language, stated)):
        return False
    stop = [word for word in words if is_stop_word(word)]
    return bool(languages) and (bool(languages[0]) or 2 * sum(map(is_rare, stop)) > len(stop))


def _plain_words(group: QueryGroup) -> list[str]:
    return [node.text.lower() for _, node in group.parts if isinstance(node, QueryTerm) and is_plain_word(node)]


def _is_stop_word(term: QueryTerm, stop: frozenset[str]) -> bool:
    return is_plain_word(term) and term.text.lower().strip(SENTENCE_MARKS) in stop


def _languages_of(words: Sequence[str], least: int = MIN_STOP_WORDS) -> list[str]:
    """The languages of a question by its script, or its stop words, of which there must be two; one may be wrong.

    >>> _languages_of("wie entsteht ein vulkan".split()), _languages_of(["die", "hard"]), _languages_of(["แมว"])
    (['de'], [], ['th'])
    """
    if written := script_languages(" ".join(words)):
        return written
    counts = {language: sum(word in stop_words(language) for word in words) for language in stop_word_languages()}
    most = max(counts.values(), default=0)
    return [language for language, count in counts.items() if count == most] if most >= least else []


class _FormFinder:
    """Looks up forms in the words of the indexes."""

    def __init__(self, searchers: Sequence[tantivy.Searcher], schema: tantivy.Schema) -> None:
        self._searchers = searchers
        self._schema = schema
        self.suggester = SpellingSuggester(searchers)

    def frequency(self, word: str) -> int:
        """The number of pages with a word as written."""
        return self.suggester.frequency("".join(index_terms(word)))

    def join(self, first: str, second: str) -> str:
        """Two neighbouring words as one, if some page writes them so."""
        if min(len(first), len(second)) < MIN_PART_LENGTH:
            return ""
        joined = f"{first}{second}".lower()
        return joined if self.frequency(joined) else ""

    def split(self, word: str) -> str:
        """A rare word as two, if some page writes them next to each other."""
        folded = "".join(index_terms(word))
        if len(folded) < 2 * MIN_PART_LENGTH or self.suggester.frequency(folded) > MAX_COMPOUND_PAGES:
            return ""
        halves = [(folded[:at], folded[at:]) for at in range(MIN_PART_LENGTH, len(folded) - MIN_PART_LENGTH + 1)]
        counted = [(min(map(self.suggester.frequency, pair)), pair) for pair in halves]
        known = sorted((count, pair) for count, pair in counted if count)[-MAX_SPLITS:]
        return next((" ".join(pair) for _, pair in reversed(known) if self._is_phrase(pair)), "")

    def _is_phrase(self, words: Sequence[str]) -> bool:
        query = tantivy.Query.phrase_query(self._schema, EXACT_FIELD, [*words])
        return any(searcher.search(query, 1).hits for searcher in self._searchers)
