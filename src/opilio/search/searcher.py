"""Search over collections, for the command line, the API and the web interface; also finds similar pages.

searcher = Searcher([Path("birds"), Path("trees")])
searcher.update_indexes()
results = searcher.search("wren song", SearchFilters(relevant=True), page=2)
"""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import tantivy

from opilio.core.errors import QueryError, UsageError
from opilio.core.records import url_key
from opilio.core.urls import canonicalize_url
from opilio.search.candidates import OpenIndex, RankingWeights, SearchCandidate, SearchRequest, build_hit
from opilio.search.index import (
    DamagedIndexError,
    FullTextIndex,
    index_generation,
    is_read_only,
    read_index,
    readable_index_folder,
    translate_index_errors,
)
from opilio.search.indexer import count_unindexed, rebuild_index, remote_index, update_index
from opilio.search.manifest import IndexManifest, load_stored_meanings, read_meanings
from opilio.search.meaning import PageMeanings
from opilio.search.passages import PassageResults, find_passages
from opilio.search.query import parse_query
from opilio.search.query_builder import FieldWeights, bm25_idf
from opilio.search.ranking import Search
from opilio.search.repeated_lines import RepeatedLines
from opilio.search.results import (
    PAGE_SIZE,
    IndexProgress,
    SearchFilters,
    SearchHit,
    SearchResults,
    Subtopic,
    document_languages,
)
from opilio.search.schema import STORED_TEXT_FIELD, analyzer_for_language, normalize_for_analysis
from opilio.search.snippet import Highlighter
from opilio.store.annotations import SavedSearch, read_tags, save_search
from opilio.store.collection import check_collection, open_readonly
from opilio.store.connection import INDEX_FOLDER

if TYPE_CHECKING:
    from opilio.search.opensearch.index import OpenSearchIndex

# Most distinctive terms of a page, by frequency and rarity.
MAX_QUERY_TERMS = 25
MAX_TEXT_CHARACTERS = 20_000  # of the page
_MIN_TERM_LENGTH = 3


def find_similar(indexes: Sequence[OpenIndex], key: int, limit: int) -> tuple[SearchHit, ...] | None:
    """Pages similar to the one with this key, best first; None if no index contains it."""
    for index in indexes:
        stored = _stored(index, key)
        if stored is not None:
            break
    else:
        return None
    text, language = bytes(stored[STORED_TEXT_FIELD][0]).decode()[:MAX_TEXT_CHARACTERS], str(stored["language"][0])
    title = bytes(stored["name"][0]).decode()
    counts = Counter(
        t
        for t in analyzer_for_language(language).analyze(normalize_for_analysis(f"{title} {title} {text}"))
        if len(t) >= _MIN_TERM_LENGTH
    )
    found: dict[int, SearchCandidate] = {}
    for index in indexes:
        for one in _like(index, counts, (key, language), limit):
            known = found.setdefault(one.key, one)
            if known is not one:
                known.collections.append(index.name)
    best = sorted(found.values(), key=lambda f: (-f.score, f.key))[:limit]
    marker = Highlighter((), "")
    return tuple(build_hit(one.stored(), marker, one) for one in best)


def _stored(index: OpenIndex, key: int) -> dict[str, list[Any]] | None:
    hits = index.searcher.search(tantivy.Query.term_query(index.schema, "id", f"{key:x}"), 1).hits
    return index.searcher.doc(hits[0][1]).to_dict() if hits else None


def _like(index: OpenIndex, counts: Counter[str], page: tuple[int, str], limit: int) -> list[SearchCandidate]:
    searcher, schema = index.searcher, index.schema
    weights = {
        t: n * bm25_idf(searcher.num_docs, f) for t, n in counts.items() if (f := searcher.doc_freq("body", t)) > 1
    }
    distinctive = sorted(weights, key=lambda t: (-weights[t], t))[:MAX_QUERY_TERMS]
    asked = [
        (tantivy.Occur.Should, tantivy.Query.boost_query(tantivy.Query.term_query(schema, field, term), boost))
        for term in distinctive
        for field, boost in (("body", 1.0), ("title", 1.5))
    ]
    if not asked:
        return []
    key, language = page
    itself = (tantivy.Occur.MustNot, tantivy.Query.term_query(schema, "id", f"{key:x}"))
    spoken = tantivy.Query.const_score_query(tantivy.Query.term_query(schema, "language", language), 0.0)
    like = (tantivy.Occur.Must, tantivy.Query.boolean_query(asked))
    query = tantivy.Query.boolean_query([like, (tantivy.Occur.Must, spoken), itself])
    hits = searcher.search(query, limit).hits
    addresses = [address for _, address in hits]
    keys = searcher.fast_field_values("key", addresses)
    relevance = searcher.fast_field_values("relevance", addresses)
    rows = zip(hits, keys, relevance, strict=True)
    return [
        SearchCandidate(index, address, int(k or 0), score, float(r or 0.0), score, [index.name])
        for (score, address), k, r in rows
    ]


def save_query(folder: Path, name: str, query: str, filters: SearchFilters, now: float) -> None:
    """Save a search in a collection, in place of one of the same name; QueryError if the query can't be run."""
    parse_query(query)
    save_search(folder, SavedSearch(name, query, msgspec.json.encode(filters).decode(), now, now))


def saved_filters(saved: SavedSearch) -> SearchFilters:
    return msgspec.json.decode(saved.filters, type=SearchFilters)


class Searcher:
    """Searches several collections as one (S2-F1). Thread-safe. Writes nothing except to rebuild a damaged index."""

    def __init__(
        self,
        folders: Sequence[Path],
        weights: FieldWeights | None = None,
        ranking: RankingWeights | None = None,
        # Names of the collections in hits and filters; by default those of the folders.
        names: Sequence[str] | None = None,
    ) -> None:
        if not folders:
            raise UsageError("no collection to search; give at least one folder")
        for folder in folders:
            check_collection(folder)
        self._folders = tuple(folders)
        self._names = dict(zip(folders, names or _names(folders), strict=True))
        self._weights = weights or FieldWeights()
        self._ranking = ranking or RankingWeights()
        # With the generation that each was read at.
        self._indexes: dict[Path, tuple[tuple[int, ...], OpenIndex]] = {}
        self._meanings: dict[Path, MeaningLoader] = {}

    def search(
        self, query: str, filters: SearchFilters | None = None, page: int = 1, size: int = PAGE_SIZE, sort: str = "best"
    ) -> SearchResults:
        """One page of hits. An empty query lists all pages that match the filters. QueryError says what to write."""
        started = time.perf_counter()
        request = SearchRequest(query=query, filters=filters or SearchFilters(), page=page, size=size, sort=sort)
        if (remote := self._remote(request.filters)) is not None:
            alone = msgspec.structs.replace(request.filters, collections=())
            return remote.search(query, alone, page, size, sort)
        indexes = self._open()
        with self._translate_errors():
            results = Search(indexes, request, self._weights, self._ranking).run()
        return msgspec.structs.replace(results, took_s=time.perf_counter() - started)

    def new_hits(self, saved: SavedSearch, since: float, limit: int = PAGE_SIZE) -> SearchResults:
        """The hits of a saved search that were stored after a time, newest first; relevant ones unless it says so."""
        filters = saved_filters(saved)
        relevant = True if filters.relevant is None else filters.relevant
        wanted = msgspec.structs.replace(filters, relevant=relevant, added_after=since)
        return self.search(saved.query, wanted, 1, limit, "added")

    def passages(self, query: str, filters: SearchFilters | None = None, limit: int = PAGE_SIZE) -> PassageResults:
        """The passages that answer a query best, each with a citation."""
        started = time.perf_counter()
        request = SearchRequest(query=query, filters=filters or SearchFilters(), size=limit)
        self._require_embedded("passages")
        indexes = self._open()
        with self._translate_errors():
            found = find_passages(Search(indexes, request, self._weights, self._ranking), query, limit)
        return msgspec.structs.replace(found, took_s=time.perf_counter() - started)

    def similar(self, url: str, limit: int = PAGE_SIZE) -> tuple[SearchHit, ...]:
        """Pages similar to a page of a collection; UsageError if it is in none."""
        address = canonicalize_url(url)
        self._require_embedded("similar pages")
        indexes = self._open()
        with self._translate_errors():
            found = None if address is None else find_similar(indexes, url_key(address), limit)
        if found is None:
            raise UsageError(f"'{url[:200]}': is not in the index of these collections; give the URL of a fetched page")
        return found

    def subtopics(self) -> tuple[Subtopic, ...]:
        """The subtopics of all collections, largest first (S0-F1)."""
        self._require_embedded("subtopics")
        found = [subtopic for folder, name in self._names.items() for subtopic in _subtopics(folder, name)]
        return tuple(sorted(found, key=lambda s: (-s.pages, s.name)))

    @property
    def folders(self) -> tuple[Path, ...]:
        return self._folders

    def count_unindexed(self) -> int:
        """The number of pages that are not indexed yet."""
        return sum(map(count_unindexed, self._folders))

    def update_indexes(self, limit: int = 0) -> IndexProgress:
        """Index new pages, at most `limit` per collection (0: all). Cheap if nothing is new."""
        return IndexProgress.combine([update_index(folder, limit) for folder in self._folders])

    def _remote(self, filters: SearchFilters) -> "OpenSearchIndex | None":
        """The index on an OpenSearch server that is to be searched, if it is on one."""
        wanted = filters.collections
        chosen = {folder: name for folder, name in self._names.items() if not wanted or name in wanted}
        found = [index for folder, name in chosen.items() if (index := remote_index(folder, name)) is not None]
        if found and len(chosen) > 1:
            raise QueryError("a collection whose index is on an OpenSearch server is searched alone; choose one")
        return found[0] if found else None

    def _require_embedded(self, wanted: str) -> None:
        for folder in self._folders:
            if remote_index(folder) is not None:
                advice = "'opilio maintain reindex' without --server makes one"
                raise UsageError(f"{wanted}: {self._names[folder]} needs an embedded index; {advice}")

    def _translate_errors(self) -> AbstractContextManager[None]:
        return translate_index_errors(*(folder / INDEX_FOLDER for folder in self._folders), engine=(ValueError,))

    def _open(self) -> list[OpenIndex]:
        """The current indexes; an index that has not changed since the last search is not opened again."""
        for folder in self._folders:
            now = index_generation(folder)
            known = self._indexes.get(folder)
            if known is None or known[0] != now:
                opened = _open_or_rebuild_index(folder, self._names[folder])
                before = self._meanings.setdefault(folder, MeaningLoader(folder))
                self._indexes[folder] = (now, msgspec.structs.replace(opened, load_meanings=cache(before.load)))
        return [msgspec.structs.replace(self._indexes[folder][1], tags=_read_tags(folder)) for folder in self._folders]


def _read_tags(folder: Path) -> dict[str, frozenset[int]]:
    """The user's tags as they are now; they are not part of the index."""
    with open_readonly(folder) as collection:
        return read_tags(collection.connection)


def _names(folders: Sequence[Path]) -> list[str]:
    """The names of folders; full paths for equal names."""
    names = [folder.resolve().name for folder in folders]
    return [str(f) if names.count(name) > 1 else name for f, name in zip(folders, names, strict=True)]


class MeaningLoader:
    """Reads the vectors of an index: first those of its file, then only those that are new."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known = PageMeanings.empty()

    def load(self) -> PageMeanings:
        return read_index(self._folder, self._load)

    def _load(self) -> PageMeanings:
        place = readable_index_folder(self._folder)
        with translate_index_errors(place), closing(IndexManifest(place)) as manifest:
            if self._known.origin != manifest.mark("origin"):
                self._known = load_stored_meanings(place, manifest)
            self._known = self._known.updated(self._known.origin, partial(read_meanings, manifest))
        return self._known


def _open_or_rebuild_index(folder: Path, name: str) -> OpenIndex:
    """Open an index; rebuild it first if it is damaged.

    In a read-only folder it is only read again: it takes no lock there, so its owner may have changed it meanwhile.
    """
    try:
        return read_index(folder, lambda: _open_index(folder, name))
    except DamagedIndexError:
        if not is_read_only(folder):
            rebuild_index(folder)
        return read_index(folder, lambda: _open_index(folder, name))


def _open_index(folder: Path, name: str) -> OpenIndex:
    place = readable_index_folder(folder)
    with translate_index_errors(place), closing(IndexManifest(place)) as manifest:
        index = FullTextIndex(place)
        searcher = index.searcher()
        return OpenIndex(
            name=name,
            searcher=searcher,
            schema=index.schema,
            languages=document_languages(searcher),
            has_past_versions=bool(manifest.mark("versions")),
            load_meanings=PageMeanings.empty,
            repeated_lines=RepeatedLines(searcher, index.schema),
        )


def _subtopics(folder: Path, collection: str) -> list[Subtopic]:
    return read_index(folder, lambda: _read_subtopics(folder, collection))


def _read_subtopics(folder: Path, collection: str) -> list[Subtopic]:
    place = readable_index_folder(folder)
    with translate_index_errors(place), closing(IndexManifest(place)) as manifest:
        counts = dict(manifest.connection.execute("SELECT subtopic, count(*) FROM entry GROUP BY subtopic"))
        return [
            Subtopic(name=name, words=tuple(words.split("\n")), pages=counts.get(name, 0), collection=collection)
            for name, words, _ in manifest.subtopics()
        ]
