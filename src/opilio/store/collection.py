"""A collection: one folder with `crawl.toml`, `crawl.db` and WARC files, or a database that the folder is a cache of.

Invariant: what is in the database has happened, what is not has not. One process at a time may write
(an advisory lock that the kernel releases when the process dies); any number may read.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec

from opilio.core.errors import CollectionError, ConfigError
from opilio.core.files import parse_toml
from opilio.core.protocols import Database
from opilio.core.settings import StopSettings, Tree
from opilio.store.connection import (
    CONFIG,
    CRAWL_COMMAND,
    DATABASE,
    LINK_FILE,
    LOCK_FILE,
    LOCK_TIMEOUT_S,
    connect,
    database_error,
    has_writer,
    hold_files,
    read_database,
    read_header,
    run_script,
    transaction,
    upsert_sql,
)
from opilio.store.connection import acquire_write_lock as lock_of
from opilio.store.schema import ADDED_TABLES, APPLICATION_ID, SCHEMA_VERSION, TABLES, emulate, upgrade
from opilio.store.seal import SEAL_FILE, WriterSeal, drop_seal_at_rest, require_intact
from opilio.store.warc import FolderRecords, RecordFiles

# Shown to other processes; commands that only append take the lock for a moment.
APPEND_COMMAND = "label"
# A database that is being made; the last step of making a collection gives it its name.
PARTIAL_DATABASE_FILE = f"{DATABASE}.part"
PARTIAL_FILES = frozenset(
    {
        LOCK_FILE,
        CONFIG,
        PARTIAL_DATABASE_FILE,
        f"{CONFIG}.part",
        *(f"{PARTIAL_DATABASE_FILE}-{end}" for end in ("journal", "wal", "shm")),
    }
)


CreateTables = Callable[[Database], None]


class Collection:
    """An open collection. Use `create`, `open_for_reading` or `open_for_writing`."""

    def __init__(
        self, folder: Path, connection: Database, lock: IO[str] | None = None, seal: WriterSeal | None = None
    ) -> None:
        self.folder = folder
        self.connection = connection
        self.records: RecordFiles = FolderRecords(folder, connection)
        # If it is open for writing, in a folder.
        self.seal = seal
        self._lock = lock
        # It writes without the lock.
        self._appends = False

    @classmethod
    def create(cls, folder: Path, config: str, parts: Sequence[CreateTables] = ()) -> "Collection":
        """Make a new collection with the tables of the store and of `parts`; refuses a folder that holds other files.

        `crawl.db` is created last, under another name until it is complete, so a killed process leaves no partial
        collection.
        """
        if is_linked(folder):
            from opilio.store.postgres.collection import create_in_database

            return create_in_database(folder, config, parts)
        try:
            if folder.exists():
                _check_folder_is_free(folder)
            folder.mkdir(parents=True, exist_ok=True)
            lock = lock_of(folder)
        except OSError as error:
            raise CollectionError(f"{folder}: can't make a collection here: {error.strerror or error}") from error
        try:
            _check_folder_is_free(folder)
            _create_files(folder, config, parts)
            seal = WriterSeal(folder)
            return cls(folder, connect(folder / DATABASE), lock, seal)
        except (OSError, sqlite3.Error) as error:
            lock.close()
            raise CollectionError(f"{folder}: can't make a collection here: {error}") from error
        except BaseException:
            lock.close()
            raise

    @property
    def persistent(self) -> bool:
        """Whether it is on disk or in a database server."""
        return self.folder != Path()

    @classmethod
    def in_memory(cls) -> "Collection":
        """A collection without a folder: the same tables, nothing on disk. For the lab and for tests."""
        connection = sqlite3.connect(":memory:", isolation_level=None)
        run_script(connection, TABLES + ADDED_TABLES)
        return cls(Path(), connection)

    @classmethod
    def open_for_writing(
        cls, folder: Path, work: str = CRAWL_COMMAND, patience_s: float = LOCK_TIMEOUT_S, *, damaged: bool = False
    ) -> "Collection":
        """`work`: the command shown to other processes; `patience_s`: how long to wait for the current writer.

        A database that was changed by anything but Opilio is refused unless `damaged` accepts it.
        """
        if is_linked(folder):
            from opilio.store.postgres.collection import open_database

            return open_database(folder, work)
        check_collection(folder)
        try:
            lock = lock_of(folder, work, patience_s)
        except OSError as error:
            raise CollectionError(f"{folder}: can't be written: {error.strerror}") from error
        try:
            if not damaged:
                require_intact(folder)
            seal = WriterSeal(folder, trusted=not damaged)
            return cls(folder, _open(folder, ADDED_TABLES), lock, seal)
        except BaseException:
            lock.close()
            raise

    @classmethod
    def open_for_append(cls, folder: Path) -> "Collection":
        """For notes to the crawl, which holds the lock: only append to tables that it polls."""
        if is_linked(folder):
            from opilio.store.postgres.collection import open_database

            return open_database(folder)
        check_collection(folder)
        require_intact(folder)
        # Without a crawl the checksums are kept true by a writer. Without checksums there is no need for one.
        if (folder / SEAL_FILE).exists() and not has_writer(folder):
            with suppress(CollectionError):
                return cls.open_for_writing(folder, APPEND_COMMAND)
        collection = cls(folder, _open(folder, ADDED_TABLES))
        collection._appends = True
        return collection

    @classmethod
    def open_for_reading(cls, folder: Path) -> "Collection":
        if is_linked(folder):
            from opilio.store.postgres.collection import open_database

            return open_database(folder)
        check_collection(folder)
        connection = _open(folder, readonly=True)
        emulate(connection)
        connection.execute("PRAGMA query_only = ON")
        return cls(folder, connection)

    @property
    def config(self) -> str:
        """The text of crawl.toml."""
        try:
            return (self.folder / CONFIG).read_text(encoding="utf-8")
        except OSError as error:
            raise CollectionError(f"{self.folder / CONFIG}: can't be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise CollectionError(f"{self.folder / CONFIG}: is not UTF-8 text (byte {error.start})") from error

    @contextmanager
    def unit_of_work(self) -> Iterator[None]:
        """Everything written inside is one commit."""
        try:
            if self.seal is not None:
                self.seal.before_commit()
            with transaction(self.connection):
                yield
            if self.seal is not None:
                self.seal.after_commit(self.connection)
        except (sqlite3.Error, OSError) as error:
            refused = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY
            advice = "copy the folder to a place of your own" if refused else "run again to resume"
            raise CollectionError(
                f"{self.folder}: can't write: {error}; what was committed before is safe, {advice}"
            ) from error

    def begin_snapshot(self) -> None:
        """One consistent snapshot for all reads inside."""
        self.connection.execute("BEGIN")

    def meta(self, name: str, default: str = "") -> str:
        row = self.connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else default

    def set_meta(self, **values: str | float) -> None:
        self.connection.executemany(
            upsert_sql("meta", ("name", "value"), ("name",)),
            [(name, str(value)) for name, value in values.items()],
        )

    def close(self) -> None:
        if self.seal is not None:
            self.seal.close(self.connection)
            self.seal = None
        self.connection.close()
        if self._appends:
            drop_seal_at_rest(self.folder)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def is_linked(folder: Path) -> bool:
    """Whether the folder is a cache of a collection in a database."""
    return (folder / LINK_FILE).exists()


def check_collection(folder: Path) -> None:
    """Raise CollectionError unless the folder is a collection that this version can read."""
    if is_linked(folder):
        from opilio.store.postgres.collection import open_database

        open_database(folder).close()
        return
    database = folder / DATABASE
    if not database.is_file():
        taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
        hint = "name a folder that a crawl made" if taken else f"'opilio crawl TOPIC --into {folder}' makes one"
        raise CollectionError(f"{folder}: not a collection (it contains no {DATABASE}); {hint}")
    version, owner = read_header(database)
    if owner != APPLICATION_ID:
        raise CollectionError(f"{database}: was not made by Opilio; nothing was changed")
    if version > SCHEMA_VERSION:
        raise CollectionError(
            f"{database}: was made by a newer Opilio (schema {version}, this one knows {SCHEMA_VERSION}); update Opilio"
        )


def upgrade_collection(folder: Path) -> bool:
    """Bring a collection of an older schema to the current one; False: it has it. Raises as `check_collection` does."""
    if is_linked(folder):
        from opilio.store.postgres.collection import upgrade_database

        return upgrade_database(folder)
    check_collection(folder)
    older = read_header(folder / DATABASE)[0] < SCHEMA_VERSION
    if older:
        Collection.open_for_writing(folder).close()
    return older


@contextmanager
def open_readonly(folder: Path) -> Iterator[Collection]:
    """A read-only snapshot of a collection with its files, also while another process writes.

    Damage raises CollectionError.
    """
    with hold_files(folder), closing(Collection.open_for_reading(folder)) as collection:
        try:
            collection.begin_snapshot()
            yield collection
        except sqlite3.Error as error:
            raise database_error(folder, error) from error


def collection_exists(folder: Path) -> bool:
    """Whether a collection is in this folder, readable or not."""
    if is_linked(folder):
        from opilio.store.postgres.collection import database_exists

        return database_exists(folder)
    return (folder / DATABASE).exists()


def _open(folder: Path, tables: str = "", *, readonly: bool = False) -> sqlite3.Connection:
    """A connection to a database that can be used, with these tables made where they are missing."""
    try:
        connection = read_database(folder / DATABASE, lambda: _connect(folder, readonly=readonly))
        if tables:
            with transaction(connection):
                run_script(connection, tables)
                # Setting the version writes, so only where it changes.
                if connection.execute("PRAGMA user_version").fetchone()[0] != SCHEMA_VERSION:
                    upgrade(connection)
                    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    except sqlite3.Error as error:
        raise database_error(folder, error) from error
    return connection


def _connect(folder: Path, *, readonly: bool) -> sqlite3.Connection:
    connection = connect(folder / DATABASE, readonly=readonly)
    try:
        connection.execute("SELECT 1 FROM meta LIMIT 1")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _check_folder_is_free(folder: Path) -> None:
    """Only an empty folder, or the rest of a killed `create` (recognized by its lock), may become a collection."""
    if not folder.is_dir():
        raise CollectionError(f"{folder}: is a file; choose a folder with --into")
    names = {path.name for path in folder.iterdir()}
    if names and not (LOCK_FILE in names and names <= PARTIAL_FILES):
        raise CollectionError(f"{folder}: is not empty and not a collection; choose another folder with --into")


def _create_files(folder: Path, config: str, parts: Sequence[CreateTables]) -> None:
    for name in PARTIAL_FILES - {LOCK_FILE}:
        (folder / name).unlink(missing_ok=True)
    connection = sqlite3.connect(folder / PARTIAL_DATABASE_FILE, isolation_level=None)
    try:
        with transaction(connection):
            run_script(connection, TABLES + ADDED_TABLES)
            for create_tables in parts:
                create_tables(connection)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        # Later it would need a moment without readers.
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    (folder / f"{CONFIG}.part").write_text(config, encoding="utf-8")
    (folder / f"{CONFIG}.part").replace(folder / CONFIG)
    (folder / PARTIAL_DATABASE_FILE).replace(folder / DATABASE)


def load_settings(collection: Collection) -> Tree:
    """The settings of the first run of a collection."""
    try:
        return parse_toml(collection.config)
    except ValueError as error:
        raise ConfigError(f"{collection.folder / CONFIG}: is not valid TOML: {error}") from error


def stored_stop_settings(collection: Collection) -> StopSettings:
    """The stop rules of the last run; a resumed run may have others than the first."""
    stored = collection.meta("stop")
    if stored:
        return msgspec.json.decode(stored, type=StopSettings)
    return msgspec.convert(load_settings(collection).get("stop", {}), StopSettings)
