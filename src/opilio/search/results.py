"""Records of search: documents for the index, filters, hits, facets and progress, and hits as rich text and HTML.

Text from the web is returned as `TextSegment`s without control characters and direction overrides, never as markup: the
caller escapes it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import tantivy

from opilio.core.display import Displayable

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

    from opilio.search.passages import Passage


def rich_results(results: "SearchResults") -> "Group":
    """All hits of one page of results."""
    from rich.console import Group

    first = (results.page - 1) * results.size + 1
    return Group(*(rich_hit(number, hit) for number, hit in enumerate(results.hits, start=first)))


def rich_hit(number: int, hit: "SearchHit") -> "Text":
    """One hit with its place: title, URL, snippet, facts."""
    from rich.text import Text

    text = Text(f"{number:>3}. ").append_text(_rich_segments(hit.title, "bold"))
    text.append(f"\n     {hit.url}\n", "cyan")
    text.append("     ").append_text(_rich_segments(hit.snippet, ""))
    return text.append(f"\n     {' · '.join(_facts(hit))}\n", "dim")


def rich_passages(passages: "Sequence[Passage]") -> "Group":
    """All passages of an answer."""
    from rich.console import Group

    return Group(*(rich_passage(number, passage) for number, passage in enumerate(passages, start=1)))


def rich_passage(number: int, passage: "Passage") -> "Text":
    """One passage with its place and its citation."""
    from rich.text import Text

    text = Text(passage.text)
    for start, end in passage.highlights:
        text.stylize("bold yellow", start, end)
    return Text(f"{number:>3}. ").append_text(text).append(f"\n     {passage.citation}\n", "cyan")


def html_results(results: "SearchResults") -> str:
    """All hits of one page of results; text of the web is escaped, links to other schemes than http(s) are not made."""
    first = (results.page - 1) * results.size + 1
    items = "".join(f"<li>{_html_hit(hit)}</li>" for hit in results.hits)
    return f'<p>{results.total} pages</p><ol start="{first}">{items}</ol>'


def _html_hit(hit: "SearchHit") -> str:
    title, url = _html_segments(hit.title), escape(hit.url)
    link = f'<a href="{url}">{title}</a>' if hit.url.startswith(("http://", "https://")) else title
    return f"{link}<br>{url}<br>{_html_segments(hit.snippet)}<br><small>{escape(' · '.join(_facts(hit)))}</small>"


def _facts(hit: "SearchHit") -> list[str]:
    found = "similar in meaning" if hit.by_meaning else ""
    # Alone, "negative" could be a verdict.
    tone = f"tone: {hit.polarity}" if hit.polarity not in ("", "neutral") else ""
    facts = (found, hit.language, hit.genre, tone, hit.subtopic)
    return [f"relevance {hit.relevance:.2f}", *(fact for fact in facts if fact)]


def _rich_segments(segments: "Sequence[TextSegment]", style: str) -> "Text":
    from rich.text import Text

    text = Text()
    for segment in segments:
        text.append(segment.text, "bold yellow" if segment.marked else style)
    return text


def _html_segments(segments: "Sequence[TextSegment]") -> str:
    return "".join(f"<b>{escape(s.text)}</b>" if s.marked else escape(s.text) for s in segments)


# At the beginning of a text, which state what a page is about.
LEAD_CHARACTERS = 1_500
# `until` of the current version of a page.
FOREVER = (1 << 62) - 1
PAGE_SIZE = 10
SORT_ORDERS = ("best", "relevance", "newest", "added")


class IndexDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A page to index."""

    key: int
    # Number of the response that stored it; orders versions.
    seq: int
    url: str
    host: str
    title: str = ""
    description: str = ""
    headings: str = ""
    body: str = ""  # the main text, one block per line
    anchors: tuple[str, ...] = ()  # anchors of links to it
    parent_count: int = 0  # number of pages with these links
    language: str = ""
    genre: str = ""
    # Positive, neutral, negative; empty if unknown (S3-F1).
    polarity: str = ""
    score: float = 0.0  # the judge's
    relevant: bool = False
    # Its own date if it has one, else the time of the fetch.
    date: float = 0.0
    fetched_at: float = 0.0
    # When this version was replaced, in seconds since 1970.
    until: int = FOREVER


class SearchFilters(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of hits. Several values of one filter mean any of them; all filters must match."""

    hosts: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    genres: tuple[str, ...] = ()
    polarities: tuple[str, ...] = ()  # positive, neutral, negative
    bands: tuple[str, ...] = ()  # names of `BANDS`
    subtopics: tuple[str, ...] = ()  # by name
    years: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()  # of the user
    collections: tuple[str, ...] = ()  # by the folder's name
    relevant: bool | None = None
    after: str = ""  # ISO date, of the page's own date
    before: str = ""
    # Stored in the collection after this time (seconds since 1970).
    added_after: float | None = None
    # Search the collection as of this time (seconds since 1970).
    at: float | None = None


class TextSegment(msgspec.Struct, frozen=True):
    """A piece of text; `marked` if it matches the query."""

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


class SearchHit(Displayable, msgspec.Struct, frozen=True, kw_only=True):
    """One page that was found. `str()` of title and snippet gives their plain text."""

    url: str
    key: int
    host: str
    title: tuple[TextSegment, ...]
    snippet: tuple[TextSegment, ...]
    # Names of the collections that contain it.
    collections: tuple[str, ...]
    language: str = ""
    genre: str = ""
    polarity: str = ""
    subtopic: str = ""
    band: str = ""
    relevance: float = 0.0  # the judge's score
    relevant: bool = False
    date: float = 0.0
    fetched_at: float = 0.0
    score: float = 0.0  # the score that determines the order
    text_score: float = 0.0  # of the words alone (BM25)
    # Similar to the query in meaning; it may not contain the words.
    by_meaning: bool = False
    tags: tuple[str, ...] = ()  # of the user


class FacetValue(msgspec.Struct, frozen=True):
    value: str  # as in a filter
    count: int
    chosen: bool = False


class Facet(msgspec.Struct, frozen=True):
    """Counts of hits by one property. `name` is the field of `SearchFilters`."""

    name: str
    values: tuple[FacetValue, ...]


class SearchResults(Displayable, msgspec.Struct, frozen=True, kw_only=True):
    """One page of hits."""

    query: str
    total: int
    page: int
    pages: int
    size: int
    hits: tuple[SearchHit, ...]
    facets: tuple[Facet, ...] = ()
    # A better spelling of the query; empty if there is none.
    suggestion: str = ""
    # Remarks for the user on how the query was interpreted.
    notes: tuple[str, ...] = ()
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
    """A cluster of relevant pages (S0-F1). Browse it with `SearchFilters(subtopics=(name,))`."""

    name: str
    words: tuple[str, ...]
    pages: int
    collection: str = ""


class IndexProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of an index update."""

    indexed: int = 0  # documents indexed
    removed: int = 0
    waiting: int = 0  # pages that are not indexed yet
    busy: bool = False  # another process updates the index
    read_only: bool = False  # the index can't be written

    @staticmethod
    def combine(progress: "Sequence[IndexProgress]") -> "IndexProgress":
        """The total progress of several indexes."""
        return IndexProgress(
            indexed=sum(p.indexed for p in progress),
            removed=sum(p.removed for p in progress),
            waiting=sum(p.waiting for p in progress),
            busy=any(p.busy for p in progress),
            read_only=any(p.read_only for p in progress),
        )


# Bands of the judge's score, best first: (name, lower bound).
BANDS = (("very high", 0.8), ("high", 0.6), ("medium", 0.4), ("low", 0.2), ("very low", 0.0))


def score_band(score: float) -> str:
    """The name of a score's band.

    >>> score_band(0.85), score_band(0.0)
    ('very high', 'very low')
    """
    return next((name for name, bound in BANDS if score >= bound), BANDS[-1][0])


# Field of `SearchFilters`, field of the index, number of values.
FACET_FIELDS = (
    ("hosts", "host", 12),
    ("languages", "language", 10),
    ("genres", "genre", 10),
    ("bands", "band", 5),
    ("subtopics", "subtopic", 20),
    ("years", "year", 12),
    ("polarities", "polarity", 3),
)
_AGGREGATIONS = {name: {"terms": {"field": field, "size": size}} for name, field, size in FACET_FIELDS}
_LANGUAGES = {"languages": {"terms": {"field": "language", "size": 8}}}
MAX_TAGS = 20  # listed
MAX_TAGGED_PAGES = 10_000  # whose tags are counted
_BAND_ORDER = {band: place for place, (band, _) in enumerate(BANDS)}


class FacetedIndex(NamedTuple):
    """An index whose hits are counted, and the user's tags of its pages."""

    searcher: tantivy.Searcher
    schema: tantivy.Schema
    tags: Mapping[str, frozenset[int]]


def count_facets(
    indexes: Sequence[FacetedIndex],
    filters: SearchFilters,
    queries_of: Callable[[SearchFilters], Sequence[tantivy.Query]],
) -> tuple[Facet, ...]:
    """The facets of the hits in these indexes, without empty ones. `queries_of` finds a page in one index only.

    A facet with chosen values is counted as if none were chosen, because any of several values matches, so that each
    other value would add hits. This costs one more count for each such facet.
    """
    sizes = {name: size for name, _, size in FACET_FIELDS} | {"tags": MAX_TAGS}
    counts = _counts(indexes, queries_of(filters), list(sizes))
    for name in sizes:
        if chosen := getattr(filters, name):
            open_filters = msgspec.structs.replace(filters, **{name: ()})
            counts[name] |= _counts(indexes, queries_of(open_filters), [name])[name]
            # Chosen values without hits are listed too, so that they can be removed.
            counts[name].update(dict.fromkeys(chosen, 0))
    made = [_facet(name, counts[name], size, getattr(filters, name)) for name, size in sizes.items()]
    return tuple(facet for facet in made if facet.values)


def _counts(
    indexes: Sequence[FacetedIndex], queries: Sequence[tantivy.Query], names: Sequence[str]
) -> dict[str, Counter[str]]:
    counts = {name: Counter[str]() for name in names}
    aggregations = {name: _AGGREGATIONS[name] for name in names if name in _AGGREGATIONS}
    for index, query in zip(indexes, queries, strict=True):
        if "tags" in counts and index.tags:
            counts["tags"].update(_tag_counts(index, query))
        found = index.searcher.aggregate(query, aggregations) if aggregations else {}
        for name, result in found.items():
            counts[name].update({str(b["key"]): int(b["doc_count"]) for b in result["buckets"] if b["key"]})
    return counts


def _tag_counts(index: FacetedIndex, query: tantivy.Query) -> dict[str, int]:
    """Tags are in the collection, not in the index, so that a new one is found at once."""
    tagged = tantivy.Query.term_set_query(index.schema, "key", sorted(frozenset().union(*index.tags.values())))
    both = tantivy.Query.boolean_query([(tantivy.Occur.Must, query), (tantivy.Occur.Must, tagged)])
    hits = index.searcher.search(both, MAX_TAGGED_PAGES).hits
    keys = frozenset(index.searcher.fast_field_values("key", [address for _, address in hits]))
    return {tag: count for tag, pages in index.tags.items() if (count := len(keys & pages))}


def _facet(name: str, counts: Counter[str], size: int, chosen: Sequence[str]) -> Facet:
    ranked = sorted(counts.items(), key=lambda pair: (_BAND_ORDER.get(pair[0], 0), -pair[1], pair[0]))
    shown = [(value, count) for place, (value, count) in enumerate(ranked) if place < size or value in chosen]
    return Facet(name, tuple(FacetValue(value, count, value in chosen) for value, count in shown))


def document_languages(searcher: tantivy.Searcher) -> tuple[str, ...]:
    """The languages of the documents, most frequent first."""
    if not searcher.num_docs:
        return ()
    found = searcher.aggregate(tantivy.Query.all_query(), _LANGUAGES)
    return tuple(str(bucket["key"]) for bucket in found["languages"]["buckets"])
