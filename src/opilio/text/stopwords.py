"""Stop words by language: words that carry no topic. The lists are in `data/stopwords.toml`."""

import tomllib
from functools import cache
from importlib.resources import files

from opilio.text.languages import language_code

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


def is_function_bigram(word: str) -> bool:
    """True for a pair of Japanese or Chinese characters that is only a function word or part of one.

    >>> [word for word in ("お茶", "茶の", "の種", "種類", "すし", "です") if not is_function_bigram(word)]
    ['お茶', '種類', 'すし']
    """
    kana = ["\u3041" <= char <= "\u309f" for char in word]
    if len(word) > 2 or not any(kana):
        return len(word) == 2 and "的" in word
    if all(kana):
        return len(word) == 1 or "を" in word or word in _FUNCTION_BIGRAMS
    return word[1] in _PARTICLES if kana[1] else word[0] not in _PREFIXES


def stop_word_languages() -> list[str]:
    """The codes of all languages with a stop-word list."""
    return list(_stop_word_lists())
