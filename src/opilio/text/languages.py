"""Names and codes of languages: `de`, `de-AT`, `German` and `german` are one language."""

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
_SAME = {"nb": "no", "nn": "no", "in": "id", "ji": "yi", "iw": "he"}  # old codes and the two written Norwegians


def code_of(language: str) -> str:
    """The two-letter code of a language tag or name, or the lower-cased primary part of an unknown one.

    >>> code_of("de-AT"), code_of("English"), code_of("nb_NO"), code_of("")
    ('de', 'en', 'no', '')
    """
    primary = language.strip().lower().replace("_", "-").partition("-")[0]
    code = _CODES.get(primary, primary)
    return _SAME.get(code, code)


def names() -> list[str]:
    """The languages that have a name here."""
    return list(_CODES)


def name_of(language: str) -> str:
    """The English name of a language, as stemmers call it; of an unknown one its code.

    >>> name_of("pt-BR"), name_of("xx")
    ('portuguese', 'xx')
    """
    code = code_of(language)
    return _NAMES.get(code, code)
