"""The tokenizer: text to lower-case words, for pages, anchors, topics, queries and URLs.

A word is a run of letters, digits and combining marks in any script. Numbers are words (S4-E4). Hyphens and underscores
separate words; possessive and contracted endings ('s, 't, 'll ...) are removed. The vocabulary does stemming and stop
words.

`bytes.translate` and `split` are eight times as fast as a regular expression (measured), so text that is not ASCII is
processed per distinct character, not per character.

Some scripts are written without spaces between words: Chinese, Japanese, Thai, Lao, Khmer, Burmese. Thai text is
divided by a list of 20,000 frequent words (data/thai_words.txt): from the left, the longest word that does not end
before a vowel or tone mark of its last letter. What lies between known words stays whole; it is mostly a name. The
other scripts give overlapping pairs of characters. Thai words have three to five characters, so pairs do not
distinguish them. Measured on 20,000 titles of an encyclopedia in groups of 40, with the words of a dictionary-based
segmenter as the reference (precision and recall of a query of one word): pairs .04 and 1.00, triples .32 and 1.00,
words .67 and .94. Words of two characters are lost in triples.

The words of a URL (S1-21) are those of its host and path, split at delimiters, digits and inner capitals, without
scheme, `www`, public suffix, file extension and `index`. The URL is treated as text: it need not be canonical.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain, pairwise
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np

from opilio.core.records import BLOCK_BREAK, LINK_END, LINK_START

if TYPE_CHECKING:
    from opilio.text.vocabulary import Vocabulary


# Thai; from here on a single character can be a word.
FIRST_UNSPACED = "\u0e00"
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
    """A function that gives the length of the longest word at a position of a run; 0 without a word."""
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


SENTENCE_END = "\x05"
MARKS = (LINK_START, LINK_END, BLOCK_BREAK, SENTENCE_END)
_MARK_BYTES = tuple(mark.encode() for mark in MARKS)

_ASCII = bytes(range(128))
_APOSTROPHES = "\u2019\u02bc\u2018\uff07\u201b`\u00b4"
# Begins with a literal, so that `re` searches with memchr: text without an apostrophe costs nothing.
# In folded text every non-ASCII byte belongs to a word, so the end of a word is found without decoding.
_CONTRACTION = re.compile(rb"'(?:(?:s|t|d|m|ll|re|ve)(?![0-9a-z\x80-\xff]))?")
# More distinct characters to change than this: lower() first is cheaper than that many replaces (measured)
_MAX_REPLACED_CHARS = 24
# One pass of `translate` takes as long as this many of `replace` (measured)
_MAX_PASSES = 400
# From here on a NumPy array finds distinct characters faster than a set of strings
_MIN_CHARS_FOR_NUMPY = 500


def _translation_table(kept: str) -> bytes:
    """A table that lower-cases ASCII letters, keeps digits, `kept` and UTF-8 sequences, and blanks all else."""
    lowered = (chr(b).lower().encode("latin-1") if chr(b).isalnum() or chr(b) in kept else b" " for b in range(128))
    return b"".join(lowered) + bytes(range(128, 256))


_WORDS_ONLY = _translation_table("'")
_WORDS_AND_MARKS = _translation_table("'" + "".join(MARKS))


def tokenize(text: str) -> list[str]:
    """The words of a text.

    >>> tokenize("Don't miss Kejriwal's new e-mail: Ærø, 2014!")
    ['don', 'miss', 'kejriwal', 'new', 'e', 'mail', 'ærø', '2014']
    """
    return tokenize_bytes(text).decode().split()


def tokenize_verbatim(text: str) -> list[str]:
    """The words of a text as written, for names and queries: no folding, no contractions, no pairs.

    >>> tokenize_verbatim('title:Wren -"हिन्दी भाषा"')
    ['title', 'Wren', 'हिन्दी', 'भाषा']
    """
    return "".join(c if unicodedata.category(c)[0] in "LNM" else " " for c in text).split()


def is_short_word(word: str, letters: int = 3) -> bool:
    """True for a word that is too short to carry meaning. Scripts whose pairs of characters are words are exempt."""
    return len(word) < letters and word < FIRST_UNSPACED


def tokenize_bytes(text: str) -> bytes:
    """The words as UTF-8 separated by spaces, for callers that need no string per word."""
    return _fold(text, _WORDS_ONLY)


def tokenize_marked(flow: str) -> list[str]:
    """The words of a page's flow; its marks are words too.

    >>> tokenize_marked("See \\x02the list\\x03.\\x04Next")
    ['see', '\\x02', 'the', 'list', '\\x03', '\\x04', 'next']
    """
    return tokenize_marked_bytes(flow).decode().split()


def tokenize_marked_bytes(flow: str) -> bytes:
    """The words and marks as UTF-8 separated by spaces."""
    folded = _fold(flow, _WORDS_AND_MARKS)
    for mark in _MARK_BYTES:
        if mark in folded:
            folded = folded.replace(mark, b" %b " % mark)
    return folded


def _fold(text: str, table: bytes) -> bytes:
    """The text in lower case, with spaces for everything that is neither part of a word nor kept by the table."""
    unspaced = False
    if not text.isascii():
        text, unspaced = _fold_non_ascii(text)
    folded = text.encode("utf-8", "replace").translate(table)
    if unspaced:
        folded = split_unspaced(folded.decode()).encode()
    return _CONTRACTION.sub(b" ", folded) if b"'" in folded else folded


def _fold_non_ascii(text: str) -> tuple[str, bool]:
    """Fold every non-ASCII character; also returns whether the text has characters written without spaces."""
    distinct = _non_ascii_chars(text)
    if any(unicodedata.category(char) == "Mn" for char in distinct):
        text = unicodedata.normalize("NFKC", text)
        distinct = _non_ascii_chars(text)
    changed = {char: folded_char for char in distinct if (folded_char := _fold_char(char)) != char}
    if len(changed) > _MAX_REPLACED_CHARS:
        # Capitals of another alphabet: one pass for all of them
        text = text.lower().replace("i\u0307", "i")
        lowered = set("".join(distinct).lower())
        changed = {char: folded_char for char in lowered if char > "\x7f" and (folded_char := _fold_char(char)) != char}
    if len(changed) > _MAX_PASSES:
        # One pass for each would take quadratic time: a page may have 100,000 different characters.
        text = text.translate({ord(char): folded_char for char, folded_char in changed.items()})
    else:
        for char, folded_char in changed.items():
            text = text.replace(char, folded_char)
    return text, UNSPACED_SCRIPTS.search("".join((*distinct, *changed.values()))) is not None


def _non_ascii_chars(text: str) -> set[str]:
    """The distinct non-ASCII characters: ASCII bytes are deleted first, and an array is used if many are left."""
    found = text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")
    if len(found) < _MIN_CHARS_FOR_NUMPY:
        return set(found)
    codes = np.frombuffer(found.encode("utf-32-le", "surrogatepass"), np.uint32)
    present = np.zeros(int(codes.max()) + 1, dtype=bool)
    present[codes] = True
    return set(map(chr, np.flatnonzero(present).tolist()))


@lru_cache(maxsize=1 << 16)
def _fold_char(char: str) -> str:
    """The folded form of a non-ASCII character: lower case, compatibility form, a space, or nothing."""
    if char in _APOSTROPHES:
        return "'"
    # Soft hyphen, joiners, byte order mark: invisible inside words
    if unicodedata.category(char) == "Cf":
        return ""
    lowered = unicodedata.normalize("NFKC", char).lower().replace("i\u0307", "i")
    return "".join(c if unicodedata.category(c)[0] in "LNM" else " " for c in lowered)


# birdSong, HTMLPage, page12, 12page
_WORD_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
_EXTENSION = re.compile(
    r"\.(?:[sx]?html?|php\d?|phtml|aspx?|jspx?|cgi|pl|cfm|do|txt|xml|pdf|docx?|md)(?=$|[?;])", re.IGNORECASE
)
_GENERIC_NAMES = frozenset({"index", "default", "home", "main", "welcome"})
_SECOND_LEVEL = frozenset({"ac", "co", "com", "edu", "gob", "gouv", "gov", "govt", "mil", "net", "or", "org", "sch"})
_WWW_LABEL = re.compile(r"www\d*$")


def url_words(url: str) -> list[str]:
    """The words of a URL that describe its content.

    >>> url_words("https://www.birds.example.co.uk/Song_Birds/wren12.html?lang=en")
    ['birds', 'example', 'song', 'birds', 'wren', '12', 'lang', 'en']
    """
    host, segments = _split_url(url)
    return list(chain(_host_words(host), *map(_segment_words, segments)))


class _UrlTermCache(dict[str, tuple[int, ...]]):
    """A cache that is emptied when full: consecutive pages share most of their segments, distant pages do not."""

    def __init__(self, compute: Callable[[str], tuple[int, ...]], capacity: int) -> None:
        super().__init__()
        self._compute = compute
        self._capacity = capacity

    def __missing__(self, text: str) -> tuple[int, ...]:
        if len(self) >= self._capacity:
            self.clear()
        self[text] = answer = self._compute(text)
        return answer


class UrlTerms:
    """The terms of URLs. Hosts and path segments are cached: the links of a page share most of them."""

    def __init__(self, vocabulary: "Vocabulary", capacity: int = 20_000) -> None:
        self._vocabulary = vocabulary
        self._capacity = capacity
        self._hosts = _UrlTermCache(self._host_terms, capacity)
        self._segments = _UrlTermCache(self._segment_terms, capacity)

    def __reduce__(self) -> "tuple[type[UrlTerms], tuple[Vocabulary, int]]":
        """The cache is not sent to other processes."""
        return UrlTerms, (self._vocabulary, self._capacity)

    def terms(self, url: str) -> list[int]:
        """The terms of one URL, in order, without stop words and noise."""
        host, segments = _split_url(url)
        found = [*self._hosts[host]]
        for segment in segments:
            found += self._segments[segment]
        return found

    def terms_batch(self, urls: Iterable[str]) -> list[list[int]]:
        """The terms of each URL."""
        return list(map(self.terms, urls))

    def _host_terms(self, host: str) -> tuple[int, ...]:
        return self._to_terms(_host_words(host))

    def _segment_terms(self, segment: str) -> tuple[int, ...]:
        return self._to_terms(_segment_words(segment))

    def _to_terms(self, found: list[str]) -> tuple[int, ...]:
        return tuple(self._vocabulary.join_phrases(list(filter(None, map(self._vocabulary.__getitem__, found)))))


def _split_url(url: str) -> tuple[str, list[str]]:
    """Host and path segments; the query stays with the last segment, so that both are cached together."""
    pieces = url.split("/")
    if len(pieces) > 2 and not pieces[1] and pieces[0][-1:] == ":":
        return pieces[2], pieces[3:]
    return "", pieces


def _host_words(host: str) -> list[str]:
    name = host.rpartition("@")[2].partition(":")[0]
    labels = name.split(".")
    # An IP address has no public suffix.
    if not labels[-1].isdigit():
        labels = labels[:-1]
        labels = labels[:-1] if len(labels) > 1 and labels[-1] in _SECOND_LEVEL else labels
    return tokenize(_WORD_BOUNDARY.sub(" ", " ".join(label for label in labels if not _WWW_LABEL.match(label))))


def _segment_words(segment: str) -> list[str]:
    path, mark, query = _EXTENSION.sub("", segment).partition("?")
    name = "" if path.lower() in _GENERIC_NAMES else path
    return tokenize(_WORD_BOUNDARY.sub(" ", unquote(f"{name}{mark}{query}").replace("_", " ")))
