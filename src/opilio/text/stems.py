"""Words to stems or lemmas (X-07): Snowball's algorithm of the language, Porter's first one, lemmas, or nothing."""

from collections.abc import Callable

import Stemmer

from opilio.model.errors import ConfigError
from opilio.text.languages import code_of, name_of, names

Stem = Callable[[str], str]


def normalising(language: str, normaliser: str) -> Stem:
    """The function that normalises one lower-case word; a language without a stemmer keeps its words.

    `stem` is Snowball (for English Porter's revised algorithm), `porter` the algorithm the papers name,
    `lemma` a dictionary of lemmas (S2-F2), `none` leaves words alone.
    """
    makers: dict[str, Callable[[], Stem]] = {
        "stem": lambda: _stemming(name_of(language)),
        "porter": lambda: _stemming("porter"),
        "lemma": lambda: _lemmatising(code_of(language)),
        "none": lambda: str,
    }
    if normaliser not in makers:
        raise ConfigError(f"normaliser {normaliser!r} is not known: use one of {', '.join(makers)}")
    return makers[normaliser]()


def stemmed_languages() -> list[str]:
    """The names of the languages that have a stemmer."""
    return [name for name in Stemmer.algorithms() if "porter" not in name]


def is_known(language: str) -> bool:
    """Is this the name or code of a language? Some have neither stemmer nor stop words.

    >>> is_known("de-AT"), is_known("klingon")
    (True, False)
    """
    return name_of(language) in names()


def _stemming(algorithm: str) -> Stem:
    if algorithm not in Stemmer.algorithms():
        return str
    # The vocabulary is itself the cache: PyStemmer's own (second argument) would hold every word twice.
    stem: Stem = Stemmer.Stemmer(algorithm, 0).stemWord
    return stem


def _lemmatising(code: str) -> Stem:
    try:
        from simplemma import lemmatize
    except ImportError as missing:
        raise ConfigError("normaliser 'lemma' needs the package simplemma: pip install 'opilio[lemmas]'") from missing
    try:
        lemmatize("a", lang=code)
    except ValueError as unknown:
        raise ConfigError(f"normaliser 'lemma' knows no language {code!r}") from unknown
    return lambda word: str(lemmatize(word, lang=code)).lower()
