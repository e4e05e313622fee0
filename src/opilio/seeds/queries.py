"""Queries for more seeds, made from the topic's table and from relevant pages (relevance feedback, as Vieira et al.
2016 do it), and when to stop. Pure.

A query is the topic's two heaviest words and one further word: of the table, or one by which relevant pages differ from
the others. The two kinds take turns, so that a table that never grows does not decide alone.

How an engine that knows no genres is asked for one: by words (S3-02). Pure.

Queries that lead away from a topic, for irrelevant seeds (S1-16, S1-E1). Pure.

Lists that answer no query (sitemaps, URL indexes, external links) in order of the words in their addresses. Pure.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple
from urllib.parse import unquote

from opilio.text.tokens import is_short_word, tokenize, tokenize_verbatim

CORE_WORDS = 2  # words that every query has
MIN_WORD_PAGES = 2  # a word of one relevant page only tells of that page
YIELD_WINDOW_QUERIES = 3  # queries by whose pages it is decided whether to ask on
MIN_JUDGED_PAGES = 5  # pages, below which nothing is decided

IsWord = Callable[[str], bool]


class QueryYield(NamedTuple):
    """What came of one query: of its new addresses, those that were judged, and those found relevant."""

    query: str
    judged: int
    relevant: int


def distinctive_words(relevant: Iterable[str], others: Iterable[str], is_word: IsWord, most: int = 30) -> list[str]:
    """Words by which the short texts (titles) of relevant pages differ from those of other pages, most telling first.

    >>> distinctive_words(["wren song", "song of wrens", "wren nest"], ["car song"], str.isalpha)[:2]
    ['wren', 'song']
    """
    good, bad = _count_word_pages(relevant, is_word), _count_word_pages(others, is_word)
    pages, rest = max(1, good.total_pages), max(1, bad.total_pages)

    def weight(word: str) -> float:
        share = good[word] / pages
        return share * (share / (share + (bad[word] + 0.5) / (rest + 1)))

    kept = [word for word, count in good.items() if count >= MIN_WORD_PAGES and not is_short_word(word)]
    return sorted(kept, key=lambda word: (-weight(word), word))[:most]


def candidate_queries(name: str, keywords: Sequence[str], telling: Sequence[str]) -> Iterator[str]:
    """Queries in the order they are worth asking; the topic's own name first.

    >>> list(candidate_queries("wrens", ["wren", "bird", "nest"], ["song"]))[:3]
    ['wrens', 'wren bird nest', 'wren bird song']
    """
    core = list(keywords[:CORE_WORDS]) or tokenize(name)[:CORE_WORDS]
    turns = chain.from_iterable(zip_longest(keywords[CORE_WORDS:], telling))
    further = [word for word in dict.fromkeys(turns) if word and word not in core]
    if name:
        yield name
    # When all were asked, the same again with less in common
    for common in (core, core[:1]):
        yield from (" ".join([*common, word]) for word in further)


def next_query(offered: Iterable[str], asked: Collection[str]) -> str:
    """The first that was not asked yet, in whatever order of words; empty where all were."""
    known = {frozenset(tokenize(query)) for query in asked}
    return next((query for query in offered if frozenset(tokenize(query)) not in known), "")


def exhaustion_reason(yields: Sequence[QueryYield], precision: float) -> str:
    """Why asking on is not worth it, by what the last queries brought; empty where it is."""
    last = [one for one in yields if one.judged][-YIELD_WINDOW_QUERIES:]
    judged, relevant = sum(one.judged for one in last), sum(one.relevant for one in last)
    if judged >= MIN_JUDGED_PAGES and relevant < precision * judged:
        return f"of {judged} pages that the last queries brought, {relevant} were relevant"
    return ""


class _WordPageCounts(Counter[str]):
    total_pages = 0


def _count_word_pages(texts: Iterable[str], is_word: IsWord) -> _WordPageCounts:
    """In how many texts each word stands."""
    counts = _WordPageCounts()
    for text in texts:
        counts.total_pages += 1
        counts.update({word for word in tokenize(text) if is_word(word)})
    return counts


GENRE_QUERY_WORDS = {"news": "news", "discussions": "forum discussion", "blogs": "blog", "web": ""}


def add_genre_words(query: str, genre: str) -> str:
    """The query with the words that stand for a genre.

    >>> add_genre_words("audi quattro", "discussions"), add_genre_words("audi quattro", "")
    ('audi quattro forum discussion', 'audi quattro')
    """
    return f"{query} {GENRE_QUERY_WORDS.get(genre, genre)}".strip()


def shorten_query(query: str, words: int, characters: int) -> str:
    """A query cut to what an engine takes, between words."""
    kept = " ".join(query.split()[:words])
    return kept if len(kept) <= characters else kept[:characters].rpartition(" ")[0] or kept[:characters]


def plain_query(query: str) -> str:
    """A query in plain words, for a search that gives signs a meaning of their own.

    >>> plain_query('title:wren -"song thrush"')
    'title wren song thrush'
    """
    return " ".join(tokenize_verbatim(query))


# The wide fields that libraries sort everything into, one query each.
# fmt: off
OFF_TOPIC_FIELDS = (
    "cooking recipes", "football results", "railway timetable", "personal finance advice", "medieval history",
    "jazz music concerts", "garden plants", "software tutorial", "travel guide", "court law", "chemistry experiments",
    "film reviews", "religion and philosophy", "house building", "health and medicine", "weather and climate",
)
# fmt: on


def off_topic_queries(topic: Iterable[str], contexts: Sequence[str] = (), most: int = 5) -> list[str]:
    """Queries without a word of the topic: senses that are not meant first, as they teach most, then wide fields.

    >>> off_topic_queries(["garden", "plants", "medicine"], ["jungle cat"], most=3)
    ['jungle cat', 'cooking recipes', 'football results']
    """
    own = {word for text in topic for word in tokenize(text) if not is_short_word(word)}
    queries = [query for query in (*contexts, *OFF_TOPIC_FIELDS) if own.isdisjoint(tokenize(query))]
    return queries[:most]


def sort_by_query_words(urls: Iterable[str], query: str) -> list[str]:
    """Those first whose path has most words of the query; equals stay in their order.

    >>> sort_by_query_words(["https://a.example/about", "https://a.example/songs/wren-song.html"], "songs of the wren")
    ['https://a.example/songs/wren-song.html', 'https://a.example/about']
    """
    wanted = {_strip_plural(word) for word in tokenize(query) if not is_short_word(word) and word != "the"}

    def hits(url: str) -> int:
        return len(wanted.intersection(map(_strip_plural, tokenize(unquote(url.partition("://")[2])))))

    return sorted(urls, key=lambda url: -hits(url))


def _strip_plural(word: str) -> str:
    """A word without its plural: enough to match addresses, in which words are few."""
    return word[:-1] if len(word) > 3 and word.endswith("s") else word
