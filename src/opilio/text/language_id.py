"""Language identification of pages, and of short texts such as a topic's name.

The statistics of `identify_language` fail on short texts: they call many English titles Danish. `guess_language`
therefore needs two signs that agree, stop words that English does not have (`und`, `des`, `sobre`) and the statistics,
or a script that only one language uses. The model takes half a second to load, so it is loaded on first use.
"""

import unicodedata
from collections import Counter

from opilio.core.page import BLOCK_BREAK, LINK_END, LINK_START
from opilio.text.languages import language_name, stop_word_languages, stop_words
from opilio.text.tokens import tokenize

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
