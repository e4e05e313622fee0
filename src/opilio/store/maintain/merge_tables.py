"""Merges the tables of several collections into a new one: runs the statements of `merge_sql`.

The sources are attached read-only as s0, s1, … Sorting happens in SQLite, in temporary tables on disk.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from opilio.store.connection import read_value
from opilio.store.maintain.merge_sql import COLUMNS, source_views
from opilio.store.warc import RecordPosition

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
        """Run statements of `merge_sql`."""
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
                marks = ", ".join("?" * len(values))
                self._db.execute(f"INSERT OR REPLACE INTO main.revisit VALUES ({marks})", list(values.values()))

    def kept_records(self) -> Iterator[list[KeptRecord]]:
        """The versions that are kept, in the order of the sources' files; in portions."""
        rows = self._db.execute(
            "SELECT current, key, seq, src, warc, offset, length FROM temp.kept WHERE length > 0"
            " ORDER BY src, warc, offset"
        )
        while portion := rows.fetchmany(PORTION):
            yield [KeptRecord(bool(cur), key, seq, src, RecordPosition(*at)) for cur, key, seq, src, *at in portion]

    def move_records(self, moved: Iterable[tuple[KeptRecord, RecordPosition]]) -> None:
        """Let versions point to their records in the new files."""
        tables: dict[bool, list[tuple[int, int, int, int]]] = {True: [], False: []}
        for record, position in moved:
            tables[record.current].append((position.warc, position.offset, record.key, record.seq))
        for current, table in ((True, "page"), (False, "version")):
            sql = f"UPDATE main.{table} SET warc = ?, offset = ? WHERE key = ? AND seq = ?"
            self._db.executemany(sql, tables[current])

    def simhashes(self) -> Iterator[list[tuple[int, int]]]:
        """(key, simhash) of the original pages that have one; in portions."""
        rows = self._db.execute("SELECT key, simhash FROM main.page WHERE simhash <> 0 AND duplicate_of = 0")
        while portion := rows.fetchmany(PORTION):
            yield portion

    def counts(self) -> dict[str, int]:
        """Pages, past versions, texts that several sources had, and URLs of the merged collection."""
        queries = {
            "pages": "SELECT count(*) FROM main.page",
            "versions": "SELECT count(*) FROM main.version",
            "duplicates": "SELECT (SELECT count(*) FROM temp.every) - (SELECT count(*) FROM temp.kept)",
            "urls": "SELECT count(*) FROM main.frontier_url",
        }
        return {name: int(read_value(self._db, query)) for name, query in queries.items()}


def _expand_statement(statement: str, sources: int) -> Iterator[str]:
    """A statement with {s} once for every source in order; one with {all:…} once, over all of them."""
    if "{s}" in statement:
        for number in range(sources):
            yield statement.format(s=number)
        return
    start, mark, rest = statement.partition("{all:")
    if not mark:
        yield statement
        return
    inner, _, end = rest.partition("}")
    yield start + " UNION ALL ".join(inner.replace("%", str(number)) for number in range(sources)) + end
