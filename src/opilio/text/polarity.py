"""The polarity of a text: whether its words praise or blame (opinion mining, S3-F1). English only."""

import re
from functools import cache

from opilio.text.languages import language_code

POLARITIES = ("positive", "neutral", "negative")
# Of scores from -1 to 1; people write more positive words than negative ones, so that the middle is above 0.
MIN_POSITIVE, MAX_NEGATIVE = 0.4, 0.1
# With fewer rated words a text is neutral.
MIN_RATED_WORDS, MIN_RATED_SHARE = 5, 0.01
# Added to the sum of ratings: a few words alone are weak evidence.
_PRIOR = 4.0
# A negation among the three words before turns a rating round and weakens it, as in VADER.
_NEGATION_REACH, _NEGATION_FACTOR = 3, -0.74
_NEGATIONS = frozenset("not no never nor neither none nothing nowhere without hardly barely scarcely cannot".split())
MAX_POLARITY_CHARS = 50_000
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")


class PolarityLexicon:
    """Rates texts by the ratings of their words, which are positive or negative numbers.

    The lexicon is that of the package vaderSentiment (7,500 words rated by people), without its rules for sentences: on
    300 product reviews with human ratings the sum below ranks texts as well as VADER's mean over sentences (AUC .960
    and .954; AFINN's lexicon .951), in a tenth of the time. The limits of the labels were chosen on these reviews and
    confirmed on 498 newspaper articles (docs/search.md).
    """

    def __init__(self, ratings: dict[str, float]) -> None:
        self._ratings = {word.lower(): rating for word, rating in ratings.items()}

    def label(self, text: str, language: str = "en") -> str:
        """A name of `POLARITIES`; empty for a text in a language other than English."""
        if language and language_code(language) != "en":
            return ""
        words = _WORD.findall(text[:MAX_POLARITY_CHARS].lower().replace("\u2019", "'"))
        found = self._rate(words)
        if len(found) < max(MIN_RATED_WORDS, MIN_RATED_SHARE * len(words)):
            return "neutral"
        score = sum(found) / (sum(map(abs, found)) + _PRIOR)
        return "positive" if score >= MIN_POSITIVE else "negative" if score <= MAX_NEGATIVE else "neutral"

    def _rate(self, words: list[str]) -> list[float]:
        """The ratings of the rated words."""
        found = []
        for at, word in enumerate(words):
            rating = self._ratings.get(word)
            if rating is not None:
                before = words[max(0, at - _NEGATION_REACH) : at]
                negated = any(w in _NEGATIONS or w.endswith("n't") for w in before)
                found.append(rating * _NEGATION_FACTOR if negated else rating)
        return found


@cache
def load_polarity_lexicon() -> PolarityLexicon | None:
    """The lexicon; None if the extra `opinions` is not installed."""
    try:
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
    except ImportError:
        return None
    return PolarityLexicon(SentimentIntensityAnalyzer().lexicon)


def polarity_of(text: str, language: str = "en") -> str:
    """The polarity of a text; empty if it is not in English or the extra `opinions` is not installed."""
    lexicon = load_polarity_lexicon()
    return lexicon.label(text, language) if lexicon is not None and text else ""
