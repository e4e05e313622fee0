"""Names and codes of languages: `de`, `de-AT`, `German` and `german` are one language.

Words to stems or lemmas (X-07): Snowball's algorithm of the language, Porter's first one, lemmas, or nothing.
"""

from collections.abc import Callable

import Stemmer

from opilio.core.errors import ConfigError

# Those that Snowball stems, and some more, so that nobody has to know which: their words stay as they are.
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
# Old codes and the two written Norwegians
_CODE_ALIASES = {"nb": "no", "nn": "no", "in": "id", "ji": "yi", "iw": "he"}


def language_code(language: str) -> str:
    """The two-letter code of a language tag or name, or the lower-cased primary part of an unknown one.

    >>> language_code("de-AT"), language_code("English"), language_code("nb_NO"), language_code("")
    ('de', 'en', 'no', '')
    """
    primary = language.strip().lower().replace("_", "-").partition("-")[0]
    code = _CODES.get(primary, primary)
    return _CODE_ALIASES.get(code, code)


def language_names() -> list[str]:
    """The languages that have a name here."""
    return list(_CODES)


def language_name(language: str) -> str:
    """The English name of a language, as stemmers call it; of an unknown one its code.

    >>> language_name("pt-BR"), language_name("xx")
    ('portuguese', 'xx')
    """
    code = language_code(language)
    return _NAMES.get(code, code)


StemFunction = Callable[[str], str]


def make_normalizer(language: str, normaliser: str) -> StemFunction:
    """The function that normalises one lower-case word; a language without a stemmer keeps its words.

    `stem` is Snowball (for English Porter's revised algorithm), `porter` the algorithm the papers name,
    `lemma` a dictionary of lemmas (S2-F2), `none` leaves words alone.
    """
    makers: dict[str, Callable[[], StemFunction]] = {
        "stem": lambda: _make_stemmer(language_name(language)),
        "porter": lambda: _make_stemmer("porter"),
        "lemma": lambda: _make_lemmatizer(language_code(language)),
        "none": lambda: str,
    }
    if normaliser not in makers:
        raise ConfigError(f"normaliser {normaliser!r} is not known: use one of {', '.join(makers)}")
    return makers[normaliser]()


def is_known_language(language: str) -> bool:
    """Is this the name or code of a language? Some have neither stemmer nor stop words.

    >>> is_known_language("de-AT"), is_known_language("klingon")
    (True, False)
    """
    return language_name(language) in language_names()


def _make_stemmer(algorithm: str) -> StemFunction:
    if algorithm not in Stemmer.algorithms():
        return str
    # The vocabulary is itself the cache: PyStemmer's own (second argument) would hold every word twice.
    stem: StemFunction = Stemmer.Stemmer(algorithm, 0).stemWord
    return stem


def _make_lemmatizer(code: str) -> StemFunction:
    try:
        from simplemma import lemmatize
    except ImportError as missing:
        raise ConfigError("normaliser 'lemma' needs the package simplemma: pip install 'opilio[lemmas]'") from missing
    try:
        lemmatize("a", lang=code)
    except ValueError as unknown:
        raise ConfigError(f"normaliser 'lemma' knows no language {code!r}") from unknown
    return lambda word: str(lemmatize(word, lang=code)).lower()
