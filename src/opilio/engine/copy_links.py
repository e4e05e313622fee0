"""Copies of pages: which pages are aliases of others, and which links of a copy to follow.

A page that names another URL as its canonical one (rel=canonical) is an alias if both have the same title and about the
same number of words. The links that the original of a copy does not have are followed.

Pages of a gallery or listing can have equal words and different links, so the links of a copy matter. A mirror has the
same links as its original at another place: equal paths, or equal paths relative to the page. They are not followed.
"""

from collections import Counter
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
import numpy as np

from opilio.core.caches import evict_oldest
from opilio.core.protocols import Database
from opilio.core.records import Outcome, url_key
from opilio.core.urls import host_of
from opilio.engine.link_columns import pack, unpack
from opilio.store.answers import links_of
from opilio.store.pages import page_outline, page_url

# An endless chain of pages with one text ends here; a listing of 5,000 items at 50 per page does not.
MAX_COPIES_FOLLOWED = 100
MAX_TRACKED_ORIGINALS = 20_000
ON_ORIGINAL = "also on the original"


class _PageOutline(NamedTuple):
    key: int
    title: str
    words: int


class AliasFinder:
    """Finds the page that another one is an alias of. Remembers canonical URLs of this run, in bounded memory."""

    def __init__(self, connection: Database) -> None:
        self._connection = connection
        # By the key of a canonical URL: the first page that named it.
        self._first: dict[int, _PageOutline] = {}

    def find_original(self, page: Outcome) -> int:
        """The key of the page that has the same canonical URL; 0 if there is none."""
        analysis, lead = page.analysis, page.lead
        if analysis is None or not (analysis.canonical or lead.key in self._first):
            return 0
        target = lead.key
        if analysis.canonical and analysis.canonical != lead.url:
            # Sites set it wrongly, most often to another site.
            if host_of(analysis.canonical).removeprefix("www.") != lead.host.removeprefix("www."):
                return 0
            target = url_key(analysis.canonical)
        first = self._first.get(target) or (self._stored(target) if target != lead.key else None)
        if first is None:
            self._first[target] = _PageOutline(lead.key, analysis.title, analysis.words)
            evict_oldest(self._first, MAX_TRACKED_ORIGINALS)
            return 0
        alike = first.title == analysis.title and first.words <= 2 * analysis.words <= 4 * first.words
        return first.key if first.key != lead.key and alike else 0

    def _stored(self, key: int) -> _PageOutline | None:
        """The page with this key, or its original if it is a copy."""
        row = page_outline(self._connection, key)
        if row is not None and row.duplicate_of:
            key, row = row.duplicate_of, page_outline(self._connection, row.duplicate_of)
        return None if row is None else _PageOutline(key, row.title, row.words)


class CopyLinkFilter:
    """Drops the links of a copy that its original has too. Counts, in bounded memory, the copies of each original."""

    def __init__(self, connection: Database, enabled: bool = True) -> None:
        self._connection = connection
        self._enabled = enabled
        self._followed: Counter[int] = Counter()

    def distinct_links(self, copy: Outcome) -> Outcome | None:
        """The copy with the links to follow; None if there are none."""
        original = copy.duplicate_of
        if not self._enabled or copy.analysis is None or copy.analysis.agent_analyses:
            return None
        if self._followed[original] >= MAX_COPIES_FOLLOWED:
            return None
        links, original_url = unpack(copy.analysis.links), page_url(self._connection, original)
        if not links.urls or not original_url:
            return None
        known = unpack(links_of(self._connection, original))
        known_keys = set(np.frombuffer(known.keys, dtype=np.int64).tolist())
        places = {place for url in known.urls for place in _places(url, original_url)}
        keys = np.frombuffer(links.keys, dtype=np.int64).tolist()
        repeated = {
            index: ON_ORIGINAL
            for index, (url, key) in enumerate(zip(links.urls, keys, strict=True))
            if key == original or key in known_keys or not places.isdisjoint(_places(url, copy.lead.url))
        }
        if len(repeated) == len(links.urls):
            return None
        self._followed[original] += 1
        evict_oldest(self._followed, MAX_TRACKED_ORIGINALS)
        columns = msgspec.structs.replace(links, dropped=repeated | links.dropped)
        return msgspec.structs.replace(copy, analysis=msgspec.structs.replace(copy.analysis, links=pack(columns)))


def _places(url: str, page: str) -> tuple[str, ...]:
    """Where a link points apart from the host: its path and query, and the same relative to the page's folder."""
    target, base = urlsplit(url), urlsplit(page)
    place = f"{target.path}?{target.query}"
    folder = base.path.rpartition("/")[0] + "/"
    if target.netloc != base.netloc or not place.startswith(folder):
        return (place,)
    return place, "./" + place[len(folder) :]
