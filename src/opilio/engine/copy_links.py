"""Which links of a copy to follow: those that its original does not have.

Pages of a gallery or listing can have equal words and different links, so the links of a copy matter. A mirror has the
same links as its original at another place: equal paths, or equal paths relative to the page. They are not followed.
"""

from collections import Counter
from urllib.parse import urlsplit

import msgspec
import numpy as np

from opilio.core.caches import evict_oldest
from opilio.core.protocols import Database
from opilio.core.records import Outcome
from opilio.engine.link_columns import pack, unpack
from opilio.store.answers import links_of
from opilio.store.pages import page_url

# An endless chain of pages with one text ends here; a listing of 5,000 items at 50 per page does not.
MAX_COPIES_FOLLOWED = 100
MAX_TRACKED_ORIGINALS = 20_000
ON_ORIGINAL = "also on the original"


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
