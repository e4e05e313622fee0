"""Translates a parsed query and filters into OpenSearch's query language.

All text is analyzed here, by the analyzers of the embedded index, and sent as terms separated by spaces: the server
needs no analyzer of its own, and a query means the same in both. Two things differ from the embedded index: a word that
is much rarer than the others is not enough alone, and no other forms of a word are added.
"""

from collections.abc import Sequence
from typing import Any

from opilio.search.query import (
    QueryGroup,
    QueryNode,
    QueryTerm,
    UrlMatch,
    check_time,
    is_plain_word,
    match_address,
    parse_day,
    translate_word,
)
from opilio.search.query_builder import (
    EXACT_URL_SCORE,
    FILTER_FIELD_NAMES,
    FieldWeights,
    filter_value,
    minimum_should_match,
)
from opilio.search.results import FACET_FIELDS, FOREVER, SearchFilters
from opilio.search.schema import EXACT_FIELD, STEMMED_FIELDS, WHOLE_TITLE_FIELD, index_terms, title_term
from opilio.search.word_forms import drop_stop_words
from opilio.text.tokens import UNSPACED_SCRIPTS, url_words

Json = dict[str, Any]
_ALL: Json = {"match_all": {}}


class QueryTranslator:
    """Translates the queries of one search; `languages` are those of the documents."""

    def __init__(self, languages: Sequence[str], weights: FieldWeights | None = None) -> None:
        self._languages = tuple(languages)
        self._weights = weights or FieldWeights()

    def translate(self, group: QueryGroup, filters: SearchFilters, *, relaxed: bool = False) -> Json:
        """The complete query. `relaxed`: one matching word is enough."""
        must = self._group(group, relaxed) if group.parts else _ALL
        title = self._title(group)
        return {"bool": {"must": [must], "should": [title] if title else [], "filter": filter_clauses(filters)}}

    def _group(self, group: QueryGroup, relaxed: bool) -> Json:
        parts = drop_stop_words(group, self._languages) if group.kind == "some" else group.parts
        clauses: dict[str, list[Json]] = {"must": [], "should": [], "must_not": []}
        names = {"must": "must", "may": "should", "not": "must_not"}
        for occur, node in parts:
            made = self._term(node) if isinstance(node, QueryTerm) else self._group(node, relaxed)
            if made is not None:
                clauses[names[occur]].append(made)
        if not clauses["must"] and not clauses["should"]:
            clauses["must"].append(_ALL)
        query: Json = {"bool": {name: found for name, found in clauses.items() if found}}
        optional = len(clauses["should"])
        if optional:
            some = group.kind == "some" and not relaxed
            query["bool"]["minimum_should_match"] = minimum_should_match(optional) if some else 1
        near = self._proximity(parts) if group.kind == "some" else None
        return query if near is None else {"bool": {"must": [query], "should": [near]}}

    def _proximity(self, parts: Sequence[tuple[str, QueryNode]]) -> Json | None:
        """An optional clause for the plain words of a query next to each other."""
        plain = [n.text for o, n in parts if o != "not" and isinstance(n, QueryTerm) and is_plain_word(n)]
        words = index_terms(" ".join(plain))
        if len(plain) < 2 or len(words) < 2:
            return None
        return _phrase(EXACT_FIELD, words, 1, self._weights.proximity / len(words))

    def _title(self, group: QueryGroup) -> Json | None:
        """An optional clause for all words of a plain query as a page's whole title."""
        plain = [node for occur, node in group.parts if occur == "may" and is_plain_word(node)]
        words = title_term(" ".join(node.text for node in plain if isinstance(node, QueryTerm)))
        if len(plain) != len(group.parts) or not words:
            return None
        return _exactly(WHOLE_TITLE_FIELD, words, self._weights.whole_title)

    def _term(self, term: QueryTerm) -> Json | None:
        if term.field in FILTER_FIELD_NAMES:
            return {"constant_score": {"filter": {"term": {term.field: filter_value(term)}}, "boost": 0.0}}
        if term.kind == "word":
            if not term.field:
                return translate_word(term.text, self._url, self._any_field)
            return self._word(term.text, (term.field,))
        words, field = index_terms(term.text), term.field or EXACT_FIELD
        if words and term.kind == "address":
            return self._url(match_address(term.text))
        return self._inexact(term, words, field) if words else None

    def _inexact(self, term: QueryTerm, words: Sequence[str], field: str) -> Json | None:
        """A phrase, a prefix or a fuzzy word."""
        if term.kind == "phrase":
            return (
                self._word(term.text, (field,), term.distance) if term.field else _phrase(field, words, term.distance)
            )
        if term.kind == "prefix":
            return {"prefix": {field: {"value": words[-1]}}}
        return {"fuzzy": {field: {"value": words[-1], "fuzziness": term.distance, "transpositions": True}}}

    def _url(self, url: UrlMatch) -> Json:
        """The page with this URL first, or the pages of a host; then pages that contain the URL as text."""
        terms = {"key": list(url.keys)} if url.keys else {"host": list(url.hosts)}
        boost = EXACT_URL_SCORE if url.keys else 1.0
        found = {"constant_score": {"filter": {"terms": terms}, "boost": boost}}
        mentions = self._any_field(url.text)
        return found if mentions is None else {"bool": {"should": [found, mentions], "minimum_should_match": 1}}

    def _any_field(self, text: str) -> Json | None:
        """One word in any field; the form as written counts a little more."""
        stemmed, terms = self._word(text, STEMMED_FIELDS), index_terms(text)
        if stemmed is None or len(terms) != 1:
            return stemmed
        return {"bool": {"must": [stemmed], "should": [_exactly(EXACT_FIELD, terms[0], self._weights.exact)]}}

    def _word(self, text: str, fields: Sequence[str], slop: int = 0) -> Json | None:
        """One word as any of its stems in any of the fields: the best match counts."""
        made = [
            _phrase(field, stem, slop, getattr(self._weights, field))
            for field in fields
            for stem in self._stems(" ".join(url_words(text)) if field == "url_words" else text)
        ]
        return {"dis_max": {"queries": made, "tie_breaker": self._weights.tie_breaker}} if made else None

    def _stems(self, text: str) -> list[tuple[str, ...]]:
        """The distinct stemmings of a text in all languages of the collection."""
        found = dict.fromkeys(tuple(index_terms(text, language)) for language in self._languages or ("",))
        return [stems for stems in found if stems]


def _exactly(field: str, term: str, boost: float) -> Json:
    return {"term": {field: {"value": term, "boost": boost}}}


def _phrase(field: str, words: Sequence[str], slop: int, boost: float = 1.0) -> Json:
    """Terms next to each other; a single one as it is."""
    if len(words) > 1:
        return {"match_phrase": {field: {"query": " ".join(words), "slop": slop, "boost": boost}}}
    # The index contains such characters only in pairs with their neighbours.
    if UNSPACED_SCRIPTS.fullmatch(words[0]) and len(words[0]) == 1:
        return {"regexp": {field: {"value": f".?{words[0]}.?", "boost": boost}}}
    return _exactly(field, words[0], boost)


def filter_clauses(filters: SearchFilters) -> list[Json]:
    """The filters, which do not change scores. Past versions are found only with `at`."""
    made: list[Json] = [
        {"terms": {field: list(values)}} for name, field, _ in FACET_FIELDS if (values := getattr(filters, name))
    ]
    if filters.relevant is not None:
        made.append({"term": {"relevant": "yes" if filters.relevant else "no"}})
    if filters.added_after is not None:
        made.append({"range": {"since": {"gt": int(filters.added_after)}}})
    after, before = parse_day(filters.after, "after"), parse_day(filters.before, "before")
    limits = {name: value for name, value in (("gte", after), ("lt", before)) if value is not None}
    if limits:
        made.append({"range": {"date": limits}})
    if filters.at is None:
        return [*made, {"term": {"until": FOREVER}}]
    now = check_time(filters.at)
    return [*made, {"range": {"since": {"lte": now}}}, {"range": {"until": {"gt": now}}}]
