"""A web made of archives: WARC and WACZ files. `ArchiveFetcher` answers requests from them, without the network."""

import mmap
import zipfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import nsmallest
from pathlib import Path

from msgspec.structs import replace

from opilio.core.errors import OfflineWebError
from opilio.core.records import FetchResult
from opilio.core.urls import canonicalize_url, host_of
from opilio.core.warc import (
    ByteBuffer,
    ScannedWarcRecord,
    WarcRecord,
    payload_digest,
    read_with_member,
    scan_records,
)
from opilio.fetch.http import redirect_target
from opilio.fetch.recorded import RecordedResponse, recorded_response

_LOCAL_HEADER_BYTES = 30  # of a ZIP entry, before its name
_ZIP_SUFFIX = ".wacz"
_WARC_SUFFIXES = (".warc", ".warc.gz")


class ArchiveWeb:
    """The responses of some archives by canonical URL. If a URL was recorded more than once, the last record counts."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._buffers: list[ByteBuffer] = []
        self._numbers: dict[str, int] = {}
        self._places = [array("q"), array("q"), array("q")]
        self._recorded_at = array("d")
        self._statuses = array("h")
        for path in paths:
            for buffer in _open_archive(path):
                self._add(path, buffer)
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
        number = self._numbers.get(url)
        if number is None:
            return None
        file, offset, length = (column[number] for column in self._places)
        record, member = read_with_member(self._buffers[file], offset, length)
        response = recorded_response(record)
        return FetchResult(
            url=url,
            status=response.status,
            location=redirect_target(response.status, response.header("location"), url),
            headers=response.headers,
            body=response.body,
            size_bytes=len(response.body),
            started_at=self._recorded_at[number],
            truncated=record.fields.get("warc-truncated", ""),
            record=member if member and _is_storable(record, response, url) else b"",
        )

    def page_urls(self) -> Iterator[str]:
        """The URLs that answered with status 200 and may be pages."""
        for url, number in self._numbers.items():
            if self._statuses[number] == 200 and _is_page_url(url):
                yield url

    def home_pages(self, most: int) -> list[str]:
        """Pages to start from: those with the shortest URLs, of as many hosts as possible, the largest hosts first."""
        pages: dict[str, list[str]] = {}
        for url in self.page_urls():
            pages.setdefault(host_of(url), []).append(url)
        largest = sorted(pages.values(), key=len, reverse=True)[:most]
        per_host = max(1, most // max(1, len(largest)))
        return [url for urls in largest for url in nsmallest(per_host, urls, key=lambda url: (len(url), url))]

    def _add(self, path: Path, buffer: ByteBuffer) -> None:
        file = len(self._buffers)
        self._buffers.append(buffer)
        try:
            for record in scan_records(buffer):
                if url := _response_url(record):
                    self._numbers[url] = len(self._recorded_at)
                    for column, value in zip(self._places, (file, record.offset, record.length), strict=True):
                        column.append(value)
                    self._recorded_at.append(record.recorded_at)
                    self._statuses.append(record.status)
        except OfflineWebError as error:
            raise OfflineWebError(f"{path}: {error}") from error


class ArchiveFetcher:
    """Answers from archives; a URL that they do not contain gets status 404."""

    def __init__(self, web: ArchiveWeb) -> None:
        self.web = web

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> FetchResult:
        found = self.web.find(url) or FetchResult(url=url, status=404)
        if validators and found.header("etag") and found.header("etag") == validators.get("If-None-Match"):
            return replace(found, status=304, body=b"", size_bytes=0)
        return found

    async def close(self) -> None:
        """The files are closed with the last reference to them."""


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


def _open_archive(path: Path) -> Iterator[ByteBuffer]:
    """The WARC files in an archive, or the archive itself, as buffers; a folder stands for the archives in it."""
    if path.is_dir():
        inner = sorted(p for p in path.iterdir() if p.name.endswith((_ZIP_SUFFIX, *_WARC_SUFFIXES)))
        if not inner:
            raise OfflineWebError(f"{path}: no WARC or WACZ file in this folder")
        for each in inner:
            yield from _open_archive(each)
        return
    try:
        data = _map_file(path)
        if data[:2] == b"PK":
            yield from _wacz_parts(path, data)
        else:
            yield data
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", "") or str(error)
        raise OfflineWebError(f"{path}: can't be read as WARC or WACZ: {reason}") from error


def _wacz_parts(path: Path, data: mmap.mmap) -> Iterator[ByteBuffer]:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.filename.endswith(_WARC_SUFFIXES):
                if entry.compress_type != zipfile.ZIP_STORED:
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
        self._start = start
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
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # Records are read in the order of the crawl, not of the file.
    with suppress(OSError):
        data.madvise(mmap.MADV_RANDOM)
    return data
