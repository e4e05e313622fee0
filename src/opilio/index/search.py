"""One search over several indexes (S2-F1): asked, ranked, merged, with facets and a better spelling.

Ranking has two steps: the engine finds the best matches of the words; of these, the order is made by the words, the
judge's score and the authority in the link graph together (`Mix`). Reads only.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

import msgspec
import numpy as np
import tantivy

from opilio.index.analysis import valid
from opilio.index.facets import facets
from opilio.index.hits import Found, Scores, Shelf, Values, hit_of, merged
from opilio.index.querybuild import FACTS, QueryBuilder, Scope, Weights, fact_of
from opilio.index.queryparse import Group, check_fact, parse, words_of
from opilio.index.records import SORTS, Filters, Hit, Results
from opilio.index.snippet import Marker
from opilio.index.spelling import Speller
from opilio.model.errors import QueryError

DEEPEST_HIT = 10_000  # hits that can be paged through
LARGEST_PAGE = 100
LEAST_TEXT = 1e-9  # a score of the words that has a logarithm
OPEN_FACTS = {"hosts": "host", "languages": "language", "genres": "genre", "subtopics": "subtopic"}
TOLD = 8  # values of a fact that are told where one is unknown
FEW = 2  # hits or fewer make one look for a better spelling


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """How the order is made: log of the words' score, plus these weights times relevance and authority (both 0..1).

    Who looks for one page by words that few others have is to find it: relevance decides as far as the words leave it
    open, by how many pages match them nearly as well as the best one does. (The second best, to be exact: where the
    query is a page's title, that page stands out, and what is to be said of the others stays as open as it was.)
    Authority has the weight of a tie-breaker: more of it gained nothing where it was measured (docs/search.md).
    """

    relevance: float = 0.8
    authority: float = 0.05
    candidates: int = 200  # best matches of the words among which relevance and authority decide
    near: float = 0.7  # of the second best score of the words: a match nearly as good
    open_at: float = 30.0  # such matches that give relevance half of its weight

    def mixed(self, text: Scores, relevance: Values, authority: Values) -> Scores:
        """The scores that make the order, of all candidates of a search at once."""
        best = np.sort(text)[-2:].min(initial=np.inf)
        near = int((text >= self.near * best).sum())
        share = near**2 / (near**2 + self.open_at**2)
        scores: Scores = np.log(np.maximum(text, LEAST_TEXT)).astype(np.float64)
        scores += share * (self.relevance * relevance + self.authority * authority)
        return scores


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of a search."""

    query: str = ""
    filters: Filters = Filters()
    page: int = 1
    size: int = 10
    sort: str = "best"

    def check(self) -> None:
        if self.sort not in SORTS:
            raise QueryError(f'sort "{self.sort}" is unknown; known: {", ".join(SORTS)}')
        for band in self.filters.bands:
            check_fact("band", band)
        if self.page < 1 or not 1 <= self.size <= LARGEST_PAGE:
            raise QueryError(f"page must be 1 or more, and a page has 1 to {LARGEST_PAGE} hits")
        if self.page * self.size > DEEPEST_HIT:
            raise QueryError(f"only the first {DEEPEST_HIT} hits can be paged through; narrow the search with filters")


class Search:
    """One question to all shelves, at one moment of each."""

    def __init__(self, shelves: Sequence[Shelf], asked: Asked, weights: Weights, mix: Mix) -> None:
        asked.check()
        wanted = asked.filters.collections
        self._asked = asked
        self._mix = mix
        self._group = parse(asked.query)
        self._shelves = [(s, s.searcher) for s in shelves if not wanted or s.name in wanted]
        self._builders = [QueryBuilder(self._scope(s, searcher), weights) for s, searcher in self._shelves]

    def _scope(self, shelf: Shelf, searcher: tantivy.Searcher) -> Scope:
        searchers = [s for _, s in self._shelves]
        return Scope(
            searcher=searcher,
            schema=shelf.schema,
            languages=shelf.languages,
            versions=shelf.versions,
            all_documents=sum(s.num_docs for s in searchers),
            frequency=lambda field, term: sum(s.doc_freq(field, term) for s in searchers),
        )

    def run(self) -> Results:
        asked, words = self._asked, self._words(self._group)
        total, found = self._candidates(self._among(words, asked.filters))
        suggestion = self._suggestion(total) if total <= FEW else ""
        notes: tuple[str, ...] = ()
        if not total and len(self._group.parts) > 1:
            words = self._words(self._group, relaxed=True)
            total, found = self._candidates(self._among(words, asked.filters))
            notes = ("No page has enough of the words; these have some of them.",) if total else ()
        elif asked.query.strip() and not any(map(str.isalnum, asked.query)):
            notes = ("The query has no word that can be looked for; these are all pages.",)
        chosen = found[(asked.page - 1) * asked.size : asked.page * asked.size]
        return Results(
            query=asked.query,
            total=total,
            page=asked.page,
            pages=math.ceil(min(total, DEEPEST_HIT) / asked.size),
            size=asked.size,
            hits=tuple(self._hits(chosen)),
            facets=facets([s for _, s in self._shelves], asked.filters, partial(self._among, words)),
            suggestion=suggestion,
            notes=(*notes, *self._unmet()),
        )

    def _unmet(self) -> Iterable[str]:
        """What no page at all has: most often a misspelt filter."""
        filters = self._asked.filters
        wanted = [(field, valid(value)) for name, field in OPEN_FACTS.items() for value in getattr(filters, name)]
        wanted += [(t.field, fact_of(t)) for t in words_of(self._group) if t.field in OPEN_FACTS.values()]
        for field, value in wanted:
            if not any(s.doc_freq(field, value) for _, s in self._shelves):
                yield f'No page has the {field} "{value}".{self._most_frequent(field)}'

    def _most_frequent(self, field: str) -> str:
        counts = Counter[str]()
        for _, searcher in self._shelves:
            counts.update(dict(searcher.terms_with_prefix(field, "")))
        names = [name for name, _ in counts.most_common(TOLD + 1) if name][:TOLD]
        return f" There are: {', '.join(names)}{' …' if len(counts) > TOLD + 1 else ''}." if names else ""

    def _suggestion(self, total: int) -> str:
        """A better spelling, where it finds more."""
        better = Speller([searcher for _, searcher in self._shelves]).better(self._asked.query, self._group)
        if not better:
            return ""
        queries = self._among(self._words(parse(better)), self._asked.filters)
        return better if self._distinct(queries) > total else ""

    def _words(self, group: Group, *, relaxed: bool = False) -> list[tantivy.Query]:
        """The query for each index, whatever the filters."""
        return [builder.build(group, relaxed=relaxed) for builder in self._builders]

    def _among(self, words: Sequence[tantivy.Query], filters: Filters) -> list[tantivy.Query]:
        return [builder.restricted(query, filters) for builder, query in zip(self._builders, words, strict=True)]

    def _candidates(self, queries: Sequence[tantivy.Query]) -> tuple[int, list[Found]]:
        """How many documents match, and the best ones, each page once.

        Invariant: whatever page is asked for, the same hits come before it. So those among which relevance decides are
        a fixed number, taken from a fixed number of each index, and where scores are equal the engine's order stays.
        """
        shelves = [self._of_shelf(*one, query) for one, query in zip(self._shelves, queries, strict=True)]
        mixed = self._mix.candidates
        head = merged(one for _, found in shelves for one in found[:mixed])
        tail = merged([*head[mixed:], *(one for _, found in shelves for one in found[mixed:])])
        first = {one.key: one for one in head[:mixed]}
        for one in tail:
            if one.key in first:
                first[one.key].shelves += one.shelves
        rest = [one for one in tail if one.key not in first]
        if self._asked.sort == "best":
            self._mix_scores(head[:mixed], rest)
        found = [*sorted(first.values(), key=lambda f: -f.score), *rest]
        all_read = all(count == len(candidates) for count, candidates in shelves)
        return len(found) if all_read else self._distinct(queries), found

    def _distinct(self, queries: Sequence[tantivy.Query]) -> int:
        """How many pages match, each once; of an index with more than the deepest hit, the others as they are."""
        counts, keys = 0, list[object]()
        for (_, searcher), query in zip(self._shelves, queries, strict=True):
            result = searcher.search(query, DEEPEST_HIT if len(self._shelves) > 1 else 1)
            counts += result.count  # type: ignore[attr-defined]  # the stub forgot it
            keys += searcher.fast_field_values("key", [address for _, address in result.hits])
        return counts - len(keys) + len(set(keys))

    def _mix_scores(self, first: Sequence[Found], rest: Sequence[Found]) -> None:
        parts = np.array([(one.text, one.relevance, one.authority) for one in first]).reshape(-1, 3)
        for one, score in zip(first, self._mix.mixed(*parts.T).tolist(), strict=True):
            one.score = score
        for one in rest:
            one.score = math.log(max(one.text, LEAST_TEXT))

    def _of_shelf(self, shelf: Shelf, searcher: tantivy.Searcher, query: tantivy.Query) -> tuple[int, list[Found]]:
        order = {"newest": "date", "relevance": "relevance"}.get(self._asked.sort)
        if order is None and not self._group.parts:
            order = "relevance"
        limit = max(self._mix.candidates, self._asked.page * self._asked.size)
        result = searcher.search(query, limit, order_by_field=order)
        addresses = [address for _, address in result.hits]
        count: int = result.count  # type: ignore[attr-defined]  # the stub forgot it
        if not addresses:
            return count, []
        keys = np.array(searcher.fast_field_values("key", addresses), dtype=np.int64)
        relevance = np.array(searcher.fast_field_values("relevance", addresses), dtype=np.float32)
        values = np.array([value for value, _ in result.hits], dtype=np.float64)
        text = np.ones(len(values)) if order else values
        values_of = [column.tolist() for column in (keys, text, relevance, shelf.authority_of(keys), values)]
        columns = zip(addresses, *values_of, strict=True)
        return count, [Found(searcher, a, k, t, r, w, s, [shelf.name]) for a, k, t, r, w, s in columns]

    def _hits(self, chosen: Iterable[Found]) -> Iterable[Hit]:
        makers: dict[str, Marker] = {}
        wanted = [term for term in words_of(self._group) if term.field not in FACTS]
        for one in chosen:
            stored = one.searcher.doc(one.address).to_dict()
            language = str(stored["language"][0])
            marker = makers.get(language) or makers.setdefault(language, Marker(wanted, language))
            yield hit_of(stored, marker, one)
