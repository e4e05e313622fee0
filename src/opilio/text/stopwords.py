"""Stop words by language: words that say nothing about a topic.

`new` is not one; `of` and `for` are (S4-E3). Written as the tokeniser leaves them: lower case, without
apostrophes, contracted words cut at theirs (`don't` is `don`).
"""

from functools import cache

from opilio.text.languages import code_of

_LISTS = {
    "en": """
        a about above after again against ain all also although am among an and any are aren around as at away be
        because been before being below between both but by can cannot could couldn did didn do does doesn doing don
        done down during each either else etc even ever every few for from further get gets got had hadn has hasn
        have haven having he hence her here hers herself him himself his how however i if in into is isn it its
        itself just let like ll may me might mightn more most much must mustn my myself needn neither no nor not
        of off often on once one only onto or other others ought our ours ourselves out over own per quite rather re
        same shall shan she should shouldn since so some such than that the their theirs them themselves then there
        therefore these they this those though through thus to too toward towards under until up upon us ve very via
        was wasn we were weren what whatever when where whether which while who whom whose why will with within
        without won would wouldn yet you your yours yourself yourselves
    """,
}


@cache
def stop_words(language: str) -> frozenset[str]:
    """The stop words of a language; none for one that is not known.

    >>> "of" in stop_words("en"), "new" in stop_words("english")
    (True, False)
    """
    return frozenset(_LISTS.get(code_of(language), "").split())
