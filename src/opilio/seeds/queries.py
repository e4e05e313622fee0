"""Queries for more seeds, made from the topic's table and from relevant pages (relevance feedback, as Vieira et al.
2016 do it), and when to stop. Pure.

A query is the topic's two heaviest words and one further word: of the table, or one by which relevant pages differ from
the others. The two kinds take turns, so that a table that never grows does not decide alone.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

from opilio.text.tokens import is_short, words

CORE = 2  # words that every query has
SEEN_TWICE = 2  # a word of one relevant page only tells of that page
WINDOW = 3  # queries by whose pages it is decided whether to ask on
ENOUGH = 5  # pages, below which nothing is decided

IsWord = Callable[[str], bool]


class Yield(NamedTuple):
    """What came of one query: of its new addresses, those that were judged, and those found relevant."""

    query: str
    judged: int
    relevant: int


def telling_words(relevant: Iterable[str], others: Iterable[str], is_word: IsWord, most: int = 30) -> list[str]:
    """Words by which the short texts (titles) of relevant pages differ from those of other pages, most telling first.

    >>> telling_words(["wren song", "song of wrens", "wren nest"], ["car song"], str.isalpha)[:2]
    ['wren', 'song']
    """
    good, bad = _counted(relevant, is_word), _counted(others, is_word)
    pages, rest = max(1, good.total_pages), max(1, bad.total_pages)

    def weight(word: str) -> float:
        share = good[word] / pages
        return share * (share / (share + (bad[word] + 0.5) / (rest + 1)))

    kept = [word for word, count in good.items() if count >= SEEN_TWICE and not is_short(word)]
    return sorted(kept, key=lambda word: (-weight(word), word))[:most]


def candidates(name: str, keywords: Sequence[str], telling: Sequence[str]) -> Iterator[str]:
    """Queries in the order they are worth asking; the topic's own name first.

    >>> list(candidates("wrens", ["wren", "bird", "nest"], ["song"]))[:3]
    ['wrens', 'wren bird nest', 'wren bird song']
    """
    core = list(keywords[:CORE]) or words(name)[:CORE]
    turns = chain.from_iterable(zip_longest(keywords[CORE:], telling))
    further = [word for word in dict.fromkeys(turns) if word and word not in core]
    if name:
        yield name
    for common in (core, core[:1]):  # when all were asked, the same again with less in common
        yield from (" ".join([*common, word]) for word in further)


def next_query(offered: Iterable[str], asked: Collection[str]) -> str:
    """The first that was not asked yet, in whatever order of words; empty where all were."""
    known = {frozenset(words(query)) for query in asked}
    return next((query for query in offered if frozenset(words(query)) not in known), "")


def worn_out(yields: Sequence[Yield], precision: float) -> str:
    """Why asking on is not worth it, by what the last queries brought; empty where it is."""
    last = [one for one in yields if one.judged][-WINDOW:]
    judged, relevant = sum(one.judged for one in last), sum(one.relevant for one in last)
    if judged >= ENOUGH and relevant < precision * judged:
        return f"of {judged} pages that the last queries brought, {relevant} were relevant"
    return ""


class _Counts(Counter[str]):
    total_pages = 0


def _counted(texts: Iterable[str], is_word: IsWord) -> _Counts:
    """In how many texts each word stands."""
    counts = _Counts()
    for text in texts:
        counts.total_pages += 1
        counts.update({word for word in words(text) if is_word(word)})
    return counts
