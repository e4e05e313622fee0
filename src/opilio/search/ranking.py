"""One search over several indexes (S2-F1): queried, ranked and merged, with facets and a spelling suggestion.

Ranking has two steps: the engine finds the best text matches; these are ordered by the text score, the judge's score
and the authority in the link graph together (`RankingWeights`).
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
import tantivy

from opilio.core.errors import QueryError
from opilio.search.query import QueryGroup, check_filter_value, parse_query, positive_terms
from opilio.search.query_builder import FILTER_FIELD_NAMES, FieldWeights, QueryBuilder, QueryScope, filter_value
from opilio.search.results import (
    SORT_ORDERS,
    MarkedText,
    SearchFilters,
    SearchHit,
    SearchResults,
    TextSegment,
    count_facets,
)
from opilio.search.schema import STORED_TEXT_FIELD, replace_surrogates
from opilio.search.snippet import Highlighter, build_snippet, highlight
from opilio.search.spelling import SpellingSuggester

KeyArray = np.ndarray[Any, np.dtype[np.int64]]
Float32Array = np.ndarray[Any, np.dtype[np.float32]]
ScoreArray = np.ndarray[Any, np.dtype[np.float64]]


class OpenIndex(msgspec.Struct, frozen=True, kw_only=True):
    """One open index, as of one commit."""

    name: str
    searcher: tantivy.Searcher
    schema: tantivy.Schema
    languages: tuple[str, ...]  # of its documents, most frequent first
    has_past_versions: bool  # it contains past versions of pages
    keys: KeyArray  # sorted
    authority: Float32Array  # of those keys, 0..1

    def authority_of(self, keys: KeyArray) -> Float32Array:
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.float32)
        at = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.authority[at], np.float32(0.0)).astype(np.float32)


class SearchCandidate(msgspec.Struct):
    """One candidate: its document, and the parts of its score."""

    searcher: tantivy.Searcher
    address: tantivy.DocAddress
    key: int
    text_score: float
    relevance: float
    authority: float
    score: float
    collections: list[str]  # names of the collections that contain the page


def merge_candidates(candidates: Iterable[SearchCandidate]) -> list[SearchCandidate]:
    """Each page once, best first, from the index with its best score; equal scores in the given order."""
    found: dict[int, SearchCandidate] = {}
    for one in candidates:
        known = found.setdefault(one.key, one)
        if known is one:
            continue
        collections, relevance = known.collections + one.collections, max(known.relevance, one.relevance)
        if one.score > known.score:
            # Reinserted, so that its order among equal scores is that of the better one.
            del found[one.key]
            found[one.key] = known = one
        known.collections, known.relevance = collections, relevance
    return sorted(found.values(), key=lambda f: -f.score)


def build_hit(stored: dict[str, list[Any]], highlighter: Highlighter, found: SearchCandidate) -> SearchHit:
    """A hit with highlighted title and snippet."""
    title, url = bytes(stored["name"][0]).decode(), bytes(stored["url"][0]).decode()
    text = bytes(stored[STORED_TEXT_FIELD][0]).decode().lstrip()
    return SearchHit(
        url=url,
        key=found.key,
        host=stored["host"][0],
        title=MarkedText(highlight(title, highlighter.matches(title)) or (TextSegment(url),)),
        snippet=MarkedText(build_snippet(text, highlighter)),
        collections=tuple(found.collections),
        language=stored["language"][0],
        genre=stored["genre"][0],
        subtopic=stored["subtopic"][0],
        band=stored["band"][0],
        relevance=found.relevance,
        relevant=stored["relevant"][0] == "yes",
        authority=found.authority,
        date=float(stored["date"][0]),
        fetched_at=float(stored["since"][0]),
        score=found.score,
        text_score=found.text_score,
    )


MAX_PAGED_HITS = 10_000
MAX_PAGE_SIZE = 100
MIN_TEXT_SCORE = 1e-9  # avoids the logarithm of 0
OPEN_FILTER_FIELDS = {"hosts": "host", "languages": "language", "genres": "genre", "subtopics": "subtopic"}
MAX_LISTED_VALUES = 8  # values listed for an unknown filter value
MAX_HITS_FOR_SUGGESTION = 2  # with more hits there is no spelling suggestion


class RankingWeights(msgspec.Struct, frozen=True, kw_only=True):
    """The order of hits: log of the text score, plus these weights times relevance and authority (both 0..1).

    A query for one particular page should find it, so relevance counts only as far as many pages match the words nearly
    as well as the best one. (The second best, in fact: if the query is the title of a page, that page stands out, but
    the others are as undecided as before.) Authority is a tie-breaker: a higher weight gained nothing (docs/search.md).
    """

    relevance: float = 0.8
    authority: float = 0.05
    candidates: int = 200  # best text matches that are reordered
    near_best_ratio: float = 0.7  # of the second best text score: a match nearly as good
    half_weight_matches: float = 30.0  # such matches at which relevance has half of its weight

    def combine(self, text: ScoreArray, relevance: Float32Array, authority: Float32Array) -> ScoreArray:
        """The combined scores of all candidates of a search."""
        best = np.sort(text)[-2:].min(initial=np.inf)
        near = int((text >= self.near_best_ratio * best).sum())
        share = near**2 / (near**2 + self.half_weight_matches**2)
        scores: ScoreArray = np.log(np.maximum(text, MIN_TEXT_SCORE)).astype(np.float64)
        scores += share * (self.relevance * relevance + self.authority * authority)
        return scores


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a search."""

    query: str = ""
    filters: SearchFilters = SearchFilters()
    page: int = 1
    size: int = 10
    sort: str = "best"

    def check(self) -> None:
        if self.sort not in SORT_ORDERS:
            raise QueryError(f'sort "{self.sort}" is unknown; known: {", ".join(SORT_ORDERS)}')
        for band in self.filters.bands:
            check_filter_value("band", band)
        if self.page < 1 or not 1 <= self.size <= MAX_PAGE_SIZE:
            raise QueryError(f"page must be 1 or more, and a page has 1 to {MAX_PAGE_SIZE} hits")
        if self.page * self.size > MAX_PAGED_HITS:
            raise QueryError(f"only the first {MAX_PAGED_HITS} hits are available; narrow the search with filters")


class Search:
    """One search in several open indexes."""

    def __init__(
        self, indexes: Sequence[OpenIndex], request: SearchRequest, weights: FieldWeights, ranking: RankingWeights
    ) -> None:
        request.check()
        wanted = request.filters.collections
        self._request = request
        self._ranking = ranking
        self._group = parse_query(request.query)
        self._indexes = [(s, s.searcher) for s in indexes if not wanted or s.name in wanted]
        self._builders = [QueryBuilder(self._scope(s, searcher), weights) for s, searcher in self._indexes]

    def _scope(self, index: OpenIndex, searcher: tantivy.Searcher) -> QueryScope:
        searchers = [s for _, s in self._indexes]
        return QueryScope(
            searcher=searcher,
            schema=index.schema,
            languages=index.languages,
            has_past_versions=index.has_past_versions,
            all_documents=sum(s.num_docs for s in searchers),
            frequency=lambda field, term: sum(s.doc_freq(field, term) for s in searchers),
        )

    def run(self) -> SearchResults:
        request, words = self._request, self._build_queries(self._group)
        total, found = self._candidates(self._apply_filters(words, request.filters))
        suggestion = self._suggestion(total) if total <= MAX_HITS_FOR_SUGGESTION else ""
        notes: tuple[str, ...] = ()
        if not total and len(self._group.parts) > 1:
            words = self._build_queries(self._group, relaxed=True)
            total, found = self._candidates(self._apply_filters(words, request.filters))
            notes = ("No page contains enough of the words; these contain some of them.",) if total else ()
        elif request.query.strip() and not any(map(str.isalnum, request.query)):
            notes = ("The query contains no word to search for; these are all pages.",)
        chosen = found[(request.page - 1) * request.size : request.page * request.size]
        return SearchResults(
            query=request.query,
            total=total,
            page=request.page,
            pages=math.ceil(min(total, MAX_PAGED_HITS) / request.size),
            size=request.size,
            hits=tuple(self._hits(chosen)),
            facets=count_facets([s for _, s in self._indexes], request.filters, partial(self._apply_filters, words)),
            suggestion=suggestion,
            notes=(*notes, *self._unmatched_filters()),
        )

    def _unmatched_filters(self) -> Iterable[str]:
        """Filter values that no page has, most often misspelled."""
        filters = self._request.filters
        wanted = [
            (field, replace_surrogates(value))
            for name, field in OPEN_FILTER_FIELDS.items()
            for value in getattr(filters, name)
        ]
        wanted += [
            (t.field, filter_value(t)) for t in positive_terms(self._group) if t.field in OPEN_FILTER_FIELDS.values()
        ]
        for field, value in wanted:
            if not any(s.doc_freq(field, value) for _, s in self._indexes):
                yield f'No page has the {field} "{value}".{self._most_frequent(field)}'

    def _most_frequent(self, field: str) -> str:
        counts = Counter[str]()
        for _, searcher in self._indexes:
            counts.update(dict(searcher.terms_with_prefix(field, "")))
        names = [name for name, _ in counts.most_common(MAX_LISTED_VALUES + 1) if name][:MAX_LISTED_VALUES]
        return f" There are: {', '.join(names)}{' …' if len(counts) > MAX_LISTED_VALUES + 1 else ''}." if names else ""

    def _suggestion(self, total: int) -> str:
        """A better spelling, if it finds more pages."""
        better = SpellingSuggester([searcher for _, searcher in self._indexes]).suggest(
            self._request.query, self._group
        )
        if not better:
            return ""
        queries = self._apply_filters(self._build_queries(parse_query(better)), self._request.filters)
        return better if self._count_distinct(queries) > total else ""

    def _build_queries(self, group: QueryGroup, *, relaxed: bool = False) -> list[tantivy.Query]:
        """The query for each index, without filters."""
        return [builder.build(group, relaxed=relaxed) for builder in self._builders]

    def _apply_filters(self, words: Sequence[tantivy.Query], filters: SearchFilters) -> list[tantivy.Query]:
        return [builder.apply_filters(query, filters) for builder, query in zip(self._builders, words, strict=True)]

    def _candidates(self, queries: Sequence[tantivy.Query]) -> tuple[int, list[SearchCandidate]]:
        """The number of matching documents, and the best ones, each page once.

        Invariant: the hits before a page of results are the same for every page number. So a fixed number of candidates
        of each index is reordered, and equal scores keep the engine's order.
        """
        results = [self._search_index(*one, query) for one, query in zip(self._indexes, queries, strict=True)]
        mixed = self._ranking.candidates
        head = merge_candidates(one for _, found in results for one in found[:mixed])
        tail = merge_candidates([*head[mixed:], *(one for _, found in results for one in found[mixed:])])
        first = {one.key: one for one in head[:mixed]}
        for one in tail:
            if one.key in first:
                first[one.key].collections += one.collections
        rest = [one for one in tail if one.key not in first]
        if self._request.sort == "best":
            self._combine_scores(head[:mixed], rest)
        found = [*sorted(first.values(), key=lambda f: -f.score), *rest]
        all_read = all(count == len(candidates) for count, candidates in results)
        return len(found) if all_read else self._count_distinct(queries), found

    def _count_distinct(self, queries: Sequence[tantivy.Query]) -> int:
        """The number of distinct matching pages; beyond `MAX_PAGED_HITS` per index, duplicates are not detected."""
        counts, keys = 0, list[object]()
        for (_, searcher), query in zip(self._indexes, queries, strict=True):
            result = searcher.search(query, MAX_PAGED_HITS if len(self._indexes) > 1 else 1)
            counts += result.count  # type: ignore[attr-defined]  # the stub forgot it
            keys += searcher.fast_field_values("key", [address for _, address in result.hits])
        return counts - len(keys) + len(set(keys))

    def _combine_scores(self, first: Sequence[SearchCandidate], rest: Sequence[SearchCandidate]) -> None:
        parts = np.array([(one.text_score, one.relevance, one.authority) for one in first]).reshape(-1, 3)
        for one, score in zip(first, self._ranking.combine(*parts.T).tolist(), strict=True):
            one.score = score
        for one in rest:
            one.score = math.log(max(one.text_score, MIN_TEXT_SCORE))

    def _search_index(
        self, index: OpenIndex, searcher: tantivy.Searcher, query: tantivy.Query
    ) -> tuple[int, list[SearchCandidate]]:
        order = {"newest": "date", "relevance": "relevance"}.get(self._request.sort)
        if order is None and not self._group.parts:
            order = "relevance"
        limit = max(self._ranking.candidates, self._request.page * self._request.size)
        result = searcher.search(query, limit, order_by_field=order)
        addresses = [address for _, address in result.hits]
        count: int = result.count  # type: ignore[attr-defined]  # the stub forgot it
        if not addresses:
            return count, []
        keys = np.array(searcher.fast_field_values("key", addresses), dtype=np.int64)
        relevance = np.array(searcher.fast_field_values("relevance", addresses), dtype=np.float32)
        values = np.array([value for value, _ in result.hits], dtype=np.float64)
        text = np.ones(len(values)) if order else values
        values_of = [column.tolist() for column in (keys, text, relevance, index.authority_of(keys), values)]
        columns = zip(addresses, *values_of, strict=True)
        return count, [SearchCandidate(searcher, a, k, t, r, w, s, [index.name]) for a, k, t, r, w, s in columns]

    def _hits(self, chosen: Iterable[SearchCandidate]) -> Iterable[SearchHit]:
        makers: dict[str, Highlighter] = {}
        wanted = [term for term in positive_terms(self._group) if term.field not in FILTER_FIELD_NAMES]
        for one in chosen:
            stored = one.searcher.doc(one.address).to_dict()
            language = str(stored["language"][0])
            highlighter = makers.get(language) or makers.setdefault(language, Highlighter(wanted, language))
            yield build_hit(stored, highlighter, one)
