"""Lists that answer no query (sitemaps, URL indexes, external links) in order of the words in their addresses. Pure."""

from collections.abc import Iterable
from urllib.parse import unquote

from opilio.text.tokens import is_short, words


def by_words(urls: Iterable[str], query: str) -> list[str]:
    """Those first whose path has most words of the query; equals stay in their order.

    >>> by_words(["https://a.example/about", "https://a.example/songs/wren-song.html"], "songs of the wren")
    ['https://a.example/songs/wren-song.html', 'https://a.example/about']
    """
    wanted = {_plain(word) for word in words(query) if not is_short(word) and word != "the"}

    def hits(url: str) -> int:
        return len(wanted.intersection(map(_plain, words(unquote(url.partition("://")[2])))))

    return sorted(urls, key=lambda url: -hits(url))


def _plain(word: str) -> str:
    """A word without its plural: enough to match addresses, in which words are few."""
    return word[:-1] if len(word) > 3 and word.endswith("s") else word
