"""Lists of pages and saved searches of a collection, as `collection.lists` and `collection.searches`."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from opilio.core.clock import SystemClock
from opilio.core.errors import UsageError
from opilio.search.results import SearchFilters, SearchResults
from opilio.store.annotations import (
    AnnotationChange,
    SavedSearch,
    annotate,
    delete_list,
    delete_search,
    mark_search_seen,
    move_in_list,
    read_list,
    read_list_names,
    read_searches,
    rename_list,
    require_search,
    save_search,
)
from opilio.store.collection import open_readonly


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
        now = SystemClock().now()
        encoded = msgspec.json.encode(filters or SearchFilters()).decode()
        save_search(self._folder(), SavedSearch(name, query, encoded, now, now))

    def new(self, name: str, *, limit: int = 30) -> SearchResults:
        """The relevant hits that were stored since the search was saved or marked as seen, newest first."""
        return self._run(self[name], limit)

    def seen(self, name: str) -> None:
        """Hits stored up to now are no longer new."""
        mark_search_seen(self._folder(), self[name].name, SystemClock().now())

    def __delitem__(self, name: str) -> None:
        delete_search(self._folder(), name)
