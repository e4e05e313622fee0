"""Scripts that are written without spaces between words: Chinese, Japanese, Thai, Lao, Khmer, Burmese.

Thai text is divided by a list of 20,000 frequent words (data/thai_words.txt): from the left, the longest word that does
not end before a vowel or tone mark of its last letter. What lies between known words stays whole; it is mostly a name.
The other scripts give overlapping pairs of characters.

Thai words have three to five characters, so pairs do not distinguish them. Measured on 20,000 titles of an encyclopedia
in groups of 40, with the words of a dictionary-based segmenter as the reference (precision and recall of a query of one
word): pairs .04 and 1.00, triples .32 and 1.00, words .67 and .94. Words of two characters are lost in triples.
"""

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from itertools import pairwise

FIRST_UNSPACED = "\u0e00"  # Thai; from here on a single character can be a word
_THAI = "\u0e00-\u0e7f"
_OTHERS = (
    "\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua9e0-\ua9ff\uaa60-\uaa7f\uf900-\ufaff\U00020000-\U0003ffff"
)
UNSPACED_SCRIPTS = re.compile(f"[{_THAI}{_OTHERS}]+")
_RUNS = re.compile(f"[{_THAI}]+|[{_OTHERS}]+")
# Vowels and tone marks that belong to the letter before them: no word begins with one.
_FOLLOWING = frozenset("\u0e30\u0e31\u0e32\u0e33\u0e45") | {
    *map(chr, range(0x0E34, 0x0E3B)),
    *map(chr, range(0x0E47, 0x0E4F)),
}
# Vowels that are written before their letter: no word ends with one.
_LEADING = frozenset("\u0e40\u0e41\u0e42\u0e43\u0e44")
# The tokenizer's compatibility form of the vowel am is two characters; text that people write has one.
_SPLIT_AM, _AM = "\u0e4d\u0e32", "\u0e33"


def split_unspaced(text: str) -> str:
    """Folded text with spaces between the words of these scripts.

    >>> split_unspaced("in 東京都: การปลูกข้าว").split()
    ['in', '東京', '京都', ':', 'การ', 'ปลูก', 'ข้าว']
    """
    return _RUNS.sub(lambda run: f" {' '.join(_split_run(run.group()))} ", text)


def is_thai(word: str) -> bool:
    """True for a word that begins with a Thai letter."""
    return _THAI[0] <= word[:1] <= _THAI[-1]


def thai_words(run: str) -> list[str]:
    """The words of a run of Thai letters as they are written, for queries.

    >>> thai_words("น้ำตกในประเทศไทย")
    ['น้ำตก', 'ใน', 'ประเทศ', 'ไทย']
    """
    return [word.replace(_SPLIT_AM, _AM) for word in _divide(run.replace(_AM, _SPLIT_AM))]


def thai_word_list() -> list[str]:
    """The known words, most frequent first, in the tokenizer's form."""
    return files("opilio.text").joinpath("data/thai_words.txt").read_text(encoding="utf-8").split()


def _split_run(run: str) -> list[str]:
    if is_thai(run):
        return _divide(run)
    return [*map("".join, pairwise(run))] if len(run) > 1 else [run]


def _divide(run: str) -> list[str]:
    """The known words of a run, and what lies between them."""
    longest_word = _longest_word_finder()
    words: list[str] = []
    start = at = 0
    while at < len(run):
        length = longest_word(run, at)
        if not length:
            at += 1
            continue
        if start < at:
            words.append(run[start:at])
        words.append(run[at : at + length])
        start = at = at + length
    return [*words, run[start:]] if start < len(run) else words


@cache
def _longest_word_finder() -> Callable[[str, int], int]:
    """A function that gives the length of the longest word at a position of a run; 0 if there is none."""
    words = frozenset(word for word in thai_word_list() if word[0] not in _FOLLOWING and word[-1] not in _LEADING)
    # By the first two characters: most positions need no or few look-ups.
    lengths: dict[str, int] = {}
    for word in words:
        lengths[word[:2]] = max(lengths.get(word[:2], 0), len(word))

    def longest_word(run: str, at: int) -> int:
        length = min(lengths.get(run[at : at + 2], 0), len(run) - at)
        while length > 1 and (run[at : at + length] not in words or run[at + length : at + length + 1] in _FOLLOWING):
            length -= 1
        return length if length > 1 else 0

    return longest_word
