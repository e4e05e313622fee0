"""Genres: News, Discussions, Blogs (S3-23) as lists of words that anybody can edit, and finding a page's genre.

The lists are data (`genres.toml`, or a file of the person's own). Which genre a *link* promises is the rankers' part.
"""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files

import msgspec

from opilio.core.errors import TopicError
from opilio.core.records import Reading
from opilio.text.languages import is_known_language, language_name
from opilio.topic.evolving import CompiledTable

_URL_PART = re.compile(r"[a-z0-9]+")
LANGUAGE_CODE_LENGTH = 2  # letters: of a language that only a dictionary of lemmas may know
# Words of a page, without stop words; on longer ones telling words stand by chance
TYPICAL_PAGE_WORDS = 250
URL_MATCH_WEIGHT = 3  # a telling part of the address counts as much as this many telling words


class GenreWords(msgspec.Struct, frozen=True):
    """One genre as it is written down: its words by language, and parts of addresses."""

    name: str
    url: frozenset[str]
    words: dict[str, tuple[str, ...]]


def parse_genres(text: str, source: str) -> dict[str, GenreWords]:
    """The genres of a TOML text; `source` names it in messages."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TopicError(f"{source}: is not valid TOML (a genre may stand once only): {error}") from error
    if not tree:
        raise TopicError(f"{source}: has no genre; write such as [news] and english = [...]")
    return {name: _parse_genre(name, table, source) for name, table in tree.items()}


@cache
def default_genres() -> dict[str, GenreWords]:
    """The genres that come with Opilio; read once, never changed."""
    file = files("opilio.topic") / "genres.toml"
    return parse_genres(file.read_text(encoding="utf-8"), "genres.toml")


def _parse_genre(name: str, table: object, source: str) -> GenreWords:
    if not isinstance(table, dict) or not all(map(_is_word_list, table.values())):
        raise TopicError(f"{source}: [{name}] must hold lists of words by language, such as english = [...]")
    words: dict[str, tuple[str, ...]] = {}
    for language, listed in table.items():
        lowered = Counter(word.lower() for word in listed)
        if twice := [w for w, n in lowered.items() if n > 1]:
            raise TopicError(f'{source}: [{name}] {language} has "{twice[0]}" more than once; remove one')
        if language == "url":
            continue
        if not is_known_language(language) and len(language) != LANGUAGE_CODE_LENGTH:
            raise TopicError(f"{source}: [{name}] the language {language} is unknown; write such as german or de")
        if words.setdefault(language_name(language), tuple(listed)) != tuple(listed):
            raise TopicError(f"{source}: [{name}] the language {language} stands there twice; remove one")
    return GenreWords(name, frozenset(word.lower() for word in table.get("url", ())), words)


def _is_word_list(given: object) -> bool:
    return isinstance(given, list) and all(isinstance(word, str) for word in given)


class GenreDetector:
    """The chosen genres in the words of some languages, ready for matching."""

    def __init__(
        self,
        book: Mapping[str, GenreWords],
        terms_of: Callable[[str], Sequence[int]],
        names: Iterable[str] = (),
        languages: Sequence[str] = ("english",),
        threshold: int = 4,
    ) -> None:
        self.threshold = threshold
        self._compiled: dict[str, CompiledTable] = {}
        # sets, because of two sets Python walks the smaller one
        self._words: dict[str, frozenset[int]] = {}
        self._urls: dict[str, frozenset[str]] = {}
        for name in names or book:
            if name not in book:
                raise TopicError(f'genre "{name}" is unknown; known: {", ".join(book)}')
            words = [w for language in languages for w in book[name].words.get(language, ())]
            labels = {term: word for word in reversed(words) for term in terms_of(word)}
            self._compiled[name] = CompiledTable(dict.fromkeys(labels, 1.0), labels, len(labels))
            self._words[name] = frozenset(labels)
            self._urls[name] = book[name].url
        self._all_terms = frozenset(term for sight in self._compiled.values() for term in sight.vector)

    @property
    def compiled(self) -> Mapping[str, CompiledTable]:
        """Genre to its words, all of weight 1 (S3-16)."""
        return self._compiled

    def detect(self, reading: Reading) -> str:
        """The page's genre, or "" where nothing is clear: distinct telling words, with the address counted in.

        `threshold` of them are enough on a page of usual length; more are asked of longer ones, by the square root:
        with one number for all, a third of an encyclopaedia's long articles were discussions, news and blogs.
        """
        stretch = max(1.0, math.sqrt(len(reading.terms) / TYPICAL_PAGE_WORDS))
        # Few are left, whatever the length of the page
        present = self._all_terms.intersection(reading.terms)
        parts = set(_URL_PART.findall(reading.page.url.lower()))
        scores = {
            name: len(present & words) + (URL_MATCH_WEIGHT * stretch if parts & self._urls[name] else 0.0)
            for name, words in self._words.items()
        }
        best = max(scores, key=scores.__getitem__, default="")
        return best if best and scores[best] >= self.threshold * stretch else ""
