"""Languages: names and codes, stemmers and lemmatizers (X-07), stop words, and the identification of languages.

`de`, `de-AT`, `German` and `german` are the same language. Stop words carry no topic; `data/stopwords.toml` has them.
The statistics of `identify_language` fail on short texts: they call many English titles Danish. `guess_language`
therefore needs two signs that agree, stop words that English does not have (`und`, `des`, `sobre`) and the statistics,
or a script that only one language uses. The model takes half a second to load, so it is loaded on first use.
"""

import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib.resources import files

import Stemmer

from opilio.core.errors import ConfigError
from opilio.core.records import BLOCK_BREAK, LINK_END, LINK_START
from opilio.text.tokens import tokenize

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
    `lemma` a dictionary of lemmas, `lemma-stem` both at once (S2-F2): the stem of the lemma, so that words are equal if
    either makes them equal; `none` changes nothing.
    """
    makers: dict[str, Callable[[], StemFunction]] = {
        "stem": lambda: _make_stemmer(language_name(language)),
        "porter": lambda: _make_stemmer("porter"),
        "lemma": lambda: _make_lemmatizer(language_code(language)),
        "lemma-stem": lambda: _make_lemma_stemmer(language),
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


def _make_lemma_stemmer(language: str) -> StemFunction:
    lemma, stem = _make_lemmatizer(language_code(language)), _make_stemmer(language_name(language))
    return lambda word: stem(lemma(word))


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


# Japanese text is split into pairs of characters whatever the topic's language. Pairs made of particles, endings and
# function words carry no topic. Kanji followed by a verb's or noun's ending (飲み, 祭り) and words in kana (すし) do.
_PARTICLES = frozenset("のはがをにでともやかなへ")
# As in お茶 and ご飯.
_PREFIXES = frozenset("おご")
_FUNCTION_BIGRAMS = frozenset(
    """
    です ます した して する され せる いる いた いて いう ある あり あっ った って てい てき てお れる
    れた れて られ なる なり なっ ない なく ので のに のは のが のを のも には にも では でも とは とも
    へと から かつ まで より ほど だけ など なの こと とが もの ため よう うに うな とい とし とき この
    その あの どの これ それ どれ ここ そこ どこ また たり だっ だが んだ まし しま しい しく しょ ょう
    せん たち らの らに らは によ よる よっ につ つい にお おい おけ ける けて すべ べて でき きる きた
    えた えて える めに めた める であ いで だろ ろう たが いま おり せた させ れば けれ れど ども がら
    なが ても たと
    """.split()
)


@cache
def _stop_word_lists() -> dict[str, str]:
    text = files("opilio.text").joinpath("data/stopwords.toml").read_text(encoding="utf-8")
    return {code: str(words) for code, words in tomllib.loads(text).items()}


@cache
def stop_words(language: str) -> frozenset[str]:
    """The stop words of a language; empty for an unknown language.

    >>> "of" in stop_words("en"), "new" in stop_words("english")
    (True, False)
    """
    return frozenset(_stop_word_lists().get(language_code(language), "").split())


def is_stop_word(word: str) -> bool:
    """True for a stop word of any language.

    >>> is_stop_word("der"), is_stop_word("wren")
    (True, False)
    """
    return any(word in stop_words(language) for language in stop_word_languages())


def is_function_bigram(word: str) -> bool:
    """True for a pair of Japanese or Chinese characters that is only a function word or part of one.

    >>> [word for word in ("お茶", "茶の", "の種", "種類", "すし", "です") if not is_function_bigram(word)]
    ['お茶', '種類', 'すし']
    """
    # First the words of most pages: this runs for every new word.
    if word.isascii() or len(word) > 2:
        return False
    kana = ["\u3041" <= char <= "\u309f" for char in word]
    if not any(kana):
        return len(word) == 2 and "的" in word
    if all(kana):
        return len(word) == 1 or "を" in word or word in _FUNCTION_BIGRAMS
    return word[1] in _PARTICLES if kana[1] else word[0] not in _PREFIXES


def stop_word_languages() -> list[str]:
    """The codes of all languages with a stop-word list."""
    return list(_stop_word_lists())


# The language of a shorter text is a guess.
MIN_DETECTED_CHARACTERS = 250
# With fewer letters the statistics are a guess.
_MIN_LETTERS = 20
_MARKS_TO_SPACES = str.maketrans(dict.fromkeys((LINK_START, LINK_END, BLOCK_BREAK), " "))


def identify_language(text: str, sample: int = 1_000) -> str:
    """The two-letter code of the language of a text; empty if it can't be determined.

    Uses `sample` characters a third into the text, past most menus: about 0.2 ms. The text may contain flow marks.
    """
    start = max(0, (len(text) - sample) // 3)
    excerpt = text[start : start + sample].translate(_MARKS_TO_SPACES)
    if sum(map(str.isalpha, excerpt)) < _MIN_LETTERS:
        return ""
    import py3langid

    code: str = py3langid.classify(excerpt)[0]
    return code


def detect_language(text: str) -> str:
    """The language of a page that states none; empty if its text is short, or in a language that is not known.

    >>> detect_language("The wren is a small brown bird. " * 12), detect_language("The wren is a small brown bird.")
    ('en', '')
    """
    if len(text) < MIN_DETECTED_CHARACTERS:
        return ""
    found = identify_language(text)
    return found if is_known_language(found) else ""


def language_log_odds(text: str) -> dict[str, float]:
    """The log-likelihood of each language that the model knows, comparable only with each other."""
    import py3langid

    return {str(code): float(value) for code, value in py3langid.rank(text)}


# The minimum lead over English. Six of 5,464 titles of an English encyclopedia are above it, all of them names such as
# Las Palmas de Gran Canaria; sentences in other languages have 22 to 70.
_MIN_LOG_ODDS = 20.0
# Scripts that mostly one supported language uses, and letters that only its neighbours use.
_SCRIPTS = {
    "ARABIC": ("ar", "پچژگکیےٹڈڑںہھې"),
    "ARMENIAN": ("hy", ""),
    "CYRILLIC": ("ru", "іїєґўјљњћђџѓќѕғқңөұүһәӣӯ"),
    "GREEK": ("el", ""),
    "HANGUL": ("ko", ""),
    "HEBREW": ("he", ""),
    "HIRAGANA": ("ja", ""),
    "KATAKANA": ("ja", ""),
    "TAMIL": ("ta", ""),
    "THAI": ("th", ""),
}


def script_languages(text: str) -> list[str]:
    """The codes of the languages that are written in the script of a text; empty for Latin and unknown scripts.

    >>> script_languages("恐龍吃什麼"), script_languages("แมว"), script_languages("wren")
    (['zh', 'ja'], ['th'], [])
    """
    script = _main_script(text)
    return ["zh", "ja"] if script == "CJK" else [_SCRIPTS[script][0]] if script in _SCRIPTS else []


def guess_language(text: str) -> str:
    """The name of the language of a short text; empty if uncertain or English.

    >>> guess_language("Tee: Anbau, Sorten und Zeremonie"), guess_language("birds of Europe")
    ('german', '')
    """
    script = _main_script(text)
    if script and script != "LATIN":
        code, foreign = _SCRIPTS.get(script, ("", ""))
        return language_name(code) if not set(foreign) & set(text.lower()) else ""
    words = {word for word in tokenize(text) if len(word) > 1}
    english = words & stop_words("en")
    candidates = [
        code
        for code in stop_word_languages()
        if len(words & stop_words(code) - english) > len(english - stop_words(code))
    ]
    if not candidates:
        return ""
    odds = language_log_odds(text)
    best = max(candidates, key=lambda code: odds.get(code, 0.0))
    return language_name(best) if odds.get(best, 0.0) - odds["en"] > _MIN_LOG_ODDS else ""


def _main_script(text: str) -> str:
    """The script of most letters; kana make a text Japanese."""
    scripts = Counter(unicodedata.name(char, "").partition(" ")[0] for char in text if char.isalpha())
    kana = scripts["HIRAGANA"] + scripts["KATAKANA"]
    if kana and kana + scripts["CJK"] > sum(scripts.values()) / 2:
        return "HIRAGANA"
    return scripts.most_common(1)[0][0] if scripts else ""
