"""The words of a URL (S1-21): host and path split at delimiters, digits and inner capitals.

Scheme, `www`, public suffix, file extension and `index` are left out. The URL is treated as text: it need not be
canonical.
"""

import re
from collections.abc import Callable, Iterable
from itertools import chain
from urllib.parse import unquote

from opilio.text.tokens import tokenize
from opilio.text.vocabulary import Vocabulary

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

    def __init__(self, vocabulary: Vocabulary, capacity: int = 20_000) -> None:
        self._vocabulary = vocabulary
        self._capacity = capacity
        self._hosts = _UrlTermCache(self._host_terms, capacity)
        self._segments = _UrlTermCache(self._segment_terms, capacity)

    def __reduce__(self) -> tuple[type["UrlTerms"], tuple[Vocabulary, int]]:
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
