"""The language of a few words, such as a topic's name: told only where it is plain.

A sentence is too short for the statistics that `identify_language` goes by: they call many an English title Danish.
So two
witnesses must agree, small words that English has not (`und`, `des`, `sobre`) and those statistics, or the script
tells.

Which language a text is in. The model takes half a second to load, so it is loaded with the first question.
"""

import unicodedata
from collections import Counter

from opilio.core.records import BLOCK_BREAK, LINK_END, LINK_START
from opilio.text.languages import language_name
from opilio.text.stopwords import stop_word_languages, stop_words
from opilio.text.tokens import tokenize

_MIN_LETTERS = 20  # letters; below that the answer is a guess
_MARKS_TO_SPACES = str.maketrans(dict.fromkeys((LINK_START, LINK_END, BLOCK_BREAK), " "))


def identify_language(text: str, sample: int = 1_000) -> str:
    """The two-letter code of the language of a text; empty when it can't be told.

    Looks at `sample` characters a third into the text, past most menus: about 0.2 ms. Marks of a page's flow may
    be in it.
    """
    start = max(0, (len(text) - sample) // 3)
    shown = text[start : start + sample].translate(_MARKS_TO_SPACES)
    if sum(map(str.isalpha, shown)) < _MIN_LETTERS:
        return ""
    import py3langid

    code: str = py3langid.classify(shown)[0]
    return code


def language_log_odds(text: str) -> dict[str, float]:
    """How likely a text is in each language that the model knows, as logarithms that are only comparable."""
    import py3langid

    return {str(code): float(value) for code, value in py3langid.rank(text)}


# So far ahead of English, as a logarithm. Of 5,464 titles of an English encyclopaedia six are above it, all of them
# names such as Las Palmas de Gran Canaria; sentences of other languages have 22 to 70.
_MIN_LOG_ODDS = 20.0
# Scripts that (nearly) one language of ours is written in, and letters that only its neighbours have.
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
    """The name of the language of a short text; empty where that is not plain, or where it is English.

    >>> guess_language("Tee: Anbau, Sorten und Zeremonie"), guess_language("birds of Europe")
    ('german', '')
    """
    script = _main_script(text)
    if script and script != "LATIN":
        code, foreign = _SCRIPTS.get(script, ("", ""))
        return language_name(code) if not set(foreign) & set(text.lower()) else ""
    said = {word for word in tokenize(text) if len(word) > 1}
    english = said & stop_words("en")
    able = [
        code
        for code in stop_word_languages()
        if len(said & stop_words(code) - english) > len(english - stop_words(code))
    ]
    if not able:
        return ""
    odds = language_log_odds(text)
    best = max(able, key=lambda code: odds.get(code, 0.0))
    return language_name(best) if odds.get(best, 0.0) - odds["en"] > _MIN_LOG_ODDS else ""


def _main_script(text: str) -> str:
    """The script that most letters are of; kana make any text Japanese."""
    scripts = Counter(unicodedata.name(char, "").partition(" ")[0] for char in text if char.isalpha())
    kana = scripts["HIRAGANA"] + scripts["KATAKANA"]
    if kana and kana + scripts["CJK"] > sum(scripts.values()) / 2:
        return "HIRAGANA"
    return scripts.most_common(1)[0][0] if scripts else ""
