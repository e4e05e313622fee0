"""WARC records of a collection in PostgreSQL: chunks in the database, and their move to object storage.

A chunk is a whole WARC file that never changes, written by one commit. With `store.objects`, chunks that together have
some megabytes are moved into one object: it is written first, and one commit then names it in the place of the data.
A crash leaves at most an object without a row, which `verify` deletes while no crawl runs. Records keep their positions
(chunk, offset, length). A chunk is copied into the folder of the collection when one of its records is read.

The storage is S3, Google Cloud, Azure or a folder, by obstore. Credentials and endpoints come from the environment
(`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` and so on), never from the database. Each collection has a folder of its own
below the address, so that several can share a bucket.

While the storage can't be reached, records stay in the database and the crawl continues, until more than
`MAX_WAITING_BYTES` wait: then the trainer takes no more results, so that workers soon lease nothing.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from opilio.core.clock import Clock
from opilio.core.errors import CollectionError, ConfigError, ServerError
from opilio.core.events import ObjectStorageChanged
from opilio.core.files import write_atomically
from opilio.core.protocols import Database
from opilio.store.postgres.cluster import Role, RoleLostError
from opilio.store.postgres.collection import linked_database
from opilio.store.postgres.connection import (
    ConnectionLostError,
    PostgresConnection,
    RetryTransactionError,
    postgres_transaction,
)
from opilio.store.postgres.schema import schema_version
from opilio.store.warc import RecordPosition, info_record, warc_name

SCHEMES = ("s3", "gs", "az", "file")
MARKER_FILE = "opilio-collection.txt"
_MARKER = b"WARC files of an Opilio collection in PostgreSQL. 'opilio maintain verify' deletes files without a row.\n"
# A single request up to this size; above it a retry would send too much again.
_SINGLE_REQUEST_BYTES = 64 << 20
# The endpoint is the user's choice; without one it is https.
_CLIENT = {"timeout": timedelta(seconds=60), "connect_timeout": timedelta(seconds=5), "allow_http": True}
# Short, because the caller waits and tries again: the default is ten retries in three minutes.
_RETRY = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}


class ObjectsUnavailableError(ServerError):
    """The storage can't be reached, or refuses: nothing was lost, and it may be tried again later."""


class ObjectMissingError(CollectionError):
    """The storage answers, and the object is not there or too short."""


def _library() -> ModuleType:
    """obstore, which only collections with object storage need."""
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        problem = "store.objects: needs obstore; install it with: pip install 'opilio[objects]'"
        raise ConfigError(problem) from error
    return obstore


def check_address(address: str) -> None:
    """Raise ConfigError unless `address` is a valid value of `store.objects`."""
    parts = urlsplit(address)
    local = parts.scheme == "file"
    if parts.scheme not in SCHEMES or bool(parts.netloc) == local or (local and not parts.path.strip("/")):
        examples = "s3://bucket/folder, gs://bucket/folder, az://account/container/folder or file:///folder"
        raise ConfigError(f"store.objects {address!r}: not a valid address; give {examples}")
    _library()


def create_storage(address: str) -> "ObjectStorage":
    """A new folder for a collection below an address. Shows at once whether it can be written to."""
    check_address(address)
    storage = ObjectStorage(f"{address.rstrip('/')}/{secrets.token_hex(8)}", create=True)
    storage.put(MARKER_FILE, _MARKER)
    return storage


class ObjectStorage:
    """The objects of one collection. Errors of the storage are one line with its address."""

    def __init__(self, address: str, *, create: bool = False) -> None:
        self.address = address
        self._obstore: Any = _library()
        local = address.startswith("file:")
        options: dict[str, Any] = {"mkdir": create} if local else {"client_options": _CLIENT, "retry_config": _RETRY}
        with self._translate_errors("open"):
            self._store = self._obstore.store.from_url(address, **options)
        self._local = local

    def put(self, name: str, data: bytes) -> None:
        """Write one object, whole or not at all."""
        with self._translate_errors(f"write {name}"):
            # A folder that is not mounted must not be made again on another disk.
            if self._local and name != MARKER_FILE:
                self._obstore.head(self._store, MARKER_FILE)
            self._obstore.put(self._store, name, data, use_multipart=len(data) > _SINGLE_REQUEST_BYTES)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """A part of an object. Raises ObjectMissingError only where the storage answers that it is not there."""
        try:
            with self._translate_errors(f"read {name}"):
                data = bytes(self._obstore.get_range(self._store, name, start=offset, length=length))
        except (FileNotFoundError, ObjectsUnavailableError):
            # An object that ends before the part gives an error of its own in each kind of storage.
            if self.sizes().get(name, 0) >= offset + length:
                raise
            data = b""
        if len(data) != length:
            problem = "not found, or too short; 'opilio maintain verify --repair' has its pages fetched again"
            raise ObjectMissingError(f"{self.address}/{name}: {problem}")
        return data

    def check(self) -> None:
        """Raise ObjectsUnavailableError unless the storage answers and is that of the collection."""
        with self._translate_errors("find its marker"):
            self._obstore.head(self._store, MARKER_FILE)

    def sizes(self) -> dict[str, int]:
        """The size of every object, by name. Without the marker it is another place, such as an empty mount point."""
        with self._translate_errors("list objects"):
            batches = self._obstore.list(self._store, chunk_size=1000)
            found = {one["path"]: one["size"] for batch in batches for one in batch}
        if MARKER_FILE not in found:
            problem = f"{MARKER_FILE} not found; check the address, the credentials and mounts"
            raise ObjectsUnavailableError(f"{self.address}: {problem}")
        return found

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects that are there."""
        for start in range(0, len(names), 1000):
            with self._translate_errors("delete objects"):
                self._obstore.delete(self._store, list(names[start : start + 1000]))

    @contextmanager
    def _translate_errors(self, work: str) -> Iterator[None]:
        """Errors of obstore as errors of the collection; a missing object stays FileNotFoundError."""
        errors = self._obstore.exceptions
        try:
            yield
        except (FileNotFoundError, errors.NotFoundError) as error:
            if work.startswith("read"):
                raise FileNotFoundError from error
            raise ObjectsUnavailableError(f"{self.address}: can't {work}: no such bucket or folder") from error
        except (errors.BaseError, OSError, ValueError) as error:
            raise ObjectsUnavailableError(f"{self.address}: can't {work}: {_short(error)}") from error


def _short(error: Exception) -> str:
    """The cause without the details that the library prints behind it."""
    text = " ".join(str(error).split("\n\nDebug source")[0].split())
    return text if len(text) <= 200 else f"{text[:200]}…"


# In `meta`: the address of the collection's objects.
OBJECTS_KEY = "objects"
OBJECT_BYTES = 8 << 20
READ_BYTES = 1 << 20
_WARC_CACHE_BYTES = 1 << 30
# The oldest chunks up to a size, at least one; the window adds up the sizes before each.
_NEXT_CHUNKS = """SELECT number, size FROM (SELECT number, octet_length(data) AS size,
    sum(octet_length(data)) OVER (ORDER BY number) - octet_length(data) AS before
    FROM (SELECT number, data FROM warc_chunk WHERE data IS NOT NULL ORDER BY number LIMIT 2000) AS oldest
    ) AS sized WHERE before < ? ORDER BY number"""


class ChunkWriter:
    """Stores the records of a commit as one chunk, in the transaction that stores the pages."""

    def __init__(self, connection: PostgresConnection, software: str) -> None:
        self._db = connection
        self._software = software
        self._number = 0
        self._parts: list[bytes] = []
        self._size = 0
        # Chunks are never cut: nothing to resume.
        self.position = (1, 0)
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
            self._db.execute(
                "INSERT INTO warc_chunk (number, data) VALUES (?, ?)", (self._number, b"".join(self._parts))
            )
            self._parts, self._size = [], 0

    def sync(self) -> None:
        """The server does."""

    def close(self) -> None:
        """Nothing is open."""


class ChunkMover:
    """Moves chunks into objects, the oldest first. It has a connection of its own, because it runs beside the trainer.

    `role`: what gives the right to write; every commit checks it.
    """

    def __init__(self, dsn: str, address: str, role: Role) -> None:
        self._dsn = dsn
        self._address = address
        self._role = role

    def move(self, least_bytes: int = OBJECT_BYTES) -> int:
        """Write one object, unless fewer bytes than `least_bytes` wait; returns the bytes that still wait."""
        with closing(PostgresConnection(self._dsn)) as db:
            waiting = waiting_bytes(db)
            if not waiting or waiting < least_bytes:
                return waiting
            chunks = [(int(number), int(size)) for number, size in db.execute(_NEXT_CHUNKS, (OBJECT_BYTES,))]
            parts = [_stored_data(db, number) or b"" for number, _ in chunks]
            # The name is new with each attempt: an object is never written twice.
            name = f"pages-{chunks[0][0]:08d}-{chunks[-1][0]:08d}-{secrets.token_hex(4)}.warc.gz"
            ObjectStorage(self._address).put(name, b"".join(parts))
            moved, offset = [], 0
            for (number, _), part in zip(chunks, parts, strict=True):
                moved.append((name, offset, len(part), number))
                offset += len(part)
            with postgres_transaction(db):
                self._role.check(db)
                db.executemany(
                    "UPDATE warc_chunk SET data = NULL, object = ?, start = ?, length = ? WHERE number = ?", moved
                )
            return waiting - offset


def waiting_bytes(db: Database) -> int:
    """The bytes of chunks whose data is in the database."""
    sql = "SELECT coalesce(sum(octet_length(data)), 0) FROM warc_chunk WHERE data IS NOT NULL"
    return int(db.execute(sql).fetchone()[0])


def set_storage(address: str, db: Database) -> None:
    """Give a new collection its object storage; nothing for an empty address."""
    if address:
        storage = create_storage(address)
        db.execute("INSERT INTO meta (name, value) VALUES (?, ?)", (OBJECTS_KEY, storage.address))


def storage_address(db: Database) -> str:
    """Where the objects of a collection are; empty where the database holds all chunks."""
    row = db.execute("SELECT value FROM meta WHERE name = ?", (OBJECTS_KEY,)).fetchone()
    return str(row[0]) if row else ""


def storage_facts(dsn: str) -> dict[str, str]:
    """What a check of a database shows about its object storage; nothing where it has none."""
    with closing(PostgresConnection(dsn)) as db:
        if not schema_version(db) or not (address := storage_address(db)):
            return {}
        waiting = waiting_bytes(db)
    try:
        ObjectStorage(address).check()
    except ObjectsUnavailableError as error:
        return {"objects": str(error), "waiting_bytes": str(waiting)}
    return {"objects": f"{address}: can be read", "waiting_bytes": str(waiting)}


class ChunkRecords:
    """See `RecordFiles`: chunks of a database, and the objects that they were moved to."""

    def __init__(self, folder: Path, db: PostgresConnection) -> None:
        # Of copies.
        self._folder = folder
        self._db = db

    def open_writer(self, software: str) -> ChunkWriter:
        return ChunkWriter(self._db, software)

    def problems(self) -> Iterator[str]:
        """Objects that are missing, or of another size than their chunks."""
        address = storage_address(self._db)
        sizes = ObjectStorage(address).sizes() if address else {}
        source = "warc_chunk WHERE object IS NOT NULL GROUP BY object ORDER BY object"
        for name, size in self._db.execute(f"SELECT object, max(start + length) FROM {source}"):
            if sizes.get(name) != size:
                found = f"has {sizes[name]:,} bytes" if name in sizes else "is missing"
                yield f"{address}/{name}: {found}; its chunks have {size:,} bytes"

    def unused(self) -> Sequence[str]:
        """Objects that a crash left behind. A running crawl may be about to name one that it has just written."""
        address = storage_address(self._db)
        if not address:
            return ()
        named = self._db.execute("SELECT DISTINCT object FROM warc_chunk WHERE object IS NOT NULL")
        return sorted(ObjectStorage(address).sizes().keys() - {name for (name,) in named} - {MARKER_FILE})

    def delete_unused_rows(self) -> None:
        """Delete chunks without a page or a version: those whose pages `verify --repair` has fetched again."""
        used = "SELECT warc FROM page UNION ALL SELECT warc FROM version"
        self._db.execute(f"DELETE FROM warc_chunk WHERE number NOT IN ({used})")

    def delete_unused(self) -> int:
        """Delete objects that no row names. The caller has the writer's role."""
        if unused := self.unused():
            ObjectStorage(storage_address(self._db)).delete(unused)
        return 0

    def delete_copies(self) -> None:
        """Empty the cache, so that what is read next is what the database and the object storage have."""
        for path in self._folder.glob("pages-*.warc.gz"):
            path.unlink(missing_ok=True)


def fetch_chunk(folder: Path, number: int) -> Path:
    """The WARC file with this number, copied from the database or the object storage where it is missing."""
    path = folder / warc_name(number)
    if not path.exists():
        with closing(PostgresConnection(linked_database(folder))) as connection:
            chunks = _read_chunks(connection, number)
        _make_room(folder)
        for one, data in chunks.items():
            write_atomically(folder / warc_name(one), data)
    return path


def _read_chunks(db: Database, number: int) -> dict[int, bytes]:
    """A chunk, and those behind it in its object up to READ_BYTES: an export then needs a request per megabyte.

    ObjectMissingError where it is gone.
    """
    data = _stored_data(db, number)
    if data is not None:
        return {number: data}
    sql = "SELECT number, object, start, length FROM warc_chunk WHERE number >= ? ORDER BY number LIMIT 1000"
    rows = db.execute(sql, (number,)).fetchall()
    if not rows or rows[0][0] != number:
        raise ObjectMissingError(f"no chunk {number} in the database; run 'opilio maintain verify'")
    _, name, first, length = rows[0]
    # Chunks follow each other in an object; larger ones come alone.
    end = max(first + length, first + READ_BYTES)
    wanted = [row for row in rows if row[1] == name and row[2] + row[3] <= end]
    last = max(start + size for _, _, start, size in wanted)
    data = ObjectStorage(storage_address(db)).read(name, first, last - first)
    return {one: data[start - first : start - first + size] for one, _, start, size in wanted}


def _stored_data(db: Database, number: int) -> bytes | None:
    row = db.execute("SELECT data FROM warc_chunk WHERE number = ?", (number,)).fetchone()
    return None if row is None or row[0] is None else bytes(row[0])


def _make_room(folder: Path) -> None:
    """Bound the cache: the chunks that were copied first go."""
    files = sorted(folder.glob("pages-*.warc.gz"), key=lambda path: path.stat().st_mtime)
    size = sum(path.stat().st_size for path in files)
    while size > _WARC_CACHE_BYTES and files:
        oldest = files.pop(0)
        size -= oldest.stat().st_size
        oldest.unlink(missing_ok=True)


MAX_WAITING_BYTES = 512 << 20
POLL_S = 1.0
RETRY_S = 5.0


class ObjectArchive:
    """Starts a move when enough waits, one at a time. `report` gets one event when the storage goes or returns."""

    def __init__(
        self,
        mover: ChunkMover,
        clock: Clock,
        report: Callable[[ObjectStorageChanged], None],
        max_waiting_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        self._mover = mover
        self._clock = clock
        self._report = report
        self._max_waiting_bytes = max_waiting_bytes
        self._waiting_bytes = 0
        self._available = True
        self._next_at = 0.0
        self._move: asyncio.Task[int] | None = None

    @property
    def full(self) -> bool:
        """Whether too many bytes wait for the storage to take more results."""
        return self._waiting_bytes > self._max_waiting_bytes

    def poll(self, db: PostgresConnection, least_bytes: int = OBJECT_BYTES) -> None:
        """Take the result of a move, and start the next one if enough waits. Never waits itself."""
        if self._move is not None and self._move.done():
            self._finish_move(self._move)
        now = self._clock.now()
        if self._move is None and now >= self._next_at:
            self._next_at = now + POLL_S
            self._waiting_bytes = waiting_bytes(db)
            if self._waiting_bytes >= least_bytes:
                self._move = asyncio.create_task(asyncio.to_thread(self._mover.move, least_bytes))

    async def move_rest(self, db: PostgresConnection, keep_role: Callable[[], None]) -> None:
        """At the end of a crawl, move what is left; what the storage does not take stays in the database."""
        self._next_at = 0.0
        while True:
            self.poll(db, 1)
            if self._move is None and (not self._available or not self._waiting_bytes):
                return
            keep_role()
            await asyncio.sleep(0.05)

    def close(self) -> None:
        """Leave a running move to itself: without the role it can't commit."""
        if self._move is not None:
            self._move.add_done_callback(lambda move: move.cancelled() or move.exception())
            self._move = None

    def _finish_move(self, move: "asyncio.Task[int]") -> None:
        self._move = None
        try:
            self._waiting_bytes = move.result()
        except ObjectsUnavailableError as error:
            self._next_at = self._clock.now() + RETRY_S
            self._set_available(False, f"{error}; pages stay in the database until it is back")
        except (ConnectionLostError, RetryTransactionError, RoleLostError):
            # The trainer notices by its own connection.
            self._next_at = self._clock.now() + POLL_S
        else:
            self._next_at = 0.0
            self._set_available(True, "the object storage is back")

    def _set_available(self, available: bool, detail: str) -> None:
        if available != self._available:
            self._available = available
            self._report(ObjectStorageChanged(at=self._clock.now(), available=available, detail=detail))
