"""WARC 1.1 files of a collection, gzip per record: create, append, truncate; `core.warc` reads them.

Own code because a record is made in the worker process as one gzip member of known length, and the writers of WARC
libraries own the stream. Tests read every file with both warcio and fastwarc.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, cast

import xxhash
from isal import isal_zlib
from msgspec.structs import replace

from opilio.core.errors import CollectionError
from opilio.core.protocols import Database
from opilio.core.records import FetchResult
from opilio.core.warc import parse_http, parse_records, payload_digest
from opilio.store.connection import LINK_FILE, read_value, try_exclusive_lock

# Level 1 of ISA-L is some six times faster than zlib's level 6 and 15 % larger.
_GZIP = 31
_LEVEL = 1
ROTATE_BYTES = 1 << 30  # the size at which a new file begins
FIRST_WARC_KEY = "warc_first"  # in `meta`: the first WARC file in use
# Headers about the transfer, not the page: the stored body is decoded and complete.
_TRANSFER = frozenset({"content-encoding", "transfer-encoding", "content-length", "connection", "keep-alive"})


class RecordPosition(NamedTuple):
    """Where a record is: number of the file, offset, length. Length 0: a copy, stored with its original."""

    warc: int = 0
    offset: int = 0
    length: int = 0


def response_record(fetched: FetchResult) -> bytes:
    """One `response` record as a gzip member of its own, and behind it the page as HTML if the body was converted.

    The record of an archive is kept as it is, with its id and date.
    """
    if fetched.record and not fetched.converted:
        return fetched.record
    http = _http_block(fetched)
    name = _record_id(f"{fetched.url} {fetched.started_at}")
    fields = [
        ("WARC-Type", "response"),
        ("WARC-Record-ID", name),
        ("WARC-Date", _date(fetched.started_at)),
        ("WARC-Target-URI", fetched.url),
        ("WARC-Payload-Digest", payload_digest(fetched.body)),
        ("Content-Type", "application/http;msgtype=response"),
    ]
    if fetched.address:
        fields.insert(4, ("WARC-IP-Address", fetched.address))
    # A document may be whole and its conversion not.
    if fetched.truncated and not fetched.converted:
        fields.append(("WARC-Truncated", fetched.truncated))
    return _member(fields, http) + (_conversion_record(fetched, name) if fetched.converted else b"")


def _conversion_record(fetched: FetchResult, response: str) -> bytes:
    """A `conversion` record (WARC 1.1, 6.8): a document as HTML, or the DOM that a browser made of the response."""
    fields = [
        ("WARC-Type", "conversion"),
        ("WARC-Record-ID", _record_id(f"converted {fetched.url} {fetched.started_at}")),
        ("WARC-Refers-To", response),
        ("WARC-Date", _date(fetched.started_at)),
        ("WARC-Target-URI", fetched.url),
        ("WARC-Block-Digest", payload_digest(fetched.converted)),
        ("Content-Type", "text/html; charset=utf-8"),
    ]
    if fetched.truncated:
        fields.append(("WARC-Truncated", fetched.truncated))
    return _member(fields, fetched.converted)


def info_record(file_name: str, software: str, at: float) -> bytes:
    """The `warcinfo` record that opens a file."""
    body = f"software: {software}\r\nformat: WARC File Format 1.1\r\n".encode()
    fields = [
        ("WARC-Type", "warcinfo"),
        ("WARC-Record-ID", _record_id(f"{file_name} {at}")),
        ("WARC-Date", _date(at)),
        ("WARC-Filename", file_name),
        ("Content-Type", "application/warc-fields"),
    ]
    return _member(fields, body)


def _http_block(fetched: FetchResult) -> bytes:
    lines = [f"HTTP/1.1 {fetched.status} "]
    lines += [f"{k}: {v}" for k, v in fetched.headers if k.lower() not in _TRANSFER]
    lines.append(f"Content-Length: {len(fetched.body)}")
    head = "\r\n".join(line.replace("\r", " ").replace("\n", " ") for line in lines)
    return head.encode("utf-8", "surrogateescape") + b"\r\n\r\n" + fetched.body


def _member(fields: list[tuple[str, str]], block: bytes) -> bytes:
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    raw = f"WARC/1.1\r\n{head}Content-Length: {len(block)}\r\n\r\n".encode("utf-8", "surrogateescape")
    compressed: bytes = isal_zlib.compress(raw + block + b"\r\n\r\n", _LEVEL, _GZIP)
    return compressed


def _record_id(name: str) -> str:
    """A name-based UUID of our own making (RFC 9562, version 8): `uuid.uuid5` takes seven times as long (measured)."""
    h = xxhash.xxh3_128_hexdigest(name.encode("utf-8", "surrogatepass"))
    return f"<urn:uuid:{h[:8]}-{h[8:12]}-8{h[13:16]}-a{h[17:20]}-{h[20:]}>"


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class WarcFiles:
    """How WARC files are opened and forced onto the disk. A simulation replaces it."""

    def open(self, path: Path, mode: str) -> BinaryIO:
        """Open a file for binary reading and writing."""
        return cast(BinaryIO, path.open(mode))

    def sync(self, file: BinaryIO) -> None:
        """Force the content of a file onto the disk."""
        os.fdatasync(file.fileno())

    def sync_folder(self, folder: Path) -> None:
        """Force the names of new files onto the disk."""
        place = os.open(folder, os.O_RDONLY)
        os.fsync(place)
        os.close(place)


class RecordWriter(Protocol):
    """Stores the records of pages. What was appended is part of the next commit, after `flush`."""

    position: tuple[int, int]
    synced_position: tuple[int, int]

    def resume(self, number: int, offset: int, /) -> None: ...

    def append(self, record: bytes, at: float) -> RecordPosition: ...

    def flush(self) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class RecordFiles(Protocol):
    """The files that hold the records of a collection: WARC files in its folder, or chunks of a database."""

    def open_writer(self, software: str) -> RecordWriter: ...

    # What is missing.
    def problems(self) -> Iterator[str]: ...

    # Files that no row names; only where no process writes.
    def unused(self) -> Sequence[str]: ...

    # Inside a unit of work, before `delete_unused`.
    def delete_unused_rows(self) -> None: ...

    # Files that no row names; returns how many stay because they are read.
    def delete_unused(self) -> int: ...

    # Local ones, so that records are read from where they are stored.
    def delete_copies(self) -> None: ...


class FolderRecords:
    """See `RecordFiles`: WARC files in the folder of a collection."""

    def __init__(self, folder: Path, db: Database) -> None:
        self._folder = folder
        self._db = db

    def open_writer(self, software: str) -> "WarcWriter":
        return WarcWriter(self._folder, software)

    def problems(self) -> Iterator[str]:
        """The last file may be longer than what was committed (a crash; truncated at the next start), never shorter."""
        path, offset = self._folder / warc_name(self._meta("warc_number", 1)), self._meta("warc_offset", 0)
        size = path.stat().st_size if path.exists() else 0
        if size < offset:
            yield f"{path.name}: {offset - size} bytes are missing at the end"

    def unused(self) -> Sequence[str]:
        """Those of a compaction are deleted without a report."""
        return ()

    def delete_unused_rows(self) -> None:
        """Rows name records in files, and no other rows."""

    def delete_unused(self) -> int:
        """Delete files that a compaction replaced.

        While another process reads the collection (a merge, an export) they stay, and the next compaction deletes them.
        """
        first = self._meta(FIRST_WARC_KEY, 1)
        old = [path for path in self._folder.glob("pages-*.warc.gz") if path.name < warc_name(first)]
        with try_exclusive_lock(self._folder) as free:
            for path in old if free else ():
                path.unlink()
        return 0 if free else len(old)

    def delete_copies(self) -> None:
        """There are none."""

    def _meta(self, name: str, default: int) -> int:
        value = read_value(self._db, "SELECT value FROM meta WHERE name = ?", (name,))
        return default if value is None else int(value)


class WarcWriter:
    """Appends records to `pages-00001.warc.gz`, `pages-00002.warc.gz`, … of one folder.

    Invariant: `position` (file number, offset) names the end of the last record appended; it is committed with
    the page rows, and after a crash the file is truncated to it.
    """

    def __init__(
        self, folder: Path, software: str, rotate_bytes: int = ROTATE_BYTES, files: WarcFiles | None = None
    ) -> None:
        self._folder = folder
        self._files = files or WarcFiles()
        self._software = software
        self._rotate_bytes = rotate_bytes
        self._file: BinaryIO | None = None
        self.position = (1, 0)
        # Up to here the file is synced.
        self.synced_position = (1, 0)

    def resume(self, number: int, offset: int) -> None:
        """Continue after the last committed record: what follows it is truncated."""
        self.position = self.synced_position = (number, offset)
        path = self._folder / warc_name(number)
        try:
            size = path.stat().st_size if path.exists() else 0
            if size < offset:
                missing = f"{offset - size} bytes are missing at the end"
                raise CollectionError(
                    f"{path}: {missing}; 'opilio maintain verify --repair' has those pages fetched again"
                )
            for later in self._folder.glob("pages-*.warc.gz"):
                if later.name > path.name:
                    later.unlink()
            self._file = self._files.open(path, "r+b" if path.exists() else "w+b")
            self._file.truncate(offset)
            self._file.seek(offset)
        except OSError as error:
            raise CollectionError(f"{path}: can't be written: {error.strerror}") from error

    def append(self, record: bytes, at: float) -> RecordPosition:
        """Write one record; returns its position."""
        number, offset = self.position
        if offset >= self._rotate_bytes:
            self.sync()
            self.close()
            number, offset = number + 1, 0
        if self._file is None:
            self._file = self._files.open(self._folder / warc_name(number), "w+b")
        if offset == 0:
            offset = self._file.write(info_record(warc_name(number), self._software, at))
        self._file.write(record)
        self.position = (number, offset + len(record))
        return RecordPosition(number, offset, len(record))

    def flush(self) -> None:
        """Write everything to the operating system, so that it survives the end of this process."""
        if self._file is not None:
            self._file.flush()

    def sync(self) -> None:
        """Force everything onto the disk, with the folder for the name of a new file."""
        if self._file is None or self.synced_position == self.position:
            return
        self._file.flush()
        self._files.sync(self._file)
        if self.synced_position[0] != self.position[0] or not self.synced_position[1]:
            self._files.sync_folder(self._folder)
        self.synced_position = self.position

    def close(self) -> None:
        """Close the file. What is committed was flushed before; the rest may be lost."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None


def warc_name(number: int) -> str:
    """
    >>> warc_name(1)
    'pages-00001.warc.gz'
    """
    return f"pages-{number:05d}.warc.gz"


def local_warc(folder: Path, number: int) -> Path:
    """A WARC file of a collection; one of a collection in a database is copied into the folder first."""
    path = folder / warc_name(number)
    if not path.exists() and (folder / LINK_FILE).exists():
        from opilio.store.postgres.chunks import fetch_chunk

        return fetch_chunk(folder, number)
    return path


def read_member(folder: Path, number: int, offset: int, length: int) -> bytes:
    """The gzip member at a position, not decompressed."""
    path = local_warc(folder, number)
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except OSError as error:
        raise CollectionError(f"{path}: {error.strerror}; run 'opilio maintain verify'") from error


def read_record(folder: Path, number: int, offset: int, length: int) -> FetchResult:
    """The stored response at a position."""
    path, data = folder / warc_name(number), read_member(folder, number, offset, length)
    try:
        return parse_response(data)
    except ValueError as error:
        raise CollectionError(f"{path} at {offset}: {error}; run 'opilio maintain verify'") from error


def parse_response(data: bytes) -> FetchResult:
    """The response in a record, with its conversion; ValueError if a record is not whole."""
    record, *conversions = parse_records(data)
    status, headers, body = parse_http(record.block)
    if not status:
        raise ValueError("the record has no HTTP status")
    found = FetchResult(
        url=record.fields.get("warc-target-uri", ""),
        status=status,
        headers=headers,
        body=body,
        address=record.fields.get("warc-ip-address", ""),
        started_at=record.recorded_at,
        truncated=record.fields.get("warc-truncated", ""),
    )
    for about, html in conversions:
        found = replace(found, converted=html, truncated=about.get("warc-truncated", ""))
    return found
