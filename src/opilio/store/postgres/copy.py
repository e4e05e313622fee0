"""Copies a collection from a folder into a database, or back: every table, every WARC record, the settings.

No crawl may run on the source. What was in flight is queued again in the copy.
"""

import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from opilio.core.errors import CollectionError
from opilio.core.files import write_atomically
from opilio.core.protocols import Database
from opilio.store.collection import Collection, CreateTables, collection_exists, is_linked, open_readonly
from opilio.store.locks import has_writer
from opilio.store.schema import ADDED_TABLES, TABLES
from opilio.store.warc import local_warc, warc_name

BATCH_ROWS = 1_000
MAX_CHUNK_BYTES = 512 << 20
_STORE_TABLES = re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", TABLES + ADDED_TABLES)
_OTHER_TABLES = ("texts", "text_signatures", "text_bands", "frontier_host", "frontier_url")
# Columns of a lease, which is not copied.
_LEASE_COLUMNS = frozenset({"token", "expires_at", "keys"})
# Rows of `meta` that describe the place, not the crawl.
_LOCAL_META = ("config", "objects", "warc_number", "warc_offset", "warc_synced")
_COUNTS = "sum(inserted), sum(queued + leased), sum(done), sum(failed), sum(dropped), sum(hosts)"


def copy_collection(source: Path, target: Path, parts: Sequence[CreateTables]) -> int:
    """Copy a collection into a new one, whose tables `parts` make; returns the number of pages."""
    if is_linked(source) == is_linked(target):
        raise CollectionError(f"copy: give a folder and the address of a database, in either order, not {target}")
    if collection_exists(target):
        raise CollectionError(f"{target}: there is a collection already; choose another place")
    if has_writer(source):
        raise CollectionError(f"{source}: a crawl is writing to it; stop it first")
    with open_readonly(source) as old, closing(Collection.create(target, old.config, parts)) as new:
        with new.unit_of_work():
            remote = new.connection if is_linked(target) else old.connection
            for table in (*_STORE_TABLES, *_OTHER_TABLES):
                _copy_table(old.connection, new.connection, table, _columns(remote, table))
            _copy_counts(old.connection, new.connection)
            (_load_chunks if is_linked(target) else _write_files)(old, new)
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


def _load_chunks(old: Collection, new: Collection) -> None:
    """WARC files into the database."""
    for path in sorted(old.folder.glob("pages-*.warc.gz")):
        if path.stat().st_size > MAX_CHUNK_BYTES:
            raise CollectionError(
                f"{path}: larger than {MAX_CHUNK_BYTES >> 20} MB; copy a compacted collection instead"
            )
        number = int(path.name.split("-")[1].split(".")[0])
        new.connection.execute("INSERT INTO warc_chunk (number, data) VALUES (?, ?)", (number, path.read_bytes()))


def _write_files(old: Collection, new: Collection) -> None:
    """Chunks of the database into files; the next crawl appends to the last one."""
    last, size = 1, 0
    for (number,) in old.connection.execute("SELECT number FROM warc_chunk ORDER BY number").fetchall():
        data = local_warc(old.folder, number).read_bytes()
        write_atomically(new.folder / warc_name(number), data)
        last, size = number, len(data)
    new.set_meta(warc_number=last, warc_offset=size, warc_synced=f"{last} {size}")


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
