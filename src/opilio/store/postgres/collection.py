"""A collection in a PostgreSQL database. Its folder on this machine is a cache: WARC files and the search index.

The file `database.toml` in the folder names the database, so that every command that takes the folder of a collection
takes it too. Pages are stored as chunks: whole WARC files that never change, each written by one commit. A chunk is
copied into the folder when one of its records is read.
"""

import os
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import tomli_w
import xxhash
from platformdirs import user_cache_path

from opilio.core.errors import CollectionError
from opilio.core.files import write_atomically
from opilio.store.collection import Collection
from opilio.store.locks import LINK_FILE
from opilio.store.postgres.connection import PostgresConnection, is_postgres, postgres_transaction, public_address
from opilio.store.postgres.roles import TRAINER, Role
from opilio.store.postgres.schema import (
    CreatePart,
    create_schema,
    drop_tables,
    schema_version,
    upgrade_schema,
)
from opilio.store.warc import RecordPosition, info_record, warc_name

_WARC_CACHE_BYTES = 1 << 30


class PostgresCollection(Collection):
    """See `Collection`. Who writes holds the trainer's role; every commit checks that it still does."""

    connection: PostgresConnection

    def __init__(self, folder: Path, connection: PostgresConnection, role: Role | None = None) -> None:
        super().__init__(folder, connection)
        self.role = role

    @property
    def config(self) -> str:
        """The settings that the collection was made with."""
        return self.meta("config")

    @contextmanager
    def unit_of_work(self) -> Iterator[None]:
        """Everything written inside is one commit, or nothing is."""
        with postgres_transaction(self.connection):
            if self.role is not None:
                self.role.check(self.connection)
            yield

    def begin_snapshot(self) -> None:
        """What is read from now on was all committed before now."""
        self.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def close(self) -> None:
        if self.role is not None:
            self.role.release()
            self.role = None
        super().close()


class ChunkWriter:
    """Stores the records of a commit as one chunk, in the transaction that stores the pages."""

    def __init__(self, connection: PostgresConnection, software: str) -> None:
        self._db = connection
        self._software = software
        self._number = 0
        self._parts: list[bytes] = []
        self._size = 0
        self.position = (1, 0)  # chunks are never cut: nothing to resume
        self.synced_position = (1, 0)

    def resume(self, _number: int, _offset: int) -> None:
        """What a killed process had not committed is not there."""

    def append(self, record: bytes, at: float) -> RecordPosition:
        """Add one record to the chunk of this commit; returns its position."""
        if not self._parts:
            sql = "SELECT nextval(pg_get_serial_sequence('warc_chunk', 'number'))"
            self._number = int(self._db.execute(sql).fetchone()[0])
            self._add(info_record(warc_name(self._number), self._software, at))
        place = RecordPosition(self._number, self._size, len(record))
        self._add(record)
        return place

    def _add(self, record: bytes) -> None:
        self._parts.append(record)
        self._size += len(record)

    def flush(self) -> None:
        """Write the chunk."""
        if self._parts:
            self._db.execute("INSERT INTO warc_chunk VALUES (?, ?)", (self._number, b"".join(self._parts)))
            self._parts, self._size = [], 0

    def sync(self) -> None:
        """The server does."""

    def close(self) -> None:
        """Nothing is open."""


def folder_of(place: str) -> Path:
    """The folder on this machine of a collection: the folder itself, or the cache of a database."""
    if not is_postgres(place):
        return Path(place)
    name = public_address(place).rpartition("/")[2] or "postgres"
    folder = user_cache_path("opilio") / "postgres" / f"{name}-{xxhash.xxh3_64_hexdigest(place.encode())}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The address may contain a password.
        folder.chmod(0o700)
        if not (folder / LINK_FILE).exists():
            write_atomically(folder / LINK_FILE, tomli_w.dumps({"database": place}).encode())
    except OSError as error:
        raise CollectionError(f"{folder}: can't be written: {error.strerror}") from error
    return folder


def linked_database(folder: Path) -> str:
    """The address of the database that a folder is the cache of; empty for an ordinary collection."""
    try:
        text = (folder / LINK_FILE).read_text(encoding="utf-8")
    except OSError:
        return ""
    try:
        return str(tomllib.loads(text)["database"])
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise CollectionError(f"{folder / LINK_FILE}: is damaged; delete the folder, it is a cache") from error


def create_in_database(folder: Path, config: str, parts: Sequence[CreatePart]) -> PostgresCollection:
    """Make the tables of a new collection."""
    connection = PostgresConnection(linked_database(folder))
    try:
        create_schema(connection, parts)
        collection = PostgresCollection(folder, connection)
        if not collection.meta("config"):
            with collection.unit_of_work():
                collection.set_meta(config=config)
    except BaseException:
        connection.close()
        raise
    return collection


def open_database(folder: Path, writer: str = "") -> PostgresCollection:
    """Open a collection to read, or to write as `writer`: what this process does, for messages to others."""
    connection = PostgresConnection(linked_database(folder))
    try:
        upgrade_schema(connection)
        role = None
        if writer:
            role = Role(linked_database(folder), TRAINER, writer)
            if not role.acquire():
                holder = role.holder() or "another process"
                raise CollectionError(f"{connection.address}: {holder} is writing to this collection; wait or stop it")
        return PostgresCollection(folder, connection, role)
    except BaseException:
        connection.close()
        raise


def drop_new_tables(folder: Path) -> None:
    """Take a new collection back; one that a crawl has begun with (it has a topic) stays."""
    with closing(open_database(folder)) as collection, collection.unit_of_work():
        if not collection.meta("topic"):
            drop_tables(collection.connection)


def database_exists(folder: Path) -> bool:
    """Is there a collection in the database that this folder is the cache of?"""
    with closing(PostgresConnection(linked_database(folder))) as connection:
        return schema_version(connection) > 0


def database_writer(folder: Path) -> str:
    """Who writes to the collection at this moment: the name of a command; empty for none."""
    return Role(linked_database(folder), TRAINER, "").holder()


def fetch_chunk(folder: Path, number: int) -> Path:
    """The WARC file with this number, copied from the database where it is missing."""
    path = folder / warc_name(number)
    if not path.exists():
        with closing(PostgresConnection(linked_database(folder))) as connection:
            row = connection.execute("SELECT data FROM warc_chunk WHERE number = ?", (number,)).fetchone()
        if row is None:
            raise CollectionError(f"{folder}: no chunk {number}; run 'opilio maintain verify'")
        _make_room(folder)
        write_atomically(path, bytes(row[0]))
    return path


def _make_room(folder: Path) -> None:
    """Bound the cache: the chunks that were copied first go."""
    files = sorted(folder.glob("pages-*.warc.gz"), key=lambda path: path.stat().st_mtime)
    size = sum(path.stat().st_size for path in files)
    while size > _WARC_CACHE_BYTES and files:
        oldest = files.pop(0)
        size -= oldest.stat().st_size
        oldest.unlink(missing_ok=True)


def worker_name() -> str:
    """A name for this process that no other has."""
    return f"{os.uname().nodename}-{os.getpid()}"
