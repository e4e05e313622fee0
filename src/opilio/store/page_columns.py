"""The columns of a stored page: add one here, and tables, inserts, versions, merges and exports have it.

`page` and `version` have these columns in this order; `version` has three more (until, ended, cause).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from opilio.core.records import Analysis, FetchResult, Lead, Outcome, Verdict
from opilio.store.connection import upsert_sql
from opilio.store.warc import RecordPosition

_SQL_TYPES = {int: "INTEGER", bool: "INTEGER", str: "TEXT", float: "REAL", bytes: "BLOB"}
_NO_VERDICT = Verdict(score=0.0, relevant=False, reasons=())
_encode = msgspec.msgpack.Encoder().encode


class StoredVisit(NamedTuple):
    """What the columns of a page are computed from."""

    seq: int
    outcome: Outcome
    lead: Lead
    fetched: FetchResult
    analysis: Analysis
    verdict: Verdict
    position: RecordPosition


class PageColumn(NamedTuple):
    """A column: its name and type, its value for a new page, and whether an export has it.

    `older`: its value for pages of collections that were made before the column existed.
    """

    name: str
    kind: type
    value: Callable[[StoredVisit], Any]
    exported: bool = False
    older: str | int | float | None = None


# The signals of a page that was stored before they were recorded: they are in its WARC record only.
NOT_RECORDED = "?"


PAGE_COLUMNS: tuple[PageColumn, ...] = (
    PageColumn("key", int, lambda v: v.lead.key),
    PageColumn("seq", int, lambda v: v.seq),
    PageColumn("url", str, lambda v: v.lead.url, exported=True),
    PageColumn("host", str, lambda v: v.lead.host, exported=True),
    PageColumn("status", int, lambda v: v.fetched.status, exported=True),
    PageColumn("content_type", str, lambda v: v.analysis.content_type),
    PageColumn("encoding", str, lambda v: v.analysis.encoding),
    PageColumn("language", str, lambda v: v.analysis.language, exported=True),
    PageColumn("title", str, lambda v: v.analysis.title, exported=True),
    PageColumn("description", str, lambda v: v.analysis.description, exported=True),
    PageColumn("keywords", str, lambda v: v.analysis.keywords),
    PageColumn("canonical", str, lambda v: v.analysis.canonical, exported=True),
    PageColumn("genre", str, lambda v: v.analysis.genre, exported=True),
    PageColumn("words", int, lambda v: v.analysis.words),
    PageColumn("score", float, lambda v: v.verdict.score, exported=True),
    PageColumn("relevant", bool, lambda v: v.outcome.relevant, exported=True),
    PageColumn("reasons", bytes, lambda v: _encode(v.verdict.reasons)),
    PageColumn("fingerprint", int, lambda v: v.analysis.fingerprint),
    PageColumn("simhash", int, lambda v: v.analysis.simhash),
    PageColumn("duplicate_of", int, lambda v: v.outcome.duplicate_of),
    PageColumn("near_duplicate", bool, lambda v: v.outcome.near_duplicate),
    PageColumn("noindex", bool, lambda v: v.analysis.noindex),
    PageColumn("depth", int, lambda v: v.lead.depth, exported=True),
    PageColumn("parent", int, lambda v: v.lead.parent),
    PageColumn("etag", str, lambda v: v.fetched.header("etag")),
    PageColumn("last_modified", str, lambda v: v.fetched.header("last-modified")),
    PageColumn("fetched_at", float, lambda v: v.fetched.started_at, exported=True),
    PageColumn("warc", int, lambda v: v.position.warc),
    PageColumn("offset", int, lambda v: v.position.offset),
    PageColumn("length", int, lambda v: v.position.length),
    PageColumn("signals", str, lambda v: v.analysis.signals, exported=True, older=NOT_RECORDED),
    PageColumn("truncated", str, lambda v: v.analysis.truncated, exported=True, older=""),
    PageColumn("rendered", bool, lambda v: v.analysis.rendered, exported=True, older=0),
    PageColumn("needs_browser", bool, lambda v: v.analysis.needs_browser, older=0),
)
# The order of the fields in exported files, which users rely on; a new column comes after them.
_EXPORT_ORDER = (
    *("url", "host", "title", "description", "language", "genre", "score", "relevant", "depth", "fetched_at", "status"),
)
EXPORTED_COLUMNS = tuple(
    sorted(
        (column for column in PAGE_COLUMNS if column.exported),
        key=lambda c: _EXPORT_ORDER.index(c.name) if c.name in _EXPORT_ORDER else len(_EXPORT_ORDER),
    )
)
PAGE_COLUMN_NAMES = tuple(column.name for column in PAGE_COLUMNS)
# The definitions for CREATE TABLE, without the key, whose definition differs between the tables.
COLUMN_DEFINITIONS = ",\n".join(
    f"  {column.name} {_SQL_TYPES[column.kind]} NOT NULL" for column in PAGE_COLUMNS if column.name != "key"
)
# The columns that older collections lack, with their definitions for ALTER TABLE and their values in SQL.
ADDED_COLUMNS = {
    column.name: (f"{column.name} {_SQL_TYPES[column.kind]} NOT NULL DEFAULT {column.older!r}", repr(column.older))
    for column in PAGE_COLUMNS
    if column.older is not None
}
INSERT_PAGE = upsert_sql("page", PAGE_COLUMN_NAMES, ("key",))
ARCHIVE_PAGE = (
    f"INSERT INTO version ({', '.join(PAGE_COLUMN_NAMES)}, until, ended, cause)"
    f" SELECT {', '.join(PAGE_COLUMN_NAMES)}, ?, ?, ? FROM page WHERE key = ?"
)
_VALUES = tuple(column.value for column in PAGE_COLUMNS)


def page_values(outcome: Outcome, analysis: Analysis, seq: int, position: RecordPosition) -> tuple[Any, ...]:
    """The values of a new page in the order of INSERT_PAGE."""
    verdict = analysis.verdict or _NO_VERDICT
    visit = StoredVisit(seq, outcome, outcome.lead, outcome.fetched, analysis, verdict, position)
    return tuple([value(visit) for value in _VALUES])
