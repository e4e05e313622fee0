"""Lists that answer no query (sitemaps, URL indexes, external links) in order of the words in their addresses. Pure."""

import re
from collections.abc import Iterable
from urllib.parse import unquote

_WORD = re.compile(r"\w{3,}")


def by_words(urls: Iterable[str], query: str) -> list[str]:
    """Those first whose path has most words of the query; equals stay in their order.

    >>> by_words(["https://a.example/about", "https://a.example/songs/wren-song.html"], "songs of the wren")
    ['https://a.example/songs/wren-song.html', 'https://a.example/about']
    """
    wanted = {stem for word in _WORD.findall(query.lower()) if (stem := _plain(word)) != "the"}

    def hits(url: str) -> int:
        path = unquote(url.partition("://")[2]).lower()
        return len(wanted & {_plain(word) for word in re.split(r"[\W_]+", path)})

    return sorted(urls, key=lambda url: -hits(url))


def _plain(word: str) -> str:
    """A word without its plural: enough to match addresses, in which words are few."""
    return word[:-1] if len(word) > 3 and word.endswith("s") else word
