"""The collections that are served, by name; and the folder in which new ones are begun.

The searchers of a server, and what keeps their indexes up to date. Writes nothing but indexes.
"""

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from opilio.core.errors import CollectionError, UsageError
from opilio.search.background import BackgroundIndexer
from opilio.search.index import is_read_only
from opilio.search.indexer import count_unindexed, update_index
from opilio.search.results import IndexProgress
from opilio.search.searcher import Searcher
from opilio.store.collection import check_collection, collection_exists
from opilio.store.locks import has_writer


class ServedCollections:
    """Collections by the names that addresses use. Invariant: a name stands for one folder as long as we run."""

    def __init__(self, folders: Sequence[Path], home: Path) -> None:
        self.home = home
        self._folders: dict[str, Path] = {}
        for folder in folders:
            check_collection(folder)
            self.add(folder)

    def add(self, folder: Path) -> str:
        """Serve one more collection; returns its name."""
        for name, known in self._folders.items():
            if known.resolve() == folder.resolve():
                return name
        base = slug(folder.resolve().name) or "collection"
        name, number = base, 2
        while name in self._folders:
            name, number = f"{base}-{number}", number + 1
        self._folders[name] = folder
        return name

    @property
    def names(self) -> list[str]:
        return list(self._folders)

    @property
    def folders(self) -> dict[str, Path]:
        """By their names."""
        return dict(self._folders)

    def folder(self, name: str) -> Path:
        """The folder of a name; UnknownCollectionError where there is none."""
        if name not in self._folders:
            raise UnknownCollectionError(f"'{name[:80]}': no collection of this name is served here")
        return self._folders[name]

    def readable_folders(self, names: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
        """The folders of these names, and in place of those that can't be read what is wrong with them."""
        folders, problems = dict[str, Path](), list[str]()
        for name in names:
            folder = self.folder(name)
            try:
                check_collection(folder)
            except CollectionError as error:
                problems.append(str(error))
            else:
                folders[name] = folder
        return folders, problems

    def unused_folder(self, topic: str) -> Path:
        """A folder for a new collection on a topic, which is not there yet."""
        base = "-".join(slug(topic).split("-")[:6]) or "crawl"
        folder, number = self.home / base, 2
        while collection_exists(folder) or folder.exists():
            folder, number = self.home / f"{base}-{number}", number + 1
        return folder


class UnknownCollectionError(UsageError):
    """An address names a collection that is not served."""


def slug(text: str) -> str:
    """A name for addresses and folders, of the letters and figures of any script.

    >>> slug("Birds of Europe, and others!"), slug("Vögel & 鳥")
    ('birds-of-europe-and-others', 'vögel-鳥')
    """
    return "-".join(re.findall(r"[^\W_]+", text.lower()))[:80]


MAX_PAGES_INDEXED_INLINE = 300  # new pages that a search takes into the index before it answers, where nobody crawls


class IndexFreshness(msgspec.Struct, kw_only=True):
    """How far indexes are up to date."""

    collections: dict[str, Path]  # those that can be searched, by name
    pages_behind: int = 0  # pages that will be found a little later
    problems: list[str] = []


class SearcherPool:
    """The searchers of a server, and what keeps their indexes up to date.

    A collection that is being crawled, or that has much to take in, is left to a process of low priority: requests
    must not wait for it, nor the crawl suffer from it.
    """

    def __init__(self) -> None:
        self._searchers: dict[tuple[str, ...], Searcher] = {}
        self._background_indexers: dict[Path, BackgroundIndexer] = {}
        self._lock = threading.Lock()

    def searcher_for(self, collections: Mapping[str, Path]) -> Searcher:
        """One searcher over these collections, which it calls by these names."""
        names = tuple(collections)
        with self._lock:
            if names not in self._searchers:
                self._searchers[names] = Searcher(list(collections.values()), names=names)
            return self._searchers[names]

    def refresh(self, collections: Mapping[str, Path]) -> IndexFreshness:
        """See to it that what is new is taken in, and tell how that goes."""
        fresh = IndexFreshness(collections=dict(collections))
        for name, folder in collections.items():
            try:
                progress = self._refresh_one(folder)
            except CollectionError as error:
                fresh.problems.append(str(error))
                del fresh.collections[name]
                continue
            if progress.read_only and progress.waiting:
                fresh.problems.append(f"{name}: its index lacks {progress.waiting} pages and can't be written here")
            else:
                fresh.pages_behind += progress.waiting
        return fresh

    def _refresh_one(self, folder: Path) -> IndexProgress:
        waiting = count_unindexed(folder)
        if not is_read_only(folder) and (has_writer(folder) or waiting > MAX_PAGES_INDEXED_INLINE):
            self._index_in_background(folder)
            return IndexProgress(waiting=waiting)
        return update_index(folder)

    def _index_in_background(self, folder: Path) -> None:
        """Leave a collection to a process of its own, until nobody writes to it and all is taken in."""
        with self._lock:
            keeper = self._background_indexers.get(folder)
            if keeper is None or not keeper.alive:
                self._background_indexers[folder] = keeper = BackgroundIndexer([folder], until_quiet=True)
                keeper.start()
