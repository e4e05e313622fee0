"""Genres (S3-23): news, discussions and blogs as editable word lists, and detecting the genre of a page.

The lists are data (`genres.toml`, or a file of the user's). Rankers score links by genre.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files

import msgspec
import numpy as np

from opilio.core.errors import TopicError
from opilio.core.files import parse_toml
from opilio.core.records import Reading
from opilio.text.languages import is_known_language, language_name
from opilio.text.term_arrays import term_array
from opilio.topic.evolving import CompiledTable

_URL_PART = re.compile(r"[a-z0-9]+")
# Two-letter codes are accepted for languages that only the lemmatizer knows.
LANGUAGE_CODE_LENGTH = 2
# Words of a page without stop words; on longer pages genre words occur by chance.
TYPICAL_PAGE_WORDS = 250
# A genre word in the URL counts as much as this many genre words on the page.
URL_MATCH_WEIGHT = 3
_SLOT_MASK = (1 << 14) - 1


class GenreWords(msgspec.Struct, frozen=True):
    """The definition of a genre: its words by language, and words in URLs."""

    name: str
    url: frozenset[str]
    words: dict[str, tuple[str, ...]]


def parse_genres(text: str, source: str) -> dict[str, GenreWords]:
    """Parse the genres of a TOML text; `source` names it in error messages."""
    try:
        tree = parse_toml(text)
    except ValueError as error:
        raise TopicError(f"{source}: is not valid TOML (each genre may occur only once): {error}") from error
    if not tree:
        raise TopicError(f"{source}: contains no genre; add a section such as [news] with english = [...]")
    return {name: _parse_genre(name, table, source) for name, table in tree.items()}


@cache
def default_genres() -> dict[str, GenreWords]:
    """The built-in genres, read once."""
    file = files("opilio.topic") / "genres.toml"
    return parse_genres(file.read_text(encoding="utf-8"), "genres.toml")


def _parse_genre(name: str, table: object, source: str) -> GenreWords:
    if not isinstance(table, dict) or not all(map(_is_word_list, table.values())):
        raise TopicError(f"{source}: [{name}] must contain lists of words by language, such as english = [...]")
    words: dict[str, tuple[str, ...]] = {}
    for language, listed in table.items():
        lowered = Counter(word.lower() for word in listed)
        if twice := [w for w, n in lowered.items() if n > 1]:
            raise TopicError(f'{source}: [{name}] {language} contains "{twice[0]}" more than once; remove one')
        if language == "url":
            continue
        if not is_known_language(language) and len(language) != LANGUAGE_CODE_LENGTH:
            raise TopicError(f"{source}: [{name}] the language {language} is unknown; write for example german or de")
        if words.setdefault(language_name(language), tuple(listed)) != tuple(listed):
            raise TopicError(f"{source}: [{name}] the language {language} occurs twice; remove one")
    return GenreWords(name, frozenset(word.lower() for word in table.get("url", ())), words)


def _is_word_list(given: object) -> bool:
    return isinstance(given, list) and all(isinstance(word, str) for word in given)


class GenreDetector:
    """Detects the chosen genres by their words in some languages."""

    def __init__(
        self,
        definitions: Mapping[str, GenreWords],
        terms_of: Callable[[str], Sequence[int]],
        names: Iterable[str] = (),
        languages: Sequence[str] = ("english",),
        threshold: int = 4,
    ) -> None:
        self.threshold = threshold
        self._compiled: dict[str, CompiledTable] = {}
        # Sets, because Python iterates over the smaller of two sets.
        self._words: dict[str, frozenset[int]] = {}
        self._urls: dict[str, frozenset[str]] = {}
        for name in names or definitions:
            if name not in definitions:
                raise TopicError(f'genre "{name}" is unknown; known: {", ".join(definitions)}')
            words = [w for language in languages for w in definitions[name].words.get(language, ())]
            labels = {term: word for word in reversed(words) for term in terms_of(word)}
            self._compiled[name] = CompiledTable(dict.fromkeys(labels, 1.0), labels, len(labels))
            self._words[name] = frozenset(labels)
            self._urls[name] = definitions[name].url
        self._all_terms = frozenset(term for table in self._compiled.values() for term in table.vector)
        # Flags by the low bits of a term: one array operation leaves a handful of terms to look up.
        self._slots = np.zeros(_SLOT_MASK + 1, dtype=np.bool_)
        self._slots[[term & _SLOT_MASK for term in self._all_terms]] = True

    @property
    def compiled(self) -> Mapping[str, CompiledTable]:
        """Genre -> table of its words, all of weight 1 (S3-16)."""
        return self._compiled

    def detect(self, reading: Reading) -> str:
        """The page's genre, or "" if unclear: by the number of distinct genre words, including the URL.

        A page of typical length needs `threshold` of them; longer pages need more, by the square root of their length.
        With a constant threshold, a third of an encyclopedia's long articles were discussions, news or blogs.
        """
        stretch = max(1.0, math.sqrt(len(reading.terms) / TYPICAL_PAGE_WORDS))
        # The intersection is small, whatever the length of the page.
        terms = term_array(reading.terms)
        present = self._all_terms.intersection(terms[self._slots.take(terms & _SLOT_MASK)].tolist())
        parts = set(_URL_PART.findall(reading.page.url.lower()))
        scores = {
            name: len(present & words) + (URL_MATCH_WEIGHT * stretch if parts & self._urls[name] else 0.0)
            for name, words in self._words.items()
        }
        best = max(scores, key=scores.__getitem__, default="")
        return best if best and scores[best] >= self.threshold * stretch else ""
