"""Select stored pages by their properties, in the order they were stored, without duplicates; rewards of pages."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from opilio.core.protocols import PAGE_ALONE, Database
from opilio.core.records import url_key
from opilio.store.annotations import read_notes, read_tags, tags_by_page
from opilio.store.collection import Collection
from opilio.store.connection import read_value
from opilio.store.pages import JudgedPage, judged_page
from opilio.store.schema import EXPORTED_COLUMNS
from opilio.store.warc import RecordPosition

# Computed: the URLs of copies of a page, with spaces between them; its tags, with commas; its note.
COMPUTED_COLUMNS = ALIASES_COLUMN, TAGS_COLUMN, NOTE_COLUMN = "aliases", "tags", "note"
_NAMES = tuple(column.name for column in EXPORTED_COLUMNS)
_FLAGS = tuple(column.name for column in EXPORTED_COLUMNS if column.kind is bool)
_COLUMNS = ", ".join((*_NAMES, *RecordPosition._fields))


class SelectedPage(NamedTuple):
    """The exported columns of a page by name, and the position of its WARC record."""

    values: dict[str, Any]
    position: RecordPosition


class PageFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which pages to select; all conditions must hold, and a condition left out selects every page."""

    relevant: bool | None = None
    # Canonical.
    url: str = ""
    host: str = ""
    language: str = ""
    genre: str = ""
    min_score: float | None = None
    # Only pages that an agent of this topic found relevant.
    topic: str = ""
    # Only pages with this tag of the user.
    tag: str = ""
    # Only pages of this list, in its order.
    in_list: str = ""
    # Also pages that ask not to be indexed (robots noindex).
    include_noindex: bool = False
    # Purposes that no signal of the page may deny: search, ai-input, ai-train. Applied by PageTable.
    allow: tuple[str, ...] = ()

    def clause(self, *, copies: bool = False) -> tuple[str, list[object]]:
        """The condition in SQL, with its values; `copies`: of copies of other pages, which are never selected."""
        conditions: list[tuple[str, object]] = []
        if self.relevant is not None:
            conditions.append(("relevant = ?", int(self.relevant)))
        if self.url:
            conditions.append(("key = ?", url_key(self.url)))
        conditions += [
            (f"{name} = ?", value) for name in ("host", "language", "genre") if (value := getattr(self, name))
        ]
        if self.min_score is not None:
            conditions.append(("score >= ?", self.min_score))
        if self.topic:
            agents = "SELECT v.page FROM verdict AS v JOIN agent AS a ON a.number = v.agent"
            conditions.append((f"key IN ({agents} WHERE v.relevant <> 0 AND a.topic = ?)", self.topic))
        if self.tag:
            conditions.append(("key IN (SELECT t.key FROM page_tag AS t WHERE t.tag = ?)", self.tag))
        if self.in_list:
            conditions.append(("key IN (SELECT l.key FROM list_page AS l WHERE l.list = ?)", self.in_list))
        if not self.include_noindex:
            conditions.append(("noindex = ?", 0))
        which = "duplicate_of <> 0" if copies else "duplicate_of = 0"
        return " AND ".join([which, *(text for text, _ in conditions)]), [value for _, value in conditions]


def select_pages(collection: Collection, wanted: PageFilter) -> Iterator[SelectedPage]:
    """The pages, oldest first; those of a list in its order."""
    where, values = wanted.clause()
    order = "seq"
    if wanted.in_list:
        order, values = (
            "(SELECT l.place FROM list_page AS l WHERE l.list = ? AND l.key = page.key)",
            [*values, wanted.in_list],
        )
    query = f"SELECT key, {_COLUMNS} FROM page WHERE {where} ORDER BY {order}"
    aliases, notes = _aliases(collection.connection, wanted.url), read_notes(collection.connection)
    tags = tags_by_page(read_tags(collection.connection))
    for key, *columns, warc, offset, length in collection.connection.execute(query, values):
        fields = dict(zip(_NAMES, columns, strict=True))
        fields.update({name: bool(fields[name]) for name in _FLAGS})
        fields[ALIASES_COLUMN] = " ".join(aliases.get(key, ()))
        fields |= {TAGS_COLUMN: ", ".join(tags.get(key, ())), NOTE_COLUMN: notes.get(key, "")}
        yield SelectedPage(fields, RecordPosition(warc, offset, length))


def _aliases(db: Database, original: str) -> dict[int, list[str]]:
    """The URLs of copies by the key of their original: of all, or of one URL."""
    of_one, values = (" AND duplicate_of = ?", (url_key(original),)) if original else ("", ())
    found: dict[int, list[str]] = {}
    for key, url in db.execute(f"SELECT duplicate_of, url FROM page WHERE duplicate_of <> 0{of_one}", values):
        found.setdefault(key, []).append(url)
    return found


def count_pages(collection: Collection, wanted: PageFilter, *, copies: bool = False) -> int:
    """How many pages a selection has, or how many copies of other pages it leaves out."""
    where, values = wanted.clause(copies=copies)
    (count,) = collection.connection.execute(f"SELECT count(*) FROM page WHERE {where}", values).fetchone()
    return int(count)


def learned_reward(page: JudgedPage) -> float:
    """What the ranker learned from a page: its score without the link to it."""
    return _score_alone(page, page.score)


def is_relevant_alone(db: Database, key: int) -> bool:
    """Is there a current page with this key that is relevant without the link to it, as its links were scored?"""
    page = judged_page(db, key)
    if page is None:
        return False
    alone = _score_alone(page, -1.0)
    return page.relevant if alone < 0.0 else alone >= 0.5


def _score_alone(page: JudgedPage, otherwise: float) -> float:
    """The score by the page alone; `otherwise` if the link did not count, and after a label."""
    reasons = page.decoded_reasons
    return reasons[1].value if len(reasons) > 1 and reasons[1].name == PAGE_ALONE else otherwise


def relevant_in_second_half(db: Database) -> int:
    """The number of relevant pages among the later half of all pages."""
    half = int(read_value(db, "SELECT count(*) FROM page") or 0) // 2
    sql = "SELECT count(*) FROM (SELECT relevant FROM page ORDER BY seq DESC LIMIT ?) AS late WHERE relevant = 1"
    return int(read_value(db, sql, (half,)) or 0)
