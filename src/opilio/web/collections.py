"""The served collections by name, with their searchers, whose indexes are kept up to date."""

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from opilio.core.errors import CollectionError, UsageError
from opilio.search.index import is_read_only
from opilio.search.indexer import count_unindexed, update_index
from opilio.search.results import IndexProgress
from opilio.search.searcher import Searcher
from opilio.store.collection import check_collection, collection_exists
from opilio.store.connection import DATABASE, has_writer
from opilio.web.processes import BackgroundIndexer


class ServedCollections:
    """Collections by the names used in URLs. Invariant: a name keeps its folder until the collection is deleted."""

    def __init__(self, folders: Sequence[Path], home: Path) -> None:
        """Without `folders`: the collections in the home folder, also those that are made while the server runs."""
        self.home = home
        self._folders: dict[str, Path] = {}
        self._lock = threading.RLock()
        self._discovers = not folders
        for folder in folders:
            check_collection(folder)
            self.add(folder)
        self._discover()

    def _discover(self) -> None:
        """Serve the new collections of the home folder. A damaged one is served too: its card names the problem."""
        if self._discovers:
            with self._lock:
                known = set(self._folders.values())
                for database in sorted(self.home.glob(f"*/{DATABASE}")):
                    if database.parent not in known:
                        self.add(database.parent)

    def add(self, folder: Path, name: str = "") -> str:
        """Serve one more collection; returns its name, by default that of the folder."""
        with self._lock:
            return self._add(folder, name)

    def _add(self, folder: Path, name: str) -> str:
        for taken, known in self._folders.items():
            if known.resolve() == folder.resolve():
                return taken
        base = slug(name or folder.resolve().name) or "collection"
        name, number = base, 2
        while name in self._folders:
            name, number = f"{base}-{number}", number + 1
        self._folders[name] = folder
        return name

    def remove(self, name: str) -> Path:
        """Serve a collection no longer; returns its folder."""
        folder = self.folder(name)
        del self._folders[name]
        return folder

    @property
    def names(self) -> list[str]:
        return list(self.folders)

    @property
    def folders(self) -> dict[str, Path]:
        """Folders by name."""
        self._discover()
        return dict(self._folders)

    def folder(self, name: str) -> Path:
        """The folder of a name, or UnknownCollectionError."""
        if name not in self._folders:
            self._discover()
        if name not in self._folders:
            raise UnknownCollectionError(f"'{name[:80]}': no such collection on this server")
        return self._folders[name]

    def readable_folders(self, names: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
        """The folders that can be read, and an error message for each that cannot."""
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
        """A folder name for a new collection on a topic that does not exist yet."""
        base = folder_name(topic)
        folder, number = self.home / base, 2
        while collection_exists(folder) or folder.exists():
            folder, number = self.home / f"{base}-{number}", number + 1
        return folder


class UnknownCollectionError(UsageError):
    """The URL names an unknown collection or page."""


def folder_name(topic: str) -> str:
    """The name of the folder of the first collection on a topic.

    >>> folder_name("Wrens, and other small birds of the world")
    'wrens-and-other-small-birds-of'
    """
    return "-".join(slug(topic).split("-")[:6]) or "crawl"


def slug(text: str) -> str:
    """A name for URLs and folders from the letters and digits of any script.

    >>> slug("Birds of Europe, and others!"), slug("Vögel & 鳥")
    ('birds-of-europe-and-others', 'vögel-鳥')
    """
    return "-".join(re.findall(r"[^\W_]+", text.lower()))[:80]


# Without a running crawl, a search indexes up to this many new pages first.
MAX_PAGES_INDEXED_INLINE = 300


class IndexFreshness(msgspec.Struct, kw_only=True):
    """How fresh the indexes are."""

    collections: dict[str, Path]  # searchable ones, by name
    pages_behind: int = 0  # pages not indexed yet
    problems: list[str] = []


class SearcherPool:
    """Searchers by collection. A collection that is being crawled, or has many new pages, is indexed by a background
    process of low priority, so that neither requests nor the crawl wait.
    """

    def __init__(self) -> None:
        self._searchers: dict[tuple[str, ...], Searcher] = {}
        self._background_indexers: dict[Path, BackgroundIndexer] = {}
        self._lock = threading.Lock()

    def searcher_for(self, collections: Mapping[str, Path]) -> Searcher:
        """The searcher over these collections."""
        names = tuple(collections)
        with self._lock:
            if names not in self._searchers:
                self._searchers[names] = Searcher(list(collections.values()), names=names)
            return self._searchers[names]

    def forget(self, name: str, folder: Path) -> None:
        """Drop the searchers of a deleted collection."""
        with self._lock:
            self._searchers = {names: one for names, one in self._searchers.items() if name not in names}
            self._background_indexers.pop(folder, None)

    def refresh(self, collections: Mapping[str, Path]) -> IndexFreshness:
        """Index new pages, or start doing so, and report how many are missing."""
        fresh = IndexFreshness(collections=dict(collections))
        for name, folder in collections.items():
            try:
                progress = self._refresh_one(folder)
            except CollectionError as error:
                fresh.problems.append(str(error))
                del fresh.collections[name]
                continue
            if progress.read_only and progress.waiting:
                fresh.problems.append(f"{name}: {progress.waiting} pages are not indexed, and the index is read-only")
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
        """Index in a background process until the crawl has ended and all pages are indexed."""
        with self._lock:
            indexer = self._background_indexers.get(folder)
            if indexer is None or not indexer.alive:
                self._background_indexers[folder] = indexer = BackgroundIndexer([folder], until_quiet=True)
                indexer.start()
