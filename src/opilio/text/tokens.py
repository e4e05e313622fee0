"""The tokenizer: text to lower-case words, for pages, anchors, topics, queries and URLs.

A word is a run of letters, digits and combining marks in any script. Numbers are words (S4-E4). Hyphens and underscores
separate words; possessive and contracted endings ('s, 't, 'll ...) are removed. Scripts written without spaces are
divided into words or pairs of characters (`unspaced`). The vocabulary does stemming and stop words.

`bytes.translate` and `split` are eight times as fast as a regular expression (measured), so text that is not ASCII is
processed per distinct character, not per character.
"""

import re
import unicodedata
from functools import lru_cache

import numpy as np

from opilio.core.page import BLOCK_BREAK, LINK_END, LINK_START
from opilio.text.unspaced import FIRST_UNSPACED, UNSPACED_SCRIPTS, split_unspaced

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
