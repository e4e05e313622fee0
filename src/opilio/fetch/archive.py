"""A web made of archives: WARC and WACZ files. `ArchiveFetcher` answers requests from them, without the network."""

import lzma
import mmap
import os
import zipfile
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import nsmallest
from pathlib import Path
from typing import Any

import msgspec
import xxhash
from msgspec.structs import replace

from opilio.core.errors import OfflineWebError
from opilio.core.files import write_atomically
from opilio.core.records import FetchResult, url_key
from opilio.core.urls import canonicalize_url, host_of
from opilio.core.warc import (
    DAMAGED,
    ByteBuffer,
    ScannedWarcRecord,
    WarcRecord,
    payload_digest,
    read_with_member,
    scan_records,
)
from opilio.fetch.decoding import RecordedResponse, recorded_response
from opilio.fetch.http import redirect_target

_LOCAL_HEADER_BYTES = 30  # of a ZIP entry, before its name
_ZIP_SUFFIX = ".wacz"
_WARC_SUFFIXES = (".warc", ".warc.gz")
# What the library raises for damaged, encrypted and unknown entries.
_ZIP_ERRORS = (zipfile.BadZipFile, RuntimeError, OSError, ValueError, EOFError, zlib.error, lzma.LZMAError)
# Of a packed WARC file, which is unpacked in memory. The specification of WACZ wants these files stored.
_MAX_UNPACKED_BYTES = 1 << 30
_COLUMN_TYPES = "qqqdh"  # of an index
_MIN_CACHED_RECORDS = 500  # a smaller archive is scanned in 40 ms
_KEEP_INDEX_S = 90 * 86_400.0
_CHECKSUM_BYTES = 8  # at the beginning of a saved index


class _ArchiveIndex(msgspec.Struct, array_like=True):
    """The responses in an archive: URLs, and the values of each as columns of binary numbers."""

    # To know whether the file is still the same.
    path: str
    size: int
    changed_ns: int
    urls: list[str] = []
    columns: list[bytes] = []
    # Of each part that can't be read, and of records that are not whole.
    damage: list[str] = []


class ArchiveWeb:
    """The responses of some archives by canonical URL. If a URL was recorded more than once, the last record counts.

    `cache` is a folder for indexes: an archive that did not change is not scanned again.
    """

    def __init__(self, paths: Sequence[Path], cache: Path | None = None) -> None:
        self._buffers: list[ByteBuffer] = []
        self._numbers: dict[str, int] = {}
        # A line for each archive that is damaged.
        self.problems: list[str] = []
        # Number of the buffer, offset and length of the record, time, status.
        self._columns = _new_columns()
        for path in _archive_files(paths):
            self._add(path, cache)
        if not self._numbers:
            names = ", ".join(map(str, paths))
            raise OfflineWebError(f"{names}: no response in it; give WARC or WACZ files with pages")

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, url: object) -> bool:
        """Is there a response of this canonical URL?"""
        return url in self._numbers

    def find(self, url: str) -> FetchResult | None:
        """The recorded response of a canonical URL, or None."""
        found = self.find_packed(url)
        return None if found is None else unpack_response(found)

    def find_packed(self, url: str) -> FetchResult | None:
        """The same, not yet read: another process can read it from the bytes of the record."""
        number = self._numbers.get(url)
        if number is None:
            return None
        file, offset, length, recorded_at, status = [column[number] for column in self._columns]
        packed = self._buffers[file][offset : offset + length]
        return FetchResult(
            url=url,
            status=status,
            started_at=recorded_at,
            packed=packed,
            size_bytes=_unpacked_size(packed),
        )

    def page_urls(self) -> Iterator[str]:
        """The URLs that answered with status 200 and may be pages."""
        statuses = self._columns[-1]
        for url, number in self._numbers.items():
            if statuses[number] == 200 and _is_page_url(url):
                yield url

    def home_pages(self, most: int) -> list[str]:
        """Pages to start from: those with the shortest URLs, of as many hosts as possible, the largest hosts first."""
        pages: dict[str, list[str]] = {}
        for url in self.page_urls():
            pages.setdefault(host_of(url), []).append(url)
        largest = sorted(pages.values(), key=len, reverse=True)[:most]
        per_host = max(1, most // max(1, len(largest)))
        return [url for urls in largest for url in nsmallest(per_host, urls, key=lambda url: (len(url), url))]

    def _add(self, path: Path, cache: Path | None) -> None:
        buffers = _open_archive(path)
        found = path.stat()
        known = None if cache is None else _load_index(_index_path(cache, path))
        if known is None or (known.path, known.size, known.changed_ns) != (str(path), found.st_size, found.st_mtime_ns):
            known = _ArchiveIndex(str(path), found.st_size, found.st_mtime_ns)
            _fill_index(known, buffers)
            if cache is not None and len(known.urls) >= _MIN_CACHED_RECORDS:
                _save_index(_index_path(cache, path), known)
        if known.damage:
            more = f" and {len(known.damage) - 1} more" if len(known.damage) > 1 else ""
            self.problems.append(f"{path}: damaged ({known.damage[0]}{more}); the other records are read")
        start, first = len(self._columns[0]), len(self._buffers)
        self._numbers.update(zip(known.urls, range(start, start + len(known.urls)), strict=True))
        for column, values in zip(self._columns, known.columns, strict=True):
            column.frombytes(values)
        if first:
            numbers = self._columns[0]
            numbers[start:] = array(numbers.typecode, [number + first for number in numbers[start:]])
        self._buffers += buffers


class ArchiveFetcher:
    """Answers from archives; a URL that they do not contain gets status 404.

    `packed`: pages are not read here but where they are analyzed.
    """

    def __init__(self, web: ArchiveWeb, *, packed: bool = False) -> None:
        self.web = web
        self._packed = packed

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> FetchResult:
        found = self.web.find_packed(url) or FetchResult(url=url, status=404)
        if self._packed and not validators and 200 <= found.status < 300:
            return found
        if found.packed:
            found = unpack_response(found)
        if validators and found.header("etag") and found.header("etag") == validators.get("If-None-Match"):
            return replace(found, status=304, body=b"", size_bytes=0)
        return found

    @property
    def urls(self) -> ArchiveWeb:
        """See `ReadsArchives`."""
        return self.web

    def for_workers(self) -> "ArchiveFetcher":
        """See `ReadsArchives`."""
        return ArchiveFetcher(self.web, packed=True)

    async def close(self) -> None:
        """The files are closed with the last reference to them."""


def unpack_response(packed: FetchResult) -> FetchResult:
    """A response that `find_packed` returned, with headers and body; OfflineWebError if the record is not whole."""
    record, member = read_with_member(packed.packed, 0, len(packed.packed))
    response = recorded_response(record)
    return FetchResult(
        url=packed.url,
        status=response.status,
        location=redirect_target(response.status, response.header("location"), packed.url),
        headers=response.headers,
        body=response.body,
        size_bytes=len(response.body),
        started_at=packed.started_at,
        truncated=record.fields.get("warc-truncated", ""),
        record=member if member and _is_storable(record, response, packed.url) else b"",
        host_signals=packed.host_signals,
    )


def _unpacked_size(record: bytes) -> int:
    """The size of a record as its gzip member states it, in its last bytes (RFC 1952)."""
    return int.from_bytes(record[-4:], "little") if record.startswith(b"\x1f\x8b") else len(record)


def _new_columns() -> list["array[Any]"]:
    return [array(kind) for kind in _COLUMN_TYPES]


def _fill_index(index: _ArchiveIndex, buffers: Sequence[ByteBuffer]) -> None:
    """Scan an archive; OfflineWebError names it if it can't be read."""
    columns = _new_columns()
    try:
        for number, buffer in enumerate(buffers):
            for record in scan_records(buffer):
                if record.kind == DAMAGED:
                    index.damage.append(record.detail)
                if url := _response_url(record):
                    index.urls.append(url)
                    values = (number, record.offset, record.length, record.recorded_at, record.status)
                    for column, value in zip(columns, values, strict=True):
                        column.append(value)
    except OfflineWebError as error:
        raise OfflineWebError(f"{index.path}: {error}") from error
    index.columns = [column.tobytes() for column in columns]


def _index_path(cache: Path, path: Path) -> Path:
    return cache / f"{url_key(str(path)) & (1 << 64) - 1:016x}.index"


def _load_index(path: Path) -> _ArchiveIndex | None:
    """A saved index; None if there is none that can be read, or if it is not as it was written."""
    try:
        data = path.read_bytes()
        index = msgspec.msgpack.decode(data[_CHECKSUM_BYTES:], type=_ArchiveIndex) if _is_intact(data) else None
        os.utime(path)
    except (OSError, msgspec.DecodeError):
        return None
    return index


def _is_intact(data: bytes) -> bool:
    return data[:_CHECKSUM_BYTES] == xxhash.xxh3_64_digest(data[_CHECKSUM_BYTES:])


def _save_index(path: Path, index: _ArchiveIndex) -> None:
    """Save an index, and remove those that were not used for long; without a writable cache nothing is saved."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        data = msgspec.msgpack.encode(index)
        write_atomically(path, xxhash.xxh3_64_digest(data) + data)
        oldest = path.stat().st_mtime - _KEEP_INDEX_S
        for other in path.parent.glob("*.index"):
            if other.stat().st_mtime < oldest:
                other.unlink()


def _response_url(record: ScannedWarcRecord) -> str:
    """The canonical URL of a record that is a response; empty for other records."""
    if record.kind == "resource" or (record.kind == "response" and record.is_http and record.status):
        return canonicalize_url(record.url) or ""
    return ""


def _is_storable(record: WarcRecord, response: RecordedResponse, url: str) -> bool:
    """True if a record is as this crawl would write it: of the canonical URL, the body decoded, with its digest."""
    fields, head = record.fields, record.block[: -len(response.body) or None].lower()
    return (
        record.is_http
        and fields.get("warc-target-uri") == url
        and record.block.endswith(response.body)
        and b"\ncontent-encoding:" not in head
        and b"\ntransfer-encoding:" not in head
        and fields.get("warc-payload-digest") == payload_digest(response.body)
    )


def _is_page_url(url: str) -> bool:
    """False if the name of the file has a suffix that pages do not have, such as .css."""
    _, dot, suffix = url.partition("?")[0].rpartition("/")[2].rpartition(".")
    return not dot or suffix.lower() in ("html", "htm", "xhtml", "php", "asp", "aspx")


def _archive_files(paths: Sequence[Path]) -> Iterator[Path]:
    """The archives; a folder stands for the archives in it."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        inner = sorted(p for p in path.iterdir() if p.name.endswith((_ZIP_SUFFIX, *_WARC_SUFFIXES)))
        if not inner:
            raise OfflineWebError(f"{path}: no WARC or WACZ file in this folder")
        yield from inner


def _open_archive(path: Path) -> list[ByteBuffer]:
    """The WARC files in an archive, or the archive itself, as buffers."""
    try:
        data = _map_file(path)
        return list(_wacz_parts(path, data)) if data[:2] == b"PK" else [data]
    except _ZIP_ERRORS as error:
        reason = getattr(error, "strerror", "") or str(error) or "the archive is cut"
        raise OfflineWebError(f"{path}: can't be read as WARC or WACZ: {reason}") from error


def _wacz_parts(path: Path, data: mmap.mmap) -> Iterator[ByteBuffer]:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.filename.endswith(_WARC_SUFFIXES):
                if entry.compress_type != zipfile.ZIP_STORED:
                    if entry.file_size > _MAX_UNPACKED_BYTES:
                        raise ValueError(f"{entry.filename} is packed and larger than 1 GB: store it unpacked")
                    yield archive.read(entry)
                    continue
                start = entry.header_offset
                header = data[start : start + _LOCAL_HEADER_BYTES]
                names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
                yield _BufferPart(data, start + _LOCAL_HEADER_BYTES + names, entry.file_size)


class _BufferPart:
    """A file stored in another one, without a copy in memory."""

    def __init__(self, data: mmap.mmap, start: int, size: int) -> None:
        self._data = data
        # A damaged archive may name any place.
        self._start = min(start, len(data))
        self._end = min(start + size, len(data))

    def __len__(self) -> int:
        return self._end - self._start

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(len(self))
        return self._data[self._start + start : self._start + max(start, stop)]

    def find(self, sub: bytes, start: int) -> int:
        found = self._data.find(sub, self._start + start, self._end)
        return found - self._start if found >= 0 else -1


def _map_file(path: Path) -> mmap.mmap:
    if not path.stat().st_size:
        raise ValueError("the file is empty")
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # Records are read in the order of the crawl, not of the file.
    with suppress(OSError):
        data.madvise(mmap.MADV_RANDOM)
    return data
