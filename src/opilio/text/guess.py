"""The language of a few words, such as a topic's name: told only where it is plain.

A sentence is too short for the statistics that `identify` goes by: they call many an English title Danish. So two
witnesses must agree, small words that English has not (`und`, `des`, `sobre`) and those statistics, or the script
tells.
"""

import unicodedata
from collections import Counter

from opilio.text.identify import log_odds
from opilio.text.languages import name_of
from opilio.text.stopwords import languages, stop_words
from opilio.text.tokens import words

# So far ahead of English, as a logarithm. Of 5,464 titles of an English encyclopaedia six are above it, all of them
# names such as Las Palmas de Gran Canaria; sentences of other languages have 22 to 70.
_PLAIN = 20.0
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


def guessed(text: str) -> str:
    """The name of the language of a short text; empty where that is not plain, or where it is English.

    >>> guessed("Tee: Anbau, Sorten und Zeremonie"), guessed("birds of Europe")
    ('german', '')
    """
    script = _script_of(text)
    if script and script != "LATIN":
        code, foreign = _SCRIPTS.get(script, ("", ""))
        return name_of(code) if not set(foreign) & set(text.lower()) else ""
    said = {word for word in words(text) if len(word) > 1}
    english = said & stop_words("en")
    able = [code for code in languages() if len(said & stop_words(code) - english) > len(english - stop_words(code))]
    if not able:
        return ""
    odds = log_odds(text)
    best = max(able, key=lambda code: odds.get(code, 0.0))
    return name_of(best) if odds.get(best, 0.0) - odds["en"] > _PLAIN else ""


def _script_of(text: str) -> str:
    """The script that most letters are of; kana make any text Japanese."""
    scripts = Counter(unicodedata.name(char, "").partition(" ")[0] for char in text if char.isalpha())
    kana = scripts["HIRAGANA"] + scripts["KATAKANA"]
    if kana and kana + scripts["CJK"] > sum(scripts.values()) / 2:
        return "HIRAGANA"
    return scripts.most_common(1)[0][0] if scripts else ""
