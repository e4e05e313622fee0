"""The searchers of a server, and what keeps their indexes up to date. Writes nothing but indexes."""

import threading
from pathlib import Path

from opilio.crawl.searching import Searcher

AT_ONCE = 300  # new pages that a search takes into the index before it answers; the rest follows behind it


class Library:
    """The searchers of a server, and what keeps their indexes up to date."""

    def __init__(self) -> None:
        self._searchers: dict[tuple[Path, ...], Searcher] = {}
        self._lock = threading.Lock()
        self._indexing = threading.Lock()

    def of(self, folders: list[Path]) -> Searcher:
        """One searcher over these collections."""
        with self._lock:
            key = tuple(folders)
            if key not in self._searchers:
                self._searchers[key] = Searcher(folders)
            return self._searchers[key]

    def freshen(self, searcher: Searcher) -> int:
        """Take in what is new; returns how many pages still wait, which are taken in behind this."""
        if not self._indexing.acquire(blocking=False):
            return 0  # somebody is at it
        try:
            waiting = searcher.catch_up(AT_ONCE).waiting
        finally:
            self._indexing.release()
        if waiting:
            threading.Thread(target=self._finish, args=(searcher,), daemon=True).start()
        return waiting

    def _finish(self, searcher: Searcher) -> None:
        if self._indexing.acquire(blocking=False):
            try:
                searcher.catch_up()
            finally:
                self._indexing.release()
