"""The parts of a search: its parameters, open indexes, candidates, the weights that order them, and hits."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import tantivy

from opilio.core.errors import QueryError
from opilio.search.meaning import Matrix, PageMeanings
from opilio.search.query import check_filter_value
from opilio.search.repeated_lines import RepeatedLines
from opilio.search.results import SORT_ORDERS, MarkedText, SearchFilters, SearchHit, TextSegment
from opilio.search.schema import STORED_TEXT_FIELD
from opilio.search.snippet import Highlighter, build_snippet, highlight

KeyArray = np.ndarray[Any, np.dtype[np.int64]]
Float32Array = np.ndarray[Any, np.dtype[np.float32]]
ScoreArray = np.ndarray[Any, np.dtype[np.float64]]
MAX_PAGED_HITS = 10_000
MAX_PAGE_SIZE = 100
MIN_TEXT_SCORE = 1e-9  # avoids the logarithm of 0
MAX_COVERED_WORDS = 20  # scores are numbers of 24 bits


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
            raise QueryError(f"the page must be 1 or more, the limit 1 to {MAX_PAGE_SIZE}")
        if self.page * self.size > MAX_PAGED_HITS:
            raise QueryError(f"only the first {MAX_PAGED_HITS} hits are available; narrow the search with filters")


class OpenIndex(msgspec.Struct, frozen=True, kw_only=True):
    """One open index, as of one commit."""

    name: str
    searcher: tantivy.Searcher
    schema: tantivy.Schema
    languages: tuple[str, ...]  # of its documents, most frequent first
    has_past_versions: bool  # it contains past versions of pages
    # The vectors of its pages, read when they are first needed.
    load_meanings: Callable[[], PageMeanings]
    repeated_lines: RepeatedLines
    # Of the user: the keys of the pages that have each.
    tags: Mapping[str, frozenset[int]] = {}


class SearchCandidate(msgspec.Struct):
    """One candidate: its document, and the parts of its score."""

    index: OpenIndex
    address: tantivy.DocAddress
    key: int
    text_score: float
    relevance: float
    score: float
    # Names of the collections that contain the page.
    collections: list[str]
    meaning: float = 0.0  # similarity to the query's meaning
    # Shares of a question's words, by their weight, that the page contains: anywhere, in its title, in its beginning
    coverage: float = 0.0
    title_coverage: float = 0.0
    lead_coverage: float = 0.0
    # Log of the score of the words as written, as a share of the best one.
    plain: float = 0.0

    def stored(self) -> dict[str, list[Any]]:
        """The stored fields of the page, its text without what the site repeats on its pages."""
        stored = self.index.searcher.doc(self.address).to_dict()
        text = bytes(stored[STORED_TEXT_FIELD][0]).decode()
        stored[STORED_TEXT_FIELD] = [self.index.repeated_lines.remove_from(text, stored["host"][0]).encode()]
        return stored


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


def covered_shares(
    candidates: Sequence[SearchCandidate], schema: tantivy.Schema, words: Sequence[tuple[tantivy.Query, float]]
) -> list[float]:
    """Which share of the words, each with its weight, the candidates of one index contain.

    One query: a page that contains the word number n scores 2^n more, so its score is the set of its words.
    """
    words = words[:MAX_COVERED_WORDS]
    bits = [tantivy.Query.const_score_query(query, float(1 << number)) for number, (query, _) in enumerate(words)]
    sets = scores_among(candidates, schema, bits).astype(np.int64)
    weights = np.array([weight for _, weight in words])
    contained = (sets[:, None] >> np.arange(len(words))) & 1
    shares: list[float] = (contained @ weights / max(weights.sum(), MIN_TEXT_SCORE)).tolist()
    return shares


def scores_among(
    candidates: Sequence[SearchCandidate], schema: tantivy.Schema, queries: Sequence[tantivy.Query]
) -> ScoreArray:
    """The sum of the scores of the queries for each of these pages of one index."""
    if not candidates or not queries:
        return np.zeros(len(candidates))
    chosen = tantivy.Query.term_set_query(schema, "key", [one.key for one in candidates])
    among = (tantivy.Occur.Must, tantivy.Query.const_score_query(chosen, 0.0))
    any_of = [(tantivy.Occur.Should, query) for query in queries]
    searcher = candidates[0].index.searcher
    result = searcher.search(tantivy.Query.boolean_query([among, *any_of]), len(candidates), count=False)
    keys = searcher.fast_field_values("key", [address for _, address in result.hits])
    found = {key: score for (score, _), key in zip(result.hits, keys, strict=True)}
    return np.array([found.get(one.key, 0.0) for one in candidates], dtype=np.float64)


class SearchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched in each index: words, and for a question the similarity of every page to its meaning."""

    text: list[tantivy.Query]
    similarities: list[Matrix] = []
    meaning_weight: float = 0.0
    # The pages nearest in meaning, and the first ones by plain BM25.
    near: list[tantivy.Query] = []
    plain_best: list[int] = []  # keys of the latter, best first


class Matches(msgspec.Struct, frozen=True, kw_only=True):
    """What was found: the number of pages, and the best ones in order."""

    plan: SearchPlan
    total: int
    found: list[SearchCandidate]


def build_hit(
    stored: dict[str, list[Any]], highlighter: Highlighter, found: SearchCandidate, tags: Iterable[str] = ()
) -> SearchHit:
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
        polarity=stored["polarity"][0],
        subtopic=stored["subtopic"][0],
        band=stored["band"][0],
        relevance=found.relevance,
        relevant=stored["relevant"][0] == "yes",
        date=float(stored["date"][0]),
        fetched_at=float(stored["since"][0]),
        score=found.score,
        text_score=found.text_score,
        by_meaning=found.text_score <= 0.0 and found.coverage <= 0.0,
        tags=tuple(tags),
    )


class RankingWeights(msgspec.Struct, frozen=True, kw_only=True):
    """The order of hits: log of the text score, plus these weights times other values from 0 to 1.

    A query for one particular page should find it, so relevance counts only as far as many pages match the words nearly
    as well as the best one. (The second best, in fact: if the query is the title of a page, that page stands out, but
    the others are as undecided as before.)
    """

    relevance: float = 0.8
    candidates: int = 200  # best text matches that are reordered
    # Of the second best text score: a match nearly as good.
    near_best_ratio: float = 0.7
    # Such matches at which relevance has half of its weight.
    half_weight_matches: float = 30.0
    # Of the similarity to the query's meaning, for questions.
    meaning: float = 1.0
    # In a question of more words each adds to the text score, so meaning counts less.
    meaning_words: float = 3.0
    # Of the meaning of a question in another language than the pages.
    meaning_foreign: float = 4.0
    # Of the share of a question's words that a page contains.
    coverage: float = 0.5
    title_coverage: float = 0.2  # of the share that its title contains
    # Of the share that the beginning of its text contains.
    lead_coverage: float = 0.7
    # Of the log of the score of the question's words as written.
    plain: float = 0.3
    # The least such score, as a share of the best one.
    plain_floor: float = 0.1
    # First pages by such scores of any of the words, which are candidates too.
    plain_pages: int = 10
    # That many of these pages keep a place among that many hits.
    guarded: int = 4
    guarded_places: int = 10
    # Most similar pages that are added to the text matches.
    meaning_pages: int = 50
    min_similarity: float = 0.45  # of an added page
    # Of an added page, if no page contains enough of the words.
    min_similarity_alone: float = 0.35
    # The text score of an added page, and the least of any page, as a share of the best one
    floor: float = 0.3

    def combine(self, text: ScoreArray, relevance: Float32Array) -> ScoreArray:
        """The combined scores of all candidates of a search by words alone."""
        best = np.sort(text)[-2:].min(initial=np.inf)
        near = int((text >= self.near_best_ratio * best).sum())
        share = near**2 / (near**2 + self.half_weight_matches**2)
        scores: ScoreArray = np.log(np.maximum(text, MIN_TEXT_SCORE)).astype(np.float64)
        scores += share * self.relevance * relevance
        return scores

    def meaning_weight(self, words: int, *, foreign: bool) -> float:
        """The weight of meaning in a question with this number of words; `foreign` if no page is in its language."""
        return self.meaning_foreign if foreign else min(self.meaning, self.meaning_words / max(words, 1))

    def combine_candidates(self, found: Sequence[SearchCandidate], meaning_weight: float) -> None:
        """Set the score of all candidates of a search."""
        parts = np.array([(c.text_score, c.relevance, c.meaning, self._words(c)) for c in found])
        text, relevance, meaning, words = parts.reshape(-1, 4).T
        if meaning_weight:
            text = np.maximum(text, self.floor * text.max(initial=1.0))
        scores = self.combine(text, relevance) + meaning_weight * meaning + words
        for one, score in zip(found, scores.tolist(), strict=True):
            one.score = score

    def order(self, found: Iterable[SearchCandidate], plain_best: Sequence[int]) -> list[SearchCandidate]:
        """By score, but the first pages by plain BM25 keep a place among the first hits, the last of these places."""
        ordered = sorted(found, key=lambda one: -one.score)
        guarded = dict.fromkeys(plain_best[: self.guarded])
        lost = [one for one in ordered[self.guarded_places :] if one.key in guarded]
        if not lost:
            return ordered
        kept = [one for one in ordered if one not in lost]
        at = self.guarded_places - len(lost)
        return [*kept[:at], *lost, *kept[at:]]

    def _words(self, one: SearchCandidate) -> float:
        """What the words of a question add besides the text score: how many of them, and where."""
        covered = self.coverage * one.coverage + self.title_coverage * one.title_coverage
        return covered + self.lead_coverage * one.lead_coverage + self.plain * one.plain
