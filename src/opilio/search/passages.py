"""Passages: the parts of pages that answer a query best, with highlights and a citation.

The best pages are split into passages of a few sentences. A passage is scored by the words of the query that it
contains, weighted by rarity, where words of the title count half; by the similarity of its meaning; by the score of its
page; and by its share of stop words, because lists of names and headings answer nothing.
"""

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from opilio.core.display import Displayable, html_table
from opilio.search.candidates import SearchCandidate
from opilio.search.ranking import Search
from opilio.search.results import rich_passages
from opilio.search.schema import STORED_TEXT_FIELD
from opilio.search.snippet import PROSE_SHARE, Highlighter, TermMatch, stop_word_share
from opilio.text.languages import stop_words
from opilio.text.word_vectors import Vectors, load_surface_vectors, text_vector

MIN_PASSAGE, MAX_PASSAGE = 250, 900  # characters
# Pages that are read for each wanted passage.
PAGES_PER_PASSAGE = 2
MIN_PAGES = 10
MAX_PER_PAGE = 3
TITLE_SHARE, PAGE_WEIGHT, MEANING_WEIGHT = 0.5, 0.7, 0.5
PROSE_WEIGHT = 0.5
_SENTENCE_END = re.compile(r"[.!?。！？][\"'”’)\]]*\s+")


class Passage(Displayable, msgspec.Struct, frozen=True, kw_only=True):
    """A passage of a page."""

    text: str
    # Start and end of the query's words in `text`.
    highlights: tuple[tuple[int, int], ...]
    url: str
    title: str
    host: str
    # Title, host, date, URL and time of the fetch.
    citation: str
    # Names of the collections that contain the page.
    collections: tuple[str, ...]
    language: str = ""
    date: float = 0.0
    fetched_at: float = 0.0
    relevance: float = 0.0  # the judge's score of the page
    relevant: bool = False
    score: float = 0.0


class PassageResults(Displayable, msgspec.Struct, frozen=True, kw_only=True):
    """The best passages, and remarks on the query as for a search."""

    query: str
    passages: tuple[Passage, ...]
    suggestion: str = ""
    notes: tuple[str, ...] = ()
    took_s: float = 0.0

    def __iter__(self) -> Iterator[Passage]:
        return iter(self.passages)

    def __len__(self) -> int:
        return len(self.passages)

    def __rich__(self) -> Any:  # noqa: ANN401 - rich is imported where it is used
        return rich_passages(self.passages)

    def _repr_html_(self) -> str:
        return html_table(("text", "citation"), [(passage.text, passage.citation) for passage in self.passages])


def find_passages(search: Search, query: str, limit: int) -> PassageResults:
    """The best passages of the best pages."""
    matches, notes = search.find_with_notes()
    scorer = _PassageScorer(search)
    best = matches.found[0].score if matches.found else 0.0
    read = matches.found[: max(MIN_PAGES, PAGES_PER_PASSAGE * limit)]
    found = [passage for one in read for passage in scorer.passages(one, math.exp(one.score - best))]
    ranked = sorted(found, key=lambda passage: -passage.score)[:limit]
    return PassageResults(query=query, passages=tuple(ranked), suggestion=search.suggestion(matches.total), notes=notes)


class _PassageScorer:
    """Splits pages into passages and scores them for one search."""

    def __init__(self, search: Search) -> None:
        self._terms = search.content_terms()
        self._weights = [search.weight_of(term) for term in self._terms]
        self._all_weight = sum(self._weights) or 1.0
        self._direction = search.direction()
        self._highlighters: dict[str, Highlighter] = {}

    def passages(self, found: SearchCandidate, page_share: float) -> list[Passage]:
        """The best passages of one page."""
        stored = found.stored()
        language = str(stored["language"][0])
        highlighter = self._highlighters.setdefault(language, Highlighter(self._terms, language))
        title, url = bytes(stored["name"][0]).decode(), bytes(stored["url"][0]).decode()
        text = bytes(stored[STORED_TEXT_FIELD][0]).decode()
        in_title = {number for _, _, number in highlighter.matches(title)}
        matches = highlighter.matches(text)
        made = []
        for start, end in split_passages(text):
            inside = [match for match in matches if start <= match[0] and match[1] <= end]
            score = self._coverage(inside, in_title) + PAGE_WEIGHT * page_share
            made.append((score, start, end, inside))
        # Meaning and stop words are computed for the best ones only: a long page has hundreds of passages.
        best = sorted(made, key=lambda one: -one[0])[: 3 * MAX_PER_PAGE]
        scored = [
            (
                score + self._similarity(text[start:end], language) + _prose(text[start:end], language),
                start,
                end,
                inside,
            )
            for score, start, end, inside in best
        ]
        date, fetched_at = float(stored["date"][0]), float(stored["since"][0])
        return [
            Passage(
                text=text[start:end], highlights=tuple((a - start, b - start) for a, b, _ in inside),
                url=url, title=title, host=stored["host"][0], citation=cite(title, url, date, fetched_at),
                collections=tuple(found.collections), language=language, date=date, fetched_at=fetched_at,
                relevance=found.relevance, relevant=stored["relevant"][0] == "yes", score=score,
            )
            for score, start, end, inside in sorted(scored, key=lambda one: -one[0])[:MAX_PER_PAGE]
        ]  # fmt: skip

    def _coverage(self, inside: Sequence[TermMatch], in_title: set[int]) -> float:
        """The share of the query's words that a passage contains, by rarity; repeated words add a little."""
        here = {number for _, _, number in inside}
        weight = sum(self._weights[number] for number in here)
        weight += TITLE_SHARE * sum(self._weights[number] for number in in_title - here)
        return weight / self._all_weight + 0.05 * math.log1p(len(inside))

    def _similarity(self, text: str, language: str) -> float:
        if self._direction is None:
            return 0.0
        vector: Vectors = text_vector(load_surface_vectors(), text, stop_words(language))
        return MEANING_WEIGHT * float(vector @ self._direction)


def _prose(text: str, language: str) -> float:
    """How much a passage consists of sentences."""
    return PROSE_WEIGHT * min(stop_word_share(text, language) / PROSE_SHARE, 1.0)


def split_passages(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of the passages of a text, one block per line: short blocks are joined, long ones are split after
    a sentence.

    >>> list(split_passages("Wren\\nA small bird."))
    [(0, 18)]
    """
    start = end = 0
    for line_start, line_end in _lines(text):
        if end > start and line_end - start > MAX_PASSAGE:
            yield start, end
            start = line_start
        elif end == start:
            start = line_start
        end = line_end
        while end - start > MAX_PASSAGE:
            cut = _sentence_end(text, start, end)
            yield start, cut
            start = min(cut + len(text[cut:end]) - len(text[cut:end].lstrip()), end)
        if end - start >= MIN_PASSAGE:
            yield start, end
            start = end
    if end > start:
        yield start, end


def _lines(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    for line in text.split("\n"):
        if line.strip():
            yield at, at + len(line)
        at += len(line) + 1


def _sentence_end(text: str, start: int, end: int) -> int:
    """The end of the last sentence that fits in a passage, or of the last word."""
    limit = min(start + MAX_PASSAGE, end)
    ends = [match.end() for match in _SENTENCE_END.finditer(text, start + MIN_PASSAGE, limit)]
    if ends:
        return ends[-1]
    blank = text.rfind(" ", start + MIN_PASSAGE, limit)
    return blank + 1 if blank >= 0 else limit


def cite(title: str, url: str, date: float, fetched_at: float) -> str:
    """A citation of a page in one line.

    >>> cite("Wren", "https://a.example/wren", 0.0, 86_400.0)
    'Wren. 1970-01-01. https://a.example/wren (retrieved 1970-01-02)'
    """
    day = f" {_day(date)}." if int(date) != int(fetched_at) else ""
    return f"{title or url}.{day} {url} (retrieved {_day(fetched_at)})"


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()
