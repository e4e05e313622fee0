"""Builds the engine's query for one index from a parsed query.

Words are weighted by their rarity in all searched indexes (S2-F1): the engine knows only its own, so each term is
boosted by the ratio of the two weights, which makes the scores of different indexes comparable.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import msgspec
import tantivy

from opilio.search.query import (
    FILTER_FIELDS,
    QueryGroup,
    QueryNode,
    QueryTerm,
    UrlMatch,
    check_time,
    is_plain_word,
    match_address,
    match_url_like,
    parse_day,
    translate_word,
)
from opilio.search.results import FOREVER, SearchFilters
from opilio.search.schema import (
    EXACT_FIELD,
    STEMMED_FIELDS,
    WHOLE_TITLE_FIELD,
    index_terms,
    replace_surrogates,
    title_term,
)
from opilio.search.word_forms import drop_stop_words
from opilio.text.tokens import UNSPACED_SCRIPTS, url_words

Must, Should, MustNot = tantivy.Occur.Must, tantivy.Occur.Should, tantivy.Occur.MustNot
FILTER_FIELD_NAMES = frozenset(FILTER_FIELDS.values())
_FIELD_BY_FILTER = {
    "hosts": "host",
    "languages": "language",
    "genres": "genre",
    "polarities": "polarity",
    "bands": "band",
    "subtopics": "subtopic",
    "years": "year",
}
# The field in which the terms of a field are counted.
_FREQUENCY_FIELD = dict.fromkeys(STEMMED_FIELDS, "body")
# Score of a page found by its URL, above any score of words.
EXACT_URL_SCORE = 1_000.0
# A word is enough alone if it has this share of the rarity of all words, and this multiple of the next one's.
DECISIVE_SHARE, DECISIVE_RATIO = 0.45, 1.2
# Words between two neighbouring words of a query.
PAIR_DISTANCE = 4
MAX_WORDS_FOR_PAIRS = 12
# With the rarer word of a pair; finding more takes too long.
MAX_PAIR_PAGES = 10_000
# Most frequent words that a prefix matches.
MAX_PREFIX_TERMS = 40


class FieldWeights(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of a match by field, chosen by measurement (docs/search.md)."""

    title: float = 2.5
    headings: float = 0.4
    body: float = 1.0
    anchors: float = 0.2
    url_words: float = 0.2
    exact: float = 1.5  # the word as written, in any field
    # The share of the other fields besides the best one; above 0 it harmed queries for words of the text.
    tie_breaker: float = 0.0
    proximity: float = 2.5  # the words next to each other
    pairs: float = 4.0  # two neighbouring words near each other
    # The words are the whole title of a page.
    whole_title: float = 1.0


class QueryScope(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the index and all indexes that are searched together."""

    searcher: tantivy.Searcher
    schema: tantivy.Schema
    languages: tuple[str, ...]  # languages for stemming a query
    # The index contains past versions of pages.
    has_past_versions: bool
    all_documents: int
    # (field, term) -> document frequency in all indexes.
    frequency: Callable[[str, str], int]
    # Of the user: the keys of the pages that have each.
    tags: Mapping[str, frozenset[int]] = {}


class QueryBuilder:
    """Builds the queries of one search in one index."""

    def __init__(
        self, scope: QueryScope, weights: FieldWeights, alternatives: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._scope = scope
        self._weights = weights
        # Other forms of a word, searched besides it (`word_forms`).
        self._alternatives = alternatives or {}

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
        if filters.tags:
            tagged = {key for tag in filters.tags for key in self._scope.tags.get(tag, ())}
            made.append(tantivy.Query.term_set_query(schema, "key", sorted(tagged)))
        if filters.added_after is not None:
            made.append(self._range("since", int(filters.added_after) + 1, None))
        if filters.relevant is not None:
            made.append(tantivy.Query.term_query(schema, "relevant", "yes" if filters.relevant else "no"))
        after, before = parse_day(filters.after, "after"), parse_day(filters.before, "before")
        if after is not None or before is not None:
            made.append(self._range("date", after, before))
        if filters.at is not None:
            now = check_time(filters.at)
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
        parts = drop_stop_words(group, self._scope.languages) if group.kind == "some" else group.parts
        occurs = {"must": Must, "not": MustNot, "may": Should}
        made = [(occur, node, self._node(node, relaxed)) for occur, node in parts]
        parts = [(occur, node) for occur, node, query in made if query is not None]
        clauses = [(occurs[occur], query) for occur, _, query in made if query is not None]
        optional = sum(occur == Should for occur, _ in clauses)
        if all(occur == MustNot for occur, _ in clauses):
            clauses.append((Must, tantivy.Query.all_query()))
        if group.kind != "some" or not optional:
            return tantivy.Query.boolean_query(clauses)
        needed = tantivy.Query.boolean_query(clauses, 1 if relaxed else minimum_should_match(optional))
        decisive = None if relaxed else self._decisive(parts)
        if decisive is not None:
            alone = [(Must if n == decisive else o, q) for n, (o, q) in enumerate(clauses)]
            needed = tantivy.Query.disjunction_max_query([needed, tantivy.Query.boolean_query(alone)])
        together = self._proximity(parts)
        return needed if together is None else tantivy.Query.boolean_query([(Must, needed), (Should, together)])

    def _decisive(self, parts: Sequence[tuple[str, QueryNode]]) -> int | None:
        """The place of the word that alone is enough, because it is much rarer than the others; None if none is."""
        words = [n.text for o, n in parts if o == "may" and isinstance(n, QueryTerm) and is_plain_word(n)]
        if len(words) < max(2, len(parts)) or any(map(match_url_like, words)):
            return None
        rarity = [self._rarity(word) for word in words]
        second, most = sorted(rarity)[-2:]
        # A word that many pages contain decides nothing.
        rare = most >= bm25_idf(self._scope.all_documents, MAX_PAIR_PAGES)
        enough = rare and most >= DECISIVE_SHARE * sum(rarity) and most >= DECISIVE_RATIO * second
        return rarity.index(most) if enough else None

    def contains(self, word: str, field: str) -> tantivy.Query:
        """Pages that contain a word, or one of its other forms, in one field of stems."""
        texts = (word, *self._alternatives.get(word, ()))
        stems = dict.fromkeys(stem for text in texts for stem in self._stems(text))
        return tantivy.Query.boolean_query([(Should, self._all_terms(field, stem)) for stem in stems])

    def _all_terms(self, field: str, terms: Sequence[str]) -> tantivy.Query:
        made = [tantivy.Query.term_query(self._scope.schema, field, term) for term in terms]
        return made[0] if len(made) == 1 else tantivy.Query.boolean_query([(Must, query) for query in made])

    def as_written(self, text: str) -> list[tantivy.Query]:
        """All words of a text as they are written, weighted by the engine."""
        return [tantivy.Query.term_query(self._scope.schema, EXACT_FIELD, term) for term in index_terms(text)]

    def exact_idf(self, word: str) -> float:
        """The idf of a word as written."""
        return bm25_idf(self._scope.all_documents, self._exact_frequency(word))

    def exact_share(self, word: str) -> float:
        """The share of pages that contain a word as written."""
        return self._exact_frequency(word) / max(self._scope.all_documents, 1)

    def _exact_frequency(self, word: str) -> int:
        return max((self._scope.frequency(EXACT_FIELD, term) for term in index_terms(word)), default=0)

    def _rarity(self, word: str) -> float:
        """The idf of a word or of its most frequent form; highest if no page contains it."""
        forms = [stems for text in (word, *self._alternatives.get(word, ())) for stems in self._stems(text)]
        common = max((min(self._scope.frequency("body", stem) for stem in stems) for stems in forms), default=0)
        return bm25_idf(self._scope.all_documents, common)

    def _proximity(self, parts: Sequence[tuple[str, QueryNode]]) -> tantivy.Query | None:
        """An optional clause for the plain words of a query next to each other, all of them or two at a time."""
        plain = [n.text for o, n in parts if o != "not" and isinstance(n, QueryTerm) and is_plain_word(n)]
        words = index_terms(" ".join(plain))
        if len(plain) < 2 or len(words) < 2:
            return None
        phrases = [self._phrase_query(EXACT_FIELD, words, 1)]
        phrases += [self._phrase_query("title", stem, 1) for stem in self._stems(" ".join(plain)) if len(stem) > 1]
        clauses = [(tantivy.Query.disjunction_max_query(phrases, 1.0), self._weights.proximity / len(words))]
        for pair in pairwise(plain) if len(words) <= MAX_WORDS_FOR_PAIRS else ():
            stems = [stem for stem in self._stems(" ".join(pair)) if len(stem) > 1]
            near = [self._phrase_query("body", stem, PAIR_DISTANCE) for stem in stems if not self._is_frequent(stem)]
            clauses += [(query, self._weights.pairs / len(words)) for query in near]
        return tantivy.Query.boolean_query([(Should, tantivy.Query.boost_query(q, w)) for q, w in clauses])

    def _is_frequent(self, stems: Sequence[str]) -> bool:
        """True if all these words are on many pages: their distance says little, and it takes long to find."""
        rarest = min(self._scope.searcher.doc_freq("body", stem) for stem in stems)
        return rarest > MAX_PAIR_PAGES

    def _title(self, group: QueryGroup) -> tantivy.Query | None:
        """An optional clause for all words of a plain query as a page's whole title."""
        parts = [node for occur, node in group.parts if occur == "may" and is_plain_word(node)]
        words = title_term(" ".join(node.text for node in parts if isinstance(node, QueryTerm)))
        if len(parts) != len(group.parts) or not words:
            return None
        return self._weighted_term(WHOLE_TITLE_FIELD, words, self._weights.whole_title)

    def _term(self, term: QueryTerm) -> tantivy.Query | None:
        if term.field in FILTER_FIELD_NAMES:
            fact = tantivy.Query.term_query(self._scope.schema, term.field, filter_value(term))
            return tantivy.Query.const_score_query(fact, 0.0)
        if term.kind == "word":
            word = self._word(term.text, (term.field,)) if term.field else None
            return word if term.field else translate_word(term.text, self._url, self._any_field)
        words = index_terms(term.text)
        if not words:
            return None
        if term.kind in ("phrase", "address"):
            return self._phrase(term, words) if term.kind == "phrase" else self._url(match_address(term.text))
        if term.kind == "prefix":
            return self._prefix(term.field or EXACT_FIELD, words[-1])
        return tantivy.Query.fuzzy_term_query(self._scope.schema, term.field or EXACT_FIELD, words[-1], term.distance)

    def _url(self, url: UrlMatch) -> tantivy.Query:
        """The page with this URL first, or the pages of a host; then pages that contain the URL as text."""
        field, values = ("key", url.keys) if url.keys else ("host", url.hosts)
        pages = tantivy.Query.term_set_query(self._scope.schema, field, [*values])
        found = tantivy.Query.const_score_query(pages, EXACT_URL_SCORE if url.keys else 1.0)
        mentions = self._any_field(url.text)
        return found if mentions is None else tantivy.Query.boolean_query([(Should, found), (Should, mentions)])

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
        """One word in any field, or one of its other forms."""
        forms = [self._form(form) for form in (text, *self._alternatives.get(text, ()))]
        known = [form for form in forms if form is not None]
        return tantivy.Query.disjunction_max_query(known) if len(known) > 1 else next(iter(known), None)

    def _form(self, text: str) -> tantivy.Query | None:
        """One form of a word in any field; the form as written counts a little more."""
        stemmed, terms = self._word(text, STEMMED_FIELDS), index_terms(text)
        if stemmed is None or len(terms) != 1 or not self._weights.exact:
            return stemmed
        as_written = self._weighted_term(EXACT_FIELD, terms[0], self._weights.exact)
        return tantivy.Query.boolean_query([(Must, stemmed), (Should, as_written)])

    def _word(self, text: str, fields: Sequence[str], slop: int = 0) -> tantivy.Query | None:
        """One word as any of its stems in any of the fields: the best match counts."""
        made = []
        for field in fields:
            stems = self._stems(" ".join(url_words(text)) if field == "url_words" else text)
            forms, weight = [stem[0] for stem in stems if len(stem) == 1], getattr(self._weights, field)
            made += [self._weighted_term(field, form, weight, forms) for form in forms]
            phrases = [self._phrase_query(field, stem, slop) for stem in stems if len(stem) > 1]
            made += [tantivy.Query.boost_query(phrase, weight) for phrase in phrases]
        return tantivy.Query.disjunction_max_query(made, self._weights.tie_breaker) if made else None

    def _stems(self, text: str) -> list[tuple[str, ...]]:
        """The distinct stemmings of a text in all languages of the collection."""
        found = dict.fromkeys(tuple(index_terms(text, language)) for language in self._scope.languages or ("",))
        return [stems for stems in found if stems]

    def _weighted_term(self, field: str, term: str, weight: float, forms: Sequence[str] = ()) -> tantivy.Query:
        """A term, weighted by its rarity in all indexes, or that of the most frequent of its forms.

        Few pages contain a stem of a language that few pages have; it is not rarer than the word.
        """
        # The index contains such characters only in pairs with their neighbours.
        if UNSPACED_SCRIPTS.fullmatch(term) and len(term) == 1:
            pairs = tantivy.Query.regex_query(self._scope.schema, field, f".?{term}.?")
            return tantivy.Query.boost_query(pairs, weight)
        here, globally = self._local_and_global_idf(field, term, forms)
        query = tantivy.Query.term_query(self._scope.schema, field, term)
        return tantivy.Query.boost_query(query, weight * globally / here)

    def _local_and_global_idf(self, field: str, term: str, forms: Sequence[str] = ()) -> tuple[float, float]:
        """The idf of a term in this field of this index, and in the text of all pages.

        The second one is used: few titles contain a word, so by its rarity there any title would beat any text
        (measured: content questions had a reciprocal rank of .71 instead of .93).
        """
        here = bm25_idf(self._scope.searcher.num_docs, self._scope.searcher.doc_freq(field, term))
        counted = {field, _FREQUENCY_FIELD.get(field, field)}
        common = max(self._scope.frequency(name, form) for name in counted for form in {term, *forms})
        return here, bm25_idf(self._scope.all_documents, common)


def bm25_idf(documents: int, with_term: int) -> float:
    """BM25's idf of a term, as in the engine."""
    return math.log1p((max(documents, with_term) - with_term + 0.5) / (with_term + 0.5))


def minimum_should_match(words: int) -> int:
    """How many of the words a page must contain: both of two, then half.

    >>> [minimum_should_match(n) for n in (1, 2, 3, 4, 8)]
    [1, 2, 2, 2, 4]
    """
    return min(words, max(2, (words + 1) // 2))


def filter_value(term: QueryTerm) -> str:
    """The value of a term with a filter field."""
    text = term.text.strip()
    return text if term.field in ("subtopic", "genre") else text.lower()
