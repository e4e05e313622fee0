"""Reads WARC files from any source: scans all records once, then reads single ones by offset.

Own code instead of a library's iterator because the intact records of a damaged file must be found, with the offset of
the damage, and because one member is decoded in some 60 µs. Independent of webs, labels and caches.
"""

import re
from collections.abc import Iterator
from typing import Protocol

import msgspec
from isal import igzip_lib, isal_zlib

from opilio.core.errors import OfflineWebError
from opilio.fetch.decoding import BodyTooLargeError, Decoder, DecodingError

_GZIP_WBITS = 31  # zlib's window bits for one gzip member
_INFLATE_CHUNK_BYTES = 1 << 16
_MAGIC = b"\x1f\x8b\x08"
# A record that unpacks to more is a decompression bomb.
_MAX_RECORD_BYTES = 256 << 20
_HEADER_END = re.compile(rb"\r?\n\r?\n")  # RFC 9112, 2.2: some servers end lines without CR
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})")


class ByteBuffer(Protocol):
    """A memory map or bytes."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes: ...

    def find(self, sub: bytes, start: int, /) -> int: ...


class ScannedWarcRecord(msgspec.Struct, frozen=True):
    """The location of a record, and the values of its header."""

    offset: int
    length: int
    # response, resource, request, warcinfo, revisit, …; "damaged" for bytes that are not a record
    kind: str
    url: str
    # Is the block an HTTP message, or the bare content?
    is_http: bool
    detail: str = ""
    status: int = 0  # of the response; 200 for bare content


class RecordedResponse(msgspec.Struct, frozen=True):
    """A recorded response: the body decoded, without the headers of its transfer."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        return next((v for k, v in self.headers if k.lower() == name), "")


def scan_records(data: ByteBuffer) -> Iterator[ScannedWarcRecord]:
    """Every record of a file in order; damage is a record too, and reading continues at the next intact one."""
    position = 0
    while position < len(data):
        member, end = _inflate_member(data, position)
        if member is not None and member.startswith(b"WARC/"):
            yield _describe_record(member, position, end - position)
            position = end
            continue
        following = _find_next_member(data, position + 1)
        cut = "truncated" if following == len(data) else "unreadable"
        yield ScannedWarcRecord(position, following - position, "damaged", "", False, f"{cut} from byte {position}")
        position = following


def read_response(data: ByteBuffer, offset: int, length: int) -> RecordedResponse:
    """The response in the record at an offset from `scan_records`."""
    member, _ = _inflate_member(data, offset, length)
    if member is None:
        raise OfflineWebError(f"the record at byte {offset} can't be read any more: the file has changed")
    head, _, block = member.partition(b"\r\n\r\n")
    fields = _parse_headers(head)
    size = int(fields.get("content-length", "0"))
    if "application/http" not in fields.get("content-type", ""):
        return RecordedResponse(200, (("Content-Type", fields.get("content-type", "text/html")),), block[:size])
    return parse_http_response(block[:size])


def parse_http_response(message: bytes) -> RecordedResponse:
    """Parse a raw HTTP response and decode its body."""
    gap = _HEADER_END.search(message)
    head, body = (message[: gap.start()], message[gap.end() :]) if gap else (message, b"")
    first, *lines = head.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    pairs = [line.partition(":") for line in lines]
    headers = tuple((name.strip(), value.strip()) for name, colon, value in pairs if colon)
    raw = RecordedResponse(_status(first.encode()), headers, body)
    if raw.header("transfer-encoding").lower() == "chunked":
        body = _decode_chunked(body)
    body = _decode_content(body, raw.header("content-encoding"))
    kept = tuple((k, v) for k, v in headers if k.lower() not in _TRANSFER_HEADERS)
    return RecordedResponse(raw.status, kept, body)


_TRANSFER_HEADERS = frozenset(
    {"content-encoding", "transfer-encoding", "content-length", "connection", "keep-alive", "trailer", "upgrade"}
)


def _inflate_member(data: ByteBuffer, offset: int, length: int | None = None) -> tuple[bytes | None, int]:
    """One unpacked gzip member with its end; None where it is not one, is truncated or unpacks to too much."""
    unpacker = isal_zlib.decompressobj(wbits=_GZIP_WBITS)
    parts: list[bytes] = []
    position, size = offset, 0
    try:
        while not unpacker.eof and size <= _MAX_RECORD_BYTES:
            piece = data[position : position + (length or _INFLATE_CHUNK_BYTES)]
            if not piece:
                return None, position
            parts.append(unpacker.decompress(piece))
            size += len(parts[-1])
            position += len(piece)
    except igzip_lib.IsalError:  # type: ignore[misc]  # isal's stub declares the class as an instance
        return None, position
    if not unpacker.eof:
        return None, position
    return b"".join(parts), position - len(unpacker.unused_data)


def _find_next_member(data: ByteBuffer, start: int) -> int:
    while (found := data.find(_MAGIC, start)) >= 0:
        member, _ = _inflate_member(data, found)
        if member is not None and member.startswith(b"WARC/"):
            return found
        start = found + 1
    return len(data)


def _describe_record(member: bytes, offset: int, length: int) -> ScannedWarcRecord:
    head, gap, block = member.partition(b"\r\n\r\n")
    fields = _parse_headers(head)
    url = fields.get("warc-target-uri", "").strip("<>")
    size = fields.get("content-length", "")
    if not gap or not size.isdigit() or len(block) < int(size):
        return ScannedWarcRecord(
            offset, length, "damaged", url, False, f"record at byte {offset} is shorter than its Content-Length"
        )
    if block[int(size) :].strip(b"\r\n"):
        raise OfflineWebError("the file is not gzip per record; rewrite it with 'warcio recompress'")
    http = "application/http" in fields.get("content-type", "")
    return ScannedWarcRecord(
        offset, length, fields.get("warc-type", ""), url, http, status=_status(block) if http else 200
    )


def _status(message: bytes) -> int:
    found = _STATUS.match(message)
    return int(found[1]) if found else 0


def _parse_headers(head: bytes) -> dict[str, str]:
    lines = head.decode("utf-8", "surrogateescape").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _decode_chunked(body: bytes) -> bytes:
    """The content of a chunked body; the body itself if it is not chunked (some tools undo it)."""
    parts: list[bytes] = []
    position = 0
    while position < len(body):
        line_end = body.find(b"\r\n", position)
        try:
            size = int(body[position:line_end].split(b";")[0], 16)
        except ValueError:
            return body if not parts else b"".join(parts)
        if size == 0:
            break
        parts.append(body[line_end + 2 : line_end + 2 + size])
        position = line_end + 4 + size
    return b"".join(parts)


def _decode_content(body: bytes, encodings: str) -> bytes:
    """The content of a compressed body; the body itself if it is not compressed that way (some tools undo it)."""
    try:
        return Decoder(encodings, _MAX_RECORD_BYTES).feed(body) or body
    except (BodyTooLargeError, DecodingError):
        return body
