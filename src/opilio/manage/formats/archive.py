"""Export pages for web archives: CDXJ, an index of WARC records, and WACZ, an archive that replay tools open.

A WACZ file is a ZIP of the WARC records, their CDXJ index, the list of pages and a manifest with the hash of each file
(https://specs.webrecorder.net/wacz/1.1.1/). The ZIP does not compress them again, so that players can read single
records. The redirects that lead to its pages are in it too, with their status and target, which is what a crawl keeps
of them.
"""

import gzip
import hashlib
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import urlsplit

import msgspec

from opilio.core.clock import format_iso_time
from opilio.core.errors import CollectionError
from opilio.core.records import FetchResult, media_type
from opilio.core.warc import parse_member
from opilio.frontier.sqlite.queries import redirecting_urls
from opilio.manage.pages import PageTable, StoredPage
from opilio.store.collection import open_readonly
from opilio.store.maintain.integrity import record_problem
from opilio.store.run_tables import MAX_REDIRECTS
from opilio.store.versions import answers_of
from opilio.store.warc import RecordPosition, parse_response, read_member, response_record, warc_name

WACZ_VERSION = "1.1.1"
_WARC_NAME = "data.warc.gz"
_CHUNK_BYTES = 1 << 20
# The same collection gives the same file.
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
_encode = msgspec.json.Encoder().encode


class IndexLine(NamedTuple):
    """A line of CDXJ: search key of the URL, time, and a JSON object."""

    key: str
    timestamp: str
    values: dict[str, str]

    def encode(self) -> bytes:
        return f"{self.key} {self.timestamp} ".encode("utf-8", "replace") + _encode(self.values) + b"\n"


def write_cdxj(pages: PageTable, out: BinaryIO) -> int:
    """Write a sorted CDXJ index of the pages in the WARC files of the collection; returns their number."""
    lines = sorted(
        _index_line(page.url, read_page_record(page), warc_name(page.position.warc), page.position)
        for page in _recorded(pages)
    )
    out.writelines(line.encode() for line in lines)
    return len(lines)


def read_redirects(folder: Path) -> Iterator[FetchResult]:
    """The redirects of a collection, as responses without the headers that were not kept."""
    with open_readonly(folder) as collection:
        for url, key in list(redirecting_urls(collection.connection)):
            found = answers_of(collection.connection, key)
            if found and found[-1].location:
                last = found[-1]
                headers = (("Location", last.location),)
                yield FetchResult(
                    url=url,
                    status=last.status,
                    location=last.location,
                    headers=headers,
                    started_at=last.at,
                )


def write_wacz(pages: PageTable, redirects: Iterable[FetchResult], out: BinaryIO, title: str, software: str) -> int:
    """Write a WACZ file; returns the number of pages. Memory holds the index, not the pages."""
    lines: list[IndexLine] = []
    urls: set[str] = set()
    entries = [_encode({"format": "json-pages-1.0", "id": "pages", "title": title})]
    created = 0.0
    with tempfile.TemporaryFile() as warc:
        for page in _recorded(pages):
            member = read_page_record(page)
            position = RecordPosition(0, warc.tell(), len(member))
            lines.append(_index_line(page.url, member, _WARC_NAME, position))
            urls.add(page.url)
            # The reference validator knows the columns of the first line only: without a title, a row is blank to it.
            shown = page.title or page.url
            entries.append(_encode({"url": page.url, "ts": format_iso_time(page.fetched_at), "title": shown}))
            created = max(created, page.fetched_at)
            warc.write(member)
        for redirect in _leading_to(urls, redirects):
            member = response_record(redirect)
            lines.append(_index_line(redirect.url, member, _WARC_NAME, RecordPosition(0, warc.tell(), len(member))))
            warc.write(member)
        index = b"".join(line.encode() for line in sorted(lines))
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            files = [
                _add(archive, f"archive/{_WARC_NAME}", warc),
                _add_bytes(archive, "indexes/index.cdx.gz", gzip.compress(index, mtime=0)),
                _add_bytes(archive, "pages/pages.jsonl", b"\n".join(entries) + b"\n"),
            ]
            manifest = _encode(
                {
                    "profile": "data-package",
                    "wacz_version": WACZ_VERSION,
                    "title": title,
                    "software": software,
                    "created": format_iso_time(created),
                    "resources": files,
                }
            )
            _add_bytes(archive, "datapackage.json", manifest)
            digest = {"path": "datapackage.json", "hash": _digest(manifest)}
            _add_bytes(archive, "datapackage-digest.json", _encode(digest))
    return len(urls)


def _leading_to(urls: set[str], redirects: Iterable[FetchResult]) -> Iterator[FetchResult]:
    """The redirects that lead to one of these URLs, perhaps by way of others."""
    found = {redirect.url: redirect for redirect in redirects if redirect.url not in urls}
    for redirect in found.values():
        target = redirect.location
        for _ in range(MAX_REDIRECTS):
            if target in urls or target not in found:
                break
            target = found[target].location
        if target in urls:
            yield redirect


def surt_key(url: str) -> str:
    """The key that archives sort and look up URLs by: the host backwards, without www, all in lower case.

    >>> surt_key("http://www.Birds.example.org:8080/Wren?b=2&a=1")
    'org,example,birds:8080)/wren?a=1&b=2'
    """
    parts = urlsplit(url.lower())
    host, colon, port = parts.netloc.rpartition("@")[2].partition(":")
    names = host.split(".")
    if len(names) > 2 and names[0] == "www":
        names = names[1:]
    query = "&".join(sorted(parts.query.split("&"))) if parts.query else ""
    path = parts.path.rstrip("/") or "/"
    return f"{','.join(reversed(names))}{colon}{port}){path}{'?' if query else ''}{query}"


def read_page_record(page: StoredPage) -> bytes:
    """The record of a page as a gzip member, checked: a damaged record would spoil the whole file."""
    member = read_member(page.folder, *page.position)
    if problem := record_problem(member, page.url):
        name = page.folder / warc_name(page.position.warc)
        raise CollectionError(f"{name} at {page.position.offset}: {problem}; run 'opilio maintain verify'")
    return member


def _recorded(pages: PageTable) -> Iterator[StoredPage]:
    return (page for page in pages if page.position.length)


def _index_line(url: str, member: bytes, file_name: str, position: RecordPosition) -> IndexLine:
    fields, _ = parse_member(member)
    response = parse_response(member)
    timestamp = datetime.fromtimestamp(response.started_at, UTC).strftime("%Y%m%d%H%M%S")
    values = {
        "url": url,
        "mime": media_type(response.header("content-type")) or "unk",
        "status": str(response.status),
        "digest": fields.get("warc-payload-digest", ""),
        "length": str(position.length),
        "offset": str(position.offset),
        "filename": file_name,
    }
    return IndexLine(surt_key(url), timestamp, values)


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _add_bytes(archive: zipfile.ZipFile, name: str, data: bytes) -> dict[str, object]:
    archive.writestr(zipfile.ZipInfo(name, _ZIP_TIME), data)
    return {"name": name.rpartition("/")[2], "path": name, "hash": _digest(data), "bytes": len(data)}


def _add(archive: zipfile.ZipFile, name: str, file: BinaryIO) -> dict[str, object]:
    """Copy a file into the archive, in parts."""
    digest, size = hashlib.sha256(), 0
    file.seek(0)
    with archive.open(zipfile.ZipInfo(name, _ZIP_TIME), "w", force_zip64=True) as target:
        while part := file.read(_CHUNK_BYTES):
            digest.update(part)
            size += len(part)
            target.write(part)
    return {"name": name.rpartition("/")[2], "path": name, "hash": f"sha256:{digest.hexdigest()}", "bytes": size}
