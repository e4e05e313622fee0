"""Search over collections: the one door for the command line and the pages.

searcher = Searcher([Path("birds"), Path("trees")])
searcher.catch_up()
results = searcher.search("wren song", Filters(relevant=True), page=2)
"""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path

import msgspec

from opilio.crawl.indexing import behind, catch_up, rebuild
from opilio.index.facets import languages_of
from opilio.index.faults import DamagedIndexError, told_well
from opilio.index.fulltext import FOLDER, FullText, moment, ready
from opilio.index.hits import Shelf
from opilio.index.manifest import Manifest
from opilio.index.querybuild import Weights
from opilio.index.records import PAGE_SIZE, Filters, Hit, Progress, Results, Subtopic
from opilio.index.search import Asked, Mix, Search
from opilio.index.similar import similar
from opilio.model.errors import UsageError
from opilio.model.records import key_of
from opilio.model.urls import canonical
from opilio.store.collection import check


class Searcher:
    """Several collections searched as one (S2-F1). Safe to use from several threads; opens files, writes none but
    an index that can't be read, which is made again."""

    def __init__(
        self,
        folders: Sequence[Path],
        weights: Weights | None = None,
        mix: Mix | None = None,
        names: Sequence[str] | None = None,  # by which hits and filters tell the collections; the folders' own
    ) -> None:
        if not folders:
            raise UsageError("no collection to search; name at least one folder")
        for folder in folders:
            check(folder)
        self._folders = tuple(folders)
        self._names = dict(zip(folders, names or _names(folders), strict=True))
        self._weights = weights or Weights()
        self._mix = mix or Mix()
        self._shelves: dict[Path, tuple[tuple[int, ...], Shelf]] = {}  # with the moment each was read at

    def search(
        self, query: str, filters: Filters | None = None, page: int = 1, size: int = PAGE_SIZE, sort: str = "best"
    ) -> Results:
        """One page of hits. An empty query browses what the filters let through. QueryError says what to write."""
        started = time.perf_counter()
        asked = Asked(query=query, filters=filters or Filters(), page=page, size=size, sort=sort)
        shelves = self._open()
        with self._told_well():
            results = Search(shelves, asked, self._weights, self._mix).run()
        return msgspec.structs.replace(results, took_s=time.perf_counter() - started)

    def similar(self, url: str, limit: int = PAGE_SIZE) -> tuple[Hit, ...]:
        """Pages that are like this one, which must be in a collection; UsageError where it is not."""
        address = canonical(url)
        shelves = self._open()
        with self._told_well():
            found = None if address is None else similar(shelves, key_of(address), limit)
        if found is None:
            raise UsageError(f"'{url[:200]}': is in no index of these collections; it must be a page that was fetched")
        return found

    def subtopics(self) -> tuple[Subtopic, ...]:
        """The subtopics of all collections, largest first (S0-F1)."""
        found = [subtopic for folder, name in self._names.items() for subtopic in _subtopics(folder, name)]
        return tuple(sorted(found, key=lambda s: (-s.pages, s.name)))

    @property
    def folders(self) -> tuple[Path, ...]:
        return self._folders

    def behind(self) -> int:
        """How many pages wait to be taken in."""
        return sum(map(behind, self._folders))

    def catch_up(self, most: int = 0) -> Progress:
        """Take in what the collections gained, at most so many pages of each (0: all). Cheap where nothing is new."""
        return Progress.summed([catch_up(folder, most) for folder in self._folders])

    def _told_well(self) -> AbstractContextManager[None]:
        return told_well(*(folder / FOLDER for folder in self._folders), engine=(ValueError,))

    def _open(self) -> list[Shelf]:
        """The indexes as they are now; one that has not changed since the last search is not read again."""
        for folder in self._folders:
            now = moment(folder)
            known = self._shelves.get(folder)
            if known is None or known[0] != now:
                self._shelves[folder] = (now, _mended_shelf(folder, self._names[folder]))
        return [self._shelves[folder][1] for folder in self._folders]


def _names(folders: Sequence[Path]) -> list[str]:
    """The last names of folders; whole paths of those that have one in common."""
    names = [folder.resolve().name for folder in folders]
    return [str(f) if names.count(name) > 1 else name for f, name in zip(folders, names, strict=True)]


def _mended_shelf(folder: Path, name: str) -> Shelf:
    """An index that can't be read is made again first."""
    try:
        return _shelf(folder, name)
    except DamagedIndexError:
        rebuild(folder)
        return _shelf(folder, name)


def _shelf(folder: Path, name: str) -> Shelf:
    place = ready(folder)
    with told_well(place), closing(Manifest(place)) as manifest:
        index = FullText(place)
        searcher = index.searcher()
        keys, authority = manifest.authority()
        return Shelf(
            name=name,
            searcher=searcher,
            schema=index.schema,
            languages=languages_of(searcher),
            versions=bool(manifest.mark("versions")),
            keys=keys,
            authority=authority,
        )


def _subtopics(folder: Path, collection: str) -> list[Subtopic]:
    place = ready(folder)
    with told_well(place), closing(Manifest(place)) as manifest:
        counts = dict(manifest.connection.execute("SELECT subtopic, count(*) FROM entry GROUP BY subtopic"))
        return [
            Subtopic(name=name, words=tuple(words.split("\n")), pages=counts.get(name, 0), collection=collection)
            for name, words, _ in manifest.subtopics()
        ]
