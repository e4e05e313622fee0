"""Builds the engine's query for one index from a parsed query.

Words are weighted by their rarity in all searched indexes (S2-F1): the engine knows only its own, so each term is
boosted by the ratio of the two weights, which makes the scores of different indexes comparable.
"""

import math
import re
from collections.abc import Callable, Sequence

import msgspec
import tantivy

from opilio.core.clock import parse_iso_date
from opilio.core.errors import QueryError
from opilio.core.records import url_key
from opilio.core.urls import canonicalize_url
from opilio.search.query import FILTER_FIELDS, QueryGroup, QueryNode, QueryTerm
from opilio.search.results import FOREVER, SearchFilters
from opilio.search.schema import (
    EXACT_FIELD,
    STEMMED_FIELDS,
    WHOLE_TITLE_FIELD,
    index_terms,
    replace_surrogates,
    title_term,
)
from opilio.text.languages import stop_words
from opilio.text.tokens import UNSPACED_SCRIPTS
from opilio.text.url_words import url_words

Must, Should, MustNot = tantivy.Occur.Must, tantivy.Occur.Should, tantivy.Occur.MustNot
FILTER_FIELD_NAMES = frozenset(FILTER_FIELDS.values())
_FIELD_BY_FILTER = {
    "hosts": "host",
    "languages": "language",
    "genres": "genre",
    "bands": "band",
    "subtopics": "subtopic",
    "years": "year",
}
# The field in which the terms of a field are counted.
_FREQUENCY_FIELD = dict.fromkeys(STEMMED_FIELDS, "body")
_is_url_like = re.compile(r"[\w-]+(?:\.[\w-]+)+(?::\d+)?(?:/\S*)?").fullmatch
EXACT_URL_SCORE = 1_000.0  # score of a page found by its URL, above any score of words
MAX_PREFIX_TERMS = 40  # most frequent words that a prefix matches


class FieldWeights(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of a match by field, chosen by measurement (docs/search.md)."""

    title: float = 2.0
    headings: float = 0.4
    body: float = 1.0
    anchors: float = 0.2
    url_words: float = 0.2
    exact: float = 1.5  # the word as written, in any field
    # The share of the other fields besides the best one; above 0 it harmed queries for words of the text.
    tie_breaker: float = 0.0
    proximity: float = 2.5  # the words next to each other
    whole_title: float = 1.0  # the words are the whole title of a page


class QueryScope(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the index and all indexes that are searched together."""

    searcher: tantivy.Searcher
    schema: tantivy.Schema
    languages: tuple[str, ...]  # languages for stemming a query
    has_past_versions: bool  # the index contains past versions of pages
    all_documents: int
    frequency: Callable[[str, str], int]  # (field, term) -> document frequency in all indexes


class QueryBuilder:
    """Builds the queries of one search in one index."""

    def __init__(self, scope: QueryScope, weights: FieldWeights) -> None:
        self._scope = scope
        self._weights = weights

    def build(self, group: QueryGroup, *, relaxed: bool = False) -> tantivy.Query:
        """The complete query. `relaxed`: one matching word is enough."""
        if not group.parts:
            return tantivy.Query.all_query()
        query, title = self._group(group, relaxed), self._title(group)
        return query if title is None else tantivy.Query.boolean_query([(Must, query), (Should, title)])

    def apply_filters(self, query: tantivy.Query, filters: SearchFilters) -> tantivy.Query:
        """The query restricted by the filters, which do not change scores."""
        wanted = [(Must, tantivy.Query.const_score_query(q, 0.0)) for q in self._filters(filters)]
        return tantivy.Query.boolean_query([(Must, query), *wanted]) if wanted else query

    def _filters(self, filters: SearchFilters) -> list[tantivy.Query]:
        schema, made = self._scope.schema, []
        for name, field in _FIELD_BY_FILTER.items():
            if values := getattr(filters, name):
                made.append(tantivy.Query.term_set_query(schema, field, [*map(replace_surrogates, values)]))
        if filters.relevant is not None:
            made.append(tantivy.Query.term_query(schema, "relevant", "yes" if filters.relevant else "no"))
        after, before = parse_day(filters.after, "after"), parse_day(filters.before, "before")
        if after is not None or before is not None:
            made.append(self._range("date", after, before))
        if filters.at is not None:
            if not math.isfinite(filters.at):
                raise QueryError(f"at: {filters.at} is not a time; write seconds since 1970")
            now = max(-FOREVER, min(int(filters.at), FOREVER - 2))
            made += [self._range("since", None, now + 1), self._range("until", now + 1, None)]
        elif self._scope.has_past_versions:
            made.append(tantivy.Query.term_query(schema, "until", FOREVER))
        return made

    def _range(self, field: str, lower: int | None, upper: int | None) -> tantivy.Query:
        """From `lower` (included) to `upper` (excluded)."""
        last = None if upper is None else upper - 1
        return tantivy.Query.range_query(self._scope.schema, field, tantivy.FieldType.Integer, lower, last)

    def _node(self, node: QueryNode, relaxed: bool) -> tantivy.Query | None:
        return self._term(node) if isinstance(node, QueryTerm) else self._group(node, relaxed)

    def _group(self, group: QueryGroup, relaxed: bool) -> tantivy.Query:
        parts = _drop_stop_words(group, self._scope.languages) if group.kind == "some" else group.parts
        occurs = {"must": Must, "not": MustNot, "may": Should}
        made = [(occurs[occur], self._node(node, relaxed)) for occur, node in parts]
        clauses = [(occur, query) for occur, query in made if query is not None]
        optional = sum(occur == Should for occur, _ in clauses)
        if all(occur == MustNot for occur, _ in clauses):
            clauses.append((Must, tantivy.Query.all_query()))
        if group.kind != "some" or not optional:
            return tantivy.Query.boolean_query(clauses)
        needed = tantivy.Query.boolean_query(clauses, 1 if relaxed else minimum_should_match(optional))
        together = self._proximity(parts)
        return needed if together is None else tantivy.Query.boolean_query([(Must, needed), (Should, together)])

    def _proximity(self, parts: Sequence[tuple[str, QueryNode]]) -> tantivy.Query | None:
        """An optional clause for the plain words of a query next to each other."""
        plain = [n.text for o, n in parts if o != "not" and isinstance(n, QueryTerm) and _is_plain(n)]
        words = index_terms(" ".join(plain))
        if len(plain) < 2 or len(words) < 2:
            return None
        stems = self._stems(" ".join(plain))
        phrases = [
            self._phrase_query(EXACT_FIELD, words, 1),
            *(self._phrase_query("title", stem, 1) for stem in stems if len(stem) > 1),
        ]
        return tantivy.Query.boost_query(
            tantivy.Query.disjunction_max_query(phrases, 1.0), self._weights.proximity / len(words)
        )

    def _title(self, group: QueryGroup) -> tantivy.Query | None:
        """An optional clause for all words of a plain query as a page's whole title."""
        parts = [node for occur, node in group.parts if occur == "may" and _is_plain(node)]
        words = title_term(" ".join(node.text for node in parts if isinstance(node, QueryTerm)))
        if len(parts) != len(group.parts) or not words:
            return None
        return self._weighted_term(WHOLE_TITLE_FIELD, words, self._weights.whole_title)

    def _term(self, term: QueryTerm) -> tantivy.Query | None:
        if term.field in FILTER_FIELD_NAMES:
            fact = tantivy.Query.term_query(self._scope.schema, term.field, filter_value(term))
            return tantivy.Query.const_score_query(fact, 0.0)
        if term.kind == "word":
            return self._word(term.text, (term.field,)) if term.field else self._plain(term.text)
        words = index_terms(term.text)
        if not words:
            return None
        if term.kind in ("phrase", "address"):
            return self._phrase(term, words) if term.kind == "phrase" else self._address(term.text)
        if term.kind == "prefix":
            return self._prefix(term.field or EXACT_FIELD, words[-1])
        return tantivy.Query.fuzzy_term_query(self._scope.schema, term.field or EXACT_FIELD, words[-1], term.distance)

    def _plain(self, text: str) -> tantivy.Query | None:
        """A word without a field; one that looks like a URL without its scheme also finds that page or host."""
        if not _is_url_like(text):
            return self._any_field(text)
        host, _, path = text.partition("/")
        if path:
            return self._address(f"https://{text}", f"http://{text}")
        bare = host.lower().removeprefix("www.")
        of_host = tantivy.Query.term_set_query(self._scope.schema, "host", [bare, f"www.{bare}"])
        return self._or_text(tantivy.Query.const_score_query(of_host, 1.0), text)

    def _address(self, *urls: str) -> tantivy.Query:
        """The page with this URL first, then pages that contain the URL as text."""
        keys = [url_key(canonicalize_url(url) or url) for url in urls]
        pages = [tantivy.Query.term_query(self._scope.schema, "key", key) for key in keys]
        either = tantivy.Query.boolean_query([(Should, page) for page in pages])
        return self._or_text(tantivy.Query.const_score_query(either, EXACT_URL_SCORE), urls[0])

    def _or_text(self, query: tantivy.Query, text: str) -> tantivy.Query:
        """The results of the query, and the pages that contain the text."""
        mentions = self._any_field(text)
        return query if mentions is None else tantivy.Query.boolean_query([(Should, query), (Should, mentions)])

    def _phrase(self, term: QueryTerm, words: list[str]) -> tantivy.Query | None:
        if term.field:
            return self._word(term.text, (term.field,), term.distance)
        if len(words) == 1:
            return self._weighted_term(EXACT_FIELD, words[0], 1.0)
        return self._phrase_query(EXACT_FIELD, words, term.distance)

    def _phrase_query(self, field: str, words: Sequence[str], slop: int) -> tantivy.Query:
        """A phrase; the engine weights it by the sum of its words' weights."""
        here, globally = (
            sum(pair) for pair in zip(*(self._local_and_global_idf(field, word) for word in words), strict=True)
        )
        query = tantivy.Query.phrase_query(self._scope.schema, field, [*words], slop=slop)
        return tantivy.Query.boost_query(query, globally / here)

    def _prefix(self, field: str, prefix: str) -> tantivy.Query:
        found = self._scope.searcher.terms_with_prefix(field, prefix)
        best = sorted(found, key=lambda pair: (-pair[1], pair[0]))[:MAX_PREFIX_TERMS]
        return tantivy.Query.disjunction_max_query([self._weighted_term(field, word, 1.0) for word, _ in best])

    def _any_field(self, text: str) -> tantivy.Query | None:
        """One word in any field; the exact form counts a little more."""
        stemmed, terms = self._word(text, STEMMED_FIELDS), index_terms(text)
        if stemmed is None or len(terms) != 1 or not self._weights.exact:
            return stemmed
        as_written = self._weighted_term(EXACT_FIELD, terms[0], self._weights.exact)
        return tantivy.Query.boolean_query([(Must, stemmed), (Should, as_written)])

    def _word(self, text: str, fields: Sequence[str], slop: int = 0) -> tantivy.Query | None:
        """One word as any of its stems in any of the fields: the best match counts."""
        made = [
            self._weighted_term(field, stem[0], getattr(self._weights, field))
            if len(stem) == 1
            else tantivy.Query.boost_query(self._phrase_query(field, stem, slop), getattr(self._weights, field))
            for field in fields
            for stem in self._stems(" ".join(url_words(text)) if field == "url_words" else text)
        ]
        return tantivy.Query.disjunction_max_query(made, self._weights.tie_breaker) if made else None

    def _stems(self, text: str) -> list[tuple[str, ...]]:
        """The distinct stemmings of a text in all languages of the collection."""
        found = dict.fromkeys(tuple(index_terms(text, language)) for language in self._scope.languages or ("",))
        return [stems for stems in found if stems]

    def _weighted_term(self, field: str, term: str, weight: float) -> tantivy.Query:
        """A term, weighted by its rarity in all indexes."""
        # The index contains such characters only in pairs with their neighbours.
        if UNSPACED_SCRIPTS.fullmatch(term) and len(term) == 1:
            pairs = tantivy.Query.regex_query(self._scope.schema, field, f".?{term}.?")
            return tantivy.Query.boost_query(pairs, weight)
        here, globally = self._local_and_global_idf(field, term)
        query = tantivy.Query.term_query(self._scope.schema, field, term)
        return tantivy.Query.boost_query(query, weight * globally / here)

    def _local_and_global_idf(self, field: str, term: str) -> tuple[float, float]:
        """The idf of a term in this field of this index, and in the text of all pages.

        The second one is used: few titles contain a word, so by its rarity there any title would beat any text
        (measured: content questions had a reciprocal rank of .71 instead of .93).
        """
        here = bm25_idf(self._scope.searcher.num_docs, self._scope.searcher.doc_freq(field, term))
        common = max(self._scope.frequency(name, term) for name in {field, _FREQUENCY_FIELD.get(field, field)})
        return here, bm25_idf(self._scope.all_documents, common)


def bm25_idf(documents: int, with_term: int) -> float:
    """BM25's idf of a term, as in the engine."""
    return math.log1p((max(documents, with_term) - with_term + 0.5) / (with_term + 0.5))


def minimum_should_match(words: int) -> int:
    """How many of the words a page must contain: all of two, then three of four.

    >>> [minimum_should_match(n) for n in (1, 2, 3, 4, 8)]
    [1, 2, 2, 3, 6]
    """
    return words if words <= 2 else (3 * words) // 4


def _drop_stop_words(group: QueryGroup, languages: Sequence[str]) -> Sequence[tuple[str, QueryNode]]:
    """The parts without stop words, unless only stop words are left."""
    stop = frozenset().union(*(stop_words(language) for language in languages or ("en",)))
    kept = [(o, n) for o, n in group.parts if o != "may" or not isinstance(n, QueryTerm) or not _is_stop_word(n, stop)]
    return kept if any(o != "not" for o, _ in kept) else group.parts


def _is_stop_word(term: QueryTerm, stop: frozenset[str]) -> bool:
    return _is_plain(term) and term.text.lower() in stop


def _is_plain(node: QueryNode) -> bool:
    """True for a single word without a field."""
    return isinstance(node, QueryTerm) and node.kind == "word" and not node.field


def filter_value(term: QueryTerm) -> str:
    """The value of a term with a filter field."""
    text = term.text.strip()
    return text if term.field in ("subtopic", "genre") else text.lower()


def parse_day(text: str, name: str) -> int | None:
    """An ISO date as seconds since 1970; QueryError if it is invalid."""
    if not text:
        return None
    found = parse_iso_date(text)
    if found is None:
        raise QueryError(f'{name}: "{text[:40]}" is not a date; write it as 2026-01-31')
    return int(found)
