"""Object storage for the WARC records of a collection in PostgreSQL: S3, Google Cloud, Azure or a folder, by obstore.

Credentials and endpoints come from the environment (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` and so on), never from the
database. Each collection has a folder of its own below the address, so that several can share a bucket.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from opilio.core.errors import CollectionError, ConfigError, ServerError

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
