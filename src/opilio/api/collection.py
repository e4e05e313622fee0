"""`opilio.open()`: a collection to query, label and export, with its lists of pages and saved searches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from opilio.core.clock import SystemClock
from opilio.core.errors import CollectionError, UsageError
from opilio.core.records import url_key
from opilio.core.settings import describe_validation_error
from opilio.core.urls import require_url
from opilio.manage.export import export_to_file, format_of
from opilio.manage.label import LabelRequest, label_pages
from opilio.manage.pages import PageTable, page_history
from opilio.manage.results import Explanation, LabelReport, PageHistory, Status
from opilio.manage.status import collection_status
from opilio.manage.why import why as explain_url
from opilio.search.passages import PassageResults
from opilio.search.results import SearchFilters, SearchResults
from opilio.search.searcher import Searcher, save_query
from opilio.store.annotations import (
    AnnotationChange,
    Annotations,
    SavedSearch,
    annotate,
    annotations_of,
    delete_list,
    delete_search,
    mark_search_seen,
    move_in_list,
    read_list,
    read_list_names,
    read_searches,
    rename_list,
    require_search,
)
from opilio.store.collection import check_collection, open_readonly
from opilio.store.page_selection import PageFilter


class PageLists(Mapping[str, tuple[str, ...]]):
    """The lists of a collection: the URLs of each in its order, by its name."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> tuple[str, ...]:
        with open_readonly(self._folder()) as collection:
            pages = read_list(collection.connection, name)
        if not pages:
            raise KeyError(name)
        return tuple(page.url for page in pages)

    def __iter__(self) -> Iterator[str]:
        with open_readonly(self._folder()) as collection:
            return iter(read_list_names(collection.connection))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def add(self, name: str, *urls: str) -> None:
        """Append stored pages to a list, which is made if it does not exist."""
        annotate(self._folder(), urls, AnnotationChange(add_to=(name,)), SystemClock().now())

    def remove(self, name: str, *urls: str) -> None:
        """Remove pages from a list; a list without pages is deleted."""
        annotate(self._folder(), urls, AnnotationChange(remove_from=(name,)), SystemClock().now())

    def move(self, name: str, url: str, place: int) -> None:
        """Put a page at another place of a list, counted from 1."""
        move_in_list(self._folder(), name, url, place)

    def rename(self, name: str, new_name: str) -> None:
        rename_list(self._folder(), name, new_name)

    def __delitem__(self, name: str) -> None:
        """Delete a list; its pages stay."""
        delete_list(self._folder(), name)


class SavedSearches(Mapping[str, SavedSearch]):
    """The saved searches of a collection by name."""

    def __init__(self, folder: Callable[[], Path], run: Callable[[SavedSearch, int], SearchResults]) -> None:
        self._folder = folder
        self._run = run

    def __getitem__(self, name: str) -> SavedSearch:
        with open_readonly(self._folder()) as collection:
            try:
                return require_search(collection.connection, name)
            except UsageError as error:
                raise KeyError(name) from error

    def __iter__(self) -> Iterator[str]:
        with open_readonly(self._folder()) as collection:
            return iter([search.name for search in read_searches(collection.connection)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def save(self, name: str, query: str, filters: SearchFilters | None = None) -> None:
        """Save a search; from now on its new hits are listed by `new()` and in its feed."""
        save_query(self._folder(), name, query, filters or SearchFilters(), SystemClock().now())

    def new(self, name: str, *, limit: int = 30) -> SearchResults:
        """The relevant hits that were stored since the search was saved or marked as seen, newest first."""
        return self._run(self[name], limit)

    def seen(self, name: str) -> None:
        """Hits stored up to now are no longer new."""
        mark_search_seen(self._folder(), self[name].name, SystemClock().now())

    def __delitem__(self, name: str) -> None:
        delete_search(self._folder(), name)


def open(path: str | Path) -> "CollectionView":  # noqa: A001 - opilio.open() reads like the built-in
    """Open the collection in a folder. A crawl may write to it at the same time."""
    return CollectionView(path)


class CollectionView:
    """A collection. Every call reads its current state, also while a crawl runs.

    Only labels, tags, notes, lists and saved searches change it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        check_collection(self.path)
        self._searcher: Searcher | None = None
        self._closed = False
        # Named sets of pages, and searches whose new hits are listed.
        self.lists = PageLists(lambda: self._folder)
        self.searches = SavedSearches(lambda: self._folder, self._new_hits)

    @property
    def status(self) -> Status:
        """What the collection holds and how its last crawl ended."""
        return collection_status(self._folder)

    def pages(
        self,
        *,
        relevant: bool | None = None,
        columns: Sequence[str] | None = None,
        host: str = "",
        language: str = "",
        genre: str = "",
        min_score: float | None = None,
        include_noindex: bool = False,
        tag: str = "",
        in_list: str = "",
    ) -> PageTable:
        """The stored pages, without duplicates, that meet all conditions; read when the table is used."""
        given = {
            "relevant": relevant, "host": host, "language": language, "genre": genre, "min_score": min_score,
            "include_noindex": include_noindex, "tag": tag, "in_list": in_list,
        }  # fmt: skip
        try:
            return PageTable(self._folder, msgspec.convert(given, PageFilter), columns)
        except msgspec.ValidationError as error:
            raise UsageError(f"pages(): {describe_validation_error(error)}") from error

    def search(
        self,
        query: str = "",
        *,
        limit: int = 10,
        page: int = 1,
        sort: str = "best",
        filters: SearchFilters | Mapping[str, Any] | None = None,
    ) -> SearchResults:
        """Full-text search. New pages are indexed first. `filters` has the fields of `opilio.SearchFilters`."""
        return self._updated_searcher().search(query, _to_filters(filters), page, limit, sort)

    def passages(
        self, query: str, *, limit: int = 10, filters: SearchFilters | Mapping[str, Any] | None = None
    ) -> PassageResults:
        """The passages that answer a query best, with highlights and a citation each."""
        return self._updated_searcher().passages(query, _to_filters(filters), limit)

    def why(self, url: str) -> Explanation:
        """Why a URL was fetched, skipped or kept."""
        return explain_url(self._folder, url)

    def history(self, url: str) -> PageHistory:
        """Every stored version of a page, oldest first."""
        return page_history(self._folder, url)

    def label(self, labels: Mapping[str, bool | None]) -> LabelReport:
        """Label pages as relevant or not; None removes a label. Judge and ranker learn from it at once.

        UsageError lists every URL that can't be labelled; then nothing is stored.
        """
        for url, relevant in labels.items():
            if relevant is not None and relevant not in (True, False):
                raise UsageError(f"label(): {url}: give True, False or None, not {relevant!r}")
        requests = [LabelRequest(url, relevant, "label()") for url, relevant in labels.items()]
        report, problems = label_pages(self._folder, requests, SystemClock().now())
        if problems:
            raise UsageError("\n".join(problems))
        return report

    def tag(self, url: str, *tags: str, remove: bool = False) -> Annotations:
        """Add tags to a stored page, or remove them; returns its annotations."""
        change = AnnotationChange(remove_tags=tags) if remove else AnnotationChange(add_tags=tags)
        return self._annotate(url, change)

    def note(self, url: str, text: str | None = None) -> Annotations:
        """Set the note of a stored page, an empty text removes it; returns its annotations."""
        return self._annotate(url, AnnotationChange(note=text))

    def export(
        self,
        path: str | Path,
        *,
        format: str | None = None,  # noqa: A002 - named as the command's option
        relevant: bool | None = None,
        include_noindex: bool = False,
        allow: Sequence[str] = (),
        chunk_words: int = 0,
        tag: str = "",
        in_list: str = "",
    ) -> int:
        """Write the pages to a new file and return how many. The default format is that of the file's name."""
        target = Path(path)
        wanted = PageFilter(
            relevant=relevant, include_noindex=include_noindex, allow=tuple(allow), tag=tag, in_list=in_list
        )
        return export_to_file(self._folder, target, format or format_of(target), wanted, chunk_words=chunk_words)

    def close(self) -> None:
        """Release the index. Further calls raise CollectionError."""
        self._searcher = None
        self._closed = True

    def __enter__(self) -> "CollectionView":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"opilio.open({str(self.path)!r})"

    def __rich__(self) -> Any:  # noqa: ANN401 - rich is imported where it is used
        return self.status.__rich__()

    def _repr_html_(self) -> str:
        return self.status._repr_html_()

    def _annotate(self, url: str, change: AnnotationChange) -> Annotations:
        annotate(self._folder, [url], change, SystemClock().now())
        with open_readonly(self._folder) as collection:
            return annotations_of(collection.connection, url_key(require_url(url)))

    def _new_hits(self, saved: SavedSearch, limit: int) -> SearchResults:
        return self._updated_searcher().new_hits(saved, saved.seen_at, limit)

    def _updated_searcher(self) -> Searcher:
        """The searcher, after new pages were indexed."""
        if self._searcher is None:
            self._searcher = Searcher([self._folder])
        self._searcher.update_indexes()
        return self._searcher

    @property
    def _folder(self) -> Path:
        if self._closed:
            raise CollectionError(f"{self.path}: this object is closed; open the collection again")
        return self.path


def _to_filters(filters: SearchFilters | Mapping[str, Any] | None) -> SearchFilters:
    if filters is None or isinstance(filters, SearchFilters):
        return filters or SearchFilters()
    known = [field.name for field in msgspec.structs.fields(SearchFilters)]
    if unknown := sorted(set(filters) - set(known)):
        raise UsageError(f"filters: unknown {', '.join(unknown)}; known: {', '.join(known)}")
    try:
        return msgspec.convert(dict(filters), SearchFilters)
    except msgspec.ValidationError as error:
        raise UsageError(f"filters: {describe_validation_error(error)}") from error
