"""Queries to seed sources: which one comes next, in which words an engine gets it, and how it orders a list of URLs.

A further query (relevance feedback as in Vieira et al. 2016) is the topic's two heaviest words and one more: from the
table, or one that distinguishes relevant pages from others. The two kinds alternate, so that a static table does not
decide alone. Lists that answer no query (sitemaps, URL indexes, external links) are sorted by the query's words.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, zip_longest
from typing import NamedTuple
from urllib.parse import unquote

from opilio.text.tokens import is_short_word, tokenize, tokenize_verbatim

CORE_WORDS = 2  # words in every query
MIN_WORD_PAGES = 2  # words of a single page are ignored
# Last queries whose pages decide whether to continue.
YIELD_WINDOW_QUERIES = 3
MIN_JUDGED_PAGES = 5  # pages needed for a decision

IsWord = Callable[[str], bool]


class QueryYield(NamedTuple):
    """The result of a query: how many of its new URLs were judged, and how many were relevant."""

    query: str
    judged: int
    relevant: int


def distinctive_words(relevant: Iterable[str], others: Iterable[str], is_word: IsWord, limit: int = 30) -> list[str]:
    """Words that distinguish the titles of relevant pages from those of other pages, most distinctive first.

    >>> distinctive_words(["wren song", "song of wrens", "wren nest"], ["car song"], str.isalpha)[:2]
    ['wren', 'song']
    """
    good, bad = _count_word_pages(relevant, is_word), _count_word_pages(others, is_word)
    pages, rest = max(1, good.total_pages), max(1, bad.total_pages)

    def weight(word: str) -> float:
        share = good[word] / pages
        return share * (share / (share + (bad[word] + 0.5) / (rest + 1)))

    kept = [word for word, count in good.items() if count >= MIN_WORD_PAGES and not is_short_word(word)]
    return sorted(kept, key=lambda word: (-weight(word), word))[:limit]


def candidate_queries(name: str, keywords: Sequence[str], distinctive: Sequence[str]) -> Iterator[str]:
    """Further queries in order of expected value; the topic's name first.

    >>> list(candidate_queries("wrens", ["wren", "bird", "nest"], ["song"]))[:3]
    ['wrens', 'wren bird nest', 'wren bird song']
    """
    core = list(keywords[:CORE_WORDS]) or tokenize(name)[:CORE_WORDS]
    alternating = chain.from_iterable(zip_longest(keywords[CORE_WORDS:], distinctive))
    further = [word for word in dict.fromkeys(alternating) if word and word not in core]
    if name:
        yield name
    # When all were used, the same with one core word less.
    for common in (core, core[:1]):
        yield from (" ".join([*common, word]) for word in further)


def next_query(candidates: Iterable[str], used: Collection[str]) -> str:
    """The first candidate that was not used yet in any word order; empty if there is none."""
    known = {frozenset(tokenize(query)) for query in used}
    return next((query for query in candidates if frozenset(tokenize(query)) not in known), "")


def exhaustion_reason(yields: Sequence[QueryYield], precision: float) -> str:
    """Why further queries are not worthwhile, by the results of the last ones; empty if they are."""
    last = [one for one in yields if one.judged][-YIELD_WINDOW_QUERIES:]
    judged, relevant = sum(one.judged for one in last), sum(one.relevant for one in last)
    if judged >= MIN_JUDGED_PAGES and relevant < precision * judged:
        return f"{relevant} of {judged} pages from the last queries were relevant"
    return ""


class _WordPageCounts(Counter[str]):
    total_pages = 0


def _count_word_pages(texts: Iterable[str], is_word: IsWord) -> _WordPageCounts:
    """The number of texts that contain each word."""
    counts = _WordPageCounts()
    for text in texts:
        counts.total_pages += 1
        counts.update({word for word in tokenize(text) if is_word(word)})
    return counts


GENRE_QUERY_WORDS = {"news": "news", "discussions": "forum discussion", "blogs": "blog", "web": ""}


def add_genre_words(query: str, genre: str) -> str:
    """The query with the words for a genre, for engines without genres (S3-02).

    >>> add_genre_words("audi quattro", "discussions"), add_genre_words("audi quattro", "")
    ('audi quattro forum discussion', 'audi quattro')
    """
    return f"{query} {GENRE_QUERY_WORDS.get(genre, genre)}".strip()


def shorten_query(query: str, words: int, characters: int) -> str:
    """A query cut between words to an engine's limits."""
    kept = " ".join(query.split()[:words])
    return kept if len(kept) <= characters else kept[:characters].rpartition(" ")[0] or kept[:characters]


def plain_query(query: str) -> str:
    """A query as plain words, for engines in which punctuation is syntax.

    >>> plain_query('title:wren -"song thrush"')
    'title wren song thrush'
    """
    return " ".join(tokenize_verbatim(query))


# One query for each broad field of library classifications.
# fmt: off
OFF_TOPIC_FIELDS = (
    "cooking recipes", "football results", "railway timetable", "personal finance advice", "medieval history",
    "jazz music concerts", "garden plants", "software tutorial", "travel guide", "court law", "chemistry experiments",
    "film reviews", "religion and philosophy", "house building", "health and medicine", "weather and climate",
)
# fmt: on


def off_topic_queries(topic: Iterable[str], contexts: Sequence[str] = (), limit: int = 5) -> list[str]:
    """Queries without words of the topic (S1-16, S1-E1): other senses first, as they teach most, then broad fields.

    >>> off_topic_queries(["garden", "plants", "medicine"], ["jungle cat"], limit=3)
    ['jungle cat', 'cooking recipes', 'football results']
    """
    own = {word for text in topic for word in tokenize(text) if not is_short_word(word)}
    queries = [query for query in (*contexts, *OFF_TOPIC_FIELDS) if own.isdisjoint(tokenize(query))]
    return queries[:limit]


def sort_by_query_words(urls: Iterable[str], query: str) -> list[str]:
    """URLs sorted by the number of the query's words in them; equals keep their order.

    >>> sort_by_query_words(["https://a.example/about", "https://a.example/songs/wren-song.html"], "songs of the wren")
    ['https://a.example/songs/wren-song.html', 'https://a.example/about']
    """
    return sorted(urls, key=lambda url: -count_query_words(url, query))


def count_query_words(url: str, query: str) -> int:
    """The number of the query's words in a URL."""
    return len(_query_words(query).intersection(map(_strip_plural, tokenize(unquote(url.partition("://")[2])))))


@lru_cache(maxsize=8)
def _query_words(query: str) -> frozenset[str]:
    return frozenset(_strip_plural(word) for word in tokenize(query) if not is_short_word(word) and word != "the")


def _strip_plural(word: str) -> str:
    """A word without its plural ending, enough to match words in URLs."""
    return word[:-1] if len(word) > 3 and word.endswith("s") else word
