"""The searchers of a server, and what keeps their indexes up to date. Writes nothing but indexes."""

import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from opilio.crawl.indexing import behind, catch_up
from opilio.crawl.keepup import KeepUp
from opilio.crawl.searching import Searcher
from opilio.index.fulltext import only_readable
from opilio.index.records import Progress
from opilio.model.errors import CollectionError
from opilio.store.locks import being_written

AT_ONCE = 300  # new pages that a search takes into the index before it answers, where nobody crawls


class Fresh(msgspec.Struct, kw_only=True):
    """How far indexes are up to date."""

    collections: dict[str, Path]  # those that can be searched, by name
    waiting: int = 0  # pages that will be found a little later
    problems: list[str] = []


class Library:
    """The searchers of a server, and what keeps their indexes up to date.

    A collection that is being crawled, or that has much to take in, is left to a process of low priority: requests
    must not wait for it, nor the crawl suffer from it.
    """

    def __init__(self) -> None:
        self._searchers: dict[tuple[str, ...], Searcher] = {}
        self._keepers: dict[Path, KeepUp] = {}
        self._lock = threading.Lock()

    def of(self, collections: Mapping[str, Path]) -> Searcher:
        """One searcher over these collections, which it calls by these names."""
        names = tuple(collections)
        with self._lock:
            if names not in self._searchers:
                self._searchers[names] = Searcher(list(collections.values()), names=names)
            return self._searchers[names]

    def freshen(self, collections: Mapping[str, Path]) -> Fresh:
        """See to it that what is new is taken in, and tell how that goes."""
        fresh = Fresh(collections=dict(collections))
        for name, folder in collections.items():
            try:
                progress = self._freshen(folder)
            except CollectionError as error:
                fresh.problems.append(str(error))
                del fresh.collections[name]
                continue
            if progress.read_only and progress.waiting:
                fresh.problems.append(f"{name}: its index lacks {progress.waiting} pages and can't be written here")
            else:
                fresh.waiting += progress.waiting
        return fresh

    def _freshen(self, folder: Path) -> Progress:
        waiting = behind(folder)
        if not only_readable(folder) and (being_written(folder) or waiting > AT_ONCE):
            self._keep(folder)
            return Progress(waiting=waiting)
        return catch_up(folder)

    def _keep(self, folder: Path) -> None:
        """Leave a collection to a process of its own, until nobody writes to it and all is taken in."""
        with self._lock:
            keeper = self._keepers.get(folder)
            if keeper is None or not keeper.alive:
                self._keepers[folder] = keeper = KeepUp([folder], until_quiet=True)
                keeper.start()
