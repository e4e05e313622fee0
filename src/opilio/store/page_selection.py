"""Select stored pages by their properties, in the order they were stored. Duplicates are left out."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from opilio.store.collection import Collection

_COLUMNS = (
    "url, host, title, description, language, genre, score, relevant, depth, fetched_at, status, warc, offset, length"
)


class SelectedPage(NamedTuple):
    """A row of a selection, with the place of the page's WARC record; a length of 0 means that there is none."""

    url: str
    host: str
    title: str
    description: str
    language: str
    genre: str
    score: float
    relevant: int
    depth: int
    fetched_at: float
    status: int
    warc: int
    offset: int
    length: int


class PageFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which pages to select; all conditions must hold, and a condition left out selects every page."""

    relevant: bool | None = None
    host: str = ""
    language: str = ""
    genre: str = ""
    min_score: float | None = None
    # Only pages that an agent of this topic found relevant.
    topic: str = ""

    def clause(self) -> tuple[str, list[object]]:
        """The condition in SQL, with its values."""
        conditions: list[tuple[str, object]] = []
        if self.relevant is not None:
            conditions.append(("relevant = ?", int(self.relevant)))
        conditions += [
            (f"{name} = ?", value) for name in ("host", "language", "genre") if (value := getattr(self, name))
        ]
        if self.min_score is not None:
            conditions.append(("score >= ?", self.min_score))
        if self.topic:
            agents = "SELECT v.page FROM verdict AS v JOIN agent AS a ON a.number = v.agent"
            conditions.append((f"key IN ({agents} WHERE v.relevant AND a.topic = ?)", self.topic))
        return " AND ".join(["duplicate_of = 0", *(text for text, _ in conditions)]), [value for _, value in conditions]


def select_pages(collection: Collection, wanted: PageFilter) -> Iterator[SelectedPage]:
    """The pages, oldest first."""
    where, values = wanted.clause()
    query = f"SELECT {_COLUMNS} FROM page WHERE {where} ORDER BY seq"
    yield from map(SelectedPage._make, collection.connection.execute(query, values))


def count_pages(collection: Collection, wanted: PageFilter) -> int:
    """How many pages a selection has."""
    where, values = wanted.clause()
    (count,) = collection.connection.execute(f"SELECT count(*) FROM page WHERE {where}", values).fetchone()
    return int(count)
