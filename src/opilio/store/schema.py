"""The tables of `crawl.db` that the store itself owns, the columns of a stored page, and the upgrade of older schemas.

`page` and `version` have these columns in this order; `version` has three more (until, ended, cause).

A collection of an older schema is upgraded in place when it is opened for writing, and through temporary views when it
is only read. Missing tables are created elsewhere; here is what an older version wrote differently. Version 2 kept
several meanings in `priority` and the number of the agent in the first byte of `features`, had the table `wish` for
commands, and had other names of events. Columns of pages that came later have a fixed value (`PageColumn.older`).
"""

import re
import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from opilio.core.records import Analysis, FetchResult, Lead, Outcome, Reason, Verdict
from opilio.store.connection import upsert_sql
from opilio.store.warc import RecordPosition

_SQL_TYPES = {int: "INTEGER", bool: "INTEGER", str: "TEXT", float: "REAL", bytes: "BLOB"}
_NO_VERDICT = Verdict(score=0.0, relevant=False, reasons=())
_encode = msgspec.msgpack.Encoder().encode
decode_reasons = msgspec.msgpack.Decoder(tuple[Reason, ...]).decode


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


APPLICATION_ID = 0x6F70696C  # "opil": says whose file this is
# 2: versions, revisits; 3: tier and agent of queued URLs, commands; 4: signals of pages; 5: truncated, rendered pages;
# 6: tags, notes, lists, saved searches
SCHEMA_VERSION = 6

TABLES = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- The current version of every page that was fetched and parsed; key is the 64-bit key of its URL.
CREATE TABLE page (
  key INTEGER PRIMARY KEY,
{COLUMN_DEFINITIONS}
);
CREATE INDEX page_by_seq ON page (seq);
CREATE INDEX page_relevant ON page (relevant, score) WHERE duplicate_of = 0;

-- Every answer of the web and every typed failure, in the order they were committed (S2-10, S2-16).
CREATE TABLE answer (
  seq INTEGER PRIMARY KEY, key INTEGER NOT NULL, at REAL NOT NULL, status INTEGER NOT NULL,
  failure TEXT NOT NULL, detail TEXT NOT NULL, elapsed_s REAL NOT NULL, size_bytes INTEGER NOT NULL,
  address TEXT NOT NULL, location TEXT NOT NULL
);
CREATE INDEX answer_by_key ON answer (key);

-- The ranked links of a page as one blob of columns (LinkColumns): scores and their parts are kept (S2-16).
CREATE TABLE links (parent INTEGER PRIMARY KEY, columns BLOB NOT NULL);

CREATE TABLE robots (origin TEXT PRIMARY KEY, expires_at REAL NOT NULL, rules BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE seed (key INTEGER PRIMARY KEY, url TEXT NOT NULL, priority INTEGER NOT NULL, sources TEXT NOT NULL);
CREATE TABLE snapshot (name TEXT NOT NULL, version INTEGER NOT NULL, at REAL NOT NULL, state BLOB NOT NULL,
  PRIMARY KEY (name, version)) WITHOUT ROWID;
CREATE TABLE event (id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, data BLOB NOT NULL);
"""

# What the user notes about pages (`annotations`). A list has an order: `place`.
ANNOTATION_TABLES = """
CREATE TABLE IF NOT EXISTS page_tag (key INTEGER NOT NULL, tag TEXT NOT NULL, at REAL NOT NULL,
  PRIMARY KEY (key, tag)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS page_note (key INTEGER PRIMARY KEY, note TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS list_page (list TEXT NOT NULL, key INTEGER NOT NULL, place INTEGER NOT NULL,
  at REAL NOT NULL, PRIMARY KEY (list, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS saved_search (name TEXT PRIMARY KEY, query TEXT NOT NULL, filters TEXT NOT NULL,
  at REAL NOT NULL, seen_at REAL NOT NULL) WITHOUT ROWID;
"""

# Tables that came later: a collection that was made without them gets them when it is next written to.
ADDED_TABLES = f"""
-- Lessons since the last snapshot: with them, a killed crawl resumes with the same models.
CREATE TABLE IF NOT EXISTS lesson (id INTEGER PRIMARY KEY, name TEXT NOT NULL, data BLOB NOT NULL);

-- The user's labels of pages, with their words; of two labels of one page the last counts.
CREATE TABLE IF NOT EXISTS label (id INTEGER PRIMARY KEY AUTOINCREMENT, key INTEGER NOT NULL,
  relevant INTEGER NOT NULL, at REAL NOT NULL, sample BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS label_by_key ON label (key);

-- Versions of pages that are past: the row of `page` as it was, until when it was current, the number of the answer
-- that ended it and why: changed, gone, moved (S2-F6). The WARC record stays where it is.
CREATE TABLE IF NOT EXISTS version (
  key INTEGER NOT NULL,
{COLUMN_DEFINITIONS},
  until REAL NOT NULL, ended INTEGER NOT NULL, cause TEXT NOT NULL,
  PRIMARY KEY (key, seq)
);
CREATE INDEX IF NOT EXISTS version_by_end ON version (ended);
CREATE INDEX IF NOT EXISTS page_copies ON page (duplicate_of) WHERE duplicate_of <> 0;

-- The target of a page that redirects permanently; the target inherits its history.
CREATE TABLE IF NOT EXISTS move (key INTEGER PRIMARY KEY, target INTEGER NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS move_by_target ON move (target);

-- The results of revisits. `rates`: the likelihood of each possible change rate (float32).
CREATE TABLE IF NOT EXISTS revisit (
  key INTEGER PRIMARY KEY,
  checks INTEGER NOT NULL, changes INTEGER NOT NULL, checked_at REAL NOT NULL, changed_at REAL NOT NULL,
  tried_at REAL NOT NULL,                             -- the last request, successful or not
  strikes INTEGER NOT NULL, struck_at REAL NOT NULL,  -- times missing in a row; since when
  rates BLOB NOT NULL,
  found INTEGER NOT NULL, brought INTEGER NOT NULL,   -- new links at revisits; relevant pages among them
  hinted_at REAL NOT NULL,                            -- the change that a sitemap or feed states
  queued INTEGER NOT NULL                             -- 1: its revisit waits in the frontier
);
CREATE INDEX IF NOT EXISTS revisit_waiting ON revisit (key) WHERE queued <> 0;

-- New links of revisited pages, until they are fetched: `page` gets the credit.
CREATE TABLE IF NOT EXISTS tip (key INTEGER PRIMARY KEY, page INTEGER NOT NULL);

-- The text that a host shows for missing pages (soft 404).
CREATE TABLE IF NOT EXISTS empty_text (host TEXT NOT NULL, fingerprint INTEGER NOT NULL, at REAL NOT NULL,
  PRIMARY KEY (host, fingerprint)) WITHOUT ROWID;

-- Sitemaps and feeds, which announce changes of many pages.
CREATE TABLE IF NOT EXISTS notice (key INTEGER PRIMARY KEY, url TEXT NOT NULL, host TEXT NOT NULL, kind TEXT NOT NULL,
  asked_at REAL NOT NULL, etag TEXT NOT NULL, last_modified TEXT NOT NULL, entries INTEGER NOT NULL);

-- Commands of users to the crawl (pause, stop, ban a host, label, another topic), in order.
CREATE TABLE IF NOT EXISTS command (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, name TEXT NOT NULL,
  target TEXT NOT NULL, data BLOB NOT NULL);

-- The directory of agents, and the verdict of each on a page.
CREATE TABLE IF NOT EXISTS agent (number INTEGER PRIMARY KEY, name TEXT NOT NULL, topic TEXT NOT NULL,
  genres TEXT NOT NULL, seeds INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,
  fetched INTEGER NOT NULL, pages INTEGER NOT NULL, relevant INTEGER NOT NULL, shared INTEGER NOT NULL,
  received INTEGER NOT NULL, beat_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS verdict (page INTEGER NOT NULL, agent INTEGER NOT NULL, own INTEGER NOT NULL,
  score REAL NOT NULL, relevant INTEGER NOT NULL, PRIMARY KEY (page, agent)) WITHOUT ROWID;

-- Queries to seed engines, with the keys of the URLs returned; further: sent during the crawl.
CREATE TABLE IF NOT EXISTS enquiry (id INTEGER PRIMARY KEY, at REAL NOT NULL, query TEXT NOT NULL,
  further INTEGER NOT NULL, keys BLOB NOT NULL);
{ANNOTATION_TABLES}"""


_LATER_TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")
_BATCH_OFFSET = float(1 << 20)
_REVISIT_OFFSET = 2 * _BATCH_OFFSET
_BOOSTED_SCORE = 8.0
_TIER = f"""CASE WHEN priority >= {_REVISIT_OFFSET} THEN 3 WHEN priority >= {_BATCH_OFFSET / 2} THEN 1
    WHEN state < 2 AND score = {_BOOSTED_SCORE} THEN 2 ELSE 0 END"""
_PRIORITY = f"""CASE WHEN priority >= {_REVISIT_OFFSET} THEN priority - {_REVISIT_OFFSET}
    WHEN priority >= {_BATCH_OFFSET / 2} THEN priority - {_BATCH_OFFSET} ELSE priority END"""
_AGENT = "CASE WHEN length(features) > 0 THEN first_byte(features) ELSE 0 END"
_FEATURES = "nullif(substr(features, 2), x'')"
_BEST_URL = """SELECT tier, priority FROM frontier_url WHERE host_id = frontier_host.id AND state = 0
    ORDER BY tier DESC, priority DESC, seq LIMIT 1"""

_ADD_COLUMNS = (
    "ALTER TABLE frontier_url ADD COLUMN agent INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE frontier_url ADD COLUMN tier INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE frontier_host ADD COLUMN best_tier INTEGER NOT NULL DEFAULT 0",
    "DROP INDEX IF EXISTS frontier_host_order",
    "DROP INDEX IF EXISTS frontier_url_queue",
    "DROP INDEX IF EXISTS frontier_url_tail",
)
_FILL_COLUMNS = (
    f"UPDATE frontier_url SET tier = {_TIER}, priority = {_PRIORITY}",
    f"UPDATE frontier_host SET (best_tier, best) = ({_BEST_URL}) WHERE best IS NOT NULL",
    """CREATE INDEX frontier_host_order ON frontier_host (best_tier DESC, best DESC, best_seq, wake_at)
        WHERE parked = 0 AND best IS NOT NULL""",
    "CREATE INDEX frontier_url_queue ON frontier_url (host_id, tier DESC, priority DESC, seq) WHERE state = 0",
)
PAGE_TABLES = ("page", "version")
_OLD_COMMANDS = "SELECT id, at, word AS name, target, data FROM main.wish"
EVENT_NAMES = {
    "AgentMissing": "AgentLost",
    "WishTaken": "CommandApplied",
    "PageLeft": "PageRemoved",
    "PageLabelled": "PageLabeled",
    "LabelTakenBack": "LabelRemoved",
}
_EVENT_CASES = " ".join(f"WHEN '{old}' THEN '{new}'" for old, new in EVENT_NAMES.items())
_EVENT_KIND = f"CASE kind {_EVENT_CASES} ELSE kind END"
_OLD_EVENT = "kind IN ('" + "', '".join(EVENT_NAMES) + "')"
# The data holds the name once more, and a command was called a word.
_EVENT_DATA = f"""CAST(replace(json_set(CAST(data AS TEXT), '$.type', {_EVENT_KIND}), '"word":', '"command":')
    AS BLOB)"""


def upgrade(connection: sqlite3.Connection) -> None:
    """Change the tables of an older collection into the current ones, inside the caller's transaction."""
    if _has_old_frontier(connection):
        for statement in _ADD_COLUMNS + _FILL_COLUMNS:
            connection.execute(statement)
        if _has_agents(connection):
            connection.execute(f"UPDATE frontier_url SET agent = {_AGENT}, features = {_FEATURES}")
    if _columns(connection, "wish"):
        connection.execute(f"INSERT INTO command (id, at, name, target, data) {_OLD_COMMANDS}")
        connection.execute("DROP TABLE wish")
        connection.execute("UPDATE meta SET name = 'commands_applied' WHERE name = 'wishes_taken'")
    connection.execute(f"UPDATE event SET kind = {_EVENT_KIND}, data = {_EVENT_DATA} WHERE {_OLD_EVENT}")
    for table in PAGE_TABLES:
        for name in _missing_columns(connection, table):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {ADDED_COLUMNS[name][0]}")


def emulate(connection: sqlite3.Connection) -> None:
    """Let a reader see an older collection as the current schema: temporary tables and views in place of its own."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION:
        return
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for statement in ADDED_TABLES.split(";\n"):
        found = _LATER_TABLE.search(statement)
        if found and found[1] not in there:
            connection.execute(f"CREATE TEMP TABLE {found[1]}{statement[found.end() :]}")
    if _has_old_frontier(connection):
        values = {"priority": _PRIORITY}
        agent = "0"
        if _has_agents(connection):
            agent, values["features"] = _AGENT, _FEATURES
        columns = [f"{values.get(name, name)} AS {name}" for name in _columns(connection, "frontier_url")]
        connection.execute(
            f"CREATE TEMP VIEW frontier_url AS SELECT {', '.join(columns)}, {agent} AS agent, {_TIER} AS tier"
            " FROM main.frontier_url"
        )
        columns = [name for name in _columns(connection, "frontier_host") if name != "best"]
        connection.execute(
            f"CREATE TEMP VIEW frontier_host AS SELECT {', '.join(columns)},"
            f" coalesce((SELECT tier FROM ({_BEST_URL})), 0) AS best_tier,"
            f" (SELECT priority FROM ({_BEST_URL})) AS best FROM main.frontier_host"
        )
    if _columns(connection, "wish"):
        connection.execute("DROP TABLE IF EXISTS temp.command")
        connection.execute(f"CREATE TEMP VIEW command AS {_OLD_COMMANDS}")
    data = f"CASE WHEN {_OLD_EVENT} THEN {_EVENT_DATA} ELSE data END"
    connection.execute(
        f"CREATE TEMP VIEW event AS SELECT id, at, {_EVENT_KIND} AS kind, {data} AS data FROM main.event"
    )
    for table in PAGE_TABLES:
        if missing := _missing_columns(connection, table):
            added = ", ".join(f"{ADDED_COLUMNS[name][1]} AS {name}" for name in missing)
            connection.execute(f"CREATE TEMP VIEW {table} AS SELECT *, {added} FROM main.{table}")


def _has_old_frontier(connection: sqlite3.Connection) -> bool:
    columns = _columns(connection, "frontier_url")
    return bool(columns) and "tier" not in columns


def _has_agents(connection: sqlite3.Connection) -> bool:
    """Do features begin with the number of an agent? Also provides the SQL function that reads it."""
    connection.create_function("first_byte", 1, lambda blob: blob[0], deterministic=True)
    there = bool(_columns(connection, "agent"))
    return there and connection.execute("SELECT 1 FROM main.agent LIMIT 1").fetchone() is not None


def _missing_columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """The added columns that a table of pages lacks; none if there is no such table."""
    there = _columns(connection, table)
    return [name for name in ADDED_COLUMNS if there and name not in there]


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA main.table_info({table})")]
