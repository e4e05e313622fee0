"""The reader of WARC records, of Opilio's own files and of other tools': scan a file, or parse a single record.

Own code instead of a library's iterator because the intact records of a damaged file must be found, with the offset of
the damage; because native readers end the process on some damaged input; and because a record is read in some 60 µs.
"""

import base64
import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec
from isal import isal_zlib
from isal.igzip_lib import IsalError

from opilio.core.errors import OfflineWebError

_GZIP_WBITS = 31  # zlib's window bits for one gzip member
# The first piece of a member that is unpacked; each further piece is as long as those before it.
_FIRST_PIECE_BYTES = 1 << 12
_LARGEST_PIECE_BYTES = 1 << 16
_MAGIC = b"\x1f\x8b\x08"
_WARC = b"WARC/"
_RECORD_END = b"\r\n\r\n"
_MAX_HEAD_BYTES = 64 << 10
# Of the search for records behind damage: bytes read and unpacked in vain, beside four times those of the file so far.
_SEARCH_BYTES = 4 << 20
# A record that unpacks to more is a decompression bomb.
MAX_RECORD_BYTES = 256 << 20
# RFC 9112, 2.2: some servers end lines without CR.
_HEADER_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})")
DAMAGED = "damaged"


class ByteBuffer(Protocol):
    """A memory map or bytes."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes: ...

    def find(self, sub: bytes, start: int, /) -> int: ...


class WarcRecord(NamedTuple):
    """A record: its fields by lower-case name, and its block."""

    fields: dict[str, str]
    block: bytes

    @property
    def is_http(self) -> bool:
        """True if the block is an HTTP message, False if it is the bare content."""
        return "application/http" in self.fields.get("content-type", "")

    @property
    def recorded_at(self) -> float:
        """The time of WARC-Date; 0 if it is missing or invalid."""
        try:
            return datetime.fromisoformat(self.fields.get("warc-date", "")).timestamp()
        except (ValueError, OverflowError):
            return 0.0


class HttpMessage(NamedTuple):
    """A recorded HTTP response; the status is 0 if the first line has none."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class ScannedWarcRecord(msgspec.Struct, frozen=True):
    """The location of a record, and the values of its header."""

    offset: int
    length: int
    # response, resource, request, warcinfo, revisit, …; "damaged" for bytes that are not a record
    kind: str
    url: str
    is_http: bool
    detail: str = ""
    status: int = 0  # of the response; 200 for bare content
    recorded_at: float = 0.0


def parse_member(data: bytes) -> WarcRecord:
    """The first of some gzip members; ValueError if one of them is not exactly one whole record."""
    return parse_records(data)[0]


def parse_records(data: bytes) -> list[WarcRecord]:
    """The records in some gzip members; ValueError if one of them is not exactly one whole record."""
    found: list[WarcRecord] = []
    while data or not found:
        unpacker = isal_zlib.decompressobj(wbits=_GZIP_WBITS)
        try:
            raw: bytes = unpacker.decompress(data)
        except IsalError as error:  # type: ignore[misc]  # the stub declares the class as an instance
            raise ValueError(f"unreadable record ({error})") from error
        if not unpacker.eof:
            raise ValueError("unreadable record (incomplete)")
        record, rest = _split_record(raw)
        if rest != _RECORD_END:
            raise ValueError("no whole WARC record")
        found.append(record)
        data = unpacker.unused_data
    return found


def parse_http(message: bytes) -> HttpMessage:
    """Split a raw HTTP response; its body is not decoded."""
    gap = _HEADER_END.search(message)
    head, body = (message[: gap.start()], message[gap.end() :]) if gap else (message, b"")
    _, *lines = head.decode("utf-8", "surrogateescape").replace("\r\n", "\n").split("\n")
    pairs = [line.partition(":") for line in lines]
    return HttpMessage(_status(head), tuple((n.strip(), v.strip()) for n, colon, v in pairs if colon), body)


def payload_digest(body: bytes) -> str:
    """The payload digest of a record."""
    return "sha1:" + base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()


def scan_records(data: ByteBuffer) -> Iterator[ScannedWarcRecord]:
    """Every record of a file in order; damage is a record too, and reading continues at the next intact one."""
    if data[: len(_WARC)] == _WARC:
        yield from _scan_uncompressed(data)
        return
    position, search = 0, _MemberSearch(data)
    while position < len(data):
        member, end, _ = _inflate_member(data, position)
        if member is not None:
            yield _describe_record(member, position, end - position)
            position = end
            continue
        following = search.find(position)
        cut = "truncated" if following == len(data) else "unreadable"
        yield ScannedWarcRecord(position, following - position, DAMAGED, "", False, f"{cut} from byte {position}")
        position = following


def read_record(data: ByteBuffer, offset: int, length: int) -> WarcRecord:
    """The record at an offset from `scan_records`."""
    return read_with_member(data, offset, length)[0]


def read_with_member(data: ByteBuffer, offset: int, length: int) -> tuple[WarcRecord, bytes]:
    """The record at an offset from `scan_records`, and its gzip member; empty if the record is not compressed."""
    packed = data[offset : offset + length]
    raw, member = (packed, b"") if packed.startswith(_WARC) else (_inflate_member(data, offset, length).raw, packed)
    try:
        record, rest = _split_record(raw or b"")
    except ValueError:
        raise OfflineWebError("the record can't be read any more: the archive has changed") from None
    return record, member if rest == _RECORD_END else b""


def _split_record(raw: bytes) -> tuple[WarcRecord, bytes]:
    """The record at the beginning of unpacked bytes, and the bytes after it; ValueError if it is not whole."""
    head, gap, rest = raw.partition(b"\r\n\r\n")
    fields = _parse_fields(head)
    length = _content_length(fields)
    if not gap or not head.startswith(_WARC) or not 0 <= length <= len(rest):
        raise ValueError("no whole WARC record")
    return WarcRecord(fields, rest[:length]), rest[length:]


def _content_length(fields: dict[str, str]) -> int:
    """The length of a record's block; -1 if it is missing or invalid. `int` refuses very long numbers."""
    length = fields.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 19 else -1


def _scan_uncompressed(data: ByteBuffer) -> Iterator[ScannedWarcRecord]:
    position = 0
    while position < len(data):
        head, gap, _ = data[position : position + _MAX_HEAD_BYTES].partition(b"\r\n\r\n")
        size = _content_length(_parse_fields(head))
        if gap and head.startswith(_WARC) and size >= 0:
            end = position + len(head) + len(gap) + size
            # A wrong length must not hide the records after it.
            end = end if end <= len(data) else _next_uncompressed(data, position)
            yield _describe_record(data[position:end], position, end - position)
        else:
            end = _next_uncompressed(data, position)
            yield ScannedWarcRecord(position, end - position, DAMAGED, "", False, f"unreadable from byte {position}")
        while data[end : end + 2] == b"\r\n":
            end += 2
        position = end


def _next_uncompressed(data: ByteBuffer, position: int) -> int:
    found = data.find(b"\r\n\r\n" + _WARC, position + 1)
    return len(data) if found < 0 else found + 4


class _Member(NamedTuple):
    """An unpacked gzip member, None if it is not a whole record; its end, or how far it was read; its size."""

    raw: bytes | None
    end: int
    size: int


def _inflate_member(data: ByteBuffer, offset: int, length: int = 0) -> _Member:
    """The gzip member at an offset; None if it is not one, is truncated, not a WARC record or unpacks to too much."""
    unpacker = isal_zlib.decompressobj(wbits=_GZIP_WBITS)
    parts: list[bytes] = []
    position, size = offset, 0
    try:
        while not unpacker.eof and size <= MAX_RECORD_BYTES:
            step = length or min(max(_FIRST_PIECE_BYTES, position - offset), _LARGEST_PIECE_BYTES)
            piece = data[position : position + step]
            unpacked = unpacker.decompress(piece) if piece else b""
            if not piece or (not size and not _WARC.startswith(unpacked[: len(_WARC)])):
                break
            parts.append(unpacked)
            size += len(unpacked)
            position += len(piece)
    except IsalError:  # type: ignore[misc]  # the stub declares the class as an instance
        return _Member(None, position, size)
    raw = b"".join(parts) if unpacker.eof else b""
    if not raw.startswith(_WARC):
        return _Member(None, position, size)
    return _Member(raw, position - len(unpacker.unused_data), size)


class _MemberSearch:
    """Finds whole records behind damage.

    Bytes that look like the beginning of a member may each unpack up to the end of the file. So that the work grows
    with the size of the file only, what was unpacked in vain is skipped once it is much more than the file so far.
    """

    def __init__(self, data: ByteBuffer) -> None:
        self._data = data
        self._wasted = 0

    def find(self, start: int) -> int:
        """The place of the next whole record at or behind `start`; the end of the data if there is none."""
        while (found := self._data.find(_MAGIC, start)) >= 0:
            member = _inflate_member(self._data, found)
            if member.raw is not None:
                return found
            self._wasted += member.end - found + member.size
            is_too_much = self._wasted > 4 * found + _SEARCH_BYTES
            start = max(found + 1, member.end if is_too_much else 0)
        return len(self._data)


def _describe_record(raw: bytes, offset: int, length: int) -> ScannedWarcRecord:
    try:
        record, rest = _split_record(raw)
    except ValueError:
        url = _parse_fields(raw[:_MAX_HEAD_BYTES].partition(b"\r\n\r\n")[0]).get("warc-target-uri", "").strip("<>")
        return ScannedWarcRecord(
            offset, length, DAMAGED, url, False, f"record at byte {offset} is shorter than its Content-Length"
        )
    if rest.strip(b"\r\n"):
        raise OfflineWebError("the file is not gzip per record; rewrite it with 'warcio recompress'")
    fields = record.fields
    return ScannedWarcRecord(
        offset,
        length,
        fields.get("warc-type", ""),
        fields.get("warc-target-uri", "").strip("<>"),
        record.is_http,
        status=_status(record.block) if record.is_http else 200,
        recorded_at=record.recorded_at,
    )


def _status(message: bytes) -> int:
    found = _STATUS.match(message)
    return int(found[1]) if found else 0


def _parse_fields(head: bytes) -> dict[str, str]:
    lines = head.decode("utf-8", "surrogateescape").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}
