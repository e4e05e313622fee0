"""Names and codes of languages, and stemmers and lemmatizers (X-07).

`de`, `de-AT`, `German` and `german` are the same language.
"""

from collections.abc import Callable

import Stemmer

from opilio.core.errors import ConfigError

# Languages with a Snowball stemmer, and some without, whose words are used unchanged.
_NAMES = {
    "bg": "bulgarian",
    "fa": "persian",
    "he": "hebrew",
    "hr": "croatian",
    "ja": "japanese",
    "ko": "korean",
    "lv": "latvian",
    "sk": "slovak",
    "sl": "slovenian",
    "th": "thai",
    "uk": "ukrainian",
    "ur": "urdu",
    "vi": "vietnamese",
    "zh": "chinese",
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}
_CODES = {name: code for code, name in _NAMES.items()}
# Old codes and the two written forms of Norwegian.
_CODE_ALIASES = {"nb": "no", "nn": "no", "in": "id", "ji": "yi", "iw": "he"}


def language_code(language: str) -> str:
    """The two-letter code of a language tag or name, or the primary subtag of an unknown one in lower case.

    >>> language_code("de-AT"), language_code("English"), language_code("nb_NO"), language_code("")
    ('de', 'en', 'no', '')
    """
    primary = language.strip().lower().replace("_", "-").partition("-")[0]
    code = _CODES.get(primary, primary)
    return _CODE_ALIASES.get(code, code)


def language_names() -> list[str]:
    """The names of all known languages."""
    return list(_CODES)


def language_name(language: str) -> str:
    """The English name of a language, as stemmers call it; the code if it is unknown.

    >>> language_name("pt-BR"), language_name("xx")
    ('portuguese', 'xx')
    """
    code = language_code(language)
    return _NAMES.get(code, code)


StemFunction = Callable[[str], str]


def make_normalizer(language: str, normaliser: str) -> StemFunction:
    """The function that normalizes a lower-case word; words of a language without a stemmer stay unchanged.

    `stem` is Snowball (for English Porter's revised algorithm), `porter` the algorithm that the papers name,
    `lemma` a dictionary of lemmas (S2-F2), `none` changes nothing.
    """
    makers: dict[str, Callable[[], StemFunction]] = {
        "stem": lambda: _make_stemmer(language_name(language)),
        "porter": lambda: _make_stemmer("porter"),
        "lemma": lambda: _make_lemmatizer(language_code(language)),
        "none": lambda: str,
    }
    if normaliser not in makers:
        raise ConfigError(f"normaliser {normaliser!r}: unknown; use one of {', '.join(makers)}")
    return makers[normaliser]()


def is_known_language(language: str) -> bool:
    """True for the name or code of a known language, with or without a stemmer and stop words.

    >>> is_known_language("de-AT"), is_known_language("klingon")
    (True, False)
    """
    return language_name(language) in language_names()


def _make_stemmer(algorithm: str) -> StemFunction:
    if algorithm not in Stemmer.algorithms():
        return str
    # The vocabulary caches stems already: PyStemmer's own cache (second argument) would hold every word twice.
    stem: StemFunction = Stemmer.Stemmer(algorithm, 0).stemWord
    return stem


def _make_lemmatizer(code: str) -> StemFunction:
    try:
        from simplemma import lemmatize
    except ImportError as missing:
        raise ConfigError(
            "normaliser 'lemma': needs the package simplemma; run pip install 'opilio[lemmas]'"
        ) from missing
    try:
        lemmatize("a", lang=code)
    except ValueError as unknown:
        raise ConfigError(f"normaliser 'lemma': no lemmas for the language {code!r}; use 'stem'") from unknown
    return lambda word: str(lemmatize(word, lang=code)).lower()
