"""Text to index terms: one analyser per language, and one that keeps words as they are written.

Stemmed terms of all languages share the fields of the schema; a query is stemmed by each language that the
collection holds. Scripts written without spaces become overlapping pairs of characters, as in `text.tokens`.
Native code does the work: Python only picks the analyser.
"""

import re
import unicodedata
from functools import cache, lru_cache

import tantivy

from opilio.text.languages import code_of, name_of
from opilio.text.tokens import UNSPACED

LONGEST_TERM = 64  # bytes; longer runs are no words that anybody asks for
STEMMED = frozenset("ar da nl en fi fr de el hu it no pt ro ru es sv ta tr".split())
PLAIN = "plain"  # name of the analyser of fields that keep words as written
_UNWANTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")

_WIDE = re.compile("[\uff00-\uffef]+")  # only these: NFKC of all else would make one word of "wren" and its ™ or note


def clean(text: str, longest: int) -> str:
    """Text that can be stored and shown: valid, cut, without control characters and direction overrides.

    >>> clean("a\\u202eb\\x00c\\ud800d", 10)
    'abc?d'
    """
    return _UNWANTED.sub("", valid(text[: 2 * longest]))[:longest]


def valid(text: str) -> str:
    """Text that can be encoded: half characters, as in a damaged argument of a command, become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def spaced(text: str) -> str:
    """Text as analysers take it: accents joined to their letters, wide and narrow forms as the usual ones, and runs
    without spaces as pairs of characters with spaces between.

    >>> spaced("in 東京都 now"), spaced("u\u0308ber"), spaced("ＷＲＥＮ")
    ('in  東京 京都  now', 'über', 'WREN')
    """
    if text.isascii():
        return text
    joined = _WIDE.sub(lambda run: unicodedata.normalize("NFKC", run[0]), unicodedata.normalize("NFC", text))
    return UNSPACED.sub(lambda run: f" {_pairs(run[0])} ", joined)


def _pairs(run: str) -> str:
    return " ".join(run[i : i + 2] for i in range(max(1, len(run) - 1)))


@cache
def analyser(language: str = "") -> tantivy.TextAnalyzer:
    """The analyser of a language; of an unknown one, or none, the one that keeps words as written."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    builder = builder.filter(tantivy.Filter.remove_long(LONGEST_TERM)).filter(tantivy.Filter.lowercase())
    if language in STEMMED:
        builder = builder.filter(tantivy.Filter.stemmer(name_of(language)))
    return builder.filter(tantivy.Filter.ascii_fold()).build()


@lru_cache(maxsize=256)
def analyser_for(tag: str) -> tantivy.TextAnalyzer:
    """The analyser for a page's language tag; languages without a stemmer share one."""
    code = code_of(tag)
    return analyser(code if code in STEMMED else "")


def terms(text: str, language: str = "") -> list[str]:
    """The index terms of a short text.

    >>> terms("Cafés in 東京都", "fr")
    ['caf', 'in', '東京', '京都']
    """
    found: list[str] = analyser_for(language).analyze(spaced(text))
    return found
