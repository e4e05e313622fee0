"""Merges the tables of several collections into a new one.

In the statements, `{s}` is run for every source, `{all: …}` joins a part over all. The sources are attached read-only
as s0, s1, … Sorting happens in SQLite, in temporary tables on disk. Responses are renumbered by time, so that a version
with a higher number is a later one. Within a collection their order does not change, also if its clock was set back.
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from opilio.store.connection import read_value
from opilio.store.run_tables import INDEX_ALIAS_KEY, INDEX_SERVER_KEY, LAST_APPLIED_META_KEY
from opilio.store.schema import ADDED_TABLES, TABLES
from opilio.store.warc import RecordPosition

_TABLE = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)\s*\((.*?)\)(?: WITHOUT ROWID)?(?:;\n|$)", re.DOTALL)
_COLUMN = re.compile(r"(?:^|,)\s*(\w+) (?:INTEGER|TEXT|REAL|BLOB)\b")


def _columns(script: str) -> dict[str, list[str]]:
    plain = re.sub(r"--[^\n]*", "", script)
    return {found[1]: _COLUMN.findall(found[2]) for found in _TABLE.finditer(plain)}


_ADDED_COLUMNS = _columns(ADDED_TABLES)
COLUMNS = _columns(TABLES) | _ADDED_COLUMNS
_PAGE = ", ".join(name for name in COLUMNS["page"] if name not in ("key", "seq"))


def source_views(connection: sqlite3.Connection, number: int) -> Iterator[str]:
    """Views of the tables that came later: empty where a source is older than they are."""
    there = {name for (name,) in connection.execute(f"SELECT name FROM s{number}.sqlite_master WHERE type = 'table'")}
    for table, names in _ADDED_COLUMNS.items():
        nothing = ", ".join(f"NULL AS {name}" for name in names)
        made = f"SELECT {', '.join(names)} FROM s{number}.{table}" if table in there else f"SELECT {nothing} WHERE 0"
        yield f"CREATE TEMP VIEW {table}_{number} AS {made}"


_ANSWER = "key, at, status, failure, detail, elapsed_s, size_bytes, address, location"
# All answers in the order of time, with new numbers; and every version with what identifies it. Where
# one collection was made of another (a copy, an earlier merge), both know of some answers: each is one answer.
RENUMBER_ANSWERS = (
    """CREATE TEMP TABLE renumbered AS SELECT dense_rank() OVER (ORDER BY first) AS new, src, old FROM (
        SELECT min(place) OVER (PARTITION BY key, received, status, nth) AS first, src, old FROM (
        SELECT row_number() OVER (ORDER BY at, src, seq) AS place, src, seq AS old, key, received, status, nth FROM (
        {all:SELECT % AS src, seq, key, at AS received, status, max(at) OVER (ORDER BY seq) AS at,
        row_number() OVER (PARTITION BY key, at, status ORDER BY seq) AS nth FROM s%.answer})))""",
    "CREATE UNIQUE INDEX temp.renumbered_by_old ON renumbered (src, old)",
    f"""INSERT OR IGNORE INTO main.answer (seq, {_ANSWER})
        SELECT r.new, {", ".join(f"a.{n}" for n in _ANSWER.split(", "))}
        FROM s{{s}}.answer AS a JOIN temp.renumbered AS r ON r.src = {{s}} AND r.old = a.seq ORDER BY r.new""",
    """CREATE TEMP TABLE every AS {all:SELECT % AS src, 1 AS current, p.key, p.seq AS old, r.new AS seq, p.fetched_at,
        p.fingerprint, 9e999 AS until, 0 AS ended, '' AS cause, p.warc, p.offset, p.length, p.duplicate_of, p.score,
        p.relevant
        FROM s%.page AS p JOIN temp.renumbered AS r ON r.src = % AND r.old = p.seq UNION ALL
        SELECT %, 0, v.key, v.seq, r.new, v.fetched_at, v.fingerprint, v.until, e.new, v.cause, v.warc, v.offset,
        v.length, v.duplicate_of, v.score, v.relevant FROM temp.version_% AS v
        JOIN temp.renumbered AS r ON r.src = % AND r.old = v.seq
        JOIN temp.renumbered AS e ON e.src = % AND e.old = v.ended}""",
    "CREATE INDEX temp.every_by_key ON every (key)",
)
SELECT_VERSIONS = (
    # What one answer brought is one version, and a row that knows its end comes first.
    """CREATE TEMP TABLE once AS SELECT *, row_number() OVER (PARTITION BY key, seq ORDER BY ended = 0, ended) AS place,
        max(CASE WHEN cause IN ('gone', 'moved') THEN ended ELSE 0 END) OVER (PARTITION BY key) AS left_seq,
        first_value(cause) OVER (PARTITION BY key ORDER BY cause IN ('gone', 'moved') DESC, ended DESC) AS left_by,
        max(seq) OVER (PARTITION BY key) AS last_seq FROM temp.every""",
    # Of versions that follow each other with the same text the first is kept; a copy has no text of its own.
    """CREATE TEMP TABLE ordered AS SELECT *, coalesce(fingerprint <> 0 AND length > 0
        AND lag(fingerprint) OVER one = fingerprint AND lag(length) OVER one > 0
        AND lag(cause) OVER one NOT IN ('gone', 'moved'), 0) AS repeats
        FROM temp.once WHERE place = 1 WINDOW one AS (PARTITION BY key ORDER BY seq)""",
    """CREATE TEMP TABLE kept AS SELECT src, key, old, seq, warc, offset, length,
        next_seq IS NULL AND left_seq < last_seq AS current,
        max(fetched_at, CASE WHEN cause IN ('gone', 'moved') THEN until WHEN next_seq IS NOT NULL THEN next_at
            ELSE (SELECT a.at FROM main.answer AS a WHERE a.seq = left_seq) END) AS until,
        CASE WHEN cause IN ('gone', 'moved') THEN ended WHEN next_seq IS NOT NULL THEN next_seq
            ELSE left_seq END AS ended,
        CASE WHEN cause IN ('gone', 'moved') THEN cause WHEN next_seq IS NOT NULL THEN 'changed' ELSE left_by
            END AS cause
        FROM (SELECT *, lead(seq) OVER one AS next_seq, lead(fetched_at) OVER one AS next_at FROM temp.ordered
            WHERE NOT repeats WINDOW one AS (PARTITION BY key ORDER BY seq))""",
    "CREATE INDEX temp.kept_by_key ON kept (key, current)",
    # Collections may have had other topics, or judges that had learned something else: the highest score counts.
    """CREATE TEMP TABLE best AS SELECT key, kept, src, old FROM (SELECT key, kept, src, old,
        row_number() OVER (PARTITION BY key, kept ORDER BY relevant DESC, score DESC, seq) AS rank FROM (
        SELECT *, max(CASE WHEN repeats THEN 0 ELSE seq END) OVER (PARTITION BY key ORDER BY seq) AS kept
        FROM temp.ordered) WHERE current AND duplicate_of = 0) WHERE rank = 1""",
    "CREATE UNIQUE INDEX temp.best_by ON best (key, kept)",
)


def _sql_list(words: Iterable[str]) -> str:
    return ", ".join(f"'{word}'" for word in sorted(words))


def _merge_by_time(table: str, columns: str, source: str) -> str:
    """The rows of a table of all sources, by time; equal rows are one."""
    return f"""INSERT INTO main.{table} ({columns}) SELECT {columns} FROM (
        {{all:SELECT {columns}, % AS src, id, max(at) OVER (ORDER BY id) AS moment FROM {source}}})
        GROUP BY {columns} ORDER BY min(moment), min(src), min(id)"""


# Tags and lists of all sources; a list continues with the pages of the next source, and notes are joined.
_MERGE_ANNOTATIONS = (
    "INSERT OR IGNORE INTO main.page_tag SELECT key, tag, at FROM temp.page_tag_{s}",
    """INSERT INTO main.page_note (key, note, at) SELECT key, group_concat(note, char(10)), max(at) FROM (
        SELECT key, note, max(at) AS at FROM ({all:SELECT key, note, at FROM temp.page_note_%}) GROUP BY key, note
        ORDER BY at) GROUP BY key""",
    """INSERT OR IGNORE INTO main.list_page (list, key, place, at) SELECT l.list, l.key, l.place + coalesce((
        SELECT max(o.place) FROM main.list_page AS o WHERE o.list = l.list), 0), l.at FROM temp.list_page_{s} AS l""",
    "INSERT OR IGNORE INTO main.saved_search SELECT name, query, filters, at, seen_at FROM temp.saved_search_{s}",
    # Annotations of a page that became a copy move to the original.
    *(
        f"""UPDATE OR {instead} main.{table} SET key = (SELECT p.duplicate_of FROM main.page AS p
        WHERE p.key = {table}.key) WHERE key IN (SELECT key FROM main.page WHERE duplicate_of <> 0)"""
        for table, instead in (("page_tag", "REPLACE"), ("list_page", "REPLACE"), ("page_note", "IGNORE"))
    ),
)
_VERSION_COLUMNS = f"t.key, t.seq, {', '.join(f'o.{name.strip()}' for name in _PAGE.split(','))}"
MERGE_TABLES = (
    f"""INSERT INTO main.page (key, seq, {_PAGE}) SELECT {_VERSION_COLUMNS} FROM temp.kept AS t
        JOIN s{{s}}.page AS o ON o.key = t.key AND o.seq = t.old WHERE t.src = {{s}} AND t.current""",
    f"""INSERT INTO main.page (key, seq, {_PAGE}) SELECT {_VERSION_COLUMNS} FROM temp.kept AS t
        JOIN temp.version_{{s}} AS o ON o.key = t.key AND o.seq = t.old WHERE t.src = {{s}} AND t.current""",
    f"""INSERT INTO main.version (key, seq, {_PAGE}, until, ended, cause)
        SELECT {_VERSION_COLUMNS}, t.until, t.ended, t.cause
        FROM temp.kept AS t JOIN s{{s}}.page AS o ON o.key = t.key AND o.seq = t.old
        WHERE t.src = {{s}} AND NOT t.current""",
    f"""INSERT INTO main.version (key, seq, {_PAGE}, until, ended, cause)
        SELECT {_VERSION_COLUMNS}, t.until, t.ended, t.cause
        FROM temp.kept AS t JOIN temp.version_{{s}} AS o ON o.key = t.key AND o.seq = t.old
        WHERE t.src = {{s}} AND NOT t.current""",
    """UPDATE main.page SET (score, relevant, reasons) = (o.score, o.relevant, o.reasons)
        FROM temp.best AS b JOIN s{s}.page AS o ON o.key = b.key AND o.seq = b.old
        WHERE b.src = {s} AND b.key = page.key AND b.kept = page.seq AND page.duplicate_of = 0""",
    # The same text at two addresses that no collection knew both of: the later page is a copy of the earlier.
    """CREATE TEMP TABLE first_text AS SELECT fingerprint, key FROM (SELECT fingerprint, key,
        row_number() OVER (PARTITION BY fingerprint ORDER BY seq) AS place FROM main.page
        WHERE fingerprint <> 0 AND duplicate_of = 0) WHERE place = 1""",
    "CREATE UNIQUE INDEX temp.first_text_by ON first_text (fingerprint)",
    """UPDATE main.page SET duplicate_of = (SELECT f.key FROM temp.first_text AS f
        WHERE f.fingerprint = page.fingerprint), relevant = 0, warc = 0, offset = 0, length = 0
        WHERE fingerprint <> 0 AND duplicate_of = 0 AND key <> (SELECT f.key FROM temp.first_text AS f
        WHERE f.fingerprint = page.fingerprint)""",
    """UPDATE temp.kept SET length = 0 WHERE current AND key IN (SELECT key FROM main.page WHERE duplicate_of <> 0)""",
    """INSERT OR IGNORE INTO main.links SELECT l.parent, l.columns FROM temp.kept AS k
        JOIN s{s}.links AS l ON l.parent = k.key WHERE k.src = {s} AND k.current""",
    "INSERT OR IGNORE INTO main.links SELECT parent, columns FROM s{s}.links",
    """INSERT OR REPLACE INTO main.robots SELECT * FROM s{s}.robots AS r WHERE NOT EXISTS (
        SELECT 1 FROM main.robots AS o WHERE o.origin = r.origin AND o.expires_at > r.expires_at)""",
    "INSERT OR IGNORE INTO main.seed SELECT * FROM s{s}.seed",
    _merge_by_time("event", "at, kind, data", "s%.event"),
    _merge_by_time("label", "key, relevant, at, sample", "temp.label_%"),
    *_MERGE_ANNOTATIONS,
    _merge_by_time("enquiry", "at, query, further, keys", "temp.enquiry_%"),
    # Agents are part of the settings: what others found is kept where the first collection has the same agent.
    "INSERT INTO main.agent SELECT * FROM temp.agent_0",
    """INSERT OR IGNORE INTO main.verdict SELECT v.page, o.number, v.own, v.score, v.relevant FROM temp.verdict_{s} AS v
        JOIN temp.agent_{s} AS a ON a.number = v.agent JOIN main.agent AS o ON o.name = a.name AND o.topic = a.topic""",
    "INSERT OR REPLACE INTO main.move SELECT * FROM temp.move_{s} AS m WHERE m.key NOT IN (SELECT key FROM main.page)",
    "INSERT OR IGNORE INTO main.tip SELECT * FROM temp.tip_{s}",
    "INSERT OR IGNORE INTO main.empty_text SELECT * FROM temp.empty_text_{s}",
    "INSERT OR IGNORE INTO main.notice SELECT * FROM temp.notice_{s}",
    # Models: the first collection's, for they can't be added up.
    "INSERT INTO main.snapshot SELECT * FROM s0.snapshot",
    "INSERT INTO main.lesson SELECT * FROM temp.lesson_0",
    # No command is applied yet: what one collection bans may be queued in another.
    f"""INSERT OR REPLACE INTO main.meta SELECT * FROM s0.meta WHERE name NOT LIKE 'warc%' AND name NOT IN (
        'revisit_budget', 'expected_relevant', 'front_hit_rate', 'paused', '{LAST_APPLIED_META_KEY}',
        '{INDEX_SERVER_KEY}', '{INDEX_ALIAS_KEY}')""",
    "UPDATE main.meta SET value = (SELECT coalesce(max(id), 0) FROM main.label) WHERE name = 'labels_taken'",
)
_URL = "tunnel, parent, hops, retries, url, parents, features, reason, not_before, timer, agent, tier"
MERGE_FRONTIER = (
    """INSERT INTO main.frontier_host (name, wake_at, delay_s) SELECT name, max(wake_at), max(delay_s) FROM (
        {all:SELECT name, wake_at, delay_s FROM s%.frontier_host}) GROUP BY name""",
    # A URL that one source has fetched is done; otherwise queued comes before failed and dropped.
    f"""CREATE TEMP TABLE address AS {{all:SELECT n.id AS host_id, u.key, u.state, u.seq, u.priority, u.score, u.depth,
        u.found, {", ".join(f"u.{name} AS {name}" for name in _URL.split(", "))}
        FROM s%.frontier_url AS u JOIN s%.frontier_host AS h ON h.id = u.host_id
        JOIN main.frontier_host AS n ON n.name = h.name}}""",
    "CREATE INDEX temp.address_by ON address (host_id, key)",
    f"""INSERT INTO main.frontier_url (host_id, key, state, seq, priority, score, depth, found, {_URL})
        SELECT host_id, key, CASE WHEN fetched THEN 2 ELSE state END, row_number() OVER (ORDER BY seq, key), priority,
        best, nearest, times, {_URL} FROM (SELECT *, row_number() OVER (PARTITION BY host_id, key
            ORDER BY CASE state WHEN 2 THEN 0 WHEN 0 THEN 1 WHEN 1 THEN 2 ELSE state END, score DESC) AS place,
            max(score) OVER one AS best, min(depth) OVER one AS nearest, sum(found) OVER one AS times,
            EXISTS (SELECT 1 FROM main.page AS p WHERE p.key = address.key) AS fetched
            FROM temp.address WINDOW one AS (PARTITION BY host_id, key)) WHERE place = 1""",
    "UPDATE main.frontier_host SET total = (SELECT count(*) FROM main.frontier_url WHERE host_id = id AND state <> 4)",
    "UPDATE main.frontier_count SET inserted = (SELECT count(*) FROM main.frontier_url)",
)


def merge_commands(host_rules: Iterable[str], lasting: Iterable[str]) -> str:
    """The statement that merges commands.

    Rules for hosts hold for good and come from all sources. Other lasting commands come from the first source, where
    they were not applied yet.
    """
    kept = f"""name IN ({_sql_list(host_rules)})
        OR (% = 0 AND name IN ({_sql_list(lasting)}) AND id > (
        SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM s0.meta WHERE name = '{LAST_APPLIED_META_KEY}'))"""
    return _merge_by_time("command", "at, name, target, data", f"temp.command_% WHERE {kept}")


PORTION = 1000
Priority = Callable[[float, int], float]
Timer = Callable[[float, int], float | None]


class AmbiguousText(NamedTuple):
    """A version of a page that another source has with a different fingerprint."""

    rowid: int
    key: int
    source: int
    position: RecordPosition
    fingerprint: int


class KeptRecord(NamedTuple):
    """A version that the merged collection keeps, and its record in the source."""

    current: bool
    key: int
    seq: int
    source: int
    position: RecordPosition


class TableMerger:
    """The connection of the new collection with its sources attached. Transactions belong to the caller."""

    def __init__(self, db: sqlite3.Connection, databases: Sequence[Path]) -> None:
        self._db = db
        self._sources = len(databases)
        db.execute("PRAGMA temp_store = FILE")
        for number, path in enumerate(databases):
            # Read-only: else a transaction would lock out a process that writes to the source.
            db.execute(f"ATTACH ? AS s{number}", (f"{path.absolute().as_uri()}?mode=ro",))
            for statement in source_views(db, number):
                db.execute(statement)

    def detach(self) -> None:
        for number in range(self._sources):
            self._db.execute(f"DETACH s{number}")

    def run(self, statements: Iterable[str]) -> None:
        """Run statements for every source."""
        for statement in statements:
            for text in _expand_statement(statement, self._sources):
                self._db.execute(text)

    def ambiguous_texts(self) -> list[AmbiguousText]:
        """Versions of pages for which the sources have different fingerprints, by page and time."""
        rows = self._db.execute(
            "SELECT rowid, key, src, warc, offset, length, fingerprint FROM temp.every WHERE length > 0 AND key IN"
            " (SELECT key FROM temp.every GROUP BY key HAVING min(fingerprint) < max(fingerprint)) ORDER BY key, seq"
        )
        return [AmbiguousText(row, key, src, RecordPosition(*at), print_) for row, key, src, *at, print_ in rows]

    def set_fingerprint(self, rowid: int, fingerprint: int) -> None:
        self._db.execute("UPDATE temp.every SET fingerprint = ? WHERE rowid = ?", (fingerprint, rowid))

    def inserted_urls(self) -> int:
        """The number of URLs that were put into the merged frontier."""
        return int(read_value(self._db, "SELECT inserted FROM main.frontier_count"))

    def reposition_urls(self, priority: Priority, timer: Timer, below_tier: int) -> None:
        """Compute priority and timer of queued URLs in lower tiers from their score and number."""
        self._db.create_function("priority_of", 2, priority)
        self._db.create_function("timer_of", 2, timer)
        self._db.execute(
            "UPDATE main.frontier_url SET priority = priority_of(score, seq), timer = timer_of(score, seq)"
            " WHERE state < 2 AND tier < ?",
            (below_tier,),
        )

    def merge_revisits(self) -> None:
        """What the sources know of the revisits of one page adds up."""
        names = COLUMNS["revisit"]
        for number in range(self._sources):
            for row in self._db.execute(f"SELECT * FROM temp.revisit_{number}"):
                values = {**dict(zip(names, row, strict=True)), "queued": 0}
                known = self._db.execute("SELECT * FROM main.revisit WHERE key = ?", (values["key"],)).fetchone()
                old = dict(zip(names, known, strict=True)) if known is not None else values
                # Equal rows are the same revisits, of a collection and its copy.
                if old != values:
                    rates = [np.frombuffer(r["rates"], dtype=np.float32) for r in (old, values) if r["rates"]]
                    newer = max((old, values), key=lambda r: r["tried_at"])
                    sums = {name: old[name] + values[name] for name in ("checks", "changes", "found", "brought")}
                    values = {**newer, **sums, "rates": sum(rates[1:], rates[0]).tobytes() if rates else b""}
                insert = f"INSERT OR REPLACE INTO main.revisit VALUES ({', '.join('?' * len(values))})"
                self._db.execute(insert, list(values.values()))

    def kept_records(self) -> Iterator[list[KeptRecord]]:
        """The versions that are kept, in the order of the sources' files; in portions."""
        columns = "current, key, seq, src, warc, offset, length"
        rows = self._db.execute(f"SELECT {columns} FROM temp.kept WHERE length > 0 ORDER BY src, warc, offset")
        while portion := rows.fetchmany(PORTION):
            yield [KeptRecord(bool(cur), key, seq, src, RecordPosition(*at)) for cur, key, seq, src, *at in portion]

    def move_records(self, moved: Iterable[tuple[KeptRecord, RecordPosition]]) -> None:
        """Let versions point to their records in the new files."""
        rows: dict[str, list[tuple[int, int, int, int]]] = {"page": [], "version": []}
        for record, at in moved:
            rows["page" if record.current else "version"].append((at.warc, at.offset, record.key, record.seq))
        for table, values in rows.items():
            self._db.executemany(f"UPDATE main.{table} SET warc = ?, offset = ? WHERE key = ? AND seq = ?", values)

    def simhashes(self) -> Iterator[list[tuple[int, int]]]:
        """(key, simhash) of the original pages that have one; in portions."""
        rows = self._db.execute("SELECT key, simhash FROM main.page WHERE simhash <> 0 AND duplicate_of = 0")
        while portion := rows.fetchmany(PORTION):
            yield portion

    def counts(self) -> dict[str, int]:
        """Pages, past versions, texts that several sources had, and URLs of the merged collection."""
        counted = {
            "pages": "count(*) FROM main.page",
            "versions": "count(*) FROM main.version",
            "duplicates": "(SELECT count(*) FROM temp.every) - (SELECT count(*) FROM temp.kept)",
            "urls": "count(*) FROM main.frontier_url",
        }
        return {name: int(read_value(self._db, f"SELECT {what}")) for name, what in counted.items()}


def _expand_statement(statement: str, sources: int) -> Iterator[str]:
    """A statement with {s} once for every source in order; one with {all:…} once, over all of them."""
    if "{s}" in statement:
        for number in range(sources):
            yield statement.format(s=number)
        return
    start, mark, rest = statement.partition("{all:")
    inner, _, end = rest.partition("}")
    joined = " UNION ALL ".join(inner.replace("%", str(number)) for number in range(sources))
    yield f"{start}{joined}{end}" if mark else statement
