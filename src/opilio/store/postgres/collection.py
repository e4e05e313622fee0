"""A collection in a PostgreSQL database. Its folder on this machine is a cache: WARC files and the search index.

The file `database.toml` in the folder names the database, so that every command that takes the folder of a collection
takes it too. Pages are stored as chunks (`chunks.py`).
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import tomli_w
import xxhash
from platformdirs import user_cache_path

from opilio.core.errors import CollectionError
from opilio.core.files import parse_toml, write_atomically
from opilio.store.collection import Collection
from opilio.store.connection import LINK_FILE
from opilio.store.postgres.cluster import TRAINER, Role
from opilio.store.postgres.connection import PostgresConnection, is_postgres, postgres_transaction, public_address
from opilio.store.postgres.schema import (
    CreatePart,
    check_version,
    create_schema,
    drop_tables,
    schema_version,
    upgrade_schema,
)


class PostgresCollection(Collection):
    """See `Collection`. Who writes holds the trainer's role; every commit checks that it still does."""

    connection: PostgresConnection

    def __init__(self, folder: Path, connection: PostgresConnection, role: Role | None = None) -> None:
        # Imports this module.
        from opilio.store.postgres.chunks import ChunkRecords

        super().__init__(folder, connection)
        self.records = ChunkRecords(folder, connection)
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


def place_of(folder: Path) -> str:
    """What the user calls a collection: its folder, or the address of its database without user and password."""
    database = linked_database(folder)
    return public_address(database) if database else str(folder)


def linked_database(folder: Path) -> str:
    """The address of the database that a folder is the cache of; empty for an ordinary collection."""
    try:
        text = (folder / LINK_FILE).read_text(encoding="utf-8")
    except OSError:
        return ""
    try:
        return str(parse_toml(text)["database"])
    except (ValueError, KeyError) as error:
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
        check_version(connection)
        role = None
        if writer:
            role = Role(linked_database(folder), TRAINER, writer)
            if not role.acquire():
                holder = role.holder(connection) or "another process"
                raise CollectionError(f"{connection.address}: {holder} is writing to this collection; wait or stop it")
        return PostgresCollection(folder, connection, role)
    except BaseException:
        connection.close()
        raise


def upgrade_database(folder: Path) -> bool:
    """Bring the collection to the current schema; False: it has it."""
    with closing(PostgresConnection(linked_database(folder))) as connection:
        return upgrade_schema(connection)


def drop_new_tables(folder: Path) -> None:
    """Delete a new collection, unless a crawl has started in it (then it has a topic)."""
    with closing(open_database(folder)) as collection, collection.unit_of_work():
        if not collection.meta("topic"):
            drop_tables(collection.connection)


def database_exists(folder: Path) -> bool:
    """Is there a collection in the database that this folder is the cache of?"""
    with closing(PostgresConnection(linked_database(folder))) as connection:
        return schema_version(connection) > 0


def stop_reason_of(folder: Path) -> str:
    """Why the crawl in this database was stopped; empty while it runs, or before it has started."""
    with closing(open_database(folder)) as collection:
        return (collection.meta("stop_reason") or "stopped") if collection.meta("state") == "stopped" else ""


def database_writer(folder: Path) -> str:
    """Who writes to the collection at this moment: the name of a command; empty for none."""
    dsn = linked_database(folder)
    with closing(PostgresConnection(dsn)) as connection:
        check_version(connection)
        return Role(dsn, TRAINER, "").holder(connection)


def worker_name() -> str:
    """A name for this process that no other has."""
    return f"{os.uname().nodename}-{os.getpid()}"
