"""The words a page is clustered by: its most frequent telling stems, title and headings counted more. Pure."""

import re
from collections import Counter
from functools import lru_cache

import msgspec

from opilio.index.records import Document
from opilio.index.subtopics import Word
from opilio.text.languages import code_of
from opilio.text.stems import Stem, normalising
from opilio.text.stopwords import stop_words
from opilio.text.tokens import is_short, words

KEPT = 60
READ = 30_000  # characters of the text
TITLE, HEADINGS = 5, 2  # how often their words are counted
_FIGURE = re.compile(r"\d")
_decode = msgspec.msgpack.Decoder(list[Word]).decode
_encode = msgspec.msgpack.Encoder().encode


@lru_cache(maxsize=64)
def _stem(code: str) -> Stem:
    return normalising(code, "stem")


def words_of(page: Document) -> list[Word]:
    """The words of a page, most frequent first."""
    code = code_of(page.language)
    counts = Counter(words(page.body[:READ]))
    for text, times in ((page.title, TITLE), (page.headings[:READ], HEADINGS)):
        counts.update({word: times * n for word, n in Counter(words(text[:READ])).items()})
    stem, stop = _stem(code), stop_words(code)
    by_stem: dict[str, tuple[str, int, int]] = {}  # stem: best spelling, its count, count of all
    for word, count in counts.items():
        if is_short(word) or word in stop or _FIGURE.search(word):  # isalpha() knows no vowel signs
            continue
        key = stem(word)
        best, most, total = by_stem.get(key, (word, 0, 0))
        by_stem[key] = (word, count, total + count) if count > most else (best, most, total + count)
    ranked = sorted(by_stem.items(), key=lambda pair: (-pair[1][2], pair[0]))[:KEPT]
    return [Word(key, best, total) for key, (best, _, total) in ranked]


def pack(found: list[Word]) -> bytes:
    """Words for keeping.

    >>> unpack(pack([Word("wren", "wrens", 2)]))
    [Word(stem='wren', written='wrens', count=2)]
    """
    return _encode(found)


def unpack(blob: bytes) -> list[Word]:
    return _decode(blob) if blob else []
