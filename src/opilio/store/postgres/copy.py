"""Copies a collection from a folder into a database, or back: every table, every WARC record, the settings.

No crawl may run on the source. What was in flight is queued again in the copy.
"""

import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from opilio import __version__
from opilio.core.errors import CollectionError, UsageError
from opilio.core.protocols import Database
from opilio.store.collection import Collection, CreateTables, collection_exists, is_linked, open_readonly
from opilio.store.connection import has_writer
from opilio.store.maintain.integrity import StoredRecord, stored_records
from opilio.store.postgres.chunks import OBJECT_BYTES
from opilio.store.postgres.collection import place_of
from opilio.store.run_tables import INDEX_ALIAS_KEY, INDEX_SERVER_KEY
from opilio.store.schema import ADDED_TABLES, TABLES
from opilio.store.warc import RecordPosition, RecordWriter, read_member

BATCH_ROWS = 1_000
_STORE_TABLES = re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", TABLES + ADDED_TABLES)
_OTHER_TABLES = ("texts", "text_signatures", "text_bands", "frontier_host", "frontier_url")
# Columns of a lease, which is not copied.
_LEASE_COLUMNS = frozenset({"token", "expires_at", "keys"})
# Rows of `meta` that describe the place, not the crawl.
_LOCAL_META = ("config", "objects", "warc_number", "warc_offset", "warc_synced", INDEX_SERVER_KEY, INDEX_ALIAS_KEY)
_COUNTS = "sum(inserted), sum(queued + leased), sum(done), sum(failed), sum(dropped), sum(hosts)"


def copy_collection(source: Path, target: Path, parts: Sequence[CreateTables]) -> int:
    """Copy a collection into a new one, whose tables `parts` make; returns the number of pages."""
    if is_linked(source) == is_linked(target):
        raise UsageError(f"copy: {source} and {target} are folders; use cp -r, or give the address of a database")
    if collection_exists(target):
        raise CollectionError(f"{place_of(target)}: there is a collection already; choose another place")
    if has_writer(source):
        raise CollectionError(f"{place_of(source)}: a crawl is writing to it; stop it first")
    with open_readonly(source) as old, closing(Collection.create(target, old.config, parts)) as new:
        with new.unit_of_work():
            remote = new.connection if is_linked(target) else old.connection
            for table in (*_STORE_TABLES, *_OTHER_TABLES):
                _copy_table(old.connection, new.connection, table, _columns(remote, table))
            _copy_counts(old.connection, new.connection)
            _copy_records(old, new)
            if is_linked(target):
                _advance_sequences(new.connection)
                # The settings are a row here; the copied rows have none.
                new.set_meta(config=old.config)
            else:
                new.connection.execute("DELETE FROM meta WHERE name = 'config'")
        return int(new.connection.execute("SELECT count(*) FROM page").fetchone()[0])


def _columns(remote: Database, table: str) -> list[str]:
    rows = remote.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema()"
        " AND table_name = ? ORDER BY ordinal_position",
        (table,),
    )
    return [name for (name,) in rows if table != "frontier_host" or name not in _LEASE_COLUMNS]


def _copy_table(old: Database, new: Database, table: str, columns: Sequence[str]) -> None:
    names = ", ".join(columns)
    where = f" WHERE name NOT IN ({', '.join('?' * len(_LOCAL_META))})" if table == "meta" else ""
    rows = iter(old.execute(f"SELECT {names} FROM {table}{where}", _LOCAL_META if where else ()))
    insert = f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))}) ON CONFLICT DO NOTHING"
    while batch := [row for _, row in zip(range(BATCH_ROWS), rows, strict=False)]:
        new.executemany(insert, batch)


def _copy_counts(old: Database, new: Database) -> None:
    counts = old.execute(f"SELECT {_COUNTS} FROM frontier_count").fetchone()
    new.execute(
        "UPDATE frontier_count SET inserted = ?, queued = ?, done = ?, failed = ?, dropped = ?, hosts = ?", counts
    )


def _copy_records(old: Collection, new: Collection) -> None:
    """Write every record of a version anew: chunks of some megabytes in a database, large files in a folder."""
    writer = new.records.open_writer(f"Opilio/{__version__}")
    writer.resume(1, 0)
    try:
        moved, waiting = [], 0
        for row in stored_records(old):
            record = read_member(old.folder, row.warc, row.offset, row.length)
            if len(record) != row.length:
                place = place_of(old.folder)
                raise CollectionError(f"{place}: the record of {row.url} is lost; run 'opilio maintain verify' first")
            moved.append((row, writer.append(record, 0.0)))
            waiting += row.length
            if waiting >= OBJECT_BYTES:
                _store_positions(new, writer, moved)
                moved, waiting = [], 0
        _store_positions(new, writer, moved)
        writer.sync()
        number, offset = writer.position
        new.set_meta(warc_number=number, warc_offset=offset, warc_synced=f"{number} {offset}")
    finally:
        writer.close()


def _store_positions(
    new: Collection, writer: RecordWriter, moved: Sequence[tuple[StoredRecord, RecordPosition]]
) -> None:
    writer.flush()
    for table, current in (("page", 1), ("version", 0)):
        places = [(at.warc, at.offset, row.key, row.seq) for row, at in moved if row.current == current]
        new.connection.executemany(f"UPDATE {table} SET warc = ?, offset = ? WHERE key = ? AND seq = ?", places)


def _advance_sequences(db: Database) -> None:
    """New rows get numbers behind the copied ones."""
    for table, column in (
        *((name, "id") for name in ("event", "label", "lesson", "command", "enquiry", "frontier_host")),
        ("warc_chunk", "number"),
    ):
        db.execute(
            f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'),"
            f" (SELECT coalesce(max({column}), 0) + 1 FROM {table}), false)"
        )
