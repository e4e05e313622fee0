"""What goes into an index and what a search gives back. Plain values: nothing here opens a file.

Text of the web that is meant for showing comes as `TextSegment`s, cleaned of control characters and overrides of the
writing direction, never as markup: whoever shows them escapes them.

How the documents of a query divide: counted by the engine, added up over the indexes.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import tantivy

from opilio.search.hit_display import html_results, rich_results

FOREVER = (1 << 62) - 1  # `until` of a page that is still what the web shows
PAGE_SIZE = 10
SORT_ORDERS = ("best", "relevance", "newest")


class IndexDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A page as the index takes it."""

    key: int
    seq: int  # the commit that stored it: tells a newer version from an older one
    url: str
    host: str
    title: str = ""
    description: str = ""
    headings: str = ""
    body: str = ""  # the main text, blocks on lines of their own
    anchors: tuple[str, ...] = ()  # texts of links that point to it
    parent_count: int = 0  # how many pages those come from
    target_keys: bytes = b""  # keys of the pages it links to, int64
    language: str = ""
    genre: str = ""
    score: float = 0.0  # the judge's
    relevant: bool = False
    date: float = 0.0  # its own date where it tells one, else when it was fetched
    fetched_at: float = 0.0
    until: int = FOREVER  # when this version was replaced, in seconds since 1970


class SearchFilters(msgspec.Struct, frozen=True, kw_only=True):
    """What hits must be like. Several values of one kind mean any of them; different kinds must all hold."""

    hosts: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    genres: tuple[str, ...] = ()
    bands: tuple[str, ...] = ()  # names of `BAND_COUNT`
    subtopics: tuple[str, ...] = ()  # by name
    years: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()  # by the folder's name
    relevant: bool | None = None
    after: str = ""  # ISO date, of the page's own date
    before: str = ""
    at: float | None = None  # the state of the collection at this moment (seconds since 1970)


class TextSegment(msgspec.Struct, frozen=True):
    """A piece of text; `marked` where it matches the query."""

    text: str
    marked: bool = False


class MarkedText(tuple[TextSegment, ...]):
    """Segments in order; `str()` gives the plain text.

    >>> str(MarkedText([TextSegment("a "), TextSegment("wren", True)]))
    'a wren'
    """

    __slots__ = ()

    def __str__(self) -> str:
        return "".join(segment.text for segment in self)


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """One page that was found. `str()` of title and snippet gives their plain text."""

    url: str
    key: int
    host: str
    title: tuple[TextSegment, ...]
    snippet: tuple[TextSegment, ...]
    collections: tuple[str, ...]  # names of those that hold it
    language: str = ""
    genre: str = ""
    subtopic: str = ""
    band: str = ""
    relevance: float = 0.0  # the judge's score
    relevant: bool = False
    authority: float = 0.0  # 0..1, of the link graph
    date: float = 0.0
    fetched_at: float = 0.0
    score: float = 0.0  # what the order is made by
    text_score: float = 0.0  # the part of the words alone (BM25)


class FacetValue(msgspec.Struct, frozen=True):
    value: str  # what a filter takes
    count: int
    chosen: bool = False


class Facet(msgspec.Struct, frozen=True):
    """How the hits divide by one property. `name` is the field of `SearchFilters`."""

    name: str
    values: tuple[FacetValue, ...]


class SearchResults(msgspec.Struct, frozen=True, kw_only=True):
    """One page of hits."""

    query: str
    total: int
    page: int
    pages: int
    size: int
    hits: tuple[SearchHit, ...]
    facets: tuple[Facet, ...] = ()
    suggestion: str = ""  # a better spelling of the whole query; empty where there is none
    notes: tuple[str, ...] = ()  # what a person should know of how the query was understood
    took_s: float = 0.0

    def __iter__(self) -> Iterator[SearchHit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __rich__(self) -> Any:  # noqa: ANN401 - rich is imported where it is used
        return rich_results(self)

    def _repr_html_(self) -> str:
        return html_results(self)


class Subtopic(msgspec.Struct, frozen=True, kw_only=True):
    """Relevant pages that belong together (S0-F1). Browse it with `Filters(subtopics=(name,))`."""

    name: str
    words: tuple[str, ...]
    pages: int
    collection: str = ""


class IndexProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a catching up has come."""

    indexed: int = 0  # documents written by this call
    removed: int = 0
    waiting: int = 0  # pages of the collection that the index has not taken in yet
    busy: bool = False  # another process is writing the index: it catches up, this one only reads
    read_only: bool = False  # the index can't be written here: what waits goes on waiting

    @staticmethod
    def combine(of: "Sequence[IndexProgress]") -> "IndexProgress":
        """How far several indexes have come together."""
        return IndexProgress(
            indexed=sum(p.indexed for p in of),
            removed=sum(p.removed for p in of),
            waiting=sum(p.waiting for p in of),
            busy=any(p.busy for p in of),
            read_only=any(p.read_only for p in of),
        )


# Bands of the judge's score, best first: (name, lower bound).
BANDS = (("very high", 0.8), ("high", 0.6), ("medium", 0.4), ("low", 0.2), ("very low", 0.0))


def score_band(score: float) -> str:
    """The name of a score's band.

    >>> score_band(0.85), score_band(0.0)
    ('very high', 'very low')
    """
    return next((name for name, bound in BANDS if score >= bound), BANDS[-1][0])


# Field of `Filters`, field of the index, values that are told
FACET_FIELDS = (
    ("hosts", "host", 12),
    ("languages", "language", 10),
    ("genres", "genre", 10),
    ("bands", "band", 5),
    ("subtopics", "subtopic", 20),
    ("years", "year", 12),
)
_AGGREGATIONS = {name: {"terms": {"field": field, "size": size}} for name, field, size in FACET_FIELDS}
_LANGUAGES = {"languages": {"terms": {"field": "language", "size": 8}}}
_BAND_ORDER = {band: place for place, (band, _) in enumerate(BANDS)}


def count_facets(
    searchers: Sequence[tantivy.Searcher],
    filters: SearchFilters,
    queries_of: Callable[[SearchFilters], Sequence[tantivy.Query]],
) -> tuple[Facet, ...]:
    """The facets of what is found in these indexes; those without any value are left out.

    Of a facet with chosen values all are counted, as if none were chosen: any of several values is enough, so each of
    the others is a choice of more. That costs one more count for each such facet, of this facet alone.
    """
    counts = _counts(searchers, queries_of(filters), [name for name, _, _ in FACET_FIELDS])
    for name, _, _ in FACET_FIELDS:
        if chosen := getattr(filters, name):
            open_filters = msgspec.structs.replace(filters, **{name: ()})
            counts[name] |= _counts(searchers, queries_of(open_filters), [name])[name]
            # What nothing has can be left out again, too
            counts[name].update(dict.fromkeys(chosen, 0))
    made = [_facet(name, counts[name], size, getattr(filters, name)) for name, _, size in FACET_FIELDS]
    return tuple(facet for facet in made if facet.values)


def _counts(
    searchers: Sequence[tantivy.Searcher], queries: Sequence[tantivy.Query], names: Sequence[str]
) -> dict[str, Counter[str]]:
    counts = {name: Counter[str]() for name in names}
    for searcher, query in zip(searchers, queries, strict=True):
        found = searcher.aggregate(query, {name: _AGGREGATIONS[name] for name in names})
        for name, count in counts.items():
            count.update({str(b["key"]): int(b["doc_count"]) for b in found[name]["buckets"] if b["key"]})
    return counts


def _facet(name: str, counts: Counter[str], size: int, chosen: Sequence[str]) -> Facet:
    ranked = sorted(counts.items(), key=lambda pair: (_BAND_ORDER.get(pair[0], 0), -pair[1], pair[0]))
    told = [(value, count) for place, (value, count) in enumerate(ranked) if place < size or value in chosen]
    return Facet(name, tuple(FacetValue(value, count, value in chosen) for value, count in told))


def document_languages(searcher: tantivy.Searcher) -> tuple[str, ...]:
    """The languages of the documents, most frequent first."""
    if not searcher.num_docs:
        return ()
    found = searcher.aggregate(tantivy.Query.all_query(), _LANGUAGES)
    return tuple(str(bucket["key"]) for bucket in found["languages"]["buckets"])
