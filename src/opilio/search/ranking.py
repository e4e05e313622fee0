"""One search over several indexes (S2-F1): queried, ranked and merged, with facets and a spelling suggestion.

Ranking has two steps: the engine finds the best text matches, and for a question the pages nearest in meaning; these
are ordered by text score, meaning and the judge's score together (`RankingWeights`).
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tantivy

from opilio.search.candidates import (
    MAX_PAGED_HITS,
    MIN_TEXT_SCORE,
    Matches,
    OpenIndex,
    RankingWeights,
    SearchCandidate,
    SearchPlan,
    SearchRequest,
    build_hit,
    covered_shares,
    merge_candidates,
    scores_among,
)
from opilio.search.meaning import Matrix, query_vector, word_rarity
from opilio.search.query import QueryGroup, QueryTerm, is_plain_word, parse_query, positive_terms
from opilio.search.query_builder import (
    FILTER_FIELD_NAMES,
    FieldWeights,
    QueryBuilder,
    QueryScope,
    filter_value,
)
from opilio.search.results import (
    Facet,
    FacetedIndex,
    SearchFilters,
    SearchHit,
    SearchResults,
    count_facets,
)
from opilio.search.schema import LEAD_FIELD, replace_surrogates
from opilio.search.snippet import Highlighter
from opilio.search.word_forms import WordForms, drop_stop_words, find_word_forms, is_foreign
from opilio.text.languages import is_stop_word
from opilio.text.word_vectors import Vectors

OPEN_FILTER_FIELDS = {"hosts": "host", "languages": "language", "genres": "genre", "subtopics": "subtopic"}
OPEN_FILTER_FIELDS |= {"polarities": "polarity"}
# Values listed for an unknown filter value.
MAX_LISTED_VALUES = 8
# A shorter query is searched by its words only, if some page contains them.
MIN_QUESTION_WORDS = 3
# Of the pages that contain a word of another language.
MAX_FOREIGN_SHARE = 0.01
RELAXED_NOTE = "No page contains enough of the words; these contain some of them, or are close in meaning."


PlainHits = list[tuple[float, int]]  # score and key, best first


class DistinctQueries(NamedTuple):
    """A query for each index, which together find each page once, and the number of these pages."""

    queries: list[tantivy.Query]
    pages: int


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
        self._languages = [language for index, _ in self._indexes for language in index.languages]
        searchers = [searcher for _, searcher in self._indexes]
        schema = indexes[0].schema
        self._forms = find_word_forms(searchers, schema, request.query, self._group) if searchers else WordForms()
        self._builders = [
            QueryBuilder(self._scope(s, searcher), weights, self._forms.alternatives) for s, searcher in self._indexes
        ]
        self._foreign = bool(searchers) and is_foreign(self._group, self._languages, self._is_rare)

    def _scope(self, index: OpenIndex, searcher: tantivy.Searcher) -> QueryScope:
        searchers = [s for _, s in self._indexes]
        return QueryScope(
            searcher=searcher,
            schema=index.schema,
            languages=index.languages,
            has_past_versions=index.has_past_versions,
            all_documents=sum(s.num_docs for s in searchers),
            frequency=lambda field, term: sum(s.doc_freq(field, term) for s in searchers),
            tags=index.tags,
        )

    def run(self) -> SearchResults:
        request = self._request
        matches, notes = self.find_with_notes()
        chosen = matches.found[(request.page - 1) * request.size : request.page * request.size]
        return SearchResults(
            query=request.query,
            total=matches.total,
            page=request.page,
            pages=math.ceil(min(matches.total, MAX_PAGED_HITS) / request.size),
            size=request.size,
            hits=tuple(self._hits(chosen)),
            facets=self._facets(matches.plan),
            suggestion=self.suggestion(matches.total),
            notes=notes,
        )

    def _facets(self, plan: SearchPlan) -> tuple[Facet, ...]:
        indexes = [FacetedIndex(searcher, index.schema, index.tags) for index, searcher in self._indexes]
        return count_facets(indexes, self._request.filters, lambda filters: self._each_once(self._union(plan, filters)))

    def _each_once(self, queries: list[tantivy.Query]) -> list[tantivy.Query]:
        return queries if len(queries) == 1 else self._distinct(queries).queries

    def find_with_notes(self) -> tuple[Matches, tuple[str, ...]]:
        """The best pages, with fewer of the words if no page has enough of them, and remarks for the user."""
        query, matches = self._request.query, self.find()
        notes = [*self._unmatched_filters()]
        plain = set(matches.plan.plain_best)
        enough = any(one.text_score > 0.0 or one.key not in plain for one in matches.found)
        if not enough and len(self._group.parts) > 1:
            matches = self.find(relaxed=True)
            notes[:0] = [RELAXED_NOTE] if matches.total else []
        elif query.strip() and not any(map(str.isalnum, query)):
            notes.insert(0, "The query contains no word to search for; these are all pages.")
        return matches, tuple(notes)

    def find(self, *, relaxed: bool = False) -> Matches:
        """The best pages. `relaxed`: one word or a similar meaning is enough."""
        text = [builder.build(self._group, relaxed=relaxed) for builder in self._builders]
        asked = relaxed or self._foreign or len(self._group.parts) >= MIN_QUESTION_WORDS
        direction = self.direction() if asked else None
        if direction is None:
            return self._matches(SearchPlan(text=text))
        least = self._ranking.min_similarity_alone if relaxed or self._foreign else self._ranking.min_similarity
        similarities = [index.load_meanings().similarities(direction) for index, _ in self._indexes]
        plain = self._plain_best()
        plan = SearchPlan(
            text=text,
            similarities=similarities,
            near=self._near(similarities, least, plain),
            plain_best=[key for _, key in sorted((hit for hits in plain for hit in hits), reverse=True)],
            meaning_weight=self._ranking.meaning_weight(len(self._content_words()), foreign=self._foreign),
        )
        return self._matches(plan)

    def direction(self) -> Vectors | None:
        """The meaning of a query of plain words; None if it has operators, or another order than the best is wanted."""
        plain = self._group.parts and all(occur == "may" and is_plain_word(node) for occur, node in self._group.parts)
        if not plain or self._request.sort != "best" or not self._builders:
            return None
        words = self._content_words()
        # One stop word does not show the language of a query, but it has no meaning in any.
        wanted = [word for word in words if not is_stop_word(word.lower())] or words
        # Its words are meant as they are written.
        if self._foreign:
            return query_vector({word: word_rarity(word) for word in wanted})
        return query_vector({self._forms.known_form(word): self._builders[0].exact_idf(word) for word in wanted})

    def _is_rare(self, word: str) -> bool:
        return self._builders[0].exact_share(word) <= MAX_FOREIGN_SHARE

    def _content_words(self) -> list[str]:
        """The plain words of the query without stop words."""
        kept = drop_stop_words(self._group, self._languages)
        return [node.text for _, node in kept if isinstance(node, QueryTerm) and is_plain_word(node)]

    def content_terms(self) -> list[QueryTerm]:
        """What a page should contain: the terms of the query without stop words, and their other forms."""
        parts = QueryGroup(kind="some", parts=tuple(drop_stop_words(self._group, self._languages)))
        terms = [term for term in positive_terms(parts) if term.field not in FILTER_FIELD_NAMES]
        return [*terms, *self._forms.extra_terms()]

    def weight_of(self, term: QueryTerm) -> float:
        """The rarity of a term in all indexes."""
        return self._builders[0].exact_idf(term.text)

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

        known = sorted({tag for index, _ in self._indexes for tag in index.tags})
        for tag in filters.tags:
            if tag not in known:
                listed = f" There are: {', '.join(known[:MAX_LISTED_VALUES])}." if known else ""
                yield f'No page has the tag "{tag}".{listed}'

    def _most_frequent(self, field: str) -> str:
        counts = Counter[str]()
        for _, searcher in self._indexes:
            counts.update(dict(searcher.terms_with_prefix(field, "")))
        names = [name for name, _ in counts.most_common(MAX_LISTED_VALUES + 1) if name][:MAX_LISTED_VALUES]
        return f" There are: {', '.join(names)}{' …' if len(counts) > MAX_LISTED_VALUES + 1 else ''}." if names else ""

    def suggestion(self, total: int) -> str:
        """The query in a better spelling, if that finds pages, and more of them unless it was searched already."""
        better = self._forms.corrected
        if not better:
            return ""
        plan = SearchPlan(text=[builder.build(parse_query(better)) for builder in self._builders])
        found = self._distinct(self._union(plan, self._request.filters)).pages
        return better if found > (0 if self._forms.alternatives else total) else ""

    def _union(self, plan: SearchPlan, filters: SearchFilters) -> list[tantivy.Query]:
        """The complete query for each index: the words or the meaning, and the filters."""
        queries = plan.text
        if plan.similarities:
            queries = [
                tantivy.Query.boolean_query([(tantivy.Occur.Should, text), (tantivy.Occur.Should, near)])
                for text, near in zip(plan.text, plan.near, strict=True)
            ]
        return [builder.apply_filters(query, filters) for builder, query in zip(self._builders, queries, strict=True)]

    def _near(self, similarities: Sequence[Matrix], least: float, plain: Sequence[PlainHits]) -> list[tantivy.Query]:
        """The pages nearest in meaning and those that plain BM25 ranks first, as a query for each index."""
        queries = []
        for (index, _), similarity, best in zip(self._indexes, similarities, plain, strict=True):
            keys = index.load_meanings().nearest(similarity, self._ranking.meaning_pages, least).tolist()
            chosen = tantivy.Query.term_set_query(index.schema, "key", [*keys, *(key for _, key in best)])
            queries.append(tantivy.Query.const_score_query(chosen, 0.0))
        return queries

    def _plain_best(self) -> list[PlainHits]:
        """The first pages of each index by plain BM25: one word is enough, each as it is written, without stop words.

        So a page that lacks the word that seems to decide a question ("why was gitcli taught") is a candidate too. None
        if the query is in another language, or one of its words is misspelled.
        """
        words = self._content_words()
        misspelled = any(word in self._forms.alternatives and not self._builders[0].exact_share(word) for word in words)
        if self._foreign or misspelled:
            return [[] for _ in self._indexes]
        text = " ".join(words)
        found: list[PlainHits] = []
        for (_, searcher), builder in zip(self._indexes, self._builders, strict=True):
            any_of = tantivy.Query.boolean_query([(tantivy.Occur.Should, word) for word in builder.as_written(text)])
            query = builder.apply_filters(any_of, self._request.filters)
            # Without a count, pages that can't be among the best are skipped.
            hits = searcher.search(query, self._ranking.plain_pages, count=False).hits
            keys = searcher.fast_field_values("key", [address for _, address in hits])
            found.append([(float(score or 0.0), int(key or 0)) for (score, _), key in zip(hits, keys, strict=True)])
        return found

    def _matches(self, plan: SearchPlan) -> Matches:
        """The number of matching pages, and the best ones, each page once.

        Invariant: the hits before a page of results are the same for every page number. So a fixed number of candidates
        of each index is reordered, and equal scores keep the engine's order.
        """
        mixed, filters = self._ranking.candidates, self._request.filters
        limit = max(mixed, self._request.page * self._request.size)
        results = [
            self._search_index(*one, builder.apply_filters(query, filters), limit)
            for one, builder, query in zip(self._indexes, self._builders, plan.text, strict=True)
        ]
        added = self._added(plan)
        head = merge_candidates(one for _, found in results for one in found[:mixed])
        tail = merge_candidates([*head[mixed:], *(one for _, found in results for one in found[mixed:])])
        first = {one.key: one for one in head[:mixed]}
        for one in merge_candidates(one for _, found in added for one in found):
            known = first.setdefault(one.key, one)
            if known is not one:
                known.collections += one.collections
        for one in tail:
            if one.key in first:
                first[one.key].collections += one.collections
        rest = [one for one in tail if one.key not in first]
        if self._request.sort == "best":
            self._score(plan, list(first.values()), rest)
        found = [*self._ranking.order(first.values(), plan.plain_best), *rest]
        all_read = all(count == len(candidates) for count, candidates in (*results, *added))
        if all_read:
            total = len(found)
        elif len(results) == 1:
            total = sum(count for count, _ in (*results, *added))
        else:
            total = self._distinct(self._union(plan, filters)).pages
        return Matches(plan=plan, total=total, found=found)

    def _added(self, plan: SearchPlan) -> list[tuple[int, list[SearchCandidate]]]:
        """The pages nearest in meaning that do not match the words."""
        if not plan.similarities:
            return []
        filters, limit = self._request.filters, self._ranking.meaning_pages
        made = []
        for one, builder, text, near in zip(self._indexes, self._builders, plan.text, plan.near, strict=True):
            query = tantivy.Query.boolean_query([(tantivy.Occur.Must, near), (tantivy.Occur.MustNot, text)])
            made.append(self._search_index(*one, builder.apply_filters(query, filters), limit))
        return made

    def _score(self, plan: SearchPlan, first: Sequence[SearchCandidate], rest: Sequence[SearchCandidate]) -> None:
        if plan.similarities:
            keys = np.array([one.key for one in first], dtype=np.int64)
            columns = [
                index.load_meanings().select(similarities, keys)
                for (index, _), similarities in zip(self._indexes, plan.similarities, strict=True)
            ]
            for one, meaning in zip(first, np.max(columns, axis=0).tolist(), strict=True):
                one.meaning = meaning
            if not self._foreign:
                self._set_coverage(first)
        self._ranking.combine_candidates(first, plan.meaning_weight)
        for one in rest:
            one.score = math.log(max(one.text_score, MIN_TEXT_SCORE))

    def _set_coverage(self, found: Sequence[SearchCandidate]) -> None:
        """Which of the question's words each page contains, and where: all of them count more than one in a title."""
        words = self._content_words()
        for (index, _), builder in zip(self._indexes, self._builders, strict=True):
            pages = [one for one in found if one.index is index]
            weights = [builder.exact_idf(word) for word in words]
            anywhere = [builder.build(parse_query(word)) for word in words]
            title, lead = ([builder.contains(word, field) for word in words] for field in ("title", LEAD_FIELD))
            columns = [
                covered_shares(pages, index.schema, [*zip(queries, weights, strict=True)])
                for queries in (anywhere, title, lead)
            ]
            for one, *shares in zip(pages, *columns, strict=True):
                one.coverage, one.title_coverage, one.lead_coverage = shares
            plain = scores_among(pages, index.schema, builder.as_written(self._request.query))
            for one, score in zip(pages, plain.tolist(), strict=True):
                one.plain = score
        best = max((one.plain for one in found), default=0.0)
        for one in found:
            share = one.plain / best if best > 0.0 else 1.0
            one.plain = math.log(max(share, self._ranking.plain_floor))

    def _distinct(self, queries: Sequence[tantivy.Query]) -> DistinctQueries:
        """The queries without pages that an earlier index has; beyond `MAX_PAGED_HITS` per index none is noticed."""
        pages, seen, made = 0, set[object](), list[tantivy.Query]()
        for (index, searcher), query in zip(self._indexes, queries, strict=True):
            result = searcher.search(query, MAX_PAGED_HITS if len(self._indexes) > 1 else 1)
            keys = searcher.fast_field_values("key", [address for _, address in result.hits])
            repeated = [key for key in keys if key in seen]
            seen.update(keys)
            pages += result.count - len(repeated)  # type: ignore[attr-defined]  # the stub forgot it
            if repeated:
                others = tantivy.Query.term_set_query(index.schema, "key", repeated)
                query = tantivy.Query.boolean_query([(tantivy.Occur.Must, query), (tantivy.Occur.MustNot, others)])
            made.append(query)
        return DistinctQueries(made, pages)

    def _search_index(
        self, index: OpenIndex, searcher: tantivy.Searcher, query: tantivy.Query, limit: int
    ) -> tuple[int, list[SearchCandidate]]:
        order = {"newest": "date", "added": "since", "relevance": "relevance"}.get(self._request.sort)
        if order is None and not self._group.parts:
            order = "relevance"
        result = searcher.search(query, limit, order_by_field=order)
        addresses = [address for _, address in result.hits]
        count: int = result.count  # type: ignore[attr-defined]  # the stub forgot it
        if not addresses:
            return count, []
        keys = np.array(searcher.fast_field_values("key", addresses), dtype=np.int64)
        relevance = np.array(searcher.fast_field_values("relevance", addresses), dtype=np.float32)
        values = np.array([value for value, _ in result.hits], dtype=np.float64)
        text = np.ones(len(values)) if order else values
        values_of = [column.tolist() for column in (keys, text, relevance, values)]
        columns = zip(addresses, *values_of, strict=True)
        return count, [SearchCandidate(index, a, k, t, r, s, [index.name]) for a, k, t, r, s in columns]

    def _hits(self, chosen: Iterable[SearchCandidate]) -> Iterable[SearchHit]:
        makers: dict[str, Highlighter] = {}
        wanted = self.content_terms()
        for one in chosen:
            stored = one.stored()
            language = str(stored["language"][0])
            highlighter = makers.get(language) or makers.setdefault(language, Highlighter(wanted, language))
            yield build_hit(stored, highlighter, one, self._tags_of(one))

    def _tags_of(self, page: SearchCandidate) -> list[str]:
        """The user's tags of a page in all collections."""
        return sorted({tag for index, _ in self._indexes for tag, keys in index.tags.items() if page.key in keys})
